//! One lane of one rank: T-1 to T-10, and the digest D-1.
//!
//! A [`Worker`] knows chunks, not tensors: it says which packet to send now, which chunk goes into it, and which chunk a
//! result is. The caller owns sockets, clock and tensors, and converts elements with [`numeric`](crate::numeric). So several
//! tensors may be under way, of any type, and the worker has no buffer and no type parameter.
//!
//! # Driving it
//!
//! ```
//! use std::net::UdpSocket;
//! use std::ops::Range;
//! use std::time::Duration;
//!
//! use switchml_proto::numeric::{ElementType, Reduction, decode_integer, encode_integer};
//! use switchml_proto::wire::MAX_DATAGRAM_LEN;
//! use switchml_proto::worker::*;
//! use switchml_proto::{ChunkSize, Instant, JobId, LaneCount, LaneId, LaneLayout, Seq, Window};
//!
//! // 1. What packets need of the tensor. Here there is one, of integers.
//! struct Tensor(Vec<i32>);
//!
//! impl ChunkSource for Tensor {
//!     fn exponent(&mut self, _: CollectiveId, _: Range<u64>) -> i8 {
//!         unreachable!("integers have none")
//!     }
//!
//!     fn encode(&mut self, _: CollectiveId, range: Range<u64>, _: i8, wire: &mut [u8]) -> Fidelity {
//!         encode_integer(&self.0[range.start as usize..range.end as usize], wire);
//!         Fidelity::Faithful
//!     }
//! }
//!
//! // 2. The session's parameters come from the aggregator's welcome; memory and clock are the caller's.
//! let layout = LaneLayout::new(0, Window::new(8)?, ChunkSize::DEFAULT)?;
//! let config = Config::new(JobId(7), layout, Seq(32), LaneId::ZERO, LaneCount::new(1)?);
//! let mut slots = [Slot::EMPTY; 8];
//! let mut worker = Worker::new(config, &mut slots)?;
//! let start = std::time::Instant::now();
//! let clock = || Instant::from_nanos(start.elapsed().as_nanos() as u64);
//! let socket = UdpSocket::bind("127.0.0.1:0")?;
//! # // In a world of one worker each packet is its own sum (A-5), so an echo is a correct aggregator.
//! # let aggregator = UdpSocket::bind("127.0.0.1:0")?;
//! # socket.connect(aggregator.local_addr()?)?;
//! # std::thread::spawn(move || {
//! #     let mut datagram = [0; MAX_DATAGRAM_LEN];
//! #     while let Ok((len, from)) = aggregator.recv_from(&mut datagram) {
//! #         aggregator.send_to(&datagram[..len], from).unwrap();
//! #     }
//! # });
//!
//! // 3. Start a collective, as all other ranks do.
//! let mut tensor = Tensor((0..10_000).collect());
//! let collective = Collective::all_reduce(10_000, ElementType::Int32, Reduction::Sum, Conversion::Integer)?;
//! let id = worker.start(collective, clock())?;
//!
//! let mut datagram = [0; MAX_DATAGRAM_LEN];
//! 'collective: loop {
//!     // 4. Send all that may be sent. A datagram that the socket does not take counts as lost.
//!     while let Some(transmit) = worker.poll_transmit(clock()) {
//!         let len = transmit.emit(&mut tensor, &mut datagram);
//!         let _ = socket.send(&datagram[..len]);
//!     }
//!     // 5. See what has ended.
//!     while let Some(event) = worker.poll_event() {
//!         match event {
//!             Event::Finished(finished) if finished == id => break 'collective,
//!             other => panic!("{other:?}"),
//!         }
//!     }
//!     // 6. Wait for a datagram, but not longer than the worker says.
//!     let timeout = worker.poll_timeout().expect("a collective is open");
//!     socket.set_read_timeout(Some(timeout.since(clock()).max(Duration::from_micros(1))))?;
//!     match socket.recv(&mut datagram) {
//!         // 7. A result belongs to a chunk of the tensor. All else was counted by the worker, and needs no attention.
//!         Ok(len) => {
//!             if let Received::Chunk(chunk) = worker.handle_datagram(clock(), &datagram[..len]) {
//!                 let range = chunk.range.start as usize..chunk.range.end as usize;
//!                 decode_integer(chunk.elements, &mut tensor.0[range]);
//!             }
//!         }
//!         // 8. The time is up, or the socket has an error, which sending again will mend or the stall time end.
//!         Err(_) => worker.handle_timeout(clock()),
//!     }
//! }
//! assert!(tensor.0.into_iter().eq(0..10_000));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Under a stream of datagrams the wait of step 6 may never be in vain: call
//! [`handle_timeout`](Worker::handle_timeout) then too, once for each batch of datagrams.
//! But take the datagrams that wait first: a process that was stopped for a while would otherwise send again what was
//! answered long ago.
//!
//! # What it does not do
//!
//! It does not join or leave, and sends no keep-alive; that is the control machines' part. It does not check where a
//! datagram came from. It does not know the world size: `numeric` does.

mod collective;
mod config;
mod congestion;
mod digest;
mod losses;
mod outcome;
mod plan;
mod received;
mod results;
mod seq_space;
mod slots;
#[cfg(feature = "snapshot")]
mod snapshot;
mod transmit;

use core::time::Duration;

pub use self::collective::{Collective, CollectiveId, Conversion, InvalidCollective, Operation};
pub use self::config::{Config, ConfigError};
use self::congestion::Congestion;
pub use self::outcome::{Event, Failure, StartError, Stats, Waiting};
use self::plan::Plan;
pub use self::received::{Chunk, Malformed, Received};
use self::seq_space::SeqSpace;
pub use self::slots::Slot;
use self::slots::{Queue, Sendings, Slots};
#[cfg(feature = "snapshot")]
pub use self::snapshot::Snapshot;
pub use self::transmit::{Cause, ChunkRef, ChunkSource, Fidelity, Transmit};
use crate::ids::Seq;
use crate::rtt::Rto;
use crate::time::Instant;

/// One lane of one rank: cuts collectives into packets, sends them as the window allows, repeats what is lost, and says
/// which chunk each result is. The [module](self) shows how to drive it.
///
/// It owns no buffer and no clock. No call allocates or blocks, and each costs O(1), but for [`start`](Self::start) and
/// [`waiting`](Self::waiting), which look at all W slots, and for packets that are taken for lost: those cost O(1) each.
/// The result of the oldest packet costs O(1) for each later one that was answered before it.
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
    /// The first packet without a result, or the next one to be started if there is none.
    oldest: Seq,
    congestion: Congestion,
    rto: Rto,
    /// Deadlines count from here for packets sent before: the last expiry, the end of the last back-off, or the last result
    /// that came in turn.
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
            oldest: config.initial_seq,
            congestion: Congestion::new(window.into()),
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
        let (index, cause) = self.next_to_send()?;
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
        self.slots.enqueue(index, Queue::InFlight);
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
        if self.failure.is_none() && self.under_way > 0 {
            self.expire();
        }
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
        if self.next_to_send().is_some() {
            return Some(self.now);
        }
        // What waits for room waits for packets in flight, and those have a deadline.
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

    /// The oldest packet that was sent and has no result. After a failure that of then, until the last event was told.
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

    /// The most packets that it keeps in flight at present: at most the window (T-10).
    #[must_use]
    pub fn congestion_window(&self) -> u32 {
        self.congestion.limit()
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

    /// The slot whose packet is to be sent next, and why.
    ///
    /// The oldest packet without a result may always be sent (T-10): otherwise two ranks that had filled their limits with
    /// different packets would wait for each other.
    fn next_to_send(&self) -> Option<(usize, Cause)> {
        if self.slots.in_flight() >= self.congestion.limit() {
            let index = self.config.layout.index(self.oldest);
            let cause = self.slots.queue(index)?.cause()?;
            return (self.slots.get(index).seq == self.oldest).then_some((index, cause));
        }
        [Queue::Overtaken, Queue::TimedOut, Queue::Ready]
            .into_iter()
            .find_map(|queue| Some((self.slots.first(queue)?, queue.cause()?)))
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
}

#[cfg(feature = "defmt")]
impl defmt::Format for Worker<'_> {
    fn format(&self, f: defmt::Formatter<'_>) {
        let Self { config, failure, stats, .. } = self;
        defmt::write!(f, "Worker {{ config: {}, failure: {}, stats: {}, .. }}", config, failure, stats);
    }
}

#[cfg(test)]
mod tests;
