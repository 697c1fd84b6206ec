//! A collective as one lane sees it: which packet carries what (T-1, T-3).

use super::collective::{Collective, CollectiveId, Conversion};
use super::digest;
use super::transmit::{ElementRange, ExponentField};
use crate::ids::{LaneCount, LaneId, LaneLayout, Seq};

/// The most packets of a collective in a lane (W-3).
pub(super) const MAX_PACKETS: u32 = (1 << 30) - 1;

/// Which packet of a lane carries what, for one collective. Packets are numbered from 0 here.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    pub(super) id: CollectiveId,
    /// Seq of packet 0.
    first: Seq,
    packets: u32,
    /// C, the lane's own; 0 where only a packet without a chunk is sent.
    chunks: u32,
    /// The lane's first chunk, counted over the whole tensor.
    first_chunk: u64,
    /// Elements of the tensor.
    len: u64,
    elements_per_chunk: u16,
    exponents: Exponents,
    hash: u32,
}

#[derive(Clone, Copy, Debug)]
enum Exponents {
    /// None: integers.
    Unused,
    /// Packet P + c needs the result of packet c; P = min(W, C) (T-3).
    Block { preface: u32 },
    /// Each packet tells whether its own chunk was clamped (N-6).
    Marks,
}

/// What one packet carries.
#[derive(Clone, Copy, Debug)]
pub(super) struct Content {
    /// Elements of this chunk, counted in the lane.
    pub(super) chunk: Option<u32>,
    pub(super) exponent: ExponentField,
}

impl Plan {
    /// The plan of a collective whose first packet is `first`, or nothing if it takes too many packets (W-3).
    pub(super) fn new(
        id: CollectiveId,
        collective: &Collective,
        hash: u32,
        layout: LaneLayout,
        lane: LaneId,
        lanes: LaneCount,
        first: Seq,
    ) -> Option<Self> {
        // At most 4,096, see `ElementRange`.
        let elements_per_chunk = collective.elements_per_chunk(layout.chunk()) as u16;
        let all_chunks = collective.len().div_ceil(elements_per_chunk.into());
        let first_chunk = share(all_chunks, lane.get(), lanes);
        let chunks = share(all_chunks, lane.get() + 1, lanes) - first_chunk;
        let chunks = u32::try_from(chunks).ok().filter(|&chunks| chunks <= MAX_PACKETS)?;
        let exponents = match collective.conversion() {
            Conversion::Integer => Exponents::Unused,
            Conversion::Block => Exponents::Block { preface: chunks.min(layout.window().get().into()) },
            Conversion::Fixed(_) => Exponents::Marks,
        };
        let packets = match exponents {
            Exponents::Block { preface } => preface + chunks,
            Exponents::Unused | Exponents::Marks => chunks,
        };
        let packets = packets.max(1);
        (packets <= MAX_PACKETS).then_some(Self {
            id,
            first,
            packets,
            chunks,
            first_chunk,
            len: collective.len(),
            elements_per_chunk,
            exponents,
            hash,
        })
    }

    pub(super) const fn first(&self) -> Seq {
        self.first
    }

    /// How many packets, at least 1.
    pub(super) const fn packets(&self) -> u32 {
        self.packets
    }

    /// Which packet of this collective has that seq, if any.
    pub(super) fn packet(&self, seq: Seq) -> Option<u32> {
        Some(seq.since(self.first)).filter(|&packet| packet < self.packets)
    }

    /// What `packet` carries.
    pub(super) fn content(&self, packet: u32) -> Content {
        let (chunk, exponent) = match self.exponents {
            _ if self.chunks == 0 => (None, ExponentField::Nothing),
            Exponents::Unused => (Some(packet), ExponentField::Nothing),
            Exponents::Marks => (Some(packet), ExponentField::Mark),
            Exponents::Block { preface } => (
                packet.checked_sub(preface),
                match self.cell_written(packet) {
                    Some(_) => ExponentField::Of(self.elements(packet)),
                    None => ExponentField::Nothing,
                },
            ),
        };
        Content { chunk, exponent }
    }

    /// The cell that `packet`'s result writes: that of chunk `packet`, if there is one (T-3).
    pub(super) fn cell_written(&self, packet: u32) -> Option<usize> {
        match self.exponents {
            Exponents::Block { preface } if packet < self.chunks => Some((packet % preface) as usize),
            _ => None,
        }
    }

    /// The cell with the exponent of `chunk`, with block floating point (T-3).
    pub(super) fn cell_of(&self, chunk: u32) -> Option<usize> {
        match self.exponents {
            // P is at least 1 where there is a chunk.
            Exponents::Block { preface } => Some((chunk % preface) as usize),
            Exponents::Unused | Exponents::Marks => None,
        }
    }

    /// Whether a result's exponent octet is a mark (N-6).
    pub(super) const fn has_marks(&self) -> bool {
        matches!(self.exponents, Exponents::Marks)
    }

    /// The packet whose result `packet` needs besides T-2's, if it needs one (T-3).
    pub(super) fn needs(&self, packet: u32) -> Option<u32> {
        match self.exponents {
            Exponents::Block { preface } => packet.checked_sub(preface),
            Exponents::Unused | Exponents::Marks => None,
        }
        .filter(|_| self.chunks > 0)
    }

    /// The packet that needs the result of `packet`, if one does (T-3).
    pub(super) fn needed_by(&self, packet: u32) -> Option<u32> {
        match self.exponents {
            Exponents::Block { preface } if self.chunks > 0 => {
                Some(packet + preface).filter(|&later| later < self.packets)
            }
            _ => None,
        }
    }

    /// Where `chunk` lies in the tensor.
    pub(super) fn elements(&self, chunk: u32) -> ElementRange {
        let per_chunk = u64::from(self.elements_per_chunk);
        // No overflow: the chunk begins before the tensor's end.
        let start = (self.first_chunk + u64::from(chunk)) * per_chunk;
        ElementRange { start, len: per_chunk.min(self.len - start) as u16 }
    }

    /// The digest octet of `packet` (D-1).
    pub(super) const fn digest(&self, packet: u32) -> i8 {
        digest::octet(self.hash, packet)
    }
}

/// floor(lane * chunks / lanes), without overflow (T-1).
fn share(chunks: u64, lane: u8, lanes: LaneCount) -> u64 {
    let (lane, lanes) = (u64::from(lane), u64::from(lanes.get()));
    chunks / lanes * lane + chunks % lanes * lane / lanes
}
