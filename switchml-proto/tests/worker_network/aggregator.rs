//! A model of, written for these tests from the rules alone: one lane of one job, and n joined workers.

use switchml_proto::wire::{Header, Packet, PayloadSize};
use switchml_proto::{JobId, LaneLayout, Seq};

pub(crate) struct Aggregator {
    world_size: usize,
    job: JobId,
    layout: LaneLayout,
    /// For each slot of the window, its two versions.
    phases: Vec<[Phase; 2]>,
    pub(crate) counters: Counters,
}

#[derive(Default)]
pub(crate) struct Counters {
    pub(crate) consumed: u64,
    pub(crate) multicast: u64,
    pub(crate) unicast: u64,
    pub(crate) ignored: u64,
    pub(crate) rejected: u64,
}

#[derive(Clone)]
struct Phase {
    seq: Seq,
    seen: u64,
    size: PayloadSize,
    elements: Vec<i32>,
    exponent: i8,
    digest: i8,
}

pub(crate) enum Answer {
    Nothing,
    Unicast(Vec<u8>),
    Multicast(Vec<u8>),
}

impl Aggregator {
    pub(crate) fn new(world_size: usize, job: JobId, layout: LaneLayout, initial_seq: Seq) -> Self {
        let window = u32::from(layout.window().get());
        let fresh = |seq| Phase {
            seq,
            seen: 0,
            size: PayloadSize::ExponentOnly,
            elements: Vec::new(),
            exponent: -128,
            digest: -128,
        };
        let phases = (0..window)
            .map(|i| {
                let seq = initial_seq.plus(i);
                [fresh(seq.minus(2 * window)), fresh(seq.minus(window))]
            })
            .collect();
        Self { world_size, job, layout, phases, counters: Counters::default() }
    }

    pub(crate) fn handle(&mut self, worker: usize, datagram: &[u8]) -> Answer {
        let answer = self.answer(worker, datagram);
        if answer.is_none() {
            self.counters.rejected += 1;
        }
        answer.unwrap_or(Answer::Nothing)
    }

    /// None: rejected.
    fn answer(&mut self, worker: usize, datagram: &[u8]) -> Option<Answer> {
        let packet = Packet::parse(datagram).ok()?;
        let header = packet.header();
        if header.job != self.job || !header.is_placed_by(self.layout) || header.digest < 1 {
            return None;
        }
        let versions = &mut self.phases[self.layout.index(header.seq)];
        let other = versions[header.version.other().index()].seq;
        let phase = &mut versions[header.version.index()];
        let elements = packet.elements().chunks(4).map(|e| i32::from_be_bytes(e.try_into().unwrap()));
        let complete = |phase: &Phase| phase.seen.count_ones() as usize == self.world_size;
        if header.seq == phase.seq && phase.seen == 0 {
            return None;
        }
        if header.seq == phase.seq && phase.seen & 1 << worker != 0 {
            if complete(phase) {
                self.counters.unicast += 1;
                return Some(Answer::Unicast(phase.result(self.job, self.layout)));
            }
            self.counters.ignored += 1;
            return Some(Answer::Nothing);
        }
        if header.seq == phase.seq {
            phase.seen |= 1 << worker;
            phase.exponent = phase.exponent.max(header.exponent);
            if header.size == phase.size {
                phase.elements.iter_mut().zip(elements).for_each(|(sum, e)| *sum = sum.wrapping_add(e));
            }
            if header.size != phase.size || header.digest != phase.digest {
                phase.digest = -128;
            }
        } else if header.seq == other.plus(self.layout.window().get().into()) {
            *phase = Phase {
                seq: header.seq,
                seen: 1 << worker,
                size: header.size,
                elements: elements.collect(),
                exponent: header.exponent,
                digest: header.digest,
            };
        } else {
            return None;
        }
        if complete(phase) {
            self.counters.multicast += 1;
            return Some(Answer::Multicast(phase.result(self.job, self.layout)));
        }
        self.counters.consumed += 1;
        Some(Answer::Nothing)
    }
}

impl Phase {
    fn result(&self, job: JobId, layout: LaneLayout) -> Vec<u8> {
        let header = Header::new(job, layout, self.seq, self.size, self.exponent, self.digest);
        let mut datagram = vec![0; header.datagram_len()];
        let wire = header.emit(&mut datagram);
        for (octets, element) in wire.chunks_mut(4).zip(&self.elements) {
            octets.copy_from_slice(&element.to_be_bytes());
        }
        datagram
    }
}
