//! The aggregator's side of control.

mod config;
mod ending;
mod ghosts;
mod join;
mod live;
mod numbers;
mod plane;
mod report;
mod secret;
mod storage;
#[cfg(test)]
mod tests;
mod transmit;

use core::net::SocketAddr;

pub use config::CoordinatorConfig;
use ghosts::Ghosts;
use heapless::Deque;
use live::Speaker;
use numbers::JobNumbers;
pub use plane::{DataPlane, InstallRefused, SessionPlan};
pub use report::{ControlCounters, CoordinatorEvent, SessionEnd, SessionState, SessionView};
use secret::Secret;
use storage::JobIndex;
pub use storage::{CoordinatorStorage, JobEntry, MemberEntry, PortEntry};
use transmit::{Answer, HintLimit};

use super::{ControlDatagram, Heard, InvalidConfig};
use crate::Instant;
use crate::ids::LaneId;
use crate::wire::{AbortReason, ControlError, MAX_CONTROL_LEN, Message, Packet, RejectReason};

/// Answers kept until the caller polls; a datagram causes one at most.
const ANSWERS: usize = 32;
/// Events kept until the caller polls.
const EVENTS: usize = 32;

/// A datagram to send to a member.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub struct CoordinatorTransmit {
    /// From this lane's port.
    pub lane: LaneId,
    /// To this address.
    pub to: SocketAddr,
    /// Octets of the buffer to send.
    pub len: usize,
}

/// A datagram to send to a member, that is not written yet.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub struct CoordinatorDatagram {
    /// From this lane's port.
    pub lane: LaneId,
    /// To this address.
    pub to: SocketAddr,
    /// Who has that address.
    pub audience: Audience,
    /// What to write.
    pub datagram: ControlDatagram,
}

/// Whether anybody is known to hear what is sent to an address.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[allow(clippy::exhaustive_enums, reason = "an address is in the tables, or it is not")]
pub enum Audience {
    /// A member that has joined: it echoed a cookie that was sent there (C-1).
    Member,
    /// Whoever sent something in the name of this address. Perhaps nobody has it, and a stack that must find its link
    /// address first waits in vain.
    Stranger,
}

/// The coordinator's machine.
///
/// Each call looks at every entry of the storage a bounded number of times, and so does each datagram.
#[derive(Debug)]
pub struct Coordinator<'s> {
    config: CoordinatorConfig,
    storage: CoordinatorStorage<'s>,
    secret: Secret,
    numbers: JobNumbers,
    ghosts: Ghosts,
    intake: Intake,
    /// The latest time that any call told.
    clock: Instant,
    /// Not later than the next time at which a lease or a wait ends.
    deadline: Option<Instant>,
    /// Not later than the next time at which an abort is due to a member.
    next_abort: Option<Instant>,
    /// No port before this entry is owed a welcome; `None` if none is at all.
    owed_from: Option<usize>,
    answers: Deque<Answer, ANSWERS>,
    events: Deque<CoordinatorEvent, EVENTS>,
    hints: HintLimit,
    counters: ControlCounters,
}

/// Whether joins are taken.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
enum Intake {
    Open,
    Closed,
}

/// Where a datagram came from, or goes to.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
struct Source {
    lane: LaneId,
    address: SocketAddr,
}

impl<'s> Coordinator<'s> {
    /// A coordinator without jobs. What the storage held before is forgotten.
    ///
    /// # Errors
    /// [`InvalidConfig`] says what cannot work.
    pub fn new(
        config: CoordinatorConfig,
        mut storage: CoordinatorStorage<'s>,
        now: Instant,
    ) -> Result<Self, InvalidConfig> {
        config.check()?;
        if storage.jobs.len() > usize::from(u16::MAX) {
            return Err(InvalidConfig::Jobs { jobs: storage.jobs.len() });
        }
        storage.clear();
        Ok(Self {
            secret: Secret::new(&config.seed),
            config,
            storage,
            numbers: JobNumbers::new(),
            ghosts: Ghosts::default(),
            intake: Intake::Open,
            clock: now,
            deadline: None,
            next_abort: None,
            owed_from: None,
            answers: Deque::new(),
            events: Deque::new(),
            hints: HintLimit::new(now),
            counters: ControlCounters::default(),
        })
    }

    /// Octets that the buffer for [`poll_transmit`](Self::poll_transmit) must have: those of the longest control
    /// message or of the largest data packet, whichever is longer.
    #[must_use]
    pub fn transmit_capacity(&self) -> usize {
        MAX_CONTROL_LEN.max(self.config.largest_chunk.datagram_len())
    }

    /// Takes a control datagram that came to `lane`'s port. The values of all polls may change; poll for datagrams
    /// after each one, as the answers to no more than a few are kept.
    pub fn handle_datagram(
        &mut self,
        now: Instant,
        lane: LaneId,
        from: SocketAddr,
        datagram: &[u8],
        plane: &mut dyn DataPlane,
    ) -> Heard {
        self.clock = self.clock.max(now);
        let source = Source { lane, address: from };
        let heard = self.hear(self.clock, source, datagram, plane);
        match heard {
            Heard::Accepted => {}
            Heard::Foreign => self.counters.foreign += 1,
            Heard::Stale => self.counters.stale += 1,
            Heard::Malformed(_) => self.counters.malformed += 1,
        }
        heard
    }

    fn hear(&mut self, now: Instant, source: Source, datagram: &[u8], plane: &mut dyn DataPlane) -> Heard {
        let len = datagram.len();
        let speaker = |job, session, rank| Speaker { source, job, session, rank };
        match Message::parse(datagram) {
            Err(error) => {
                if let ControlError::Option { rank, lane, nonce } = error {
                    self.reject_unread(source, rank, lane, nonce, len, RejectReason::UnknownOption);
                }
                Heard::Malformed(error)
            }
            Ok(Message::ForeignJoin { version, rank, lane, nonce }) => {
                self.reject_unread(source, rank, lane, nonce, len, Self::FOREIGN_VERSION);
                Heard::Malformed(ControlError::Version { version })
            }
            Ok(Message::Join(join)) => self.hear_join(now, source, &join, len, plane),
            Ok(Message::KeepAlive { job, rank, session, nonce }) => {
                self.hear_keep_alive(now, speaker(job, session, rank), nonce)
            }
            Ok(Message::Leave { job, rank, session, nonce }) => {
                self.hear_leave(now, speaker(job, session, rank), nonce, plane)
            }
            Ok(Message::Abort { job, rank, session, reason, culprit }) => {
                self.hear_abort(now, speaker(job, session, rank), reason, culprit, plane)
            }
            Ok(Message::Aborted { rank, session, nonce }) => {
                self.hear_aborted(now, source, session, rank, nonce, plane)
            }
            Ok(Message::Query { job, rank, lane, session, seq }) => {
                self.hear_query(now, speaker(job, session, rank), lane, seq, plane)
            }
            // What only aggregators send.
            Ok(
                Message::Challenge { .. }
                | Message::Welcome(_)
                | Message::Reject { .. }
                | Message::Alive { .. }
                | Message::Left { .. }
                | Message::Status(_)
                | Message::NoSession { .. },
            ) => Heard::Foreign,
        }
    }

    /// Takes a data packet from an address that the plane does not know, or for a job that it does not hold: the
    /// sender gets a hint, shorter than the packet, and at a limited rate for all (C-3).
    pub fn handle_stray_data(&mut self, now: Instant, lane: LaneId, from: SocketAddr, datagram: &[u8]) {
        self.clock = self.clock.max(now);
        let Ok(packet) = Packet::parse(datagram) else {
            self.counters.malformed += 1;
            return;
        };
        if !self.hints.take(self.clock) {
            self.counters.hints_withheld += 1;
            return;
        }
        self.counters.hints += 1;
        let header = packet.header();
        let hint = Message::NoSession { job: header.job, seq: header.seq };
        self.answer(Source { lane, address: from }, hint);
    }

    /// Lets time pass: call it at [`poll_timeout`](Self::poll_timeout). An early call does nothing.
    pub fn handle_timeout(&mut self, now: Instant, plane: &mut dyn DataPlane) {
        self.clock = self.clock.max(now);
        if self.deadline.is_some_and(|deadline| deadline <= self.clock) {
            self.sweep(self.clock, plane);
        }
    }

    /// When to call [`handle_timeout`](Self::handle_timeout) and [`poll_transmit`](Self::poll_transmit) next, if
    /// nothing comes before; `None` while there is no job.
    ///
    /// It is not later than the last time told while a datagram waits to be sent. Any other call may change it.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        if self.owed_from.is_some() || !self.answers.is_empty() {
            return Some(self.clock);
        }
        [self.deadline, self.next_abort].into_iter().flatten().min()
    }

    /// Writes the next datagram that is due at `now` into `buf`; call it until it returns `None`.
    ///
    /// # Panics
    /// If `buf` is shorter than [`transmit_capacity`](Self::transmit_capacity).
    pub fn poll_transmit(&mut self, now: Instant, buf: &mut [u8]) -> Option<CoordinatorTransmit> {
        let CoordinatorDatagram { lane, to, datagram, .. } = self.poll_datagram(now)?;
        Some(CoordinatorTransmit { lane, to, len: datagram.emit(buf) })
    }

    /// The next datagram that is due at `now`, for a caller that has yet to find room for it; otherwise as
    /// [`poll_transmit`](Self::poll_transmit). It counts as sent.
    pub fn poll_datagram(&mut self, now: Instant) -> Option<CoordinatorDatagram> {
        self.clock = self.clock.max(now);
        (self.poll_answer()).or_else(|| self.poll_welcome()).or_else(|| self.poll_abort(self.clock))
    }

    /// The next thing for a log. When nobody asks, the oldest are dropped and counted.
    pub fn poll_event(&mut self) -> Option<CoordinatorEvent> {
        self.events.pop_front()
    }

    /// The sessions that there are, with ages as of `now`.
    pub fn sessions(&self, now: Instant) -> impl Iterator<Item = SessionView<'_>> {
        self.storage.jobs().map(move |(at, job)| SessionView::new(&self.storage, at, job, now))
    }

    /// Aborts every job of this name, whatever its run.
    pub fn evict(&mut self, now: Instant, name: &str, plane: &mut dyn DataPlane) {
        self.clock = self.clock.max(now);
        for at in self.job_indices() {
            if self.storage.job(at).is_some_and(|job| job.name.as_str() == name) {
                self.begin_abort(self.clock, at, AbortReason::Evicted, None, plane);
            }
        }
    }

    /// Aborts every job, and takes no more joins. All is done when [`sessions`](Self::sessions) is empty and no
    /// datagram waits, which takes a lease at most.
    pub fn shutdown(&mut self, now: Instant, plane: &mut dyn DataPlane) {
        self.clock = self.clock.max(now);
        self.intake = Intake::Closed;
        for at in self.job_indices() {
            self.begin_abort(self.clock, at, AbortReason::Shutdown, None, plane);
        }
    }

    /// How often what happened.
    #[must_use]
    pub const fn counters(&self) -> &ControlCounters {
        &self.counters
    }

    fn job_indices(&self) -> impl Iterator<Item = JobIndex> + use<> {
        // There are at most 65,535 entries: `new` sees to it.
        (0..self.storage.jobs.len() as u16).map(JobIndex)
    }

    fn wake_at(&mut self, at: Instant) {
        self.deadline = Some(self.deadline.map_or(at, |deadline| deadline.min(at)));
    }

    fn tell(&mut self, event: CoordinatorEvent) {
        if self.events.is_full() {
            self.events.pop_front();
            self.counters.events_dropped += 1;
        }
        // There is room now.
        let _ = self.events.push_back(event);
    }
}

#[cfg(feature = "defmt")]
impl defmt::Format for Coordinator<'_> {
    fn format(&self, f: defmt::Formatter<'_>) {
        defmt::write!(f, "Coordinator {{ config: {}, counters: {}, .. }}", self.config, self.counters);
    }
}
