//! C-3: leases, leaves, aborts, restarts; when slots and numbers are free again.

use std::collections::BTreeSet;
use std::time::Duration;

use switchml_proto::control::*;
use switchml_proto::wire::*;
use switchml_proto::*;

use crate::net::*;

const SECOND: Duration = Duration::from_secs(1);

fn aborted(reason: AbortReason, culprit: Option<usize>) -> EndReason {
    EndReason::Aborted { reason, culprit: culprit.map(rank) }
}

fn last_end(net: &Net) -> SessionEnd {
    match net.log.last() {
        Some(&CoordinatorEvent::Ended { how, .. }) => how,
        other => panic!("{other:?} instead of an end"),
    }
}

#[test]
fn c3_a_dead_member_ends_the_others_within_its_lease_and_is_named() {
    for (seed, faults) in [(0, CALM), (1, ROUGH), (2, ROUGH), (3, ROUGH)] {
        let mut net = Net::new(seed, faults);
        let members = net.ready_job("job", 5, 2);
        net.run(7 * SECOND);
        net.processes[members[3]].running = false;
        let died = net.now;
        net.run(3 * LEASE);
        for &m in members.iter().filter(|&&m| m != members[3]) {
            let (at, reason) = net.processes[m].ended_at().expect("an end");
            assert_eq!(reason, aborted(AbortReason::LeaseExpired, Some(3)));
            let took = at.since(died);
            assert!(took <= LEASE + 2 * SECOND, "{took:?}");
            if seed == 0 {
                assert!(took <= LEASE + Duration::from_millis(10), "{took:?}");
            }
        }
        let (reason, culprit) = (AbortReason::LeaseExpired, Some(rank(3)));
        assert_eq!(last_end(&net), SessionEnd::Aborted { reason, culprit });
        assert_eq!((net.sessions(), net.plane.installed.len()), (0, 0));
        assert_eq!(net.coordinator.poll_timeout(), None);

        // One that was only stopped learns it when it runs again.
        net.processes[members[3]].running = true;
        net.run(SECOND);
        assert!(net.processes[members[3]].ended_at().is_some());
    }
}

#[test]
fn c3_a_clean_leave_by_all_is_no_error() {
    for seed in 0..5 {
        let faults = if seed == 0 { CALM } else { ROUGH };
        let mut net = Net::new(seed, faults);
        let members = net.ready_job("job", 4, 2);
        for &m in &members {
            net.run(Duration::from_millis(700));
            net.processes[m].member.leave(net.now);
        }
        net.run(LEASE);
        for &m in &members {
            assert_eq!(net.processes[m].last(), Some(MemberEvent::Left));
            assert_eq!(net.processes[m].member.poll_timeout(), None);
        }
        assert_eq!(last_end(&net), SessionEnd::Left);
        assert_eq!((net.sessions(), net.plane.installed.len()), (0, 0));
    }
}

#[test]
fn c3_after_a_leave_the_slots_stay_until_all_have_left() {
    let mut net = Net::new(0, CALM);
    let members = net.ready_job("job", 2, 1);
    net.processes[members[0]].member.leave(net.now);
    net.run(20 * LEASE);
    assert_eq!(net.plane.installed.len(), 1, "complete phases stay readable");
    assert_eq!(net.coordinator.sessions(net.now).next().unwrap().left, ranks(&[0]));
    assert!(matches!(net.processes[members[1]].last(), Some(MemberEvent::Ready(_))));
    net.processes[members[1]].running = false;
    // A keep-alive may be on its way.
    net.run(LEASE + Duration::from_millis(10));
    assert_eq!(net.plane.installed.len(), 0, "or their leases have ended");
    assert_eq!(net.sessions(), 0);
}

#[test]
fn c3_a_leave_while_a_phase_needs_the_rank_aborts_at_once() {
    let mut net = Net::new(0, CALM);
    let members = net.ready_job("job", 3, 1);
    net.plane.missing = ranks(&[1]);
    net.processes[members[1]].member.leave(net.now);
    let start = net.now;
    net.run(LEASE);
    assert_eq!(net.processes[members[1]].last(), Some(MemberEvent::Left));
    for m in [members[0], members[2]] {
        let (at, reason) = net.processes[m].ended_at().unwrap();
        assert_eq!(reason, aborted(AbortReason::Left, Some(1)));
        assert!(at.since(start) <= Duration::from_millis(10));
    }
}

#[test]
fn c3_a_phase_begun_after_a_leave_aborts_within_a_fraction_of_the_lease() {
    let mut net = Net::new(0, CALM);
    let members = net.ready_job("job", 2, 1);
    net.processes[members[1]].member.leave(net.now);
    net.run(4 * LEASE);
    net.plane.missing = ranks(&[1]);
    let start = net.now;
    net.run(LEASE);
    let (at, reason) = net.processes[members[0]].ended_at().unwrap();
    assert_eq!(reason, aborted(AbortReason::Left, Some(1)));
    assert!(at.since(start) <= LEASE / 10 + Duration::from_millis(10));
}

#[test]
fn c3_a_member_that_is_only_late_is_not_taken_for_one_that_left() {
    let mut net = Net::new(0, CALM);
    let members = net.ready_job("job", 3, 1);
    net.plane.missing = ranks(&[0]);
    net.processes[members[1]].member.leave(net.now);
    net.run(4 * LEASE);
    assert!(matches!(net.processes[members[0]].last(), Some(MemberEvent::Ready(_))));
}

#[test]
fn c3_a_members_abort_reaches_all_others_with_its_reason() {
    for seed in 0..5 {
        let faults = if seed == 0 { CALM } else { ROUGH };
        let mut net = Net::new(seed, faults);
        let members = net.ready_job("job", 4, 2);
        let reason = AbortReason::CollectivesDiffer;
        net.processes[members[2]].member.abort(net.now, reason, Some(rank(1)));
        assert_eq!(
            net.processes[members[2]].member.poll_event(),
            Some(MemberEvent::Ended(aborted(reason, Some(1)))),
            "its caller knows at once"
        );
        let start = net.now;
        net.run(LEASE);
        for &m in members.iter().filter(|&&m| m != members[2]) {
            let (at, told) = net.processes[m].ended_at().expect("an end");
            assert_eq!(told, aborted(reason, Some(1)));
            assert!(at.since(start) <= 2 * SECOND);
        }
        assert!(members.iter().all(|&m| net.processes[m].member.poll_timeout().is_none()));
        assert_eq!(last_end(&net), SessionEnd::Aborted { reason, culprit: Some(rank(1)) });
    }
}

#[test]
fn c3_an_abort_that_nobody_acknowledges_ends_with_the_leases() {
    let mut net = Net::new(0, CALM);
    let members = net.ready_job("job", 3, 1);
    net.run(SECOND);
    for &m in &members {
        net.processes[m].running = false;
    }
    let job = net.params(members[0]).job;
    net.coordinator.evict(net.now, "job", &mut net.plane);
    let start = net.now;
    net.run(Duration::from_millis(100));
    assert_eq!(net.plane.installed.len(), 1, "not freed before the members know, or their leases have ended");
    assert_eq!(net.coordinator.sessions(net.now).next().unwrap().state, SessionState::Ending);
    net.run(LEASE);
    assert_eq!(net.plane.removed.len(), 1);
    let (at, removed) = net.plane.removed[0];
    assert_eq!(removed, job.0);
    assert!(at.since(start) <= LEASE && at.since(start) >= LEASE / 2, "{:?}", at.since(start));
    let sent = net.coordinator.counters().aborts_sent;
    assert!((20..=60).contains(&sent), "{sent} aborts to three members");
}

#[test]
fn c3_a_member_whose_abort_nobody_acknowledges_gives_up_after_a_lease() {
    let mut net = Net::new(0, CALM);
    let member = net.ready_job("job", 1, 1)[0];
    net.switch_runs = false;
    net.processes[member].member.abort(net.now, AbortReason::Cancelled, None);
    net.run(2 * LEASE);
    assert_eq!(net.processes[member].member.poll_timeout(), None);

    let mut net = Net::new(0, CALM);
    let member = net.ready_job("job", 1, 1)[0];
    net.switch_runs = false;
    net.processes[member].member.leave(net.now);
    let start = net.now;
    net.run(2 * LEASE);
    let &(at, event) = net.processes[member].events.last().unwrap();
    assert_eq!((event, at.since(start)), (MemberEvent::Left, LEASE));
}

#[test]
fn c3_an_abort_of_an_old_session_cannot_end_a_new_one() {
    let mut net = Net::new(0, CALM);
    let old = net.ready_job("job", 2, 1);
    let session = net.params(old[0]).session;
    for &m in &old {
        net.processes[m].member.leave(net.now);
    }
    net.run(SECOND);
    let new = net.ready_job("job", 2, 1);
    let mut octets = [0; MAX_CONTROL_LEN];
    let SessionParams { job, .. } = net.params(new[0]);
    let (reason, culprit) = (AbortReason::Cancelled, None);
    let len = Message::Abort { job, rank: rank(0), session, reason, culprit }.emit(&mut octets);
    let from = net.processes[new[0]].address(LaneId::ZERO);
    let lane = LaneId::ZERO;
    let heard = net.coordinator.handle_datagram(net.now, lane, from, &octets[..len], &mut net.plane);
    assert_eq!(heard, Heard::Foreign);
    let heard = net.processes[new[0]].member.handle_datagram(net.now, lane, &octets[..len]);
    assert_eq!(heard, Heard::Foreign);

    // Nor can one of the present session that comes from elsewhere.
    let SessionParams { session, .. } = net.params(new[0]);
    let len = Message::Abort { job, rank: rank(0), session, reason, culprit }.emit(&mut octets);
    let elsewhere = net.processes[new[1]].address(LaneId::ZERO);
    let heard = net.coordinator.handle_datagram(net.now, lane, elsewhere, &octets[..len], &mut net.plane);
    assert_eq!(heard, Heard::Foreign);
    assert_eq!(net.coordinator.poll_transmit(net.now, &mut [0; 2000]), None, "aborts never echo");
    assert_eq!(net.plane.installed.len(), 1);
}

#[test]
fn c3_a_restarted_aggregator_is_found_out_by_the_next_keep_alive_or_hint() {
    let mut net = Net::new(0, CALM);
    let members = net.ready_job("job", 3, 1);
    net.run(10 * SECOND);
    net.restart_switch(2);
    let start = net.now;
    // One of them sends data, and gets a hint.
    let layout = net.params(members[0]).layout;
    let (job, seq) = (net.params(members[0]).job, net.params(members[0]).initial_seq);
    let mut packet = [0; HEADER_LEN];
    Header::new(job, layout, seq, PayloadSize::ExponentOnly, 0, 1).emit(&mut packet);
    let from = net.processes[members[0]].address(LaneId::ZERO);
    net.coordinator.handle_stray_data(net.now, LaneId::ZERO, from, &packet);
    net.run(LEASE);
    for (i, &m) in members.iter().enumerate() {
        let (at, reason) = net.processes[m].ended_at().unwrap();
        assert_eq!(reason, aborted(AbortReason::UnknownSession, None));
        let limit = if i == 0 { Duration::from_millis(10) } else { LEASE / 3 + Duration::from_millis(10) };
        assert!(at.since(start) <= limit, "{:?}", at.since(start));
    }
}

#[test]
fn c3_a_lost_aggregator_is_an_error_within_a_lease() {
    for waiting in [true, false] {
        let mut net = Net::new(0, ROUGH);
        let member =
            if waiting { net.join(member_config("job", 2, 0)) } else { net.ready_job("job", 1, 1)[0] };
        net.run(12 * SECOND);
        net.switch_runs = false;
        let start = net.now;
        net.run(2 * LEASE);
        let (at, reason) = net.processes[member].ended_at().unwrap();
        assert_eq!(reason, EndReason::AggregatorLost);
        assert!(at.since(start) <= LEASE, "{:?}", at.since(start));
        assert_eq!(net.processes[member].member.poll_timeout(), None);
    }
}

#[test]
fn c3_the_operator_may_end_one_job_or_all() {
    let mut net = Net::new(1, ROUGH);
    let one = net.ready_job("one", 2, 1);
    let two = net.ready_job("two", 2, 1);
    let waiting = net.join(member_config("three", 2, 0));
    net.run(SECOND);
    net.coordinator.evict(net.now, "one", &mut net.plane);
    net.run(LEASE);
    for m in one {
        assert_eq!(net.processes[m].ended_at().unwrap().1, aborted(AbortReason::Evicted, None));
    }
    assert!(two.iter().all(|&m| net.processes[m].ended_at().is_none()));
    net.coordinator.shutdown(net.now, &mut net.plane);
    let late = net.join(member_config("late", 1, 0));
    net.run(LEASE + SECOND);
    for m in [two[0], two[1], waiting] {
        assert_eq!(net.processes[m].ended_at().unwrap().1, aborted(AbortReason::Shutdown, None));
    }
    assert_eq!(net.processes[late].ended_at().unwrap().1, EndReason::AggregatorSilent { lane: LaneId::ZERO });
    assert_eq!((net.sessions(), net.plane.installed.len()), (0, 0));
    assert_eq!(net.coordinator.poll_timeout(), None);
}

#[test]
fn c3_who_joins_a_job_that_is_being_aborted_is_told_to_come_later() {
    let mut net = Net::new(0, CALM);
    let members = net.ready_job("job", 2, 1);
    net.processes[members[0]].running = false;
    net.coordinator.evict(net.now, "job", &mut net.plane);
    net.run(Duration::from_millis(100));
    let late = net.join(member_config("job", 2, 0));
    net.run(SECOND);
    let ending = EndReason::Rejected(RejectReason::Ending);
    assert_eq!(net.processes[late].ended_at().unwrap().1, ending);
}

#[test]
fn w3_a_jobs_number_rests_and_its_slots_are_free_at_once() {
    let mut net = Net::new(0, CALM);
    let mut used = BTreeSet::new();
    let start = net.now;
    let mut ends = 0;
    while net.now.since(start) < MSL {
        let members = net.ready_job("job", 1, 1);
        let params = net.params(members[0]);
        assert_eq!(params.layout.base(), 0, "the slots of the last one");
        assert!(used.insert(params.job), "{:?} has not rested", params.job);
        net.processes[members[0]].member.leave(net.now);
        net.run(Duration::from_millis(400));
        net.processes.clear();
        ends += 1;
        if ends == 256 {
            break;
        }
    }
    assert_eq!(used.len(), 256, "each number once");
    assert!(net.now.since(start) < MSL);
    let refused = net.join(member_config("job", 1, 0));
    net.run(SECOND);
    let reason = EndReason::Rejected(RejectReason::TooManyJobs);
    assert_eq!(net.processes[refused].ended_at().unwrap().1, reason);
    net.run(MSL);
    net.ready_job("job", 1, 1);
}

#[test]
fn c2_a_restarted_aggregator_does_not_repeat_its_past() {
    let draws = |seed| {
        let mut net = Net::with(0, CALM, switch_config(seed), Room { jobs: 8, members: 8, ports: 8 });
        let member = net.ready_job("job", 1, 1)[0];
        let SessionParams { session, initial_seq, .. } = net.params(member);
        (session.0, initial_seq.0)
    };
    let all: BTreeSet<_> = (0..64).map(draws).collect();
    assert_eq!(all.len(), 64);
    assert_eq!(all.iter().map(|(_, seq)| seq).collect::<BTreeSet<_>>().len(), 64);
}

#[test]
fn c3_a_leave_whose_answer_was_lost_with_the_session_is_a_leave() {
    let mut net = Net::new(0, CALM);
    let member = net.ready_job("job", 1, 1)[0];
    net.processes[member].member.leave(net.now);
    // Its leave arrives; what is answered does not.
    net.run_until(SECOND, |net| net.sessions() == 0);
    assert_eq!(net.sessions(), 0);
    net.lose_what_flies();
    net.run(SECOND);
    assert_eq!(net.processes[member].last(), Some(MemberEvent::Left));
}

#[test]
fn c3_who_has_left_cannot_abort() {
    let mut net = Net::new(0, CALM);
    let members = net.ready_job("job", 2, 1);
    net.processes[members[0]].member.leave(net.now);
    net.run(SECOND);
    let SessionParams { job, session, .. } = net.params(members[0]);
    let (reason, culprit) = (AbortReason::Cancelled, None);
    let mut octets = [0; MAX_CONTROL_LEN];
    let len = Message::Abort { job, rank: rank(0), session, reason, culprit }.emit(&mut octets);
    let from = net.processes[members[0]].address(LaneId::ZERO);
    assert_eq!(net.say(from, &octets[..len]), (Heard::Stale, None));
    assert_eq!(net.coordinator.sessions(net.now).next().unwrap().state, SessionState::Ready);
}

#[test]
fn c3_whatever_a_member_says_while_its_session_is_aborted_it_is_told_why() {
    let mut net = Net::new(0, CALM);
    let member = net.ready_job("job", 1, 1)[0];
    net.run(SECOND);
    net.processes[member].running = false;
    net.coordinator.evict(net.now, "job", &mut net.plane);
    net.run(Duration::from_millis(1));
    let SessionParams { job, session, .. } = net.params(member);
    let (rank, nonce, from) = (rank(0), net.nonce(member), net.processes[member].address(LaneId::ZERO));
    for message in [
        Message::KeepAlive { job, rank, session, nonce },
        Message::Leave { job, rank, session, nonce },
        Message::Query { job, rank, lane: LaneId::ZERO, session, seq: Seq(0) },
    ] {
        let mut octets = [0; MAX_CONTROL_LEN];
        let len = message.emit(&mut octets);
        let (heard, answer) = net.say(from, &octets[..len]);
        assert_eq!(heard, Heard::Accepted);
        let (reason, culprit) = (AbortReason::Evicted, None);
        let abort = Message::Abort { job, rank, session, reason, culprit };
        assert_eq!(Message::parse(&answer.unwrap()), Ok(abort), "for {message:?}");
    }
}
