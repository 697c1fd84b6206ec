//! Rounding to integers, in a form that becomes vector code.

use super::element::Float;

/// Whether the products of a chunk stayed in the range that rounding is for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Range {
    /// All of them did.
    Kept,
    /// Some were too large, or NaN.
    Left,
}

/// Rounds the products of a chunk half to even, as long as all are less than a bound in magnitude.
///
/// In a chunk as it should be, all are. To find out costs less than to limit each.
pub(super) struct Rounding {
    scale: f32,
    /// As a pattern, as is the magnitude of the largest product so far. Patterns of magnitudes are ordered as the
    /// magnitudes are, NaN last.
    bound: i32,
    largest: i32,
}

impl Rounding {
    /// `bound` is positive, and 2^31 at most.
    #[inline(always)]
    pub(super) fn new(scale: f32, bound: f32) -> Self {
        Self { scale, bound: bound.to_bits() as i32, largest: 0 }
    }

    /// The element times the scale as a word, which has no meaning if the product is out of range.
    #[inline(always)]
    pub(super) fn word<T: Float>(&mut self, element: T) -> [u8; 4] {
        let product = element.widen() * self.scale;
        self.largest = self.largest.max(product.abs().to_bits() as i32);
        round_half_even(product).to_be_bytes()
    }

    /// Whether all products so far were in range.
    #[inline(always)]
    pub(super) fn range(&self) -> Range {
        if self.largest < self.bound { Range::Kept } else { Range::Left }
    }
}

/// 1.5 * 2^23. Added to a value of at most 2^22 in magnitude, it leaves no fraction bits: the hardware rounds half
/// to even, and the low bits of the pattern are the rounded value in two's complement.
const SHIFTER: f32 = 12_582_912.0;

/// Does the same for multiples of 2^16. It is less by the upper half of the other's pattern, so that a pattern made
/// with this one and shifted left by 16 bits, plus a pattern made with the other one, leaves nothing of either.
const HIGH_SHIFTER: f32 = (SHIFTER - (SHIFTER.to_bits() >> 16) as f32) * 65_536.0;

/// Rounds half to even. `x` is less than 2^31 in magnitude; beyond, and for a NaN, the result has no meaning.
///
/// A binary32 addition can round only what fits into 23 bits, so it is done twice: for the multiple of 2^16 that
/// is nearest to `x`, and for the rest. The rest is exact, since it is a multiple of the ulp of `x` and not larger
/// than `x`, hence the only rounding that counts is the second. The core language has no vector form of this:
/// `as i32` saturates, and `round_ties_even` needs a library.
#[inline(always)]
pub(super) fn round_half_even(x: f32) -> i32 {
    let high = x + HIGH_SHIFTER;
    let rest = x - (high - HIGH_SHIFTER);
    let low = rest + SHIFTER;
    (high.to_bits() << 16).wrapping_add(low.to_bits()) as i32
}
