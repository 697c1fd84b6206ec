//! The core's arithmetic, compiled for the processor that is found.
//!
//! The functions of [`numeric`] and of [`aggregator::kernels`] define the bits. Those here are the same, compiled for
//! several sets of vector instructions, or written for one; which one runs is decided at the first call. They differ
//! in speed alone.
#![allow(
    unreachable_pub,
    reason = "what `multiversion` makes inside a function has the function's visibility"
)]

use multiversion::multiversion;
use switchml_proto::WorldSize;
use switchml_proto::aggregator::{self, Kernels};
use switchml_proto::numeric::{self, Element, Float, Reduction, ScalingFactor};

/// What an aggregator computes with.
pub const AGGREGATOR: Kernels = Kernels { store, add, emit };

/// As [`numeric::encode_block`].
///
/// # Panics
/// As that.
#[inline]
pub fn encode_block<T: Float>(chunk: &[T], exponent: i8, world_size: WorldSize, wire: &mut [u8]) {
    #[cfg(target_arch = "x86_64")]
    if let Some(set) = InstructionSet::best_for(chunk.len())
        && set.encode::<T, ONLY_ENCODE>(chunk, exponent, world_size, wire, &[]).is_some()
    {
        return;
    }
    compiled_encode_block(chunk, exponent, world_size, wire);
}

/// As [`numeric::encode_block_and_scan`].
///
/// # Panics
/// As that.
#[inline]
pub fn encode_block_and_scan<T: Float>(
    chunk: &[T],
    exponent: i8,
    world_size: WorldSize,
    wire: &mut [u8],
    ahead: &[T],
) -> i8 {
    #[cfg(target_arch = "x86_64")]
    if let Some(set) = InstructionSet::best_for(chunk.len())
        && let Some(scanned) = set.encode::<T, AND_SCAN>(chunk, exponent, world_size, wire, ahead)
    {
        return scanned;
    }
    compiled_encode_block_and_scan(chunk, exponent, world_size, wire, ahead)
}

/// Compiles a function of the core again for each set of instructions.
macro_rules! compiled {
    ($($(#[$doc:meta])* $visibility:vis fn $name:ident $(<$t:ident: $bound:ident>)? ($($arg:ident: $type:ty),* $(,)?) $(-> $out:ty)?
        = $core:path;)*) => {$(
        $(#[$doc])*
        #[multiversion(targets(
            "x86_64+avx512f+avx512bw+avx512cd+avx512dq+avx512vl",
            "x86_64+avx2",
            "aarch64+neon",
        ))]
        $visibility fn $name $(<$t: $bound>)? ($($arg: $type),*) $(-> $out)? {
            $core($($arg),*)
        }
    )*};
}

compiled! {
    /// As [`numeric::block_exponent`].
    pub fn block_exponent<T: Float>(chunk: &[T]) -> i8 = numeric::block_exponent;

    /// What is not for a kernel of this processor's own.
    fn compiled_encode_block<T: Float>(chunk: &[T], exponent: i8, world_size: WorldSize, wire: &mut [u8])
        = numeric::encode_block;

    /// As before.
    fn compiled_encode_block_and_scan<T: Float>(
        chunk: &[T],
        exponent: i8,
        world_size: WorldSize,
        wire: &mut [u8],
        ahead: &[T],
    ) -> i8 = numeric::encode_block_and_scan;

    /// As [`numeric::decode_block`].
    ///
    /// # Panics
    /// As that.
    pub fn decode_block<T: Float>(
        wire: &[u8],
        exponent: i8,
        world_size: WorldSize,
        reduction: Reduction,
        chunk: &mut [T],
    ) = numeric::decode_block;

    /// As [`numeric::encode_fixed`].
    ///
    /// # Panics
    /// As that.
    pub fn encode_fixed<T: Float>(chunk: &[T], factor: ScalingFactor, world_size: WorldSize, wire: &mut [u8]) -> bool
        = numeric::encode_fixed;

    /// As [`numeric::decode_fixed`].
    ///
    /// # Panics
    /// As that.
    pub fn decode_fixed<T: Float>(
        wire: &[u8],
        factor: ScalingFactor,
        world_size: WorldSize,
        reduction: Reduction,
        chunk: &mut [T],
    ) = numeric::decode_fixed;

    /// As [`numeric::encode_integer`].
    ///
    /// # Panics
    /// As that.
    pub fn encode_integer(chunk: &[i32], wire: &mut [u8]) = numeric::encode_integer;

    /// As [`numeric::decode_integer`].
    ///
    /// # Panics
    /// As that.
    pub fn decode_integer(wire: &[u8], chunk: &mut [i32]) = numeric::decode_integer;

    /// As [`numeric::encode_octets`].
    ///
    /// # Panics
    /// As that.
    pub fn encode_octets<T: Element>(chunk: &[T], wire: &mut [u8]) = numeric::encode_octets;

    /// As [`numeric::decode_octets`].
    ///
    /// # Panics
    /// As that.
    pub fn decode_octets<T: Element>(wire: &[u8], chunk: &mut [T]) = numeric::decode_octets;

    /// As [`aggregator::kernels::store`].
    pub fn store(octets: &[u8], elements: &mut [i32]) = aggregator::kernels::store;

    /// As [`aggregator::kernels::add`].
    pub fn add(octets: &[u8], elements: &mut [i32]) = aggregator::kernels::add;

    /// As [`aggregator::kernels::emit`].
    pub fn emit(elements: &[i32], octets: &mut [u8]) = aggregator::kernels::emit;
}

mod fetch;
#[cfg(target_arch = "x86_64")]
mod x86_64;

pub use fetch::fetch_ahead;

#[cfg(target_arch = "x86_64")]
use x86_64::{AND_SCAN, InstructionSet, ONLY_ENCODE};

#[cfg(test)]
mod tests;
