//! The tensors that are reduced: each rank's, and what their sum must be.

use core::ops::Range;

use switchml_proto::WorldSize;
use switchml_proto::numeric::{
    ElementType, Reduction, block_exponent, decode_block, decode_integer, encode_block, encode_integer,
};
use switchml_proto::worker::{
    Chunk, ChunkSource, Collective, CollectiveId, Conversion, Fidelity, InvalidCollective,
};

/// Elements of a tensor: ten chunks of 32, the last one not full.
const LEN: usize = 300;

/// A rank's tensor, which the results overwrite.
pub(crate) trait Tensor: ChunkSource {
    fn of_rank(rank: u8, world_size: WorldSize) -> Self;
    fn collective() -> Result<Collective, InvalidCollective>;
    fn write(&mut self, chunk: &Chunk<'_>);
    /// Whether it holds the sum of all ranks' tensors, which are two.
    fn is_sum(&self) -> bool;
}

pub(crate) struct Floats {
    elements: [f32; LEN],
    world_size: WorldSize,
}

impl Tensor for Floats {
    fn of_rank(rank: u8, world_size: WorldSize) -> Self {
        let share = 0.25 * f32::from(1 + rank); // 0.25 and 0.5
        Self { elements: core::array::from_fn(|i| share * (i as f32 - 150.0)), world_size }
    }

    fn collective() -> Result<Collective, InvalidCollective> {
        Collective::all_reduce(LEN as u64, ElementType::Float32, Reduction::Sum, Conversion::Block)
    }

    fn write(&mut self, chunk: &Chunk<'_>) {
        let elements = &mut self.elements[indices(&chunk.range)];
        decode_block(chunk.elements, chunk.exponent, self.world_size, Reduction::Sum, elements);
    }

    fn is_sum(&self) -> bool {
        // Quarters of small integers: with 31 bits for a sum, block floating point rounds nothing.
        (0..).zip(&self.elements).all(|(i, &sum)| sum == 0.75 * (i as f32 - 150.0))
    }
}

impl ChunkSource for Floats {
    fn exponent(&mut self, _: CollectiveId, range: Range<u64>) -> i8 {
        block_exponent(&self.elements[indices(&range)])
    }

    fn encode(&mut self, _: CollectiveId, range: Range<u64>, exponent: i8, wire: &mut [u8]) -> Fidelity {
        encode_block(&self.elements[indices(&range)], exponent, self.world_size, wire);
        Fidelity::Faithful
    }
}

pub(crate) struct Integers([i32; LEN]);

impl Tensor for Integers {
    fn of_rank(rank: u8, _: WorldSize) -> Self {
        Self(core::array::from_fn(|i| match rank {
            0 => i32::MAX - i as i32,
            _ => 3 * i as i32,
        }))
    }

    fn collective() -> Result<Collective, InvalidCollective> {
        Collective::all_reduce(LEN as u64, ElementType::Int32, Reduction::Sum, Conversion::Integer)
    }

    fn write(&mut self, chunk: &Chunk<'_>) {
        decode_integer(chunk.elements, &mut self.0[indices(&chunk.range)]);
    }

    fn is_sum(&self) -> bool {
        // All but the first are beyond the range, and wrap (N-1).
        (0..).zip(&self.0).all(|(i, &sum)| sum == i32::MAX.wrapping_add(2 * i))
    }
}

impl ChunkSource for Integers {
    fn exponent(&mut self, _: CollectiveId, _: Range<u64>) -> i8 {
        unreachable!("integers have none")
    }

    fn encode(&mut self, _: CollectiveId, range: Range<u64>, _: i8, wire: &mut [u8]) -> Fidelity {
        encode_integer(&self.0[indices(&range)], wire);
        Fidelity::Faithful
    }
}

/// A chunk's elements lie in the tensor: the worker was told its length.
fn indices(range: &Range<u64>) -> Range<usize> {
    range.start as usize..range.end as usize
}
