//! Entries of sessions: installed, removed, and looked at by the control machine.

use core::fmt;

use super::{Aggregator, Phase, Port};
use crate::ids::{ChunkSize, JobId, LaneLayout, Rank, Seq, Version, WorkerSet, WorldSize};

/// What an aggregator knows of one session in its lane.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[allow(clippy::exhaustive_structs, reason = "the caller builds it; section 3 says what is in it")]
pub struct Session {
    /// The session's number (W-3).
    pub job: JobId,
    /// Workers whose contributions make a phase complete.
    pub world_size: WorldSize,
    /// Its slots in this lane, and the size of its chunks.
    pub layout: LaneLayout,
    /// The first seq, a multiple of 2W.
    pub initial_seq: Seq,
}

impl Aggregator<'_> {
    /// Makes the entries of a session: its slots accept their first packets and hold no result.
    ///
    /// # Errors
    /// [`InstallError`] says what is in the way; nothing is changed then.
    pub fn install(&mut self, session: &Session) -> Result<(), InstallError> {
        todo!()
    }

    /// Gives a port to a member that has joined (W-10); the caller keeps which source address is which port.
    ///
    /// # Errors
    /// [`InstallError`] if the job is not installed, has no such rank, or the rank has its port, or no entry is free.
    pub fn bind(&mut self, job: JobId, rank: Rank) -> Result<Port, InstallError> {
        todo!()
    }

    /// Removes a session: first its entries, with the ports of its members, then its slots are reset (C-3). No-op for
    /// a job that is not installed. The caller forgets the ports before it binds others.
    pub fn remove(&mut self, job: JobId) {
        todo!()
    }

    /// Where the phase of packet `seq` stands (C-4).
    #[must_use]
    pub fn phase(&self, job: JobId, seq: Seq) -> PhaseStatus {
        todo!()
    }

    /// The ranks that some open phase of the job waits for: if one of them has left, the phase can no longer complete
    /// (C-3). Looks at every slot of the job.
    #[must_use]
    pub fn missing(&self, job: JobId) -> WorkerSet {
        todo!()
    }

    /// Every version of every slot of the job, in order, for an operator to look at; nothing for an unknown job.
    pub fn dump(&self, job: JobId) -> impl Iterator<Item = SlotView> {
        core::iter::empty()
    }
}

/// Where a phase stands.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[allow(clippy::exhaustive_enums, reason = "a phase has no other states")]
pub enum PhaseStatus {
    /// Nobody contributed, or it is overwritten, or there is no such job.
    Unknown,
    /// Some rank has contributed, and some has not.
    Open {
        /// The ranks that have.
        seen: WorkerSet,
    },
    /// All ranks have contributed; the result is there to be asked for again.
    Complete,
}

/// One version of one slot.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub struct SlotView {
    /// Slot in the pool.
    pub slot: u16,
    /// Which of its two buffers.
    pub version: Version,
    /// The seq of the phase it holds; while the status is unknown, one that never comes.
    pub seq: Seq,
    /// Where the phase stands.
    pub status: PhaseStatus,
}

/// Why an entry is not made.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum InstallError {
    /// The job is already there.
    JobInstalled,
    /// The job is not there.
    UnknownJob,
    /// The initial seq is no multiple of 2W.
    InitialSeq,
    /// The slots go beyond the pool.
    BeyondPool {
        /// Slots in the pool.
        slots: usize,
    },
    /// Another job has some of the slots.
    Overlap {
        /// The other job.
        job: JobId,
    },
    /// The chunk is larger than the pool's.
    ChunkTooLarge {
        /// The largest that the pool takes.
        largest: ChunkSize,
    },
    /// The rank is not below the job's world size.
    Rank,
    /// The rank has its port.
    RankBound,
    /// No entry for a job is free.
    NoJobEntry,
    /// No entry for a port is free.
    NoPortEntry,
}

impl fmt::Display for InstallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match *self {
            Self::JobInstalled => "the job is installed already",
            Self::UnknownJob => "the job is not installed",
            Self::InitialSeq => "the initial seq is no multiple of twice the window",
            Self::BeyondPool { slots } => return write!(f, "the slots go beyond the pool's {slots}"),
            Self::Overlap { job } => return write!(f, "job {job} has some of the slots"),
            Self::ChunkTooLarge { largest } => {
                return write!(f, "the pool takes chunks of {} elements at most", largest.elements());
            }
            Self::Rank => "the rank is not below the world size",
            Self::RankBound => "the rank has its port already",
            Self::NoJobEntry => "no entry for a job is free",
            Self::NoPortEntry => "no entry for a port is free",
        })
    }
}

impl core::error::Error for InstallError {}
