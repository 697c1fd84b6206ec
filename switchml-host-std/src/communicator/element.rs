//! Which numbers a chunk becomes on the wire, for each element type.

use half::{bf16, f16};
use switchml_proto::WorldSize;
use switchml_proto::numeric::{self, Element, Reduction};
use switchml_proto::worker::{Conversion, Fidelity};

use crate::kernels;

/// A type that the elements of a tensor may have: `f32`, `half::f16`, `half::bf16` and `i32`. The trait is sealed.
pub trait Reducible: Element + sealed::Numbers {}

impl Reducible for f32 {}
impl Reducible for f16 {}
impl Reducible for bf16 {}
impl Reducible for i32 {}

/// How all chunks of an all-reduce are converted.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    pub(super) conversion: Conversion,
    pub(super) reduction: Reduction,
    pub(super) world_size: WorldSize,
}

pub(super) mod sealed {
    use super::{Fidelity, Rules};

    /// The conversions that a collective of this element type may have.
    pub trait Numbers: Sized {
        fn exponent(chunk: &[Self]) -> i8;
        fn encode(rules: &Rules, exponent: i8, chunk: &[Self], wire: &mut [u8]) -> Fidelity;
        /// Encodes one chunk as a block, and gives the exponent of another.
        fn encode_and_scan(
            rules: &Rules,
            exponent: i8,
            chunk: &[Self],
            wire: &mut [u8],
            ahead: &[Self],
        ) -> i8;
        fn decode(rules: &Rules, exponent: i8, wire: &[u8], chunk: &mut [Self]);
    }
}

macro_rules! float {
    ($type:ty) => {
        impl sealed::Numbers for $type {
            fn exponent(chunk: &[Self]) -> i8 {
                kernels::block_exponent(chunk)
            }

            fn encode(rules: &Rules, exponent: i8, chunk: &[Self], wire: &mut [u8]) -> Fidelity {
                if let Conversion::Fixed(factor) = rules.conversion {
                    if kernels::encode_fixed(chunk, factor, rules.world_size, wire) {
                        return Fidelity::Clamped;
                    }
                } else {
                    kernels::encode_block(chunk, exponent, rules.world_size, wire);
                }
                Fidelity::Faithful
            }

            fn encode_and_scan(
                rules: &Rules,
                exponent: i8,
                chunk: &[Self],
                wire: &mut [u8],
                ahead: &[Self],
            ) -> i8 {
                kernels::encode_block_and_scan(chunk, exponent, rules.world_size, wire, ahead)
            }

            fn decode(rules: &Rules, exponent: i8, wire: &[u8], chunk: &mut [Self]) {
                let Rules { conversion, reduction, world_size } = *rules;
                if let Conversion::Fixed(factor) = conversion {
                    kernels::decode_fixed(wire, factor, world_size, reduction, chunk);
                } else {
                    kernels::decode_block(wire, exponent, world_size, reduction, chunk);
                }
            }
        }
    };
}

float!(f32);
float!(f16);
float!(bf16);

/// Integers travel as they are (N-1): there is no other conversion for them, and no exponent.
impl sealed::Numbers for i32 {
    fn exponent(_: &[Self]) -> i8 {
        numeric::NO_EXPONENT
    }

    fn encode(_: &Rules, _: i8, chunk: &[Self], wire: &mut [u8]) -> Fidelity {
        kernels::encode_integer(chunk, wire);
        Fidelity::Faithful
    }

    fn encode_and_scan(rules: &Rules, exponent: i8, chunk: &[Self], wire: &mut [u8], ahead: &[Self]) -> i8 {
        Self::encode(rules, exponent, chunk, wire);
        Self::exponent(ahead)
    }

    fn decode(_: &Rules, _: i8, wire: &[u8], chunk: &mut [Self]) {
        kernels::decode_integer(wire, chunk);
    }
}
