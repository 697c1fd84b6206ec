//! The element types, and the exact conversions between them and binary32.
//!
//! `half` would convert one element at a time. What stands here has no branches and no tables, so that loops over
//! it become vector code, and gives the same bits.

use core::fmt::Debug;

use half::{bf16, f16};

use super::types::ElementType;

/// A type that a tensor's elements may have: `f32`, `half::f16`, `half::bf16` or `i32`.
///
/// The half types are those of the crate `half`, because that is what the owner of a tensor holds. The trait is
/// sealed.
pub trait Element: sealed::Octets + Copy + Default + PartialEq + Debug + Send + Sync + 'static {
    /// The type's name on the wire.
    const TYPE: ElementType;
}

/// An element type that is reduced in floating point: `f32`, `half::f16` or `half::bf16`. The trait is sealed.
pub trait Float: Element + sealed::Binary32 {}

pub(super) mod sealed {
    /// The octets that stand for elements in a broadcast.
    pub trait Octets: Sized {
        /// Writes the little-endian images of the elements, one after the other. `octets` has room for exactly
        /// these.
        fn write(chunk: &[Self], octets: &mut [u8]);
        /// The inverse of `write`.
        fn read(octets: &[u8], chunk: &mut [Self]);
    }

    /// The way to binary32 and back.
    pub trait Binary32 {
        /// What every element of a block with an Inf or a NaN becomes (N-3).
        const QUIET_NAN: Self;
        /// A pattern without its sign.
        type Magnitude: Copy + Ord + Default;
        /// Ordered as the magnitudes are: any Inf is larger than any number, and any NaN larger than any Inf. The
        /// default is that of zero.
        fn magnitude(self) -> Self::Magnitude;
        /// The element with this magnitude and a positive sign.
        fn from_magnitude(magnitude: Self::Magnitude) -> Self;
        /// Exact. A NaN stays one, with whatever payload.
        fn widen(self) -> f32;
        /// Rounds half to even, and to an infinity beyond the range. `value` is no NaN: no result of N-5 and N-6
        /// is one.
        fn narrow(value: f32) -> Self;
    }
}

/// Magnitudes as integers of the element's own size, the narrower the faster; signed, because the smallest vector
/// instruction sets compare no others.
macro_rules! magnitude {
    ($unsigned:ty, $signed:ty) => {
        type Magnitude = $signed;

        #[inline(always)]
        fn magnitude(self) -> $signed {
            self.to_bits() as $signed & <$signed>::MAX
        }

        #[inline(always)]
        fn from_magnitude(magnitude: $signed) -> Self {
            Self::from_bits(magnitude as $unsigned)
        }
    };
}

macro_rules! element {
    ($type:ty, $name:ident) => {
        impl Element for $type {
            const TYPE: ElementType = ElementType::$name;
        }

        impl sealed::Octets for $type {
            #[inline(always)]
            fn write(chunk: &[Self], octets: &mut [u8]) {
                for (image, element) in octets.as_chunks_mut().0.iter_mut().zip(chunk) {
                    *image = element.to_le_bytes();
                }
            }

            #[inline(always)]
            fn read(octets: &[u8], chunk: &mut [Self]) {
                for (element, image) in chunk.iter_mut().zip(octets.as_chunks().0) {
                    *element = Self::from_le_bytes(*image);
                }
            }
        }
    };
}

element!(f32, Float32);
element!(f16, Float16);
element!(bf16, BFloat16);
element!(i32, Int32);

impl Float for f32 {}
impl Float for f16 {}
impl Float for bf16 {}

impl sealed::Binary32 for f32 {
    const QUIET_NAN: Self = Self::from_bits(0x7FC0_0000);

    magnitude!(u32, i32);

    #[inline(always)]
    fn widen(self) -> f32 {
        self
    }

    #[inline(always)]
    fn narrow(value: f32) -> Self {
        value
    }
}

impl sealed::Binary32 for bf16 {
    const QUIET_NAN: Self = Self::from_bits(0x7FC0);

    magnitude!(u16, i16);

    #[inline(always)]
    fn widen(self) -> f32 {
        f32::from_bits(u32::from(self.to_bits()) << 16)
    }

    #[inline(always)]
    fn narrow(value: f32) -> Self {
        let bits = value.to_bits();
        // Half an ulp less one, and one more if the last bit kept is odd: a tie goes to the even neighbour. A carry
        // into the exponent is right, also the one that makes an infinity. No NaN, so that the sum does not wrap.
        let rounded = bits + 0x7FFF + (bits >> 16 & 1);
        Self::from_bits((rounded >> 16) as u16)
    }
}

/// The fraction bits that binary32 has and binary16 has not.
const EXTRA_BITS: u32 = 23 - 10;
/// One in the exponent field of a binary32.
const EXPONENT_ONE: u32 = 1 << 23;
/// What the biased exponents of binary32 and binary16 differ by, in the exponent field.
const REBIAS: u32 = (127 - 15) * EXPONENT_ONE;
/// 2^-14, the smallest normal binary16.
const SMALLEST_NORMAL: u32 = REBIAS + EXPONENT_ONE;
/// The pattern of the infinity of binary16.
const INFINITY: u32 = 0x7C00;

impl sealed::Binary32 for f16 {
    const QUIET_NAN: Self = Self::from_bits(0x7E00);

    magnitude!(u16, i16);

    #[inline(always)]
    fn widen(self) -> f32 {
        let bits = u32::from(self.to_bits());
        let magnitude = (bits & 0x7FFF) << EXTRA_BITS;
        // A subnormal m * 2^-24 is 2^-14 + m * 2^-24, which needs no shift, less 2^-14.
        let subnormal = f32::from_bits(magnitude | SMALLEST_NORMAL) - f32::from_bits(SMALLEST_NORMAL);
        let widened = if magnitude < EXPONENT_ONE {
            subnormal.to_bits()
        } else if magnitude < INFINITY << EXTRA_BITS {
            magnitude + REBIAS
        } else {
            magnitude + 2 * REBIAS // Inf and NaN: exponent 31 becomes 255.
        };
        f32::from_bits(widened | (bits & 0x8000) << 16)
    }

    #[inline(always)]
    fn narrow(value: f32) -> Self {
        let bits = value.to_bits();
        let magnitude = bits & 0x7FFF_FFFF;
        // 0.5 has the ulp of the subnormals, 2^-24: the addition rounds to it.
        let subnormal = (f32::from_bits(magnitude) + 0.5).to_bits().wrapping_sub(0.5f32.to_bits());
        // As for bfloat16. Wraps below the normal range only, where the result is not used.
        let odd = magnitude >> EXTRA_BITS & 1;
        let normal = magnitude.wrapping_sub(REBIAS).wrapping_add(0xFFF + odd) >> EXTRA_BITS;
        let limited = if normal < INFINITY { normal } else { INFINITY };
        let narrowed = if magnitude < SMALLEST_NORMAL { subnormal } else { limited };
        Self::from_bits((narrowed | bits >> 16 & 0x8000) as u16)
    }
}
