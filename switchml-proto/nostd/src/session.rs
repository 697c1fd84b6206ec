//! One session, from the first join to the last leave: two ranks, one lane, one aggregator, all in memory. Each fifth
//! packet of a worker is lost, so that timers have something to do.

use core::net::SocketAddr;

use switchml_proto::aggregator::{self, Aggregator, Egress, Kernels, Phase, Storage};
use switchml_proto::control::{
    Coordinator, CoordinatorConfig, CoordinatorStorage, CoordinatorTransmit, JobEntry, Member, MemberConfig,
    MemberEntry, MemberEvent, MemberTransmit, PortEntry, SessionParams,
};
use switchml_proto::wire::{JobName, MAX_CONTROL_LEN};
use switchml_proto::worker::{Config, Event, Received, Slot, Worker};
use switchml_proto::{ChunkSize, Instant, LaneCount, LaneId, Nonce, Rank, Window, WorldSize};

use crate::plane::Plane;
use crate::tensors::{Floats, Integers, Tensor};

const WORLD: usize = 2;
const WINDOW: usize = 4;
const SLOTS: usize = 8;
const CHUNK: ChunkSize = ChunkSize::MIN;
/// As long as the longest control message, which is longer than a packet of the smallest chunk.
type Datagram = [u8; MAX_CONTROL_LEN];

/// What was not right.
#[derive(Clone, Copy)]
pub(crate) enum Step {
    Make = 1,
    Join = 2,
    Start = 3,
    ReduceFloats = 4,
    ReduceIntegers = 5,
    Leave = 6,
    #[cfg(feature = "defmt")]
    Log = 7,
}

pub(crate) fn run() -> Result<(), Step> {
    // 1. Make all machines, in memory of this frame.
    let mut phases = [Phase::EMPTY; Storage::phases(SLOTS)];
    let mut elements = [0; Storage::elements(SLOTS, CHUNK)];
    let (mut jobs, mut ports) = ([aggregator::Job::EMPTY; 1], [aggregator::PortEntry::EMPTY; WORLD]);
    let storage =
        Storage { phases: &mut phases, elements: &mut elements, jobs: &mut jobs, ports: &mut ports };
    let mut plane =
        Plane::<WORLD>::new(Aggregator::new(storage, CHUNK, Kernels::PORTABLE).or(Err(Step::Make))?);
    let storage = CoordinatorStorage {
        jobs: &mut [JobEntry::EMPTY; 1],
        members: &mut [MemberEntry::EMPTY; WORLD],
        ports: &mut [PortEntry::EMPTY; WORLD],
    };
    let mut coordinator = coordinator(storage).ok_or(Step::Make)?;
    let mut members = [member(0, Nonce(11)).ok_or(Step::Make)?, member(1, Nonce(12)).ok_or(Step::Make)?];
    let mut now = Instant::ZERO;

    // 2. The members join, and the session's slots are installed in the aggregator.
    until(&mut now, &mut members, &mut coordinator, &mut plane, |event| {
        matches!(event, MemberEvent::Ready(_))
    })
    .ok_or(Step::Join)?;
    let session = members[0].session().filter(|_| members[1].session() == members[0].session());
    let session = session.ok_or(Step::Join)?;

    // 3. Each rank has a worker, which learns all it needs from the session.
    let (mut slots0, mut slots1) = ([Slot::EMPTY; WINDOW], [Slot::EMPTY; WINDOW]);
    let mut workers = [
        worker(&session, &mut slots0).ok_or(Step::Start)?,
        worker(&session, &mut slots1).ok_or(Step::Start)?,
    ];

    // 4. and 5. Sums come back, of floating point and of integers.
    all_reduce::<Floats>(&mut now, &mut workers, &mut plane).ok_or(Step::ReduceFloats)?;
    all_reduce::<Integers>(&mut now, &mut workers, &mut plane).ok_or(Step::ReduceIntegers)?;
    if workers.iter().any(|worker| worker.stats().timeouts + worker.stats().overtaken == 0) {
        return Err(Step::ReduceIntegers); // what was lost must have been sent again
    }

    // 6. Both leave, and the slots are free again.
    members.iter_mut().for_each(|member| member.leave(now));
    until(&mut now, &mut members, &mut coordinator, &mut plane, |event| matches!(event, MemberEvent::Left))
        .ok_or(Step::Leave)?;
    if coordinator.sessions(now).next().is_some() || plane.aggregator.dump(session.job).next().is_some() {
        return Err(Step::Leave);
    }

    // 7. What there is to log can be logged.
    #[cfg(feature = "defmt")]
    if !(crate::logger::writes(session)
        && crate::logger::writes(&members)
        && crate::logger::writes(&coordinator)
        && crate::logger::writes(&plane.aggregator)
        && crate::logger::writes(&workers)
        && crate::logger::writes(workers[0].stats()))
    {
        return Err(Step::Log);
    }
    Ok(())
}

fn coordinator(storage: CoordinatorStorage<'_>) -> Option<Coordinator<'_>> {
    let seed = [7; 32]; // A real one is random, and so is a nonce.
    let mut config = CoordinatorConfig::new(SLOTS as u16, LaneCount::new(1).ok()?, seed);
    config.largest_chunk = CHUNK;
    Coordinator::new(config, storage, Instant::ZERO).ok()
}

fn member(rank: usize, nonce: Nonce) -> Option<Member> {
    let (world_size, rank) = (WorldSize::new(WORLD).ok()?, Rank::new(rank).ok()?);
    let mut config = MemberConfig::new(JobName::new("nostd")?, world_size, rank).ok()?;
    (config.chunk, config.window) = (CHUNK, Window::new(WINDOW).ok()?);
    Member::new(config, nonce, Instant::ZERO).ok()
}

fn worker<'s>(session: &SessionParams, slots: &'s mut [Slot]) -> Option<Worker<'s>> {
    let lanes = LaneCount::new(1).ok()?;
    let config = Config::new(session.job, session.layout, session.initial_seq, LaneId::ZERO, lanes);
    Worker::new(config, slots).ok()
}

fn address(rank: usize) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, rank as u8], 4000))
}

/// Lets the control machines talk until each member has told such an event. None if a member's session ends otherwise.
fn until(
    now: &mut Instant,
    members: &mut [Member; WORLD],
    coordinator: &mut Coordinator<'_>,
    plane: &mut Plane<'_, WORLD>,
    expected: fn(MemberEvent) -> bool,
) -> Option<()> {
    let mut datagram: Datagram = [0; _];
    let mut told = [false; WORLD];
    loop {
        coordinator.handle_timeout(*now, plane);
        for (rank, member) in members.iter_mut().enumerate() {
            member.handle_timeout(*now);
            while let Some(MemberTransmit { lane, len, .. }) = member.poll_transmit(*now, &mut datagram) {
                coordinator.handle_datagram(*now, lane, address(rank), &datagram[..len], plane);
            }
        }
        while let Some(transmit) = coordinator.poll_transmit(*now, &mut datagram) {
            let CoordinatorTransmit { lane, to, len, .. } = transmit;
            let (_, member) = members.iter_mut().enumerate().find(|(rank, _)| address(*rank) == to)?;
            member.handle_datagram(*now, lane, &datagram[..len]);
        }
        for (member, told) in members.iter_mut().zip(&mut told) {
            while let Some(event) = member.poll_event() {
                *told |= expected(event);
                if let MemberEvent::Ended(_) = event {
                    return None;
                }
            }
        }
        if told == [true; WORLD] {
            return Some(());
        }
        let timeouts = members.iter().filter_map(Member::poll_timeout);
        *now = timeouts.chain(coordinator.poll_timeout()).min()?;
    }
}

/// One collective of all workers. None if one fails, or a sum is wrong.
fn all_reduce<T: Tensor>(
    now: &mut Instant,
    workers: &mut [Worker<'_>; WORLD],
    plane: &mut Plane<'_, WORLD>,
) -> Option<()> {
    let world_size = WorldSize::new(WORLD).ok()?;
    let mut tensors: [T; WORLD] = core::array::from_fn(|rank| T::of_rank(rank as u8, world_size));
    for worker in workers.iter_mut() {
        worker.start(T::collective().ok()?, *now).ok()?;
    }
    let (mut datagram, mut result): (Datagram, Datagram) = ([0; _], [0; _]);
    let (mut sent, mut finished) = (0, 0);
    while finished < WORLD {
        for rank in 0..WORLD {
            while let Some(transmit) = workers[rank].poll_transmit(*now) {
                sent += 1;
                if sent % 5 == 0 {
                    continue;
                }
                let len = transmit.emit(&mut tensors[rank], &mut datagram);
                let (receivers, len) =
                    match plane.aggregator.handle_datagram(plane.ports[rank], &datagram[..len]) {
                        Egress::Consume | Egress::Ignore => continue,
                        Egress::Unicast(reply) => (rank..rank + 1, reply.emit(&mut result)),
                        Egress::Multicast(reply) => (0..WORLD, reply.emit(&mut result)),
                        Egress::Reject(_) => return None,
                    };
                for receiver in receivers {
                    if let Received::Chunk(chunk) = workers[receiver].handle_datagram(*now, &result[..len]) {
                        tensors[receiver].write(&chunk);
                    }
                }
            }
        }
        for worker in workers.iter_mut() {
            while let Some(event) = worker.poll_event() {
                let Event::Finished(_) = event else { return None };
                finished += 1;
            }
        }
        if let Some(next) = workers.iter().filter_map(Worker::poll_timeout).min() {
            *now = next;
            workers.iter_mut().for_each(|worker| worker.handle_timeout(next));
        }
    }
    tensors.iter().all(T::is_sum).then_some(())
}
