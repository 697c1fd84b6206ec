#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

extern crate std;

mod congestion;
mod losses;
mod results;

use core::time::Duration;
use std::vec;
use std::vec::Vec;

use super::*;
use crate::ids::{ChunkSize, JobId, LaneCount, LaneId, LaneLayout, Rank, Window};
use crate::numeric::{ElementType, Reduction, ScalingFactor};
use crate::wire::{HEADER_LEN, Header};

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

/// All packets that may be sent now, if each is answered when no more can be sent.
fn sendable_with_answers(worker: &mut Worker<'_>, now: Instant) -> Vec<Transmit> {
    let mut sent = Vec::new();
    let mut answered = 0;
    loop {
        sent.extend(sendable(worker, now));
        let Some(transmit) = sent.get(answered) else { return sent };
        answer(worker, now, transmit);
        answered += 1;
    }
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
                let sent = sendable_with_answers(&mut worker, Instant::ZERO);
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
fn t2_m3_a_slot_waits_for_its_own_result_also_over_small_collectives() {
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
fn t5_a_result_delivers_its_chunk_and_makes_the_slots_next_packet_sendable_at_once() {
    let mut worker = worker(2);
    worker.start(integers(5), Instant::ZERO).unwrap();
    let mut sent = sendable(&mut worker, Instant::ZERO);
    assert_eq!(seqs(&sent), [0, 1]);
    for (answered, chunk, sendable_then) in
        [(1, 1, vec![3]), (0, 0, vec![2]), (2, 3, vec![]), (3, 2, vec![4])]
    {
        let datagram = result(&sent[answered], -128);
        match worker.handle_datagram(at(MS), &datagram) {
            Received::Chunk(delivered) => assert_eq!(delivered.range, chunk * 32..(chunk + 1) * 32),
            other => panic!("{other:?}"),
        }
        let timeout = worker.poll_timeout().unwrap();
        assert_eq!(timeout == at(MS), !sendable_then.is_empty(), "output does not wait for a timer");
        let next = sendable(&mut worker, at(MS));
        assert_eq!(seqs(&next), sendable_then);
        sent.extend(next);
    }
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
    assert_eq!(seqs(&sendable(&mut worker, at(50 * MS))), [0], "a probe");
    worker.handle_timeout(at(100 * MS));
    let again = sendable(&mut worker, at(100 * MS));
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
