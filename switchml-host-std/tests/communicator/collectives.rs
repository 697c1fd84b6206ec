//! Results: every type, operation, length, world and lane count gives the oracle's bits on every rank.

use core::net::{IpAddr, Ipv6Addr};
use std::net::UdpSocket;

use half::{bf16, f16};
use switchml_host_std::{Communicator, Faults, ReduceOp, SocketCalls};

use crate::oracle::{How, Sample, bits, tensor};
use crate::world::{CHUNK, TestSwitch, WINDOW};

/// None, one, and around one chunk; several windows in each of two lanes, and a last chunk that is not full.
const LENGTHS: [usize; 6] = [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 5 * WINDOW * CHUNK + 7];

/// Reduces the tensors of all ranks, whose seeds follow from `seed`, and compares with the oracle.
fn check<T: Sample>(comm: &mut Communicator, seed: usize, len: usize, how: How) {
    let ranks: Vec<Vec<T>> = (0..comm.world_size()).map(|rank| tensor(64 * seed + rank, len)).collect();
    let (expected, clamped) = T::reduced(&ranks, CHUNK, how);
    let mut tensor = ranks[comm.rank()].clone();
    let reduced = comm.all_reduce(&mut tensor, how).unwrap();
    assert_eq!(bits(&tensor), bits(&expected), "{:?}, {len} elements, {how:?}", T::TYPE);
    assert_eq!(reduced.clamped_chunks, clamped);
}

fn check_float<T: Sample>(comm: &mut Communicator, seed: usize, len: usize) {
    for (i, op) in [ReduceOp::Sum, ReduceOp::Mean].into_iter().enumerate() {
        check::<T>(comm, seed + 2 * i, len, How { op, factor: None });
        check::<T>(comm, seed + 2 * i + 1, len, How::fixed(op, 1e6));
    }
}

/// All types and operations.
fn check_all(comm: &mut Communicator) {
    for (i, len) in LENGTHS.into_iter().enumerate() {
        check_float::<f32>(comm, 16 * i, len);
        check_float::<f16>(comm, 16 * i + 4, len);
        check_float::<bf16>(comm, 16 * i + 8, len);
        check::<i32>(comm, 16 * i + 12, len, How::SUM);
    }
}

fn check_worlds(lanes: usize) {
    let switch = TestSwitch::start();
    for world_size in [1, 2, 3, 8] {
        switch.run(world_size, |builder| builder.lanes(lanes), |mut comm| check_all(&mut comm));
    }
}

#[test]
fn all_ranks_get_the_oracles_bits_with_one_lane() {
    check_worlds(1);
}

#[test]
fn all_ranks_get_the_oracles_bits_with_two_lanes() {
    check_worlds(2);
}

/// Also between a switch and ranks that differ in it.
#[test]
fn socket_calls_change_no_bit() {
    let kinds = [SocketCalls::Segmented, SocketCalls::Batched, SocketCalls::Single];
    for (i, calls) in kinds.into_iter().enumerate() {
        let switch = TestSwitch::with(|config| config.calls = calls);
        for ranks in [calls, kinds[(i + 1) % 3]] {
            switch.run(
                3,
                |builder| builder.lanes(2).window(128).socket_calls(ranks),
                |mut comm| {
                    check::<f32>(&mut comm, 1, 40_000, How::MEAN);
                    check::<i32>(&mut comm, 2, 40_000, How::SUM);
                    assert!(comm.socket_calls() == ranks || !cfg!(target_os = "linux"));
                },
            );
        }
    }
}

#[test]
fn looking_on_before_sleeping_changes_no_bit() {
    let spin = core::time::Duration::from_micros(50);
    let switch = TestSwitch::with(|config| config.spin = spin);
    switch.run(2, |builder| builder.spin(spin), |mut comm| check_all(&mut comm));
}

#[test]
fn i1_t7_loss_duplication_and_reordering_change_no_bit_of_a_tensor_in_place() {
    let switch = TestSwitch::with(|config| config.faults = Some(Faults::new(0.02, 0.02, 0.05, 7).unwrap()));
    switch.run(
        3,
        |builder| builder.lanes(2),
        |mut comm| {
            for seed in 0..4 {
                check::<f32>(&mut comm, seed, 3000, How::MEAN);
                check::<i32>(&mut comm, seed, 3000, How::SUM);
            }
        },
    );
}

#[test]
fn window_and_lanes_change_no_bit() {
    let switch = TestSwitch::with(|config| config.lanes = switchml_proto::LaneCount::new(3).unwrap());
    for (window, lanes) in [(1, 1), (1, 3), (2, 2), (128, 1), (128, 3)] {
        switch.run(
            2,
            |builder| builder.window(window).lanes(lanes),
            |mut comm| {
                check::<f32>(&mut comm, 1, 1999, How::SUM);
                check::<f16>(&mut comm, 2, 1999, How::MEAN);
            },
        );
    }
}

#[test]
fn large_chunks_work_on_loopback() {
    let switch = TestSwitch::with(|config| config.largest_chunk = switchml_proto::ChunkSize::MAX);
    switch.run(
        2,
        |builder| builder.chunk(2048),
        |mut comm| {
            let ranks: Vec<Vec<f32>> = (0..2).map(|rank| tensor(rank, 100_000)).collect();
            let mut tensor = ranks[comm.rank()].clone();
            comm.all_reduce(&mut tensor, How::SUM).unwrap();
            assert_eq!(bits(&tensor), bits(&f32::reduced(&ranks, 2048, How::SUM).0));
        },
    );
}

#[test]
fn sixty_four_ranks_reduce_together() {
    let switch = TestSwitch::start();
    switch.run(64, |builder| builder, |mut comm| check::<f32>(&mut comm, 0, 1000, How::MEAN));
}

#[test]
fn w12_ipv6_works_too() {
    if UdpSocket::bind((Ipv6Addr::LOCALHOST, 0)).is_err() {
        return; // This machine has none.
    }
    let switch = TestSwitch::with(|config| config.listen = IpAddr::V6(Ipv6Addr::LOCALHOST));
    switch.run(
        2,
        |builder| builder.lanes(2),
        |mut comm| {
            check::<f32>(&mut comm, 0, 1000, How::SUM);
            check::<i32>(&mut comm, 1, 1000, How::SUM);
        },
    );
}

#[test]
fn nan_and_inf_show_in_their_block_on_every_rank() {
    let switch = TestSwitch::start();
    switch.run(
        2,
        |builder| builder,
        |mut comm| {
            let mut tensor = vec![1.0_f32; 5 * CHUNK];
            match comm.rank() {
                0 => tensor[CHUNK + 3] = f32::NAN,
                _ => tensor[3 * CHUNK + 1] = f32::NEG_INFINITY,
            }
            comm.all_reduce(&mut tensor, ReduceOp::Sum).unwrap();
            for (i, chunk) in tensor.chunks(CHUNK).enumerate() {
                // N-3: the quiet NaN, in all of the block.
                let expected = if i % 2 == 1 { 0x7FC0_0000 } else { 2.0_f32.to_bits() };
                assert!(chunk.iter().all(|element| element.to_bits() == expected), "chunk {i}: {chunk:?}");
            }
        },
    );
}

#[test]
fn the_smallest_and_the_largest_numbers_follow_n_4() {
    let switch = TestSwitch::start();
    switch.run(
        3,
        |builder| builder,
        |mut comm| {
            let extremes = [3.4e38_f32, -3.4e38, f32::MIN_POSITIVE, 1e-45, -1e-40, 0.0, -0.0];
            let rank = |rank: usize| -> Vec<f32> {
                let chunk =
                    |extreme: f32| (0..CHUNK).map(move |i| if i == rank { extreme } else { extreme / 3.0 });
                extremes.into_iter().flat_map(chunk).collect()
            };
            let ranks: Vec<_> = (0..3).map(rank).collect();
            for how in [How::SUM, How::MEAN] {
                let mut tensor = ranks[comm.rank()].clone();
                comm.all_reduce(&mut tensor, how).unwrap();
                assert_eq!(bits(&tensor), bits(&f32::reduced(&ranks, CHUNK, how).0));
            }
        },
    );
}

#[test]
fn clamped_chunks_are_told_to_every_rank() {
    let switch = TestSwitch::start();
    switch.run(
        3,
        |builder| builder.lanes(2),
        |mut comm| {
            let mut tensor = vec![1.0_f32; 6 * CHUNK];
            // Two ranks clamp in one chunk, and one has a NaN in another, of the other lane.
            match comm.rank() {
                0 => tensor[2] = 1e30,
                1 => (tensor[5], tensor[4 * CHUNK]) = (-1e30, f32::NAN),
                _ => {}
            }
            let how = How::fixed(ReduceOp::Sum, 1e3);
            assert_eq!(comm.all_reduce(&mut tensor, how).unwrap().clamped_chunks, 2);
            assert_eq!(comm.all_reduce(&mut [1.0_f32; 40], how).unwrap().clamped_chunks, 0);
        },
    );
}

#[test]
fn all_reduce_into_keeps_its_source() {
    let switch = TestSwitch::start();
    switch.run(
        2,
        |builder| builder.lanes(2),
        |mut comm| {
            let ranks: Vec<Vec<bf16>> = (0..2).map(|rank| tensor(rank, 777)).collect();
            let source = ranks[comm.rank()].clone();
            let mut destination = vec![bf16::ONE; 777];
            comm.all_reduce_into(&source, &mut destination, ReduceOp::Sum).unwrap();
            assert_eq!(bits(&source), bits(&ranks[comm.rank()]));
            assert_eq!(bits(&destination), bits(&bf16::reduced(&ranks, CHUNK, How::SUM).0));
        },
    );
}

#[test]
fn a_broadcast_brings_the_roots_bits() {
    fn check<T: Sample>(comm: &mut Communicator, len: usize, root: usize) {
        let patterns: [u32; 4] = [0x7F80_0001, 0xFFFF_FFFF, 0x8000_0000, 0x0000_0001]; // NaNs, -0, a subnormal
        let mut roots: Vec<T> = tensor(root, len);
        for (element, pattern) in roots.iter_mut().zip(patterns) {
            *element = T::sample(f32::from_bits(pattern));
        }
        let mut tensor = if comm.rank() == root { roots.clone() } else { tensor(9, len) };
        comm.broadcast(&mut tensor, root).unwrap();
        assert_eq!(bits(&tensor), bits(&roots), "{:?}, {len} elements", T::TYPE);
    }

    let switch = TestSwitch::start();
    for lanes in [1, 2] {
        switch.run(
            3,
            |builder| builder.lanes(lanes),
            |mut comm| {
                for len in [0, 1, 2, 3, 31, 63, 64, 65, 1001] {
                    for root in 0..3 {
                        check::<f32>(&mut comm, len, root);
                        check::<f16>(&mut comm, len, root);
                        check::<bf16>(&mut comm, len, root);
                        check::<i32>(&mut comm, len, root);
                    }
                }
            },
        );
    }
}

#[test]
fn a_barrier_holds_all_until_the_last_has_come() {
    use core::sync::atomic::{AtomicUsize, Ordering};
    let arrived = AtomicUsize::new(0);
    let switch = TestSwitch::start();
    switch.run(
        4,
        |builder| builder,
        |mut comm| {
            for round in 1..=3 {
                std::thread::sleep(core::time::Duration::from_millis(5 * comm.rank() as u64));
                arrived.fetch_add(1, Ordering::SeqCst);
                comm.barrier().unwrap();
                assert!(arrived.load(Ordering::SeqCst) >= 4 * round);
                comm.barrier().unwrap();
            }
        },
    );
}

#[test]
fn lane_stats_count_what_was_sent() {
    let switch = TestSwitch::start();
    switch.run(
        2,
        |builder| builder.lanes(2),
        |mut comm| {
            comm.all_reduce(&mut [0_i32; 4 * CHUNK], ReduceOp::Sum).unwrap();
            let stats: Vec<_> = comm.lane_stats().collect();
            assert_eq!(
                stats.iter().map(|lane| (lane.sent, lane.accepted)).collect::<Vec<_>>(),
                [(2, 2), (2, 2)]
            );
        },
    );
}
