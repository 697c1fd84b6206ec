//! The loop.

use std::collections::VecDeque;

use switchml_proto::worker::{Event as Told, Received, Slot, StartError, Worker};
use switchml_proto::{Instant, LaneId};

use super::outcome::{Broken, How, Outcome, Verdicts, Watch};
use super::plane::Plane;
use super::scenario::{Place, Scenario};
use super::wires::{Event, Wires};
use crate::dice::Dice;
use crate::network::{Agenda, Checksum, Datagram, Party};
use crate::record::Verdict;
use crate::tensors::Application;

/// Runs all collectives of the applications to their end: one application for each rank, one plane for each lane.
///
/// # Errors
/// [`Broken`] says which promise did not hold, and with which seed it can be seen again.
pub fn run<A: Application>(
    scenario: &Scenario,
    planes: &mut [impl Plane],
    ranks: &mut [A],
    watch: &mut impl Watch,
) -> Result<Outcome, Broken> {
    let window = usize::from(scenario.layout.window().get());
    let mut slots = vec![Slot::EMPTY; window * planes.len() * ranks.len()];
    let mut dice = Dice::new(scenario.seed);
    let wires = Wires::new(scenario, &mut dice);
    let workers = workers(scenario, &mut slots, &mut dice).map_err(|why| Broken {
        seed: scenario.seed,
        at: Instant::ZERO,
        how: How::Scenario(why),
    })?;
    let aggregators = planes.iter_mut().map(|plane| AggregatorLane::new(plane)).collect();
    let agenda = Agenda::new();
    let (now, end) = (Instant::ZERO, Instant::ZERO);
    let counts = Counts { verdicts: Verdicts::default(), overruns: 0, steps: 0 };
    let mut run =
        Run { scenario, ranks, watch, wires, workers, aggregators, agenda, dice, now, end, busy: 0, counts };
    run.go().map_err(|how| Broken { seed: scenario.seed, at: run.now, how })?;
    let mut stats = run.workers.iter().map(|lane| *lane.worker.stats());
    let workers = run.ranks.iter().map(|_| stats.by_ref().take(run.aggregators.len()).collect()).collect();
    let Counts { verdicts, overruns, steps } = run.counts;
    Ok(Outcome { end: run.end, workers, verdicts, network: run.wires.tally(), overruns, steps })
}

struct Run<'r, 'w, P, A, W> {
    scenario: &'r Scenario,
    ranks: &'r mut [A],
    watch: &'r mut W,
    wires: Wires,
    /// By rank, then by lane.
    workers: Vec<WorkerLane<'w>>,
    aggregators: Vec<AggregatorLane<'r, P>>,
    agenda: Agenda<Event>,
    dice: Dice,
    now: Instant,
    /// When the last lane finished.
    end: Instant,
    /// Lanes of workers that have not finished.
    busy: usize,
    counts: Counts,
}

struct Counts {
    verdicts: Verdicts,
    overruns: u64,
    steps: u64,
}

/// One lane of one rank: a thread with a socket.
struct WorkerLane<'w> {
    worker: Worker<'w>,
    rank: usize,
    lane: usize,
    inbox: VecDeque<Datagram>,
    inbox_octets: usize,
    /// Until when it works on the last datagram.
    free_at: Instant,
    /// The earliest time at which it is woken, if it is.
    wake_at: Option<Instant>,
    /// How often it has asked for the present time again.
    rounds: u32,
    started: u64,
    finished: u64,
    /// When it may start the next collective.
    next_start: Instant,
}

/// One lane of the aggregator.
struct AggregatorLane<'r, P> {
    plane: &'r mut P,
    inbox: VecDeque<(Option<usize>, Datagram)>,
    inbox_octets: usize,
    free_at: Instant,
    /// When it is woken, if it is.
    wake_at: Option<Instant>,
    reply: Vec<u8>,
}

fn workers<'w>(
    scenario: &Scenario,
    slots: &'w mut [Slot],
    dice: &mut Dice,
) -> Result<Vec<WorkerLane<'w>>, String> {
    let parties = (0..usize::from(scenario.world_size.get()))
        .flat_map(|rank| scenario.lanes.lanes().map(move |lane| (rank, lane)));
    parties
        .zip(slots.chunks_mut(scenario.layout.window().get().into()))
        .map(|((rank, lane), slots)| {
            let worker = Worker::new(scenario.config(lane), slots).map_err(|error| error.to_string())?;
            Ok(WorkerLane {
                worker,
                rank,
                lane: lane.index(),
                inbox: VecDeque::new(),
                inbox_octets: 0,
                free_at: Instant::ZERO,
                wake_at: None,
                rounds: 0,
                started: 0,
                finished: 0,
                next_start: Instant::ZERO + dice.time(scenario.think),
            })
        })
        .collect()
}

impl<P: Plane, A: Application, W: Watch> Run<'_, '_, P, A, W> {
    fn go(&mut self) -> Result<(), How> {
        self.busy = self.workers.iter().filter(|lane| self.ranks[lane.rank].collective(0).is_some()).count();
        for worker in 0..self.workers.len() {
            self.drive(worker)?;
        }
        while self.busy > 0 {
            let (now, event) = self.agenda.next().ok_or(How::Stuck)?;
            self.now = now;
            self.counts.steps += 1;
            if now > self.scenario.deadline {
                return Err(How::Late);
            }
            if self.counts.steps > self.scenario.steps {
                return Err(How::Endless);
            }
            self.happen(event)?;
        }
        Ok(())
    }

    fn happen(&mut self, event: Event) -> Result<(), How> {
        let Self { wires, agenda, watch, now, .. } = self;
        match event {
            Event::AtWorker { datagram, .. } | Event::AtAggregator { datagram, .. }
                if datagram.checksum == Checksum::Wrong => {}
            Event::AtWorker { to, lane, datagram } => return self.deliver(to, lane, datagram),
            Event::AtAggregator { from, lane, datagram } => self.arrive(from, lane, datagram),
            Event::WakeWorker { rank, lane } => {
                let index = self.index(rank, lane);
                let wake_at = &mut self.workers[index].wake_at;
                *wake_at = wake_at.filter(|&at| at != self.now);
                return self.drive(index);
            }
            Event::WakeAggregator { lane } => {
                self.aggregators[lane].wake_at = None;
                self.aggregate(lane);
            }
            Event::Uplinked { from, lane, datagram } => {
                wires.send_to_server(*now, from, lane, &datagram, agenda, *watch);
            }
            Event::AtSwitch { to, lane, datagram } => {
                wires.send_to_worker(*now, lane, to, &datagram, agenda, *watch);
            }
            Event::Handed { from: Party::Worker { rank, lane }, datagram, .. } => {
                wires.send_up(*now, rank, lane, &datagram, agenda, *watch);
            }
            Event::Handed { from: Party::Aggregator { lane }, to, datagram } => {
                wires.send_down(*now, lane, to, &datagram, agenda, *watch);
            }
            Event::Handed { from: Party::Stranger, .. } => {}
        }
        Ok(())
    }

    fn index(&self, rank: usize, lane: usize) -> usize {
        rank * self.aggregators.len() + lane
    }

    /// A datagram has come to a worker's socket.
    fn deliver(&mut self, rank: usize, lane: usize, datagram: Datagram) -> Result<(), How> {
        let index = self.index(rank, lane);
        let host = &mut self.workers[index];
        if host.inbox_octets + datagram.len() > self.scenario.worker.receive_buffer {
            self.counts.overruns += 1;
            return Ok(());
        }
        host.inbox_octets += datagram.len();
        host.inbox.push_back(datagram);
        self.drive(index)
    }

    /// Lets a worker's lane do what is due: datagrams that wait come first, as they may answer what a timer would repeat.
    fn drive(&mut self, index: usize) -> Result<(), How> {
        let now = self.now;
        let host = &mut self.workers[index];
        let rank = host.rank;
        if host.free_at <= now && self.scenario.stopped_until(rank, now).is_none() {
            loop {
                let host = &mut self.workers[index];
                match host.inbox.pop_front() {
                    Some(datagram) => {
                        host.inbox_octets -= datagram.len();
                        host.free_at = now + self.scenario.worker.cost(datagram.len());
                        if let Received::Chunk(chunk) =
                            host.worker.handle_datagram(host.free_at, &datagram.octets)
                        {
                            self.ranks[rank].write(&chunk);
                        }
                        if self.scenario.spurious_timeouts {
                            host.worker.handle_timeout(host.free_at);
                        }
                    }
                    None => {
                        host.free_at = now;
                        if host.worker.poll_timeout().is_some_and(|at| at <= now) {
                            host.worker.handle_timeout(now);
                        }
                    }
                }
                self.go_on(index)?;
                let host = &self.workers[index];
                self.watch.worker(now, rank, host.lane, &host.worker);
                if host.inbox.is_empty() || host.free_at > now {
                    break;
                }
            }
        }
        self.wake_later(index)
    }

    /// Events, the next collective, and packets that are due.
    fn go_on(&mut self, index: usize) -> Result<(), How> {
        let Self {
            scenario, ranks, watch, wires, workers, agenda, dice, now, end, busy, aggregators, ..
        } = self;
        let host = &mut workers[index];
        let (rank, lane) = (host.rank, host.lane);
        loop {
            while let Some(event) = host.worker.poll_event() {
                match event {
                    Told::Finished(_) => host.finished += 1,
                    Told::Failed { failure, .. } => {
                        let lane = LaneId::new(lane).expect("the scenario has this lane");
                        return Err(How::Failed { rank, lane, failure });
                    }
                    _ => {}
                }
                if ranks[rank].collective(host.finished).is_none() {
                    *busy -= 1;
                    *end = (*end).max(host.free_at);
                }
            }
            if host.worker.can_start()
                && host.next_start <= host.free_at
                && let Some(collective) = ranks[rank].collective(host.started)
            {
                match host.worker.start(collective, host.free_at) {
                    Ok(_) => {
                        host.started += 1;
                        host.next_start = host.free_at + dice.time(scenario.think);
                    }
                    Err(StartError::SequenceSpace { retry_at }) => host.next_start = retry_at,
                    Err(error) => return Err(How::Scenario(error.to_string())),
                }
            }
            let Some(packet) = host.worker.poll_transmit(host.free_at) else { return Ok(()) };
            let mut octets = vec![0; packet.len()];
            packet.emit(&mut ranks[rank], &mut octets);
            host.free_at += scenario.worker.cost(octets.len());
            watch.transmit(host.free_at, rank, lane, &packet);
            let datagram = Datagram::new(&octets);
            // Lanes share a link, which takes datagrams in the order of time.
            if host.free_at > *now && aggregators.len() > 1 {
                let from = Party::Worker { rank, lane };
                agenda.put(host.free_at, Event::Handed { from, to: rank, datagram });
            } else {
                wires.send_up(host.free_at, rank, lane, &datagram, agenda, *watch);
            }
        }
    }

    fn wake_later(&mut self, index: usize) -> Result<(), How> {
        let host = &mut self.workers[index];
        let (rank, lane) = (host.rank, host.lane);
        let wake_at = if host.inbox.is_empty() {
            let starts = host.worker.can_start() && self.ranks[rank].collective(host.started).is_some();
            let start = starts.then_some(host.next_start);
            let Some(at) = host.worker.poll_timeout().into_iter().chain(start).min() else { return Ok(()) };
            // A timer may be due once more: after the datagrams that came first.
            host.rounds = if at.max(host.free_at) <= self.now { host.rounds + 1 } else { 0 };
            if host.rounds > 2 {
                let lane = LaneId::new(lane).expect("the scenario has this lane");
                return Err(How::Spinning { rank, lane });
            }
            at.max(host.free_at)
        } else {
            host.free_at
        };
        let wake_at = wake_at.max(self.now);
        let wake_at = self.scenario.stopped_until(rank, wake_at).unwrap_or(wake_at);
        if host.wake_at.is_none_or(|earlier| wake_at < earlier) {
            host.wake_at = Some(wake_at);
            self.agenda.put(wake_at, Event::WakeWorker { rank, lane });
        }
        Ok(())
    }

    /// A datagram has come to the aggregator's port.
    fn arrive(&mut self, from: Option<usize>, lane: usize, datagram: Datagram) {
        let aggregator = &mut self.aggregators[lane];
        if aggregator.inbox_octets + datagram.len() > self.scenario.aggregator.receive_buffer {
            self.counts.overruns += 1;
            return;
        }
        aggregator.inbox_octets += datagram.len();
        aggregator.inbox.push_back((from, datagram));
        self.aggregate(lane);
    }

    /// Lets the aggregator take what waits.
    fn aggregate(&mut self, lane: usize) {
        let Self { scenario, watch, wires, agenda, aggregators, now, ranks, counts, .. } = self;
        let lanes = aggregators.len();
        let aggregator = &mut aggregators[lane];
        while aggregator.free_at <= *now
            && let Some((from, datagram)) = aggregator.inbox.pop_front()
        {
            aggregator.inbox_octets -= datagram.len();
            aggregator.free_at = *now + scenario.aggregator.cost(datagram.len());
            aggregator.reply.clear();
            let verdict = aggregator.plane.take(from, &datagram.octets, &mut aggregator.reply);
            counts.verdicts.count(verdict);
            let to = match (verdict, from) {
                (Verdict::Multicast, _) => 0..ranks.len(),
                (Verdict::Unicast, Some(rank)) => rank..rank + 1,
                _ => continue,
            };
            let reply = Datagram::new(&aggregator.reply);
            for to in to {
                if let Place::Server { .. } = scenario.network.aggregator {
                    aggregator.free_at += scenario.aggregator.cost(reply.len());
                }
                if aggregator.free_at > *now && lanes > 1 {
                    let (from, datagram) = (Party::Aggregator { lane }, reply.clone());
                    agenda.put(aggregator.free_at, Event::Handed { from, to, datagram });
                } else {
                    wires.send_down(aggregator.free_at, lane, to, &reply, agenda, *watch);
                }
            }
        }
        if !aggregator.inbox.is_empty() && aggregator.wake_at.is_none() {
            aggregator.wake_at = Some(aggregator.free_at);
            agenda.put(aggregator.free_at, Event::WakeAggregator { lane });
        }
    }
}

impl<'r, P> AggregatorLane<'r, P> {
    fn new(plane: &'r mut P) -> Self {
        Self {
            plane,
            inbox: VecDeque::new(),
            inbox_octets: 0,
            free_at: Instant::ZERO,
            wake_at: None,
            reply: Vec::new(),
        }
    }
}
