//! The published aggregation algorithm, to be held against the protocol's own under the same faults. Never use it.
//!
//! It keeps two versions of every slot, a bitmap of who was seen in each, and a counter modulo n; it looks at the version
//! bit of a packet and at the bitmap, and at nothing else. So a packet that comes late, after its worker was taken out of the
//! bitmap, counts as the worker's contribution to whatever phase the slot is in then.

use switchml_proto::LaneLayout;
use switchml_proto::wire::{Header, Packet};

use crate::harness::{Plane, Scenario};
use crate::record::Verdict;

/// One lane of the published aggregator.
#[derive(Clone, Debug)]
pub struct Published {
    workers: u32,
    layout: LaneLayout,
    /// For each slot its two versions.
    slots: Vec<[Buffer; 2]>,
}

#[derive(Clone, Debug, Default)]
struct Buffer {
    /// One bit for each worker.
    seen: u64,
    /// Contributions, modulo n.
    count: u32,
    elements: Vec<i32>,
    exponent: i8,
}

impl Published {
    /// A lane for the scenario's job, at its start.
    #[must_use]
    pub fn new(scenario: &Scenario) -> Self {
        let slots = vec![Default::default(); scenario.layout.window().get().into()];
        Self { workers: u32::from(scenario.world_size.get()), layout: scenario.layout, slots }
    }
}

impl Plane for Published {
    fn take(&mut self, from: Option<usize>, datagram: &[u8], reply: &mut Vec<u8>) -> Verdict {
        let (Some(rank), Ok(packet)) = (from, Packet::parse(datagram)) else { return Verdict::Reject };
        let header = *packet.header();
        if header.job != crate::harness::JOB || !header.is_placed_by(self.layout) {
            return Verdict::Reject;
        }
        let versions = &mut self.slots[self.layout.index(header.seq)];
        let bit = 1 << rank;
        let buffer = &mut versions[header.version.index()];
        if buffer.seen & bit != 0 {
            if buffer.count > 0 {
                return Verdict::Ignore;
            }
            buffer.result(header, reply);
            return Verdict::Unicast;
        }
        buffer.seen |= bit;
        buffer.count = (buffer.count + 1) % self.workers;
        let elements = packet.elements().as_chunks().0.iter().map(|&octets| i32::from_be_bytes(octets));
        if buffer.count == 1 {
            (buffer.elements, buffer.exponent) = (elements.collect(), header.exponent);
        } else {
            buffer
                .elements
                .iter_mut()
                .zip(elements)
                .for_each(|(sum, element)| *sum = sum.wrapping_add(element));
            buffer.exponent = buffer.exponent.max(header.exponent);
        }
        let complete = buffer.count == 0;
        if complete {
            buffer.result(header, reply);
        }
        versions[header.version.other().index()].seen &= !bit;
        if complete { Verdict::Multicast } else { Verdict::Consume }
    }
}

impl Buffer {
    /// The packet that asks is sent back with the sums in it.
    fn result(&self, asked: Header, reply: &mut Vec<u8>) {
        reply.resize(asked.datagram_len(), 0);
        let octets = Header { exponent: self.exponent, ..asked }.emit(reply);
        for (octets, element) in octets.as_chunks_mut().0.iter_mut().zip(&self.elements) {
            *octets = element.to_be_bytes();
        }
    }
}
