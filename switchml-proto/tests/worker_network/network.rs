//! The network, and the loop that drives workers through it.

use core::cmp::Reverse;
use core::ops::Range;
use core::time::Duration;
use std::collections::BinaryHeap;

use switchml_proto::worker::{Cause, Config, Event, Received, Slot, Worker};
use switchml_proto::{Instant, JobId, LaneCount, LaneId, LaneLayout, Seq};

use crate::aggregator::{Aggregator, Answer};
use crate::random::Random;
use crate::tensors::Tensors;

/// What one run is about.
#[derive(Clone, Debug)]
pub(crate) struct Scenario {
    pub(crate) seed: u64,
    pub(crate) layout: LaneLayout,
    pub(crate) initial_seq: Seq,
    pub(crate) lane: LaneId,
    pub(crate) lanes: LaneCount,
    /// Probability that a datagram is lost.
    pub(crate) loss: f64,
    /// Probability that it arrives twice.
    pub(crate) duplicate: f64,
    /// Probability that it arrives up to [`LATE`] later than others.
    pub(crate) late: f64,
    /// How long it usually travels, one way.
    pub(crate) delay: Range<Duration>,
    /// The longest time that a rank computes before it starts its next collective.
    pub(crate) think: Duration,
    /// A rank that does nothing for a while: neither sends nor receives.
    pub(crate) stopped: Option<(usize, Range<Instant>)>,
    /// From when on every datagram travels longer, and by how much.
    pub(crate) slower: Option<(Instant, Duration)>,
    /// Timers are looked at with every event, not only when they are due.
    pub(crate) spurious_timeouts: bool,
}

const LATE: Duration = Duration::from_millis(40);

pub(crate) const JOB: JobId = JobId(5);

/// How a run went.
pub(crate) struct Outcome {
    pub(crate) end: Instant,
    pub(crate) workers: Vec<WorkerOutcome>,
    /// Packets that the aggregator had seen already, whose phase was not complete: sent in vain.
    pub(crate) ignored: u64,
    /// Packets that the aggregator answered with a stored result.
    pub(crate) unicast: u64,
}

pub(crate) struct WorkerOutcome {
    /// Each sending: when, which packet, and why.
    pub(crate) sent: Vec<(Instant, Seq, Cause)>,
    /// Each change of the retransmission timeout.
    pub(crate) rto: Vec<(Instant, Duration)>,
}

struct Arrival {
    at: Instant,
    order: u64,
    to: Party,
    datagram: Vec<u8>,
}

#[derive(Clone, Copy)]
enum Party {
    Aggregator { from: usize },
    Worker(usize),
}

struct Network<'a> {
    scenario: &'a Scenario,
    random: Random,
    arrivals: BinaryHeap<Reverse<Arrival>>,
    order: u64,
}

struct Host<'w, 't, 'r> {
    worker: Worker<'w>,
    tensors: &'t mut Tensors<'r>,
    started: usize,
    finished: usize,
    next_start: Instant,
    outcome: WorkerOutcome,
}

impl Scenario {
    pub(crate) fn new(seed: u64, layout: LaneLayout) -> Self {
        Self {
            seed,
            layout,
            initial_seq: Seq(0),
            lane: LaneId::ZERO,
            lanes: LaneCount::new(1).unwrap(),
            loss: 0.0,
            duplicate: 0.0,
            late: 0.0,
            delay: Duration::from_micros(40)..Duration::from_micros(60),
            think: Duration::ZERO,
            stopped: None,
            slower: None,
            spurious_timeouts: false,
        }
    }

    /// Runs all collectives of the tensors, on this scenario's lane, to their end.
    ///
    /// # Panics
    /// If they do not finish, or a worker is not honest about its timeouts.
    pub(crate) fn run(&self, tensors: &mut [Tensors<'_>]) -> Outcome {
        let window = usize::from(self.layout.window().get());
        let mut slots = vec![Slot::EMPTY; window * tensors.len()];
        let mut aggregator = Aggregator::new(tensors.len(), JOB, self.layout, self.initial_seq);
        let mut network =
            Network { scenario: self, random: Random(self.seed), arrivals: BinaryHeap::new(), order: 0 };
        let config = Config::new(JOB, self.layout, self.initial_seq, self.lane, self.lanes);
        let mut hosts: Vec<_> = (tensors.iter_mut().zip(slots.chunks_mut(window)))
            .map(|(tensors, slots)| Host {
                worker: Worker::new(config, slots).unwrap(),
                tensors,
                started: 0,
                finished: 0,
                next_start: network.think(Instant::ZERO),
                outcome: WorkerOutcome { sent: Vec::new(), rto: Vec::new() },
            })
            .collect();
        let mut now = Instant::ZERO;
        loop {
            for (rank, host) in hosts.iter_mut().enumerate() {
                if self.stopped_until(rank, now).is_none() {
                    host.drive(rank, now, &mut network);
                }
            }
            if hosts.iter().all(Host::is_done) {
                break;
            }
            let wakes = hosts.iter().enumerate().filter_map(|(rank, host)| {
                let wake = host.wake()?;
                assert!(wake > now || self.stopped_until(rank, now).is_some(), "a timeout that never ends");
                Some(self.stopped_until(rank, wake).unwrap_or(wake))
            });
            let arrival = network.arrivals.peek().map(|Reverse(arrival)| arrival.at);
            now = wakes.chain(arrival).min().expect("all wait, and nothing is under way");
            assert!(now < Instant::ZERO + Duration::from_secs(300), "no end: {self:?}");
            if arrival.is_some_and(|at| at <= now) {
                let Reverse(arrival) = network.arrivals.pop().unwrap();
                match arrival.to {
                    Party::Aggregator { from } => {
                        let answer = aggregator.handle(from, &arrival.datagram);
                        network.answer(now, from, hosts.len(), answer);
                    }
                    Party::Worker(rank) => match self.stopped_until(rank, now) {
                        // It waits in the stopped process's socket.
                        Some(until) => network.push(until, Party::Worker(rank), arrival.datagram),
                        None => hosts[rank].receive(now, &arrival.datagram),
                    },
                }
            }
        }
        Outcome {
            end: now,
            workers: hosts.into_iter().map(|host| host.outcome).collect(),
            ignored: aggregator.counters.ignored,
            unicast: aggregator.counters.unicast,
        }
    }

    fn stopped_until(&self, rank: usize, now: Instant) -> Option<Instant> {
        (self.stopped.as_ref())
            .filter(|(stopped, when)| *stopped == rank && when.contains(&now))
            .map(|s| s.1.end)
    }
}

impl Host<'_, '_, '_> {
    fn is_done(&self) -> bool {
        self.finished == self.tensors.references.len()
    }

    fn may_start(&self) -> bool {
        self.started < self.tensors.references.len() && self.worker.can_start()
    }

    fn wake(&self) -> Option<Instant> {
        let start = self.may_start().then_some(self.next_start);
        self.worker.poll_timeout().into_iter().chain(start).min()
    }

    fn drive(&mut self, rank: usize, now: Instant, network: &mut Network<'_>) {
        if network.scenario.spurious_timeouts
            || self.worker.poll_timeout().is_some_and(|timeout| timeout <= now)
        {
            self.worker.handle_timeout(now);
        }
        loop {
            while let Some(event) = self.worker.poll_event() {
                assert!(matches!(event, Event::Finished(_)), "{event:?}");
                self.finished += 1;
            }
            if self.may_start() && self.next_start <= now {
                let collective = self.tensors.references[self.started].collective;
                let id = self.worker.start(collective, now).unwrap();
                assert_eq!(id.0, self.started as u64);
                self.started += 1;
                self.next_start = network.think(now);
                assert!(self.worker.poll_timeout().is_some());
            }
            let Some(transmit) = self.worker.poll_transmit(now) else { break };
            let mut datagram = vec![0xaa; transmit.len()];
            assert_eq!(transmit.emit(self.tensors, &mut datagram), datagram.len());
            self.outcome.sent.push((now, transmit.header().seq, transmit.cause()));
            network.send(now, Party::Aggregator { from: rank }, datagram);
        }
        if self.outcome.rto.last().is_none_or(|last| last.1 != self.worker.rto()) {
            self.outcome.rto.push((now, self.worker.rto()));
        }
    }

    fn receive(&mut self, now: Instant, datagram: &[u8]) {
        match self.worker.handle_datagram(now, datagram) {
            Received::Chunk(chunk) => self.tensors.write(&chunk),
            Received::Exponent { .. } | Received::Duplicate | Received::Stale => {}
            other => panic!("{other:?}"),
        }
    }
}

impl Network<'_> {
    fn think(&mut self, now: Instant) -> Instant {
        now + Duration::from_nanos(self.random.below(self.scenario.think.as_nanos() as u64 + 1))
    }

    fn answer(&mut self, now: Instant, asker: usize, world_size: usize, answer: Answer) {
        match answer {
            Answer::Nothing => {}
            Answer::Unicast(datagram) => self.send(now, Party::Worker(asker), datagram),
            Answer::Multicast(datagram) => {
                for rank in 0..world_size {
                    self.send(now, Party::Worker(rank), datagram.clone());
                }
            }
        }
    }

    fn send(&mut self, now: Instant, to: Party, datagram: Vec<u8>) {
        if self.random.chance(self.scenario.loss) {
            return;
        }
        let copies = if self.random.chance(self.scenario.duplicate) { 2 } else { 1 };
        for _ in 0..copies {
            let Range { start, end } = self.scenario.delay;
            let mut delay =
                start + Duration::from_nanos(self.random.below((end - start).as_nanos() as u64 + 1));
            if self.random.chance(self.scenario.late) {
                delay += Duration::from_nanos(self.random.below(LATE.as_nanos() as u64));
            }
            if let Some((_, longer)) = self.scenario.slower.filter(|(since, _)| *since <= now) {
                delay += longer;
            }
            self.push(now + delay, to, datagram.clone());
        }
    }

    fn push(&mut self, at: Instant, to: Party, datagram: Vec<u8>) {
        self.order += 1;
        self.arrivals.push(Reverse(Arrival { at, order: self.order, to, datagram }));
    }
}

impl Ord for Arrival {
    fn cmp(&self, other: &Self) -> core::cmp::Ordering {
        (self.at, self.order).cmp(&(other.at, other.order))
    }
}

impl PartialOrd for Arrival {
    fn partial_cmp(&self, other: &Self) -> Option<core::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Arrival {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Arrival {}
