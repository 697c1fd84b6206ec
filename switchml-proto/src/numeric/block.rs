//! Block floating point (N-2 to N-5).
//!
//! The elements of a chunk share one exponent, on which the workers agree first: the maximum of theirs. Each element
//! then becomes an integer with as many bits as fit n times into 31.

use super::element::Float;
use super::round::{Range, Rounding, round_half_even};
use super::types::Reduction;
use super::words;
use crate::ids::WorldSize;

/// The exponent where there is none to tell (W-6). It is also that of an empty block, and of one that holds only zeros
/// and subnormals: the smallest, so that the maximum is the other's.
pub const NO_EXPONENT: i8 = -128;

/// The exponent of a block with an Inf or a NaN (N-3).
pub const NOT_FINITE: i8 = 127;

/// The exponent field's position in a binary32.
const EXPONENT_SHIFT: u32 = 23;
/// What is taken from a biased exponent, 0..=255, so that it fits into a signed octet (N-2).
const EXPONENT_OFFSET: i32 = 128;

/// The exponent of a block: the largest biased exponent of its elements as binary32, less 128 (N-2).
#[inline(always)]
pub fn block_exponent<T: Float>(chunk: &[T]) -> i8 {
    let mut largest = T::Magnitude::default();
    for element in chunk {
        largest = largest.max(element.magnitude());
    }
    exponent_of::<T>(largest)
}

/// Writes a chunk as integers: each element times 2^s, rounded half to even, where s follows from the exponent on
/// which the workers agreed, and from their number (N-4). With [`NOT_FINITE`] all integers are 0 (N-3).
///
/// `wire` is the element part of a datagram, `4 * k` octets. What the chunk does not fill is padded with zeros.
///
/// The agreed exponent is at least the chunk's own, unless the aggregator is at fault. Such a wrong exponent
/// does no harm: integers are limited to +-(2^(31-h) - 1), and a NaN, which only then can be met here, becomes 0.
///
/// # Panics
///
/// If `wire` is shorter than `4 * chunk.len()` octets, or no multiple of 4 octets long.
#[inline(always)]
pub fn encode_block<T: Float>(chunk: &[T], exponent: i8, world_size: WorldSize, wire: &mut [u8]) {
    let words = words::padded(wire, chunk.len());
    if exponent == NOT_FINITE {
        words.fill([0; 4]);
        return;
    }
    let mut rounding = rounding(exponent, world_size);
    for (word, element) in words.iter_mut().zip(chunk) {
        *word = rounding.word(*element);
    }
    if rounding.range() == Range::Left {
        encode_limited(chunk, exponent, world_size, words);
    }
}

/// [`encode_block`] and [`block_exponent`] at once: writes one chunk, and returns the exponent of another one of the
/// same tensor, `ahead`, whose exponent travels in the same packet (T-3).
///
/// One pass over both is faster where the tensor does not fit into the cache: the processor waits for `ahead`
/// to come from memory while it converts `chunk`.
///
/// # Panics
///
/// As [`encode_block`].
#[inline(always)]
pub fn encode_block_and_scan<T: Float>(
    chunk: &[T],
    exponent: i8,
    world_size: WorldSize,
    wire: &mut [u8],
    ahead: &[T],
) -> i8 {
    if exponent == NOT_FINITE || chunk.len() != ahead.len() {
        encode_block(chunk, exponent, world_size, wire);
        return block_exponent(ahead);
    }
    let words = words::padded(wire, chunk.len());
    let mut rounding = rounding(exponent, world_size);
    let mut largest = T::Magnitude::default();
    for ((word, element), ahead) in words.iter_mut().zip(chunk).zip(ahead) {
        *word = rounding.word(*element);
        largest = largest.max(ahead.magnitude());
    }
    if rounding.range() == Range::Left {
        encode_limited(chunk, exponent, world_size, words);
    }
    exponent_of::<T>(largest)
}

/// Reads a chunk of sums: each as binary32, divided by n for a mean, times 2^-s, and rounded to float16 or bfloat16
/// if that is the element type (N-5). With [`NOT_FINITE`] every element becomes the quiet NaN (N-3). Octets beyond the
/// chunk are padding, and are not read.
///
/// `exponent` is the one that [`encode_block`] was given at every rank.
///
/// # Panics
///
/// If `wire` is shorter than `4 * chunk.len()` octets.
#[inline(always)]
pub fn decode_block<T: Float>(
    wire: &[u8],
    exponent: i8,
    world_size: WorldSize,
    reduction: Reduction,
    chunk: &mut [T],
) {
    if exponent == NOT_FINITE {
        chunk.fill(T::QUIET_NAN);
        return;
    }
    let scale = power_of_two(-scale_exponent(exponent, world_size));
    let workers = f32::from(world_size.get());
    match reduction {
        Reduction::Sum => words::convert(wire, chunk, |sum| T::narrow(sum * scale)),
        // A division by a power of two is exact, and so is the quotient of two of them: one multiplication rounds once,
        // as the two operations do.
        Reduction::Mean if world_size.get().is_power_of_two() => {
            words::convert(wire, chunk, |sum| T::narrow(sum * (scale / workers)));
        }
        Reduction::Mean => words::convert(wire, chunk, |sum| T::narrow(sum / workers * scale)),
    }
}

/// 2^s of N-4, with which [`encode_block`] multiplies the elements before it rounds them; `exponent` is not
/// [`NOT_FINITE`], for which there is none. For hosts that have kernels of their own (N-7).
#[inline]
pub fn block_scale(exponent: i8, world_size: WorldSize) -> f32 {
    power_of_two(scale_exponent(exponent, world_size))
}

/// 2^(31-h), one more than the largest integer of N-4. No binary32 lies between the two. For hosts that have kernels of
/// their own: products less than that in magnitude are rounded, and nothing is to be limited.
#[inline]
pub fn block_bound(world_size: WorldSize) -> f32 {
    power_of_two(31 - world_size.headroom() as i32)
}

/// N-2 for the largest magnitude of a block.
#[inline(always)]
fn exponent_of<T: Float>(largest: T::Magnitude) -> i8 {
    let bits = T::from_magnitude(largest).widen().to_bits();
    // The sign is 0, so that this is 0..=255, less 128.
    ((bits >> EXPONENT_SHIFT) as i32 - EXPONENT_OFFSET) as i8
}

/// N-4 for a block that the exponent covers: every element is less than 2^E in magnitude, hence every product less
/// than 2^(31-h), and nothing is to be limited.
#[inline(always)]
fn rounding(exponent: i8, world_size: WorldSize) -> Rounding {
    Rounding::new(block_scale(exponent, world_size), block_bound(world_size))
}

/// N-4 for a block that the exponent does not cover.
#[inline(always)]
fn encode_limited<T: Float>(chunk: &[T], exponent: i8, world_size: WorldSize, words: &mut [[u8; 4]]) {
    let scale = block_scale(exponent, world_size);
    for (word, element) in words.iter_mut().zip(chunk) {
        *word = limited(element.widen() * scale, world_size).to_be_bytes();
    }
}

/// s of N-4: -103..=125 for every exponent but [`NOT_FINITE`].
#[inline]
fn scale_exponent(exponent: i8, world_size: WorldSize) -> i32 {
    let biased = (i32::from(exponent) + EXPONENT_OFFSET).max(1); // subnormals have the exponent of 1
    let e = biased - 126; // every magnitude in the block is less than 2^e
    (31 - world_size.headroom() as i32 - e).min(125) // so that 2^s and 2^-s are normal
}

/// 2^exponent, for -126..=127.
#[inline]
fn power_of_two(exponent: i32) -> f32 {
    f32::from_bits(((exponent + 127) as u32) << EXPONENT_SHIFT)
}

/// The product rounded half to even, and limited to +-(2^(31-h) - 1) (N-4). A NaN becomes 0.
#[inline(always)]
fn limited(product: f32, world_size: WorldSize) -> i32 {
    let largest = i32::MAX >> world_size.headroom();
    let bound = block_bound(world_size);
    if product >= bound {
        largest
    } else if product <= -bound {
        -largest
    } else if product.is_nan() {
        0
    } else {
        round_half_even(product)
    }
}
