//! Encoding float32 with the rounding instruction of x86_64.
//!
//! `cvtps2dq` rounds half to even and converts at once, where the core needs five operations: its language has none
//! that becomes this instruction. Of products in range it makes the same bits (N-4). A block in which one is out of
//! range, or a NaN, is left to the core.

use core::any::TypeId;
use core::arch::x86_64::{__m128i, _mm_cvtsi128_si32, _mm_max_epi32, _mm_srli_si128};
use core::slice;
use std::is_x86_feature_detected;

use switchml_proto::WorldSize;
use switchml_proto::numeric::{self, Float, NOT_FINITE};

/// A set of instructions that there is a kernel for, and that this processor has.
#[derive(Clone, Copy, Debug)]
pub(super) struct InstructionSet(Known);

#[derive(Clone, Copy, Debug)]
enum Known {
    Avx512,
    Avx2,
}

/// Whether a kernel is to scan another chunk for its exponent while it encodes one.
pub(super) const ONLY_ENCODE: bool = false;
pub(super) const AND_SCAN: bool = true;

impl InstructionSet {
    /// The best that this processor has for chunks of so many elements. Cheap after the first call.
    #[inline]
    pub(super) fn best_for(elements: usize) -> Option<Self> {
        Self::all().find(|set| elements.is_multiple_of(set.block()))
    }

    /// All that this processor has, the best first.
    #[inline]
    pub(super) fn all() -> impl Iterator<Item = Self> {
        let detected = |known: &Known| match known {
            Known::Avx512 => is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bw"),
            Known::Avx2 => is_x86_feature_detected!("avx2"),
        };
        [Known::Avx512, Known::Avx2].into_iter().filter(detected).map(Self)
    }

    /// As [`numeric::encode_block_and_scan`], or as [`numeric::encode_block`], where `ahead` is not looked at and
    /// the exponent has no meaning. None if that is for the core to do; `wire` may have been written to.
    ///
    /// Takes full chunks: those that fill `wire`, and are a multiple of [`Self::block`] long.
    #[inline]
    pub(super) fn encode<T: Float, const SCAN: bool>(
        self,
        chunk: &[T],
        exponent: i8,
        world_size: WorldSize,
        wire: &mut [u8],
        ahead: &[T],
    ) -> Option<i8> {
        let (chunk, ahead) = (as_float32(chunk)?, as_float32(if SCAN { ahead } else { chunk })?);
        let full = chunk.len().is_multiple_of(self.block()) && wire.len() == 4 * chunk.len();
        if exponent == NOT_FINITE || ahead.len() != chunk.len() || !full {
            return None;
        }
        let scale = numeric::block_scale(exponent, world_size);
        let bound = numeric::block_bound(world_size);
        // SAFETY: no `InstructionSet` is made of instructions that were not detected.
        #[allow(unsafe_code, reason = "the compiler does not know which instructions there are")]
        let largest = unsafe {
            match self.0 {
                Known::Avx512 => avx512::encode::<SCAN>(chunk, scale, bound, wire, ahead),
                Known::Avx2 => avx2::encode::<SCAN>(chunk, scale, bound, wire, ahead),
            }
        }?;
        Some(numeric::block_exponent(&[largest]))
    }

    /// Elements that a kernel works on at once.
    #[inline]
    const fn block(self) -> usize {
        match self.0 {
            Known::Avx512 => VECTORS * avx512::LANES,
            Known::Avx2 => VECTORS * avx2::LANES,
        }
    }
}

/// The same elements, if they are float32.
#[inline]
fn as_float32<T: Float>(chunk: &[T]) -> Option<&[f32]> {
    if TypeId::of::<T>() != TypeId::of::<f32>() {
        return None;
    }
    // SAFETY: `T` is `f32`.
    #[allow(unsafe_code, reason = "a generic function that is another one for one type")]
    Some(unsafe { slice::from_raw_parts(chunk.as_ptr().cast(), chunk.len()) })
}

/// Vectors that are worked on at once: none waits for the maximum of the one before.
const VECTORS: usize = 4;

/// Reverses the octets of each word of 16 octets.
const SWAP: i128 = i128::from_le_bytes([3, 2, 1, 0, 7, 6, 5, 4, 11, 10, 9, 8, 15, 14, 13, 12]);

/// A pattern without its sign.
const MAGNITUDE: i32 = i32::MAX;

/// The kernel for one set of instructions: `operations` are its functions on vectors of `lanes` words.
macro_rules! kernel {
    ($name:ident, $features:literal, $lanes:literal, { $($operations:tt)* }) => {
        mod $name {
            use core::arch::x86_64::*;

            use super::{MAGNITUDE, SWAP, VECTORS, largest_of_four};

            /// Words of a vector.
            pub(super) const LANES: usize = $lanes;

            /// Writes `chunk`, each element times `scale`, as integers to `wire`, and returns the largest magnitude in
            /// `ahead`, or 0 if it is not to scan. None if a product is not less than `bound` in magnitude, which is
            /// 2^31 at most.
            ///
            /// All three are as long, and whole blocks of [`VECTORS`] vectors.
            #[target_feature(enable = $features)]
            pub(super) fn encode<const SCAN: bool>(
                chunk: &[f32],
                scale: f32,
                bound: f32,
                wire: &mut [u8],
                ahead: &[f32],
            ) -> Option<f32> {
                let scale = splat(scale.to_bits() as i32);
                // Makes a magnitude's pattern negative if it is not less than the bound's, and a pattern with a sign
                // positive. NaN is larger than any bound.
                let excess = splat(i32::MIN.wrapping_sub(bound.to_bits() as i32));
                let (magnitude, swap) = (splat(MAGNITUDE), order(SWAP));
                let mut largest = [splat(0); VECTORS];
                let mut flipped = [splat(0); VECTORS];

                let chunk = chunk.as_chunks::<LANES>().0.as_chunks::<VECTORS>().0;
                let ahead = ahead.as_chunks::<LANES>().0.as_chunks::<VECTORS>().0;
                let wire = wire.as_chunks_mut::<{ 4 * LANES }>().0.as_chunks_mut::<VECTORS>().0;
                for ((wire, chunk), ahead) in wire.iter_mut().zip(chunk).zip(ahead) {
                    // All loads come before the first store, which the processor might else take for their source.
                    let mut elements = [splat(0); VECTORS];
                    for (element, chunk) in elements.iter_mut().zip(chunk) {
                        *element = load(chunk);
                    }
                    if SCAN {
                        for (largest, ahead) in largest.iter_mut().zip(ahead) {
                            *largest = max(*largest, and(load(ahead), magnitude));
                        }
                    }
                    for ((wire, element), flipped) in wire.iter_mut().zip(elements).zip(&mut flipped) {
                        let product = multiply(element, scale);
                        *flipped = or_difference(*flipped, product, add(product, excess));
                        store(shuffle(round(product), swap), wire);
                    }
                }
                let [a, b, c, d] = flipped;
                if any_negative(or(or(a, b), or(c, d))) {
                    return None;
                }
                let [a, b, c, d] = largest;
                Some(f32::from_bits(largest_lane(max(max(a, b), max(c, d))) as u32))
            }

            $($operations)*
        }
    };
}

kernel!(avx2, "avx2", 8, {
    type Words = __m256i;

    #[target_feature(enable = "avx2")]
    #[inline]
    fn load(words: &[f32; LANES]) -> Words {
        // SAFETY: the words are as long as a vector, and need no alignment.
        #[allow(unsafe_code, reason = "there is no safe function for it")]
        unsafe {
            _mm256_loadu_si256(words.as_ptr().cast())
        }
    }

    #[target_feature(enable = "avx2")]
    #[inline]
    fn store(vector: Words, octets: &mut [u8; 4 * LANES]) {
        // SAFETY: the octets are as long as a vector, and need no alignment.
        #[allow(unsafe_code, reason = "there is no safe function for it")]
        unsafe {
            _mm256_storeu_si256(octets.as_mut_ptr().cast(), vector);
        }
    }

    #[target_feature(enable = "avx2")]
    #[inline]
    fn splat(word: i32) -> Words {
        _mm256_set1_epi32(word)
    }

    /// For each 16 octets of a vector, which octet comes from where.
    #[target_feature(enable = "avx2")]
    #[inline]
    fn order(octets: i128) -> Words {
        _mm256_broadcastsi128_si256(_mm_set_epi64x((octets >> 64) as i64, octets as i64))
    }

    #[target_feature(enable = "avx2")]
    #[inline]
    fn shuffle(vector: Words, order: Words) -> Words {
        _mm256_shuffle_epi8(vector, order)
    }

    /// As binary32.
    #[target_feature(enable = "avx2")]
    #[inline]
    fn multiply(a: Words, b: Words) -> Words {
        _mm256_castps_si256(_mm256_mul_ps(_mm256_castsi256_ps(a), _mm256_castsi256_ps(b)))
    }

    /// From binary32 to integers, half to even.
    #[target_feature(enable = "avx2")]
    #[inline]
    fn round(vector: Words) -> Words {
        _mm256_cvtps_epi32(_mm256_castsi256_ps(vector))
    }

    #[target_feature(enable = "avx2")]
    #[inline]
    fn add(a: Words, b: Words) -> Words {
        _mm256_add_epi32(a, b)
    }

    #[target_feature(enable = "avx2")]
    #[inline]
    fn and(a: Words, b: Words) -> Words {
        _mm256_and_si256(a, b)
    }

    #[target_feature(enable = "avx2")]
    #[inline]
    fn or(a: Words, b: Words) -> Words {
        _mm256_or_si256(a, b)
    }

    /// a | (b ^ c)
    #[target_feature(enable = "avx2")]
    #[inline]
    fn or_difference(a: Words, b: Words, c: Words) -> Words {
        _mm256_or_si256(a, _mm256_xor_si256(b, c))
    }

    #[target_feature(enable = "avx2")]
    #[inline]
    fn max(a: Words, b: Words) -> Words {
        _mm256_max_epi32(a, b)
    }

    #[target_feature(enable = "avx2")]
    #[inline]
    fn any_negative(vector: Words) -> bool {
        _mm256_movemask_ps(_mm256_castsi256_ps(vector)) != 0
    }

    #[target_feature(enable = "avx2")]
    #[inline]
    fn largest_lane(vector: Words) -> i32 {
        largest_of_four(_mm_max_epi32(_mm256_castsi256_si128(vector), _mm256_extracti128_si256::<1>(vector)))
    }
});

kernel!(avx512, "avx512f,avx512bw", 16, {
    type Words = __m512i;

    #[target_feature(enable = "avx512f,avx512bw")]
    #[inline]
    fn load(words: &[f32; LANES]) -> Words {
        // SAFETY: the words are as long as a vector, and need no alignment.
        #[allow(unsafe_code, reason = "there is no safe function for it")]
        unsafe {
            _mm512_loadu_si512(words.as_ptr().cast())
        }
    }

    #[target_feature(enable = "avx512f,avx512bw")]
    #[inline]
    fn store(vector: Words, octets: &mut [u8; 4 * LANES]) {
        // SAFETY: the octets are as long as a vector, and need no alignment.
        #[allow(unsafe_code, reason = "there is no safe function for it")]
        unsafe {
            _mm512_storeu_si512(octets.as_mut_ptr().cast(), vector);
        }
    }

    #[target_feature(enable = "avx512f,avx512bw")]
    #[inline]
    fn splat(word: i32) -> Words {
        _mm512_set1_epi32(word)
    }

    /// For each 16 octets of a vector, which octet comes from where.
    #[target_feature(enable = "avx512f,avx512bw")]
    #[inline]
    fn order(octets: i128) -> Words {
        _mm512_broadcast_i32x4(_mm_set_epi64x((octets >> 64) as i64, octets as i64))
    }

    #[target_feature(enable = "avx512f,avx512bw")]
    #[inline]
    fn shuffle(vector: Words, order: Words) -> Words {
        _mm512_shuffle_epi8(vector, order)
    }

    /// As binary32.
    #[target_feature(enable = "avx512f,avx512bw")]
    #[inline]
    fn multiply(a: Words, b: Words) -> Words {
        _mm512_castps_si512(_mm512_mul_ps(_mm512_castsi512_ps(a), _mm512_castsi512_ps(b)))
    }

    /// From binary32 to integers, half to even.
    #[target_feature(enable = "avx512f,avx512bw")]
    #[inline]
    fn round(vector: Words) -> Words {
        _mm512_cvtps_epi32(_mm512_castsi512_ps(vector))
    }

    #[target_feature(enable = "avx512f,avx512bw")]
    #[inline]
    fn add(a: Words, b: Words) -> Words {
        _mm512_add_epi32(a, b)
    }

    #[target_feature(enable = "avx512f,avx512bw")]
    #[inline]
    fn and(a: Words, b: Words) -> Words {
        _mm512_and_si512(a, b)
    }

    #[target_feature(enable = "avx512f,avx512bw")]
    #[inline]
    fn or(a: Words, b: Words) -> Words {
        _mm512_or_si512(a, b)
    }

    /// a | (b ^ c)
    #[target_feature(enable = "avx512f,avx512bw")]
    #[inline]
    fn or_difference(a: Words, b: Words, c: Words) -> Words {
        _mm512_ternarylogic_epi32::<0b1111_0110>(a, b, c)
    }

    #[target_feature(enable = "avx512f,avx512bw")]
    #[inline]
    fn max(a: Words, b: Words) -> Words {
        _mm512_max_epi32(a, b)
    }

    #[target_feature(enable = "avx512f,avx512bw")]
    #[inline]
    fn any_negative(vector: Words) -> bool {
        _mm512_test_epi32_mask(vector, splat(i32::MIN)) != 0
    }

    #[target_feature(enable = "avx512f,avx512bw")]
    #[inline]
    fn largest_lane(vector: Words) -> i32 {
        let half = _mm256_max_epi32(_mm512_castsi512_si256(vector), _mm512_extracti64x4_epi64::<1>(vector));
        largest_of_four(_mm_max_epi32(_mm256_castsi256_si128(half), _mm256_extracti128_si256::<1>(half)))
    }
});

/// The largest of four words.
#[target_feature(enable = "sse4.1")]
#[inline]
fn largest_of_four(vector: __m128i) -> i32 {
    let two = _mm_max_epi32(vector, _mm_srli_si128::<8>(vector));
    _mm_cvtsi128_si32(_mm_max_epi32(two, _mm_srli_si128::<4>(two)))
}

#[cfg(test)]
mod tests;
