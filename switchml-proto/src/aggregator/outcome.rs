//! What an aggregator answers to a datagram.

use core::fmt;

use super::Kernels;
use crate::ids::{JobId, Rank};
use crate::wire::{DataError, Header};

/// What to do about a datagram; each outcome is already counted.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[must_use = "a reply that is not sent is a lost result"]
#[allow(clippy::exhaustive_enums, reason = "the outcomes are what A-1 to A-5 say")]
pub enum Egress<'a> {
    /// The contribution was taken; others of the phase are missing. Nothing to send.
    Consume,
    /// The contribution had been taken before, and others are missing. Nothing to send.
    Ignore,
    /// The datagram changed nothing. Nothing to send.
    Reject(Reject),
    /// The phase was complete before: its result goes to the one that asked again, [`Reply::rank`].
    Unicast(Reply<'a>),
    /// The phase is complete now: its result goes to every member of [`Reply::job`].
    Multicast(Reply<'a>),
}

/// The result of a phase, still in the pool.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Reply<'a> {
    pub(super) header: Header,
    pub(super) elements: &'a [i32],
    pub(super) rank: Rank,
    pub(super) kernels: &'a Kernels,
}

impl Reply<'_> {
    /// The job whose phase it is.
    #[must_use]
    pub const fn job(&self) -> JobId {
        self.header.job
    }

    /// Who sent the datagram that this answers.
    #[must_use]
    pub const fn rank(&self) -> Rank {
        self.rank
    }

    /// What the result says besides its elements.
    #[must_use]
    pub const fn header(&self) -> &Header {
        &self.header
    }

    /// Octets of the datagram: header and elements, 10 to 8,202.
    #[must_use]
    pub const fn datagram_len(&self) -> usize {
        self.header.datagram_len()
    }

    /// Writes the datagram at the start of `buffer`, straight from the pool, and returns its length in
    /// octets.
    ///
    /// # Panics
    /// If `buffer` is shorter than [`datagram_len`](Self::datagram_len).
    pub fn emit(&self, buffer: &mut [u8]) -> usize {
        (self.kernels.emit)(self.elements, self.header.emit(buffer));
        self.datagram_len()
    }
}

/// Why a datagram is rejected; it changed nothing, and is counted under this reason.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum Reject {
    /// No data packet: W-1, W-2, W-5's reserved bit or W-8 is broken.
    Malformed(DataError),
    /// The job is not that of the sender (W-3).
    ForeignJob,
    /// The slot is outside the lane, or not the one that belongs to the seq (W-5).
    Slot,
    /// The version is not the one that belongs to the seq (W-5).
    Version,
    /// The size is neither the job's nor that of an exponent-only packet.
    Size,
    /// The digest is none that a worker sends, 1 to 127 (W-7).
    Digest,
    /// The seq is that of no phase that the slot holds or may begin: an old packet, as a rule.
    Stale,
    /// The source address is that of no member (W-10).
    UnknownSource,
}

impl Reject {
    /// A name for each reason, in `snake_case` for metrics, in the order of [`index`](Self::index).
    pub const NAMES: [&str; 8] =
        ["malformed", "foreign_job", "slot", "version", "size", "digest", "stale", "unknown_source"];

    /// Number of the reason, an index into [`NAMES`](Self::NAMES).
    #[must_use]
    pub const fn index(self) -> usize {
        match self {
            Self::Malformed(_) => 0,
            Self::ForeignJob => 1,
            Self::Slot => 2,
            Self::Version => 3,
            Self::Size => 4,
            Self::Digest => 5,
            Self::Stale => 6,
            Self::UnknownSource => 7,
        }
    }

    /// The reason's name for metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        Self::NAMES[self.index()]
    }
}

impl fmt::Display for Reject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Malformed(error) => return write!(f, "malformed: {error}"),
            Self::ForeignJob => "the job is not the sender's",
            Self::Slot => "the slot does not belong to the seq",
            Self::Version => "the version does not belong to the seq",
            Self::Size => "the size is not the job's",
            Self::Digest => "the digest is not from 1 to 127",
            Self::Stale => "the seq is of no phase in the slot, nor of its next",
            Self::UnknownSource => "the source has not joined",
        })
    }
}
