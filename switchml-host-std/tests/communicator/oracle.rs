//! Tensors, and what their reduction is, computed with the core's arithmetic alone.

use half::{bf16, f16};
use switchml_host_std::{ReduceOp, ReduceOptions, Reducible, ScalingFactor};
use switchml_proto::WorldSize;
use switchml_proto::numeric::{self, Float};

/// How a test reduces.
#[derive(Clone, Copy, Debug)]
pub(crate) struct How {
    pub(crate) op: ReduceOp,
    pub(crate) factor: Option<ScalingFactor>,
}

impl How {
    pub(crate) const SUM: Self = Self { op: ReduceOp::Sum, factor: None };
    pub(crate) const MEAN: Self = Self { op: ReduceOp::Mean, factor: None };

    pub(crate) fn fixed(op: ReduceOp, factor: f32) -> Self {
        Self { op, factor: Some(ScalingFactor::new(factor).unwrap()) }
    }
}

impl From<How> for ReduceOptions {
    fn from(how: How) -> Self {
        let options = Self::from(how.op);
        how.factor.map_or(options, |factor| options.scaling_factor(factor))
    }
}

/// An element type that tests can make and compare.
pub(crate) trait Sample: Reducible {
    /// The nearest element, or for integers one with those bits.
    fn sample(value: f32) -> Self;
    /// The pattern: unlike values, these can be compared for NaNs and zeros too.
    fn bits(self) -> u32;
    /// What the elements of all ranks become, and in how many chunks some rank clamped.
    fn reduced(ranks: &[Vec<Self>], chunk: usize, how: How) -> (Vec<Self>, u64);
}

macro_rules! float {
    ($type:ty, $sample:expr) => {
        impl Sample for $type {
            fn sample(value: f32) -> Self {
                $sample(value)
            }

            fn bits(self) -> u32 {
                self.to_bits().into()
            }

            fn reduced(ranks: &[Vec<Self>], chunk: usize, how: How) -> (Vec<Self>, u64) {
                reduced_float(ranks, chunk, how)
            }
        }
    };
}

float!(f32, |value| value);
float!(f16, f16::from_f32);
float!(bf16, bf16::from_f32);

impl Sample for i32 {
    fn sample(value: f32) -> Self {
        value.to_bits() as Self
    }

    fn bits(self) -> u32 {
        self as u32
    }

    fn reduced(ranks: &[Vec<Self>], _: usize, _: How) -> (Vec<Self>, u64) {
        let sum = |i: usize| ranks.iter().fold(0_i32, |sum, rank| sum.wrapping_add(rank[i]));
        ((0..ranks[0].len()).map(sum).collect(), 0)
    }
}

fn reduced_float<T: Float>(ranks: &[Vec<T>], chunk: usize, how: How) -> (Vec<T>, u64) {
    let world_size = WorldSize::new(ranks.len()).unwrap();
    let mut reduced = vec![T::default(); ranks[0].len()];
    let mut clamped = 0;
    for (i, output) in reduced.chunks_mut(chunk).enumerate() {
        let place = i * chunk..i * chunk + output.len();
        let exponent = ranks.iter().map(|rank| numeric::block_exponent(&rank[place.clone()])).max().unwrap();
        let mut sums = vec![0_i32; chunk];
        let mut marked = false;
        for rank in ranks {
            let mut wire = vec![0; 4 * chunk];
            match how.factor {
                Some(factor) => {
                    marked |= numeric::encode_fixed(&rank[place.clone()], factor, world_size, &mut wire);
                }
                None => numeric::encode_block(&rank[place.clone()], exponent, world_size, &mut wire),
            }
            for (sum, word) in sums.iter_mut().zip(wire.as_chunks().0) {
                *sum = sum.wrapping_add(i32::from_be_bytes(*word));
            }
        }
        clamped += u64::from(marked);
        let wire: Vec<u8> = sums.iter().flat_map(|sum| sum.to_be_bytes()).collect();
        match how.factor {
            Some(factor) => numeric::decode_fixed(&wire, factor, world_size, how.op, output),
            None => numeric::decode_block(&wire, exponent, world_size, how.op, output),
        }
    }
    (reduced, clamped)
}

/// A tensor of mixed magnitudes and signs, other for each `seed`.
pub(crate) fn tensor<T: Sample>(seed: usize, len: usize) -> Vec<T> {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64.wrapping_mul(seed as u64 + 1);
    let mut draw = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let mut value = || {
        let magnitude = f32::from_bits((100 + (draw() % 32) as u32) << 23 | (draw() as u32 & 0x007F_FFFF));
        match draw() % 8 {
            0 => 0.0,
            1..=3 => -magnitude,
            _ => magnitude,
        }
    };
    (0..len).map(|_| T::sample(value())).collect()
}

/// The patterns of a tensor.
pub(crate) fn bits<T: Sample>(tensor: &[T]) -> Vec<u32> {
    tensor.iter().map(|element| element.bits()).collect()
}
