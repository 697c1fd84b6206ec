//! Data packets, control messages, and bad input of every kind.

use core::net::{IpAddr, Ipv6Addr};
use core::time::Duration;
use std::sync::mpsc;
use std::time::Instant;

use switchml_host_std::{Faults, SocketCalls, Switch, SwitchError};
use switchml_proto::aggregator::Counters;
use switchml_proto::control::{CoordinatorEvent, SessionEnd, SessionState};
use switchml_proto::wire::{AbortReason, Header, Message, PayloadSize, RejectReason, Welcome};
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
    assert_eq!(snapshot.control.hints + snapshot.control.hints_withheld, 500);
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

#[test]
fn c3_a_stop_tells_every_member_before_it_returns() {
    let switch = RunningSwitch::start(config(LOCALHOST));
    let handle = switch.handle.clone();
    let workers = job(switch.address, "stopped", 2, 1);
    let start = Instant::now();
    switch.handle.stop();
    for worker in &workers {
        let Message::Abort { session, reason, .. } = worker.peer.hear_message() else { panic!("no abort") };
        assert_eq!((session, reason), (worker.welcome.session, AbortReason::Shutdown));
        let (rank, nonce) = (worker.welcome.rank, worker.welcome.nonce);
        worker.peer.tell(&Message::Aborted { rank, session, nonce });
    }
    switch.stop();
    assert!(start.elapsed() < Duration::from_secs(3), "sooner than the lease ends: {:?}", start.elapsed());
    assert!(handle.snapshot().is_none());
}

#[test]
fn c3_a_stop_waits_for_silent_members_no_longer_than_a_lease() {
    let mut config = config(LOCALHOST);
    config.lease = Duration::from_millis(300);
    let switch = RunningSwitch::start(config);
    let _silent = job(switch.address, "silent", 2, 1);
    let start = Instant::now();
    switch.stop();
    assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
}

#[test]
fn c3_a_silent_member_is_named_to_the_others_within_the_lease() {
    let mut config = config(LOCALHOST);
    config.lease = Duration::from_millis(300);
    let mut switch = Switch::bind(config).expect("free ports");
    let (sender, events) = mpsc::channel();
    switch.on_event(move |event| sender.send(event).expect("the test listens"));
    let switch = RunningSwitch::run(switch);
    let workers = job(switch.address, "silent", 2, 1);
    let start = Instant::now();
    let abort = loop {
        let Welcome { job, rank, session, nonce, .. } = workers[0].welcome;
        workers[0].peer.tell(&Message::KeepAlive { job, rank, session, nonce });
        match workers[0].peer.hear_message() {
            Message::Alive { .. } => std::thread::sleep(Duration::from_millis(20)),
            Message::Abort { reason, culprit, .. } => break (reason, culprit),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(abort, (AbortReason::LeaseExpired, Some(workers[1].welcome.rank)));
    assert!((200..2000).contains(&start.elapsed().as_millis()), "{:?}", start.elapsed());
    switch.snapshot_when(|snapshot| snapshot.sessions.is_empty());

    let events: Vec<_> = events.try_iter().collect();
    let culprit = Some(workers[1].welcome.rank);
    assert!(
        matches!(events[..], [
        CoordinatorEvent::Created { .. },
        CoordinatorEvent::Joined { .. },
        CoordinatorEvent::Joined { .. },
        CoordinatorEvent::Ready { .. },
        CoordinatorEvent::Ended { how: SessionEnd::Aborted { reason: AbortReason::LeaseExpired, culprit: told }, .. },
    ] if told == culprit),
        "{events:?}"
    );
}

#[test]
fn c3_the_addresses_of_an_ended_job_are_strangers() {
    let switch = RunningSwitch::start(config(LOCALHOST));
    let old = job(switch.address, "old", 2, 1);
    old.iter().for_each(Worker::leave);
    switch.snapshot_when(|snapshot| snapshot.sessions.is_empty());
    // The new job's members have the entries that the old one's had.
    let new = job(switch.address, "new", 2, 1);
    new[0].peer.send(&new[0].packet(0, 1));
    old.iter().for_each(|worker| worker.peer.send(&new[1].packet(0, 1000)));
    switch.snapshot_when(|snapshot| snapshot.lanes[0].unknown_source == 2);
    new[1].peer.send(&new[1].packet(0, 2));
    assert_eq!(results(&new), [(0, 3); 2]);
}

#[test]
fn c3_timers_that_begin_in_another_lane_run_too() {
    let mut config = config(LOCALHOST);
    config.lanes = LaneCount::new(2).expect("valid");
    config.lease = Duration::from_millis(100);
    let mut switch = Switch::bind(config).expect("free ports");
    let (sender, events) = mpsc::channel();
    switch.on_event(move |event| sender.send(event).expect("the test listens"));
    let switch = RunningSwitch::run(switch);
    // Lane 0, whose thread has the timers, sleeps all the while.
    let mut lane_1 = switch.address;
    lane_1.set_port(lane_1.port() + 1);
    let peer = Peer::new(lane_1);
    let join = challenged(&peer, &join_of("late", 1, 0, 2, 1));
    peer.send(&padded(&join));
    let next = || events.recv_timeout(PATIENCE).expect("an event");
    assert!(matches!(next(), CoordinatorEvent::Created { .. }));
    assert!(matches!(next(), CoordinatorEvent::Ended { how: SessionEnd::Deserted, .. }));
}

#[test]
fn a_stop_before_the_start_counts() {
    let switch = Switch::bind(config(LOCALHOST)).expect("a free port");
    switch.handle().stop();
    switch.run().expect("nothing is wrong");
}

#[test]
fn a_panic_in_one_thread_ends_them_all() {
    let mut config = config(LOCALHOST);
    config.lanes = LaneCount::new(2).expect("valid");
    config.metrics = Some((LOCALHOST, 0).into());
    let mut switch = Switch::bind(config).expect("free ports");
    switch.on_event(|event| panic!("meant: {event:?}"));
    let (address, handle) = (switch.local_addr(), switch.handle());
    let thread = std::thread::spawn(move || switch.run());
    let peer = Peer::new(address);
    let join = challenged(&peer, &join_of("panic", 2, 0, 2, 0));
    peer.send(&padded(&join));
    thread.join().expect_err("the panic comes through");
    assert!(handle.snapshot().is_none());
}

#[test]
fn faults_take_data_and_spare_control() {
    let mut config = config(LOCALHOST);
    config.faults = Some(Faults::new(1.0, 0.0, 0.0, 7).expect("valid"));
    let switch = RunningSwitch::start(config);
    let workers = job(switch.address, "lossy", 1, 1);
    workers[0].peer.send(&workers[0].packet(0, 1));
    assert_eq!(workers[0].result_within(SILENCE), None);
    workers[0].leave();
}

#[test]
fn a_taken_port_is_named_with_what_to_do() {
    let first = Switch::bind(config(LOCALHOST)).expect("a free port");
    let mut config = config(LOCALHOST);
    config.port_base = first.local_addr().port();
    let error = Switch::bind(config).expect_err("the port is taken");
    assert!(matches!(error, SwitchError::Listen { address, .. } if address == first.local_addr()));
    let message = error.to_string();
    assert!(
        message.contains(&first.local_addr().to_string()) && message.contains("choose another port"),
        "{message}"
    );
}

#[test]
fn what_cannot_work_is_refused_at_the_start() {
    let mut ports = config(LOCALHOST);
    ports.port_base = 65_530;
    ports.lanes = LaneCount::new(7).expect("valid");
    assert!(matches!(Switch::bind(ports), Err(SwitchError::PortsOutOfRange { .. })));
    let mut jobs = config(LOCALHOST);
    jobs.max_jobs = 257;
    assert!(matches!(Switch::bind(jobs), Err(SwitchError::MaxJobs { max_jobs: 257 })));
    let mut slots = config(LOCALHOST);
    slots.slots = 0;
    let switch = Switch::bind(slots).expect("a free port");
    let handle = switch.handle();
    assert!(matches!(switch.run(), Err(SwitchError::Config(_))));
    assert!(handle.snapshot().is_none(), "nobody waits for a switch that never ran");
}
