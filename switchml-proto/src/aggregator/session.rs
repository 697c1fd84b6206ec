//! Entries of sessions: installed, removed, and looked at by the control machine.

use core::fmt;
use core::ops::Range;

use super::storage::Member;
use super::{Aggregator, Counters, Job, Phase, PhaseStatus, Port, PortEntry, Reply};
use crate::ids::{ChunkSize, JobId, LaneLayout, Rank, Seq, Version, WorkerSet, WorldSize};
use crate::wire::Header;

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
        let layout = session.layout;
        if self.session(session.job).is_some() {
            return Err(InstallError::JobInstalled);
        }
        if layout.index(session.initial_seq) != 0 || layout.version(session.initial_seq) != Version::Zero {
            return Err(InstallError::InitialSeq);
        }
        if usize::from(slots(layout).end) > self.pool.slots() {
            return Err(InstallError::BeyondPool { slots: self.pool.slots() });
        }
        if layout.chunk() > self.pool.largest_chunk() {
            return Err(InstallError::ChunkTooLarge { largest: self.pool.largest_chunk() });
        }
        if let Some(other) = self.sessions().find(|other| overlap(layout, other.layout)) {
            return Err(InstallError::Overlap { job: other.job });
        }
        let Some(entry) = self.jobs.iter_mut().find(|entry| entry.session.is_none()) else {
            return Err(InstallError::NoJobEntry);
        };
        entry.session = Some(*session);
        let window = u32::from(layout.window().get());
        let mut seq = session.initial_seq.minus(2 * window);
        for slot in self.pool.lane_mut(layout).chunks_exact_mut(2) {
            slot[Version::Zero.index()] = Phase::before(seq);
            slot[Version::One.index()] = Phase::before(seq.plus(window));
            seq = seq.plus(1);
        }
        Ok(())
    }

    /// Gives a port to a member that has joined (W-10); the caller keeps which source address is which port.
    ///
    /// # Errors
    /// [`InstallError`] if the job is not installed, has no such rank, or the rank has its port, or no entry
    /// is free.
    pub fn bind(&mut self, job: JobId, rank: Rank) -> Result<Port, InstallError> {
        let session = *self.session(job).ok_or(InstallError::UnknownJob)?;
        if rank.get() >= session.world_size.get() {
            return Err(InstallError::Rank);
        }
        let bound = |member: &Member| member.session.job == job && member.rank == rank;
        if self.ports.iter().any(|entry| entry.member.as_ref().is_some_and(bound)) {
            return Err(InstallError::RankBound);
        }
        for (port, entry) in (0..=u16::MAX).map(Port).zip(self.ports.iter_mut()) {
            if entry.member.is_none() {
                *entry = PortEntry { member: Some(Member { session, rank }), counters: Counters::ZERO };
                return Ok(port);
            }
        }
        Err(InstallError::NoPortEntry)
    }

    /// Removes a session: first its entries, with the ports of its members, then its slots are reset (C-3).
    /// No-op for a job that is not installed. The caller forgets the ports before it binds others.
    pub fn remove(&mut self, job: JobId) {
        let Some(&Session { layout, .. }) = self.session(job) else {
            return;
        };
        for entry in self.ports.iter_mut() {
            if entry.member.as_ref().is_some_and(|member| member.session.job == job) {
                *entry = PortEntry::EMPTY;
            }
        }
        for entry in self.jobs.iter_mut() {
            if entry.session.as_ref().is_some_and(|session| session.job == job) {
                *entry = Job::EMPTY;
            }
        }
        self.pool.lane_mut(layout).fill(Phase::EMPTY);
    }

    /// Where the phase of packet `seq` stands (C-4).
    #[must_use]
    pub fn phase(&self, job: JobId, seq: Seq) -> PhaseStatus {
        let Some(session) = self.session(job) else {
            return PhaseStatus::Unknown;
        };
        let phase = self.pool.phase(session.layout, seq);
        if phase.seq == seq { PhaseStatus::of(phase, session.world_size) } else { PhaseStatus::Unknown }
    }

    /// The stored result of packet `seq` once more, as a reply to `rank`; none unless the phase is complete and still
    /// there. For a caller that had no room for all copies of a multicast: it sends the others from here, and takes no
    /// datagram of the lane before it has.
    #[must_use]
    pub fn result(&self, job: JobId, seq: Seq, rank: Rank) -> Option<Reply<'_>> {
        let session = self.session(job)?;
        let phase = self.pool.phase(session.layout, seq);
        let complete =
            phase.seq == seq && PhaseStatus::of(phase, session.world_size) == PhaseStatus::Complete;
        let Phase { size, exponent, digest, .. } = *phase;
        let header = Header::new(job, session.layout, seq, size, exponent, digest);
        complete.then(|| self.pool.reply(&header, rank))
    }

    /// The ranks that some open phase of the job waits for: if one of them has left, the phase can no longer
    /// complete (C-3). Looks at every slot of the job.
    #[must_use]
    pub fn missing(&self, job: JobId) -> WorkerSet {
        let Some(session) = self.session(job) else {
            return WorkerSet::EMPTY;
        };
        let all = WorkerSet::all(session.world_size);
        self.pool
            .lane(session.layout)
            .iter()
            .filter(|phase| !phase.seen.is_empty())
            .fold(WorkerSet::EMPTY, |missing, phase| missing.or(all.without(phase.seen)))
    }

    /// Every version of every slot of the job, in order, for an operator to look at; nothing for an unknown
    /// job.
    pub fn dump(&self, job: JobId) -> impl Iterator<Item = SlotView> {
        self.session(job).into_iter().flat_map(|session| {
            let versions =
                slots(session.layout).flat_map(|slot| [(slot, Version::Zero), (slot, Version::One)]);
            versions.zip(self.pool.lane(session.layout)).map(|((slot, version), phase)| SlotView {
                slot,
                version,
                seq: phase.seq,
                status: PhaseStatus::of(phase, session.world_size),
            })
        })
    }

    fn sessions(&self) -> impl Iterator<Item = &Session> {
        self.jobs.iter().filter_map(|entry| entry.session.as_ref())
    }

    fn session(&self, job: JobId) -> Option<&Session> {
        self.sessions().find(|session| session.job == job)
    }
}

fn slots(layout: LaneLayout) -> Range<u16> {
    // A layout ends within 14 bits.
    layout.base()..layout.base() + layout.window().get()
}

fn overlap(one: LaneLayout, other: LaneLayout) -> bool {
    let (one, other) = (slots(one), slots(other));
    one.start < other.end && other.start < one.end
}

impl PhaseStatus {
    fn of(phase: &Phase, world_size: WorldSize) -> Self {
        if phase.seen.is_empty() {
            Self::Unknown
        } else if phase.seen == WorkerSet::all(world_size) {
            Self::Complete
        } else {
            Self::Open { seen: phase.seen }
        }
    }
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
