//! A naive aggregator for one lane, that remembers everything: contributions by seq, and who may send what.
//!
//! It is told in terms of seqs alone, without slots, versions and bitmaps: for each residue of seq modulo W
//! there is a latest phase and the one before it, and nothing else can be asked for.

use std::collections::{BTreeMap, HashMap};

pub use crate::record::Verdict;

/// What one rank sent for one packet.
#[derive(Clone, Debug, Eq, PartialEq)]
#[allow(clippy::exhaustive_structs, reason = "tests build it")]
pub struct Contribution {
    /// The exponent octet.
    pub exponent: i8,
    /// The digest octet, 1 to 127.
    pub digest: i8,
    /// k elements; none in an exponent-only packet.
    pub elements: Vec<i32>,
}

/// What must come of a packet.
#[derive(Clone, Debug, Eq, PartialEq)]
#[allow(clippy::exhaustive_structs, reason = "tests compare it")]
pub struct Answer {
    /// The decision.
    pub verdict: Verdict,
    /// The datagram to send: with the verdicts `Unicast` and `Multicast`.
    pub reply: Option<Vec<u8>>,
}

/// A lane that has seen some contributions.
#[derive(Clone, Debug)]
pub struct Lane {
    world_size: usize,
    window: u64,
    /// For each seq that ever began, contributions in the order in which they came, with their ranks.
    phases: HashMap<u64, Vec<(usize, Contribution)>>,
    /// For each residue modulo W, the latest seq that began.
    latest: BTreeMap<u64, u64>,
    initial_seq: u64,
}

impl Lane {
    /// Nothing was sent yet. Seqs are counted in 64 bits, so that they never wrap.
    #[must_use]
    pub fn new(world_size: usize, window: u64, initial_seq: u64) -> Self {
        Self { world_size, window, phases: HashMap::new(), latest: BTreeMap::new(), initial_seq }
    }

    /// Rank `rank` sends a well-formed packet. `header` is its header, which a result repeats but for exponent, digest and
    /// size.
    ///
    /// # Panics
    /// If `header` has fewer than 10 octets.
    pub fn deliver(&mut self, seq: u64, rank: usize, sent: &Contribution, header: &[u8]) -> Answer {
        let residue = seq % self.window;
        let next = match self.latest.get(&residue) {
            Some(latest) => latest + self.window,
            None => self.initial_seq + residue,
        };
        if seq > next || seq + 2 * self.window < next || (seq < next && !self.phases.contains_key(&seq)) {
            return Answer { verdict: Verdict::Reject, reply: None };
        }
        if seq == next {
            self.latest.insert(residue, seq);
        }
        let phase = self.phases.entry(seq).or_default();
        let repeated = phase.iter().any(|(other, _)| *other == rank);
        if !repeated {
            phase.push((rank, sent.clone()));
        }
        let verdict = match (repeated, phase.len() == self.world_size) {
            (false, false) => Verdict::Consume,
            (false, true) => Verdict::Multicast,
            (true, false) => Verdict::Ignore,
            (true, true) => Verdict::Unicast,
        };
        let complete = matches!(verdict, Verdict::Multicast | Verdict::Unicast);
        Answer { verdict, reply: complete.then(|| result(phase, header)) }
    }
}

/// The result of the contributions: those of the first one's size are summed.
fn result(phase: &[(usize, Contribution)], header: &[u8]) -> Vec<u8> {
    let first = &phase[0].1;
    let contributions = || phase.iter().map(|(_, contribution)| contribution);
    let len = first.elements.len();
    let alike = contributions().all(|other| other.digest == first.digest && other.elements.len() == len);
    let exponent = contributions().map(|other| other.exponent).max().unwrap_or(-128);
    let digest = if alike { first.digest } else { -128 };

    let mut reply = header[..10].to_vec();
    let size = if len == 0 { 7 } else { (len / 32).ilog2() as u8 };
    reply[0] = 0x10 | size;
    reply[8] = exponent.cast_unsigned();
    reply[9] = digest.cast_unsigned();
    for i in 0..len {
        let addends = contributions().filter(|other| other.elements.len() == len);
        let sum: i64 = addends.map(|other| i64::from(other.elements[i])).sum();
        reply.extend((sum as i32).to_be_bytes());
    }
    reply
}
