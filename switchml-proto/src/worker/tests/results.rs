//! What datagrams do, and what goes into them: T-4, D-1, N-6, I-4.

use core::ops::Range;
use std::{format, vec};

use proptest::prelude::*;

use super::*;
use crate::ids::Version;
use crate::wire::{DataError, Packet, PayloadSize};

#[test]
fn t4_whatever_is_not_the_result_under_way_is_counted_and_changes_nothing() {
    let mut worker = worker(4);
    worker.start(integers(6), Instant::ZERO).unwrap();
    let sent = sendable(&mut worker, Instant::ZERO);
    answer(&mut worker, Instant::ZERO, &sent[0]);
    // Slot 0 waits to send packet 4; slots 1 to 3 are under way.
    let header = *sent[1].header();
    let octets = 4 * ChunkSize::MIN.elements();
    let length = DataError::Length { expected: HEADER_LEN + octets, got: HEADER_LEN + octets - 1 };
    let other_size = ChunkSize::from_elements(64).unwrap();
    let mut short = datagram(&header);
    short.pop();
    let placed = |packet: u32| Header {
        slot: config(4).layout.slot(FIRST.plus(packet)),
        version: config(4).layout.version(FIRST.plus(packet)),
        seq: FIRST.plus(packet),
        ..header
    };
    let stale = Header { seq: FIRST.minus(8), slot: sent[0].header().slot, version: Version::Zero, ..header };
    let cases = [
        (vec![], Received::Malformed(Malformed::Data(DataError::TooShort { got: 0 }))),
        (short, Received::Malformed(Malformed::Data(length))),
        (vec![0x20; 138], Received::Malformed(Malformed::Data(DataError::Kind { kind: 2 }))),
        (datagram(&Header { job: JobId(4), ..header }), Received::Foreign),
        (datagram(&Header { slot: 15, ..header }), Received::Malformed(Malformed::Placement)),
        (
            datagram(&Header { version: header.version.other(), ..header }),
            Received::Malformed(Malformed::Placement),
        ),
        (datagram(sent[0].header()), Received::Duplicate),
        (datagram(&stale), Received::Stale),
        (datagram(&placed(4)), Received::Foreign),
        (datagram(&placed(5)), Received::Foreign),
        (datagram(&placed(400)), Received::Foreign),
        (
            datagram(&Header { digest: header.digest % 127 + 1, ..header }),
            Received::Malformed(Malformed::Digest),
        ),
        (datagram(&Header { digest: 0, ..header }), Received::Malformed(Malformed::Digest)),
        (
            datagram(&Header { size: PayloadSize::ExponentOnly, ..header }),
            Received::Malformed(Malformed::Size),
        ),
        (
            datagram(&Header { size: PayloadSize::Elements(other_size), ..header }),
            Received::Malformed(Malformed::Size),
        ),
    ];
    let state = |worker: &Worker<'_>| {
        (
            format!("{:?}{:?}", worker.slots, worker.open),
            worker.poll_timeout(),
            worker.rto(),
            worker.failure(),
        )
    };
    let before = state(&worker);
    for (datagram, expected) in &cases {
        assert_eq!(&worker.handle_datagram(Instant::ZERO, datagram), expected);
        assert_eq!(state(&worker), before);
    }
    let Stats { accepted, duplicates, stale, foreign, malformed, .. } = *worker.stats();
    assert_eq!((accepted, duplicates, stale, foreign, malformed), (1, 1, 1, 4, 9));
}

#[test]
fn d1_m5_a_digest_of_minus_128_fails_all_open_collectives() {
    let mut worker = worker(4);
    worker.start(integers(2), Instant::ZERO).unwrap();
    let first = sendable(&mut worker, Instant::ZERO);
    worker.start(integers(2), Instant::ZERO).unwrap();
    sendable(&mut worker, Instant::ZERO);
    let differs = datagram(&Header { digest: -128, size: PayloadSize::ExponentOnly, ..*first[1].header() });
    assert_eq!(worker.handle_datagram(Instant::ZERO, &differs), Received::Differ);
    let failure = Failure::CollectivesDiffer { seq: first[1].header().seq };
    for id in [0, 1] {
        assert_eq!(worker.poll_event(), Some(Event::Failed { collective: CollectiveId(id), failure }));
    }
    assert_eq!(worker.poll_event(), None);
    // T-8: later calls fail at once, and say why.
    assert_eq!(worker.start(integers(1), Instant::ZERO), Err(StartError::Failed(failure)));
    assert_eq!((worker.poll_transmit(Instant::ZERO), worker.poll_timeout()), (None, None));
    let late = datagram(first[0].header());
    assert_eq!(worker.handle_datagram(Instant::ZERO, &late), Received::Stale);
}

#[test]
fn d1_collectives_that_differ_in_anything_have_different_hashes() {
    let rank = |rank| Rank::new(rank).unwrap();
    let fixed = |factor| Conversion::Fixed(ScalingFactor::new(factor).unwrap());
    let float =
        |element, reduction, conversion| Collective::all_reduce(64, element, reduction, conversion).unwrap();
    let all = [
        integers(2),
        integers(1),
        integers(2).with_tag(1),
        block(2),
        float(ElementType::BFloat16, Reduction::Sum, Conversion::Block),
        float(ElementType::Float32, Reduction::Mean, Conversion::Block),
        float(ElementType::Float32, Reduction::Sum, fixed(2.0)),
        float(ElementType::Float32, Reduction::Sum, fixed(4.0)),
        Collective::broadcast(64, ElementType::Float32, rank(0)),
        Collective::broadcast(64, ElementType::Float32, rank(1)),
        Collective::barrier(),
    ];
    let mut hashes: Vec<_> = all.iter().map(|collective| digest::hash(0, collective)).collect();
    hashes.extend(all.iter().map(|collective| digest::hash(1, collective)));
    hashes.sort_unstable();
    hashes.dedup();
    assert_eq!(hashes.len(), 2 * all.len());
}

/// What a packet asks its source.
struct Source(Fidelity);

impl ChunkSource for Source {
    fn exponent(&mut self, _: CollectiveId, _: Range<u64>) -> i8 {
        5
    }

    fn encode(&mut self, _: CollectiveId, _: Range<u64>, _: i8, wire: &mut [u8]) -> Fidelity {
        wire.fill(0x11);
        self.0
    }
}

#[test]
fn n6_a_clamped_chunk_carries_exponent_1_with_a_fixed_factor_only() {
    let fixed = Conversion::Fixed(ScalingFactor::new(2.0).unwrap());
    let fixed = Collective::all_reduce(32, ElementType::Float32, Reduction::Sum, fixed).unwrap();
    for (collective, fidelity, exponent) in [
        (fixed, Fidelity::Clamped, 1),
        (fixed, Fidelity::Faithful, -128),
        (integers(1), Fidelity::Clamped, -128),
    ] {
        let mut worker = worker(1);
        worker.start(collective, Instant::ZERO).unwrap();
        let transmit = worker.poll_transmit(Instant::ZERO).unwrap();
        let mut datagram = [0; 200];
        let len = transmit.emit(&mut Source(fidelity), &mut datagram);
        let packet = Packet::parse(&datagram[..len]).unwrap();
        assert_eq!(packet.header(), &Header { exponent, ..*transmit.header() });
        assert!(packet.elements().iter().all(|&octet| octet == 0x11));
        match worker.handle_datagram(Instant::ZERO, &datagram[..len]) {
            Received::Chunk(chunk) => assert_eq!(chunk.fidelity == Fidelity::Clamped, exponent == 1),
            other => panic!("{other:?}"),
        }
    }
}

proptest! {
    /// I-4: octets from the network, however wrong, neither panic nor end anything but by their digest of -128.
    #[test]
    fn i4_no_datagram_panics(
        damage in prop::collection::vec((0usize..140, any::<u8>(), 0usize..8), 1..200),
        conversion in 0..3,
    ) {
        let mut worker = worker(4);
        let fixed = Conversion::Fixed(ScalingFactor::new(2.0).unwrap());
        let collective = match conversion {
            0 => integers(40),
            1 => block(40),
            _ => Collective::all_reduce(40 * 32, ElementType::Float32, Reduction::Mean, fixed).unwrap(),
        };
        worker.start(collective, Instant::ZERO).unwrap();
        let mut last = vec![0; 138];
        for (step, (position, octet, kind)) in damage.into_iter().enumerate() {
            let now = at(step as u32 * MS);
            for transmit in sendable(&mut worker, now) {
                last.resize(transmit.len(), 0);
                transmit.emit(&mut Source(Fidelity::Faithful), &mut last);
            }
            let mut datagram = last.clone();
            match kind {
                0 => datagram.truncate(position),
                1 => datagram.resize(position, octet),
                2..6 => if let Some(place) = datagram.get_mut(position % 11) { *place = octet },
                _ => {}
            }
            let differs = datagram.get(9) == Some(&0x80);
            let received = worker.handle_datagram(now, &datagram);
            prop_assert!(received != Received::Differ || differs);
            worker.handle_timeout(now);
            if worker.failure().is_some() {
                break;
            }
        }
    }
}

#[test]
fn it_says_whether_there_is_a_packet_to_take() {
    let mut worker = worker(2);
    assert!(!worker.can_transmit(), "nothing was started");
    worker.start(integers(3), Instant::ZERO).unwrap();
    let mut sent = Vec::new();
    while worker.can_transmit() {
        sent.push(worker.poll_transmit(Instant::ZERO).expect("it said so"));
    }
    assert_eq!(worker.poll_transmit(Instant::ZERO), None);
    answer(&mut worker, Instant::ZERO, &sent[0]);
    assert!(worker.can_transmit(), "the slot is free for packet 2");
    worker.fail(Failure::Left);
    assert!(!worker.can_transmit());
    assert_eq!(worker.poll_transmit(Instant::ZERO), None);
}
