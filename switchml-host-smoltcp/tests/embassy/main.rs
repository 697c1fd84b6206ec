//! Workers and aggregators as tasks on embassy-net stacks, joined by a hub in memory.

mod executor;
mod hub;

use core::cell::RefCell;
use core::net::Ipv4Addr;
use core::time::Duration;

use embassy_net::udp::{PacketMetadata, UdpSocket};
use embassy_net::{Config, Ipv4Cidr, Stack, StackResources, StaticConfigV4};
use embassy_net_driver::LinkState;
use embassy_time::Timer;
use half::{bf16, f16};
use switchml_host_smoltcp::embassy::{Aggregator, LaneSockets, Worker};
use switchml_host_smoltcp::{
    AggregatorConfig, AggregatorStorage, Reducible, SetupError, WorkerConfig, WorkerError, WorkerStatus,
    WorkerStorage,
};
use switchml_proto::control::CoordinatorEvent;
use switchml_proto::numeric::Reduction;
use switchml_proto::wire::{AbortReason, DEFAULT_PORT_BASE, JobName, MAX_CONTROL_LEN};
use switchml_proto::{ChunkSize, Nonce, Rank, WorldSize};

use crate::executor::{Task, run};
use crate::hub::{Hub, HubDriver, MTU};

const WINDOW: usize = 8;

/// Host 0 is the aggregator's, host r + 1 that of rank r.
fn ip(host: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, 0, 1 + host as u8)
}

fn stack(hub: &Hub, host: usize, tasks: &mut Vec<Task<'static>>) -> Stack<'static> {
    let config = StaticConfigV4 {
        address: Ipv4Cidr::new(ip(host), 24),
        gateway: None,
        dns_servers: Default::default(),
    };
    let resources = Box::leak(Box::new(StackResources::<8>::new()));
    let (stack, mut runner): (_, embassy_net::Runner<'static, HubDriver>) =
        embassy_net::new(hub.driver(), Config::ipv4_static(config), resources, host as u64);
    tasks.push(Box::pin(async move { runner.run().await }));
    stack
}

fn socket(stack: Stack<'static>, port: u16, transmit: usize, receive: usize) -> UdpSocket<'static> {
    let meta = |packets| Box::leak(vec![PacketMetadata::EMPTY; packets].into_boxed_slice());
    let octets = |packets| Box::leak(vec![0; packets * MAX_CONTROL_LEN].into_boxed_slice());
    let mut socket = UdpSocket::new(stack, meta(receive), octets(receive), meta(transmit), octets(transmit));
    socket.bind(port).expect("the socket is new");
    socket
}

fn aggregator<const LANES: usize>(stack: Stack<'static>, transmit: usize) -> Aggregator<'static, LANES> {
    let sockets = core::array::from_fn(|lane| {
        let port = DEFAULT_PORT_BASE + lane as u16;
        LaneSockets { members: socket(stack, port, transmit, 64), strangers: socket(stack, port, 4, 2) }
    });
    let storage = Box::leak(Box::new(AggregatorStorage::<32, 32, 4, 1, LANES>::new()));
    let config = AggregatorConfig::new(MTU, [3; 32]);
    Aggregator::new(config, storage, sockets, stack).expect("the configuration is good")
}

fn worker_config(ranks: usize, rank: usize) -> WorkerConfig {
    WorkerConfig::new(
        JobName::new("job").expect("a name"),
        WorldSize::new(ranks).expect("a world"),
        Rank::new(rank).expect("a rank"),
        (ip(0), DEFAULT_PORT_BASE).into(),
        MTU,
        Nonce(50 + rank as u64),
    )
}

fn worker<const LANES: usize>(stack: Stack<'static>, config: WorkerConfig) -> Worker<'static, LANES> {
    let sockets = core::array::from_fn(|lane| socket(stack, 5000 + lane as u16, 8, 16));
    let storage = Box::leak(Box::new(WorkerStorage::<WINDOW, LANES>::new()));
    Worker::new(config, storage, sockets, stack).expect("the configuration is good")
}

/// Runs a job: `each` is what each rank does once it has joined.
fn job<const LANES: usize, F>(
    hub: &Hub,
    ranks: usize,
    transmit: usize,
    each: impl Fn(usize, Worker<'static, LANES>) -> F,
) where
    F: Future<Output = ()> + 'static,
{
    let mut runners = Vec::new();
    let mut aggregator = aggregator::<LANES>(stack(hub, 0, &mut runners), transmit);
    let mut tasks: Vec<Task<'_>> = Vec::new();
    for rank in 0..ranks {
        let mut worker = worker::<LANES>(stack(hub, rank + 1, &mut runners), worker_config(ranks, rank));
        let each = &each;
        tasks.push(Box::pin(async move {
            worker.join().await.expect("it joins");
            each(rank, worker).await;
        }));
    }
    tasks.push(Box::pin(async move { aggregator.run().await }));
    tasks.extend(runners);
    run(tasks, ranks);
}

fn quarter(rank: usize, i: usize) -> f32 {
    (1 + rank) as f32 * ((i % 61) as f32 - 30.0) / 4.0
}

fn sum_of_quarters(ranks: usize, i: usize) -> f32 {
    (0..ranks).map(|rank| quarter(rank, i)).sum()
}

async fn reduce<T: Reducible, const LANES: usize>(
    worker: &mut Worker<'static, LANES>,
    ranks: usize,
    rank: usize,
    len: usize,
    of: impl Fn(f32) -> T,
) {
    let mut tensor: Vec<T> = (0..len).map(|i| of(quarter(rank, i))).collect();
    worker.all_reduce(&mut tensor, Reduction::Sum).await.expect("it is reduced");
    for (i, value) in tensor.iter().enumerate() {
        assert_eq!(*value, of(sum_of_quarters(ranks, i)), "element {i}");
    }
}

#[test]
fn all_element_types_are_summed_over_a_net_that_loses_frames() {
    const RANKS: usize = 3;
    let hub = Hub::losing_one_in(53);
    job::<1, _>(&hub, RANKS, 16, |rank, mut worker| async move {
        for len in [700, 5, 0] {
            reduce(&mut worker, RANKS, rank, len, |value| value).await;
            reduce(&mut worker, RANKS, rank, len, f16::from_f32).await;
            reduce(&mut worker, RANKS, rank, len, bf16::from_f32).await;
            reduce(&mut worker, RANKS, rank, len, |value| (value * 4.0) as i32).await;
        }
        worker.barrier().await.expect("all come");
        let mut weights = [rank as f32; 100];
        worker.broadcast(&mut weights, Rank::new(1).expect("a rank")).await.expect("it is sent");
        assert_eq!(weights, [1.0; 100]);
        assert!(worker.counters().resent > 0, "the losses have cost something");
        worker.leave().await.expect("all leave");
    });
}

#[test]
fn lanes_are_sockets_of_their_own() {
    job::<2, _>(&Hub::default(), 2, 16, |rank, mut worker| async move {
        reduce(&mut worker, 2, rank, 2000, |value| value).await;
        worker.leave().await.expect("all leave");
    });
}

#[test]
fn a_transmit_buffer_smaller_than_one_result_for_each_rank_loses_nothing() {
    job::<1, _>(&Hub::default(), 4, 3, |rank, mut worker| async move {
        reduce(&mut worker, 4, rank, 2000, |value| value).await;
        assert_eq!(worker.counters().dropped, 0);
        worker.leave().await.expect("all leave");
    });
}

#[test]
fn a_collective_that_is_dropped_ends_the_session_for_all() {
    job::<1, _>(&Hub::default(), 2, 16, |rank, mut worker| async move {
        let mut tensor = vec![1.0f32; 1000];
        if rank == 1 {
            let timeout = Timer::after_millis(20);
            // Rank 0 does not come before that.
            let reduced = worker.all_reduce(&mut tensor, Reduction::Sum);
            assert!(either(reduced, timeout).await.is_none());
            let again = worker.all_reduce(&mut tensor, Reduction::Sum).await;
            assert_eq!(again, Err(WorkerError::Cancelled));
            assert_eq!(worker.leave().await, Err(WorkerError::Cancelled));
        } else {
            assert!(either(worker.keep_alive(), Timer::after_millis(100)).await.is_some());
            let told = WorkerError::Aborted { reason: AbortReason::Cancelled, culprit: Rank::new(1).ok() };
            assert_eq!(worker.all_reduce(&mut tensor, Reduction::Sum).await, Err(told));
        }
    });
}

/// What `future` gives, if it gives it before `timeout`.
async fn either<T>(future: impl Future<Output = T>, timeout: Timer) -> Option<T> {
    let (mut future, mut timeout) = (core::pin::pin!(future), core::pin::pin!(timeout));
    core::future::poll_fn(|context| {
        if let core::task::Poll::Ready(value) = future.as_mut().poll(context) {
            return core::task::Poll::Ready(Some(value));
        }
        timeout.as_mut().poll(context).map(|()| None)
    })
    .await
}

#[test]
fn keep_alive_beside_other_work_keeps_the_session() {
    let hub = Hub::default();
    let mut runners = Vec::new();
    let agg_stack = stack(&hub, 0, &mut runners);
    let sockets = [LaneSockets {
        members: socket(agg_stack, DEFAULT_PORT_BASE, 16, 64),
        strangers: socket(agg_stack, DEFAULT_PORT_BASE, 4, 2),
    }];
    let storage = Box::leak(Box::new(AggregatorStorage::<32, 32, 4>::new()));
    let mut config = AggregatorConfig::new(MTU, [3; 32]);
    config.lease = Duration::from_millis(200);
    let mut aggregator = Aggregator::new(config, storage, sockets, agg_stack).expect("a good configuration");
    let events = RefCell::new(Vec::new());
    let mut tasks: Vec<Task<'_>> = Vec::new();
    for rank in 0..2 {
        let mut worker = worker::<1>(stack(&hub, rank + 1, &mut runners), worker_config(2, rank));
        tasks.push(Box::pin(async move {
            worker.join().await.expect("it joins");
            // The application computes for five leases.
            assert_eq!(either(worker.keep_alive(), Timer::after_millis(1000)).await, None);
            reduce(&mut worker, 2, rank, 300, |value| value).await;
            worker.leave().await.expect("all leave");
        }));
    }
    let log = &events;
    tasks.push(Box::pin(async move {
        loop {
            let event = aggregator.next_event().await;
            log.borrow_mut().push(event);
        }
    }));
    tasks.extend(runners);
    run(tasks, 2);
    let ready =
        events.borrow().iter().filter(|event| matches!(event, CoordinatorEvent::Ready { .. })).count();
    assert_eq!(ready, 1, "{:?}", events.borrow());
}

#[test]
fn a_task_that_only_keeps_its_session_alive_sleeps() {
    let hub = Hub::default();
    let frames = RefCell::new(0);
    let (hub_of, counted) = (hub.clone(), &frames);
    let mut runners = Vec::new();
    let mut aggregator = aggregator::<1>(stack(&hub, 0, &mut runners), 16);
    let mut worker = worker::<1>(stack(&hub, 1, &mut runners), worker_config(1, 0));
    let mut tasks: Vec<Task<'_>> = vec![Box::pin(async move {
        worker.join().await.expect("it joins");
        assert_eq!(either(worker.keep_alive(), Timer::after_millis(300)).await, None);
        let before = hub_of.frames();
        let mut polls = 0;
        let mut idle = core::pin::pin!(worker.keep_alive());
        let counting = core::future::poll_fn(|context| {
            polls += 1;
            idle.as_mut().poll(context)
        });
        assert_eq!(either(counting, Timer::after_millis(1000)).await, None);
        assert!(polls < 20, "{polls} polls in a second without work");
        *counted.borrow_mut() = hub_of.frames() - before;
    })];
    tasks.push(Box::pin(async move { aggregator.run().await }));
    tasks.extend(runners);
    run(tasks, 1);
    assert!(*frames.borrow() < 10, "{} frames", frames.borrow());
}

#[test]
fn a_link_that_goes_down_and_up_in_mid_collective_costs_time_and_nothing_else() {
    let hub = Hub::default();
    let cable = hub.clone();
    let mut runners = Vec::new();
    let mut aggregator = aggregator::<1>(stack(&hub, 0, &mut runners), 16);
    let mut tasks: Vec<Task<'_>> = Vec::new();
    for rank in 0..2 {
        let mut worker = worker::<1>(stack(&hub, rank + 1, &mut runners), worker_config(2, rank));
        tasks.push(Box::pin(async move {
            worker.join().await.expect("it joins");
            for _ in 0..20 {
                reduce(&mut worker, 2, rank, 3000, |value| value).await;
            }
            worker.leave().await.expect("all leave");
        }));
    }
    tasks.push(Box::pin(async move {
        // Rank 1's cable, after the first data packets.
        while cable.frames() < 500 {
            Timer::after_millis(1).await;
        }
        cable.set_link(2, LinkState::Down);
        Timer::after_millis(300).await;
        cable.set_link(2, LinkState::Up);
    }));
    tasks.push(Box::pin(async move { aggregator.run().await }));
    tasks.extend(runners);
    run(tasks, 3);
}

#[test]
fn an_aggregator_that_shuts_down_tells_every_rank() {
    let hub = Hub::default();
    let mut runners = Vec::new();
    let mut aggregator = aggregator::<1>(stack(&hub, 0, &mut runners), 16);
    let mut tasks: Vec<Task<'_>> = Vec::new();
    for rank in 0..2 {
        let mut worker = worker::<1>(stack(&hub, rank + 1, &mut runners), worker_config(2, rank));
        tasks.push(Box::pin(async move {
            worker.join().await.expect("it joins");
            let told = WorkerError::Aborted { reason: AbortReason::Shutdown, culprit: None };
            assert_eq!(worker.keep_alive().await, told);
            assert_eq!(worker.status(), WorkerStatus::Failed(told));
        }));
    }
    tasks.push(Box::pin(async move {
        while !matches!(aggregator.next_event().await, CoordinatorEvent::Ready { .. }) {}
        // The ranks learn that they are ready.
        let _ = either(aggregator.run(), Timer::after_millis(100)).await;
        aggregator.shutdown().await;
        assert_eq!(aggregator.sessions().count(), 0);
    }));
    tasks.extend(runners);
    run(tasks, 3);
}

#[test]
fn a_chunk_that_does_not_fit_the_mtu_is_refused_with_the_largest_that_does() {
    let mut runners = Vec::new();
    let stack = stack(&Hub::default(), 0, &mut runners);
    let mut config = worker_config(2, 0);
    config.chunk = ChunkSize::from_elements(512).expect("a chunk");
    let storage = Box::leak(Box::new(WorkerStorage::<WINDOW>::new()));
    let refused = Worker::<1>::new(config, storage, [socket(stack, 5000, 40, 40)], stack).err();
    let largest = ChunkSize::from_elements(256).ok();
    assert_eq!(refused, Some(SetupError::ChunkTooLarge { chunk: config.chunk, largest }));
}
