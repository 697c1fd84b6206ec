//! Every message against octets written by hand after the tables of the protocol text.

extern crate std;

use std::format;

use super::super::*;
use crate::ids::{ChunkSize, LaneCount, Window, WorkerSet};

/// An octet array for each message, and the message that it is.
macro_rules! messages {
    ($($name:ident: $octets:expr => $message:expr;)*) => {
        $(mod $name {
            use super::*;

            #[test]
            fn parses() {
                assert_eq!(Message::parse(&$octets), Ok($message));
            }

            #[test]
            fn emits() {
                let mut datagram = [0xaa; MAX_CONTROL_LEN];
                let len = $message.emit(&mut datagram);
                assert_eq!(datagram[..len], $octets);
                assert!(datagram[len..].iter().all(|&octet| octet == 0xaa), "written beyond its length");
            }
        })*
    };
}

const NONCE: Nonce = Nonce(0x0102_0304_0506_0708);
const SESSION: SessionId = SessionId(0xa1a2_a3a4_a5a6_a7a8);

fn rank(rank: usize) -> Rank {
    Rank::new(rank).unwrap()
}

fn lane(lane: usize) -> LaneId {
    LaneId::new(lane).unwrap()
}

fn status() -> StatusReport {
    let mut ages_millis = [0; WorldSize::MAX];
    ages_millis[..3].copy_from_slice(&[0, 0x0102, STATUS_AGE_UNKNOWN]);
    StatusReport {
        session: SESSION,
        lane: lane(2),
        seq: Seq(0x1122_3344),
        phase: PhaseState::Open,
        missing: WorkerSet::EMPTY.with(rank(1)).with(rank(2)),
        world_size: WorldSize::new(3).unwrap(),
        ages_millis,
    }
}

messages! {
    join: [
        0x21, 0, 3, 1, 1, 2, 3, 4, 5, 6, 7, 8, // kind and version, job, rank, lane, nonce
        4, 2, 3, 2, 0, 128, 0, 0, // world size, lanes, chunk, name's length, window, options' length
        0xb1, 0xb2, 0xb3, 0xb4, 0xb5, 0xb6, 0xb7, 0xb8, // run
        0xc1, 0xc2, 0xc3, 0xc4, 0xc5, 0xc6, 0xc7, 0xc8, // cookie
        b'm', b'l',
    ] => Message::Join(Join {
        name: JobName::new("ml").unwrap(),
        run: 0xb1b2_b3b4_b5b6_b7b8,
        world_size: WorldSize::new(4).unwrap(),
        rank: rank(3),
        lanes: LaneCount::new(2).unwrap(),
        lane: lane(1),
        chunk: ChunkSize::DEFAULT,
        window: Window::DEFAULT,
        nonce: NONCE,
        cookie: 0xc1c2_c3c4_c5c6_c7c8,
    });
    challenge: [
        0x31, 0, 3, 1, 1, 2, 3, 4, 5, 6, 7, 8,
        0xc1, 0xc2, 0xc3, 0xc4, 0xc5, 0xc6, 0xc7, 0xc8, // cookie
    ] => Message::Challenge { rank: rank(3), lane: lane(1), nonce: NONCE, cookie: 0xc1c2_c3c4_c5c6_c7c8 };
    welcome: [
        0x41, 9, 3, 1, 1, 2, 3, 4, 5, 6, 7, 8,
        0xa1, 0xa2, 0xa3, 0xa4, 0xa5, 0xa6, 0xa7, 0xa8, // session
        0x80, 0, 0, 0, 0, 0, 0, 5, // missing: ranks 0, 2 and 63
        0x12, 0x34, 0x56, 0, // initial seq
        0, 0, 0x13, 0x88, // lease: 5,000 ms
        0x01, 0x80, 0, 0, 0, 0, 0, 0, // base, ready, reserved
    ] => Message::Welcome(Welcome {
        job: JobId(9),
        rank: rank(3),
        lane: lane(1),
        nonce: NONCE,
        session: SESSION,
        base: 384,
        initial_seq: Seq(0x1234_5600),
        lease_millis: 5_000,
        missing: WorkerSet::EMPTY.with(rank(0)).with(rank(2)).with(rank(63)),
        ready: false,
    });
    reject: [
        0x51, 0, 3, 1, 1, 2, 3, 4, 5, 6, 7, 8,
        2, 3, 0, 0, 0, 0, 2, 0, // reason, field, reserved, detail: 512 elements
    ] => Message::Reject {
        rank: 3,
        lane: 1,
        nonce: NONCE,
        reason: RejectReason::Disagrees { field: Field::ChunkSize, job_value: 512 },
    };
    keep_alive: [
        0x61, 9, 3, 0, 0xa1, 0xa2, 0xa3, 0xa4, 0xa5, 0xa6, 0xa7, 0xa8,
        1, 2, 3, 4, 5, 6, 7, 8, // nonce
    ] => Message::KeepAlive { job: JobId(9), rank: rank(3), session: SESSION, nonce: NONCE };
    alive: [
        0x71, 0, 0, 0, 0xa1, 0xa2, 0xa3, 0xa4, 0xa5, 0xa6, 0xa7, 0xa8,
        1, 2, 3, 4, 5, 6, 7, 8,
    ] => Message::Alive { session: SESSION, nonce: NONCE };
    leave: [
        0x81, 9, 3, 0, 0xa1, 0xa2, 0xa3, 0xa4, 0xa5, 0xa6, 0xa7, 0xa8,
        1, 2, 3, 4, 5, 6, 7, 8,
    ] => Message::Leave { job: JobId(9), rank: rank(3), session: SESSION, nonce: NONCE };
    left: [
        0x91, 0, 0, 0, 0xa1, 0xa2, 0xa3, 0xa4, 0xa5, 0xa6, 0xa7, 0xa8,
        1, 2, 3, 4, 5, 6, 7, 8,
    ] => Message::Left { session: SESSION, nonce: NONCE };
    abort: [
        0xa1, 9, 3, 0, 0xa1, 0xa2, 0xa3, 0xa4, 0xa5, 0xa6, 0xa7, 0xa8,
        1, 2, 0, 0, // reason, culprit, reserved
    ] => Message::Abort {
        job: JobId(9),
        rank: rank(3),
        session: SESSION,
        reason: AbortReason::LeaseExpired,
        culprit: Some(rank(2)),
    };
    abort_that_no_rank_caused: [
        0xa1, 9, 3, 0, 0xa1, 0xa2, 0xa3, 0xa4, 0xa5, 0xa6, 0xa7, 0xa8,
        9, 255, 0, 0,
    ] => Message::Abort {
        job: JobId(9),
        rank: rank(3),
        session: SESSION,
        reason: AbortReason::Shutdown,
        culprit: None,
    };
    aborted: [
        0xb1, 0, 3, 0, 0xa1, 0xa2, 0xa3, 0xa4, 0xa5, 0xa6, 0xa7, 0xa8,
        1, 2, 3, 4, 5, 6, 7, 8,
    ] => Message::Aborted { rank: rank(3), session: SESSION, nonce: NONCE };
    query: [
        0xc1, 9, 3, 2, 0xa1, 0xa2, 0xa3, 0xa4, 0xa5, 0xa6, 0xa7, 0xa8,
        0x11, 0x22, 0x33, 0x44, 0, 0, 0, 0, // seq, reserved
    ] => Message::Query { job: JobId(9), rank: rank(3), lane: lane(2), session: SESSION, seq: Seq(0x1122_3344) };
    status_of_three: [
        0xd1, 0, 0, 2, 0xa1, 0xa2, 0xa3, 0xa4, 0xa5, 0xa6, 0xa7, 0xa8,
        0x11, 0x22, 0x33, 0x44, 1, 3, 0, 0, // seq, phase, world size, reserved
        0, 0, 0, 0, 0, 0, 0, 6, // missing: ranks 1 and 2
        0, 0, 1, 2, 0xff, 0xff, // ages
    ] => Message::Status(status());
    no_session: [0xe1, 9, 0x11, 0x22, 0x33, 0x44, 0, 0] => Message::NoSession { job: JobId(9), seq: Seq(0x1122_3344) };
    foreign_join: [
        0x2f, 0, 200, 201, 1, 2, 3, 4, 5, 6, 7, 8,
        0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    ] => Message::ForeignJoin { version: 15, rank: 200, lane: 201, nonce: NONCE };
}

/// Reason, field and detail of each reject, as the protocol text lists them.
#[test]
fn c1_each_reject_reason_has_its_octets() {
    let disagrees = |field| RejectReason::Disagrees { field, job_value: 0x0102_0304 };
    let listed = [
        (RejectReason::ProtocolVersion { version: 1 }, [1, 0, 0, 0, 0, 0, 0, 1]),
        (disagrees(Field::WorldSize), [2, 1, 0, 0, 1, 2, 3, 4]),
        (disagrees(Field::Lanes), [2, 2, 0, 0, 1, 2, 3, 4]),
        (disagrees(Field::ChunkSize), [2, 3, 0, 0, 1, 2, 3, 4]),
        (disagrees(Field::Window), [2, 4, 0, 0, 1, 2, 3, 4]),
        (RejectReason::RankTaken, [3, 0, 0, 0, 0, 0, 0, 0]),
        (RejectReason::NoFreeSlots { largest: 64 }, [4, 0, 0, 0, 0, 0, 0, 64]),
        (RejectReason::TooManyJobs, [5, 0, 0, 0, 0, 0, 0, 0]),
        (RejectReason::TooManyMembers, [6, 0, 0, 0, 0, 0, 0, 0]),
        (RejectReason::TooManyLanes { lanes: 4 }, [7, 0, 0, 0, 0, 0, 0, 4]),
        (RejectReason::ChunkTooLarge { largest: 256 }, [8, 0, 0, 0, 0, 0, 1, 0]),
        (RejectReason::UnknownOption, [9, 0, 0, 0, 0, 0, 0, 0]),
        (RejectReason::Ending, [10, 0, 0, 0, 0, 0, 0, 0]),
        (RejectReason::AddressTaken, [11, 0, 0, 0, 0, 0, 0, 0]),
    ];
    for (reason, octets) in listed {
        let mut datagram = [0; MAX_CONTROL_LEN];
        let message = Message::Reject { rank: 0, lane: 0, nonce: NONCE, reason };
        let len = message.emit(&mut datagram);
        assert_eq!(datagram[12..len], octets, "{reason:?}");
        assert_eq!(Message::parse(&datagram[..len]), Ok(message));
    }
}

#[test]
fn c3_each_abort_reason_has_its_octet() {
    let listed = [
        AbortReason::LeaseExpired,
        AbortReason::Left,
        AbortReason::CollectivesDiffer,
        AbortReason::Stalled,
        AbortReason::Cancelled,
        AbortReason::UnknownSession,
        AbortReason::Evicted,
        AbortReason::JoinTimeout,
        AbortReason::Shutdown,
    ];
    for (octet, reason) in (1..).zip(listed) {
        let mut datagram = [0; MAX_CONTROL_LEN];
        let message =
            Message::Abort { job: JobId(0), rank: Rank::ZERO, session: SESSION, reason, culprit: None };
        let len = message.emit(&mut datagram);
        assert_eq!(datagram[12], octet, "{reason:?}");
        assert_eq!(Message::parse(&datagram[..len]), Ok(message));
    }
}

#[test]
fn c4_a_status_of_64_workers_is_the_longest_message() {
    let report = StatusReport { world_size: WorldSize::new(64).unwrap(), ..status() };
    let mut datagram = [0; MAX_CONTROL_LEN];
    assert_eq!(Message::Status(report).emit(&mut datagram), MAX_CONTROL_LEN);
    assert_eq!(Message::parse(&datagram), Ok(Message::Status(report)));
}

#[test]
fn c1_a_name_has_1_to_64_octets_of_utf8() {
    assert_eq!(JobName::new(""), None);
    let longest = "é".repeat(32);
    assert_eq!(JobName::new(&longest).unwrap().as_str(), longest);
    assert_eq!(JobName::new(&format!("{longest}x")), None);
}

#[test]
fn a_name_cannot_forge_a_line_of_a_log() {
    let name = JobName::new("a\nb\u{1b}[2Jc\u{9b}\u{e9}").unwrap();
    assert_eq!(format!("{name}"), "a\\nb\\u{1b}[2Jc\\u{9b}\u{e9}");
    assert_eq!(name.as_str(), "a\nb\u{1b}[2Jc\u{9b}\u{e9}");
}
