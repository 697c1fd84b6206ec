//! Rounding to integers, in a form that becomes vector code.

use super::element::Float;

/// Whether the products of a chunk stayed in the range that rounding is for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Range {
    /// All of them did, and the words are right.
    Kept,
    /// Some were too large, or NaN: the words have no meaning yet.
    Left,
}

/// Writes each element times `scale`, rounded half to even, as long as all these products are less than `bound`
/// in magnitude, given as a binary32 pattern of at most 2^31.
///
/// In a chunk as it should be, all are. To find out costs less than to limit each.
#[inline(always)]
pub(super) fn encode<T: Float>(chunk: &[T], scale: f32, bound: u32, words: &mut [[u8; 4]]) -> Range {
    // Patterns of magnitudes are ordered as the magnitudes are, NaN last. Each difference is negative if its product
    // is in range, and so is the conjunction if all are.
    let mut differences = -1;
    for (word, element) in words.iter_mut().zip(chunk) {
        let product = element.widen() * scale;
        differences &= product.abs().to_bits().wrapping_sub(bound) as i32;
        *word = round_half_even(product).to_be_bytes();
    }
    if differences < 0 { Range::Kept } else { Range::Left }
}

/// 1.5 * 2^23. Added to a value of at most 2^22 in magnitude, it leaves no fraction bits: the hardware rounds half
/// to even, and the low bits of the pattern are the rounded value in two's complement.
const SHIFTER: f32 = 12_582_912.0;

/// As [`SHIFTER`], and less by the upper half of its pattern (0x4B40): a pattern made with this one and shifted left
/// by 16 bits, plus a pattern made with the other one, leaves nothing of either.
const HIGH_SHIFTER: f32 = SHIFTER - (SHIFTER.to_bits() >> 16) as f32;

/// 2^16.
const HIGH_UNIT: f32 = 65_536.0;

/// Rounds half to even. `x` is less than 2^31 in magnitude; beyond, and for a NaN, the result has no meaning.
///
/// A binary32 addition can round only what fits into 23 bits, so it is done twice: for the multiple of 2^16 that
/// is nearest to `x`, and for the rest. The rest is exact, since it is a multiple of the ulp of `x` and not larger,
/// hence the only rounding that counts is the second. The core language has no vector form of this: `as i32`
/// saturates, and `round_ties_even` needs a library.
#[inline(always)]
pub(super) fn round_half_even(x: f32) -> i32 {
    let high = x * (1.0 / HIGH_UNIT) + HIGH_SHIFTER;
    let rest = x - (high - HIGH_SHIFTER) * HIGH_UNIT;
    let low = rest + SHIFTER;
    (high.to_bits() << 16).wrapping_add(low.to_bits()) as i32
}
