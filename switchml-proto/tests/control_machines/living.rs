//! C-3, C-4: keep-alives, hints of lost sessions, and status.

use std::net::SocketAddr;
use std::time::Duration;

use switchml_proto::control::*;
use switchml_proto::wire::*;
use switchml_proto::*;

use crate::net::*;

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn c3_idle_members_live_on_over_a_lossy_network() {
    for seed in 0..5 {
        let mut net = Net::new(seed, ROUGH);
        let members = net.ready_job("job", 4, 2);
        net.run(Duration::from_secs(3600));
        for m in members {
            assert!(matches!(net.processes[m].last(), Some(MemberEvent::Ready(_))), "seed {seed}");
        }
        assert_eq!(net.coordinator.sessions(net.now).next().unwrap().state, SessionState::Ready);
    }
}

#[test]
fn c3_keep_alives_come_each_third_of_the_lease() {
    let mut net = Net::new(0, CALM);
    net.ready_job("job", 1, 1);
    let before = net.coordinator.counters().keep_alives;
    net.run(20 * LEASE);
    let count = net.coordinator.counters().keep_alives - before;
    assert!((60..=62).contains(&count), "{count} in 20 leases");
}

#[test]
fn c3_a_lane_whose_path_is_broken_does_not_cost_the_lease() {
    let mut net = Net::new(0, CALM);
    let member = net.ready_job("job", 1, 2)[0];
    net.broken_lane = Some(LaneId::ZERO);
    net.run(20 * LEASE);
    assert!(matches!(net.processes[member].last(), Some(MemberEvent::Ready(_))));
}

#[test]
fn c4_status_tells_the_phase_and_the_age_of_each_keep_alive() {
    let mut net = Net::new(0, CALM);
    let members = net.ready_job("job", 3, 2);
    let params = net.params(members[0]);
    let lane = LaneId::new(1).unwrap();
    net.run(LEASE);
    net.processes[members[2]].running = false;
    net.run(3 * SECOND);
    let seq = params.initial_seq;
    for (status, phase, missing) in [
        (PhaseStatus::Open { seen: ranks(&[0, 1]) }, PhaseState::Open, ranks(&[2])),
        (PhaseStatus::Complete, PhaseState::Complete, WorkerSet::EMPTY),
        (PhaseStatus::Unknown, PhaseState::Unknown, WorkerSet::EMPTY),
    ] {
        net.plane.phases.insert((params.job.0, seq.0), status);
        net.processes[members[0]].member.query(net.now, lane, seq);
        net.run(Duration::from_millis(10));
        let Some(MemberEvent::Status(report)) = net.processes[members[0]].last() else { panic!() };
        assert_eq!((report.lane, report.seq, report.phase, report.missing), (lane, seq, phase, missing));
        let [a, b, c, beyond @ ..] = report.ages_millis;
        assert!(a < 2000 && b < 2000, "{a} {b}: a third of the lease");
        assert!((3000..5000).contains(&c), "{c}: it does not run");
        assert!(beyond.iter().all(|&age| age == 0));
    }
}

#[test]
fn c4_only_members_are_told() {
    let mut net = Net::new(0, CALM);
    let members = net.ready_job("job", 2, 1);
    let params = net.params(members[0]);
    let mut octets = [0; MAX_CONTROL_LEN];
    let SessionParams { job, session, .. } = params;
    let query = Message::Query { job, rank: rank(0), lane: LaneId::ZERO, session, seq: Seq(0) };
    let len = query.emit(&mut octets);
    let stranger = SocketAddr::from(([10, 9, 9, 9], 4000));
    let other = net.processes[members[1]].address(LaneId::ZERO);
    for from in [stranger, other] {
        let heard =
            net.coordinator.handle_datagram(net.now, LaneId::ZERO, from, &octets[..len], &mut net.plane);
        assert_eq!(heard, Heard::Foreign);
        assert_eq!(net.coordinator.poll_transmit(net.now, &mut [0; 2000]), None);
    }
}

fn data_packet(job: JobId, seq: u32) -> Vec<u8> {
    let layout = LaneLayout::new(0, Window::DEFAULT, ChunkSize::DEFAULT).unwrap();
    let mut packet = vec![0; HEADER_LEN];
    Header::new(job, layout, Seq(seq), PayloadSize::ExponentOnly, 0, 1).emit(&mut packet);
    packet
}

#[test]
fn c3_data_without_a_session_is_answered_with_a_short_hint_at_a_limited_rate() {
    let mut net = Net::new(0, CALM);
    let from = SocketAddr::from(([10, 9, 9, 9], 4000));
    let mut buf = [0; 2000];
    let mut hints = 0;
    let packet = data_packet(JobId(9), 77);
    for _ in 0..10_000 {
        net.now += Duration::from_micros(100);
        net.coordinator.handle_stray_data(net.now, LaneId::ZERO, from, &packet);
        while let Some(transmit) = net.coordinator.poll_transmit(net.now, &mut buf) {
            assert!(transmit.len < packet.len());
            let hint = Message::parse(&buf[..transmit.len]);
            assert_eq!(hint, Ok(Message::NoSession { job: JobId(9), seq: Seq(77) }));
            hints += 1;
        }
    }
    assert!((200..=241).contains(&hints), "{hints} hints in a second");
    let counters = *net.coordinator.counters();
    assert_eq!((counters.hints, counters.hints_withheld), (hints, 10_000 - hints));
    net.coordinator.handle_stray_data(net.now, LaneId::ZERO, from, &packet[..5]);
    assert_eq!(net.coordinator.counters().malformed, 1);
}

#[test]
fn c3_a_hint_of_a_lost_session_makes_the_member_ask_at_once_but_not_often() {
    let mut net = Net::new(0, CALM);
    let member = net.ready_job("job", 1, 1)[0];
    let job = net.params(member).job;
    net.run(SECOND);
    let mut hint = [0; MAX_CONTROL_LEN];
    let len = Message::NoSession { job, seq: Seq(0) }.emit(&mut hint);
    let before = net.coordinator.counters().keep_alives;
    for _ in 0..1000 {
        let heard = net.processes[member].member.handle_datagram(net.now, LaneId::ZERO, &hint[..len]);
        assert_eq!(heard, Heard::Accepted);
        net.run(Duration::from_millis(1));
    }
    let asked = net.coordinator.counters().keep_alives - before;
    assert!((18..=22).contains(&asked), "{asked} keep-alives in a second");
    // The hint has no authority: the session is there, and stays.
    assert!(matches!(net.processes[member].last(), Some(MemberEvent::Ready(_))));

    let len = Message::NoSession { job: JobId(job.0.wrapping_add(1)), seq: Seq(0) }.emit(&mut hint);
    let heard = net.processes[member].member.handle_datagram(net.now, LaneId::ZERO, &hint[..len]);
    assert_eq!(heard, Heard::Foreign);
}

#[test]
fn c3_only_the_process_that_joined_renews_a_lease() {
    let mut net = Net::new(0, CALM);
    let member = net.ready_job("job", 1, 1)[0];
    let SessionParams { job, session, .. } = net.params(member);
    let from = net.processes[member].address(LaneId::ZERO);
    let mut octets = [0; MAX_CONTROL_LEN];
    let nonce = Nonce(1);
    let real = net.nonce(member);
    let other_job = JobId(job.0.wrapping_add(1));
    for message in [
        Message::KeepAlive { job: other_job, rank: rank(0), session, nonce: real },
        Message::KeepAlive { job, rank: rank(0), session, nonce },
        Message::Leave { job, rank: rank(0), session, nonce },
        Message::Aborted { rank: rank(0), session, nonce },
    ] {
        let len = message.emit(&mut octets);
        assert_eq!(net.say(from, &octets[..len]), (Heard::Foreign, None));
    }
    assert_eq!(net.sessions(), 1);
}
