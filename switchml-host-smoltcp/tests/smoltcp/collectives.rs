//! What is reduced, over a net that loses, doubles, alters and reorders.

use half::{bf16, f16};
use switchml_host_smoltcp::{Reduced, Reducible, WorkerError};
use switchml_proto::Rank;
use switchml_proto::numeric::{Reduction, ScalingFactor};

use crate::net::Faults;
#[cfg(feature = "ipv6")]
use crate::world::AMPLE;
use crate::world::{Room, World};

const FAULTS: Faults = Faults { drop: 20, duplicate: 10, corrupt: 10, reorder: 50, occupies: 5 };

/// Rank `rank`'s element `i`: small multiples of 1/4, whose sums no conversion rounds.
fn quarter(rank: usize, i: usize) -> f32 {
    (1 + rank) as f32 * ((i % 61) as f32 - 30.0) / 4.0
}

fn sum_of_quarters(ranks: usize, i: usize) -> f32 {
    (0..ranks).map(|rank| quarter(rank, i)).sum()
}

fn tensors<T>(ranks: usize, len: usize, element: impl Fn(usize, usize) -> T) -> Vec<Vec<T>> {
    (0..ranks).map(|rank| (0..len).map(|i| element(rank, i)).collect()).collect()
}

fn assert_all<T: PartialEq + core::fmt::Debug>(tensors: &[Vec<T>], element: impl Fn(usize) -> T) {
    for (rank, tensor) in tensors.iter().enumerate() {
        for (i, value) in tensor.iter().enumerate() {
            assert_eq!(*value, element(i), "rank {rank}, element {i}");
        }
    }
}

fn reduce_exactly<T: Reducible>(ranks: usize, seed: u64, of: impl Fn(f32) -> T) {
    let mut world = World::<1>::joined(ranks, seed);
    world.net.set_faults(FAULTS);
    // Also a tensor that is shorter than a chunk, and one without elements.
    for len in [1000, 7, 0, 3 * 32] {
        let mut tensors = tensors(ranks, len, |rank, i| of(quarter(rank, i)));
        let outcomes = world.all_reduce(&mut tensors, Reduction::Sum);
        assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
        assert_all(&tensors, |i| of(sum_of_quarters(ranks, i)));
    }
    let resent: u64 = world.workers.iter().map(|worker| worker.counters().resent).sum();
    assert!(resent > 0, "the faults have cost something");
}

#[test]
fn sums_of_f32_are_exact_over_a_faulty_net() {
    for (seed, ranks) in [(1, 2), (2, 3), (3, 4)] {
        reduce_exactly(ranks, seed, |value| value);
    }
}

#[test]
fn sums_of_f16_are_exact_over_a_faulty_net() {
    reduce_exactly(3, 4, f16::from_f32);
}

#[test]
fn sums_of_bf16_are_exact_over_a_faulty_net() {
    reduce_exactly(2, 5, bf16::from_f32);
}

#[test]
fn sums_of_i32_wrap_over_a_faulty_net() {
    let mut world = World::<1>::joined(4, 6);
    world.net.set_faults(FAULTS);
    let element = |rank: usize, i: usize| i32::MAX / 2 - 1000 * rank as i32 + i as i32;
    let mut tensors = tensors(4, 1000, element);
    let outcomes = world.all_reduce(&mut tensors, Reduction::Sum);
    assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
    assert_all(&tensors, |i| (0..4).fold(0i32, |sum, rank| sum.wrapping_add(element(rank, i))));
}

#[test]
fn bits_are_equal_on_all_ranks_and_within_the_bound_where_rounding_happens() {
    let mut world = World::<1>::joined(3, 7);
    world.net.set_faults(FAULTS);
    let element = |rank: usize, i: usize| ((rank * 7919 + i * 104_729) as f32).sin() * 1e3;
    let mut tensors = tensors(3, 900, element);
    let outcomes = world.all_reduce(&mut tensors, Reduction::Mean);
    assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
    let bits = |tensor: &[f32]| tensor.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
    assert!(tensors.iter().all(|tensor| bits(tensor) == bits(&tensors[0])));
    for (i, value) in tensors[0].iter().enumerate() {
        let exact: f64 = (0..3).map(|rank| f64::from(element(rank, i))).sum::<f64>() / 3.0;
        // N-4 with h = 2, E <= 10, hence s >= 19; one rounding to binary32 beside it.
        let bound = 0.5f64.powi(20) + 0.5f64.powi(24) * exact.abs() * 2.0;
        assert!((f64::from(*value) - exact).abs() <= bound, "element {i}: {value} for {exact}");
    }
}

#[cfg(feature = "ipv6")]
#[test]
fn w12_ipv6_does_the_same() {
    let aggregator = (crate::world::ipv6(0), switchml_proto::wire::DEFAULT_PORT_BASE).into();
    let mut world = World::<1>::configured(3, 15, AMPLE, |config| config.aggregator = aggregator, |_| ());
    world.join();
    world.net.set_faults(FAULTS);
    let mut tensors = tensors(3, 1000, quarter);
    let outcomes = world.all_reduce(&mut tensors, Reduction::Sum);
    assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
    assert_all(&tensors, |i| sum_of_quarters(3, i));
}

#[test]
fn two_lanes_share_a_tensor() {
    let mut world = World::<2>::joined(3, 8);
    world.net.set_faults(FAULTS);
    for len in [1000, 20] {
        let mut tensors = tensors(3, len, quarter);
        let outcomes = world.all_reduce(&mut tensors, Reduction::Sum);
        assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
        assert_all(&tensors, |i| sum_of_quarters(3, i));
    }
}

#[test]
fn a_transmit_buffer_smaller_than_one_result_for_each_rank_loses_nothing() {
    let mut world = World::<1>::new(4, 9, Room { transmit: 3, receive: 128 });
    world.join();
    let given_up = |world: &World| world.core.as_ref().map(|core| core.aggregator.counters().given_up);
    let before = given_up(&world);
    let mut tensors = tensors(4, 4000, quarter);
    let outcomes = world.all_reduce(&mut tensors, Reduction::Sum);
    assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
    assert_all(&tensors, |i| sum_of_quarters(4, i));
    let counters = *world.core.as_ref().expect("it is on").aggregator.counters();
    assert!(counters.full > 0, "{counters:?}");
    assert_eq!(given_up(&world), before);
    let resent: u64 = world.workers.iter().map(|worker| worker.counters().resent).sum();
    assert_eq!(resent, 0, "a full buffer makes results wait, and loses none");
}

#[test]
fn a_slow_cable_fills_the_transmit_buffers_and_all_goes_on() {
    let mut world = World::<1>::joined(2, 10);
    // Each frame takes as long as fifty hops; the device takes eight.
    world.net.set_faults(Faults { occupies: 1000, ..Faults::default() });
    let mut tensors = tensors(2, 2000, quarter);
    let outcomes = world.all_reduce(&mut tensors, Reduction::Sum);
    assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
    assert_all(&tensors, |i| sum_of_quarters(2, i));
}

#[test]
fn with_a_fixed_factor_clamped_chunks_are_counted_on_every_rank() {
    let mut world = World::<1>::joined(2, 11);
    let factor = ScalingFactor::new(1024.0).expect("a factor");
    let mut tensors = tensors(2, 100, quarter);
    tensors[1][40] = 1e9;
    let outcomes = world.collective(&mut tensors, |_, worker, tensor, now| {
        worker.all_reduce_fixed(tensor, Reduction::Sum, factor, now)
    });
    for outcome in outcomes {
        let Ok(Reduced { clamped_chunks, .. }) = outcome else { panic!("{outcome:?}") };
        assert_eq!(clamped_chunks, 1);
    }
    assert_eq!(tensors[0], tensors[1]);
    assert_eq!(tensors[0][41], sum_of_quarters(2, 41));
    assert_eq!(tensors[0][99], sum_of_quarters(2, 99));
}

#[test]
fn a_broadcast_is_the_roots_tensor_on_every_rank() {
    let mut world = World::<2>::joined(3, 12);
    world.net.set_faults(FAULTS);
    let element = |rank: usize, i: usize| f16::from_bits((rank * 1000 + i * 37) as u16);
    let mut tensors = tensors(3, 333, element);
    let root = Rank::new(1).expect("a rank");
    let outcomes =
        world.collective(&mut tensors, |_, worker, tensor, now| worker.broadcast(tensor, root, now));
    assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
    for tensor in &tensors {
        let bits = tensor.iter().map(|value| value.to_bits());
        assert!(bits.eq((0..333).map(|i| element(1, i).to_bits())));
    }
}

#[test]
fn a_barrier_ends_on_all_ranks() {
    let mut world = World::<1>::joined(3, 13);
    let mut none: Vec<Vec<i32>> = vec![Vec::new(); 3];
    let outcomes = world.collective(&mut none, |_, worker, _, now| worker.barrier(now));
    assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
}

#[test]
fn different_collectives_are_found_out_on_every_rank() {
    let mut world = World::<1>::joined(2, 14);
    let mut tensors = vec![vec![1.0f32; 400], vec![1.0f32; 401]];
    let outcomes = world.all_reduce(&mut tensors, Reduction::Sum);
    assert_eq!(outcomes, [Err(WorkerError::CollectivesDiffer); 2]);
    // Later calls say why.
    let outcomes = world.all_reduce(&mut tensors, Reduction::Sum);
    assert_eq!(outcomes, [Err(WorkerError::CollectivesDiffer); 2]);
}
