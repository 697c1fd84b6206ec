//! The whole core without input and output: workers and the aggregator in one thread, against the sum of its parts.

use core::hint::black_box;
use core::ops::Range;
use core::time::Duration;

use anyhow::{Result, ensure};
use switchml_proto::aggregator::{Aggregator, Egress, Job, Phase, Port, PortEntry, Session, Storage};
use switchml_proto::numeric::{ElementType, Reduction};
use switchml_proto::worker::{
    ChunkSource, Collective, CollectiveId, Config, Conversion, Event, Fidelity, Received, Slot, Worker,
};
use switchml_proto::{Instant, JobId, LaneCount, LaneId, LaneLayout, Rank, Seq, WorldSize};

use super::aligned::Aligned;
use super::figure::{Figure, Limit, Place, Timing};
use super::measure::{in_turn, time};
use super::{CHUNK, WINDOW, add, fill, mebibytes};
use switchml_host_std::kernels;

const LIMIT: Limit = Limit { aim: 2.0, limit: 4.0 };

const JOB: JobId = JobId(1);
const INITIAL_SEQ: Seq = Seq(0);

/// All-reduces tensors of `octets` octets, in place, of `world_size` workers.
pub(super) fn run(octets: usize, repetitions: usize, world_size: WorldSize) -> Result<Figure> {
    with_core(octets, world_size, |core| Ok(against_its_parts(core, octets, repetitions)))
}

/// The same on two threads, each with a lane of its own and half of every tensor, against one lane on one thread.
pub(super) fn lanes(octets: usize, repetitions: usize, world_size: WorldSize) -> Result<Figure> {
    let half = octets / 2;
    with_core(octets, world_size, |one| {
        with_core(half, world_size, |first| {
            with_core(half, world_size, |second| {
                let (one, first, second) =
                    (&mut || one.all_reduce(), &mut || first.all_reduce(), &mut || second.all_reduce());
                Ok(two_against_one([one, first, second], octets, repetitions))
            })
        })
    })
}

/// All-reduces in one lane.
type Lane<'l> = &'l mut (dyn FnMut() -> Duration + Send);

fn two_against_one(mut lanes: [Lane<'_>; 3], octets: usize, repetitions: usize) -> Figure {
    let [two, one] = in_turn(
        repetitions,
        &mut lanes,
        [
            |[_, first, second]| {
                time(|| {
                    std::thread::scope(|scope| {
                        scope.spawn(first);
                        second();
                    });
                })
            },
            |[one, ..]| one(),
        ],
    );
    let size = mebibytes(octets);
    let what = |lanes| format!("all-reduce of {size} float32, {lanes}");
    Figure::ratio(
        "core, 2 lanes on 2 threads / 1 lane on 1",
        Place::InMemory,
        // It depends on whether a second processor is free.
        None,
        vec![Timing::new(what("2 lanes, each on a thread"), two)],
        vec![Timing::new(what("1 lane"), one)],
    )
}

/// Makes workers and an aggregator for tensors of `octets` octets, and lends them to `measure`.
fn with_core(
    octets: usize,
    world_size: WorldSize,
    measure: impl FnOnce(&mut Core<'_>) -> Result<Figure>,
) -> Result<Figure> {
    let (window, ranks) = (usize::from(WINDOW.get()), usize::from(world_size.get()));
    let layout = LaneLayout::new(0, WINDOW, CHUNK)?;
    let mut phases = vec![Phase::EMPTY; Storage::phases(window)];
    let mut elements = vec![0; Storage::elements(window, CHUNK)];
    let (mut jobs, mut entries) = ([Job::EMPTY], vec![PortEntry::EMPTY; ranks]);
    let storage =
        Storage { phases: &mut phases, elements: &mut elements, jobs: &mut jobs, ports: &mut entries };
    let mut aggregator = Aggregator::new(storage, CHUNK, kernels::AGGREGATOR)?;
    aggregator.install(&Session { job: JOB, world_size, layout, initial_seq: INITIAL_SEQ })?;

    let mut slots = vec![vec![Slot::EMPTY; window]; ranks];
    let mut members = Vec::new();
    for (rank, slots) in slots.iter_mut().enumerate() {
        let config = Config::new(JOB, layout, INITIAL_SEQ, LaneId::ZERO, LaneCount::new(1)?);
        let mut tensor = Aligned::new(0.0, octets / 4);
        fill(&mut tensor, rank);
        members.push(Member {
            worker: Worker::new(config, slots)?,
            port: aggregator.bind(JOB, Rank::new(rank)?)?,
            tensor,
        });
    }
    let mut core = Core {
        aggregator,
        members,
        world_size,
        clock: std::time::Instant::now(),
        datagram: vec![0; layout.datagram_len()],
        result: vec![0; layout.datagram_len()],
        window: Aligned::new(0.5, CHUNK.elements() * window),
        addends: Aligned::new(1, CHUNK.elements() * window),
        sums: Aligned::new(0, CHUNK.elements() * window),
        failed: false,
    };
    let figure = measure(&mut core)?;
    ensure!(!core.failed, "the core did not finish a collective; that is a fault of this program");
    Ok(figure)
}

fn against_its_parts(core: &mut Core<'_>, octets: usize, repetitions: usize) -> Figure {
    let ranks = core.members.len();
    let [reduce, copy_out, add, emit, copy_in] =
        in_turn(repetitions, core, [Core::all_reduce, Core::copy_out, Core::add, Core::emit, Core::copy_in]);
    let size = mebibytes(octets);
    Figure::ratio(
        format!("core, n = {ranks} and the aggregator in one thread"),
        Place::InMemory,
        Some(LIMIT),
        vec![Timing::new(format!("all-reduce of {size} float32, {ranks} times converted both ways"), reduce)],
        vec![
            Timing::new(format!("{ranks} copies of {size} into datagrams in cache"), copy_out),
            Timing::new(format!("{ranks} additions of {size} to integers in cache"), add),
            Timing::new(format!("1 copy of {size} from integers to datagrams in cache"), emit),
            Timing::new(format!("{ranks} copies of {size} from datagrams in cache"), copy_in),
        ],
    )
}

struct Member<'s> {
    worker: Worker<'s>,
    port: Port,
    tensor: Aligned<f32>,
}

struct Core<'a> {
    aggregator: Aggregator<'a>,
    members: Vec<Member<'a>>,
    world_size: WorldSize,
    clock: std::time::Instant,
    datagram: Vec<u8>,
    result: Vec<u8>,
    /// For the parts: as many elements as a window of datagrams has.
    window: Aligned<f32>,
    addends: Aligned<i32>,
    sums: Aligned<i32>,
    failed: bool,
}

impl Core<'_> {
    /// The mean in place: with the sum, the numbers would grow from one repetition to the next.
    fn all_reduce(&mut self) -> Duration {
        time(|| {
            if self.reduce().is_none() {
                self.failed = true;
            }
        })
    }

    /// None if a worker refuses or fails.
    fn reduce(&mut self) -> Option<()> {
        let elements = self.members.first()?.tensor.len() as u64;
        let collective =
            Collective::all_reduce(elements, ElementType::Float32, Reduction::Mean, Conversion::Block)
                .ok()?;
        let now = self.now();
        for member in &mut self.members {
            member.worker.start(collective, now).ok()?;
        }
        let mut open = self.members.len();
        while open > 0 {
            let now = self.now();
            for sender in 0..self.members.len() {
                while let Some((port, octets)) =
                    self.members[sender].send(now, self.world_size, &mut self.datagram)
                {
                    let egress = self.aggregator.handle_datagram(Some(port), &self.datagram[..octets]);
                    let Egress::Multicast(reply) = egress else { continue };
                    let octets = reply.emit(&mut self.result);
                    for member in &mut self.members {
                        open -= usize::from(member.receive(now, self.world_size, &self.result[..octets])?);
                    }
                }
            }
        }
        Some(())
    }

    fn now(&self) -> Instant {
        Instant::ZERO + self.clock.elapsed()
    }

    fn copy_out(&mut self) -> Duration {
        time(|| {
            for member in &self.members {
                for part in member.tensor.chunks(self.window.len()) {
                    black_box(&mut self.window)[..part.len()].copy_from_slice(part);
                }
            }
        })
    }

    fn add(&mut self) -> Duration {
        time(|| {
            for member in &self.members {
                for part in member.tensor.chunks(self.sums.len()) {
                    add(
                        &black_box(&self.addends)[..part.len()],
                        &mut black_box(&mut self.sums)[..part.len()],
                    );
                }
            }
        })
    }

    fn emit(&mut self) -> Duration {
        time(|| {
            // All tensors are as long: those of one.
            for part in self.members.iter().take(1).flat_map(|member| member.tensor.chunks(self.sums.len())) {
                black_box(&mut self.addends)[..part.len()]
                    .copy_from_slice(&black_box(&self.sums)[..part.len()]);
            }
        })
    }

    fn copy_in(&mut self) -> Duration {
        time(|| {
            for member in &mut self.members {
                for part in member.tensor.chunks_mut(self.window.len()) {
                    part.copy_from_slice(&black_box(&self.window)[..part.len()]);
                }
            }
        })
    }
}

impl Member<'_> {
    /// Writes the next packet, if there is one; its port and its length.
    fn send(&mut self, now: Instant, world_size: WorldSize, datagram: &mut [u8]) -> Option<(Port, usize)> {
        let transmit = self.worker.poll_transmit(now)?;
        let mut source = Source { tensor: &self.tensor, world_size };
        Some((self.port, transmit.emit(&mut source, datagram)))
    }

    /// Takes a result. Whether the collective is finished; none if it failed.
    fn receive(&mut self, now: Instant, world_size: WorldSize, datagram: &[u8]) -> Option<bool> {
        match self.worker.handle_datagram(now, datagram) {
            Received::Chunk(chunk) => {
                let part = &mut self.tensor[chunk.range.start as usize..chunk.range.end as usize];
                kernels::decode_block(chunk.elements, chunk.exponent, world_size, Reduction::Mean, part);
            }
            Received::Exponent { .. } => {}
            _ => return None, // nothing is lost here, and nothing comes twice
        }
        match self.worker.poll_event() {
            None => Some(false),
            Some(Event::Finished(_)) => Some(true),
            Some(_) => None,
        }
    }
}

/// The tensor of one rank, for its packets.
struct Source<'t> {
    tensor: &'t [f32],
    world_size: WorldSize,
}

impl Source<'_> {
    /// The elements `range`; as in a communicator, those that come soon are fetched.
    fn part(&self, range: &Range<u64>) -> &[f32] {
        &self.tensor[range.start as usize..range.end as usize]
    }

    fn fetch_after(&self, range: &Range<u64>) {
        kernels::fetch_ahead(self.tensor, range.start as usize..range.end as usize);
    }
}

impl ChunkSource for Source<'_> {
    fn exponent(&mut self, _: CollectiveId, range: Range<u64>) -> i8 {
        self.fetch_after(&range);
        kernels::block_exponent(self.part(&range))
    }

    fn encode(&mut self, _: CollectiveId, range: Range<u64>, exponent: i8, wire: &mut [u8]) -> Fidelity {
        kernels::encode_block(self.part(&range), exponent, self.world_size, wire);
        Fidelity::Faithful
    }

    fn encode_and_scan(
        &mut self,
        _: CollectiveId,
        range: Range<u64>,
        exponent: i8,
        wire: &mut [u8],
        ahead: Range<u64>,
    ) -> i8 {
        self.fetch_after(&ahead);
        let (chunk, ahead) = (self.part(&range), self.part(&ahead));
        kernels::encode_block_and_scan(chunk, exponent, self.world_size, wire, ahead)
    }
}
