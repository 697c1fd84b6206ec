//! The caller's tensor, as the workers of its lanes read and write it.

use core::ops::Range;

use half::{bf16, f16};
use switchml_proto::numeric::{self, Element, ElementType, Reduction, ScalingFactor};
use switchml_proto::worker::{Chunk, ChunkSource, Collective, CollectiveId, Conversion, Fidelity};
use switchml_proto::{Rank, WorldSize};

/// A type that the elements of a tensor may have: `f32`, `half::f16`, `half::bf16` and `i32`. The trait is sealed.
pub trait Reducible: Element + sealed::Numbers {}

impl Reducible for f32 {}
impl Reducible for f16 {}
impl Reducible for bf16 {}
impl Reducible for i32 {}

/// What a collective does with the elements.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Use {
    /// They are reduced.
    Reduce(Rules),
    /// They are this rank's, for all.
    BroadcastFromHere,
    /// They are overwritten with those of another rank.
    BroadcastFromElsewhere,
}

impl Use {
    pub(crate) fn broadcast(root: Rank, own: Rank) -> Self {
        if root == own { Self::BroadcastFromHere } else { Self::BroadcastFromElsewhere }
    }
}

/// How the elements of an all-reduce become integers and back.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    pub(crate) reduction: Reduction,
    pub(crate) factor: Option<ScalingFactor>,
    pub(crate) world_size: WorldSize,
}

impl Rules {
    /// The collective that these rules make of `len` elements of `T`.
    ///
    /// # Panics
    /// If the mean of integers is asked for.
    pub(crate) fn collective<T: Reducible>(&self, len: usize) -> Collective {
        let conversion = match (T::TYPE, self.factor) {
            (ElementType::Int32, _) => Conversion::Integer,
            (_, Some(factor)) => Conversion::Fixed(factor),
            (_, None) => Conversion::Block,
        };
        let collective = Collective::all_reduce(len as u64, T::TYPE, self.reduction, conversion);
        collective.expect("the mean is for floating point only")
    }
}

/// A tensor while a collective is open: its packets are built from it, and the results written back to it.
pub(crate) trait Tensor: ChunkSource {
    /// Writes a result to where it belongs.
    fn write(&mut self, chunk: &Chunk<'_>);
}

/// The caller's slice.
#[derive(Debug)]
pub(crate) struct Loan<'t, T> {
    pub(crate) elements: &'t mut [T],
    pub(crate) purpose: Use,
}

impl<T: Reducible> Loan<'_, T> {
    fn chunk(&self, range: &Range<u64>) -> &[T] {
        &self.elements[indices(range)]
    }
}

impl<T: Reducible> ChunkSource for Loan<'_, T> {
    fn exponent(&mut self, _: CollectiveId, range: Range<u64>) -> i8 {
        T::exponent(self.chunk(&range))
    }

    fn encode(&mut self, _: CollectiveId, range: Range<u64>, exponent: i8, wire: &mut [u8]) -> Fidelity {
        match self.purpose {
            Use::Reduce(ref rules) => return T::encode(rules, exponent, self.chunk(&range), wire),
            Use::BroadcastFromHere => numeric::encode_octets(self.chunk(&range), wire),
            Use::BroadcastFromElsewhere => wire.fill(0),
        }
        Fidelity::Faithful
    }
}

impl<T: Reducible> Tensor for Loan<'_, T> {
    fn write(&mut self, chunk: &Chunk<'_>) {
        let elements = &mut self.elements[indices(&chunk.range)];
        match self.purpose {
            Use::Reduce(ref rules) => T::decode(rules, chunk.exponent, chunk.elements, elements),
            Use::BroadcastFromHere | Use::BroadcastFromElsewhere => {
                numeric::decode_octets(chunk.elements, elements);
            }
        }
    }
}

/// A chunk's elements lie in the tensor, whose length its worker was told; so its places fit a `usize`.
fn indices(range: &Range<u64>) -> Range<usize> {
    range.start as usize..range.end as usize
}

mod sealed {
    use super::{Fidelity, Rules};

    /// The conversions of an element type.
    pub trait Numbers: Sized {
        fn exponent(chunk: &[Self]) -> i8;
        fn encode(rules: &Rules, exponent: i8, chunk: &[Self], wire: &mut [u8]) -> Fidelity;
        fn decode(rules: &Rules, exponent: i8, wire: &[u8], chunk: &mut [Self]);
    }
}

macro_rules! float {
    ($type:ty) => {
        impl sealed::Numbers for $type {
            fn exponent(chunk: &[Self]) -> i8 {
                numeric::block_exponent(chunk)
            }

            fn encode(rules: &Rules, exponent: i8, chunk: &[Self], wire: &mut [u8]) -> Fidelity {
                let Some(factor) = rules.factor else {
                    numeric::encode_block(chunk, exponent, rules.world_size, wire);
                    return Fidelity::Faithful;
                };
                match numeric::encode_fixed(chunk, factor, rules.world_size, wire) {
                    true => Fidelity::Clamped,
                    false => Fidelity::Faithful,
                }
            }

            fn decode(rules: &Rules, exponent: i8, wire: &[u8], chunk: &mut [Self]) {
                let Rules { reduction, factor, world_size } = *rules;
                match factor {
                    Some(factor) => numeric::decode_fixed(wire, factor, world_size, reduction, chunk),
                    None => numeric::decode_block(wire, exponent, world_size, reduction, chunk),
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
        numeric::encode_integer(chunk, wire);
        Fidelity::Faithful
    }

    fn decode(_: &Rules, _: i8, wire: &[u8], chunk: &mut [Self]) {
        numeric::decode_integer(wire, chunk);
    }
}
