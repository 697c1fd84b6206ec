//! Tensors for the tests, with arithmetic that hides no mistake: what a chunk becomes on the wire depends on its exponent,
//! every exponent is checked, and everything is reduced in place.

use core::ops::Range;

use switchml_proto::worker::{Chunk, ChunkSource, Collective, CollectiveId, Conversion, Fidelity, Operation};

use crate::random::Random;

/// What each rank holds of one collective, and what all must hold at its end.
pub(crate) struct Reference {
    pub(crate) collective: Collective,
    /// Elements, or in a broadcast octets.
    pub(crate) inputs: Vec<Vec<i32>>,
}

/// The tensors of one rank.
pub(crate) struct Tensors<'r> {
    pub(crate) rank: usize,
    pub(crate) references: &'r [Reference],
    pub(crate) data: Vec<Vec<i32>>,
    /// Elements of each collective that were written.
    pub(crate) written: Vec<u64>,
}

impl Reference {
    pub(crate) fn random(random: &mut Random, collective: Collective, world_size: usize) -> Self {
        let len = match collective.operation() {
            Operation::Broadcast { .. } => collective.len() * collective.element().octets() as u64,
            _ => collective.len(),
        };
        let octets = matches!(collective.operation(), Operation::Broadcast { .. });
        let mut value = || if octets { random.next() as u8 as i32 } else { random.next() as i32 };
        let inputs = (0..world_size).map(|_| (0..len).map(|_| value()).collect()).collect();
        Self { collective, inputs }
    }

    /// What a rank must hold at the end.
    pub(crate) fn expected(&self) -> Vec<i32> {
        match self.collective.operation() {
            Operation::Broadcast { root } => self.inputs[root.index()].clone(),
            _ => {
                let mut sum = vec![0i32; self.inputs[0].len()];
                for input in &self.inputs {
                    sum.iter_mut().zip(input).for_each(|(sum, &x)| *sum = sum.wrapping_add(x));
                }
                sum
            }
        }
    }

    /// What the ranks must agree on for the chunk at `range`.
    fn agreed(&self, range: &Range<u64>) -> i8 {
        match self.collective.conversion() {
            Conversion::Block => self.inputs.iter().map(|x| exponent(&x[index(range)])).max().unwrap(),
            _ => -128,
        }
    }

    fn clamped(&self, range: &Range<u64>) -> bool {
        matches!(self.collective.conversion(), Conversion::Fixed(_))
            && self.inputs.iter().any(|x| is_clamped(&x[index(range)]))
    }
}

impl<'r> Tensors<'r> {
    pub(crate) fn new(rank: usize, references: &'r [Reference]) -> Self {
        let data = references.iter().map(|reference| reference.inputs[rank].clone()).collect();
        Self { rank, references, data, written: vec![0; references.len()] }
    }

    /// Writes a result over its input, and checks all that is known about it.
    pub(crate) fn write(&mut self, chunk: &Chunk<'_>) {
        let id = chunk.collective.0 as usize;
        let reference = &self.references[id];
        let world_size = reference.inputs.len() as i32;
        assert_eq!(chunk.exponent, reference.agreed(&chunk.range));
        assert_eq!(chunk.fidelity == Fidelity::Clamped, reference.clamped(&chunk.range));
        self.written[id] += chunk.range.end - chunk.range.start;
        let mut padding = 0;
        if let Operation::Broadcast { .. } = reference.collective.operation() {
            let octets = octets(reference, &chunk.range);
            for (i, &octet) in chunk.elements.iter().enumerate() {
                match self.data[id][octets.clone()].get_mut(i) {
                    Some(x) => *x = octet.into(),
                    None => padding |= octet,
                }
            }
        } else {
            let data = &mut self.data[id][index(&chunk.range)];
            for (i, word) in chunk.elements.chunks(4).enumerate() {
                let sum = i32::from_be_bytes(word.try_into().unwrap());
                match data.get_mut(i) {
                    Some(x) => *x = sum.wrapping_sub(world_size.wrapping_mul(offset(chunk.exponent))),
                    None => padding |= (sum != 0) as u8,
                }
            }
        }
        assert_eq!(padding, 0, "what is padded with zeros sums to zeros");
    }
}

impl ChunkSource for Tensors<'_> {
    fn exponent(&mut self, id: CollectiveId, range: Range<u64>) -> i8 {
        exponent(&self.data[id.0 as usize][index(&range)])
    }

    fn encode(&mut self, id: CollectiveId, range: Range<u64>, agreed: i8, wire: &mut [u8]) -> Fidelity {
        let reference = &self.references[id.0 as usize];
        let data = &self.data[id.0 as usize];
        assert_eq!(agreed, reference.agreed(&range));
        wire.fill(0);
        if let Operation::Broadcast { root } = reference.collective.operation() {
            if root.index() == self.rank {
                wire.iter_mut().zip(&data[octets(reference, &range)]).for_each(|(w, &x)| *w = x as u8);
            }
            return Fidelity::Faithful;
        }
        let data = &data[index(&range)];
        for (word, x) in wire.chunks_mut(4).zip(data) {
            word.copy_from_slice(&x.wrapping_add(offset(agreed)).to_be_bytes());
        }
        if matches!(reference.collective.conversion(), Conversion::Fixed(_)) && is_clamped(data) {
            return Fidelity::Clamped;
        }
        Fidelity::Faithful
    }
}

fn index(range: &Range<u64>) -> Range<usize> {
    range.start as usize..range.end as usize
}

fn octets(reference: &Reference, range: &Range<u64>) -> Range<usize> {
    let octets = reference.collective.element().octets();
    range.start as usize * octets..range.end as usize * octets
}

/// Some exponent that depends on the whole chunk.
fn exponent(chunk: &[i32]) -> i8 {
    (chunk.iter().fold(0i32, |hash, &x| hash.wrapping_mul(31).wrapping_add(x)) % 127) as i8
}

fn is_clamped(chunk: &[i32]) -> bool {
    chunk[0] % 11 == 0
}

/// What an exponent adds to each element on the wire.
fn offset(exponent: i8) -> i32 {
    if exponent == -128 { 0 } else { i32::from(exponent) * 104_729 }
}
