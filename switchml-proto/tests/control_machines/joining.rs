//! C-1, C-2, W-11: joins, and the wait for others.

use std::collections::BTreeSet;
use std::time::Duration;

use switchml_proto::control::*;
use switchml_proto::wire::*;
use switchml_proto::*;

use crate::net::*;

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn c2_all_become_ready_whatever_the_network_does() {
    for world in 1..=8 {
        for lanes in 1..=3 {
            for seed in 0..4 {
                let faults = if seed == 0 { CALM } else { ROUGH };
                let mut net = Net::new(seed, faults);
                let members = net.ready_job("job", world, lanes);
                let params = net.params(members[0]);
                assert!(members.iter().all(|&m| net.params(m) == params), "one session for all");
                let installed = &net.plane.installed[&params.job.0];
                assert_eq!((installed.session, installed.layout), (params.session, params.layout));
                assert_eq!(installed.initial_seq, params.initial_seq);
                let addresses: BTreeSet<_> = (members.iter().enumerate())
                    .flat_map(|(r, &m)| (0..lanes).map(move |l| (r, m, LaneId::new(l).unwrap())))
                    .map(|(r, m, lane)| (rank(r), lane, net.processes[m].address(lane)))
                    .collect();
                assert_eq!(installed.members, addresses, "W-10: the addresses that joined");
                assert_eq!(params.lease, LEASE);
                assert!(net.log.contains(&CoordinatorEvent::Ready { job: params.job }));
                for &m in &members {
                    let ready = (net.processes[m].events.iter())
                        .filter(|(_, event)| matches!(event, MemberEvent::Ready(_)));
                    assert_eq!(ready.count(), 1, "told once");
                }
            }
        }
    }
}

#[test]
fn c2_without_faults_the_last_join_makes_all_ready_in_a_few_round_trips() {
    let mut net = Net::new(0, CALM);
    let first = net.join(member_config("job", 2, 0));
    net.run(30 * SECOND);
    net.join(member_config("job", 2, 1));
    let took = net.run_until(SECOND, |net| net.processes[first].member.session().is_some());
    assert!(took <= Duration::from_millis(6), "{took:?}: the aggregator must not wait for a repetition");
}

#[test]
fn c2_members_are_told_who_is_missing() {
    let mut net = Net::new(0, CALM);
    let first = net.join(member_config("job", 4, 1));
    net.run(SECOND);
    assert_eq!(net.processes[first].last(), Some(MemberEvent::Waiting { missing: ranks(&[0, 2, 3]) }));
    net.join(member_config("job", 4, 2));
    net.run(SECOND);
    assert_eq!(net.processes[first].last(), Some(MemberEvent::Waiting { missing: ranks(&[0, 3]) }));
    assert_eq!(net.processes[first].events.len(), 2, "told only when it changes");
    let view = net.coordinator.sessions(net.now).next().unwrap();
    assert_eq!((view.missing, view.state), (ranks(&[0, 3]), SessionState::Joining));
    assert!(view.age(rank(1)).unwrap() < SECOND && view.age(rank(0)).is_none());
}

#[test]
fn c1_names_and_runs_are_jobs_of_their_own() {
    let mut net = Net::new(0, CALM);
    let mut run = |name, run| {
        let mut config = member_config(name, 1, 0);
        config.run = run;
        net.join(config);
    };
    run("a", 0);
    run("a", 1);
    run("b", 0);
    net.run(SECOND);
    assert_eq!(net.plane.installed.len(), 3);
}

#[test]
fn w11_a_path_that_drops_large_datagrams_is_found_at_joining() {
    let mut net = Net::new(0, Faults { mtu: 600, ..CALM });
    let process = net.join(member_config("job", 1, 0));
    net.run(10 * SECOND);
    let (at, reason) = net.processes[process].ended_at().unwrap();
    assert_eq!(reason, EndReason::PathTooSmall { lane: LaneId::ZERO });
    assert_eq!(at.since(Instant::ZERO), 1005 * SECOND, "the connect timeout");
    assert_eq!(net.sessions(), 0, "no state was made");
    assert!(net.coordinator.counters().unpadded_joins > 0);
}

#[test]
fn w11_a_path_that_is_small_on_the_way_back_is_found_too() {
    let config = member_config("job", 1, 0);
    let nonce = Nonce(7);
    let mut member = Member::new(config, nonce, Instant::ZERO).unwrap();
    let mut buf = [0; MAX_DATAGRAM_LEN];
    let challenge = Message::Challenge { rank: rank(0), lane: LaneId::ZERO, nonce, cookie: 5 };
    let welcome = Message::Welcome(welcome(nonce));
    let hear = |member: &mut Member, now, message: &Message| {
        let mut datagram = [0; MAX_DATAGRAM_LEN];
        let len = message.emit(&mut datagram);
        member.handle_datagram(now, LaneId::ZERO, &datagram[..len])
    };
    assert_eq!(hear(&mut member, Instant::ZERO, &challenge), Heard::Accepted);
    while let Some(now) = member.poll_timeout() {
        member.handle_timeout(now);
        while member.poll_transmit(now, &mut buf).is_some() {}
        // As if the padding had been cut off.
        hear(&mut member, now, &welcome);
    }
    let lane = LaneId::ZERO;
    assert_eq!(member.poll_event(), Some(MemberEvent::Ended(EndReason::PathTooSmall { lane })));
}

#[test]
fn c2_answers_to_another_nonce_are_ignored() {
    let mut member = Member::new(member_config("job", 2, 0), Nonce(1), Instant::ZERO).unwrap();
    let (rank, lane, nonce) = (rank(0), LaneId::ZERO, Nonce(2));
    let welcome = welcome(nonce);
    let reason = RejectReason::RankTaken;
    for message in [
        Message::Challenge { rank, lane, nonce, cookie: 9 },
        Message::Welcome(welcome),
        Message::Reject { rank: 0, lane: 0, nonce, reason },
        Message::Alive { session: SessionId(1), nonce },
        Message::Left { session: SessionId(1), nonce },
    ] {
        let mut datagram = [0; 1034];
        let len = message.emit(&mut datagram);
        let len = if matches!(message, Message::Welcome(_)) { 1034 } else { len };
        assert_eq!(member.handle_datagram(Instant::ZERO, lane, &datagram[..len]), Heard::Foreign);
    }
    assert_eq!(member.poll_event(), None);
    let mut buf = [0; 1034];
    let transmit = member.poll_transmit(Instant::ZERO, &mut buf).unwrap();
    let Ok(Message::Join(join)) = Message::parse(&buf[..transmit.len]) else { panic!() };
    assert_eq!(join.cookie, 0, "the foreign cookie was not taken");
}

#[test]
fn c2_a_silent_aggregator_is_an_error_at_the_connect_timeout() {
    let mut net = Net::new(0, CALM);
    net.switch_runs = false;
    let process = net.join(member_config("job", 2, 0));
    let start = net.now;
    net.run(10 * SECOND);
    let (at, reason) = net.processes[process].ended_at().unwrap();
    assert_eq!(reason, EndReason::AggregatorSilent { lane: LaneId::ZERO });
    assert_eq!(at.since(start), 5 * SECOND);
    assert_eq!(net.processes[process].member.poll_timeout(), None);
    let joins = net.sent.len();
    assert!((10..20).contains(&joins), "{joins} joins: 20 ms doubling to 500 ms");
}

#[test]
fn c2_ranks_that_do_not_join_end_the_others_at_the_join_timeout() {
    // The member's own, and the aggregator's.
    for (ours, theirs) in [(20, 600), (600, 20), (600, 2)] {
        let mut config = switch_config(1);
        config.join_timeout = Duration::from_secs(theirs);
        let mut net = Net::with(0, ROUGH, config, Room { jobs: 8, members: 8, ports: 8 });
        let members = [0, 2].map(|r| {
            let mut config = member_config("job", 3, r);
            config.join_timeout = Duration::from_secs(ours);
            net.join(config)
        });
        let start = net.now;
        net.run(40 * SECOND);
        for member in members {
            let (at, reason) = net.processes[member].ended_at().unwrap();
            assert_eq!(reason, EndReason::JoinTimeout { missing: ranks(&[1]) });
            let limit = Duration::from_secs(ours.min(theirs) + 2);
            assert!(at.since(start) <= limit, "{:?}", at.since(start));
        }
        assert_eq!(net.sessions(), 0);
        assert!(net.plane.removed.is_empty(), "nothing was set up, so nothing is taken out");
    }
}

#[test]
fn c2_a_rank_that_gives_up_joining_can_be_tried_again_at_once() {
    let mut net = Net::new(0, CALM);
    let impatient = |r| {
        let mut config = member_config("job", 2, r);
        config.join_timeout = 2 * SECOND;
        config
    };
    let first = net.join(impatient(0));
    net.run(2 * SECOND + SECOND / 10);
    let (_, reason) = net.processes[first].ended_at().unwrap();
    assert_eq!(reason, EndReason::JoinTimeout { missing: ranks(&[1]) });
    assert_eq!(net.sessions(), 0, "its place is free, long before its lease has ended");
    let again = [0, 1].map(|r| net.join(impatient(r)));
    net.run(SECOND);
    for process in again {
        assert!(net.processes[process].member.session().is_some());
    }
    assert_eq!(net.processes[first].member.poll_timeout(), None, "it was told that it has left");
}

#[test]
fn c2_a_join_timeout_below_the_connect_timeout_does_not_blame_a_rank_for_silence() {
    let mut net = Net::new(0, CALM);
    let mut config = member_config("job", 2, 0);
    config.join_timeout = 2 * SECOND;
    let process = net.join(config);
    net.lose_what_flies();
    net.processes[process].member.handle_timeout(net.now + 2 * SECOND);
    let event = net.processes[process].member.poll_event();
    assert_eq!(event, Some(MemberEvent::Ended(EndReason::AggregatorSilent { lane: LaneId::ZERO })));
}

#[test]
fn w11_an_aggregator_that_dies_after_its_challenge_is_not_taken_for_a_small_path() {
    let mut net = Net::new(0, CALM);
    let process = net.join(member_config("job", 1, 0));
    net.run_until(SECOND, |net| net.coordinator.counters().challenges == 1);
    net.run(Duration::from_micros(500)); // the challenge is under way
    net.switch_runs = false;
    net.run(6 * SECOND);
    let (_, reason) = net.processes[process].ended_at().unwrap();
    assert_eq!(reason, EndReason::AggregatorSilent { lane: LaneId::ZERO });
}

#[test]
fn c3_a_process_that_dies_while_joining_is_named_within_the_lease() {
    let mut net = Net::new(0, CALM);
    let survivors = [0, 2].map(|r| net.join(member_config("job", 4, r)));
    let dead = net.join(member_config("job", 4, 1));
    net.run(SECOND);
    net.processes[dead].running = false;
    let died = net.now;
    net.run(LEASE);
    let lost = EndReason::Aborted { reason: AbortReason::LeaseExpired, culprit: Some(rank(1)) };
    for survivor in survivors {
        let (at, reason) = net.processes[survivor].ended_at().unwrap();
        assert_eq!(reason, lost);
        assert!(at.since(died) <= LEASE);
    }
    // The place is free: the job can be started again.
    let again = [0, 1, 2, 3].map(|r| net.join(member_config("job", 4, r)));
    net.run(SECOND);
    for process in again {
        assert!(net.processes[process].member.session().is_some());
    }
}

#[test]
fn c3_who_waits_renews_even_a_short_lease() {
    let mut config = switch_config(1);
    config.lease = Duration::from_millis(100);
    let room = Room { jobs: 8, members: 64, ports: 256 };
    let mut net = Net::with(0, CALM, config, room);
    let waiting = net.join(member_config("job", 2, 0));
    net.run(10 * SECOND);
    assert_eq!(net.processes[waiting].last(), Some(MemberEvent::Waiting { missing: ranks(&[1]) }));
}

#[test]
fn c2_a_job_whose_every_process_dies_while_joining_is_gone() {
    let mut net = Net::new(0, CALM);
    let dead = net.join(member_config("job", 3, 1));
    net.run(SECOND);
    net.processes[dead].running = false;
    net.run(LEASE);
    assert_eq!(net.sessions(), 0);
    assert!(matches!(net.log.last(), Some(CoordinatorEvent::Ended { how: SessionEnd::Deserted, .. })));
    assert_eq!(net.coordinator.poll_timeout(), None, "nothing left to wait for");
}

#[test]
fn c2_a_member_may_leave_while_it_waits() {
    let mut net = Net::new(0, CALM);
    let process = net.join(member_config("job", 2, 0));
    net.run(SECOND);
    net.processes[process].member.leave(net.now);
    net.run(SECOND);
    assert_eq!(net.processes[process].last(), Some(MemberEvent::Left));
    assert_eq!(net.sessions(), 0);
    // Late copies of its joins do not bring it back.
    for (from, _, datagram) in net.sent.clone() {
        net.say(from, &datagram);
    }
    assert_eq!(net.sessions(), 0);
}

#[test]
fn w11_once_the_path_is_proven_joins_and_welcomes_are_short() {
    let mut net = Net::new(0, CALM);
    let process = net.join(member_config("job", 2, 0));
    net.run(SECOND);
    let lens: Vec<_> = net.sent.iter().map(|(.., datagram)| datagram.len()).collect();
    assert_eq!(lens, [39, 1034, 39, 39, 39]);
    let (from, _, join) = net.sent[2].clone();
    let (_, welcome) = net.say(from, &join);
    assert_eq!(welcome.map(|welcome| welcome.len()), Some(44));
    // The copy of a padded one asks for a padded one.
    let (from, _, join) = net.sent[1].clone();
    let (_, welcome) = net.say(from, &join);
    assert_eq!(welcome.map(|welcome| welcome.len()), Some(1034));
    assert!(matches!(net.processes[process].last(), Some(MemberEvent::Waiting { .. })));
}

#[test]
fn c2_waiting_survives_a_restart_of_the_aggregator() {
    let mut net = Net::new(1, ROUGH);
    let mut config = member_config("job", 2, 0);
    config.lanes = LaneCount::new(3).unwrap();
    let first = net.join(config);
    net.run(3 * SECOND);
    net.restart_switch(2);
    net.run(SECOND);
    let mut config = member_config("job", 2, 1);
    config.lanes = LaneCount::new(3).unwrap();
    let second = net.join(config);
    net.run(5 * SECOND);
    assert_eq!(net.params(first), net.params(second));
    net.run(60 * SECOND);
    assert!(matches!(net.processes[first].last(), Some(MemberEvent::Ready(_))));
}

#[test]
fn c2_a_late_copy_of_a_join_makes_no_ghost_of_an_ended_job() {
    let mut net = Net::new(0, CALM);
    let members = net.ready_job("job", 2, 1);
    for &m in &members {
        net.processes[m].member.leave(net.now);
    }
    net.run(SECOND);
    assert_eq!(net.sessions(), 0);
    for (from, lane, datagram) in net.sent.clone() {
        net.coordinator.handle_datagram(net.now, lane, from, &datagram, &mut net.plane);
    }
    assert_eq!(net.sessions(), 0);
    assert!(net.coordinator.counters().stale >= 2);
    // The same name and run, by new processes, are welcome at once.
    net.ready_job("job", 2, 1);
}

#[test]
fn c2_lanes_of_two_sessions_do_not_make_one() {
    let mut config = member_config("job", 1, 0);
    config.lanes = LaneCount::new(2).unwrap();
    let mut member = Member::new(config, Nonce(1), Instant::ZERO).unwrap();
    let mut ready = |lane, session| {
        let lane = LaneId::new(lane).unwrap();
        let mut datagram = [0; 1034];
        Message::Welcome(Welcome {
            job: JobId(1),
            rank: rank(0),
            lane,
            nonce: Nonce(1),
            session: SessionId(session),
            base: 0,
            initial_seq: Seq(0),
            lease_millis: 5000,
            missing: WorkerSet::EMPTY,
            ready: true,
        })
        .emit(&mut datagram);
        assert_eq!(member.handle_datagram(Instant::ZERO, lane, &datagram), Heard::Accepted);
        let mut joining = BTreeSet::new();
        while let Some(transmit) = member.poll_transmit(Instant::ZERO, &mut datagram) {
            joining.insert(transmit.lane.get());
        }
        (member.session().map(|params| params.session), joining)
    };
    assert_eq!(ready(0, 7), (None, BTreeSet::from([1])));
    // The aggregator was restarted in between: the first lane must join again.
    assert_eq!(ready(1, 8), (None, BTreeSet::from([0])));
    let (session, _) = ready(0, 8);
    assert_eq!(session, Some(SessionId(8)));
}
