//! The coordinator's tables, in memory that the caller lends.

use core::net::SocketAddr;

use super::InstallRefused;
use crate::Instant;
use crate::ids::{
    JobId, LaneCount, LaneId, LaneLayout, Nonce, Rank, Seq, SessionId, Window, WorkerSet, WorldSize,
};
use crate::wire::{AbortReason, JobName};

/// The coordinator's memory. What does not fit is refused with a reason (C-1).
///
/// A datagram may look at every entry once or twice: lend what the aggregator shall serve, and no more.
#[derive(Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[allow(clippy::exhaustive_structs, reason = "the caller builds it")]
pub struct CoordinatorStorage<'s> {
    /// One for each job at a time; 256 is the most that job numbers allow.
    pub jobs: &'s mut [JobEntry],
    /// One for each rank of all jobs.
    pub members: &'s mut [MemberEntry],
    /// One for each lane of each rank of all jobs.
    pub ports: &'s mut [PortEntry],
}

/// Room for one job.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct JobEntry(pub(super) Option<Job>);

/// Room for one rank of a job.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct MemberEntry(pub(super) Option<Membership>);

/// Room for one lane of one rank of a job.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct PortEntry(pub(super) Option<Port>);

impl JobEntry {
    /// No job.
    pub const EMPTY: Self = Self(None);
}

impl MemberEntry {
    /// No member.
    pub const EMPTY: Self = Self(None);
}

impl PortEntry {
    /// No port.
    pub const EMPTY: Self = Self(None);
}

/// Which job entry something belongs to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub(super) struct JobIndex(pub(super) u16);

#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub(super) struct Job {
    pub(super) name: JobName,
    pub(super) run: u64,
    pub(super) job: JobId,
    pub(super) session: SessionId,
    pub(super) world_size: WorldSize,
    pub(super) lanes: LaneCount,
    pub(super) layout: LaneLayout,
    pub(super) initial_seq: Seq,
    pub(super) created: Instant,
    pub(super) stage: Stage,
    /// Ranks that have joined with all lanes.
    pub(super) joined: WorkerSet,
    pub(super) left: WorkerSet,
    /// When to ask the plane next whether a phase waits for a rank that left.
    pub(super) next_look: Instant,
    pub(super) census: Census,
}

/// Where a job is in its life.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub(super) enum Stage {
    Joining,
    Ready,
    /// Its members are being told; `plane` says whether slots must be freed afterwards.
    Aborting {
        reason: AbortReason,
        culprit: Option<Rank>,
        plane: Plane,
    },
    /// The plane had no room. Its members' leases run, so that all can be told.
    Refused(InstallRefused),
}

/// Whether the data plane holds a job's slots.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub(super) enum Plane {
    Installed,
    Untouched,
}

/// What a look at all members found out about one job.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub(super) struct Census {
    /// Ranks that still have to be heard of: neither left nor told that the job is over.
    pub(super) present: WorkerSet,
    /// Those of them whose lease has run out.
    pub(super) lapsed: WorkerSet,
    /// When the next lease of the others runs out.
    pub(super) next_lapse: Option<Instant>,
}

impl Census {
    pub(super) const NONE: Self =
        Self { present: WorkerSet::EMPTY, lapsed: WorkerSet::EMPTY, next_lapse: None };
}

/// A rank of a job: the process that joined as it.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub(super) struct Membership {
    pub(super) job: JobIndex,
    pub(super) rank: Rank,
    pub(super) nonce: Nonce,
    /// When it last renewed its lease.
    pub(super) heard: Instant,
    /// One bit for each lane that has joined.
    pub(super) lanes: u16,
    pub(super) standing: Standing,
    /// When its job's abort is due to be sent to it next.
    pub(super) abort_due: Instant,
    /// How often it was sent; each time another lane takes it.
    pub(super) aborts_sent: u32,
}

/// What a member still owes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub(super) enum Standing {
    /// To renew its lease.
    Present,
    /// Nothing: it left.
    Left,
    /// Nothing: it knows that the job is over, or its lease has run out since.
    Told,
}

/// A lane of a member: the address that it joined from (W-10).
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub(super) struct Port {
    pub(super) job: JobIndex,
    pub(super) rank: Rank,
    pub(super) lane: LaneId,
    pub(super) address: SocketAddr,
    pub(super) owed: Owed,
}

/// Which answer to its join a port still has to get.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub(super) enum Owed {
    Nothing,
    /// One without padding: the path is proven.
    Short,
    /// One as long as a data packet (W-11).
    Padded,
}

impl Job {
    pub(super) fn missing(&self) -> WorkerSet {
        WorkerSet::all(self.world_size).without(self.joined)
    }

    fn slots_end(&self) -> u16 {
        // A layout never goes beyond slot 16,383.
        self.layout.base() + self.layout.window().get()
    }
}

impl CoordinatorStorage<'_> {
    pub(super) fn clear(&mut self) {
        self.jobs.fill(JobEntry::EMPTY);
        self.members.fill(MemberEntry::EMPTY);
        self.ports.fill(PortEntry::EMPTY);
    }

    pub(super) fn jobs(&self) -> impl Iterator<Item = (JobIndex, &Job)> {
        // There are at most 65,535 entries: `Coordinator::new` sees to it.
        (0u16..).map(JobIndex).zip(self.jobs.iter()).filter_map(|(at, entry)| Some((at, entry.0.as_ref()?)))
    }

    pub(super) fn members(&self) -> impl Iterator<Item = &Membership> {
        self.members.iter().filter_map(|entry| entry.0.as_ref())
    }

    pub(super) fn members_mut(&mut self) -> impl Iterator<Item = &mut Membership> {
        self.members.iter_mut().filter_map(|entry| entry.0.as_mut())
    }

    pub(super) fn ports(&self) -> impl Iterator<Item = &Port> {
        self.ports.iter().filter_map(|entry| entry.0.as_ref())
    }

    pub(super) fn ports_mut(&mut self) -> impl Iterator<Item = &mut Port> {
        self.ports.iter_mut().filter_map(|entry| entry.0.as_mut())
    }

    pub(super) fn job(&self, at: JobIndex) -> Option<&Job> {
        self.jobs.get(usize::from(at.0))?.0.as_ref()
    }

    pub(super) fn job_mut(&mut self, at: JobIndex) -> Option<&mut Job> {
        self.jobs.get_mut(usize::from(at.0))?.0.as_mut()
    }

    pub(super) fn job_of_session(&self, session: SessionId) -> Option<JobIndex> {
        self.jobs().find(|(_, job)| job.session == session).map(|(at, _)| at)
    }

    pub(super) fn job_of_key(&self, name: &JobName, run: u64) -> Option<JobIndex> {
        self.jobs().find(|(_, job)| job.run == run && job.name == *name).map(|(at, _)| at)
    }

    pub(super) fn member(&self, job: JobIndex, rank: Rank) -> Option<&Membership> {
        self.members().find(|member| member.job == job && member.rank == rank)
    }

    pub(super) fn member_mut(&mut self, job: JobIndex, rank: Rank) -> Option<&mut Membership> {
        self.members_mut().find(|member| member.job == job && member.rank == rank)
    }

    /// The port that joined from this address in this lane.
    pub(super) fn port(&self, lane: LaneId, address: SocketAddr) -> Option<&Port> {
        self.ports().find(|port| port.lane == lane && port.address == address)
    }

    /// Takes a member and its ports out.
    pub(super) fn remove_member(&mut self, job: JobIndex, rank: Rank) {
        for entry in self.members.iter_mut() {
            if entry.0.is_some_and(|member| member.job == job && member.rank == rank) {
                *entry = MemberEntry::EMPTY;
            }
        }
        for entry in self.ports.iter_mut() {
            if entry.0.is_some_and(|port| port.job == job && port.rank == rank) {
                *entry = PortEntry::EMPTY;
            }
        }
        if let Some(job) = self.job_mut(job) {
            job.joined = job.joined.without(WorkerSet::EMPTY.with(rank));
        }
    }

    /// Takes a job, its members and their ports out.
    pub(super) fn remove_job(&mut self, job: JobIndex) {
        for entry in self.members.iter_mut() {
            if entry.0.is_some_and(|member| member.job == job) {
                *entry = MemberEntry::EMPTY;
            }
        }
        for entry in self.ports.iter_mut() {
            if entry.0.is_some_and(|port| port.job == job) {
                *entry = PortEntry::EMPTY;
            }
        }
        if let Some(entry) = self.jobs.get_mut(usize::from(job.0)) {
            *entry = JobEntry::EMPTY;
        }
    }

    /// The lowest base at which `window` slots of `slots` are free in every lane (C-2).
    ///
    /// # Errors
    /// The largest window that there is room for, 0 if none.
    pub(super) fn free_slots(&self, slots: u16, window: Window) -> Result<u16, u32> {
        let (mut lowest, mut largest) = (None, 0);
        let starts = core::iter::once(0).chain(self.jobs().map(|(_, job)| job.slots_end()));
        for start in starts {
            let room = self.room_from(start, slots);
            largest = largest.max(room);
            if room >= window.get() && lowest.is_none_or(|lowest| start < lowest) {
                lowest = Some(start);
            }
        }
        lowest.ok_or_else(|| largest.checked_ilog2().map_or(0, |log| 1 << log))
    }

    /// Free slots from `start` up to the next job's, or the end of the pool.
    fn room_from(&self, start: u16, slots: u16) -> u16 {
        let mut end = slots;
        for (_, job) in self.jobs() {
            if (job.layout.base()..job.slots_end()).contains(&start) {
                return 0;
            }
            if job.layout.base() >= start {
                end = end.min(job.layout.base());
            }
        }
        end.saturating_sub(start)
    }

    /// Counts every job's members anew.
    pub(super) fn take_census(&mut self, now: Instant, lease: core::time::Duration) {
        for job in self.jobs.iter_mut().filter_map(|entry| entry.0.as_mut()) {
            job.census = Census::NONE;
        }
        for member in self.members.iter().filter_map(|entry| entry.0.as_ref()) {
            let Some(job) = self.jobs.get_mut(usize::from(member.job.0)).and_then(|entry| entry.0.as_mut())
            else {
                continue;
            };
            if member.standing != Standing::Present {
                continue;
            }
            let census = &mut job.census;
            census.present = census.present.with(member.rank);
            let lapse = member.heard + lease;
            if lapse <= now {
                census.lapsed = census.lapsed.with(member.rank);
            } else {
                census.next_lapse = Some(census.next_lapse.map_or(lapse, |next| next.min(lapse)));
            }
        }
    }
}
