//! The numbers of the protocol: from tensor elements to the 32-bit integers of a datagram, and back (rules
//! N-1 to N-7).
//!
//! An aggregator only adds integers, so the workers convert. They do it the same way on every machine: the
//! same inputs give the same bits at every rank, whatever the order of arrival.
//!
//! | elements | conversion | out | back |
//! |---|---|---|---|
//! | `f32`, `f16`, `bf16` | block floating point | [`block_exponent`] and [`encode_block`], or [`encode_block_and_scan`] | [`decode_block`] |
//! | `f32`, `f16`, `bf16` | fixed scaling factor | [`encode_fixed`] | [`decode_fixed`] |
//! | `i32` | none, sums wrap | [`encode_integer`] | [`decode_integer`] |
//! | any, in a broadcast | the tensor's octets | [`encode_octets`] | [`decode_octets`] |
//!
//! `wire` is always the element part of a datagram: signed 32-bit integers in network byte order (W-8). The
//! functions convert straight between it and the caller's tensor. They keep nothing, allocate nothing, and
//! know neither packets nor time.
//!
//! Between [`encode_block`] and [`decode_block`] stands the aggregator, which adds the integers of all ranks:
//!
//! ```
//! use switchml_proto::WorldSize;
//! use switchml_proto::numeric::{Reduction, block_exponent, decode_block, encode_block};
//!
//! let world_size = WorldSize::new(1)?;
//! let mut gradients = [0.25f32, -1.5, 3.0];
//! let mut elements = [0; 128]; // a datagram of 32 elements: the last chunk of a tensor is padded
//!
//! let exponent = block_exponent(&gradients); // the ranks agree on the maximum of their exponents
//! encode_block(&gradients, exponent, world_size, &mut elements);
//! decode_block(&elements, exponent, world_size, Reduction::Sum, &mut gradients);
//! assert_eq!(gradients, [0.25, -1.5, 3.0]);
//! # Ok::<(), switchml_proto::InvalidId>(())
//! ```
//!
//! # Speed
//!
//! The loops are written so that the compiler turns them into vector code for whatever instruction set the
//! caller is compiled for (N-7), from safe and portable source: no saturating `as i32`, no `f32::max`, no branch
//! that depends on an element. They are always inlined. A host that wants the widest vectors of the processor it
//! finds wraps the calls in functions of its own, compiled with those target features. The bits stay the same. So they
//! must in a kernel that a host writes itself, for which [`block_scale`] and [`block_bound`] tell what N-4 multiplies
//! with and what it rounds.
//!
//! The arithmetic relies on the default IEEE 754 mode: round half to even, and subnormals are not flushed.

mod block;
mod element;
mod fixed;
mod integer;
mod round;
mod types;
mod words;

pub use self::block::{
    NO_EXPONENT, NOT_FINITE, block_bound, block_exponent, block_scale, decode_block, encode_block,
    encode_block_and_scan,
};
pub use self::element::{Element, Float};
pub use self::fixed::{decode_fixed, encode_fixed};
pub use self::integer::{decode_integer, decode_octets, encode_integer, encode_octets};
pub use self::types::{ElementType, InvalidScalingFactor, Reduction, ScalingFactor};

#[cfg(test)]
mod tests;
