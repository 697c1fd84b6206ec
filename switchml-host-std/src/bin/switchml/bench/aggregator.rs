//! The aggregator alone, against plain additions of vectors.

use core::hint::black_box;
use core::time::Duration;

use anyhow::{Result, ensure};
use switchml_proto::aggregator::{Aggregator, Egress, Job, Phase, Port, PortEntry, Session, Storage};
use switchml_proto::wire::{Header, PayloadSize};
use switchml_proto::{JobId, LaneLayout, Rank, Seq, WorldSize};

use super::figure::{Figure, Limit, Place, Timing};
use super::measure::{in_turn, time};
use super::{CHUNK, WINDOW, add};
use switchml_host_std::kernels;

const LIMIT: Limit = Limit { aim: 6.0, limit: 12.0 };

/// Windows that one sample takes.
const ROUNDS: u32 = 40;

struct Bench<'a> {
    aggregator: Aggregator<'a>,
    ports: Vec<Port>,
    layout: LaneLayout,
    next: Seq,
    /// A window of each worker.
    datagrams: Vec<Vec<Vec<u8>>>,
    result: Vec<u8>,
    sums: Vec<Vec<i32>>,
    addends: Vec<Vec<i32>>,
}

/// Every packet of a window from each of `world_size` workers, in the order of workers; the results are emitted.
pub(super) fn run(repetitions: usize, world_size: WorldSize) -> Result<[Figure; 2]> {
    let (window, workers) = (usize::from(WINDOW.get()), usize::from(world_size.get()));
    let mut phases = vec![Phase::EMPTY; Storage::phases(window)];
    let mut elements = vec![0; Storage::elements(window, CHUNK)];
    let (mut jobs, mut entries) = ([Job::EMPTY], vec![PortEntry::EMPTY; workers]);
    let storage =
        Storage { phases: &mut phases, elements: &mut elements, jobs: &mut jobs, ports: &mut entries };
    let mut aggregator = Aggregator::new(storage, CHUNK, kernels::AGGREGATOR)?;
    let layout = LaneLayout::new(0, WINDOW, CHUNK)?;
    let initial_seq = Seq(0);
    aggregator.install(&Session { job: JOB, world_size, layout, initial_seq })?;
    let ports =
        (0..workers).map(|rank| Ok(aggregator.bind(JOB, Rank::new(rank)?)?)).collect::<Result<Vec<_>>>()?;

    let octets = |packet: usize| (0..layout.datagram_len()).map(|octet| (octet * packet) as u8).collect();
    let mut bench = Bench {
        aggregator,
        ports,
        layout,
        next: initial_seq,
        datagrams: (0..workers).map(|w| (0..window).map(|p| octets(w * window + p)).collect()).collect(),
        result: vec![0; layout.datagram_len()],
        sums: vec![vec![0; CHUNK.elements()]; window],
        addends: vec![vec![1; CHUNK.elements()]; window * workers],
    };
    let timings = in_turn(repetitions, &mut bench, [Bench::aggregate, Bench::add]);
    let taken = |port: &Port| bench.aggregator.counters(*port).map_or(0, |c| c.consumed + c.multicast);
    let taken: u64 = bench.ports.iter().map(taken).sum();
    let packets = ROUNDS as usize * window * workers;
    ensure!(taken == (packets * (repetitions + 1)) as u64, "the aggregator took {taken} packets only");
    let [aggregate, add] = timings.map(|spread| spread.part(packets));
    let elements = CHUNK.elements();
    let what = format!("a packet of {elements} elements, n = {workers}, W = {window}");
    let rate = Figure {
        name: "aggregator, packets".into(),
        place: Place::InCache,
        value: 1e3 / aggregate.median,
        unit: "M/s",
        limit: None,
        timings: vec![],
    };
    let ratio = Figure::ratio(
        "aggregator, against additions of vectors",
        Place::InCache,
        Some(LIMIT),
        vec![Timing::new(what, aggregate)],
        vec![Timing::new(format!("addition of {elements} integers to {elements} others"), add)],
    );
    Ok([ratio, rate])
}

const JOB: JobId = JobId(1);

impl Bench<'_> {
    fn aggregate(&mut self) -> Duration {
        let mut took = Duration::ZERO;
        for _ in 0..ROUNDS {
            for datagrams in &mut self.datagrams {
                for (packet, datagram) in (0..).zip(datagrams) {
                    let seq = self.next.plus(packet);
                    Header::new(JOB, self.layout, seq, PayloadSize::Elements(CHUNK), -10, 1).emit(datagram);
                }
            }
            took += time(|| {
                for (datagrams, &port) in self.datagrams.iter().zip(&self.ports) {
                    for datagram in datagrams {
                        if let Egress::Multicast(reply) =
                            self.aggregator.handle_datagram(Some(port), datagram)
                        {
                            reply.emit(&mut self.result);
                            black_box(&mut self.result);
                        }
                    }
                }
            });
            self.next = self.next.plus(u32::from(WINDOW.get()));
        }
        took
    }

    /// As many additions, of the same lengths, in the same order.
    fn add(&mut self) -> Duration {
        time(|| {
            for _ in 0..ROUNDS {
                for (addend, sum) in self.addends.iter().zip((0..self.sums.len()).cycle()) {
                    add(black_box(addend), black_box(&mut self.sums[sum]));
                }
            }
        })
    }
}
