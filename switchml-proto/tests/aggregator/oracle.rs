//! A naive aggregator for one lane, that remembers everything: contributions by seq, and who may send what.
//!
//! It is told in terms of seqs alone, without slots, versions and bitmaps: for each residue of seq modulo W
//! there is a latest phase and the one before it, and nothing else can be asked for.

use std::collections::{BTreeMap, HashMap};

use crate::lane::Outcome;

/// One contribution, as sent.
#[derive(Clone, Debug)]
pub(crate) struct Contribution {
    pub(crate) exponent: i8,
    pub(crate) digest: i8,
    pub(crate) elements: Vec<i32>,
}

/// A lane that has seen these contributions.
pub(crate) struct Oracle {
    world_size: usize,
    window: u64,
    /// For each seq that ever began, contributions in the order in which they came, with their ranks.
    phases: HashMap<u64, Vec<(usize, Contribution)>>,
    /// For each residue modulo W, the latest seq that began.
    latest: BTreeMap<u64, u64>,
    initial_seq: u64,
}

impl Oracle {
    /// Seqs are counted in 64 bits, so that they never wrap.
    pub(crate) fn new(world_size: usize, window: u64, initial_seq: u64) -> Self {
        Self { world_size, window, phases: HashMap::new(), latest: BTreeMap::new(), initial_seq }
    }

    /// `header` is that of a well-formed datagram, which a result repeats but for exponent, digest and what
    /// follows.
    pub(crate) fn deliver(&mut self, seq: u64, rank: usize, sent: &Contribution, header: &[u8]) -> Outcome {
        let residue = seq % self.window;
        let next = match self.latest.get(&residue) {
            Some(latest) => latest + self.window,
            None => self.initial_seq + residue,
        };
        if seq > next || seq + 2 * self.window < next || (seq < next && !self.phases.contains_key(&seq)) {
            return Outcome::Reject;
        }
        if seq == next {
            self.latest.insert(residue, seq);
        }
        let phase = self.phases.entry(seq).or_default();
        let repeated = phase.iter().any(|(other, _)| *other == rank);
        if !repeated {
            phase.push((rank, sent.clone()));
        }
        match (repeated, phase.len() == self.world_size) {
            (false, false) => Outcome::Consume,
            (false, true) => Outcome::Multicast(result(phase, header)),
            (true, false) => Outcome::Ignore,
            (true, true) => Outcome::Unicast(result(phase, header)),
        }
    }
}

/// The result of the contributions: those of the first one's size are summed.
fn result(phase: &[(usize, Contribution)], header: &[u8]) -> Vec<u8> {
    let first = &phase[0].1;
    let contributions = || phase.iter().map(|(_, contribution)| contribution);
    let len = first.elements.len();
    let alike = contributions().all(|other| other.digest == first.digest && other.elements.len() == len);
    let exponent = contributions().map(|other| other.exponent).max().unwrap();
    let digest = if alike { first.digest } else { -128 };

    let mut reply = header.to_vec();
    let size = if len == 0 { 7 } else { (len / 32).ilog2() as u8 };
    reply[0] = 0x10 | size;
    reply[8] = exponent as u8;
    reply[9] = digest as u8;
    for i in 0..len {
        let addends = contributions().filter(|other| other.elements.len() == len);
        let sum: i64 = addends.map(|other| i64::from(other.elements[i])).sum();
        reply.extend((sum as i32).to_be_bytes());
    }
    reply
}
