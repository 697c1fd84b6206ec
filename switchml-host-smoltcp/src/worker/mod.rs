//! One rank of a job on any stack: the member, a worker for each lane, and the loop that drives them.

mod lane;
mod storage;
mod traffic;

use core::net::SocketAddr;
use core::time::Duration;

use switchml_proto::control::{MemberDatagram, MemberEvent, SessionParams, SizedMember};
use switchml_proto::wire::AbortReason;
use switchml_proto::worker::{Collective, Failure, Slot};
use switchml_proto::{ChunkSize, Instant, LaneId, WorkerSet, WorldSize};

use self::lane::Lane;
pub use self::storage::{WorkerStorage, worker_ram};
use crate::config::{SetupError, SocketShape, WorkerConfig};
use crate::counters::WorkerCounters;
use crate::element::Tensor;
use crate::error::WorkerError;
use crate::link::Link;

/// How long a result may take before the aggregator is asked who is missing, and how often it is asked then.
const PATIENCE: Duration = Duration::from_millis(500);

/// Where a worker is in the life of its session.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum WorkerStatus {
    /// It joins. Which other ranks have not joined, once the aggregator has told.
    Joining {
        /// Empty as long as the aggregator has told nothing.
        missing: WorkerSet,
    },
    /// Collectives may be called.
    Ready,
    /// It has left, as it was asked to.
    Left,
    /// It is over.
    Failed(WorkerError),
}

/// What an all-reduce or a broadcast came to.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub struct Reduced {
    /// Chunks in which some rank clamped an element, or met a NaN, with a fixed scaling factor (N-6).
    pub clamped_chunks: u64,
}

/// What a call has to tell besides its effects.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Driven {
    /// When to drive again, if no datagram comes before.
    pub(crate) next: Option<Instant>,
    /// How the open collective ended, if it has.
    pub(crate) ended: Option<Result<Reduced, WorkerError>>,
}

/// One rank, on whatever stack.
#[derive(Debug)]
pub(crate) struct Rank<'s, const LANES: usize> {
    terms: Terms,
    member: SizedMember<LANES>,
    lanes: [Lane<'s>; LANES],
    state: State,
    /// A control datagram that found a full transmit buffer.
    held: Option<MemberDatagram>,
    open: Option<Open>,
    /// Who was missing when the aggregator last told.
    missing: WorkerSet,
    next_question: Instant,
    /// When the aggregator was last heard.
    heard_at: Instant,
    losses: Losses,
}

/// What is needed of the configuration after the join: it lies in RAM as long as the worker.
#[derive(Clone, Copy, Debug)]
struct Terms {
    rank: switchml_proto::Rank,
    world_size: WorldSize,
    chunk: ChunkSize,
    aggregator: SocketAddr,
}

#[derive(Clone, Copy, Debug)]
enum State {
    Joining { missing: WorkerSet },
    Ready(SessionParams),
    Left,
    Failed(WorkerError),
}

/// What the workers do not count themselves; see [`WorkerCounters`].
#[derive(Clone, Copy, Debug, Default)]
struct Losses {
    strangers: u64,
    full: u64,
    unroutable: u64,
}

/// The collective that is under way.
#[derive(Clone, Copy, Debug)]
struct Open {
    collective: Collective,
    reduced: Reduced,
}

impl<'s, const LANES: usize> Rank<'s, LANES> {
    /// A rank that begins to join at `now`.
    pub(crate) fn new<const WINDOW: usize>(
        config: WorkerConfig,
        storage: &'s mut WorkerStorage<WINDOW, LANES>,
        sockets: &[SocketShape; LANES],
        now: Instant,
    ) -> Result<Self, SetupError> {
        let member = config.check(WorkerStorage::<WINDOW, LANES>::WINDOW, sockets)?;
        let WorkerConfig { rank, world_size, chunk, aggregator, .. } = config;
        let member = SizedMember::new(member, config.nonce, now)
            .map_err(|_| SetupError::RankOutsideWorld { rank, world_size })?;
        Ok(Self {
            terms: Terms { rank, world_size, chunk, aggregator },
            member,
            lanes: storage.slots.each_mut().map(|slots: &mut [Slot; WINDOW]| Lane::new(slots, &config)),
            state: State::Joining { missing: WorkerSet::EMPTY },
            held: None,
            open: None,
            missing: WorkerSet::EMPTY,
            next_question: now,
            heard_at: now,
            losses: Losses::default(),
        })
    }

    pub(crate) const fn rank(&self) -> switchml_proto::Rank {
        self.terms.rank
    }

    pub(crate) const fn world_size(&self) -> WorldSize {
        self.terms.world_size
    }

    pub(crate) const fn status(&self) -> WorkerStatus {
        match self.state {
            State::Joining { missing } => WorkerStatus::Joining { missing },
            State::Ready(_) => WorkerStatus::Ready,
            State::Left => WorkerStatus::Left,
            State::Failed(error) => WorkerStatus::Failed(error),
        }
    }

    /// Who was missing when the aggregator last told, since the last result was waited for.
    pub(crate) const fn missing(&self) -> WorkerSet {
        self.missing
    }

    pub(crate) fn counters(&self) -> WorkerCounters {
        let Losses { strangers, full, unroutable } = self.losses;
        let mut counters = WorkerCounters { strangers, full, unroutable, ..WorkerCounters::default() };
        for lane in &self.lanes {
            counters.add(lane.stats());
        }
        counters
    }

    /// Opens a collective in all lanes. The tensor must be lent to each [`drive`](Self::drive) until it has ended.
    pub(crate) fn start(&mut self, collective: Collective, now: Instant) -> Result<(), WorkerError> {
        if self.open.is_some() {
            self.cancel(now);
        }
        match self.state {
            State::Joining { .. } => return Err(WorkerError::NotReady),
            State::Left => return Err(WorkerError::Left),
            State::Failed(error) => return Err(error),
            State::Ready(_) => {}
        }
        // All lanes are asked before any starts, as nothing must have changed then.
        let chunks = collective.len().div_ceil(collective.elements_per_chunk(self.terms.chunk) as u64);
        if chunks.div_ceil(LANES as u64) >= MOST_CHUNKS {
            return Err(WorkerError::TooLong);
        }
        self.open = Some(Open { collective, reduced: Reduced::default() });
        self.missing = WorkerSet::EMPTY;
        self.next_question = now + PATIENCE;
        self.lanes.iter_mut().for_each(Lane::request);
        Ok(())
    }

    /// Leaves, once no collective is open.
    pub(crate) fn leave(&mut self, now: Instant) {
        if self.open.is_some() {
            self.cancel(now);
        }
        self.member.leave(now);
    }

    /// Ends the session for all ranks.
    pub(crate) fn cancel(&mut self, now: Instant) {
        self.fail(now, WorkerError::Cancelled, AbortReason::Cancelled, Some(self.terms.rank));
    }

    /// Whether nothing is left to send or to wait for: the session has ended, and all is said.
    pub(crate) fn is_over(&self) -> bool {
        self.held.is_none() && self.member.poll_timeout().is_none()
    }

    /// Does all that can be done now: takes the datagrams that the stack has received, lets time pass, and writes what is
    /// due into the transmit buffers. `tensor` is that of the open collective; without one a collective that is open has
    /// been given up.
    ///
    /// Costs O(1) state and O(k) arithmetic for each datagram received and sent: at most as many as the sockets' buffers
    /// hold.
    pub(crate) fn drive(
        &mut self,
        now: Instant,
        link: &mut impl Link,
        mut tensor: Option<&mut dyn Tensor>,
    ) -> Driven {
        if tensor.is_none() && self.open.is_some() {
            self.cancel(now);
        }
        for lane in 0..LANES {
            self.receive(now, lane, link, &mut tensor);
        }
        self.member.handle_timeout(now);
        self.lanes.iter_mut().for_each(|lane| lane.handle_timeout(now));
        self.member_events(now);
        self.start_lanes(now);
        self.ask(now);
        let ended = self.ended(now);
        let mut next = self.transmit_control(now, link);
        for lane in 0..LANES {
            next = earliest(next, self.transmit_data(now, lane, link, &mut tensor));
        }
        next = earliest(next, self.member.poll_timeout());
        if self.open.is_some() {
            next = earliest(next, Some(self.next_question));
        }
        Driven { next, ended }
    }

    /// For how long the aggregator has said nothing, if it should have said something by now: longer than half a lease in
    /// a session that is ready.
    pub(crate) fn silence(&self, now: Instant) -> Option<Duration> {
        let State::Ready(session) = self.state else { return None };
        let silent = now.since(self.heard_at);
        (silent > session.lease / 2).then_some(silent)
    }

    fn member_events(&mut self, now: Instant) {
        while let Some(event) = self.member.poll_event() {
            match event {
                MemberEvent::Waiting { missing } => {
                    if let State::Joining { missing: known } = &mut self.state {
                        *known = missing;
                    }
                }
                MemberEvent::Ready(session) => {
                    self.state = State::Ready(session);
                    self.heard_at = now;
                    for (id, lane) in (0..).map_while(|id| LaneId::new(id).ok()).zip(&mut self.lanes) {
                        lane.begin(&session, id, LANES);
                    }
                }
                MemberEvent::Status(report) => self.missing = report.missing,
                MemberEvent::Left => self.end(State::Left),
                MemberEvent::Ended(reason) => self.end(State::Failed(WorkerError::of_end(reason))),
                _ => {}
            }
        }
    }

    /// The member has ended. What this rank failed with before stays.
    fn end(&mut self, state: State) {
        if !matches!(self.state, State::Failed(_)) {
            self.state = state;
        }
        self.lanes.iter_mut().for_each(Lane::stop);
    }

    /// This rank ends the session for all.
    fn fail(
        &mut self,
        now: Instant,
        error: WorkerError,
        reason: AbortReason,
        culprit: Option<switchml_proto::Rank>,
    ) {
        if !matches!(self.state, State::Failed(_) | State::Left) {
            self.state = State::Failed(error);
            self.member.abort(now, reason, culprit);
        }
        self.open = None;
        self.lanes.iter_mut().for_each(Lane::stop);
    }

    fn start_lanes(&mut self, now: Instant) {
        if let Some(Open { collective, .. }) = self.open {
            self.lanes.iter_mut().for_each(|lane| lane.start(collective, now));
        }
    }

    /// Asks who is missing, if a result takes long (C-4).
    fn ask(&mut self, now: Instant) {
        if self.open.is_none() || now < self.next_question {
            return;
        }
        self.next_question = now + PATIENCE;
        for (id, lane) in (0..).map_while(|id| LaneId::new(id).ok()).zip(&mut self.lanes) {
            if let Some(waiting) = lane.worker().and_then(|worker| worker.waiting())
                && now.since(waiting.since) >= PATIENCE
            {
                self.member.query(now, id, waiting.seq);
            }
        }
    }

    /// How the open collective ended, if it has.
    fn ended(&mut self, now: Instant) -> Option<Result<Reduced, WorkerError>> {
        let failure = self.lanes.iter_mut().find_map(Lane::events);
        match failure {
            Some(Failure::CollectivesDiffer { .. }) => {
                self.fail(now, WorkerError::CollectivesDiffer, AbortReason::CollectivesDiffer, None);
            }
            Some(Failure::Stalled { .. }) => {
                let missing = self.missing;
                // One rank is named to the others if one is to blame.
                let culprit = missing.iter().next().filter(|_| missing.len() == 1);
                self.fail(now, WorkerError::Stalled { missing }, AbortReason::Stalled, culprit);
            }
            // The others come from the member, whose end is told already.
            _ => {}
        }
        match self.state {
            State::Failed(error) => {
                self.open = None;
                Some(Err(error))
            }
            State::Left => {
                self.open = None;
                Some(Err(WorkerError::Left))
            }
            State::Ready(_) | State::Joining { .. } => {
                self.open.filter(|_| self.lanes.iter().all(Lane::is_done))?;
                self.open.take().map(|open| Ok(open.reduced))
            }
        }
    }
}

/// So many chunks, and as many packets for their first exponents, are still within W-3.
const MOST_CHUNKS: u64 = 1 << 29;

pub(crate) fn earliest(one: Option<Instant>, other: Option<Instant>) -> Option<Instant> {
    one.into_iter().chain(other).min()
}
