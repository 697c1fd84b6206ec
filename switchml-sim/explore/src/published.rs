//! The published aggregation algorithm (MSR-TR-2019-9, its switch with loss recovery): two versions of each slot, a bitmap
//! of who was seen, a counter modulo n, and no look at seq.
//!
//! The layout of packets is ours, so that the same workers can drive it. It exists to show that the checks find what is
//! wrong with it.

use core::hash::Hash;

use switchml_proto::wire::{Header, Packet};
use switchml_proto::{Rank, Seq, Version, WorkerSet};

use crate::aggregate::{Aggregate, Answer};
use crate::scenario::{CHUNK, Scenario};
use crate::states::{Key, KeyHasher};

/// The switch's registers.
#[derive(Clone, Debug)]
pub(crate) struct Published {
    slots: Vec<[Buffer; 2]>,
    workers: u8,
}

/// One version of one slot.
#[derive(Clone, Debug, Hash)]
struct Buffer {
    seen: u64,
    count: u8,
    exponent: i8,
    elements: Vec<i32>,
}

impl Aggregate for Published {
    fn new(scenario: &Scenario) -> Self {
        let empty = Buffer { seen: 0, count: 0, exponent: 0, elements: vec![0; CHUNK.elements()] };
        Self { slots: vec![[empty.clone(), empty]; scenario.window], workers: scenario.world_size().get() }
    }

    fn handle(&mut self, rank: usize, datagram: &[u8], result: &mut Vec<u8>) -> Answer {
        let packet = Packet::parse(datagram).expect("workers send data packets");
        let header = *packet.header();
        let (zero, one) = self.slots[usize::from(header.slot)].split_at_mut(1);
        let (addressed, other) = match header.version {
            Version::Zero => (&mut zero[0], &mut one[0]),
            Version::One => (&mut one[0], &mut zero[0]),
        };
        let rank = Rank::new(rank).expect("few workers");
        let answer = if WorkerSet::from_bits(addressed.seen).contains(rank) {
            if addressed.count != 0 {
                return Answer::Nobody;
            }
            Answer::Asker
        } else {
            addressed.seen |= 1 << rank.get();
            other.seen &= !(1 << rank.get());
            addressed.count = (addressed.count + 1) % self.workers;
            let first = addressed.count == 1;
            addressed.exponent =
                if first { header.exponent } else { addressed.exponent.max(header.exponent) };
            for (sum, octets) in addressed.elements.iter_mut().zip(packet.elements().chunks_exact(4)) {
                let element = i32::from_be_bytes(octets.try_into().expect("four octets"));
                *sum = if first { element } else { sum.wrapping_add(element) };
            }
            if addressed.count != 0 {
                return Answer::Nobody;
            }
            Answer::All
        };
        result.resize(header.datagram_len(), 0);
        let room = Header { exponent: addressed.exponent, ..header }.emit(result);
        for (octets, sum) in room.chunks_exact_mut(4).zip(&addressed.elements) {
            octets.copy_from_slice(&sum.to_be_bytes());
        }
        answer
    }

    fn key(&self) -> Key {
        let mut hasher = KeyHasher::default();
        self.slots.hash(&mut hasher);
        hasher.0
    }

    fn held(&self) -> Vec<Option<Seq>> {
        Vec::new()
    }
}
