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
fn a_set_lists_its_ranks() {
    extern crate std;
    use std::string::ToString;
    let rank = |r| Rank::new(r).unwrap();
    let set = WorkerSet::EMPTY.with(rank(63)).with(rank(0)).with(rank(3));
    assert_eq!(set.to_string(), "0, 3, 63");
    assert_eq!(set.len(), 3);
    assert_eq!(set.without(WorkerSet::EMPTY.with(rank(3))).to_string(), "0, 63");
    assert!(!set.contains(rank(1)));
}
