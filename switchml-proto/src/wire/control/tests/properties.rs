//! What holds for all messages and all octets.

extern crate std;

use std::string::String;
use std::vec;
use std::vec::Vec;

use proptest::prelude::*;

use super::super::*;
use crate::ids::{ChunkSize, LaneCount, Window, WorkerSet};

/// The octets of `message`.
pub(super) fn emitted(message: &Message) -> Vec<u8> {
    let mut datagram = [0; MAX_CONTROL_LEN];
    let len = message.emit(&mut datagram);
    datagram[..len].to_vec()
}

fn any_rank() -> impl Strategy<Value = Rank> {
    (0..WorldSize::MAX).prop_map(|rank| Rank::new(rank).unwrap())
}

fn any_lane() -> impl Strategy<Value = LaneId> {
    (0..LaneCount::MAX).prop_map(|lane| LaneId::new(lane).unwrap())
}

fn any_name() -> impl Strategy<Value = JobName> {
    prop_oneof!["[a-z0-9-]{1,64}", "\\PC{1,16}"]
        .prop_filter_map("more than 64 octets", |name: String| JobName::new(&name))
}

prop_compose! {
    fn any_join()(
        name in any_name(), run in any::<u64>(), world_size in 1..=WorldSize::MAX, lanes in 1..=LaneCount::MAX,
    )(
        name in Just(name), run in Just(run), world_size in Just(world_size), lanes in Just(lanes),
        rank in 0..world_size, lane in 0..lanes, chunk in 0_u8..=6, window in 0_usize..=14, nonce in any::<u64>(), cookie in any::<u64>(),
    ) -> Join {
        Join {
            name,
            run,
            world_size: WorldSize::new(world_size).unwrap(),
            rank: Rank::new(rank).unwrap(),
            lanes: LaneCount::new(lanes).unwrap(),
            lane: LaneId::new(lane).unwrap(),
            chunk: ChunkSize::from_code(chunk).unwrap(),
            window: Window::new(1_usize << window).unwrap(),
            nonce: Nonce(nonce),
            cookie,
        }
    }
}

prop_compose! {
    fn any_welcome()(
        job in any::<u8>(), rank in any_rank(), lane in any_lane(), nonce in any::<u64>(), session in any::<u64>(), base in any::<u16>(), initial_seq in any::<u32>(),
        lease_millis in any::<u32>(), missing in any::<u64>(), ready in any::<bool>(),
    ) -> Welcome {
        Welcome {
            job: JobId(job),
            rank,
            lane,
            nonce: Nonce(nonce),
            session: SessionId(session),
            base,
            initial_seq: Seq(initial_seq),
            lease_millis,
            missing: WorkerSet::from_bits(missing),
            ready,
        }
    }
}

fn any_reject_reason() -> impl Strategy<Value = RejectReason> {
    let field = prop::sample::select(&[Field::WorldSize, Field::Lanes, Field::ChunkSize, Field::Window][..]);
    prop_oneof![
        any::<u8>().prop_map(|version| RejectReason::ProtocolVersion { version }),
        (field, any::<u32>()).prop_map(|(field, job_value)| RejectReason::Disagrees { field, job_value }),
        Just(RejectReason::RankTaken),
        any::<u32>().prop_map(|largest| RejectReason::NoFreeSlots { largest }),
        Just(RejectReason::TooManyJobs),
        Just(RejectReason::TooManyMembers),
        any::<u32>().prop_map(|lanes| RejectReason::TooManyLanes { lanes }),
        any::<u32>().prop_map(|largest| RejectReason::ChunkTooLarge { largest }),
        Just(RejectReason::UnknownOption),
        Just(RejectReason::Ending),
        Just(RejectReason::AddressTaken),
    ]
}

prop_compose! {
    fn any_status()(
        world_size in 1..=WorldSize::MAX, session in any::<u64>(), lane in any_lane(), seq in any::<u32>(),
        phase in prop::sample::select(&[PhaseState::Unknown, PhaseState::Open, PhaseState::Complete][..]),
        missing in any::<u64>(), ages in prop::collection::vec(any::<u16>(), WorldSize::MAX),
    ) -> StatusReport {
        let size = WorldSize::new(world_size).unwrap();
        let mut ages_millis = [0; WorldSize::MAX];
        ages_millis[..world_size].copy_from_slice(&ages[..world_size]);
        StatusReport {
            session: SessionId(session),
            lane,
            seq: Seq(seq),
            phase,
            missing: WorkerSet::from_bits(missing).and(WorkerSet::all(size)),
            world_size: size,
            ages_millis,
        }
    }
}

/// Every kind of message with every value that it can have.
pub(super) fn any_message() -> impl Strategy<Value = Message> {
    // Job, rank, lane, token and nonce, of which each kind takes what it has.
    let ids = || {
        (any::<u8>(), any_rank(), any_lane(), any::<u64>(), any::<u64>()).prop_map(
            |(job, rank, lane, token, nonce)| (JobId(job), rank, lane, SessionId(token), Nonce(nonce)),
        )
    };
    let abort = (ids(), 1_u8..=9, prop::option::of(any_rank()));
    prop_oneof![
        any_join().prop_map(Message::Join),
        any_welcome().prop_map(Message::Welcome),
        any_status().prop_map(Message::Status),
        (ids(), any::<u64>()).prop_map(|((_, rank, lane, _, nonce), cookie)| Message::Challenge {
            rank,
            lane,
            nonce,
            cookie
        }),
        (any::<u8>(), any::<u8>(), any::<u64>(), any_reject_reason()).prop_map(
            |(rank, lane, nonce, reason)| Message::Reject { rank, lane, nonce: Nonce(nonce), reason }
        ),
        ids().prop_map(|(job, rank, _, session, nonce)| Message::KeepAlive { job, rank, session, nonce }),
        ids().prop_map(|(_, _, _, session, nonce)| Message::Alive { session, nonce }),
        ids().prop_map(|(job, rank, _, session, nonce)| Message::Leave { job, rank, session, nonce }),
        ids().prop_map(|(_, _, _, session, nonce)| Message::Left { session, nonce }),
        abort.prop_map(|((job, rank, _, session, _), reason, culprit)| {
            let reason = AbortReason::from_raw(reason).unwrap();
            Message::Abort { job, rank, session, reason, culprit }
        }),
        ids().prop_map(|(_, rank, _, session, nonce)| Message::Aborted { rank, session, nonce }),
        (ids(), any::<u32>()).prop_map(|((job, rank, lane, session, _), seq)| {
            Message::Query { job, rank, lane, session, seq: Seq(seq) }
        }),
        (any::<u8>(), any::<u32>())
            .prop_map(|(job, seq)| Message::NoSession { job: JobId(job), seq: Seq(seq) }),
        (2_u8..16, any::<u8>(), any::<u8>(), any::<u64>()).prop_map(|(version, rank, lane, nonce)| {
            Message::ForeignJoin { version, rank, lane, nonce: Nonce(nonce) }
        }),
    ]
}

/// What the protocol promises of octets that parse: they are emitted again, but for padding, and but for what a
/// foreign join says beyond its head.
fn assert_emitted_again(datagram: &[u8], message: &Message) {
    let again = emitted(message);
    match message {
        Message::ForeignJoin { .. } => {
            assert_eq!(again[0], datagram[0]);
            assert_eq!(again[2..12], datagram[2..12]);
        }
        Message::Join(_) | Message::Welcome(_) => {
            let (said, padding) = datagram.split_at(again.len());
            assert_eq!(said, again);
            assert!(padding.iter().all(|&octet| octet == 0));
        }
        _ => assert_eq!(datagram, again),
    }
}

proptest! {
    #[test]
    fn every_message_round_trips(message in any_message(), padding in 0_usize..2000) {
        let mut octets = emitted(&message);
        if matches!(message, Message::Join(_) | Message::Welcome(_)) {
            octets.resize(octets.len() + padding, 0);
        }
        prop_assert_eq!(Message::parse(&octets), Ok(message));
    }

    /// A message with a few octets changed often still parses, and reaches what random octets would not.
    #[test]
    fn a_changed_message_that_parses_is_emitted_again(
        message in any_message(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let mut octets = emitted(&message);
        for (at, octet) in changes {
            let at = at.index(octets.len());
            octets[at] = octet;
        }
        if let Ok(message) = Message::parse(&octets) {
            assert_emitted_again(&octets, &message);
        }
    }

    #[test]
    fn random_octets_never_panic(
        first in prop_oneof![(0_u8..16).prop_map(|kind| kind << 4 | PROTOCOL_VERSION), any::<u8>()],
        rest in prop::collection::vec(prop_oneof![3 => 0_u8..4, 1 => any::<u8>()], 0..200),
    ) {
        let octets = [&[first][..], &rest].concat();
        if let Ok(message) = Message::parse(&octets) {
            assert_emitted_again(&octets, &message);
        }
    }
}
