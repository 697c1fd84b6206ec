//! One rank's tensors, of symbols.

use core::ops::Range;

use switchml_proto::WorldSize;
use switchml_proto::numeric::{
    Reduction, block_exponent, decode_block, decode_integer, encode_block, encode_integer,
};
use switchml_proto::worker::{Chunk, ChunkSource, CollectiveId, Fidelity};

use crate::oracle::Oracle;
use crate::scenario::{CHUNK, Form};

/// One rank's tensors, reduced in place: a chunk is its contribution until its result is written over it.
#[derive(Debug)]
pub(crate) struct Tensors<'a> {
    pub(crate) oracle: &'a Oracle,
    pub(crate) world_size: WorldSize,
    pub(crate) rank: usize,
    /// Chunks of the list, by number, whose result was written.
    pub(crate) delivered: u32,
}

impl Tensors<'_> {
    /// Writes a result, and says whether it is the right one for that chunk.
    pub(crate) fn write(&mut self, number: usize, chunk: &Chunk<'_>) -> bool {
        let expected = self.oracle.chunk(number);
        let len = (expected.range.end - expected.range.start) as usize;
        let right = chunk.range == expected.range
            && chunk.exponent == expected.agreed
            && self.delivered & 1 << number == 0
            && match expected.form {
                Form::Integer => {
                    let mut elements = vec![0; len];
                    decode_integer(chunk.elements, &mut elements);
                    elements.iter().map(|&x| i64::from(x)).eq(padded(expected.sums, len))
                }
                Form::Block => {
                    let mut elements = vec![0f32; len];
                    let (octets, exponent) = (chunk.elements, chunk.exponent);
                    decode_block(octets, exponent, self.world_size, Reduction::Sum, &mut elements);
                    elements.iter().map(|&x| x as i64).eq(padded(expected.sums, len))
                }
            };
        self.delivered |= 1 << number;
        right
    }

    fn form(&self, collective: CollectiveId) -> Form {
        self.oracle.lists[self.rank].tensors[collective.0 as usize].form
    }

    /// What the tensor has at a range that begins with a chunk.
    fn elements(&self, collective: CollectiveId, range: &Range<u64>) -> Vec<i64> {
        let number = self.oracle.chunk_number(self.rank, collective, range.start);
        let symbols = if self.delivered & 1 << number == 0 {
            self.oracle.contribution(self.rank, number, self.form(collective))
        } else {
            self.oracle.chunk(number).sums
        };
        padded(symbols, (range.end - range.start) as usize).collect()
    }

    fn floats(&self, collective: CollectiveId, range: &Range<u64>) -> Vec<f32> {
        // Exact: a symbol has fewer than 24 significant bits.
        self.elements(collective, range).iter().map(|&x| x as f32).collect()
    }
}

impl ChunkSource for Tensors<'_> {
    fn exponent(&mut self, collective: CollectiveId, range: Range<u64>) -> i8 {
        block_exponent(&self.floats(collective, &range))
    }

    fn encode(
        &mut self,
        collective: CollectiveId,
        range: Range<u64>,
        exponent: i8,
        wire: &mut [u8],
    ) -> Fidelity {
        match self.form(collective) {
            Form::Integer => {
                let integers = self.elements(collective, &range);
                let integers: Vec<_> = integers.iter().map(|&x| x as i32).collect();
                encode_integer(&integers, wire);
            }
            Form::Block => {
                encode_block(&self.floats(collective, &range), exponent, self.world_size, wire);
            }
        }
        Fidelity::Faithful
    }
}

/// A chunk of `len` elements: symbols, then zeros.
fn padded<const N: usize>(symbols: [i64; N], len: usize) -> impl Iterator<Item = i64> {
    symbols.into_iter().chain(core::iter::repeat(0)).take(len.min(CHUNK.elements()))
}
