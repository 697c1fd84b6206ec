//! A worker's side of a state: the machine that ships, its memory, and what its rank has of the tensors.

use core::hash::Hash;
use core::panic::AssertUnwindSafe;
use core::time::Duration;
use std::panic::catch_unwind;

use switchml_proto::wire::{MAX_DATAGRAM_LEN, Packet};
use switchml_proto::worker::{Chunk, CollectiveId, Config, Event, Failure, Received, Slot, Snapshot, Worker};
use switchml_proto::{Instant, LaneCount, LaneId};

use crate::fault::Fault;
use crate::oracle::Oracle;
use crate::packets::{Packets, Set};
use crate::scenario::{JOB, MAX_WINDOW, Scenario, Sending};
use crate::states::{Key, KeyHasher};
use crate::tensors::Tensors;

/// One state of one worker.
#[derive(Debug)]
pub(crate) struct Member {
    rank: usize,
    snapshot: Snapshot,
    slots: Vec<Slot>,
    /// The latest time that it was told; no part of the state.
    now: Instant,
    pub(crate) progress: Progress,
}

/// How far a worker's caller has come.
#[derive(Clone, Copy, Debug, Default, Hash)]
pub(crate) struct Progress {
    pub(crate) started: usize,
    /// Collectives that ended, well or not.
    pub(crate) ended: usize,
    pub(crate) failed: bool,
    /// Packets whose result was accepted, by number.
    pub(crate) accepted: u32,
    /// Chunks of the list whose result was written over their input, by number.
    pub(crate) delivered: u32,
    /// The most packets in flight, where the schedule says so.
    flight: Option<u32>,
    pub(crate) fault: Option<Fault>,
}

/// What happens to a worker.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Input {
    /// Its caller starts the next collective.
    Start,
    /// It hands one packet to the network.
    Send,
    /// Its timers run out, until all that is under way was due.
    Timeout,
    /// It may have so many packets in flight from now on.
    Flight(u32),
    /// This result arrives.
    Arrival(usize),
}

impl Input {
    /// A number for each.
    pub(crate) const fn number(self) -> usize {
        match self {
            Self::Start => 0,
            Self::Send => 1,
            Self::Timeout => 2,
            Self::Flight(packets) => 2 + packets as usize,
            Self::Arrival(result) => 3 + MAX_WINDOW + result,
        }
    }
}

/// Later than any deadline that is running: the longest timeout is 1 s.
const LATER: Duration = Duration::from_secs(2);

impl Member {
    pub(crate) fn new(scenario: &Scenario, rank: usize) -> Self {
        let lanes = LaneCount::new(1).expect("one lane is a number of lanes");
        let mut config = Config::new(JOB, scenario.layout(), scenario.initial_seq(), LaneId::ZERO, lanes);
        // Time is no part of the states, so it must not end anything.
        config.stall_time = Duration::MAX;
        let mut slots = vec![Slot::EMPTY; scenario.window];
        let worker = Worker::new(config, &mut slots).expect("the scenario was checked");
        let snapshot = worker.into_snapshot();
        Self { rank, snapshot, slots, now: Instant::ZERO, progress: Progress::default() }
    }

    /// The state after an input, and the packets that were sent.
    pub(crate) fn after(
        &self,
        input: Input,
        scenario: &Scenario,
        oracle: &Oracle,
        requests: &mut Packets,
        results: &Packets,
    ) -> (Self, Set) {
        let Self { rank, now, progress, .. } = *self;
        let mut slots = self.slots.clone();
        let mut step = Step { scenario, oracle, requests, rank, now, progress, sent: 0 };
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            let mut worker = self.snapshot.resume(&mut slots);
            step.take(&mut worker, input, results);
            let snapshot = worker.into_snapshot();
            step.look_at_timer(snapshot.resume(&mut slots.clone()));
            snapshot
        }));
        let snapshot = outcome.unwrap_or_else(|_| {
            step.fault(Fault::Panic);
            // It is left as it was: the fault ends the exploration.
            slots.clone_from(&self.slots);
            self.snapshot.resume(&mut slots).into_snapshot()
        });
        let Step { now, progress, sent, .. } = step;
        (Self { rank, snapshot, slots, now, progress }, sent)
    }

    /// All that decides what it does.
    pub(crate) fn key(&self) -> Key {
        let mut hasher = KeyHasher::default();
        self.snapshot.resume(&mut self.slots.clone()).hash_state(&mut hasher);
        self.progress.hash(&mut hasher);
        hasher.0
    }

    /// Whether all its collectives have ended.
    pub(crate) fn is_done(&self, oracle: &Oracle) -> bool {
        self.progress.failed || self.progress.ended == oracle.lists[self.rank].tensors.len()
    }
}

/// One step of one worker, under way.
struct Step<'a> {
    scenario: &'a Scenario,
    oracle: &'a Oracle,
    requests: &'a mut Packets,
    rank: usize,
    now: Instant,
    progress: Progress,
    sent: Set,
}

impl Step<'_> {
    fn take(&mut self, worker: &mut Worker<'_>, input: Input, results: &Packets) {
        match input {
            Input::Start => self.start(worker),
            Input::Send => self.send(worker),
            Input::Timeout => self.time_out(worker),
            Input::Flight(packets) => {
                self.progress.flight = Some(packets);
                self.keep_flight(worker);
            }
            Input::Arrival(result) => {
                let result = results.get(result);
                self.receive(worker, result.number, &result.datagram);
                self.keep_flight(worker);
            }
        }
        while let Some(event) = worker.poll_event() {
            self.progress.ended += 1;
            if let Event::Failed { failure, .. } = event {
                self.fail(failure);
            }
        }
        self.send_if_prompt(worker);
    }

    /// What results did to the congestion window is undone: the schedule alone says what it is.
    fn keep_flight(&self, worker: &mut Worker<'_>) {
        if let Some(packets) = self.progress.flight {
            worker.set_congestion_window(packets);
        }
    }

    /// As often as it takes until all that is under way was due: the first time it may be a part only (T-6).
    fn time_out(&mut self, worker: &mut Worker<'_>) {
        for _ in 0..=self.scenario.window {
            self.now += LATER;
            worker.handle_timeout(self.now);
            self.send_if_prompt(worker);
        }
    }

    fn send_if_prompt(&mut self, worker: &mut Worker<'_>) {
        if self.scenario.sending == Sending::Prompt {
            while self.has_output(worker) {
                self.send(worker);
            }
        }
    }

    fn start(&mut self, worker: &mut Worker<'_>) {
        let list = &self.oracle.lists[self.rank].tensors;
        if let Some(tensor) = list.get(self.progress.started)
            && worker.can_start()
        {
            match worker.start(tensor.collective(), self.now) {
                Ok(_) => self.progress.started += 1,
                Err(_) => self.fault(Fault::Failed),
            }
        }
    }

    /// Whether a packet waits to be sent, as the worker's timeout tells.
    fn has_output(&self, worker: &Worker<'_>) -> bool {
        self.progress.fault.is_none() && worker.poll_timeout().is_some_and(|at| at <= self.now)
    }

    fn send(&mut self, worker: &mut Worker<'_>) {
        if !self.has_output(worker) {
            return;
        }
        let Some(transmit) = worker.poll_transmit(self.now) else { return self.fault(Fault::Timer) };
        let mut datagram = [0xaa; MAX_DATAGRAM_LEN];
        let len = transmit.emit(&mut self.tensors(), &mut datagram);
        let number = transmit.header().seq.since(self.scenario.initial_seq());
        match self.requests.intern(self.rank, number, &datagram[..len]) {
            Ok(request) => self.sent |= request,
            Err(_) => self.fault(Fault::TwoContributions),
        }
    }

    /// I-1 and I-2: a result that is accepted must be the only right one, which is the same for all workers.
    fn receive(&mut self, worker: &mut Worker<'_>, number: u32, datagram: &[u8]) {
        let received = worker.handle_datagram(self.now, datagram);
        let right = match &received {
            Received::Duplicate | Received::Stale | Received::Differ => return,
            Received::Exponent { collective } => self.is_right(number, datagram, *collective, None),
            Received::Chunk(chunk) => self.is_right(number, datagram, chunk.collective, Some(chunk)),
            _ => return self.fault(Fault::Impossible),
        };
        if !right || self.progress.accepted & 1 << number != 0 {
            return self.fault(Fault::WrongResult);
        }
        self.progress.accepted |= 1 << number;
    }

    fn is_right(
        &mut self,
        number: u32,
        datagram: &[u8],
        collective: CollectiveId,
        chunk: Option<&Chunk<'_>>,
    ) -> bool {
        let (Some(expected), Ok(result)) = (self.oracle.result(number), Packet::parse(datagram)) else {
            return false;
        };
        let said = (collective, result.header().exponent, result.elements());
        let written = match (chunk, expected.chunk) {
            (None, None) => true,
            (Some(chunk), Some(number)) => {
                let mut tensors = self.tensors();
                let right = tensors.write(number, chunk);
                self.progress.delivered = tensors.delivered;
                right
            }
            _ => false,
        };
        written && said == (expected.collective, expected.exponent, &expected.elements)
    }

    /// D-1: only who calls what others do not call may fail, and those others.
    fn fail(&mut self, failure: Failure) {
        self.progress.failed = true;
        let differ = self.oracle.agreed < self.oracle.lists[self.rank].packets;
        if !(differ && matches!(failure, Failure::CollectivesDiffer { .. })) {
            self.fault(Fault::Failed);
        }
    }

    /// I-3: what is open shows in `poll_timeout`, and when that time comes there is something to send. Only after a smaller
    /// congestion window, several deadlines may have to pass until there is room.
    fn look_at_timer(&mut self, mut worker: Worker<'_>) {
        if self.progress.started == self.progress.ended || self.progress.failed {
            return;
        }
        for _ in 0..=self.scenario.window {
            let Some(at) = worker.poll_timeout() else { break };
            worker.handle_timeout(at);
            if worker.poll_transmit(at).is_some() {
                return;
            }
        }
        self.fault(Fault::Timer);
    }

    fn tensors(&self) -> Tensors<'_> {
        let Self { oracle, rank, progress: Progress { delivered, .. }, .. } = *self;
        Tensors { oracle, world_size: self.scenario.world_size(), rank, delivered }
    }

    fn fault(&mut self, fault: Fault) {
        self.progress.fault.get_or_insert(fault);
    }
}
