//! Several collectives under way.

use core::panic::AssertUnwindSafe;
use core::pin::Pin;
use core::task::{Context, Waker};
use core::time::Duration;
use std::panic::catch_unwind;
use std::sync::Arc;
use std::task::Wake;
use std::thread;

use switchml_host_std::{Communicator, Pending, ReduceOp, SessionFailure};

use crate::oracle::{How, Sample, bits, tensor};
use crate::world::{CHUNK, TestSwitch};

const LEN: usize = 700;

/// The tensor of one rank in one round.
fn input(rank: usize, round: usize) -> Vec<f32> {
    tensor(64 * round + rank, LEN + round)
}

fn start(comm: &mut Communicator, round: usize) -> Pending<f32> {
    comm.start_all_reduce(input(comm.rank(), round), ReduceOp::Sum).unwrap()
}

fn assert_reduced(comm: &Communicator, round: usize, elements: &[f32]) {
    let ranks: Vec<_> = (0..comm.world_size()).map(|rank| input(rank, round)).collect();
    assert_eq!(bits(elements), bits(&f32::reduced(&ranks, CHUNK, How::SUM).0), "round {round}");
}

#[test]
fn pending_ones_may_be_waited_for_in_any_order() {
    let switch = TestSwitch::start();
    switch.run(
        3,
        |builder| builder.lanes(2),
        |mut comm| {
            let mut pending: Vec<_> = (0..6).map(|round| (round, start(&mut comm, round))).collect();
            // Each rank in another order.
            let by = comm.rank() + 1;
            pending.rotate_left(by);
            pending.swap(0, 3);
            for (round, pending) in pending {
                let bucket = pending.wait().unwrap();
                assert_eq!(bucket.reduced.clamped_chunks, 0);
                assert_reduced(&comm, round, &bucket);
            }
        },
    );
}

#[test]
fn a_dropped_pending_is_still_reduced_for_the_others() {
    let switch = TestSwitch::start();
    switch.run(
        2,
        |builder| builder,
        |mut comm| {
            for round in 0..4 {
                let pending = start(&mut comm, round);
                if comm.rank() == 0 {
                    drop(pending);
                } else {
                    assert_reduced(&comm, round, &pending.wait().unwrap());
                }
            }
            comm.barrier().unwrap();
        },
    );
}

#[test]
fn calls_keep_their_order_behind_pending_ones() {
    let switch = TestSwitch::start();
    switch.run(
        2,
        |builder| builder.lanes(2),
        |mut comm| {
            let first = start(&mut comm, 0);
            let second = start(&mut comm, 1);
            comm.barrier().unwrap();
            assert!(first.is_finished() && second.is_finished());
            let third = start(&mut comm, 2);
            let mut weights = vec![comm.rank() as i32; 9];
            comm.broadcast(&mut weights, 1).unwrap();
            assert_eq!(weights, [1; 9]);
            for (round, pending) in [first, second, third].into_iter().enumerate() {
                assert_reduced(&comm, round, &pending.wait().unwrap());
            }
        },
    );
}

#[test]
fn leaving_finishes_what_is_pending() {
    let switch = TestSwitch::start();
    switch.run(
        2,
        |builder| builder,
        |mut comm| {
            let (rank, world_size) = (comm.rank(), comm.world_size());
            let pending: Vec<_> = (0..3).map(|round| start(&mut comm, round)).collect();
            if rank == 0 {
                comm.leave().unwrap()
            } else {
                drop(comm)
            }
            for (round, pending) in pending.into_iter().enumerate() {
                assert!(pending.is_finished());
                let ranks: Vec<_> = (0..world_size).map(|rank| input(rank, round)).collect();
                let bucket = Vec::from(pending.wait().unwrap());
                assert_eq!(bits(&bucket), bits(&f32::reduced(&ranks, CHUNK, How::SUM).0));
            }
        },
    );
}

#[test]
fn a_long_queue_of_short_ones_drains() {
    let switch = TestSwitch::start();
    for world_size in [1, 3] {
        switch.run(
            world_size,
            |builder| builder.lanes(2),
            |mut comm| {
                let start = |i: i32| comm.start_all_reduce(vec![i; 3], ReduceOp::Sum).unwrap();
                let pending: Vec<_> = (0..500).map(start).collect();
                for (i, pending) in pending.into_iter().enumerate() {
                    assert_eq!(*pending.wait().unwrap(), [(i * world_size) as i32; 3]);
                }
            },
        );
    }
}

#[test]
fn blocking_calls_and_pending_ones_take_turns_at_a_lane() {
    let switch = TestSwitch::start();
    for lanes in [1, 2] {
        switch.run(
            2,
            |builder| builder.lanes(lanes),
            |mut comm| {
                for round in 0..60_u16 {
                    // Short and long ones; the former are served by this thread, with what is pending before them.
                    let len = if round % 3 == 0 { 5000 } else { 40 };
                    let started = comm.start_all_reduce(vec![f32::from(round); len], ReduceOp::Sum).unwrap();
                    let mut tensor = vec![1.0_f32; 70];
                    comm.all_reduce(&mut tensor, ReduceOp::Sum).unwrap();
                    assert_eq!(tensor, [2.0; 70]);
                    if round % 8 == 0 {
                        // So long that the lane's own thread takes over.
                        thread::sleep(Duration::from_millis(12));
                    }
                    comm.barrier().unwrap();
                    assert_eq!(*started.wait().unwrap(), vec![2.0 * f32::from(round); len]);
                }
                comm.leave().unwrap();
            },
        );
    }
}

/// A waker that panics.
struct Panics;

impl Wake for Panics {
    fn wake(self: Arc<Self>) {
        panic!("on purpose");
    }
}

#[test]
fn i6_a_panic_while_a_caller_serves_the_lane_fails_the_session() {
    let switch = TestSwitch::start();
    switch.run(
        2,
        |builder| builder,
        |mut comm| {
            let mut pending = comm.start_all_reduce(vec![1.0_f32; 40], ReduceOp::Sum).unwrap();
            if comm.rank() == 0 {
                // It is woken by whichever thread serves the lane when the results come.
                let waker = Waker::from(Arc::new(Panics));
                if Pin::new(&mut pending).poll(&mut Context::from_waker(&waker)).is_ready() {
                    // Too late to see anything.
                    comm.leave().unwrap();
                    return;
                }
                let mut tensor = [1.0_f32; 40];
                let _ =
                    catch_unwind(AssertUnwindSafe(|| comm.all_reduce(&mut tensor, ReduceOp::Sum).unwrap()));
                let error = comm.barrier().unwrap_err();
                let failure = error.session_failure();
                assert!(matches!(failure, Some(SessionFailure::LanePanicked { .. })), "{error}");
            } else {
                // Whether it ends before the other rank has failed is chance.
                let _ = comm.all_reduce(&mut [1.0_f32; 40], ReduceOp::Sum);
                let _ = comm.barrier();
                let _ = comm.leave();
            }
        },
    );
}
