//! The life of sessions: who waits, who leaves, who is lost.

use smoltcp::time::Duration;
use switchml_host_smoltcp::{AggregatorConfig, WorkerError, WorkerStatus};
use switchml_proto::numeric::Reduction;
use switchml_proto::wire::{AbortReason, RejectReason};
use switchml_proto::{LaneId, Rank, WorkerSet};

use crate::world::{AMPLE, Core, Host, MTU, World, run};

fn rank(rank: usize) -> Rank {
    Rank::new(rank).expect("a rank")
}

fn ones(ranks: usize, len: usize) -> Vec<Vec<f32>> {
    vec![vec![1.0; len]; ranks]
}

#[test]
fn a_rank_that_is_early_learns_who_is_missing() {
    let mut world = World::<1>::new(3, 20, AMPLE);
    // Rank 1 is not there yet.
    let mut late = (world.hosts.remove(1), world.workers.remove(1));
    let missing = WorkerSet::EMPTY.with(rank(1));
    world.until(Duration::from_secs(5), |status| status == WorkerStatus::Joining { missing });
    world.hosts.push(late.0);
    world.workers.push(late.1);
    world.join();
    let mut tensors = ones(3, 100);
    let outcomes = world.all_reduce(&mut tensors, Reduction::Sum);
    assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
    late = (world.hosts.remove(0), world.workers.remove(0));
    drop(late);
}

#[test]
fn polling_while_the_application_computes_keeps_the_session_alive() {
    let mut world = World::<1>::joined(2, 21);
    world.idle(Duration::from_secs(60));
    let mut tensors = ones(2, 100);
    let outcomes = world.all_reduce(&mut tensors, Reduction::Sum);
    assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
    assert_eq!(tensors[1], vec![2.0; 100]);
}

#[test]
fn a_rank_that_is_not_polled_for_a_lease_ends_the_session_and_is_named() {
    let mut world = World::<1>::joined(2, 22);
    let World { now, net, core, hosts, workers } = &mut world;
    // Rank 1 is silent; what counts is what rank 0 is told.
    run(now, net, core, &mut hosts[..1], Duration::from_secs(20), |at, now, host| {
        let progress = workers[at].poll(now, &mut host.interface, &mut host.sockets);
        let failed = matches!(progress.status, WorkerStatus::Failed(_));
        crate::world::Turn { poll_at: progress.poll_at, done: failed }
    });
    let expected = WorkerError::Aborted { reason: AbortReason::LeaseExpired, culprit: Some(rank(1)) };
    assert_eq!(workers[0].status(), WorkerStatus::Failed(expected));
}

#[test]
fn leaving_frees_the_slots_for_the_next_job() {
    let mut world = World::<1>::joined(2, 23);
    let now = world.now;
    world.workers.iter_mut().for_each(|worker| worker.leave(now));
    world.until(Duration::from_secs(5), |status| status == WorkerStatus::Left);
    let core = world.core.as_ref().expect("it is on");
    assert_eq!(core.aggregator.sessions(world.now).count(), 0);
    let outcomes = world.all_reduce(&mut ones(2, 1), Reduction::Sum);
    assert_eq!(outcomes, [Err(WorkerError::Left); 2]);
}

#[test]
fn a_collective_before_the_session_is_ready_changes_nothing() {
    let mut world = World::<1>::new(2, 24, AMPLE);
    let outcomes = world.all_reduce(&mut ones(2, 1), Reduction::Sum);
    assert_eq!(outcomes, [Err(WorkerError::NotReady); 2]);
    world.join();
    let outcomes = world.all_reduce(&mut ones(2, 1), Reduction::Sum);
    assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
}

#[test]
fn a_collective_that_is_dropped_ends_the_session_for_all() {
    let mut world = World::<1>::joined(2, 25);
    let now = world.now;
    let mut tensor = [1.0f32; 500];
    let begun = world.workers[1].all_reduce(&mut tensor, Reduction::Sum, now);
    drop(begun.expect("the session is ready"));
    world.until(Duration::from_secs(5), |status| matches!(status, WorkerStatus::Failed(_)));
    let told = WorkerError::Aborted { reason: AbortReason::Cancelled, culprit: Some(rank(1)) };
    assert_eq!(world.workers[0].status(), WorkerStatus::Failed(told));
    assert_eq!(world.workers[1].status(), WorkerStatus::Failed(WorkerError::Cancelled));
}

#[test]
fn a_rank_that_does_not_call_is_named_after_the_stall_time() {
    let configure = |config: &mut switchml_host_smoltcp::WorkerConfig| {
        config.stall_time = core::time::Duration::from_secs(3);
    };
    let mut world = World::<1>::configured(2, 26, AMPLE, configure, |_| ());
    world.join();
    let World { now, net, core, hosts, workers } = &mut world;
    let (caller, idle) = workers.split_at_mut(1);
    let mut tensor = [1.0f32; 500];
    let mut open = caller[0].all_reduce(&mut tensor, Reduction::Sum, *now).expect("the session is ready");
    let mut outcome = None;
    run(now, net, core, hosts, Duration::from_secs(20), |at, now, host| {
        if at == 0 && outcome.is_none() {
            match open.poll(now, &mut host.interface, &mut host.sockets) {
                Err(error) => outcome = Some(error),
                Ok(switchml_host_smoltcp::smoltcp::Step::Working { poll_at }) => {
                    return crate::world::Turn { poll_at, done: false };
                }
                Ok(done) => panic!("{done:?}"),
            }
        }
        let poll_at =
            (at == 1).then(|| idle[0].poll(now, &mut host.interface, &mut host.sockets).poll_at).flatten();
        crate::world::Turn { poll_at, done: outcome.is_some() }
    });
    let missing = WorkerSet::EMPTY.with(rank(1));
    assert_eq!(outcome, Some(WorkerError::Stalled { missing }));
    drop(open);
    assert_eq!(caller[0].missing(), missing);
}

#[test]
fn an_aggregator_that_is_switched_off_is_lost_after_a_lease() {
    let mut world = World::<1>::joined(2, 27);
    world.core = None;
    let begun = world.now;
    let outcomes = world.all_reduce(&mut ones(2, 100), Reduction::Sum);
    assert_eq!(outcomes, [Err(WorkerError::AggregatorLost); 2]);
    let waited = world.now - begun;
    assert!(waited > Duration::from_secs(3) && waited < Duration::from_secs(6), "{waited}");
}

#[test]
fn an_aggregator_that_is_not_there_is_named_after_the_connect_timeout() {
    let mut world = World::<1>::new(1, 28, AMPLE);
    world.core = None;
    world.until(Duration::from_secs(6), |status| matches!(status, WorkerStatus::Failed(_)));
    let expected = WorkerError::AggregatorSilent { lane: LaneId::ZERO };
    assert_eq!(world.workers[0].status(), WorkerStatus::Failed(expected));
}

#[test]
fn an_aggregator_that_restarts_ends_the_session_and_takes_the_next() {
    let mut world = World::<1>::joined(2, 29);
    let host = world.core.take().expect("it is on").host;
    let host = Host { sockets: smoltcp::iface::SocketSet::new(Vec::new()), ..host };
    let config = AggregatorConfig::new(MTU, [77; 32]);
    world.core = Some(Core::new(host, config, AMPLE, world.now));
    let outcomes = world.all_reduce(&mut ones(2, 100), Reduction::Sum);
    let unknown = WorkerError::Aborted { reason: AbortReason::UnknownSession, culprit: None };
    assert_eq!(outcomes, [Err(unknown); 2]);
}

#[test]
fn a_second_process_of_the_same_rank_is_refused() {
    let mut world = World::<1>::joined(2, 30);
    let mut twin = World::<1>::configured(2, 31, AMPLE, |config| config.nonce.0 += 100, |_| ());
    // Rank 1 once more, on a host of its own in the same net.
    twin.workers.remove(0);
    let mut host = Host::new(&world.net, 7, world.now);
    host.socket(crate::world::WORKER_PORT, 12, 32);
    world.hosts.push(host);
    world.workers.push(twin.workers.remove(0));
    world.until(Duration::from_secs(5), |status| {
        matches!(status, WorkerStatus::Ready | WorkerStatus::Failed(WorkerError::Rejected(_)))
    });
    let refused = WorkerStatus::Failed(WorkerError::Rejected(RejectReason::RankTaken));
    assert_eq!(world.workers[2].status(), refused);
}

#[test]
fn a_shutdown_is_told_to_every_rank() {
    let mut world = World::<1>::joined(2, 32);
    let now = world.now;
    world.core.as_mut().expect("it is on").aggregator.shutdown(now);
    world.until(Duration::from_secs(5), |status| matches!(status, WorkerStatus::Failed(_)));
    let told = WorkerError::Aborted { reason: AbortReason::Shutdown, culprit: None };
    assert_eq!(world.workers[0].status(), WorkerStatus::Failed(told));
    world.idle(Duration::from_secs(1));
    let core = world.core.as_ref().expect("it is on");
    assert_eq!(core.aggregator.sessions(world.now).count(), 0);
}
