//! Workers and an aggregator; the input is the schedule of the network's faults.

use core::time::Duration;

use arbitrary::{Result, Unstructured};
use switchml_proto::aggregator::{Aggregator, Port, Session};
use switchml_proto::numeric::{ElementType, Reduction, ScalingFactor};
use switchml_proto::worker::{Collective, Config, Conversion, Event, Received, Slot, Worker};
use switchml_proto::{ChunkSize, Instant, LaneCount, LaneId, Rank};
use switchml_sim::oracle::{Answer, Verdict};

use crate::lane::{deliver, join, session, with_aggregator};
use crate::random::Random;
use crate::tensors::{Reference, Tensors};

const JOB: u8 = 9;
/// Datagrams on their way; of more than that the oldest are lost.
const ON_THE_WAY: usize = 512;
/// A run that takes more steps than this after the last fault does not end.
const STEPS: usize = 100_000;

/// Up to four workers reduce up to four tensors through an aggregator. The input says which datagram arrives next, or
/// again, or never, whose timer fires, and when a rank starts its next collective. When it has no more to say, the
/// network is a fair one.
///
/// Every rank must then end with the exact results (I-1, I-2), each element written once.
///
/// # Panics
/// If that does not hold.
pub fn pair_lossy(data: &[u8]) {
    let mut input = Unstructured::new(data);
    // The input is at its end where it says no more.
    let _ = begin(&mut input);
}

fn begin(input: &mut Unstructured<'_>) -> Result<()> {
    let n = input.int_in_range(1..=4)?;
    let window = 1 << input.int_in_range(0..=3)?;
    let turns: u32 = input.int_in_range(0..=5)?;
    // Even counts wrap soon.
    let turns = if turns.is_multiple_of(2) { turns.wrapping_neg() } else { turns };
    let session = session(JOB, n, 3, window, 32, turns.wrapping_mul(2 * window as u32));
    let mut random = Random(input.arbitrary::<u8>()?.into());
    let references: Vec<_> = (0..input.int_in_range(1..=4)?)
        .map(|tag| Ok(Reference::random(&mut random, collective(input, n)?.with_tag(tag), n)))
        .collect::<Result<_>>()?;
    let (initial_seq, one_lane) = (session.initial_seq, LaneCount::new(1).unwrap());
    let mut config = Config::new(session.job, session.layout, initial_seq, LaneId::ZERO, one_lane);
    // However long a schedule is, it is no reason to give up.
    config.stall_time = Duration::MAX;
    let mut slots = vec![Slot::EMPTY; window * n];
    let hosts = slots.chunks_mut(window).enumerate().map(|(rank, slots)| Host {
        worker: Worker::new(config, slots).expect("the configuration is right"),
        tensors: Tensors::new(rank, &references),
        started: 0,
        finished: 0,
    });
    let hosts = hosts.collect();
    with_aggregator(3 + window, ChunkSize::MIN, |aggregator| {
        let ports = join(aggregator, &session).expect("there is room");
        let mut run = Run { now: Instant::ZERO, session, hosts, ports, aggregator, network: Vec::new() };
        // What is left is to be finished without faults, wherever the input ends.
        let _ = run.suffer(input);
        run.finish();
        for host in &run.hosts {
            for (id, reference) in references.iter().enumerate() {
                assert_eq!(host.tensors.written[id], reference.collective.len(), "each element once");
                assert_eq!(host.tensors.data[id], reference.expected(), "collective {id}");
            }
        }
    });
    Ok(())
}

fn collective(input: &mut Unstructured<'_>, n: usize) -> Result<Collective> {
    let len = u64::from(input.int_in_range(0..=24_u8)?) * 16;
    let float = *input.choose(&[ElementType::Float32, ElementType::Float16])?;
    let fixed = Conversion::Fixed(ScalingFactor::new(1024.0).unwrap());
    let collective = match input.int_in_range(0..=5)? {
        0 => Collective::all_reduce(len, ElementType::Int32, Reduction::Sum, Conversion::Integer),
        1 => Collective::all_reduce(len, float, Reduction::Mean, fixed),
        2 => Ok(Collective::broadcast(len, float, Rank::new(input.choose_index(n)?).unwrap())),
        3 => Ok(Collective::barrier()),
        _ => Collective::all_reduce(len, float, Reduction::Sum, Conversion::Block),
    };
    Ok(collective.expect("the protocol has it"))
}

struct Host<'s, 'r> {
    worker: Worker<'s>,
    tensors: Tensors<'r>,
    started: usize,
    finished: usize,
}

enum Flight {
    /// From this rank to the aggregator.
    Up(usize, Vec<u8>),
    /// To this rank.
    Down(usize, Vec<u8>),
}

struct Run<'s, 'r, 'a, 'p> {
    now: Instant,
    session: Session,
    hosts: Vec<Host<'s, 'r>>,
    ports: Vec<Port>,
    aggregator: &'a mut Aggregator<'p>,
    network: Vec<Flight>,
}

impl Run<'_, '_, '_, '_> {
    fn suffer(&mut self, input: &mut Unstructured<'_>) -> Result<()> {
        while !input.is_empty() && !self.is_done() {
            let rank = input.choose_index(self.hosts.len())?;
            match input.int_in_range(0..=9)? {
                0 => self.start(rank),
                1 => self.now += Duration::from_micros(input.arbitrary::<u16>()?.into()),
                2 => self.time_out(rank),
                // A process that looks at its timers too often.
                3 => self.hosts[rank].worker.handle_timeout(self.now),
                what => {
                    if self.network.is_empty() {
                        continue;
                    }
                    let which = input.choose_index(self.network.len().min(256))?;
                    match what {
                        4 => drop(self.network.remove(which)),
                        5 => self.deliver_copy(which),
                        6 => {
                            let copy = self.network[which].copy();
                            self.network.push(copy);
                        }
                        _ => {
                            self.deliver_copy(which);
                            self.network.remove(which);
                        }
                    }
                }
            }
            self.send();
        }
        Ok(())
    }

    /// Everything arrives, in order, until all is done.
    fn finish(&mut self) {
        for _ in 0..STEPS {
            (0..self.hosts.len()).for_each(|rank| self.start(rank));
            self.send();
            if self.is_done() {
                return;
            }
            if !self.network.is_empty() {
                self.deliver_copy(0);
                self.network.remove(0);
            } else if !self.hosts.iter().any(Host::may_start) {
                self.time_out_first();
            }
        }
        panic!("it does not end: {:?}", self.hosts.iter().map(|host| &host.worker).collect::<Vec<_>>());
    }

    fn is_done(&self) -> bool {
        self.hosts.iter().all(|host| host.finished == host.tensors.references.len())
    }

    fn start(&mut self, rank: usize) {
        let (now, host) = (self.now, &mut self.hosts[rank]);
        if host.may_start() {
            let collective = host.tensors.references[host.started].collective;
            host.worker.start(collective, now).expect("it may start");
            host.started += 1;
        }
    }

    /// Jumps to a worker's timeout, as a process that sleeps exactly so long.
    fn time_out(&mut self, rank: usize) {
        if let Some(timeout) = self.hosts[rank].worker.poll_timeout() {
            self.now = self.now.max(timeout);
            self.hosts[rank].worker.handle_timeout(self.now);
        }
    }

    fn time_out_first(&mut self) {
        let timeouts = self.hosts.iter().enumerate().filter_map(|(r, h)| Some((h.worker.poll_timeout()?, r)));
        let (_, rank) = timeouts.min().expect("work that is left shows in a timeout (I-3)");
        self.time_out(rank);
        self.send();
        let next = self.hosts[rank].worker.poll_timeout();
        assert!(next.is_none_or(|next| next > self.now), "a driver that sleeps exactly would spin");
    }

    /// All that the workers have to send and to tell.
    fn send(&mut self) {
        for (rank, host) in self.hosts.iter_mut().enumerate() {
            while let Some(transmit) = host.worker.poll_transmit(self.now) {
                let mut datagram = vec![0xaa; transmit.len()];
                transmit.emit(&mut host.tensors, &mut datagram);
                self.network.push(Flight::Up(rank, datagram));
            }
            while let Some(event) = host.worker.poll_event() {
                assert!(matches!(event, Event::Finished(_)), "{event:?}");
                host.finished += 1;
            }
        }
        let excess = self.network.len().saturating_sub(ON_THE_WAY);
        self.network.drain(..excess);
    }

    fn deliver_copy(&mut self, which: usize) {
        match &self.network[which] {
            Flight::Up(rank, datagram) => {
                let (rank, datagram) = (*rank, datagram.clone());
                let Answer { verdict, reply } = deliver(self.aggregator, &self.ports, rank, &datagram);
                let Some(result) = reply else { return };
                if verdict == Verdict::Unicast {
                    self.network.push(Flight::Down(rank, result));
                } else {
                    let ranks = self.session.world_size.ranks();
                    self.network.extend(ranks.map(|rank| Flight::Down(rank.index(), result.clone())));
                }
            }
            Flight::Down(rank, datagram) => {
                let host = &mut self.hosts[*rank];
                match host.worker.handle_datagram(self.now, datagram) {
                    Received::Chunk(chunk) => host.tensors.write(&chunk),
                    Received::Exponent { .. } | Received::Duplicate | Received::Stale => {}
                    other => panic!("{other:?}"),
                }
            }
        }
    }
}

impl Host<'_, '_> {
    fn may_start(&self) -> bool {
        self.started < self.tensors.references.len() && self.worker.can_start()
    }
}

impl Flight {
    fn copy(&self) -> Self {
        match self {
            Self::Up(rank, datagram) => Self::Up(*rank, datagram.clone()),
            Self::Down(rank, datagram) => Self::Down(*rank, datagram.clone()),
        }
    }
}
