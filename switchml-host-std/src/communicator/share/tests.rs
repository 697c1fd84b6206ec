use switchml_proto::numeric::ElementType;
use switchml_proto::worker::Conversion;

use super::*;

fn lanes(lanes: usize) -> LaneCount {
    LaneCount::new(lanes).unwrap()
}

#[test]
fn shares_follow_t_1() {
    let sum = Collective::all_reduce(1000, ElementType::Float32, Reduction::Sum, Conversion::Block).unwrap();
    // 32 chunks of 32, the last with 8 elements.
    assert_eq!(ends(&sum, 1000, ChunkSize::MIN, lanes(1)), [1000]);
    assert_eq!(ends(&sum, 1000, ChunkSize::MIN, lanes(3)), [10 * 32, 21 * 32, 1000]);
    assert_eq!(ends(&sum, 33, ChunkSize::MIN, lanes(4)), [0, 32, 32, 33]);
    assert_eq!(ends(&sum, 0, ChunkSize::MIN, lanes(2)), [0, 0]);
}

#[test]
fn a_chunk_of_a_broadcast_holds_twice_as_many_short_elements() {
    let halves = Collective::broadcast(130, ElementType::Float16, Rank::new(0).unwrap());
    // 65 words: 3 chunks of 64 elements each, the last with 2.
    assert_eq!(ends(&halves, 130, ChunkSize::MIN, lanes(3)), [64, 128, 130]);
}
