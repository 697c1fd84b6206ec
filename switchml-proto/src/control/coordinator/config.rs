//! What a coordinator is told.

use core::fmt;
use core::time::Duration;

use crate::control::InvalidConfig;
use crate::ids::{ChunkSize, LaneCount, Window};

/// What an aggregator has to give.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct CoordinatorConfig {
    /// Slots in each lane, 1 to 16,384.
    pub slots: u16,
    /// Lanes, each with its own UDP port (W-9).
    pub lanes: LaneCount,
    /// The largest chunk that its slots hold.
    pub largest_chunk: ChunkSize,
    /// How long a member may be silent, 20 ms to a day; 5 s by default.
    pub lease: Duration,
    /// How long a job may take from its first join to its last; 10 min by default.
    pub join_timeout: Duration,
    /// Secret random octets, new at every start: cookies, session and job numbers come from them (C-1, C-2).
    pub seed: [u8; 32],
}

impl CoordinatorConfig {
    const SHORTEST_LEASE: Duration = Duration::from_millis(20);
    const LONGEST_LEASE: Duration = Duration::from_secs(24 * 60 * 60);

    /// `slots` slots of the default chunk in each of `lanes` lanes, with the default lease and join timeout.
    #[must_use]
    pub const fn new(slots: u16, lanes: LaneCount, seed: [u8; 32]) -> Self {
        Self {
            slots,
            lanes,
            largest_chunk: ChunkSize::DEFAULT,
            lease: Duration::from_secs(5),
            join_timeout: Duration::from_secs(600),
            seed,
        }
    }

    pub(super) fn check(&self) -> Result<(), InvalidConfig> {
        let Self { slots, lease, .. } = *self;
        if slots == 0 || usize::from(slots) > Window::MAX {
            return Err(InvalidConfig::Slots { slots });
        }
        if !(Self::SHORTEST_LEASE..=Self::LONGEST_LEASE).contains(&lease) {
            return Err(InvalidConfig::Lease { lease });
        }
        Ok(())
    }

    /// The lease as it travels; a day is 86,400,000 ms.
    pub(super) const fn lease_millis(&self) -> u32 {
        self.lease.as_millis() as u32
    }
}

/// Keeps the seed to itself.
impl fmt::Debug for CoordinatorConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { slots, lanes, largest_chunk, lease, join_timeout, seed: _ } = self;
        f.debug_struct("CoordinatorConfig")
            .field("slots", slots)
            .field("lanes", lanes)
            .field("largest_chunk", largest_chunk)
            .field("lease", lease)
            .field("join_timeout", join_timeout)
            .finish_non_exhaustive()
    }
}

#[cfg(feature = "defmt")]
impl defmt::Format for CoordinatorConfig {
    fn format(&self, f: defmt::Formatter<'_>) {
        let Self { slots, lanes, largest_chunk, lease, join_timeout, seed: _ } = self;
        defmt::write!(
            f,
            "CoordinatorConfig {{ slots: {}, lanes: {}, largest_chunk: {}, lease: {}, join_timeout: {}, .. }}",
            slots,
            lanes,
            largest_chunk,
            lease,
            join_timeout
        );
    }
}
