//! What a worker may send and must make of a datagram, by the rules T-1 to T-4 alone: it remembers every packet that was
//! sent and every result that was accepted, numbered from the session's start, without slots, queues or cells.

use core::ops::Range;
use std::collections::BTreeMap;

use switchml_proto::wire::{DIGESTS_DIFFER, Packet, PayloadSize};
use switchml_proto::worker::{Cause, Collective, CollectiveId, Conversion, Transmit};
use switchml_proto::{ChunkSize, LaneCount, LaneId, LaneLayout, Seq};

/// The exponent octet where there is none to tell.
const NONE: i8 = -128;
/// W-3.
const TOO_MANY_PACKETS: u64 = 1 << 30;

pub(super) struct Model {
    layout: LaneLayout,
    initial_seq: Seq,
    lane: u64,
    lanes: u64,
    /// Packets of all collectives that were started.
    packets: u64,
    /// For each residue of the number modulo W, the first one that is not answered.
    next: Vec<u64>,
    /// Those whose end was not told.
    open: Vec<Open>,
    sent: BTreeMap<u64, Sent>,
}

/// A collective, as the lane cuts it (T-1, T-3).
struct Open {
    id: CollectiveId,
    /// Number of its first packet.
    first: u64,
    packets: u64,
    chunks: u64,
    first_chunk: u64,
    /// P, packets that only tell exponents; 0 with other conversions.
    preface: u64,
    elements_per_chunk: u64,
    len: u64,
    conversion: Conversion,
    answered: u64,
    /// Agreed exponents by chunk.
    exponents: BTreeMap<u64, i8>,
}

/// A packet that was sent.
struct Sent {
    digest: i8,
    answered: bool,
}

/// What a datagram must be taken for.
#[derive(Debug)]
pub(super) enum Expected {
    Chunk {
        collective: CollectiveId,
        range: Range<u64>,
        exponent: i8,
    },
    Exponent(CollectiveId),
    /// A result of a packet that has one, or any after a failure.
    Past,
    Foreign,
    Malformed,
    Differ,
}

impl Model {
    pub(super) fn new(layout: LaneLayout, initial_seq: Seq, lane: LaneId, lanes: LaneCount) -> Self {
        let (lane, lanes) = (lane.get().into(), lanes.get().into());
        let next = (0..layout.window().get().into()).collect();
        Self { layout, initial_seq, lane, lanes, packets: 0, next, open: Vec::new(), sent: BTreeMap::new() }
    }

    /// T-1: which chunks the lane has, and how many packets they take.
    fn cut(&self, id: CollectiveId, collective: &Collective) -> Open {
        let per_chunk = collective.elements_per_chunk(ChunkSize::MIN) as u64;
        let all = collective.len().div_ceil(per_chunk);
        let begin = |lane: u64| (u128::from(lane) * u128::from(all) / u128::from(self.lanes)) as u64;
        let chunks = begin(self.lane + 1) - begin(self.lane);
        let preface = match collective.conversion() {
            Conversion::Block => chunks.min(self.window()),
            _ => 0,
        };
        Open {
            id,
            first: self.packets,
            packets: (preface + chunks).max(1),
            chunks,
            first_chunk: begin(self.lane),
            preface,
            elements_per_chunk: per_chunk,
            len: collective.len(),
            conversion: collective.conversion(),
            answered: 0,
            exponents: BTreeMap::new(),
        }
    }

    pub(super) fn is_too_long(&self, collective: &Collective) -> bool {
        self.cut(CollectiveId(0), collective).packets >= TOO_MANY_PACKETS
    }

    pub(super) fn start(&mut self, id: CollectiveId, collective: &Collective) {
        assert!(!self.is_too_long(collective));
        assert!(self.open.len() < 2, "T-3a: at most two are open");
        let never_sent =
            (self.packets.saturating_sub(1)..self.packets).any(|last| !self.sent.contains_key(&last));
        assert!(!never_sent, "T-3a: every packet of the one before was sent");
        let open = self.cut(id, collective);
        self.packets += open.packets;
        self.open.push(open);
    }

    /// A packet goes out: it must be one that may.
    pub(super) fn sent(&mut self, transmit: &Transmit) {
        let header = transmit.header();
        let number = self.number(header.seq);
        assert!(header.is_placed_by(self.layout), "W-5");
        assert!((1..=127).contains(&header.digest), "W-7");
        let answered = |number: u64| self.sent.get(&number).is_some_and(|sent| sent.answered);
        assert!(number < self.window() || answered(number - self.window()), "T-2");
        let open = self.open.iter().find(|open| open.id == transmit.collective()).expect("it is open");
        let packet =
            number.checked_sub(open.first).filter(|&packet| packet < open.packets).expect("its packet");
        let chunk = open.chunk(packet);
        if open.preface > 0 && packet >= open.preface {
            assert!(answered(open.first + packet - open.preface), "T-3");
        }
        let encode = chunk.map(|chunk| (open.range(chunk), open.exponent(chunk)));
        assert_eq!(transmit.encode().map(|chunk| (chunk.range(), chunk.exponent())), encode);
        let ahead = (open.preface > 0 && packet < open.chunks).then(|| open.range(packet));
        assert_eq!(transmit.scan(), ahead, "T-3");
        assert_eq!(header.size, size(chunk));
        let before = self.sent.insert(number, Sent { digest: header.digest, answered: false });
        match before {
            None => assert_eq!(transmit.cause(), Cause::First),
            Some(before) => {
                assert!(!before.answered, "what is answered is not sent again");
                assert_ne!(transmit.cause(), Cause::First);
                assert_eq!(before.digest, header.digest);
            }
        }
    }

    /// T-4.
    pub(super) fn expect(&self, datagram: &[u8], failed: bool) -> Expected {
        let Ok(packet) = Packet::parse(datagram) else { return Expected::Malformed };
        let header = packet.header();
        if header.job != super::JOB {
            return Expected::Foreign;
        }
        if !header.is_placed_by(self.layout) {
            return Expected::Malformed;
        }
        if failed {
            return Expected::Past;
        }
        let number = match self.relation(header.seq) {
            Relation::Next(number) => number,
            Relation::Before => return Expected::Past,
            Relation::Beyond => return Expected::Foreign,
        };
        let Some(sent) = self.sent.get(&number) else { return Expected::Foreign };
        let (open, packet) = self.find(number);
        if header.digest == DIGESTS_DIFFER {
            return Expected::Differ;
        }
        let chunk = open.chunk(packet);
        if header.digest != sent.digest || header.size != size(chunk) {
            return Expected::Malformed;
        }
        match chunk {
            Some(chunk) => Expected::Chunk {
                collective: open.id,
                range: open.range(chunk),
                exponent: open.exponent(chunk),
            },
            None => Expected::Exponent(open.id),
        }
    }

    /// The result was accepted.
    pub(super) fn accept(&mut self, datagram: &[u8]) {
        let packet = Packet::parse(datagram).expect("it was accepted");
        let number = self.number(packet.header().seq);
        self.sent.get_mut(&number).expect("it was sent").answered = true;
        let window = self.window();
        self.next[(number % window) as usize] += window;
        let open =
            self.open.iter_mut().find(|open| (open.first..open.first + open.packets).contains(&number));
        let open = open.expect("it is open");
        open.answered += 1;
        let packet_number = number - open.first;
        if open.preface > 0 && packet_number < open.chunks {
            open.exponents.insert(packet_number, packet.header().exponent);
        }
    }

    pub(super) fn finish(&mut self, id: CollectiveId) {
        let open = self.remove(id);
        assert_eq!(open.answered, open.packets, "every packet is answered");
    }

    pub(super) fn fail(&mut self, id: CollectiveId) {
        let open = self.remove(id);
        assert!(open.answered < open.packets, "what was complete does not fail");
    }

    fn remove(&mut self, id: CollectiveId) -> Open {
        let at = self.open.iter().position(|open| open.id == id);
        self.open.remove(at.expect("it is open: each ends once"))
    }

    /// All that can be told was told.
    pub(super) fn check_told(&self, failed: bool) {
        for open in &self.open {
            assert!(!failed && open.answered < open.packets, "its end was not told");
        }
    }

    /// Whether some packet has no result.
    pub(super) fn has_work(&self) -> bool {
        self.open.iter().any(|open| open.answered < open.packets)
    }

    pub(super) fn oldest_under_way(&self) -> Option<Seq> {
        let oldest = self.sent.iter().find(|(_, sent)| !sent.answered)?.0;
        Some(self.initial_seq.plus(*oldest as u32))
    }

    fn find(&self, number: u64) -> (&Open, u64) {
        let open = self.open.iter().find(|open| (open.first..open.first + open.packets).contains(&number));
        let open = open.expect("what is under way belongs to an open collective");
        (open, number - open.first)
    }

    fn window(&self) -> u64 {
        self.layout.window().get().into()
    }

    /// The number of a packet that may be under way, from the session's first.
    fn number(&self, seq: Seq) -> u64 {
        match self.relation(seq) {
            Relation::Next(number) => number,
            relation => panic!("{relation:?}"),
        }
    }

    fn relation(&self, seq: Seq) -> Relation {
        let next = self.next[self.layout.index(seq)];
        match seq.since(self.initial_seq.plus(next as u32)) as i32 {
            0 => Relation::Next(next),
            i32::MIN | 1.. => Relation::Beyond,
            _ => Relation::Before,
        }
    }
}

/// How a seq stands to the first one of its slot that is not answered.
#[derive(Debug)]
enum Relation {
    Next(u64),
    Before,
    Beyond,
}

impl Open {
    /// Which chunk of the lane a packet carries.
    fn chunk(&self, packet: u64) -> Option<u64> {
        packet.checked_sub(self.preface).filter(|&chunk| chunk < self.chunks)
    }

    fn range(&self, chunk: u64) -> Range<u64> {
        let start = (self.first_chunk + chunk) * self.elements_per_chunk;
        start..start.saturating_add(self.elements_per_chunk).min(self.len)
    }

    fn exponent(&self, chunk: u64) -> i8 {
        match self.conversion {
            Conversion::Block => self.exponents[&chunk],
            _ => NONE,
        }
    }
}

fn size(chunk: Option<u64>) -> PayloadSize {
    match chunk {
        Some(_) => PayloadSize::Elements(ChunkSize::MIN),
        None => PayloadSize::ExponentOnly,
    }
}
