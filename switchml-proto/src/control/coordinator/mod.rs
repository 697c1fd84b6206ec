//! The aggregator's side of control.

mod plane;
mod storage;

use core::net::SocketAddr;
use core::time::Duration;

pub use plane::{DataPlane, InstallRefused, PhaseStatus, SessionPlan};
pub use storage::{CoordinatorStorage, JobEntry, MemberEntry, PortEntry};

use super::{Heard, InvalidConfig};
use crate::Instant;
use crate::ids::{ChunkSize, JobId, LaneCount, LaneId, LaneLayout, Rank, SessionId, WorkerSet, WorldSize};
use crate::wire::{AbortReason, JobName};

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
}

/// A datagram to send to a member.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct CoordinatorTransmit {
    /// From this lane's port.
    pub lane: LaneId,
    /// To this address.
    pub to: SocketAddr,
    /// Octets of the buffer to send.
    pub len: usize,
}

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
        /// Its number, which rests now.
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
}

impl SessionView<'_> {
    /// Time since the rank was last heard, if it has joined.
    #[must_use]
    pub fn age(&self, rank: Rank) -> Option<Duration> {
        todo!()
    }
}

/// How often what happened. No count is ever reset.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub struct ControlCounters {
    /// Joins received, of every kind.
    pub joins: u64,
    /// Challenges sent.
    pub challenges: u64,
}

/// The coordinator's machine.
#[derive(Debug)]
pub struct Coordinator<'s> {
    storage: CoordinatorStorage<'s>,
}

impl<'s> Coordinator<'s> {
    /// A coordinator without jobs. What the storage held before is forgotten.
    ///
    /// # Errors
    /// [`InvalidConfig`] says what cannot work.
    pub fn new(
        config: CoordinatorConfig,
        storage: CoordinatorStorage<'s>,
        now: Instant,
    ) -> Result<Self, InvalidConfig> {
        todo!()
    }

    /// Octets that the buffer for [`poll_transmit`](Self::poll_transmit) must have.
    #[must_use]
    pub fn transmit_capacity(&self) -> usize {
        todo!()
    }

    /// Takes a control datagram that came to `lane`'s port. Poll for datagrams after each one.
    pub fn handle_datagram(
        &mut self,
        now: Instant,
        lane: LaneId,
        from: SocketAddr,
        datagram: &[u8],
        plane: &mut dyn DataPlane,
    ) -> Heard {
        todo!()
    }

    /// Takes a data packet for which the plane has no session: the sender is told, at a limited rate (C-3).
    pub fn handle_stray_data(&mut self, now: Instant, lane: LaneId, from: SocketAddr, datagram: &[u8]) {
        todo!()
    }

    /// Lets time pass: call it at [`poll_timeout`](Self::poll_timeout). An early call does nothing.
    pub fn handle_timeout(&mut self, now: Instant, plane: &mut dyn DataPlane) {
        todo!()
    }

    /// When to call [`handle_timeout`](Self::handle_timeout) and [`poll_transmit`](Self::poll_transmit) next, if nothing comes before.
    /// It is in the past or present while a datagram waits to be sent.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        todo!()
    }

    /// Writes the next datagram into `buf`; call it until it returns `None`.
    ///
    /// # Panics
    /// If `buf` is shorter than [`transmit_capacity`](Self::transmit_capacity).
    pub fn poll_transmit(&mut self, now: Instant, buf: &mut [u8]) -> Option<CoordinatorTransmit> {
        todo!()
    }

    /// The next thing for a log. When nobody asks, the oldest are dropped and counted.
    pub fn poll_event(&mut self) -> Option<CoordinatorEvent> {
        todo!()
    }

    /// The sessions that there are, with ages as of `now`.
    pub fn sessions(&self, now: Instant) -> impl Iterator<Item = SessionView<'_>> {
        self.storage.jobs.iter().map(move |_| todo!())
    }

    /// Aborts every job of this name.
    pub fn evict(&mut self, now: Instant, name: &str, plane: &mut dyn DataPlane) {
        todo!()
    }

    /// Aborts every job, and takes no more joins. Nothing is left to do when [`sessions`](Self::sessions) is empty
    /// and no datagram waits, which takes at most a lease.
    pub fn shutdown(&mut self, now: Instant, plane: &mut dyn DataPlane) {
        todo!()
    }

    /// How often what happened.
    #[must_use]
    pub fn counters(&self) -> &ControlCounters {
        todo!()
    }
}
