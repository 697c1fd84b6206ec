//! I-4: nothing that comes from the network panics, spins, or makes state without a proof of address.

use std::net::SocketAddr;
use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use switchml_proto::control::*;
use switchml_proto::wire::*;
use switchml_proto::*;

use crate::net::*;

/// Octets that look like a message more often than chance would have it.
fn datagrams() -> impl Strategy<Value = Vec<u8>> {
    let lengths = prop_oneof![
        Just(8usize),
        Just(12),
        Just(16),
        Just(20),
        Just(28),
        Just(37),
        Just(44),
        Just(1034),
        0..200usize
    ];
    (0..=15u8, prop::bool::ANY, lengths).prop_flat_map(|(kind, zeros, len)| {
        vec(if zeros { 0..=1u8 } else { 0..=255u8 }, len).prop_map(move |mut octets| {
            if let Some(first) = octets.first_mut() {
                *first = kind << 4 | 1;
            }
            octets
        })
    })
}

/// Settles the network, whatever the machines think; it panics if a machine spins.
fn check(net: &mut Net) {
    net.run(Duration::from_millis(30));
    assert!(net.sessions() <= 1);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn i4_garbage_changes_nothing(datagrams in vec(datagrams(), 1..40), seed in any::<u64>(), waiting in any::<bool>()) {
        let mut net = Net::new(seed, CALM);
        let member = if waiting {
            let member = net.join(member_config("job", 2, 0));
            net.run(Duration::from_millis(100));
            member
        } else {
            net.ready_job("job", 1, 2)[0]
        };
        let last = net.processes[member].last();
        let address = net.processes[member].address(LaneId::ZERO);
        let stranger = SocketAddr::from(([10, 9, 9, 9], 4000));
        for datagram in datagrams {
            for from in [address, stranger] {
                net.coordinator.handle_datagram(net.now, LaneId::ZERO, from, &datagram, &mut net.plane);
                net.coordinator.handle_stray_data(net.now, LaneId::ZERO, from, &datagram);
                let mut buf = [0; MAX_DATAGRAM_LEN];
                while let Some(answer) = net.coordinator.poll_transmit(net.now, &mut buf) {
                    prop_assert!(answer.to != stranger || answer.len <= datagram.len(), "C-3: never longer");
                }
            }
            net.processes[member].member.handle_datagram(net.now, LaneId::ZERO, &datagram);
            check(&mut net);
        }
        net.run(2 * LEASE);
        prop_assert_eq!(net.processes[member].last(), last);
        prop_assert_eq!(net.sessions(), 1);
    }

    #[test]
    fn i4_bent_copies_of_real_messages_hurt_nobody_else(
        bends in vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), 0..8u32, any::<bool>()), 1..60),
        seed in any::<u64>(),
    ) {
        let mut net = Net::new(seed, ROUGH);
        let members = net.ready_job("job", 2, 2);
        net.run(LEASE);
        let sent = net.sent.clone();
        let stranger = SocketAddr::from(([10, 9, 9, 9], 4000));
        for (which, octet, bit, strange) in bends {
            let (from, lane, mut datagram) = which.get(&sent).clone();
            let at = octet.index(datagram.len());
            datagram[at] ^= 1 << bit;
            let from = if strange { stranger } else { from };
            net.coordinator.handle_datagram(net.now, lane, from, &datagram, &mut net.plane);
            for &m in &members {
                net.processes[m].member.handle_datagram(net.now, lane, &datagram);
            }
            check(&mut net);
        }
        // One bit of a keep-alive makes it a leave, or another nonce: the session may end, but all are told.
        net.run(4 * LEASE);
        for m in members {
            let alive = net.sessions() == 1;
            prop_assert!(alive || net.processes[m].ended_at().is_some());
        }
    }

    #[test]
    fn i6_whatever_happens_everybody_gets_an_end(
        seed in any::<u64>(),
        world in 1..6usize,
        lanes in 1..4usize,
        script in vec((0..7u8, 0..6usize, 0..4000u64), 1..12),
    ) {
        let mut net = Net::new(seed, ROUGH);
        for r in 0..world {
            let mut config = member_config("job", world, r);
            config.lanes = LaneCount::new(lanes).unwrap();
            config.join_timeout = Duration::from_secs(30);
            net.join(config);
        }
        for (what, who, millis) in script {
            net.run(Duration::from_millis(millis));
            let who = who % world;
            let now = net.now;
            let process = &mut net.processes[who];
            match what {
                0 => process.member.leave(now),
                1 => process.member.abort(now, AbortReason::Cancelled, None),
                2 => process.running = false,
                3 => process.running = true,
                4 => net.restart_switch(millis as u8),
                5 => net.plane.missing = ranks(&[who]),
                _ => process.member.query(now, LaneId::ZERO, Seq(0)),
            }
        }
        for process in &mut net.processes {
            process.member.leave(net.now);
        }
        net.run(Duration::from_secs(45));
        prop_assert_eq!(net.sessions(), 0, "no session outlives its members");
        prop_assert!(net.plane.installed.is_empty());
        prop_assert_eq!(net.coordinator.poll_timeout(), None);
        for process in net.processes.iter().filter(|process| process.running) {
            prop_assert_eq!(process.member.poll_timeout(), None, "{:?}", process.events);
            prop_assert!(matches!(process.last(), Some(MemberEvent::Left | MemberEvent::Ended(_))));
            let ends = process.events.iter().filter(|(_, event)| {
                matches!(event, MemberEvent::Left | MemberEvent::Ended(_))
            });
            prop_assert_eq!(ends.count(), 1, "the last event is told once");
        }
    }
}

#[test]
fn i4_the_storage_may_be_empty() {
    let room = Room { jobs: 0, members: 0, ports: 0 };
    let mut net = Net::with(0, CALM, switch_config(1), room);
    let process = net.join(member_config("job", 1, 0));
    net.run(Duration::from_secs(1));
    let reason = EndReason::Rejected(RejectReason::TooManyJobs);
    assert_eq!(net.processes[process].ended_at().unwrap().1, reason);
}

#[test]
fn i4_a_configuration_that_cannot_work_is_refused() {
    let storage = || CoordinatorStorage { jobs: &mut [], members: &mut [], ports: &mut [] };
    let refused = |change: fn(&mut CoordinatorConfig)| {
        let mut config = switch_config(1);
        change(&mut config);
        Coordinator::new(config, storage(), Instant::ZERO).unwrap_err()
    };
    assert_eq!(refused(|config| config.slots = 0), InvalidConfig::Slots { slots: 0 });
    assert_eq!(refused(|config| config.slots = 16_385), InvalidConfig::Slots { slots: 16_385 });
    let lease = Duration::from_millis(19);
    assert_eq!(refused(|config| config.lease = Duration::from_millis(19)), InvalidConfig::Lease { lease });
    let lease = Duration::MAX;
    assert_eq!(refused(|config| config.lease = Duration::MAX), InvalidConfig::Lease { lease });
    let world_size = WorldSize::new(2).unwrap();
    let name = JobName::new("job").unwrap();
    let rank = rank(2);
    let error = MemberConfig::new(name, world_size, rank).unwrap_err();
    assert_eq!(error, InvalidConfig::RankOutsideWorld { rank, world_size });
    let mut config = member_config("job", 3, 2);
    config.world_size = world_size;
    assert_eq!(Member::new(config, Nonce(0), Instant::ZERO).unwrap_err(), error);
}

#[test]
fn i4_a_welcome_that_no_worker_could_start_from_is_malformed() {
    let mut member = Member::new(member_config("job", 1, 0), Nonce(1), Instant::ZERO).unwrap();
    let welcome = welcome(Nonce(1));
    let window = u32::from(Window::DEFAULT.get());
    let bad_seqs = [1, window, window + 1, 3 * window, u32::MAX].map(Seq);
    let bad_seqs = bad_seqs.map(|initial_seq| Welcome { initial_seq, ..welcome });
    let others = [Welcome { lease_millis: 0, ..welcome }, Welcome { base: u16::MAX, ..welcome }];
    for bad in bad_seqs.into_iter().chain(others) {
        let mut datagram = [0; 1034];
        Message::Welcome(bad).emit(&mut datagram);
        let heard = member.handle_datagram(Instant::ZERO, LaneId::ZERO, &datagram);
        assert_eq!(heard, Heard::Malformed(ControlError::Value));
    }
    assert_eq!(member.session(), None);
}
