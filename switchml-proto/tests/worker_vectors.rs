//! The vectors of `worker.json`, to the bit: which packet carries what, where, and with which digest.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use core::ops::Range;

use serde::Deserialize;
use switchml_proto::numeric::{ElementType, Reduction, ScalingFactor};
use switchml_proto::wire::HEADER_LEN;
use switchml_proto::worker::{
    ChunkSource, Collective, CollectiveId, Config, Conversion, Event, Fidelity, Received, Slot, Transmit,
    Worker,
};
use switchml_proto::{ChunkSize, Instant, JobId, LaneCount, LaneId, LaneLayout, Rank, Seq, Version, Window};

#[derive(Deserialize)]
struct Vectors {
    lanes: Vec<LaneVector>,
}

#[derive(Deserialize)]
struct LaneVector {
    window: usize,
    elements_per_packet: usize,
    base: u16,
    initial_seq: u32,
    collectives: Vec<CollectiveVector>,
}

#[derive(Deserialize)]
struct CollectiveVector {
    len: u64,
    element: String,
    operation: String,
    conversion: String,
    factor: Option<f32>,
    root: Option<usize>,
    #[serde(default)]
    tag: u32,
    packets: Vec<PacketVector>,
}

#[derive(Debug, Deserialize, PartialEq)]
struct PacketVector {
    seq: u32,
    slot: u16,
    version: u8,
    chunk: Option<u64>,
    exponent_of: Option<u64>,
    digest: i8,
}

impl CollectiveVector {
    fn collective(&self) -> Collective {
        let element = match self.element.as_str() {
            "f32" => ElementType::Float32,
            "f16" => ElementType::Float16,
            "bf16" => ElementType::BFloat16,
            "i32" => ElementType::Int32,
            other => panic!("element {other}"),
        };
        let conversion = match self.conversion.as_str() {
            "integer" => Conversion::Integer,
            "block" => Conversion::Block,
            "fixed" => Conversion::Fixed(ScalingFactor::new(self.factor.unwrap()).unwrap()),
            other => panic!("conversion {other}"),
        };
        let reduce = |reduction| Collective::all_reduce(self.len, element, reduction, conversion).unwrap();
        let collective = match self.operation.as_str() {
            "sum" => reduce(Reduction::Sum),
            "mean" => reduce(Reduction::Mean),
            "broadcast" => Collective::broadcast(self.len, element, Rank::new(self.root.unwrap()).unwrap()),
            "barrier" => Collective::barrier(),
            other => panic!("operation {other}"),
        };
        collective.with_tag(self.tag)
    }
}

/// A tensor of which nothing is known but which elements are asked for.
struct Asked {
    scanned: Option<Range<u64>>,
    encoded: Option<Range<u64>>,
}

impl ChunkSource for Asked {
    fn exponent(&mut self, _: CollectiveId, range: Range<u64>) -> i8 {
        self.scanned = Some(range);
        -7
    }

    fn encode(&mut self, _: CollectiveId, range: Range<u64>, _: i8, wire: &mut [u8]) -> Fidelity {
        self.encoded = Some(range);
        wire.fill(0);
        Fidelity::Faithful
    }
}

/// Emits the packet, and says what it is in the words of the vectors.
fn describe(
    transmit: &Transmit,
    collective: &Collective,
    layout: LaneLayout,
    datagram: &mut Vec<u8>,
) -> PacketVector {
    let mut asked = Asked { scanned: None, encoded: None };
    datagram.resize(transmit.len(), 0);
    assert_eq!(transmit.emit(&mut asked, datagram), datagram.len());
    let per_chunk = collective.elements_per_chunk(layout.chunk()) as u64;
    let chunk = |range: Range<u64>| {
        assert_eq!(range.start % per_chunk, 0);
        assert_eq!(range.end, (range.start + per_chunk).min(collective.len()));
        range.start / per_chunk
    };
    assert_eq!(asked.encoded, transmit.encode().map(|chunk| chunk.range()));
    assert_eq!(asked.scanned, transmit.scan());
    let expected_len = if asked.encoded.is_some() { layout.datagram_len() } else { HEADER_LEN };
    assert_eq!(datagram.len(), expected_len);
    let header = switchml_proto::wire::Packet::parse(datagram).unwrap();
    let header = header.header();
    assert_eq!(header.exponent, if asked.scanned.is_some() { -7 } else { -128 });
    PacketVector {
        seq: header.seq.0,
        slot: header.slot,
        version: match header.version {
            Version::Zero => 0,
            Version::One => 1,
        },
        chunk: asked.encoded.map(chunk),
        exponent_of: asked.scanned.map(chunk),
        digest: header.digest,
    }
}

#[test]
fn packets_are_those_of_the_independent_vectors() {
    let vectors: Vectors = serde_json::from_str(include_str!("vectors/worker.json")).unwrap();
    assert!(!vectors.lanes.is_empty());
    for lane in vectors.lanes {
        let chunk = ChunkSize::from_elements(lane.elements_per_packet).unwrap();
        let layout = LaneLayout::new(lane.base, Window::new(lane.window).unwrap(), chunk).unwrap();
        let config =
            Config::new(JobId(9), layout, Seq(lane.initial_seq), LaneId::ZERO, LaneCount::new(1).unwrap());
        let mut slots = vec![Slot::EMPTY; lane.window];
        let mut worker = Worker::new(config, &mut slots).unwrap();
        for vector in lane.collectives {
            let collective = vector.collective();
            let id = worker.start(collective, Instant::ZERO).unwrap();
            let mut sent = Vec::new();
            let mut datagram = Vec::new();
            // In a world of one, a packet is its own result.
            while let Some(transmit) = worker.poll_transmit(Instant::ZERO) {
                sent.push(describe(&transmit, &collective, layout, &mut datagram));
                let received = worker.handle_datagram(Instant::ZERO, &datagram);
                assert!(matches!(received, Received::Chunk(_) | Received::Exponent { .. }), "{received:?}");
            }
            sent.sort_by_key(|packet| packet.seq.wrapping_sub(lane.initial_seq));
            assert_eq!(sent, vector.packets);
            assert_eq!(worker.poll_event(), Some(Event::Finished(id)));
            assert_eq!(worker.poll_event(), None);
        }
    }
}
