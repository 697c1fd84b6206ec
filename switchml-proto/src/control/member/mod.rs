//! A member: one rank of a job, with all its lanes.

mod config;
mod events;
mod hear;
mod lane;
mod pulse;
#[cfg(test)]
mod tests;

use core::time::Duration;

pub use config::{EndReason, MemberConfig, MemberDatagram, MemberEvent, MemberTransmit, SessionParams};
use events::{End, Events};
use lane::{Lane, Obstacle, Shape};
use pulse::Pulse;

use super::pace::Pace;
use super::{ControlDatagram, Heard, InvalidConfig};
use crate::Instant;
use crate::ids::{LaneCount, LaneId, Nonce, Rank, Seq, WorkerSet};
use crate::wire::{AbortReason, Join, MAX_CONTROL_LEN, Message};

/// No lease that a member is told is shorter than this; a shorter one is no lease.
const SHORTEST_LEASE: Duration = Duration::from_millis(1);

/// The member's machine, with room for all lanes that a job may have. A host with little memory takes a [`SizedMember`].
pub type Member = SizedMember<{ LaneCount::MAX }>;

/// The member's machine, with room for `LANES` lanes; 72 octets for each.
///
/// Its calls take constant time, save that each looks at all its lanes.
#[derive(Debug)]
pub struct SizedMember<const LANES: usize> {
    config: MemberConfig,
    nonce: Nonce,
    started: Instant,
    /// The latest time that any call told.
    clock: Instant,
    state: State,
    lanes: [Lane; LANES],
    /// The session of the latest welcome; that the member is not in another one's is what `State::Live` says.
    welcomed: Option<SessionParams>,
    ready: Option<SessionParams>,
    missing: WorkerSet,
    /// The last `Waiting` that was told.
    told: Option<WorkerSet>,
    /// When the aggregator's last valid answer came.
    last_heard: Instant,
    queries: [Option<Seq>; LANES],
    /// The lane that owes the aggregator an acknowledgement of its abort.
    acknowledge: Option<LaneId>,
    events: Events,
}

#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
enum State {
    Joining,
    Live(Pulse),
    Leaving(Farewell),
    /// It gave up joining, as its caller knows, and gives its place back.
    Withdrawing(Farewell),
    /// Its caller knows already that it is over.
    Aborting {
        reason: AbortReason,
        culprit: Option<Rank>,
        farewell: Farewell,
    },
    Over,
}

/// A last message, repeated until it is acknowledged or a lease has passed.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
struct Farewell {
    session: SessionParams,
    pace: Pace,
    until: Instant,
    turn: usize,
}

impl<const LANES: usize> SizedMember<LANES> {
    /// A member that begins to join at `now`. `nonce` must be random: it tells this process from any other (C-2).
    ///
    /// # Errors
    /// [`InvalidConfig`] if the rank is not below the world size, or the job has more lanes than there is room for.
    pub fn new(config: MemberConfig, nonce: Nonce, now: Instant) -> Result<Self, InvalidConfig> {
        let MemberConfig { rank, world_size, lanes, .. } = config;
        if usize::from(lanes.get()) > LANES {
            return Err(InvalidConfig::Lanes { lanes, room: LANES });
        }
        if rank.get() >= world_size.get() {
            return Err(InvalidConfig::RankOutsideWorld { rank, world_size });
        }
        Ok(Self {
            config,
            nonce,
            started: now,
            clock: now,
            state: State::Joining,
            lanes: [Lane::new(now); LANES],
            welcomed: None,
            ready: None,
            missing: WorkerSet::all(world_size).without(WorkerSet::EMPTY.with(rank)),
            told: None,
            last_heard: now,
            queries: [None; LANES],
            acknowledge: None,
            events: Events::default(),
        })
    }

    /// Octets that the buffer for [`poll_transmit`](Self::poll_transmit) must have: those of the longest control
    /// message or of a full data packet, whichever is longer.
    #[must_use]
    pub fn transmit_capacity(&self) -> usize {
        MAX_CONTROL_LEN.max(self.datagram_len())
    }

    /// Takes a control datagram that came from the aggregator's port of this lane.
    ///
    /// The caller has checked that it came from there; everything else is checked here. The values of all polls
    /// may change.
    pub fn handle_datagram(&mut self, now: Instant, lane: LaneId, datagram: &[u8]) -> Heard {
        self.clock = self.clock.max(now);
        match Message::parse(datagram) {
            Err(error) => Heard::Malformed(error),
            Ok(_) if lane.get() >= self.config.lanes.get() => Heard::Foreign,
            Ok(message) => self.hear(self.clock, lane, &message, datagram.len()),
        }
    }

    /// Writes the next datagram that is due at `now` into `buf`; call it until it returns `None`.
    ///
    /// # Panics
    /// If `buf` is shorter than [`transmit_capacity`](Self::transmit_capacity).
    pub fn poll_transmit(&mut self, now: Instant, buf: &mut [u8]) -> Option<MemberTransmit> {
        let MemberDatagram { lane, datagram } = self.poll_datagram(now)?;
        Some(MemberTransmit { lane, len: datagram.emit(buf) })
    }

    /// The next datagram that is due at `now`, for a caller that has yet to find room for it; otherwise as
    /// [`poll_transmit`](Self::poll_transmit). It counts as sent.
    pub fn poll_datagram(&mut self, now: Instant) -> Option<MemberDatagram> {
        self.clock = self.clock.max(now);
        let now = self.clock;
        if let Some(transmit) = self.poll_acknowledgement() {
            return Some(transmit);
        }
        match &mut self.state {
            State::Joining => self.poll_join(now),
            State::Live(_) => self.poll_keep_alive(now).or_else(|| self.poll_query()),
            State::Leaving(farewell) | State::Withdrawing(farewell) => {
                let lane = farewell.next_lane(now, self.config.lanes)?;
                let SessionParams { job, session, .. } = farewell.session;
                let leave = Message::Leave { job, rank: self.config.rank, session, nonce: self.nonce };
                Some(MemberDatagram::short(lane, leave))
            }
            State::Aborting { reason, culprit, farewell } => {
                let lane = farewell.next_lane(now, self.config.lanes)?;
                let SessionParams { job, session, .. } = farewell.session;
                let (reason, culprit) = (*reason, *culprit);
                let abort = Message::Abort { job, rank: self.config.rank, session, reason, culprit };
                Some(MemberDatagram::short(lane, abort))
            }
            State::Over => None,
        }
    }

    /// Lets time pass: call it at [`poll_timeout`](Self::poll_timeout), then poll for datagrams and events. An
    /// early call does nothing.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.clock = self.clock.max(now);
        let now = self.clock;
        match self.state {
            State::Joining => {
                if now >= self.started + self.config.connect_timeout.min(self.config.join_timeout)
                    && let Some(reason) = self.unconnected()
                {
                    self.give_up(reason);
                } else if self.lost_at().is_some_and(|at| at <= now) {
                    self.end(End::Failed(EndReason::AggregatorLost));
                } else if now >= self.started + self.config.join_timeout {
                    self.give_up(EndReason::JoinTimeout { missing: self.missing });
                }
            }
            State::Live(_) if self.lost_at().is_some_and(|at| at <= now) => {
                self.end(End::Failed(EndReason::AggregatorLost));
            }
            State::Leaving(farewell) if farewell.until <= now => self.end(End::Left),
            State::Withdrawing(farewell) | State::Aborting { farewell, .. } if farewell.until <= now => {
                self.state = State::Over;
            }
            State::Live(_)
            | State::Leaving(_)
            | State::Withdrawing(_)
            | State::Aborting { .. }
            | State::Over => {}
        }
    }

    /// When to call [`handle_timeout`](Self::handle_timeout) and [`poll_transmit`](Self::poll_transmit) next, if
    /// nothing comes before; `None` when all is over.
    ///
    /// It is not later than the last time told while a datagram waits to be sent. Any other call may change it.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        if self.acknowledge.is_some() {
            return Some(self.clock);
        }
        match &self.state {
            State::Joining => {
                let connect = self.unconnected().map(|_| self.started + self.config.connect_timeout);
                let join = self.started + self.config.join_timeout;
                let next = self.joining_lanes().filter_map(Lane::due).min();
                [connect, self.lost_at(), next].into_iter().flatten().min().map(|at| at.min(join))
            }
            State::Live(_) if self.queries.iter().any(Option::is_some) => Some(self.clock),
            State::Live(pulse) => self.lost_at().map(|at| at.min(pulse.due())),
            State::Leaving(farewell) | State::Withdrawing(farewell) | State::Aborting { farewell, .. } => {
                Some(farewell.until.min(farewell.pace.due()))
            }
            State::Over => None,
        }
    }

    /// The next thing to tell; call it until it returns `None`.
    pub fn poll_event(&mut self) -> Option<MemberEvent> {
        self.events.pop()
    }

    /// Leaves (C-3): all results that this member wants have come. [`MemberEvent::Left`] follows within a lease,
    /// or [`MemberEvent::Ended`] if the session fails before the aggregator heard of it.
    pub fn leave(&mut self, now: Instant) {
        self.clock = self.clock.max(now);
        if let State::Joining | State::Live(_) = self.state {
            match self.welcomed {
                Some(session) => self.state = State::Leaving(Farewell::new(session, self.clock)),
                None => self.end(End::Left),
            }
        }
    }

    /// Ends the session for all members. [`MemberEvent::Ended`] is there at once; the message is repeated until the
    /// aggregator acknowledges it or a lease has passed, if the caller polls that long.
    pub fn abort(&mut self, now: Instant, reason: AbortReason, culprit: Option<Rank>) {
        self.clock = self.clock.max(now);
        if let State::Joining | State::Live(_) | State::Leaving(_) = self.state {
            self.end(End::Failed(EndReason::Aborted { reason, culprit }));
            if let Some(session) = self.welcomed {
                let farewell = Farewell::new(session, self.clock);
                self.state = State::Aborting { reason, culprit, farewell };
            }
        }
    }

    /// Asks once who is missing in the phase of `seq` in `lane` (C-4); [`MemberEvent::Status`] follows unless a
    /// datagram is lost. Does nothing while there is no ready session, or if the job has no such lane.
    pub fn query(&mut self, now: Instant, lane: LaneId, seq: Seq) {
        self.clock = self.clock.max(now);
        if let State::Live(_) = self.state
            && lane.get() < self.config.lanes.get()
            && let Some(query) = self.queries.get_mut(lane.index())
        {
            *query = Some(seq);
        }
    }

    /// The session, once it is ready; also after its end.
    #[must_use]
    pub const fn session(&self) -> Option<SessionParams> {
        self.ready
    }

    /// The lease of the session that has welcomed this member, ready or not.
    #[must_use]
    pub fn lease(&self) -> Option<Duration> {
        self.welcomed.map(|session| session.lease)
    }

    fn datagram_len(&self) -> usize {
        self.config.chunk.datagram_len()
    }

    fn joining_lanes(&self) -> impl Iterator<Item = &Lane> {
        self.lanes.iter().take(self.config.lanes.get().into())
    }

    /// What the connect timeout would end the member with.
    fn unconnected(&self) -> Option<EndReason> {
        let lanes = self.config.lanes.lanes().zip(self.joining_lanes());
        let (lane, state) = lanes.into_iter().find(|(_, lane)| !lane.is_proven())?;
        Some(match state.obstacle() {
            Obstacle::Silence => EndReason::AggregatorSilent { lane },
            Obstacle::SmallPath => EndReason::PathTooSmall { lane },
        })
    }

    /// When the aggregator counts as lost, if it was ever there.
    fn lost_at(&self) -> Option<Instant> {
        self.welcomed.map(|session| self.last_heard + session.lease)
    }

    /// Ends joining. The place that the aggregator may hold for this rank is given back, so that the rank can be tried
    /// again at once.
    fn give_up(&mut self, reason: EndReason) {
        self.end(End::Failed(reason));
        if let Some(session) = self.welcomed {
            self.state = State::Withdrawing(Farewell::new(session, self.clock));
        }
    }

    fn end(&mut self, end: End) {
        self.state = State::Over;
        self.events.last(end);
    }

    fn poll_acknowledgement(&mut self) -> Option<MemberDatagram> {
        let lane = self.acknowledge.take()?;
        let session = self.welcomed?.session;
        let aborted = Message::Aborted { rank: self.config.rank, session, nonce: self.nonce };
        Some(MemberDatagram::short(lane, aborted))
    }

    fn poll_join(&mut self, now: Instant) -> Option<MemberDatagram> {
        let full = self.datagram_len();
        let mut lanes = self.config.lanes.lanes().zip(&mut self.lanes);
        let (lane, shape) = lanes.find_map(|(id, lane)| Some((id, lane.next_join(now)?)))?;
        let (cookie, padded) = match shape {
            Shape::Short { cookie } => (cookie, 0),
            Shape::Padded { cookie } => (cookie, full),
        };
        let MemberConfig { name, run, world_size, rank, lanes, chunk, window, .. } = self.config;
        let nonce = self.nonce;
        let join = Join { name, run, world_size, rank, lanes, lane, chunk, window, nonce, cookie };
        Some(MemberDatagram { lane, datagram: ControlDatagram { message: Message::Join(join), padded } })
    }

    fn poll_keep_alive(&mut self, now: Instant) -> Option<MemberDatagram> {
        let State::Live(pulse) = &mut self.state else { return None };
        let lane = pulse.beat(now, self.config.lanes)?;
        let SessionParams { job, session, .. } = self.ready?;
        let keep_alive = Message::KeepAlive { job, rank: self.config.rank, session, nonce: self.nonce };
        Some(MemberDatagram::short(lane, keep_alive))
    }

    fn poll_query(&mut self) -> Option<MemberDatagram> {
        let SessionParams { job, session, .. } = self.ready?;
        let mut queries = self.config.lanes.lanes().zip(&mut self.queries);
        let (lane, seq) = queries.find_map(|(lane, query)| Some((lane, query.take()?)))?;
        let query = Message::Query { job, rank: self.config.rank, lane, session, seq };
        Some(MemberDatagram::short(lane, query))
    }
}

impl MemberDatagram {
    /// One without padding.
    const fn short(lane: LaneId, message: Message) -> Self {
        Self { lane, datagram: ControlDatagram { message, padded: 0 } }
    }
}

impl Farewell {
    fn new(session: SessionParams, now: Instant) -> Self {
        Self { session, pace: Pace::starting(now), until: now + session.lease, turn: 0 }
    }

    /// The lane to say it through now, if it is due; the next time it is the next lane.
    fn next_lane(&mut self, now: Instant, lanes: LaneCount) -> Option<LaneId> {
        if !self.pace.is_due(now) || self.until <= now {
            return None;
        }
        self.pace.sent(now);
        let lane = lanes.lanes().nth(self.turn);
        self.turn = (self.turn + 1) % usize::from(lanes.get());
        lane
    }
}

#[cfg(feature = "defmt")]
impl<const LANES: usize> defmt::Format for SizedMember<LANES> {
    fn format(&self, f: defmt::Formatter<'_>) {
        defmt::write!(f, "Member {{ config: {}, state: {}, .. }}", self.config, self.state);
    }
}
