//! Every way to be no message.

extern crate std;

use std::string::ToString;
use std::vec;
use std::vec::Vec;

use proptest::prelude::*;

use super::super::*;
use super::properties::{any_message, emitted};

const NONCE: [u8; 8] = [1, 2, 3, 4, 5, 6, 7, 8];

fn head(kind: u8) -> [u8; 12] {
    [kind << 4 | PROTOCOL_VERSION, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8]
}

fn join() -> Vec<u8> {
    let body = [2, 1, 3, 1, 0, 128, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, b'j'];
    [&head(kind::JOIN)[..], &body].concat()
}

fn welcome() -> Vec<u8> {
    [&head(kind::WELCOME)[..], &[0; 32]].concat()
}

fn status(world_size: u8, ages: usize) -> Vec<u8> {
    let body = [0, 0, 0, 0, 0, world_size, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    [&head(kind::STATUS)[..], &body, &vec![0; 2 * ages]].concat()
}

/// `octets` with the octet `at` replaced.
fn with(octets: &[u8], at: usize, octet: u8) -> Vec<u8> {
    let mut changed = octets.to_vec();
    changed[at] = octet;
    changed
}

fn error(octets: &[u8]) -> ControlError {
    Message::parse(octets).unwrap_err()
}

#[test]
fn the_examples_here_parse_before_they_are_spoilt() {
    for octets in [join(), welcome(), status(2, 2)] {
        assert!(Message::parse(&octets).is_ok(), "{octets:?}");
    }
}

#[test]
fn nothing_is_no_message() {
    assert_eq!(error(&[]), ControlError::Length);
}

#[test]
fn kinds_that_no_message_has() {
    for kind in [0, 1, 15] {
        assert_eq!(error(&head(kind)), ControlError::Kind { kind });
    }
}

#[test]
fn another_version_is_refused_and_its_join_is_told() {
    for version in (0..16).filter(|&version| version != PROTOCOL_VERSION) {
        for kind in (0..16).filter(|&kind| kind != kind::JOIN) {
            let octets = with(&head(kind), 0, kind << 4 | version);
            assert_eq!(error(&octets), ControlError::Version { version });
        }
        let octets = with(&join(), 0, kind::JOIN << 4 | version);
        let nonce = Nonce(u64::from_be_bytes(NONCE));
        let foreign = Message::ForeignJoin { version, rank: 0, lane: 0, nonce };
        assert_eq!(Message::parse(&octets), Ok(foreign));
        assert_eq!(error(&octets[..MIN_JOIN_LEN - 1]), ControlError::Length, "the reject would be longer");
    }
}

#[test]
fn c1_a_join_is_not_shorter_than_its_name_and_options() {
    for len in 0..join().len() {
        assert_eq!(error(&join()[..len]), ControlError::Length, "{len} octets");
    }
    assert_eq!(error(&with(&join(), 15, 2)), ControlError::Length, "name longer than the datagram");
    assert_eq!(error(&with(&join(), 19, 1)), ControlError::Length, "options longer than the datagram");
}

#[test]
fn c5_a_join_with_an_option_is_told_apart() {
    let octets = [&with(&join(), 19, 3)[..], &[9, 9, 9]].concat();
    let nonce = Nonce(u64::from_be_bytes(NONCE));
    assert_eq!(error(&octets), ControlError::Option { rank: 0, lane: 0, nonce });
}

#[test]
fn w11_padding_of_join_and_welcome_is_0() {
    for octets in [join(), welcome()] {
        let padded = [&octets[..], &[0; 1000]].concat();
        assert_eq!(Message::parse(&padded), Message::parse(&octets));
        let last = padded.len() - 1;
        for at in [octets.len(), last] {
            assert_eq!(error(&with(&padded, at, 1)), ControlError::Padding);
        }
    }
}

#[test]
fn c1_values_that_a_join_cannot_have() {
    let spoilt = [
        (2, 2, "a rank beyond the world"),
        (2, 64, "no rank"),
        (3, 1, "a lane beyond the lanes"),
        (3, 16, "no lane"),
        (12, 0, "no worker"),
        (12, 65, "65 workers"),
        (13, 0, "no lane at all"),
        (13, 17, "17 lanes"),
        (14, 7, "a chunk without elements"),
        (17, 129, "a window that is no power of two"),
        (17, 0, "no slot"),
        (36, 0xff, "a name that is not UTF-8"),
    ];
    for (at, octet, why) in spoilt {
        assert_eq!(error(&with(&join(), at, octet)), ControlError::Value, "{why}");
    }
    let nameless = with(&join()[..MIN_JOIN_LEN], 15, 0);
    assert_eq!(error(&nameless), ControlError::Value, "no name");
    let long_name = [&with(&join(), 15, 65)[..], &[b'x'; 64]].concat();
    assert_eq!(error(&long_name), ControlError::Value, "a name of 65 octets");
}

#[test]
fn c2_values_that_a_welcome_cannot_have() {
    for (at, octet, why) in [(2, 64, "no rank"), (3, 16, "no lane"), (38, 2, "neither ready nor not")] {
        assert_eq!(error(&with(&welcome(), at, octet)), ControlError::Value, "{why}");
    }
}

#[test]
fn c1_values_that_a_reject_cannot_have() {
    let reject = |body: [u8; 8]| error(&[&head(kind::REJECT)[..], &body].concat());
    assert_eq!(reject([0, 0, 0, 0, 0, 0, 0, 0]), ControlError::Value, "no reason");
    assert_eq!(reject([12, 0, 0, 0, 0, 0, 0, 0]), ControlError::Value, "a reason that does not exist");
    assert_eq!(reject([2, 0, 0, 0, 0, 0, 0, 0]), ControlError::Value, "no field");
    assert_eq!(reject([2, 5, 0, 0, 0, 0, 0, 0]), ControlError::Value, "a field that does not exist");
    assert_eq!(reject([1, 0, 0, 0, 0, 0, 1, 0]), ControlError::Value, "a version of 9 bits");
    assert_eq!(reject([3, 1, 0, 0, 0, 0, 0, 0]), ControlError::Reserved, "a field where none is meant");
    assert_eq!(reject([3, 0, 0, 0, 0, 0, 0, 1]), ControlError::Reserved, "a detail where none is meant");
}

#[test]
fn c3_values_that_an_abort_cannot_have() {
    let abort = |body: [u8; 4]| error(&[&head(kind::ABORT)[..], &body].concat());
    assert_eq!(abort([0, 255, 0, 0]), ControlError::Value, "no reason");
    assert_eq!(abort([10, 255, 0, 0]), ControlError::Value, "a reason that does not exist");
    assert_eq!(abort([1, 64, 0, 0]), ControlError::Value, "no rank");
}

#[test]
fn c4_a_status_has_one_age_for_each_rank() {
    for (world_size, ages) in [(2, 1), (2, 3), (64, 63)] {
        assert_eq!(error(&status(world_size, ages)), ControlError::Length);
    }
    let half_an_age = [&status(2, 2)[..], &[0]].concat();
    assert_eq!(error(&half_an_age), ControlError::Length);
}

#[test]
fn c4_values_that_a_status_cannot_have() {
    assert_eq!(error(&status(0, 0)), ControlError::Value, "no worker");
    assert_eq!(error(&status(65, 65)), ControlError::Value, "65 workers");
    assert_eq!(error(&with(&status(2, 2), 16, 3)), ControlError::Value, "a phase that does not exist");
    assert_eq!(error(&with(&status(2, 2), 27, 4)), ControlError::Value, "rank 2 of 2 is missing");
    assert_eq!(error(&with(&status(2, 2), 3, 16)), ControlError::Value, "no lane");
}

#[test]
fn ranks_and_lanes_that_do_not_exist() {
    let nonce_follows = |kind| [&head(kind)[..], &NONCE].concat();
    for kind in [kind::CHALLENGE, kind::KEEP_ALIVE, kind::LEAVE, kind::ABORTED] {
        assert_eq!(error(&with(&nonce_follows(kind), 2, 64)), ControlError::Value, "kind {kind}");
    }
    assert_eq!(error(&with(&nonce_follows(kind::CHALLENGE), 3, 16)), ControlError::Value);
    let query = [&head(kind::QUERY)[..], &[0; 8]].concat();
    assert_eq!(error(&with(&query, 2, 64)), ControlError::Value);
    assert_eq!(error(&with(&query, 3, 16)), ControlError::Value);
}

#[test]
fn octets_without_use_are_0() {
    // Of each message, the octets that it has no use for.
    let unused: [(u8, usize, &[usize]); 13] = [
        (kind::JOIN, 25, &[1]),
        (kind::CHALLENGE, 8, &[1]),
        (kind::WELCOME, 32, &[39, 40, 41, 42, 43]),
        (kind::REJECT, 8, &[1, 14, 15]),
        (kind::KEEP_ALIVE, 8, &[3]),
        (kind::ALIVE, 8, &[1, 2, 3]),
        (kind::LEAVE, 8, &[3]),
        (kind::LEFT, 8, &[1, 2, 3]),
        (kind::ABORT, 4, &[3, 14, 15]),
        (kind::ABORTED, 8, &[1, 3]),
        (kind::QUERY, 8, &[16, 17, 18, 19]),
        (kind::STATUS, 20, &[1, 2, 18, 19]),
        (kind::NO_SESSION, 8, &[6, 7]),
    ];
    for (kind, body, places) in unused {
        let octets = match kind {
            kind::JOIN => join(),
            kind::STATUS => status(2, 2),
            kind::NO_SESSION => [&head(kind)[..6], &[0; 2]].concat(),
            kind::REJECT => [&head(kind)[..], &[3, 0, 0, 0, 0, 0, 0, 0]].concat(),
            kind::ABORT => [&head(kind)[..], &[1, 255, 0, 0]].concat(),
            _ => [&head(kind)[..], &vec![0; body]].concat(),
        };
        assert!(Message::parse(&octets).is_ok(), "kind {kind}");
        for &at in places {
            assert_eq!(error(&with(&octets, at, 1)), ControlError::Reserved, "kind {kind}, octet {at}");
        }
    }
}

#[test]
fn c1_each_reject_reason_says_what_to_do() {
    let slots = "no free slots for this window: 64 can be had now; use a smaller window, or wait for another job to end";
    for (reason, text) in [
        (
            RejectReason::ProtocolVersion { version: 2 },
            "it speaks protocol version 2, not 1: use programs of one release",
        ),
        (
            RejectReason::Disagrees { field: Field::Lanes, job_value: 3 },
            "the job's number of lanes is 3: all ranks must give the same",
        ),
        (RejectReason::RankTaken, "this rank is taken by another process: give each its own rank"),
        (RejectReason::NoFreeSlots { largest: 64 }, slots),
        (RejectReason::TooManyJobs, "its job table is full: wait for another job to end"),
        (RejectReason::TooManyMembers, "its member table is full: wait for another job to end"),
        (RejectReason::TooManyLanes { lanes: 2 }, "it has 2 lanes: use no more"),
        (
            RejectReason::ChunkTooLarge { largest: 256 },
            "the chunk is too large for it or for the path's MTU: use at most 256 elements",
        ),
        (RejectReason::ChunkTooLarge { largest: 0 }, "no chunk fits the path's MTU"),
        (
            RejectReason::UnknownOption,
            "the join has an option that it does not know: use programs of one release",
        ),
        (
            RejectReason::Ending,
            "a job of this name and run is just ending: try again later, or give another run id",
        ),
        (
            RejectReason::AddressTaken,
            "another lane or rank has joined from this address: give each lane a port of its own",
        ),
    ] {
        assert_eq!(reason.to_string(), text);
    }
}

proptest! {
    /// Too short and too long, for every message.
    #[test]
    fn a_message_has_exactly_its_length(message in any_message(), cut in 1_usize..MAX_CONTROL_LEN) {
        let octets = emitted(&message);
        let short = octets.len().saturating_sub(cut);
        prop_assert_eq!(Message::parse(&octets[..short]), Err(ControlError::Length));
        let padding_allowed =
            matches!(message, Message::Join(_) | Message::Welcome(_) | Message::ForeignJoin { .. });
        let long = [&octets[..], &[0]].concat();
        let expected = if padding_allowed { Ok(message) } else { Err(ControlError::Length) };
        prop_assert_eq!(Message::parse(&long), expected);
    }
}
