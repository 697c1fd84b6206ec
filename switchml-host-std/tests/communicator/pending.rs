//! Several collectives under way.

use switchml_host_std::{Communicator, Pending, ReduceOp};

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
