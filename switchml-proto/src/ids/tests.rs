extern crate std;

use std::string::ToString;

use super::*;

#[test]
fn headroom_is_ceil_log2_of_the_world_size() {
    for (workers, headroom) in [(1, 0), (2, 1), (3, 2), (4, 2), (5, 3), (8, 3), (9, 4), (33, 6), (64, 6)] {
        assert_eq!(WorldSize::new(workers).unwrap().headroom(), headroom, "{workers} workers");
    }
}

#[test]
fn a_world_has_1_to_64_workers() {
    assert_eq!(WorldSize::new(0), Err(InvalidId::WorldSize { workers: 0 }));
    assert_eq!(WorldSize::new(65), Err(InvalidId::WorldSize { workers: 65 }));
    assert_eq!(WorkerSet::all(WorldSize::new(64).unwrap()).bits(), u64::MAX);
    assert_eq!(WorkerSet::all(WorldSize::new(1).unwrap()).bits(), 1);
}

#[test]
fn w2_sizes_are_32_to_2048_elements() {
    for code in 0..=6 {
        let size = ChunkSize::from_code(code).unwrap();
        assert_eq!(ChunkSize::from_elements(size.elements()), Ok(size));
        assert_eq!(size.octets(), 128 << code);
    }
    assert_eq!(ChunkSize::from_code(7), None);
    for elements in [0, 16, 33, 4096] {
        assert_eq!(ChunkSize::from_elements(elements), Err(InvalidId::ChunkSize { elements }));
    }
}

#[test]
fn w5_slot_and_version_follow_from_seq_across_the_wrap() {
    let layout = LaneLayout::new(8, Window::new(4).unwrap(), ChunkSize::MIN).unwrap();
    let at = |seq| (layout.slot(Seq(seq)), layout.version(Seq(seq)));
    assert_eq!(at(0), (8, Version::Zero));
    assert_eq!(at(5), (9, Version::One));
    assert_eq!(at(u32::MAX), (11, Version::One));
    assert_eq!(at(u32::MAX.wrapping_add(1)), (8, Version::Zero));
}

#[test]
fn w5_slots_end_where_14_bits_end() {
    let window = Window::new(1 << 13).unwrap();
    assert!(LaneLayout::new(1 << 13, window, ChunkSize::MIN).is_ok());
    let base = (1 << 13) + 1;
    assert_eq!(LaneLayout::new(base, window, ChunkSize::MIN), Err(InvalidId::Base { base, window }));
    assert!(Window::new(3).is_err() && Window::new(0).is_err() && Window::new(1 << 15).is_err());
}

#[test]
fn w11_the_largest_chunk_within_a_path() {
    assert_eq!(ChunkSize::largest_within(1472), Some(ChunkSize::from_elements(256).unwrap()));
    assert_eq!(ChunkSize::largest_within(138), Some(ChunkSize::MIN));
    assert_eq!(ChunkSize::largest_within(137), None);
    assert_eq!(ChunkSize::largest_within(65507), Some(ChunkSize::MAX));
}

#[test]
fn w9_ranks_and_lanes_end_where_their_fields_end() {
    assert_eq!(Rank::new(63).map(Rank::get), Ok(63));
    assert_eq!(Rank::new(64), Err(InvalidId::Rank { rank: 64 }));
    assert_eq!(LaneId::new(15).map(LaneId::get), Ok(15));
    assert_eq!(LaneId::new(16), Err(InvalidId::Lane { lane: 16 }));
    assert_eq!(LaneCount::new(16).map(LaneCount::get), Ok(16));
    for lanes in [0, 17] {
        assert_eq!(LaneCount::new(lanes), Err(InvalidId::Lanes { lanes }));
    }
}

#[test]
fn what_is_refused_is_said_with_its_range() {
    let base = InvalidId::Base { base: 16_383, window: Window::new(2).unwrap() };
    for (error, text) in [
        (WorldSize::new(65).unwrap_err(), "world size 65 is not from 1 to 64"),
        (Rank::new(64).unwrap_err(), "rank 64 is not from 0 to 63"),
        (LaneId::new(16).unwrap_err(), "lane 16 is not from 0 to 15"),
        (LaneCount::new(0).unwrap_err(), "0 lanes are not from 1 to 16"),
        (
            ChunkSize::from_elements(100).unwrap_err(),
            "chunk size 100 is none of 32, 64, 128, 256, 512, 1024 and 2048 elements",
        ),
        (Window::new(100).unwrap_err(), "window 100 is not a power of two from 1 to 16384 slots"),
        (base, "slots 16383 to 16384 go beyond slot 16383"),
    ] {
        assert_eq!(error.to_string(), text);
    }
}

#[test]
fn a_set_lists_its_ranks() {
    let rank = |r| Rank::new(r).unwrap();
    let set = WorkerSet::EMPTY.with(rank(63)).with(rank(0)).with(rank(3));
    assert_eq!(set.to_string(), "0, 3, 63");
    assert_eq!(set.len(), 3);
    assert_eq!(set.without(WorkerSet::EMPTY.with(rank(3))).to_string(), "0, 63");
    assert!(!set.contains(rank(1)));
}
