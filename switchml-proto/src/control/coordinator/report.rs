//! What a coordinator tells an operator.

use core::time::Duration;

use super::storage::{CoordinatorStorage, Job, JobIndex, Stage};
use super::{InstallRefused, MemberEntry};
use crate::Instant;
use crate::ids::{JobId, LaneCount, LaneLayout, Rank, SessionId, WorkerSet, WorldSize};
use crate::wire::{AbortReason, JobName};

/// How a session came to its end.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum SessionEnd {
    /// Every member left.
    Left,
    /// Every member that had joined went away before all had joined.
    Deserted,
    /// It failed.
    Aborted {
        /// Why.
        reason: AbortReason,
        /// The rank that caused it, if one did.
        culprit: Option<Rank>,
    },
    /// The data plane could not hold it.
    Refused(InstallRefused),
}

/// What an operator may want to read in a log.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum CoordinatorEvent {
    /// A first join made a job.
    Created {
        /// Its name.
        name: JobName,
        /// Its run.
        run: u64,
        /// Its number.
        job: JobId,
    },
    /// A rank has joined with all its lanes.
    Joined {
        /// Number of its job.
        job: JobId,
        /// The rank.
        rank: Rank,
    },
    /// All have joined, and data may flow.
    Ready {
        /// Number of the job.
        job: JobId,
    },
    /// A job has ended, and its slots are free again.
    Ended {
        /// Its name.
        name: JobName,
        /// Its run.
        run: u64,
        /// Its number; it rests now if data could flow (W-3).
        job: JobId,
        /// How.
        how: SessionEnd,
    },
}

/// Where a session is in its life.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum SessionState {
    /// Some rank is missing.
    Joining,
    /// Data may flow.
    Ready,
    /// It failed, and its members are being told.
    Ending,
}

/// What there is to know of a session.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub struct SessionView<'a> {
    /// Name of the job.
    pub name: &'a JobName,
    /// Run of the job.
    pub run: u64,
    /// Number of the job.
    pub job: JobId,
    /// The session.
    pub session: SessionId,
    /// Where it is in its life.
    pub state: SessionState,
    /// Number of workers.
    pub world_size: WorldSize,
    /// Number of lanes.
    pub lanes: LaneCount,
    /// Slots and chunk size of each lane.
    pub layout: LaneLayout,
    /// Ranks that have not joined with all their lanes.
    pub missing: WorkerSet,
    /// Ranks that have left.
    pub left: WorkerSet,
    index: JobIndex,
    members: &'a [MemberEntry],
    now: Instant,
}

impl<'a> SessionView<'a> {
    pub(super) fn new(
        storage: &'a CoordinatorStorage<'_>,
        index: JobIndex,
        job: &'a Job,
        now: Instant,
    ) -> Self {
        Self {
            name: &job.name,
            run: job.run,
            job: job.job,
            session: job.session,
            state: match job.stage {
                Stage::Joining => SessionState::Joining,
                Stage::Ready => SessionState::Ready,
                Stage::Aborting { .. } | Stage::Refused(_) => SessionState::Ending,
            },
            world_size: job.world_size,
            lanes: job.lanes,
            layout: job.layout,
            missing: job.missing(),
            left: job.left,
            index,
            members: storage.members,
            now,
        }
    }

    /// Time since the rank last renewed its lease; `None` if no lane of it has joined.
    #[must_use]
    pub fn age(&self, rank: Rank) -> Option<Duration> {
        let mut members = self.members.iter().filter_map(|entry| entry.0.as_ref());
        let member = members.find(|member| member.job == self.index && member.rank == rank)?;
        Some(self.now.since(member.heard))
    }
}

/// How often what happened. No count is ever reset.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub struct ControlCounters {
    /// Joins heard, of every kind.
    pub joins: u64,
    /// Joins with a cookie that is forged, or too old.
    pub stale_cookies: u64,
    /// Joins with a good cookie, but shorter than a data packet, from an address whose path is not proven (W-11).
    pub unpadded_joins: u64,
    /// Challenges sent.
    pub challenges: u64,
    /// Welcomes sent.
    pub welcomes: u64,
    /// Joins rejected.
    pub rejects: u64,
    /// Keep-alives heard from members.
    pub keep_alives: u64,
    /// Leaves heard from members.
    pub leaves: u64,
    /// Aborts heard from members.
    pub aborts_heard: u64,
    /// Aborts sent, repetitions too.
    pub aborts_sent: u64,
    /// Acknowledgements of aborts heard from members.
    pub acknowledgements: u64,
    /// Status queries answered.
    pub queries: u64,
    /// Hints sent to those whose data packets belong to no session.
    pub hints: u64,
    /// Such hints withheld, because of the limit on their rate.
    pub hints_withheld: u64,
    /// Datagrams that are no message.
    pub malformed: u64,
    /// Messages of an unknown session, from an address that may not send them, or that no member sends.
    pub foreign: u64,
    /// Messages of processes whose session has ended, and repetitions of what is settled.
    pub stale: u64,
    /// Answers dropped because nobody polled for them.
    pub answers_dropped: u64,
    /// Events dropped because nobody polled for them.
    pub events_dropped: u64,
}

impl ControlCounters {
    /// Every counter with its name.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
        [
            ("joins", self.joins),
            ("stale_cookies", self.stale_cookies),
            ("unpadded_joins", self.unpadded_joins),
            ("challenges", self.challenges),
            ("welcomes", self.welcomes),
            ("rejects", self.rejects),
            ("keep_alives", self.keep_alives),
            ("leaves", self.leaves),
            ("aborts_heard", self.aborts_heard),
            ("aborts_sent", self.aborts_sent),
            ("acknowledgements", self.acknowledgements),
            ("queries", self.queries),
            ("hints", self.hints),
            ("hints_withheld", self.hints_withheld),
            ("malformed", self.malformed),
            ("foreign", self.foreign),
            ("stale", self.stale),
            ("answers_dropped", self.answers_dropped),
            ("events_dropped", self.events_dropped),
        ]
        .into_iter()
    }
}
