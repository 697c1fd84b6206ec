//! Fixed scaling factor (N-6).

use super::element::Float;
use super::round::{Range, Rounding, round_half_even};
use super::types::{Reduction, ScalingFactor};
use super::words;
use crate::ids::WorldSize;

/// Writes a chunk as integers: each element times the factor, rounded half to even (N-6).
///
/// A product is limited to the largest binary32 that is not above (2^31 - 1) / n in magnitude, so that the sum of
/// n such integers cannot overflow, and a NaN becomes 0. Returns whether that happened to any element: the chunk's
/// mark, which travels as exponent 1 and tells every rank.
///
/// `wire` is the element part of a datagram, `4 * k` octets. What the chunk does not fill is padded with zeros.
///
/// # Panics
///
/// If `wire` is shorter than `4 * chunk.len()` octets, or no multiple of 4 octets long.
#[inline(always)]
pub fn encode_fixed<T: Float>(
    chunk: &[T],
    factor: ScalingFactor,
    world_size: WorldSize,
    wire: &mut [u8],
) -> bool {
    let factor = factor.get();
    let limit = limit(world_size);
    let words = words::padded(wire, chunk.len());
    let mut rounding = Rounding::new(factor, limit.next_up());
    for (word, element) in words.iter_mut().zip(chunk) {
        *word = rounding.word(*element);
    }
    if rounding.range() == Range::Kept {
        return false;
    }
    for (word, element) in words.iter_mut().zip(chunk) {
        let product = element.widen() * factor;
        let number = if product.is_nan() { 0.0 } else { product };
        *word = round_half_even(number.clamp(-limit, limit)).to_be_bytes();
    }
    true
}

/// Reads a chunk of sums: each as binary32, divided by n for a mean, divided by the factor, and rounded to
/// float16 or bfloat16 if that is the element type (N-6). Octets beyond the chunk are padding, and are not read.
///
/// # Panics
///
/// If `wire` is shorter than `4 * chunk.len()` octets.
#[inline(always)]
pub fn decode_fixed<T: Float>(
    wire: &[u8],
    factor: ScalingFactor,
    world_size: WorldSize,
    reduction: Reduction,
    chunk: &mut [T],
) {
    let factor = factor.get();
    let workers = f32::from(world_size.get());
    match reduction {
        Reduction::Sum => words::convert(wire, chunk, |sum| T::narrow(sum / factor)),
        Reduction::Mean => words::convert(wire, chunk, |sum| T::narrow(sum / workers / factor)),
    }
}

/// The largest binary32 that is not above (2^31 - 1) / n (N-6).
#[inline]
const fn limit(world_size: WorldSize) -> f32 {
    let bound = i32::MAX / world_size.get() as i32;
    // Whole numbers of more than 24 bits are cut, not rounded. That is the largest one below also with the fraction
    // that the division dropped: the bound has at least 25 bits for up to 64 workers.
    let cut = u32::BITS - bound.leading_zeros() - f32::MANTISSA_DIGITS;
    (bound >> cut << cut) as f32
}
