//! Ranks and switches that die, stop, leave or give up: everybody gets a typed error in time.

use core::panic::AssertUnwindSafe;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use core::time::Duration;
use std::panic::catch_unwind;
use std::sync::{Arc, Barrier, Mutex};
use std::thread;
use std::time::Instant;

use switchml_host_std::{Communicator, Error, ReduceOp, SessionFailure, TensorState};
use switchml_proto::{Rank, WorkerSet};

use crate::relay::{Relay, Way};
use crate::world::{TestSwitch, builder, eventually};

const LEASE: Duration = Duration::from_millis(800);

fn switch() -> TestSwitch {
    TestSwitch::with(|config| config.lease = LEASE)
}

/// Ranks of one job, rank r by way of relay r.
fn connect(switch: &TestSwitch, world_size: usize) -> (Vec<Relay>, Vec<Communicator>) {
    let relays: Vec<_> = (0..world_size).map(|_| Relay::to(switch.address)).collect();
    let ranks = thread::scope(|scope| {
        let connect = |rank: usize| {
            let builder = builder(relays[rank].address, "job", rank, world_size);
            scope.spawn(move || builder.connect().unwrap())
        };
        let ranks: Vec<_> = (0..world_size).map(connect).collect();
        ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
    });
    (relays, ranks)
}

fn failure(error: &Error) -> &SessionFailure {
    error.session_failure().unwrap_or_else(|| panic!("no failure of the session: {error:?}"))
}

/// All further calls fail at once, with the same message, and change nothing.
fn assert_failed_for_good(comm: &mut Communicator, message: &str) {
    let start = Instant::now();
    let mut tensor = [1.0_f32; 100];
    let failed = comm.start_all_reduce(vec![7_i32; 3], ReduceOp::Sum).unwrap_err();
    assert_eq!(failed.bucket, [7; 3]);
    for error in [
        comm.all_reduce(&mut tensor, ReduceOp::Sum).unwrap_err(),
        comm.broadcast(&mut tensor, 0).unwrap_err(),
        comm.barrier().unwrap_err(),
        failed.error,
    ] {
        assert!(matches!(error, Error::Session { tensor: TensorState::Untouched, .. }));
        assert_eq!(error.to_string(), message);
    }
    assert_eq!(tensor, [1.0; 100]);
    assert!(start.elapsed() < Duration::from_millis(100), "they took {:?}", start.elapsed());
}

#[test]
fn a_rank_that_falls_silent_is_named_within_the_lease() {
    let switch = switch();
    let (relays, mut ranks) = connect(&switch, 3);
    let mut silent = ranks.remove(2);
    relays[2].set(Way::Cut);
    let start = Instant::now();
    thread::scope(|scope| {
        for mut comm in ranks {
            scope.spawn(move || {
                let error = comm.all_reduce(&mut [1.0_f32; 5000], ReduceOp::Sum).unwrap_err();
                let expected = Rank::new(2).unwrap();
                assert!(matches!(failure(&error), SessionFailure::RankLost { rank } if *rank == expected));
                let message = error.to_string();
                assert!(message.starts_with("rank 2 was lost: it died, was stopped"), "{message}");
                assert!(start.elapsed() < 2 * LEASE, "it took {:?}", start.elapsed());
                assert_failed_for_good(&mut comm, &message);
                assert_eq!(comm.leave().unwrap_err().to_string(), message);
            });
        }
        // The rank itself cannot reach the aggregator any more.
        scope.spawn(move || {
            let error = silent.all_reduce(&mut [1.0_f32; 5000], ReduceOp::Sum).unwrap_err();
            assert!(matches!(failure(&error), SessionFailure::AggregatorLost { .. }), "{error:?}");
            assert!(start.elapsed() < 2 * LEASE, "it took {:?}", start.elapsed());
        });
    });
}

#[test]
fn a_lost_switch_is_named_within_the_lease() {
    let switch = switch();
    let (relays, ranks) = connect(&switch, 2);
    let reducing = AtomicUsize::new(0);
    thread::scope(|scope| {
        for (mut comm, relay) in ranks.into_iter().zip(&relays) {
            let reducing = &reducing;
            scope.spawn(move || {
                let mut tensor = vec![1.0_f32; 100_000];
                comm.all_reduce(&mut tensor, ReduceOp::Sum).unwrap();
                reducing.fetch_add(1, Ordering::SeqCst);
                let error = loop {
                    if let Err(error) = comm.all_reduce(&mut tensor, ReduceOp::Sum) {
                        break error;
                    }
                };
                assert!(matches!(failure(&error), SessionFailure::AggregatorLost { .. }), "{error:?}");
                let message = error.to_string();
                assert!(
                    message.contains(&relay.address.to_string()) && message.contains("800ms"),
                    "{message}"
                );
            });
        }
        eventually(|| reducing.load(Ordering::SeqCst) == 2);
        relays.iter().for_each(|relay| relay.set(Way::Cut));
    });
}

#[test]
fn a_restarted_switch_is_told_from_a_lost_one() {
    let (old, new) = (switch(), switch());
    let (relays, ranks) = connect(&old, 2);
    relays.iter().for_each(|relay| relay.set(Way::Open(new.address)));
    thread::scope(|scope| {
        for mut comm in ranks {
            scope.spawn(move || {
                let start = Instant::now();
                let error = comm.all_reduce(&mut [1.0_f32; 5000], ReduceOp::Sum).unwrap_err();
                let restarted = matches!(failure(&error), SessionFailure::AggregatorRestarted { .. });
                assert!(restarted, "{error:?}");
                assert!(start.elapsed() < 2 * LEASE, "it took {:?}", start.elapsed());
            });
        }
    });
}

#[test]
fn a_switch_that_stops_says_so() {
    let mut switch = switch();
    let (_relays, mut ranks) = connect(&switch, 2);
    let pending = ranks[0].start_all_reduce(vec![1.0_f32; 5000], ReduceOp::Sum).unwrap();
    switch.stop();
    let failed = pending.wait().unwrap_err();
    assert!(matches!(failure(&failed.error), SessionFailure::AggregatorStopped), "{failed:?}");
    assert_eq!(failed.bucket, [1.0; 5000]);
    assert_failed_for_good(&mut ranks[1], "the aggregator was stopped");
}

#[test]
fn a_late_result_is_there_after_the_others_have_left() {
    let switch = switch();
    let (relays, mut ranks) = connect(&switch, 2);
    relays[0].set(Way::NoResults(switch.address));
    // One window of integers, which needs no results to be sent.
    let pending = ranks[0].start_all_reduce(vec![1; 100], ReduceOp::Sum).unwrap();
    let mut leaving = ranks.pop().unwrap();
    leaving.all_reduce(&mut [2; 100], ReduceOp::Sum).unwrap();
    leaving.leave().unwrap();
    thread::sleep(LEASE + LEASE / 2);
    assert!(!pending.is_finished());
    relays[0].set(Way::Open(switch.address));
    assert_eq!(*pending.wait().unwrap(), [3; 100]);
    ranks.pop().unwrap().leave().unwrap();
}

#[test]
fn a_rank_that_calls_fewer_collectives_is_named_when_it_leaves() {
    let switch = switch();
    switch.run(
        3,
        |builder| builder,
        |mut comm| {
            comm.barrier().unwrap();
            if comm.rank() == 1 {
                return comm.leave().unwrap();
            }
            let error = comm.all_reduce(&mut [1.0_f32; 999], ReduceOp::Sum).unwrap_err();
            let left = Rank::new(1).unwrap();
            assert!(
                matches!(failure(&error), SessionFailure::RankLeft { rank } if *rank == left),
                "{error:?}"
            );
            assert!(error.to_string().starts_with("rank 1 left while others needed it"), "{error}");
        },
    );
}

#[test]
fn the_stall_time_ends_a_wait_and_names_who_is_missing() {
    let switch = switch();
    let failed = AtomicBool::new(false);
    let stall = Duration::from_millis(600);
    switch.run(3, |builder| builder.stall_time(stall), |mut comm| {
        let missing = WorkerSet::EMPTY.with(Rank::new(1).unwrap());
        if comm.rank() == 1 {
            // Alive, but busy with something else.
            eventually(|| failed.load(Ordering::SeqCst));
            // The same one: the abort may be on its way still, and others would differ (D-1).
            let error = comm.all_reduce(&mut [1.0_f32; 50], ReduceOp::Sum).unwrap_err();
            let named = matches!(failure(&error), SessionFailure::Stalled { missing: told, .. } if *told == missing);
            assert!(named, "{error:?}");
            return;
        }
        let start = Instant::now();
        let error = comm.all_reduce(&mut [1.0_f32; 50], ReduceOp::Sum).unwrap_err();
        assert!((stall..3 * stall).contains(&start.elapsed()), "it took {:?}", start.elapsed());
        let named = matches!(failure(&error), SessionFailure::Stalled { missing: told, .. } if *told == missing);
        assert!(named, "{error:?}");
        assert!(error.to_string().ends_with(": rank 1 missing"), "{error}");
        failed.store(true, Ordering::SeqCst);
    });
}

#[test]
fn a_slow_rank_is_told_of_and_waited_for() {
    let switch = switch();
    let lines = Arc::new(Mutex::new(Vec::new()));
    let tell = |builder: switchml_host_std::Builder| {
        let lines = lines.clone();
        builder.lanes(2).on_waiting(move |waiting| lines.lock().unwrap().push(waiting.to_string()))
    };
    switch.run(2, tell, |mut comm| {
        if comm.rank() == 1 {
            thread::sleep(Duration::from_millis(2600));
        }
        comm.all_reduce(&mut [1.0_f32; 999], ReduceOp::Sum).unwrap();
    });
    let lines = lines.lock().unwrap();
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(lines[0].starts_with("waiting for rank 1 in collective 0 (lane "), "{lines:?}");
    assert!(lines[0].contains("for 1 s; rank 1 last heard 0."), "{lines:?}");
    assert!(lines[1].contains("for 2 s; rank 1 last heard 0."), "{lines:?}");
}

#[test]
fn a_panic_gives_up_for_all() {
    // Printing a panic may take longer than a short lease.
    let switch = TestSwitch::start();
    let joined = Barrier::new(3);
    switch.run(
        3,
        |builder| builder.lanes(2),
        |mut comm| {
            joined.wait();
            if comm.rank() == 2 {
                let outcome = catch_unwind(AssertUnwindSafe(move || {
                    let _comm = comm;
                    panic!("an application's own fault");
                }));
                assert!(outcome.is_err());
                return;
            }
            let start = Instant::now();
            let error = comm.all_reduce(&mut [1.0_f32; 999], ReduceOp::Sum).unwrap_err();
            let two = Rank::new(2).unwrap();
            assert!(
                matches!(failure(&error), SessionFailure::Cancelled { rank: Some(rank) } if *rank == two),
                "{error:?}"
            );
            assert_eq!(error.to_string(), "rank 2 gave up: see its own messages");
            assert!(start.elapsed() < Duration::from_secs(4), "it took {:?}", start.elapsed());
        },
    );
}

#[test]
fn a_callback_that_panics_fails_the_session_and_blocks_nobody() {
    // As above.
    let switch = TestSwitch::start();
    let panicking =
        |builder: switchml_host_std::Builder| builder.on_waiting(|_| panic!("a callback's own fault"));
    let failed = AtomicBool::new(false);
    switch.run(2, panicking, |mut comm| {
        if comm.rank() == 0 {
            let error = comm.all_reduce(&mut [1.0_f32; 999], ReduceOp::Sum).unwrap_err();
            assert!(matches!(failure(&error), SessionFailure::LanePanicked { .. }), "{error:?}");
            assert_failed_for_good(&mut comm, "the thread of lane 0 panicked");
            failed.store(true, Ordering::SeqCst);
        } else {
            eventually(|| failed.load(Ordering::SeqCst));
            let error = comm.barrier().unwrap_err();
            assert!(matches!(failure(&error), SessionFailure::Cancelled { .. }), "{error:?}");
        }
    });
}

#[test]
fn a_failure_in_the_middle_leaves_a_mixed_tensor_and_keeps_a_source() {
    let switch = switch();
    let (relays, ranks) = connect(&switch, 2);
    thread::scope(|scope| {
        for mut comm in ranks {
            scope.spawn(move || {
                let source = vec![1_i32; 4_000_000];
                let mut destination = vec![0_i32; source.len()];
                let error = comm.all_reduce_into(&source, &mut destination, ReduceOp::Sum).unwrap_err();
                assert!(matches!(error, Error::Session { tensor: TensorState::Mixed, .. }), "{error:?}");
                assert!(error.to_string().ends_with("some reduced and some original chunks"), "{error}");
                assert!(source.iter().all(|&element| element == 1));
                assert!(destination.contains(&0) && destination.contains(&2));
            });
        }
        eventually(|| relays.iter().all(|relay| relay.results() > 200));
        relays.iter().for_each(|relay| relay.set(Way::Cut));
    });
}

#[test]
fn i6_a_rank_lost_in_the_middle_of_a_stream_is_named() {
    let switch = switch();
    let (relays, ranks) = connect(&switch, 3);
    thread::scope(|scope| {
        for (rank, mut comm) in ranks.into_iter().enumerate() {
            scope.spawn(move || {
                let mut tensor = vec![1.0_f32; 4_000_000];
                let error = comm.all_reduce(&mut tensor, ReduceOp::Sum).unwrap_err();
                let failure = failure(&error);
                match rank {
                    1 => assert!(matches!(failure, SessionFailure::AggregatorLost { .. }), "{error:?}"),
                    _ => assert!(
                        matches!(failure, SessionFailure::RankLost { rank } if rank.get() == 1),
                        "{error:?}"
                    ),
                }
                assert!(matches!(error, Error::Session { tensor: TensorState::Mixed, .. }), "{error:?}");
            });
        }
        eventually(|| relays.iter().all(|relay| relay.results() > 200));
        relays[1].set(Way::Cut);
    });
}
