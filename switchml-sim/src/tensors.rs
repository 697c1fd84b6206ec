//! Tensors of any type, and how a rank's packets come from them and results go into them.

use core::ops::Range;
use std::sync::Arc;

use half::{bf16, f16};
use switchml_proto::WorldSize;
use switchml_proto::numeric::{
    ElementType, Float, Reduction, block_exponent, decode_block, decode_fixed, decode_integer, decode_octets,
    encode_block, encode_fixed, encode_integer, encode_octets,
};
use switchml_proto::worker::{Chunk, ChunkSource, Collective, CollectiveId, Conversion, Fidelity, Operation};

use crate::dice::Dice;

/// The elements of a tensor.
#[derive(Clone, Debug)]
#[allow(clippy::exhaustive_enums, reason = "the protocol has these types")]
pub enum Elements {
    /// binary32.
    Float32(Vec<f32>),
    /// binary16.
    Float16(Vec<f16>),
    /// The upper half of a binary32.
    BFloat16(Vec<bf16>),
    /// Signed 32-bit integers.
    Int32(Vec<i32>),
}

/// Does the same with a vector of any type.
macro_rules! each {
    ($elements:expr, $data:ident => $do:expr) => {
        match $elements {
            Elements::Float32($data) => $do,
            Elements::Float16($data) => $do,
            Elements::BFloat16($data) => $do,
            Elements::Int32($data) => $do,
        }
    };
}

/// One collective, and what every rank brings.
#[derive(Clone, Debug)]
#[allow(clippy::exhaustive_structs, reason = "tests build it")]
pub struct Call {
    /// What all ranks call.
    pub collective: Collective,
    /// The tensor of each rank.
    pub inputs: Vec<Elements>,
}

impl Elements {
    /// Random elements: any integer, and numbers of many magnitudes, now and then zero, subnormal, infinite, or none.
    #[must_use]
    pub fn random(dice: &mut Dice, element: ElementType, len: usize) -> Self {
        let scale = dice.below(200) as i32 - 100;
        let mut float = || {
            let bits = dice.bits();
            match bits % 4096 {
                0 => f32::from_bits((bits >> 32) as u32),
                1..64 => 0.0,
                _ => ((bits >> 40) as f32 - 8_388_608.0) * 2f32.powi(scale + (bits % 31) as i32 - 38),
            }
        };
        match element {
            ElementType::Float32 => Self::Float32((0..len).map(|_| float()).collect()),
            ElementType::Float16 => Self::Float16((0..len).map(|_| f16::from_f32(float())).collect()),
            ElementType::BFloat16 => Self::BFloat16((0..len).map(|_| bf16::from_f32(float())).collect()),
            ElementType::Int32 => Self::Int32((0..len).map(|_| dice.bits() as i32).collect()),
        }
    }

    /// These numbers, rounded to the type.
    ///
    /// # Panics
    /// If the type is int32.
    #[must_use]
    pub fn narrowed(element: ElementType, numbers: &[f32]) -> Self {
        match element {
            ElementType::Float32 => Self::Float32(numbers.to_vec()),
            ElementType::Float16 => Self::Float16(numbers.iter().map(|&x| f16::from_f32(x)).collect()),
            ElementType::BFloat16 => Self::BFloat16(numbers.iter().map(|&x| bf16::from_f32(x)).collect()),
            ElementType::Int32 => panic!("int32 is not rounded from numbers"),
        }
    }

    /// The elements as binary32: exact.
    ///
    /// # Panics
    /// If the type is int32.
    #[must_use]
    pub fn widened(&self) -> Vec<f32> {
        match self {
            Self::Float32(data) => data.clone(),
            Self::Float16(data) => data.iter().map(|x| x.to_f32()).collect(),
            Self::BFloat16(data) => data.iter().map(|x| x.to_f32()).collect(),
            Self::Int32(_) => panic!("int32 is not widened"),
        }
    }

    /// The patterns of the elements: what is compared, since a NaN is not equal to itself.
    #[must_use]
    pub fn bits(&self) -> Vec<u32> {
        match self {
            Self::Float32(data) => data.iter().map(|x| x.to_bits()).collect(),
            Self::Float16(data) => data.iter().map(|x| x.to_bits().into()).collect(),
            Self::BFloat16(data) => data.iter().map(|x| x.to_bits().into()).collect(),
            Self::Int32(data) => data.iter().map(|x| x.cast_unsigned()).collect(),
        }
    }

    /// How many.
    #[must_use]
    pub fn len(&self) -> usize {
        each!(self, data => data.len())
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// What one rank reduces: it starts collectives one after the other, lends elements to packets, and takes results.
///
/// All lanes of a rank share one.
pub trait Application: ChunkSource {
    /// The collective number `index` of the session; none if there is none after those before it.
    fn collective(&self, index: u64) -> Option<Collective>;

    /// Takes a chunk of a result.
    fn write(&mut self, chunk: &Chunk<'_>);
}

/// The tensors of one rank, reduced in place.
#[derive(Clone, Debug)]
pub struct Tensors {
    rank: usize,
    world_size: WorldSize,
    calls: Arc<[Call]>,
    data: Vec<Elements>,
    /// Elements of each collective that results have overwritten.
    written: Vec<u64>,
    /// Chunks of each collective that some rank clamped (N-6).
    clamped: Vec<u64>,
}

impl Tensors {
    /// Rank `rank` at its start.
    ///
    /// # Panics
    /// If a call has no input for it.
    #[must_use]
    pub fn new(rank: usize, world_size: WorldSize, calls: Arc<[Call]>) -> Self {
        let data: Vec<_> = calls.iter().map(|call| call.inputs[rank].clone()).collect();
        let none = vec![0; data.len()];
        Self { rank, world_size, calls, data, written: none.clone(), clamped: none }
    }

    /// What the rank holds of each collective: its input, or what results have made of it.
    #[must_use]
    pub fn data(&self) -> &[Elements] {
        &self.data
    }

    /// Elements of each collective that results have overwritten.
    #[must_use]
    pub fn written(&self) -> &[u64] {
        &self.written
    }

    /// Chunks of each collective that some rank clamped, as the results said (N-6).
    #[must_use]
    pub fn clamped(&self) -> &[u64] {
        &self.clamped
    }
}

/// A worker speaks of collectives that were started, and of ranges within their tensors.
const STARTED: &str = "the collective was started with this length";

impl ChunkSource for Tensors {
    fn exponent(&mut self, id: CollectiveId, range: Range<u64>) -> i8 {
        let range = indices(&range);
        match &self.data[id.0 as usize] {
            Elements::Float32(data) => block_exponent(&data[range]),
            Elements::Float16(data) => block_exponent(&data[range]),
            Elements::BFloat16(data) => block_exponent(&data[range]),
            Elements::Int32(_) => unreachable!("integers have no exponent"),
        }
    }

    fn encode(&mut self, id: CollectiveId, range: Range<u64>, exponent: i8, wire: &mut [u8]) -> Fidelity {
        let (collective, range) = (self.calls[id.0 as usize].collective, indices(&range));
        let (data, n) = (&self.data[id.0 as usize], self.world_size);
        match collective.operation() {
            Operation::Broadcast { root } if root.index() == self.rank => {
                each!(data, data => encode_octets(&data[range], wire));
            }
            Operation::Broadcast { .. } => wire.fill(0),
            _ => match data {
                Elements::Int32(data) => encode_integer(&data[range], wire),
                Elements::Float32(data) => return encode(&data[range], collective, exponent, n, wire),
                Elements::Float16(data) => return encode(&data[range], collective, exponent, n, wire),
                Elements::BFloat16(data) => return encode(&data[range], collective, exponent, n, wire),
            },
        }
        Fidelity::Faithful
    }
}

impl Application for Tensors {
    fn collective(&self, index: u64) -> Option<Collective> {
        self.calls.get(usize::try_from(index).ok()?).map(|call| call.collective)
    }

    fn write(&mut self, chunk: &Chunk<'_>) {
        let id = chunk.collective.0 as usize;
        let (collective, range, n) = (self.calls[id].collective, indices(&chunk.range), self.world_size);
        self.written[id] += range.len() as u64;
        self.clamped[id] += u64::from(chunk.fidelity == Fidelity::Clamped);
        let data = self.data.get_mut(id).expect(STARTED);
        match collective.operation() {
            Operation::Broadcast { .. } => {
                each!(data, data => decode_octets(chunk.elements, &mut data[range]));
            }
            _ => match data {
                Elements::Int32(data) => decode_integer(chunk.elements, &mut data[range]),
                Elements::Float32(data) => decode(chunk, collective, n, &mut data[range]),
                Elements::Float16(data) => decode(chunk, collective, n, &mut data[range]),
                Elements::BFloat16(data) => decode(chunk, collective, n, &mut data[range]),
            },
        }
    }
}

fn encode<T: Float>(
    chunk: &[T],
    collective: Collective,
    exponent: i8,
    world_size: WorldSize,
    wire: &mut [u8],
) -> Fidelity {
    match collective.conversion() {
        Conversion::Fixed(factor) if encode_fixed(chunk, factor, world_size, wire) => Fidelity::Clamped,
        Conversion::Fixed(_) => Fidelity::Faithful,
        _ => {
            encode_block(chunk, exponent, world_size, wire);
            Fidelity::Faithful
        }
    }
}

fn decode<T: Float>(chunk: &Chunk<'_>, collective: Collective, world_size: WorldSize, data: &mut [T]) {
    let reduction = match collective.operation() {
        Operation::Mean => Reduction::Mean,
        _ => Reduction::Sum,
    };
    match collective.conversion() {
        Conversion::Fixed(factor) => decode_fixed(chunk.elements, factor, world_size, reduction, data),
        _ => decode_block(chunk.elements, chunk.exponent, world_size, reduction, data),
    }
}

fn indices(range: &Range<u64>) -> Range<usize> {
    range.start as usize..range.end as usize
}
