#![allow(clippy::unwrap_used, reason = "in a test, a panic is the answer")]
extern crate std;

use core::time::Duration;
use std::vec::Vec;

use super::*;
use crate::ids::WorldSize;
use crate::wire::{JobName, MAX_DATAGRAM_LEN};

fn member(lanes: usize) -> Member {
    let name = JobName::new("job").unwrap();
    let mut config = MemberConfig::new(name, WorldSize::new(2).unwrap(), Rank::new(1).unwrap()).unwrap();
    config.lanes = LaneCount::new(lanes).unwrap();
    Member::new(config, Nonce(5), Instant::ZERO).unwrap()
}

/// The millisecond and shape of each datagram that a lone member sends in its first two seconds.
fn sent(member: &mut Member) -> Vec<(u64, LaneId, usize)> {
    let mut buf = [0; MAX_DATAGRAM_LEN];
    let mut sent = Vec::new();
    while let Some(now) = member.poll_timeout().filter(|now| now.as_nanos() < 2_000_000_000) {
        member.handle_timeout(now);
        while let Some(MemberTransmit { lane, len }) = member.poll_transmit(now, &mut buf) {
            sent.push((now.as_nanos() / 1_000_000, lane, len));
        }
    }
    sent
}

#[test]
fn c1_joins_without_answer_are_repeated_after_20_ms_doubling_to_500() {
    let sent = sent(&mut member(1));
    let times: Vec<_> = sent.iter().map(|&(at, ..)| at).collect();
    assert_eq!(times, [0, 20, 60, 140, 300, 620, 1120, 1620]);
    assert!(sent.iter().all(|&(.., len)| len == 36 + 3), "short before there is a cookie");
}

#[test]
fn c1_every_lane_joins_for_itself() {
    let lanes: Vec<_> = sent(&mut member(3)).iter().take(3).map(|&(_, lane, _)| lane.get()).collect();
    assert_eq!(lanes, [0, 1, 2]);
}

#[test]
fn w11_joins_with_a_cookie_are_as_long_as_a_data_packet_and_each_third_is_short() {
    let mut member = member(1);
    let mut buf = [0; MAX_DATAGRAM_LEN];
    let (rank, lane, nonce) = (Rank::new(1).unwrap(), LaneId::ZERO, Nonce(5));
    let len = Message::Challenge { rank, lane, nonce, cookie: 9 }.emit(&mut buf);
    let heard = member.handle_datagram(Instant::ZERO, lane, &buf[..len]);
    assert_eq!(heard, Heard::Accepted);
    assert_eq!(member.handle_datagram(Instant::ZERO, lane, &buf[..len]), Heard::Stale, "a copy");
    let lens: Vec<_> = sent(&mut member).iter().map(|&(.., len)| len).collect();
    assert_eq!(lens[..6], [1034, 1034, 39, 1034, 1034, 39]);
}

#[test]
fn i3_cookies_that_change_for_ever_do_not_make_a_storm() {
    let mut member = member(1);
    let mut buf = [0; MAX_DATAGRAM_LEN];
    let (rank, lane, nonce) = (Rank::new(1).unwrap(), LaneId::ZERO, Nonce(5));
    let mut joins = 0;
    for millis in 0..1000 {
        let now = Instant::ZERO + Duration::from_millis(millis);
        let len = Message::Challenge { rank, lane, nonce, cookie: millis }.emit(&mut buf);
        member.handle_datagram(now, lane, &buf[..len]);
        while member.poll_transmit(now, &mut buf).is_some() {
            joins += 1;
        }
    }
    assert!((1..=52).contains(&joins), "{joins} joins in a second");
}

#[test]
fn c3_keep_alives_that_are_not_answered_go_through_every_lane() {
    let lease = Duration::from_secs(24);
    let lanes = LaneCount::new(2).unwrap();
    let mut pulse = Pulse::starting(Instant::ZERO, lease);
    let mut beats = Vec::new();
    while beats.len() < 4 {
        let now = pulse.due();
        beats.push((now.as_nanos() / 1_000_000_000, pulse.beat(now, lanes).unwrap().get()));
        assert_eq!(pulse.beat(now, lanes), None, "one at a time");
    }
    assert_eq!(beats, [(0, 0), (1, 1), (2, 0), (3, 1)]);
    pulse.answered();
    assert_eq!(pulse.due(), Instant::ZERO + Duration::from_secs(3 + 8), "a third after the last one");
}

#[test]
fn a_member_that_leaves_before_it_was_welcomed_has_left() {
    let mut member = member(1);
    member.leave(Instant::ZERO);
    assert_eq!(member.poll_event(), Some(MemberEvent::Left));
    assert_eq!(member.poll_timeout(), None);
    assert!(sent(&mut member).is_empty());
    // Whatever comes later changes nothing.
    member.abort(Instant::ZERO, AbortReason::Cancelled, None);
    member.query(Instant::ZERO, LaneId::ZERO, Seq(0));
    assert_eq!((member.poll_event(), member.poll_timeout()), (None, None));
}

#[test]
fn a_datagram_that_is_written_later_is_the_same() {
    let (mut writes, mut tells) = (member(2), member(2));
    let challenge = |member: &mut Member| {
        let (rank, lane, nonce) = (Rank::new(1).unwrap(), LaneId::ZERO, Nonce(5));
        let mut buf = [0; MAX_DATAGRAM_LEN];
        let len = Message::Challenge { rank, lane, nonce, cookie: 9 }.emit(&mut buf);
        let _heard = member.handle_datagram(Instant::ZERO, lane, &buf[..len]);
    };
    challenge(&mut writes);
    challenge(&mut tells);
    let mut count = 0;
    while let Some(now) = writes.poll_timeout().filter(|now| now.as_nanos() < 2_000_000_000) {
        writes.handle_timeout(now);
        tells.handle_timeout(now);
        let mut written = [1; MAX_DATAGRAM_LEN];
        let transmit = writes.poll_transmit(now, &mut written);
        let told = tells.poll_datagram(now);
        assert_eq!(transmit.map(|transmit| transmit.lane), told.map(|told| told.lane));
        let (Some(transmit), Some(told)) = (transmit, told) else { continue };
        // What was in the buffer before does not show.
        let mut late = std::vec![2; told.datagram.capacity()];
        let len = told.datagram.emit(&mut late);
        assert_eq!(late[..len], written[..transmit.len]);
        count += 1;
    }
    assert!(count > 10, "{count}");
}

#[test]
fn a_member_has_room_for_the_lanes_that_it_was_made_for() {
    let name = JobName::new("job").unwrap();
    let mut config = MemberConfig::new(name, WorldSize::new(2).unwrap(), Rank::new(1).unwrap()).unwrap();
    config.lanes = LaneCount::new(3).unwrap();
    let refused = SizedMember::<2>::new(config, Nonce(5), Instant::ZERO).err();
    assert_eq!(refused, Some(InvalidConfig::Lanes { lanes: config.lanes, room: 2 }));
    assert!(SizedMember::<3>::new(config, Nonce(5), Instant::ZERO).is_ok());
}
