//! The machine itself.

use core::time::Duration;

use super::collective::{Collective, CollectiveId};
use super::config::{Config, ConfigError};
use super::digest;
use super::outcome::{Event, Failure, StartError, Stats, Waiting};
use super::plan::Plan;
use super::received::{Chunk, Malformed, Received};
use super::seq_space::SeqSpace;
use super::slots::{Queue, Sendings, Slot, Slots};
use super::transmit::{Cause, ChunkRef, Fidelity, Transmit};
use crate::ids::Seq;
use crate::numeric::NO_EXPONENT;
use crate::rtt::{BackOff, Rto};
use crate::time::Instant;
use crate::wire::{Header, Packet, PayloadSize};

/// One lane of one rank: cuts collectives into packets, sends them as the window allows, repeats what is lost, and says
/// which chunk each result is. The [module](self) shows how to drive it.
///
/// It owns no buffer and no clock. No call allocates or blocks, and each costs O(1), but for [`start`](Self::start) and
/// [`waiting`](Self::waiting), which look at all W slots, and for packets that are taken for lost: those cost O(1) each.
/// A `now` before an earlier one counts as that.
#[derive(Debug)]
pub struct Worker<'s> {
    config: Config,
    slots: Slots<'s>,
    /// The open collectives, and those that ended and were not told yet. The index is that of their exponent cells.
    open: [Option<Open>; 2],
    next_id: CollectiveId,
    next_seq: Seq,
    /// h of the last collective started (D-1).
    hash: u32,
    /// Packets of the last collective that were never sent.
    unsent: u32,
    /// Packets sent that have no result.
    under_way: u32,
    rto: Rto,
    /// Deadlines count from here for packets sent before: the end of the last back-off.
    resumed_at: Instant,
    /// When a result was last accepted, or the first packet under way was sent (T-8).
    progress_at: Instant,
    /// The latest sending that a result has answered, of packets sent once (T-9).
    answered_until: Instant,
    /// The latest time told.
    now: Instant,
    seq_space: SeqSpace,
    failure: Option<Failure>,
    stats: Stats,
}

/// A collective that was started.
#[derive(Clone, Copy, Debug)]
struct Open {
    plan: Plan,
    /// Packets without a result; at 0 the collective has ended.
    unanswered: u32,
}

impl<'s> Worker<'s> {
    /// A worker at the start of a session. `slots` are its memory, one for each slot of the window.
    ///
    /// # Errors
    /// [`ConfigError`] says which parameter is wrong.
    pub fn new(config: Config, slots: &'s mut [Slot]) -> Result<Self, ConfigError> {
        let window = config.layout.window().get();
        if slots.len() != usize::from(window) {
            return Err(ConfigError::Slots { expected: window.into(), got: slots.len() });
        }
        if config.initial_seq.0 & (2 * u32::from(window) - 1) != 0 {
            return Err(ConfigError::InitialSeq { initial_seq: config.initial_seq });
        }
        if config.lane.get() >= config.lanes.get() {
            return Err(ConfigError::Lane { lane: config.lane, lanes: config.lanes });
        }
        if config.rto.floor.is_zero() || config.rto.floor > config.rto.ceiling {
            return Err(ConfigError::Rto);
        }
        Ok(Self {
            config,
            slots: Slots::new(slots, config.initial_seq),
            open: [None; 2],
            next_id: CollectiveId(0),
            next_seq: config.initial_seq,
            hash: digest::INITIAL_HASH,
            unsent: 0,
            under_way: 0,
            rto: Rto::new(config.rto),
            resumed_at: Instant::ZERO,
            progress_at: Instant::ZERO,
            answered_until: Instant::ZERO,
            now: Instant::ZERO,
            seq_space: SeqSpace::new(),
            failure: None,
            stats: Stats::default(),
        })
    }

    /// Starts the next collective. Every rank and every lane starts the same ones in the same order.
    ///
    /// Afterwards call [`poll_transmit`](Self::poll_transmit), also for a collective without elements:
    /// every collective synchronises every lane (T-1).
    ///
    /// # Errors
    /// [`StartError`]; nothing has changed then.
    pub fn start(&mut self, collective: Collective, now: Instant) -> Result<CollectiveId, StartError> {
        self.advance(now);
        if let Some(failure) = self.failure {
            return Err(StartError::Failed(failure));
        }
        let place = self.free_place().ok_or(StartError::Busy)?;
        let Config { layout, lane, lanes, .. } = self.config;
        let hash = digest::hash(self.hash, &collective);
        let plan = Plan::new(self.next_id, &collective, hash, layout, lane, lanes, self.next_seq)
            .ok_or(StartError::TooLong)?;
        let open = self.open.iter().flatten().map(|open| u64::from(open.plan.packets())).sum();
        self.seq_space
            .book(self.now, plan.packets(), open, layout.window())
            .map_err(|retry_at| StartError::SequenceSpace { retry_at })?;

        self.open[place] = Some(Open { plan, unanswered: plan.packets() });
        self.hash = hash;
        self.next_id = CollectiveId(plan.id.0 + 1);
        self.next_seq = plan.first().plus(plan.packets());
        self.unsent = plan.packets();
        for packet in 0..plan.packets().min(layout.window().get().into()) {
            self.ready(&plan, packet);
        }
        Ok(plan.id)
    }

    /// Whether [`start`](Self::start) would say neither [`StartError::Busy`] nor [`StartError::Failed`].
    ///
    /// Changes to yes with [`poll_transmit`](Self::poll_transmit) and [`poll_event`](Self::poll_event).
    #[must_use]
    pub fn can_start(&self) -> bool {
        self.failure.is_none() && self.free_place().is_some()
    }

    /// The next packet to send, until there is none.
    ///
    /// Call it after `start`, `handle_datagram` and `handle_timeout`.
    #[must_use = "the packet counts as sent"]
    pub fn poll_transmit(&mut self, now: Instant) -> Option<Transmit> {
        self.advance(now);
        if self.failure.is_some() {
            return None;
        }
        let (index, cause) = [
            (Queue::Overtaken, Cause::Overtaken),
            (Queue::TimedOut, Cause::Timeout),
            (Queue::Ready, Cause::First),
        ]
        .into_iter()
        .find_map(|(queue, cause)| Some((self.slots.first(queue)?, cause)))?;
        let seq = self.slots.get(index).seq;
        // There is one: only packets of open collectives are queued.
        let (place, plan, packet) = self.find(seq)?;

        match cause {
            Cause::First => {
                if self.under_way == 0 {
                    self.progress_at = self.now;
                }
                self.under_way += 1;
                self.unsent -= 1;
                self.stats.sent += 1;
            }
            Cause::Timeout => self.stats.timeouts += 1,
            Cause::Overtaken => self.stats.overtaken += 1,
        }
        let slot = self.slots.get_mut(index);
        slot.sent_at = self.now;
        slot.sendings = if cause == Cause::First { Sendings::One } else { Sendings::More };
        let sent = if cause == Cause::Overtaken { Queue::SentAgain } else { Queue::SentOnce };
        self.slots.enqueue(index, sent);
        Some(self.build(place, &plan, packet, cause))
    }

    /// Takes one datagram that came from the aggregator's address for this lane; the caller has checked that (W-10).
    ///
    /// Write a [`Received::Chunk`] to the tensor at once. Then call [`poll_transmit`](Self::poll_transmit) and
    /// [`poll_event`](Self::poll_event), now or after a few more datagrams.
    pub fn handle_datagram<'d>(&mut self, now: Instant, datagram: &'d [u8]) -> Received<'d> {
        self.advance(now);
        let received = self.receive(datagram);
        match received {
            Received::Chunk(_) | Received::Exponent { .. } => self.stats.accepted += 1,
            Received::Duplicate => self.stats.duplicates += 1,
            Received::Stale => self.stats.stale += 1,
            Received::Foreign => self.stats.foreign += 1,
            Received::Malformed(_) => self.stats.malformed += 1,
            Received::Differ => {}
        }
        received
    }

    /// Looks at the timers. Early or needless calls change nothing.
    ///
    /// Afterwards call [`poll_transmit`](Self::poll_transmit) and [`poll_event`](Self::poll_event).
    pub fn handle_timeout(&mut self, now: Instant) {
        self.advance(now);
        if self.failure.is_some() || self.under_way == 0 {
            return;
        }
        if self.now >= self.progress_at + self.config.stall_time {
            if let Some(Waiting { seq, .. }) = self.waiting() {
                self.fail(Failure::Stalled { seq });
            }
            return;
        }
        if self.deadline().is_none_or(|deadline| self.now < deadline) {
            return;
        }
        // Packets that would be due soon go along. Otherwise those sent a microsecond apart would each double the
        // back-off, and the last ones of a window wait for seconds.
        let soon = self.now + self.rto.current() / 4;
        for queue in [Queue::SentOnce, Queue::SentAgain] {
            while let Some(index) = self.slots.first(queue)
                && self.deadline_of(self.slots.get(index)) <= soon
            {
                self.slots.enqueue(index, Queue::TimedOut);
            }
        }
        self.rto.expire();
        self.stats.expiries += 1;
    }

    /// When to call [`handle_timeout`](Self::handle_timeout) next, unless a datagram comes first; none if nothing is under
    /// way. Not later than the last `now` told while [`poll_transmit`](Self::poll_transmit) has output.
    ///
    /// May change with every other call.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        if self.failure.is_some() {
            return None;
        }
        let output = [Queue::Ready, Queue::TimedOut, Queue::Overtaken];
        if output.into_iter().any(|queue| self.slots.first(queue).is_some()) {
            return Some(self.now);
        }
        // Everything under way has a deadline now.
        self.deadline().map(|deadline| deadline.min(self.progress_at + self.config.stall_time))
    }

    /// The next news of a collective, until there is none. Each collective that was started is told once.
    ///
    /// Call it after `handle_datagram`, `handle_timeout` and `fail`.
    pub fn poll_event(&mut self) -> Option<Event> {
        let failure = self.failure;
        let place = (self.open.iter_mut())
            .filter(|place| place.is_some_and(|open| open.unanswered == 0 || failure.is_some()))
            .min_by_key(|place| place.map(|open| open.plan.id))?;
        let Open { plan, unanswered } = place.take()?;
        Some(match failure {
            Some(failure) if unanswered > 0 => Event::Failed { collective: plan.id, failure },
            _ => Event::Finished(plan.id),
        })
    }

    /// Ends the session for this lane, as it has ended elsewhere: all open collectives fail. Without effect if the worker
    /// has failed before.
    pub fn fail(&mut self, failure: Failure) {
        self.failure.get_or_insert(failure);
    }

    /// Why the worker has failed, if it has.
    #[must_use]
    pub fn failure(&self) -> Option<Failure> {
        self.failure
    }

    /// The oldest packet that was sent and has no result; also after a failure, that of then.
    ///
    /// Costs O(W): meant for a line each second, not for each packet.
    #[must_use]
    pub fn waiting(&self) -> Option<Waiting> {
        let oldest = self.slots.under_way().max_by_key(|slot| self.next_seq.since(slot.seq))?;
        let (_, plan, _) = self.find(oldest.seq)?;
        Some(Waiting { seq: oldest.seq, since: self.progress_at, collective: plan.id })
    }

    /// What it has done so far.
    #[must_use]
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// The retransmission timeout as it is now, back-off included.
    #[must_use]
    pub fn rto(&self) -> Duration {
        self.rto.current()
    }

    /// The smoothed round trip time, from sending a packet to its result: it includes the wait for the slowest rank.
    #[must_use]
    pub fn srtt(&self) -> Option<Duration> {
        self.rto.srtt()
    }
}

impl Worker<'_> {
    /// A clock that goes back would disorder the queues.
    fn advance(&mut self, now: Instant) {
        self.now = self.now.max(now);
    }

    /// A place for the next collective, if it may start (T-3a).
    fn free_place(&self) -> Option<usize> {
        self.open.iter().position(Option::is_none).filter(|_| self.unsent == 0)
    }

    /// The place and plan of the open collective that has a packet `seq`, and the packet's number in it.
    fn find(&self, seq: Seq) -> Option<(usize, Plan, u32)> {
        (self.open.iter().enumerate())
            .find_map(|(place, open)| Some((place, open.as_ref()?.plan, open.as_ref()?.plan.packet(seq)?)))
    }

    /// Queues a packet that was never sent, if T-2 and T-3 allow it now.
    fn ready(&mut self, plan: &Plan, packet: u32) {
        let seq = plan.first().plus(packet);
        let index = self.config.layout.index(seq);
        let is_next = self.slots.get(index).seq == seq && self.slots.queue(index).is_none();
        if is_next && plan.needs(packet).is_none_or(|needed| self.is_answered(plan.first().plus(needed))) {
            self.slots.enqueue(index, Queue::Ready);
        }
    }

    /// Whether the result of a packet of an open collective was accepted: then its slot has gone on.
    fn is_answered(&self, seq: Seq) -> bool {
        let next = self.slots.get(self.config.layout.index(seq)).seq;
        (1..1 << 31).contains(&next.since(seq))
    }

    fn build(&self, place: usize, plan: &Plan, packet: u32, cause: Cause) -> Transmit {
        let Config { job, layout, .. } = self.config;
        let content = plan.content(packet);
        let encode = content.chunk.map(|chunk| ChunkRef {
            elements: plan.elements(chunk),
            exponent: self.agreed_exponent(place, plan, chunk),
        });
        let size = match encode {
            Some(_) => PayloadSize::Elements(layout.chunk()),
            None => PayloadSize::ExponentOnly,
        };
        let seq = plan.first().plus(packet);
        let header = Header::new(job, layout, seq, size, NO_EXPONENT, plan.digest(packet));
        Transmit { collective: plan.id, header, encode, exponent: content.exponent, cause }
    }

    /// The block exponent agreed for a chunk, from its cell (T-3).
    fn agreed_exponent(&self, place: usize, plan: &Plan, chunk: u32) -> i8 {
        plan.cell_of(chunk).map_or(NO_EXPONENT, |cell| self.slots.get(cell).cells[place])
    }

    /// T-4.
    fn receive<'d>(&mut self, datagram: &'d [u8]) -> Received<'d> {
        let result = match Packet::parse(datagram) {
            Ok(result) => result,
            Err(error) => return Received::Malformed(Malformed::Data(error)),
        };
        let header = *result.header();
        if header.job != self.config.job {
            return Received::Foreign;
        }
        if !header.is_placed_by(self.config.layout) {
            return Received::Malformed(Malformed::Placement);
        }
        if self.failure.is_some() {
            return Received::Stale;
        }
        let index = self.config.layout.index(header.seq);
        let ahead = self.slots.get(index).seq.since(header.seq);
        let window = u32::from(self.config.layout.window().get());
        if ahead == window {
            return Received::Duplicate;
        }
        if (1..1 << 31).contains(&ahead) {
            return Received::Stale;
        }
        if ahead != 0 || matches!(self.slots.queue(index), None | Some(Queue::Ready)) {
            return Received::Foreign;
        }
        // There is one: the packet is under way.
        let Some((place, plan, packet)) = self.find(header.seq) else { return Received::Foreign };
        if header.digest == DIFFER {
            self.fail(Failure::CollectivesDiffer { seq: header.seq });
            return Received::Differ;
        }
        if header.digest != plan.digest(packet) {
            return Received::Malformed(Malformed::Digest);
        }
        let chunk = plan.content(packet).chunk;
        let size = match chunk {
            Some(_) => PayloadSize::Elements(self.config.layout.chunk()),
            None => PayloadSize::ExponentOnly,
        };
        if header.size != size {
            return Received::Malformed(Malformed::Size);
        }
        let received = match chunk {
            None => Received::Exponent { collective: plan.id },
            Some(chunk) => Received::Chunk(Chunk {
                collective: plan.id,
                range: plan.elements(chunk).range(),
                // Read before this result may write the same cell (T-3).
                exponent: self.agreed_exponent(place, &plan, chunk),
                fidelity: if plan.has_marks() {
                    Fidelity::of_result(header.exponent)
                } else {
                    Fidelity::Faithful
                },
                elements: result.elements(),
            }),
        };
        if let Some(cell) = plan.cell_written(packet) {
            self.slots.get_mut(cell).cells[place] = header.exponent;
        }
        self.accept(place, &plan, packet, index);
        received
    }

    /// T-5: a result frees its slot, and may make packets sendable.
    fn accept(&mut self, place: usize, plan: &Plan, packet: u32, index: usize) {
        let window = self.config.layout.window().get().into();
        let slot = self.slots.get_mut(index);
        let sent_at = slot.sent_at;
        let sent_once = slot.sendings == Sendings::One;
        slot.seq = slot.seq.plus(window);
        let next = slot.seq;
        self.slots.release(index);

        let round_trip = sent_once.then(|| self.now.since(sent_at));
        if self.rto.accept(round_trip, self.under_way) == BackOff::Ended {
            self.resumed_at = self.now;
        }
        self.progress_at = self.now;
        self.under_way -= 1;
        if let Some(open) = &mut self.open[place] {
            open.unanswered -= 1;
        }
        if sent_once {
            self.answered_until = self.answered_until.max(sent_at);
            self.resend_overtaken();
        }

        if let Some((_, plan, packet)) = self.find(next) {
            self.ready(&plan, packet);
        }
        if let Some(later) = plan.needed_by(packet) {
            self.ready(plan, later);
        }
    }

    /// T-9. Only results of packets sent once tell anything: after a stall, that of one sent again may belong to the first
    /// sending, as late as all others.
    fn resend_overtaken(&mut self) {
        let allowance = self.rto.srtt().map_or(Duration::ZERO, |srtt| srtt / 4).max(self.config.reordering);
        while let Some(index) = self.slots.first(Queue::SentOnce)
            && self.slots.get(index).sent_at + allowance < self.answered_until
        {
            self.slots.enqueue(index, Queue::Overtaken);
        }
    }

    /// When the first packet under way is due, of those that are not queued already.
    fn deadline(&self) -> Option<Instant> {
        [Queue::SentOnce, Queue::SentAgain]
            .into_iter()
            .filter_map(|queue| Some(self.deadline_of(self.slots.get(self.slots.first(queue)?))))
            .min()
    }

    fn deadline_of(&self, slot: &Slot) -> Instant {
        slot.sent_at.max(self.resumed_at) + self.rto.current()
    }
}

/// Digest of a result whose contributions differ (W-7).
const DIFFER: i8 = -128;
