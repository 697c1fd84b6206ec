//! Status: how far a phase is, and when each member was last heard (C-4).

use zerocopy::{FromBytes, IntoBytes};

use super::{ControlError, Writer, kind, prefix, unused};
use crate::ids::{JobId, LaneId, Rank, Seq, SessionId, WorkerSet, WorldSize};
use crate::wire::raw;

/// Age of a rank that was never heard, and of one heard 65,535 ms ago or longer.
pub const STATUS_AGE_UNKNOWN: u16 = u16::MAX;

/// What the aggregator knows of a phase and of the members (C-4).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[allow(clippy::exhaustive_structs, reason = "the fields of the message")]
pub struct StatusReport {
    /// The session.
    pub session: SessionId,
    /// The lane asked about.
    pub lane: LaneId,
    /// The packet asked about.
    pub seq: Seq,
    /// Its phase.
    pub phase: PhaseState,
    /// Ranks that the phase waits for, all below the world size.
    pub missing: WorkerSet,
    /// Number of workers.
    pub world_size: WorldSize,
    /// Milliseconds since each rank's last keep-alive, at most [`STATUS_AGE_UNKNOWN`]. What is beyond the world size
    /// is not sent, and is 0 when received.
    pub ages_millis: [u16; WorldSize::MAX],
}

/// How far a phase is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
#[repr(u8)]
pub enum PhaseState {
    /// No packet of it has arrived, or another phase has taken its place.
    Unknown = 0,
    /// Some workers' packets have arrived.
    Open = 1,
    /// All have.
    Complete = 2,
}

impl StatusReport {
    pub(super) fn parse(head: &raw::Head, body: &[u8]) -> Result<Self, ControlError> {
        let (raw, ages) = prefix::<raw::Status>(body)?;
        let world_size = WorldSize::new(raw.world_size.into()).or(Err(ControlError::Value))?;
        let ages = <[raw::Age]>::ref_from_bytes(ages).or(Err(ControlError::Length))?;
        if ages.len() != usize::from(world_size.get()) {
            return Err(ControlError::Length);
        }
        unused(&[head.job, head.rank])?;
        unused(raw.reserved.as_bytes())?;
        let missing = WorkerSet::from_bits(raw.missing.get());
        if !missing.without(WorkerSet::all(world_size)).is_empty() {
            return Err(ControlError::Value);
        }
        let mut ages_millis = [0; WorldSize::MAX];
        for (millis, age) in ages_millis.iter_mut().zip(ages) {
            *millis = age.millis.get();
        }
        Ok(Self {
            session: SessionId(head.token.get()),
            lane: LaneId::new(head.lane.into()).or(Err(ControlError::Value))?,
            seq: Seq(raw.seq.get()),
            phase: match raw.phase {
                0 => PhaseState::Unknown,
                1 => PhaseState::Open,
                2 => PhaseState::Complete,
                _ => return Err(ControlError::Value),
            },
            missing,
            world_size,
            ages_millis,
        })
    }

    pub(super) fn emit(&self, out: &mut Writer<'_>) {
        out.head(kind::STATUS, JobId(0), Rank::ZERO, self.lane, self.session.0);
        out.put(&raw::Status {
            seq: self.seq.0.into(),
            phase: self.phase as u8,
            world_size: self.world_size.get(),
            reserved: 0.into(),
            missing: self.missing.bits().into(),
        });
        for &millis in &self.ages_millis[..usize::from(self.world_size.get())] {
            out.put(&raw::Age { millis: millis.into() });
        }
    }
}
