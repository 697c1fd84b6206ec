#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

extern crate std;

use core::ops::Range;
use core::time::Duration;
use std::vec::Vec;
use std::{format, vec};

use proptest::prelude::*;

use super::*;
use crate::ids::{ChunkSize, JobId, LaneCount, LaneId, LaneLayout, Rank, Version, Window};
use crate::numeric::{ElementType, Reduction, ScalingFactor};
use crate::wire::{AbortReason, DataError, HEADER_LEN, Header, Packet, PayloadSize};

const JOB: JobId = JobId(3);
const FIRST: Seq = Seq(32);
const MS: Duration = Duration::from_millis(1);

fn config(window: usize) -> Config {
    let layout = LaneLayout::new(16, Window::new(window).unwrap(), ChunkSize::MIN).unwrap();
    Config::new(JOB, layout, FIRST, LaneId::ZERO, LaneCount::new(1).unwrap())
}

fn worker(window: usize) -> Worker<'static> {
    worker_with(config(window))
}

fn worker_with(config: Config) -> Worker<'static> {
    let slots = vec![Slot::EMPTY; config.layout.window().get().into()];
    Worker::new(config, slots.leak()).unwrap()
}

fn integers(chunks: u64) -> Collective {
    Collective::all_reduce(chunks * 32, ElementType::Int32, Reduction::Sum, Conversion::Integer).unwrap()
}

fn block(chunks: u64) -> Collective {
    Collective::all_reduce(chunks * 32, ElementType::Float32, Reduction::Sum, Conversion::Block).unwrap()
}

fn at(time: Duration) -> Instant {
    Instant::ZERO + time
}

/// All packets that may be sent now.
fn sendable(worker: &mut Worker<'_>, now: Instant) -> Vec<Transmit> {
    core::iter::from_fn(|| worker.poll_transmit(now)).collect()
}

fn seqs(transmits: &[Transmit]) -> Vec<u32> {
    transmits.iter().map(|transmit| transmit.header().seq.since(FIRST)).collect()
}

/// The result of a packet, with zeros for elements.
fn result(transmit: &Transmit, exponent: i8) -> Vec<u8> {
    let header = Header { exponent, ..*transmit.header() };
    datagram(&header)
}

fn datagram(header: &Header) -> Vec<u8> {
    let mut datagram = vec![0; header.datagram_len()];
    header.emit(&mut datagram);
    datagram
}

fn answer(worker: &mut Worker<'_>, now: Instant, transmit: &Transmit) {
    let datagram = result(transmit, -128);
    let received = worker.handle_datagram(now, &datagram);
    assert!(matches!(received, Received::Chunk(_) | Received::Exponent { .. }), "{received:?}");
}

#[test]
fn a_window_of_16_slots_takes_less_than_2_kib_with_its_worker() {
    assert!(size_of::<Worker<'_>>() + 16 * size_of::<Slot>() <= 2048);
}

#[test]
fn parameters_that_no_worker_can_have_are_refused() {
    let refused = |config, slots| Worker::new(config, vec![Slot::EMPTY; slots].leak()).unwrap_err();
    assert_eq!(refused(config(8), 7), ConfigError::Slots { expected: 8, got: 7 });
    let mut odd = config(8);
    odd.initial_seq = Seq(8);
    assert_eq!(refused(odd, 8), ConfigError::InitialSeq { initial_seq: Seq(8) });
    let mut lane = config(8);
    lane.lane = LaneId::new(1).unwrap();
    assert_eq!(refused(lane, 8), ConfigError::Lane { lane: lane.lane, lanes: lane.lanes });
    let mut rto = config(8);
    rto.rto.floor = rto.rto.ceiling + MS;
    assert_eq!(refused(rto, 8), ConfigError::Rto);
    rto.rto.floor = Duration::ZERO;
    assert_eq!(refused(rto, 8), ConfigError::Rto);
}

#[test]
fn collectives_that_the_protocol_does_not_know_cannot_be_built() {
    let fixed = Conversion::Fixed(ScalingFactor::new(2.0).unwrap());
    let build = |element, reduction, conversion| Collective::all_reduce(1, element, reduction, conversion);
    let mean = build(ElementType::Int32, Reduction::Mean, Conversion::Integer);
    assert_eq!(mean, Err(InvalidCollective::MeanOfIntegers));
    for (element, conversion) in [
        (ElementType::Int32, Conversion::Block),
        (ElementType::Int32, fixed),
        (ElementType::Float16, Conversion::Integer),
    ] {
        assert_eq!(build(element, Reduction::Sum, conversion), Err(InvalidCollective::Conversion));
    }
}

#[test]
fn t1_lanes_share_the_chunks_and_an_empty_share_sends_one_exponent_only_packet() {
    for lanes in 1..=16 {
        for chunks in [0, 1, 2, 15, 16, 17, 100] {
            let mut covered = 0;
            for lane in 0..lanes {
                let mut config = config(128);
                config.initial_seq = Seq(256);
                config.lanes = LaneCount::new(lanes).unwrap();
                config.lane = LaneId::new(lane).unwrap();
                let mut worker = worker_with(config);
                worker.start(integers(chunks), Instant::ZERO).unwrap();
                let sent = sendable(&mut worker, Instant::ZERO);
                for transmit in &sent {
                    if let Some(chunk) = transmit.encode() {
                        assert_eq!(chunk.range(), covered..covered + 32);
                        covered += 32;
                    } else {
                        assert_eq!((sent.len(), transmit.len()), (1, HEADER_LEN));
                    }
                }
                let share = |lane: usize| lane as u64 * chunks / lanes as u64;
                assert_eq!(sent.len() as u64, (share(lane + 1) - share(lane)).max(1));
            }
            assert_eq!(covered, chunks * 32);
        }
    }
}

#[test]
fn t1_lengths_near_2_to_64_are_shared_without_overflow() {
    let mut config = config(8);
    config.lanes = LaneCount::new(16).unwrap();
    config.lane = LaneId::new(15).unwrap();
    let collective = Collective::broadcast(u64::MAX, ElementType::Float16, Rank::new(0).unwrap());
    assert_eq!(worker_with(config).start(collective, Instant::ZERO), Err(StartError::TooLong));
}

#[test]
fn w3_collectives_of_2_to_30_packets_are_refused_and_change_nothing() {
    let mut worker = worker(8);
    assert_eq!(worker.start(integers(1 << 30), Instant::ZERO), Err(StartError::TooLong));
    // Block floating point sends W more.
    assert_eq!(worker.start(block((1 << 30) - 8), Instant::ZERO), Err(StartError::TooLong));
    assert_eq!(worker.poll_timeout(), None);
    let id = worker.start(block((1 << 30) - 9), Instant::ZERO).unwrap();
    assert_eq!(id, CollectiveId(0));
    let sent = sendable(&mut worker, Instant::ZERO);
    assert_eq!(sent[0].header().seq, FIRST);
}

#[test]
fn t2_a_slot_waits_for_its_own_result_also_over_small_collectives() {
    let mut worker = worker(4);
    let mut sent = Vec::new();
    for _ in 0..2 {
        worker.start(integers(2), Instant::ZERO).unwrap();
        sent.extend(sendable(&mut worker, Instant::ZERO));
    }
    assert_eq!(seqs(&sent), [0, 1, 2, 3]);
    // The first collective ends, the third starts: its packets 4 and 5 have their slots.
    answer(&mut worker, Instant::ZERO, &sent[1]);
    answer(&mut worker, Instant::ZERO, &sent[0]);
    assert_eq!(worker.poll_event(), Some(Event::Finished(CollectiveId(0))));
    worker.start(integers(4), Instant::ZERO).unwrap();
    let third = sendable(&mut worker, Instant::ZERO);
    assert_eq!(seqs(&third), [4, 5]);
    // Slot 3 is free before slot 2.
    answer(&mut worker, Instant::ZERO, &sent[3]);
    assert_eq!(seqs(&sendable(&mut worker, Instant::ZERO)), [7]);
    answer(&mut worker, Instant::ZERO, &sent[2]);
    assert_eq!(seqs(&sendable(&mut worker, Instant::ZERO)), [6]);
}

#[test]
fn t3_cells_belong_to_chunks_and_not_to_slots() {
    // The example of T-3: W = 4, C = 3, results in the order 0, 1, 4, 3, then 2 and 5.
    let mut worker = worker(4);
    worker.start(block(3), Instant::ZERO).unwrap();
    let told = sendable(&mut worker, Instant::ZERO);
    assert_eq!(seqs(&told), [0, 1, 2]);
    assert!(told.iter().all(|packet| packet.encode().is_none() && packet.scan().is_some()));
    let mut accept = |transmit: &Transmit, exponent| {
        let datagram = result(transmit, exponent);
        let decoded = match worker.handle_datagram(Instant::ZERO, &datagram) {
            Received::Chunk(chunk) => Some((chunk.range.start / 32, chunk.exponent)),
            Received::Exponent { .. } => None,
            other => panic!("{other:?}"),
        };
        (decoded, sendable(&mut worker, Instant::ZERO))
    };
    let exponent = |transmit: &Transmit| transmit.encode().unwrap().exponent();
    let (_, three) = accept(&told[0], 10);
    assert_eq!((seqs(&three), exponent(&three[0])), (vec![3], 10));
    let (_, four) = accept(&told[1], 11);
    assert_eq!((seqs(&four), exponent(&four[0])), (vec![4], 11));
    assert_eq!(accept(&four[0], -128).0, Some((1, 11)));
    assert_eq!(accept(&three[0], -128).0, Some((0, 10)));
    let (_, five) = accept(&told[2], 12);
    assert_eq!((seqs(&five), exponent(&five[0])), (vec![5], 12));
    assert_eq!(accept(&five[0], -128).0, Some((2, 12)));
    assert_eq!(worker.poll_event(), Some(Event::Finished(CollectiveId(0))));
}

#[test]
fn t3_a_packet_is_built_again_with_the_same_exponent() {
    let mut worker = worker(2);
    worker.start(block(9), Instant::ZERO).unwrap();
    let first = sendable(&mut worker, Instant::ZERO);
    let told = result(&first[1], 77);
    let received = worker.handle_datagram(Instant::ZERO, &told);
    assert!(matches!(received, Received::Exponent { .. }));
    let carrying = sendable(&mut worker, Instant::ZERO);
    worker.handle_timeout(at(50 * MS));
    let again = sendable(&mut worker, at(50 * MS));
    let same = again.iter().find(|transmit| transmit.header().seq == carrying[0].header().seq).unwrap();
    assert_eq!((same.encode(), same.scan()), (carrying[0].encode(), carrying[0].scan()));
    assert_eq!((same.encode().unwrap().exponent(), same.cause()), (77, Cause::Timeout));
}

#[test]
fn t3a_two_may_be_open_and_the_next_starts_when_all_of_the_one_before_is_sent() {
    let mut worker = worker(4);
    worker.start(integers(5), Instant::ZERO).unwrap();
    assert!(!worker.can_start());
    let first = sendable(&mut worker, Instant::ZERO);
    assert_eq!(worker.start(integers(1), Instant::ZERO), Err(StartError::Busy), "packet 4 was never sent");
    answer(&mut worker, Instant::ZERO, &first[0]);
    assert!(!worker.can_start());
    let last = sendable(&mut worker, Instant::ZERO);
    assert!(worker.can_start());
    assert_eq!(worker.start(integers(1), Instant::ZERO), Ok(CollectiveId(1)));
    for packet in &first[1..] {
        answer(&mut worker, Instant::ZERO, packet);
    }
    let second = sendable(&mut worker, Instant::ZERO);
    assert_eq!(worker.start(integers(1), Instant::ZERO), Err(StartError::Busy), "two are open");
    // The second may end before the first.
    answer(&mut worker, Instant::ZERO, &second[0]);
    assert_eq!(worker.start(integers(1), Instant::ZERO), Err(StartError::Busy), "its end is not told");
    assert_eq!(worker.poll_event(), Some(Event::Finished(CollectiveId(1))));
    assert_eq!(worker.poll_event(), None);
    assert_eq!(worker.start(integers(1), Instant::ZERO), Ok(CollectiveId(2)));
    answer(&mut worker, Instant::ZERO, &last[0]);
    assert_eq!(worker.poll_event(), Some(Event::Finished(CollectiveId(0))));
}

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
fn d1_a_digest_of_minus_128_fails_all_open_collectives() {
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

#[test]
fn t6_an_unanswered_packet_is_sent_again_at_its_deadline_and_not_before() {
    let mut worker = worker(4);
    worker.start(integers(1), Instant::ZERO).unwrap();
    assert_eq!(worker.poll_timeout(), Some(Instant::ZERO), "output waits");
    let sent = sendable(&mut worker, Instant::ZERO);
    assert_eq!(worker.poll_timeout(), Some(at(50 * MS)));
    let before = format!("{:?}{:?}{:?}", worker.slots, worker.rto, worker.stats);
    for early in [0, 1, 49] {
        worker.handle_timeout(at(early * MS));
        assert_eq!(worker.poll_transmit(at(early * MS)), None);
    }
    assert_eq!(format!("{:?}{:?}{:?}", worker.slots, worker.rto, worker.stats), before);
    worker.handle_timeout(at(50 * MS));
    assert_eq!(worker.poll_timeout(), Some(at(50 * MS)), "output waits");
    let again = sendable(&mut worker, at(50 * MS));
    assert_eq!(again[0].header(), sent[0].header());
    assert!(again[0].is_retransmission() && !sent[0].is_retransmission());
    assert_eq!(worker.poll_timeout(), Some(at(150 * MS)), "twice as long");
    assert_eq!((worker.stats().sent, worker.stats().timeouts, worker.stats().expiries), (1, 1, 1));
}

#[test]
fn t6_packets_due_together_double_the_back_off_once() {
    let mut worker = worker(4);
    worker.start(integers(4), Instant::ZERO).unwrap();
    for i in 0..4 {
        assert!(worker.poll_transmit(at(i * MS)).is_some());
    }
    worker.handle_timeout(at(50 * MS));
    assert_eq!((worker.stats().expiries, sendable(&mut worker, at(50 * MS)).len()), (1, 4));
    assert_eq!(worker.rto(), 100 * MS);
}

#[test]
fn t6_the_end_of_a_back_off_gives_all_under_way_a_new_timeout() {
    let mut worker = worker(4);
    worker.start(integers(4), Instant::ZERO).unwrap();
    let sent = sendable(&mut worker, Instant::ZERO);
    worker.handle_timeout(at(50 * MS));
    sendable(&mut worker, at(50 * MS));
    answer(&mut worker, at(120 * MS), &sent[2]);
    assert_eq!((worker.rto(), worker.poll_timeout()), (50 * MS, Some(at(170 * MS))));
}

#[test]
fn t8_no_result_for_the_stall_time_fails_and_names_the_oldest_packet() {
    let mut config = config(4);
    config.stall_time = Duration::from_secs(5);
    let mut worker = worker_with(config);
    worker.start(integers(4), at(MS)).unwrap();
    let sent = sendable(&mut worker, at(MS));
    answer(&mut worker, at(2 * MS), &sent[0]);
    let stalls_at = at(2 * MS) + config.stall_time;
    let waiting = worker.waiting().unwrap();
    assert_eq!(
        (waiting.seq, waiting.since, waiting.collective),
        (FIRST.plus(1), at(2 * MS), CollectiveId(0))
    );
    let mut now = at(2 * MS);
    while worker.failure().is_none() {
        assert_eq!(worker.poll_event(), None);
        sendable(&mut worker, now);
        now = worker.poll_timeout().unwrap();
        worker.handle_timeout(now);
    }
    assert_eq!(now, stalls_at);
    assert_eq!(worker.waiting(), Some(waiting));
    let failure = Failure::Stalled { seq: FIRST.plus(1) };
    assert_eq!(worker.poll_event(), Some(Event::Failed { collective: CollectiveId(0), failure }));
    assert_eq!(worker.waiting(), None);
}

#[test]
fn t8_idle_time_is_no_stall() {
    let mut worker = worker(4);
    let long = 2 * Config::STALL_TIME;
    worker.handle_timeout(at(long));
    worker.start(integers(1), at(2 * long)).unwrap();
    worker.handle_timeout(at(3 * long));
    let sent = sendable(&mut worker, at(4 * long));
    worker.handle_timeout(at(4 * long + MS));
    answer(&mut worker, at(4 * long + MS), &sent[0]);
    worker.handle_timeout(at(9 * long));
    assert_eq!((worker.failure(), worker.poll_timeout()), (None, None));
    assert_eq!(worker.poll_event(), Some(Event::Finished(CollectiveId(0))));
}

#[test]
fn t8_an_ended_session_fails_what_is_open_but_not_what_has_ended() {
    let mut worker = worker(4);
    worker.start(integers(1), Instant::ZERO).unwrap();
    let first = sendable(&mut worker, Instant::ZERO);
    worker.start(integers(1), Instant::ZERO).unwrap();
    answer(&mut worker, Instant::ZERO, &first[0]);
    let culprit = Some(Rank::new(2).unwrap());
    let failure = Failure::Aborted { reason: AbortReason::LeaseExpired, culprit };
    worker.fail(failure);
    worker.fail(Failure::AggregatorLost);
    assert_eq!(worker.poll_event(), Some(Event::Finished(CollectiveId(0))));
    assert_eq!(worker.poll_event(), Some(Event::Failed { collective: CollectiveId(1), failure }));
    assert_eq!((worker.poll_event(), worker.can_start()), (None, false));
    assert_eq!(format!("{failure}"), "session aborted because of rank 2: a lease ran out");
}

#[test]
fn t9_a_packet_overtaken_by_more_than_the_allowance_is_sent_again_once() {
    let mut worker = worker(4);
    worker.start(integers(9), Instant::ZERO).unwrap();
    let first = sendable(&mut worker, Instant::ZERO);
    for packet in &first[1..] {
        answer(&mut worker, at(MS / 10), packet);
    }
    // Results of packets sent at the same time say nothing.
    let second = sendable(&mut worker, at(MS));
    assert_eq!(seqs(&second), [5, 6, 7]);
    answer(&mut worker, at(MS + MS / 10), &second[0]);
    let early = sendable(&mut worker, at(MS + MS / 10));
    assert_eq!(early[0].header().seq, first[0].header().seq);
    assert_eq!(early[0].cause(), Cause::Overtaken);
    // Once only: from now on it has its deadline.
    for packet in &second[1..] {
        answer(&mut worker, at(3 * MS), packet);
    }
    assert_eq!(sendable(&mut worker, at(3 * MS)), []);
    assert_eq!(worker.stats().overtaken, 1);
    assert_eq!(worker.poll_timeout(), Some(at(MS + MS / 10) + worker.rto()));
}

#[test]
fn t9_results_of_packets_sent_twice_overtake_nothing() {
    let mut worker = worker(2);
    worker.start(integers(2), Instant::ZERO).unwrap();
    assert!(worker.poll_transmit(Instant::ZERO).is_some());
    let second = worker.poll_transmit(at(20 * MS)).unwrap();
    worker.handle_timeout(at(50 * MS));
    assert_eq!(sendable(&mut worker, at(50 * MS)).len(), 1);
    worker.handle_timeout(at(120 * MS));
    assert_eq!(sendable(&mut worker, at(120 * MS)).len(), 1);
    answer(&mut worker, at(121 * MS), &second);
    assert_eq!(worker.poll_transmit(at(121 * MS)), None);
}

#[test]
fn a_clock_that_goes_back_is_held() {
    let mut worker = worker(2);
    worker.start(integers(2), at(10 * MS)).unwrap();
    sendable(&mut worker, Instant::ZERO);
    assert_eq!(worker.poll_timeout(), Some(at(60 * MS)));
    worker.handle_timeout(Instant::from_nanos(u64::MAX));
    assert!(matches!(worker.failure(), Some(Failure::Stalled { .. })));
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
