//! Rounding to integers, in a form that becomes vector code.

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
