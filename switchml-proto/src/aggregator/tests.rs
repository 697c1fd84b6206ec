#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

extern crate std;

mod entries;
mod reject;

use std::string::ToString;
use std::vec;
use std::vec::Vec;

use super::*;
use crate::ids::{JobId, LaneLayout, Rank, Seq, Version, Window, WorkerSet, WorldSize};
use crate::wire::{DataError, Header};

const K: usize = 32;

fn rank(rank: usize) -> Rank {
    Rank::new(rank).unwrap()
}

fn set(ranks: &[usize]) -> WorkerSet {
    ranks.iter().fold(WorkerSet::EMPTY, |set, &r| set.with(rank(r)))
}

fn session(job: u8, world_size: usize, base: u16, window: usize, initial_seq: u32) -> Session {
    let layout = LaneLayout::new(base, Window::new(window).unwrap(), ChunkSize::MIN).unwrap();
    Session {
        job: JobId(job),
        world_size: WorldSize::new(world_size).unwrap(),
        layout,
        initial_seq: Seq(initial_seq),
    }
}

/// Runs with an aggregator of 8 slots of 64 elements, 2 jobs and 6 ports.
fn with_aggregator(run: impl FnOnce(&mut Aggregator<'_>)) {
    let chunk = ChunkSize::from_elements(64).unwrap();
    let mut phases = [Phase::EMPTY; Storage::phases(8)];
    let mut elements = [0; Storage::elements(8, ChunkSize::DEFAULT)];
    let (mut jobs, mut ports) = ([Job::EMPTY; 2], [PortEntry::EMPTY; 6]);
    let storage =
        Storage { phases: &mut phases, elements: &mut elements, jobs: &mut jobs, ports: &mut ports };
    run(&mut Aggregator::new(storage, chunk, Kernels::PORTABLE).unwrap());
}

fn join(aggregator: &mut Aggregator<'_>, session: &Session) -> Vec<Port> {
    aggregator.install(session).unwrap();
    session.world_size.ranks().map(|rank| aggregator.bind(session.job, rank).unwrap()).collect()
}

fn header(session: &Session, seq: u32, size: PayloadSize) -> Header {
    Header::new(session.job, session.layout, Seq(seq), size, -5, 9)
}

/// A packet whose elements are all `value`.
fn full(session: &Session, seq: u32, value: i32) -> Vec<u8> {
    let header = header(session, seq, PayloadSize::Elements(session.layout.chunk()));
    let mut datagram = vec![0; header.datagram_len()];
    kernels::emit(&vec![value; session.layout.chunk().elements()], header.emit(&mut datagram));
    datagram
}

fn exponent_only(session: &Session, seq: u32, exponent: i8, digest: i8) -> Vec<u8> {
    let header = Header { exponent, digest, ..header(session, seq, PayloadSize::ExponentOnly) };
    let mut datagram = vec![0; header.datagram_len()];
    header.emit(&mut datagram);
    datagram
}

/// The reply as a packet: its header, and its elements where all are the same.
fn result(reply: &Reply<'_>) -> (Header, Option<i32>) {
    let mut datagram = vec![0xaa; reply.datagram_len()];
    assert_eq!(reply.emit(&mut datagram), datagram.len());
    let packet = Packet::parse(&datagram).unwrap();
    assert_eq!(packet.header(), reply.header());
    let mut elements = vec![0; packet.elements().len() / 4];
    kernels::store(packet.elements(), &mut elements);
    assert!(elements.windows(2).all(|pair| pair[0] == pair[1]));
    (*packet.header(), elements.first().copied())
}

/// Everything that a datagram might change but the counters.
fn state(aggregator: &Aggregator<'_>) -> (Vec<Phase>, Vec<i32>) {
    (aggregator.pool.phases.to_vec(), aggregator.pool.elements.to_vec())
}

/// Hands the datagrams in, in a lane in which one phase is complete and one is open, and expects them to be
/// rejected for `reason`, to change nothing, and to be counted.
fn rejected_for(reason: Reject, datagrams: impl Fn(&Session) -> Vec<Vec<u8>>) {
    with_aggregator(|aggregator| {
        let session = session(7, 2, 2, 4, 16);
        let ports = join(aggregator, &session);
        for (port, seq) in [(0, 16), (1, 16), (0, 17), (0, 20)] {
            let egress = aggregator.handle_datagram(Some(ports[port]), &full(&session, seq, 3));
            assert!(matches!(egress, Egress::Consume | Egress::Multicast(_)));
        }
        let before = state(aggregator);
        let datagrams = datagrams(&session);
        assert!(!datagrams.is_empty());
        for (i, datagram) in datagrams.iter().enumerate() {
            match aggregator.handle_datagram(Some(ports[1]), datagram) {
                Egress::Reject(got) => assert_eq!(got, reason, "datagram {i}"),
                other => panic!("datagram {i}: {other:?}"),
            }
            assert!(state(aggregator) == before, "datagram {i} changed the state");
        }
        let counters = aggregator.counters(ports[1]).unwrap();
        for (name, count) in counters.iter() {
            let expected = match name {
                "multicast" => 1,
                name if name == reason.name() => datagrams.len() as u64,
                _ => 0,
            };
            assert_eq!(count, expected, "{name}");
        }
    });
}

#[test]
fn a4_a_late_repetition_gets_the_stored_result_and_an_early_one_nothing() {
    with_aggregator(|aggregator| {
        let session = session(7, 2, 0, 1, 0);
        let ports = join(aggregator, &session);
        assert!(matches!(aggregator.handle_datagram(Some(ports[0]), &full(&session, 0, 1)), Egress::Consume));
        let open = state(aggregator);
        // Other elements under a seq that was seen: not looked at.
        assert!(matches!(aggregator.handle_datagram(Some(ports[0]), &full(&session, 0, 5)), Egress::Ignore));
        assert!(state(aggregator) == open);

        let Egress::Multicast(reply) = aggregator.handle_datagram(Some(ports[1]), &full(&session, 0, 2))
        else {
            panic!("not complete");
        };
        let stored = result(&reply);
        assert_eq!(stored, (header(&session, 0, PayloadSize::Elements(ChunkSize::MIN)), Some(3)));
        let complete = state(aggregator);
        let Egress::Unicast(reply) = aggregator.handle_datagram(Some(ports[0]), &full(&session, 0, 5)) else {
            panic!("not repeated");
        };
        assert_eq!((reply.job(), reply.rank(), result(&reply)), (JobId(7), rank(0), stored));
        assert!(state(aggregator) == complete);
    });
}

#[test]
fn a4_another_size_is_not_added_but_tells() {
    with_aggregator(|aggregator| {
        let session = session(7, 3, 0, 1, 0);
        let ports = join(aggregator, &session);
        let packets = [full(&session, 0, 4), exponent_only(&session, 0, 100, 9), full(&session, 0, 5)];
        for (port, packet) in ports.iter().zip(&packets[..2]) {
            assert!(matches!(aggregator.handle_datagram(Some(*port), packet), Egress::Consume));
        }
        let Egress::Multicast(reply) = aggregator.handle_datagram(Some(ports[2]), &packets[2]) else {
            panic!("not complete");
        };
        let (header, elements) = result(&reply);
        assert_eq!((header.exponent, header.digest, elements), (100, -128, Some(9)));

        // The other way round, the phase has no elements.
        let packets = [exponent_only(&session, 1, -100, 9), full(&session, 1, 5), full(&session, 1, 5)];
        let stored = aggregator.pool.elements.to_vec();
        for (port, packet) in ports.iter().zip(&packets[..2]) {
            assert!(matches!(aggregator.handle_datagram(Some(*port), packet), Egress::Consume));
        }
        let Egress::Multicast(reply) = aggregator.handle_datagram(Some(ports[2]), &packets[2]) else {
            panic!("not complete");
        };
        let (header, elements) = result(&reply);
        assert_eq!((header.exponent, header.digest, elements), (-5, -128, None));
        assert_eq!(aggregator.pool.elements, stored);
    });
}

#[test]
fn a4_digests_that_differ_stay_so() {
    with_aggregator(|aggregator| {
        let session = session(7, 4, 0, 1, 0);
        let ports = join(aggregator, &session);
        let digests = [1, 1, 2, 1];
        for (port, digest) in ports.iter().zip(digests) {
            let egress = aggregator.handle_datagram(Some(*port), &exponent_only(&session, 0, 0, digest));
            if let Egress::Multicast(reply) = egress {
                assert_eq!(reply.header().digest, -128);
                return;
            }
        }
        panic!("not complete");
    });
}

#[test]
fn a4_sums_wrap() {
    with_aggregator(|aggregator| {
        let session = session(7, 2, 0, 1, 0);
        let ports = join(aggregator, &session);
        assert!(matches!(
            aggregator.handle_datagram(Some(ports[0]), &full(&session, 0, i32::MAX)),
            Egress::Consume
        ));
        match aggregator.handle_datagram(Some(ports[1]), &full(&session, 0, 2)) {
            Egress::Multicast(reply) => assert_eq!(result(&reply).1, Some(i32::MIN + 1)),
            other => panic!("{other:?}"),
        }
    });
}

#[test]
fn w4_w6_a6_a_result_repeats_what_was_asked_and_the_largest_exponent() {
    with_aggregator(|aggregator| {
        let session = session(7, 3, 2, 4, 16);
        let ports = join(aggregator, &session);
        // Packet 21 is that of slot 2 + 1, version 1; its slot begins with packet 17.
        for seq in [17, 21] {
            let mut last = None;
            for (port, exponent) in ports.iter().zip([-128, 3, -5]) {
                let header =
                    Header { exponent, ..header(&session, seq, PayloadSize::Elements(ChunkSize::MIN)) };
                let mut datagram = vec![0; header.datagram_len()];
                kernels::emit(&[i32::from(exponent); K], header.emit(&mut datagram));
                if let Egress::Multicast(reply) = aggregator.handle_datagram(Some(*port), &datagram) {
                    last = Some(result(&reply));
                }
            }
            let asked = header(&session, seq, PayloadSize::Elements(ChunkSize::MIN));
            assert_eq!(last, Some((Header { exponent: 3, ..asked }, Some(-130))));
        }
        let (slot, version) = (session.layout.slot(Seq(21)), session.layout.version(Seq(21)));
        assert_eq!((slot, version), (3, Version::One));
    });
}

#[test]
fn a7_an_exponent_only_packet_is_a_phase_like_any_other() {
    with_aggregator(|aggregator| {
        let session = session(7, 2, 0, 1, 0);
        let ports = join(aggregator, &session);
        let before = aggregator.pool.elements.to_vec();
        let first = exponent_only(&session, 0, -20, 9);
        assert!(matches!(aggregator.handle_datagram(Some(ports[0]), &first), Egress::Consume));
        assert!(matches!(aggregator.handle_datagram(Some(ports[0]), &first), Egress::Ignore));
        let expected = Header { exponent: 5, ..header(&session, 0, PayloadSize::ExponentOnly) };
        match aggregator.handle_datagram(Some(ports[1]), &exponent_only(&session, 0, 5, 9)) {
            Egress::Multicast(reply) => assert_eq!(result(&reply), (expected, None)),
            other => panic!("{other:?}"),
        }
        match aggregator.handle_datagram(Some(ports[0]), &first) {
            Egress::Unicast(reply) => assert_eq!(result(&reply), (expected, None)),
            other => panic!("{other:?}"),
        }
        assert_eq!(aggregator.pool.elements, before);
        // The next phase of the slot may have elements.
        assert!(matches!(aggregator.handle_datagram(Some(ports[0]), &full(&session, 1, 4)), Egress::Consume));
    });
}

#[test]
fn a5_m2_one_worker_gets_each_of_its_own_packets_back() {
    with_aggregator(|aggregator| {
        let session = session(7, 1, 0, 2, 0_u32.wrapping_sub(8));
        let port = join(aggregator, &session)[0];
        for step in 0..20 {
            let seq = session.initial_seq.plus(step).0;
            match aggregator.handle_datagram(Some(port), &full(&session, seq, step as i32)) {
                Egress::Multicast(reply) => assert_eq!(result(&reply).1, Some(step as i32)),
                other => panic!("seq {seq}: {other:?}"),
            }
        }
        assert_eq!(aggregator.counters(port).unwrap().multicast, 20);
    });
}

#[test]
fn i1_a_duplicate_from_before_the_last_phase_does_not_begin_one() {
    // In the published algorithm this gives a wrong sum: the duplicate finds its bit clear in the new phase.
    with_aggregator(|aggregator| {
        let session = session(7, 2, 0, 1, 0);
        let ports = join(aggregator, &session);
        for seq in 0..3 {
            for port in &ports {
                let _ = aggregator.handle_datagram(Some(*port), &full(&session, seq, seq as i32));
            }
        }
        let stale = aggregator.handle_datagram(Some(ports[0]), &full(&session, 0, 100));
        assert!(matches!(stale, Egress::Reject(Reject::Stale)));
        let _ = aggregator.handle_datagram(Some(ports[1]), &full(&session, 3, 1));
        let stale = aggregator.handle_datagram(Some(ports[0]), &full(&session, 1, 100));
        assert!(matches!(stale, Egress::Reject(Reject::Stale)));
        match aggregator.handle_datagram(Some(ports[0]), &full(&session, 3, 1)) {
            Egress::Multicast(reply) => assert_eq!(result(&reply).1, Some(2)),
            other => panic!("{other:?}"),
        }
    });
}

#[test]
fn the_portable_kernels_use_network_byte_order_and_wrap() {
    let octets = [0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 1, 0xff, 0xff, 0xff, 0xfe];
    let mut elements = [0; 4];
    kernels::store(&octets, &mut elements);
    assert_eq!(elements, [i32::MAX, 1, -2, 0]);
    kernels::add(&octets, &mut elements);
    assert_eq!(elements, [-2, 2, -4, 0]);
    let mut emitted = [0; 12];
    kernels::emit(&elements, &mut emitted);
    assert_eq!(emitted, [0xff, 0xff, 0xff, 0xfe, 0, 0, 0, 2, 0xff, 0xff, 0xff, 0xfc]);
}

#[test]
fn a8_every_reason_has_its_own_counter_and_text() {
    let reasons = [
        (Reject::Malformed(DataError::Reserved), "malformed: a reserved bit is 1"),
        (Reject::ForeignJob, "the job is not the sender's"),
        (Reject::Slot, "the slot does not belong to the seq"),
        (Reject::Version, "the version does not belong to the seq"),
        (Reject::Size, "the size is not the job's"),
        (Reject::Digest, "the digest is not from 1 to 127"),
        (Reject::Stale, "the seq is of no phase in the slot, nor of its next"),
        (Reject::UnknownSource, "the source has not joined"),
    ];
    for (i, (reason, text)) in reasons.iter().enumerate() {
        assert_eq!((reason.index(), reason.to_string().as_str()), (i, *text));
    }
    let names: Vec<_> = Counters::ZERO.iter().map(|(name, _)| name).collect();
    assert_eq!(names[..4], ["consumed", "multicast", "retransmitted", "ignored"]);
    assert_eq!(names[4..], Reject::NAMES[..7]);
}
