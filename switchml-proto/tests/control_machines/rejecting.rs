//! C-1, W-10, W-11: which joins are refused, and that forged ones come to nothing.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use switchml_proto::control::*;
use switchml_proto::wire::*;
use switchml_proto::*;

use crate::net::*;

const SECOND: Duration = Duration::from_secs(1);

fn rejection(net: &Net, process: usize) -> RejectReason {
    match net.processes[process].last() {
        Some(MemberEvent::Ended(EndReason::Rejected(reason))) => reason,
        other => panic!("{other:?} instead of a rejection"),
    }
}

#[test]
fn c1_each_parameter_that_disagrees_is_named() {
    let mut net = Net::new(0, CALM);
    net.join(member_config("job", 3, 0));
    net.run(SECOND);
    type Change = fn(&mut MemberConfig);
    let changes: [(Field, u32, Change); 4] = [
        (Field::WorldSize, 3, |config| config.world_size = WorldSize::new(4).unwrap()),
        (Field::Lanes, 1, |config| config.lanes = LaneCount::new(2).unwrap()),
        (Field::ChunkSize, 256, |config| config.chunk = ChunkSize::MIN),
        (Field::Window, 128, |config| config.window = Window::new(64).unwrap()),
    ];
    for (field, job_value, change) in changes {
        let mut config = member_config("job", 3, 1);
        change(&mut config);
        let other = net.join(config);
        net.run(SECOND);
        assert_eq!(rejection(&net, other), RejectReason::Disagrees { field, job_value });
    }
    assert_eq!(net.coordinator.sessions(net.now).next().unwrap().missing, ranks(&[1, 2]));
}

#[test]
fn c1_a_taken_rank_is_refused() {
    let mut net = Net::new(0, CALM);
    let first = net.join(member_config("job", 2, 0));
    net.run(SECOND);
    let second = net.join(member_config("job", 2, 0));
    net.run(SECOND);
    assert_eq!(rejection(&net, second), RejectReason::RankTaken);
    assert!(matches!(net.processes[first].last(), Some(MemberEvent::Waiting { .. })));
}

#[test]
fn w11_a_chunk_too_large_for_the_aggregator_or_its_path_is_refused_with_the_largest() {
    let mut net = Net::new(0, CALM);
    let mut config = member_config("job", 1, 0);
    config.chunk = ChunkSize::from_elements(512).unwrap();
    let process = net.join(config);
    net.run(SECOND);
    assert_eq!(rejection(&net, process), RejectReason::ChunkTooLarge { largest: 256 });
    for (path, largest) in [(1000, 128), (100, 0)] {
        net.plane.largest_datagram = Some(path);
        let process = net.join(member_config("job", 1, 0));
        net.run(SECOND);
        assert_eq!(rejection(&net, process), RejectReason::ChunkTooLarge { largest });
    }
    assert_eq!(net.sessions(), 0);
}

#[test]
fn w11_the_largest_chunk_is_told_where_the_padded_join_does_not_arrive() {
    let mut net = Net::new(0, Faults { mtu: 600, ..CALM });
    net.plane.largest_datagram = Some(600);
    let process = net.join(member_config("job", 1, 0));
    net.run(SECOND);
    assert_eq!(rejection(&net, process), RejectReason::ChunkTooLarge { largest: 128 });
}

#[test]
fn c1_too_many_lanes_and_too_few_slots_are_refused_with_what_can_be_had() {
    let mut net = Net::new(0, CALM);
    let mut config = member_config("lanes", 1, 0);
    config.lanes = LaneCount::new(5).unwrap();
    let process = net.join(config);
    net.run(SECOND);
    assert_eq!(rejection(&net, process), RejectReason::TooManyLanes { lanes: 4 });

    // 512 slots: 128 of them taken, and 384 free.
    net.ready_job("first", 1, 1);
    let mut config = member_config("second", 1, 0);
    config.window = Window::new(512).unwrap();
    let process = net.join(config);
    net.run(SECOND);
    assert_eq!(rejection(&net, process), RejectReason::NoFreeSlots { largest: 256 });
    for name in ["second", "third", "fourth"] {
        net.ready_job(name, 1, 1);
    }
    let process = net.join(member_config("fifth", 1, 0));
    net.run(SECOND);
    assert_eq!(rejection(&net, process), RejectReason::NoFreeSlots { largest: 0 });
    let bases: BTreeSet<_> = net.plane.installed.values().map(|job| job.layout.base()).collect();
    assert_eq!(bases, BTreeSet::from([0, 128, 256, 384]));
}

#[test]
fn c1_full_tables_are_refused() {
    for (room, expected) in [
        (Room { jobs: 1, members: 9, ports: 9 }, RejectReason::TooManyJobs),
        (Room { jobs: 9, members: 1, ports: 9 }, RejectReason::TooManyMembers),
        (Room { jobs: 9, members: 9, ports: 1 }, RejectReason::TooManyMembers),
    ] {
        let mut net = Net::with(0, CALM, switch_config(1), room);
        net.ready_job("first", 1, 1);
        let process = net.join(member_config("second", 1, 0));
        net.run(SECOND);
        assert_eq!(rejection(&net, process), expected);
        assert_eq!(net.sessions(), 1);
    }
}

#[test]
fn c1_a_plane_without_room_is_a_rejection_of_all() {
    let mut net = Net::new(3, ROUGH);
    net.plane.refuse = Some(InstallRefused::Slots { largest: 64 });
    let members: Vec<_> = (0..3).map(|r| net.join(member_config("job", 3, r))).collect();
    net.run(3 * SECOND);
    for member in members {
        assert_eq!(rejection(&net, member), RejectReason::NoFreeSlots { largest: 64 });
    }
    // While the others may still have to be told, a new one is told the same.
    assert_eq!(net.sessions(), 1);
    let late = net.join(member_config("job", 3, 0));
    net.run(LEASE);
    assert_eq!(rejection(&net, late), RejectReason::NoFreeSlots { largest: 64 });
    assert_eq!(net.sessions(), 0);
    let how = SessionEnd::Refused(InstallRefused::Slots { largest: 64 });
    assert!(matches!(net.log.last(), Some(CoordinatorEvent::Ended { how: end, .. }) if *end == how));
}

/// The first join that a member sends, as octets.
fn join_octets(name: &str, nonce: u64) -> Vec<u8> {
    let mut member = Member::new(member_config(name, 2, 0), Nonce(nonce), Instant::ZERO).unwrap();
    let mut buf = [0; MAX_DATAGRAM_LEN];
    let transmit = member.poll_transmit(Instant::ZERO, &mut buf).unwrap();
    buf[..transmit.len].to_vec()
}

fn stranger(n: u32) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::from(0x0a80_0000 + n), 9))
}

#[test]
fn c1_a_protocol_version_or_option_of_the_future_is_answered() {
    let mut net = Net::new(0, CALM);
    let mut octets = join_octets("job", 1);
    octets[0] = octets[0] & 0xf0 | 2;
    let (heard, answer) = net.say(stranger(0), &octets);
    assert_eq!(heard, Heard::Malformed(ControlError::Version { version: 2 }));
    let Ok(Message::Reject { nonce, reason, .. }) = Message::parse(&answer.unwrap()) else { panic!() };
    assert_eq!(nonce, Nonce(1));
    assert_eq!(reason, RejectReason::ProtocolVersion { version: PROTOCOL_VERSION });
    let (_, answer) = net.say(stranger(0), &octets[..12]);
    assert_eq!(answer, None, "an answer must not be longer than what it answers");

    let mut octets = join_octets("job", 1);
    octets[19] = 4;
    octets.extend([0; 4]);
    let (heard, answer) = net.say(stranger(0), &octets);
    assert!(matches!(heard, Heard::Malformed(ControlError::Option { .. })));
    let Ok(Message::Reject { reason, .. }) = Message::parse(&answer.unwrap()) else { panic!() };
    assert_eq!(reason, RejectReason::UnknownOption);
}

#[test]
fn c1_a_forged_join_makes_no_state_and_its_answer_is_not_longer() {
    let mut net = Net::new(0, CALM);
    let octets = join_octets("j", 1);
    let (heard, answer) = net.say(stranger(0), &octets);
    assert_eq!(heard, Heard::Accepted);
    let answer = answer.unwrap();
    assert!(answer.len() <= octets.len());
    let Ok(Message::Challenge { cookie, .. }) = Message::parse(&answer) else { panic!() };
    assert_eq!(net.sessions(), 0);
    assert_eq!(net.coordinator.poll_timeout(), None);

    // The cookie of one address is none for another address, nonce or lane.
    let Ok(Message::Join(join)) = Message::parse(&octets) else { panic!() };
    let with_cookie = |join: Join| {
        let mut padded = vec![0; 1034];
        Message::Join(Join { cookie, ..join }).emit(&mut padded);
        padded
    };
    let (_, answer) = net.say(stranger(1), &with_cookie(join));
    assert!(matches!(Message::parse(&answer.unwrap()), Ok(Message::Challenge { .. })));
    let (_, answer) = net.say(stranger(0), &with_cookie(Join { nonce: Nonce(2), ..join }));
    assert!(matches!(Message::parse(&answer.unwrap()), Ok(Message::Challenge { .. })));
    assert_eq!(net.sessions(), 0);
    assert_eq!(net.coordinator.counters().stale_cookies, 2);

    // An old one neither: after two epochs the member gets a fresh one.
    net.now += Duration::from_secs(17);
    let (_, answer) = net.say(stranger(0), &with_cookie(join));
    let Ok(Message::Challenge { cookie: fresh, .. }) = Message::parse(&answer.unwrap()) else { panic!() };
    assert_ne!(fresh, cookie);
    assert_eq!(net.sessions(), 0);
    let mut padded = vec![0; 1034];
    Message::Join(Join { cookie: fresh, ..join }).emit(&mut padded);
    let (_, answer) = net.say(stranger(0), &padded);
    assert_eq!(answer.as_ref().map(Vec::len), Some(1034), "W-11: a welcome as long as the join");
    assert!(matches!(Message::parse(&answer.unwrap()), Ok(Message::Welcome(_))));
    assert_eq!(net.sessions(), 1);
}

#[test]
fn c1_a_join_to_the_port_of_another_lane_is_foreign() {
    let mut net = Net::new(0, CALM);
    let octets = join_octets("job", 1);
    let lane = LaneId::new(1).unwrap();
    let heard = net.coordinator.handle_datagram(net.now, lane, stranger(0), &octets, &mut net.plane);
    assert_eq!(heard, Heard::Foreign);
}

#[test]
fn c1_a_flood_of_distinct_jobs_is_bounded() {
    let mut net = Net::new(0, CALM);
    let mut reasons = BTreeSet::new();
    for n in 0..65_000u32 {
        let octets = join_octets(&format!("job {n}"), n.into());
        let (_, answer) = net.say(stranger(n), &octets);
        let Ok(Message::Challenge { cookie, .. }) = Message::parse(&answer.unwrap()) else { panic!() };
        let Ok(Message::Join(join)) = Message::parse(&octets) else { panic!() };
        let mut padded = vec![0; 1034];
        Message::Join(Join { cookie, ..join }).emit(&mut padded);
        let (_, answer) = net.say(stranger(n), &padded);
        match Message::parse(&answer.unwrap()) {
            Ok(Message::Welcome(_)) => {}
            Ok(Message::Reject { reason, .. }) => _ = reasons.insert(format!("{reason:?}")),
            other => panic!("{other:?}"),
        }
        assert!(net.sessions() <= 4, "512 slots are four windows");
    }
    assert_eq!(reasons, BTreeSet::from(["NoFreeSlots { largest: 0 }".to_owned()]));
    // Nobody keeps them alive, so a real job has its turn a lease later.
    net.run(LEASE);
    assert_eq!(net.sessions(), 0);
    net.ready_job("real", 2, 1);
}

#[test]
fn w10_an_address_is_one_lane_of_one_rank_of_one_job() {
    let mut net = Net::new(0, CALM);
    let mut config = member_config("job", 2, 0);
    config.lanes = LaneCount::new(2).unwrap();
    let process = net.join(config);
    net.run(SECOND);
    let [first, second] = [0, 1].map(|lane| LaneId::new(lane).unwrap());
    let of_first = net.processes[process].address(first);
    let of_second = net.processes[process].address(second);

    let Ok(Message::Join(join)) = Message::parse(&join_octets("other", 1)) else { panic!() };
    let of_job = Join { name: config.name, lanes: config.lanes, ..join };
    let other_rank = Join { rank: rank(1), ..of_job };
    // The member's own second lane, had it come from the address of its first.
    let other_lane = Join { nonce: net.nonce(process), ..of_job };
    for (from, join, expected) in [
        (of_first, join, RejectReason::AddressTaken),
        (of_first, other_rank, RejectReason::AddressTaken),
        (of_second, other_lane, RejectReason::AddressTaken),
        // The rank comes first: who joins anew from its old address finds itself there.
        (of_first, of_job, RejectReason::RankTaken),
    ] {
        let mut padded = vec![0; 1034];
        Message::Join(join).emit(&mut padded);
        let (_, answer) = net.say(from, &padded);
        let Ok(Message::Challenge { cookie, .. }) = Message::parse(&answer.unwrap()) else { panic!() };
        Message::Join(Join { cookie, ..join }).emit(&mut padded);
        let (_, answer) = net.say(from, &padded);
        let Ok(Message::Reject { reason, .. }) = Message::parse(&answer.unwrap()) else { panic!() };
        assert_eq!(reason, expected, "{join:?} from {from}");
    }
    assert_eq!(net.coordinator.sessions(net.now).next().unwrap().missing, ranks(&[1]));
    assert_eq!(net.sessions(), 1);
}
