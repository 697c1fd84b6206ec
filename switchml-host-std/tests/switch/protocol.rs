//! Data packets, control messages, and bad input of every kind.

use core::net::{IpAddr, Ipv6Addr};
use std::time::Instant;

use switchml_host_std::{SocketCalls, Switch};
use switchml_proto::aggregator::Counters;
use switchml_proto::control::SessionState;
use switchml_proto::wire::{Header, Message, PayloadSize, RejectReason};
use switchml_proto::{ChunkSize, JobId, LaneCount, Seq, Version, Window};

use crate::support::{
    LOCALHOST, PATIENCE, Peer, RunningSwitch, SILENCE, Worker, challenged, config, datagram, job, join_of,
    padded, results,
};

#[test]
fn a4_the_last_contribution_brings_the_sum_to_all_and_a_repetition_to_one() {
    for calls in [SocketCalls::Batched, SocketCalls::Single] {
        for listen in [LOCALHOST, IpAddr::V6(Ipv6Addr::LOCALHOST)] {
            let mut config = config(listen);
            config.calls = calls;
            let switch = RunningSwitch::start(config);
            let workers = job(switch.address, "sums", 3, 1);
            for seq in 0..20 {
                for (worker, value) in workers.iter().zip([1, 20, -300]) {
                    worker.peer.send(&worker.packet(seq, value));
                }
                for worker in &workers {
                    assert_eq!(worker.result(), (seq, -279));
                }
            }
            workers[1].peer.send(&workers[1].packet(19, 20));
            assert_eq!(workers[1].result(), (19, -279));
            assert_eq!(workers[0].result_within(SILENCE), None);

            let session = &switch.snapshot().sessions[0];
            let total = |count: fn(&Counters) -> u64| {
                session.ports.iter().map(|port| count(&port.counters)).sum::<u64>()
            };
            assert_eq!((session.name.as_str(), session.state), ("sums", SessionState::Ready));
            assert_eq!(session.ports[1].counters.retransmitted, 1);
            let counts = [total(|c| c.consumed), total(|c| c.multicast), total(|c| c.retransmitted)];
            assert_eq!(counts, [40, 20, 1]);
            workers.iter().for_each(Worker::leave);
        }
    }
}

#[test]
fn w9_lanes_are_ports_and_share_nothing() {
    let mut config = config(LOCALHOST);
    config.lanes = LaneCount::new(3).expect("valid");
    let switch = RunningSwitch::start(config);
    let workers = job(switch.address, "lanes", 2, 3);
    for lane in [2, 0, 1] {
        let pair = [&workers[lane], &workers[3 + lane]];
        for worker in pair {
            worker.peer.send(&worker.packet(0, 1 + lane as i32));
        }
        for worker in pair {
            assert_eq!(worker.result(), (0, 2 + 2 * lane as i32));
        }
    }
    let snapshot = switch.snapshot();
    let per_port =
        snapshot.sessions[0].ports.iter().map(|port| port.counters.consumed + port.counters.multicast);
    assert_eq!(per_port.collect::<Vec<_>>(), [1; 6]);
    // Neither leaves first while the other waits for something: this is a clean end.
    workers.iter().step_by(3).for_each(Worker::leave);
    switch.snapshot_when(|snapshot| snapshot.sessions.is_empty());
}

#[test]
fn two_jobs_at_once_do_not_touch_each_other() {
    let switch = RunningSwitch::start(config(LOCALHOST));
    let jobs = [job(switch.address, "one", 2, 1), job(switch.address, "two", 2, 1)];
    assert_ne!(jobs[0][0].welcome.job, jobs[1][0].welcome.job);
    for seq in 0..12 {
        // Interleaved, so that both jobs have results in one batch.
        for rank in 0..2 {
            for (job, value) in jobs.iter().zip([3, 5]) {
                job[rank].peer.send(&job[rank].packet(seq, value));
            }
        }
        for (job, value) in jobs.iter().zip([6, 10]) {
            assert_eq!(results(job), [(seq, value); 2]);
        }
    }
    jobs[0].iter().for_each(Worker::leave);
    switch.snapshot_when(|snapshot| snapshot.sessions.len() == 1);
    jobs[1].iter().for_each(|worker| worker.peer.send(&worker.packet(12, 1)));
    assert_eq!(results(&jobs[1]), [(12, 2); 2]);
}

#[test]
fn a1_each_reason_to_reject_is_counted_and_changes_nothing() {
    let switch = RunningSwitch::start(config(LOCALHOST));
    let workers = job(switch.address, "rejects", 2, 1);
    let worker = &workers[0];
    let header = worker.header(0);
    let good = worker.packet(0, 5);
    let bad: [(&str, Vec<u8>); 9] = [
        ("malformed", good[..good.len() - 1].to_vec()),
        ("malformed", [&good[..], &[0]].concat()),
        ("malformed", [&good[..], &[0; 9000]].concat()),
        ("foreign_job", datagram(&Header { job: JobId(header.job.0.wrapping_add(1)), ..header }, 1)),
        ("slot", datagram(&Header { slot: header.slot ^ 1, ..header }, 1)),
        ("version", datagram(&Header { version: Version::One, ..header }, 1)),
        ("size", datagram(&Header { size: PayloadSize::Elements(ChunkSize::DEFAULT), ..header }, 1)),
        ("digest", datagram(&Header { digest: 0, ..header }, 1)),
        ("stale", datagram(&worker.header(4_u32.wrapping_neg()), 1)),
    ];
    for (sent, (reason, octets)) in (1..).zip(&bad) {
        worker.peer.send(octets);
        let snapshot = switch.snapshot_when(|snapshot| {
            snapshot.sessions[0].ports[0].counters.rejected.iter().sum::<u64>() == sent
        });
        let counters = snapshot.sessions[0].ports[0].counters;
        let expected = bad[..sent as usize].iter().filter(|(other, _)| other == reason).count() as u64;
        let counted = counters.iter().find(|(name, _)| name == reason).map(|(_, count)| count);
        assert_eq!(counted, Some(expected), "{reason}");
        assert_eq!((counters.consumed, counters.multicast), (0, 0));
    }
    workers.iter().for_each(|worker| worker.peer.send(&worker.packet(0, 5)));
    assert_eq!(results(&workers), [(0, 10); 2]);
}

#[test]
fn w10_a_forged_source_is_counted_and_cannot_contribute() {
    let switch = RunningSwitch::start(config(LOCALHOST));
    let workers = job(switch.address, "forged", 2, 1);
    let stranger = Peer::new(switch.address);
    workers[0].peer.send(&workers[0].packet(0, 1));
    let forged = workers[1].packet(0, 1000);
    stranger.send(&forged);
    // It is told, in fewer octets than it sent, that it has no session.
    let hint = stranger.hear(PATIENCE).expect("a hint");
    assert!(hint.len() <= forged.len() && hint.len() <= 10);
    let Message::NoSession { job, .. } = Message::parse(&hint).expect("a message") else {
        panic!("{hint:?}")
    };
    assert_eq!(job, workers[0].welcome.job);
    assert_eq!(switch.snapshot().lanes[0].unknown_source, 1);
    workers[1].peer.send(&workers[1].packet(0, 2));
    assert_eq!(results(&workers), [(0, 3); 2]);
}

#[test]
fn c3_strays_are_answered_at_a_limited_rate() {
    let switch = RunningSwitch::start(config(LOCALHOST));
    let stranger = Peer::new(switch.address);
    let header = Header {
        job: JobId(1),
        seq: Seq(0),
        slot: 0,
        version: Version::Zero,
        exponent: 0,
        digest: 1,
        size: PayloadSize::ExponentOnly,
    };
    let start = Instant::now();
    for _ in 0..500 {
        stranger.send(&datagram(&header, 0));
    }
    let snapshot = switch.snapshot_when(|snapshot| snapshot.lanes[0].unknown_source == 500);
    // A burst, and then one each five milliseconds.
    let most = 41 + start.elapsed().as_millis() as u64 / 5;
    assert!((1..=most).contains(&snapshot.control.hints), "{} > {most}", snapshot.control.hints);
    let heard = snapshot.control.hints + snapshot.control.hints_withheld;
    assert_eq!(heard + snapshot.lanes[0].unheard, 500);
}

#[test]
fn i4_a_flood_of_strangers_is_not_heard_to_its_end() {
    let switch = Switch::bind(config(LOCALHOST)).expect("free ports");
    // All of it waits in the socket when the switch begins; what does not fit there is lost.
    let strangers: Vec<_> = (0..16).map(|_| Peer::new(switch.local_addr())).collect();
    let join = Message::Join(join_of("flood", 2, 0, 1, 0));
    for _ in 0..100 {
        strangers.iter().for_each(|stranger| stranger.tell(&join));
    }
    let switch = RunningSwitch::run(switch);
    let job = job(switch.address, "job", 1, 1);
    job[0].peer.send(&job[0].packet(0, 7));
    assert_eq!(job[0].result(), (0, 7));
    let snapshot = switch.snapshot();
    let (joins, unheard) = (snapshot.control.joins, snapshot.lanes[0].unheard);
    // The first batches in full, and an eighth of the others.
    assert!(unheard > 0 || joins < 400, "{joins} joins heard, and {unheard} datagrams not");
    assert!(joins < 800, "{joins} joins heard, and {unheard} datagrams not");
}

#[test]
fn c1_a_forged_join_makes_no_state_and_gets_no_longer_answer() {
    let switch = RunningSwitch::start(config(LOCALHOST));
    let peer = Peer::new(switch.address);
    let mut join = join_of("j", 1, 0, 1, 0);
    for cookie in [0, 1, u64::MAX] {
        join.cookie = cookie;
        let octets = padded(&join);
        peer.send(&octets);
        let answer = peer.hear(PATIENCE).expect("a challenge");
        assert!(answer.len() <= switchml_proto::wire::MIN_JOIN_LEN);
        assert!(matches!(Message::parse(&answer), Ok(Message::Challenge { .. })));
    }
    // A cookie is good for its own address only.
    let join = challenged(&peer, &join_of("j", 1, 0, 1, 0));
    let other = Peer::new(switch.address);
    other.send(&padded(&join));
    assert!(matches!(other.hear_message(), Message::Challenge { .. }));
    let snapshot = switch.snapshot();
    assert!(snapshot.sessions.is_empty());
    assert_eq!((snapshot.control.joins, snapshot.control.stale_cookies), (5, 3));
}

#[test]
fn i4_garbage_is_counted_and_the_switch_lives_on() {
    let switch = RunningSwitch::start(config(LOCALHOST));
    let workers = job(switch.address, "garbage", 2, 1);
    let stranger = Peer::new(switch.address);
    // Every first octet, and lengths around those of the messages; from a stranger and from a member.
    let mut state = 1_u32;
    let mut random = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    let mut control = 0;
    for len in [0, 1, 7, 8, 9, 10, 12, 20, 44, 138, 156, 200] {
        for first in 0..=u8::MAX {
            let octets: Vec<_> = (0..len).map(|at| if at == 0 { first } else { random() }).collect();
            control += 2 * u64::from(len == 0 || first >> 4 != 1);
            stranger.send(&octets);
            workers[0].peer.send(&octets);
        }
        // Not faster than the switch takes them.
        switch.snapshot();
    }
    workers.iter().for_each(|worker| worker.peer.send(&worker.packet(0, 4)));
    let result = loop {
        let octets = workers[1].peer.hear(PATIENCE).expect("a result");
        if octets.len() == workers[1].layout.datagram_len() {
            break octets;
        }
    };
    assert_eq!(result[10..14], 8_i32.to_be_bytes());
    let counted = switch.snapshot();
    assert!(counted.control.malformed > control / 2, "{} of {control}", counted.control.malformed);
    assert!(counted.sessions[0].ports[0].counters.rejected[0] > 100);
    assert!(counted.lanes[0].unknown_source > 100);
}

#[test]
fn c1_the_switch_says_why_a_join_is_refused() {
    let switch = RunningSwitch::start(config(LOCALHOST));
    let refused = |join| {
        let peer = Peer::new(switch.address);
        let join = challenged(&peer, &join);
        peer.send(&padded(&join));
        match peer.hear_message() {
            Message::Reject { reason, .. } => reason,
            other => panic!("no reject: {other:?}"),
        }
    };
    let workers = job(switch.address, "mine", 1, 1);
    let mut join = join_of("mine", 1, 0, 1, 0);
    join.nonce.0 += 1;
    assert_eq!(refused(join), RejectReason::RankTaken);
    assert!(matches!(refused(join_of("mine", 2, 0, 1, 0)), RejectReason::Disagrees { job_value: 1, .. }));
    assert_eq!(refused(join_of("many", 2, 0, 2, 0)), RejectReason::TooManyLanes { lanes: 1 });
    let mut join = join_of("wide", 2, 0, 1, 0);
    join.window = Window::new(64).expect("valid");
    assert_eq!(refused(join), RejectReason::NoFreeSlots { largest: 32 });
    workers.iter().for_each(Worker::leave);
}

#[test]
fn w11_a_chunk_beyond_the_largest_is_refused_with_the_largest() {
    let mut config = config(LOCALHOST);
    config.largest_chunk = ChunkSize::DEFAULT;
    let switch = RunningSwitch::start(config);
    let peer = Peer::new(switch.address);
    let mut join = join_of("large", 2, 0, 1, 0);
    join.chunk = ChunkSize::MAX;
    let join = challenged(&peer, &join);
    peer.send(&padded(&join));
    let Message::Reject { reason, .. } = peer.hear_message() else { panic!("no reject") };
    assert_eq!(reason, RejectReason::ChunkTooLarge { largest: 256 });
}
