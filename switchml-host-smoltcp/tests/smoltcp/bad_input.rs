//! What a net may do to a session besides losing packets, and what strangers may send.

use smoltcp::phy::ChecksumCapabilities;
use smoltcp::time::Duration;
use smoltcp::wire::{
    EthernetFrame, EthernetProtocol, EthernetRepr, HardwareAddress, IpProtocol, Ipv4Packet, Ipv4Repr,
    UdpPacket, UdpRepr,
};
use switchml_host_smoltcp::WorkerStatus;
use switchml_proto::numeric::Reduction;
use switchml_proto::wire::DEFAULT_PORT_BASE;

use crate::net::Faults;
use crate::world::{AMPLE, WORKER_PORT, World, ip, mac};

const LEN: usize = 20_000;

fn tensors(ranks: usize) -> Vec<Vec<f32>> {
    (0..ranks).map(|rank| (0..LEN).map(|i| (i % 100 + rank) as f32).collect()).collect()
}

fn assert_sums(tensors: &[Vec<f32>]) {
    let ranks = tensors.len();
    for tensor in tensors {
        let sums = (0..LEN).map(|i| (ranks * (i % 100) + ranks * (ranks - 1) / 2) as f32);
        assert!(tensor.iter().copied().eq(sums));
    }
}

/// A UDP datagram in a frame, from anybody to anybody.
fn frame(from: (usize, u16), to: (usize, u16), payload: &[u8]) -> Vec<u8> {
    let udp = UdpRepr { src_port: from.1, dst_port: to.1 };
    let ipv4 = Ipv4Repr {
        src_addr: ip(from.0),
        dst_addr: ip(to.0),
        next_header: IpProtocol::Udp,
        payload_len: udp.header_len() + payload.len(),
        hop_limit: 64,
    };
    let ethernet =
        EthernetRepr { src_addr: mac(from.0), dst_addr: mac(to.0), ethertype: EthernetProtocol::Ipv4 };
    let mut frame = vec![0; 14 + 20 + 8 + payload.len()];
    ethernet.emit(&mut EthernetFrame::new_unchecked(&mut frame));
    let checksums = ChecksumCapabilities::default();
    ipv4.emit(&mut Ipv4Packet::new_unchecked(&mut frame[14..]), &checksums);
    let (source, destination) = (ipv4.src_addr.into(), ipv4.dst_addr.into());
    let mut packet = UdpPacket::new_unchecked(&mut frame[34..]);
    udp.emit(
        &mut packet,
        &source,
        &destination,
        payload.len(),
        |buf| buf.copy_from_slice(payload),
        &checksums,
    );
    frame
}

#[test]
fn a_link_that_goes_down_and_up_in_mid_collective_costs_time_and_nothing_else() {
    let mut world = World::<1>::joined(3, 40);
    let mut tensors = tensors(3);
    let begun = world.now;
    let (mut down, mut up) = (false, false);
    let outcomes = world.collective_with(
        &mut tensors,
        |_, worker, tensor, now| worker.all_reduce(tensor, Reduction::Sum, now),
        |rank, now, host| {
            let since = (now - begun).total_millis();
            if rank == 1 && !down && since >= 2 {
                down = true;
                host.plug.set_up(false);
            }
            if rank == 1 && !up && since >= 1400 {
                up = true;
                host.plug.set_up(true);
            }
        },
    );
    assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
    assert_sums(&tensors);
    assert!(world.now - begun > Duration::from_millis(1400), "it was down for a while");
    assert!(world.workers[1].counters().resent > 0);
}

#[test]
fn an_address_that_is_lost_and_found_in_mid_collective_is_counted() {
    let mut world = World::<1>::joined(2, 41);
    let mut tensors = tensors(2);
    let begun = world.now;
    let mut own = Vec::new();
    let outcomes = world.collective_with(
        &mut tensors,
        |_, worker, tensor, now| worker.all_reduce(tensor, Reduction::Sum, now),
        |rank, now, host| {
            let since = (now - begun).total_millis();
            if rank == 1 && since >= 2 && own.is_empty() {
                host.interface.update_ip_addrs(|addresses| {
                    own.extend_from_slice(addresses);
                    addresses.clear();
                });
            }
            if rank == 1 && since >= 1000 && host.interface.ip_addrs().is_empty() {
                host.interface.update_ip_addrs(|addresses| {
                    addresses.extend_from_slice(&own).expect("there was room for them");
                });
            }
        },
    );
    assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
    assert_sums(&tensors);
    let counters = world.workers[1].counters();
    assert!(counters.unroutable > 0, "{counters:?}");
}

#[test]
fn an_aggregator_that_changes_its_link_address_is_found_again() {
    let mut world = World::<1>::joined(2, 42);
    let other = smoltcp::wire::EthernetAddress([2, 0, 0, 0, 0, 0x77]);
    let core = world.core.as_mut().expect("it is on");
    core.host.plug.set_address(other);
    core.host.interface.set_hardware_addr(HardwareAddress::Ethernet(other));
    let mut tensors = tensors(2);
    let begun = world.now;
    let outcomes = world.all_reduce(&mut tensors, Reduction::Sum);
    assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
    assert_sums(&tensors);
    let counters = world.workers[0].counters();
    assert!(counters.neighbor_doubts > 0, "{counters:?}");
    assert!(world.now - begun < Duration::from_secs(5), "found within the lease");
}

#[test]
fn strangers_that_flood_both_ends_stop_nobody() {
    let mut world = World::<1>::joined(2, 43);
    let mut tensors = tensors(2);
    let net = world.net.clone();
    let data = [0x13; 138];
    let mut sent = 0;
    let outcomes = world.collective_with(
        &mut tensors,
        |_, worker, tensor, now| worker.all_reduce(tensor, Reduction::Sum, now),
        |rank, now, _| {
            // Eight for each turn, from a host that answers no request for its link address.
            for i in 0..8 {
                let from = (100 + i % 2, 1000 + i as u16);
                let (to, payload): (_, &[u8]) = match i % 4 {
                    0 => ((0, DEFAULT_PORT_BASE), &data),
                    1 => ((0, DEFAULT_PORT_BASE), &[0x21; 60]),
                    2 => ((0, DEFAULT_PORT_BASE), &[]),
                    _ => ((rank + 1, WORKER_PORT), &data),
                };
                net.inject(now, frame(from, to, payload));
                sent += 1;
            }
        },
    );
    assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
    assert_sums(&tensors);
    let heard = world.core.as_ref().expect("it is on").aggregator.counters().strangers;
    let noticed = world.workers[0].counters().strangers;
    assert!(heard > 100 && noticed > 50, "{heard} and {noticed} of {sent}");
}

#[test]
fn a_forged_join_from_an_address_that_nobody_has_makes_no_member_wait() {
    let mut world = World::<1>::joined(2, 44);
    // A short first join: the aggregator answers with a challenge, for which it asks for a link address, in vain.
    let mut join = [0u8; 80];
    let name = switchml_proto::wire::JobName::new("other").expect("a name");
    let config = switchml_proto::control::MemberConfig::new(
        name,
        switchml_proto::WorldSize::new(2).expect("a world"),
        switchml_proto::Rank::ZERO,
    );
    let mut member = switchml_proto::control::Member::new(
        config.expect("a configuration"),
        switchml_proto::Nonce(9),
        switchml_proto::Instant::ZERO,
    )
    .expect("a configuration");
    let mut buf = vec![0; member.transmit_capacity()];
    let sent = member.poll_transmit(switchml_proto::Instant::ZERO, &mut buf).expect("a join is due");
    join[..sent.len].copy_from_slice(&buf[..sent.len]);
    world.net.inject(world.now, frame((150, 9), (0, DEFAULT_PORT_BASE), &join[..sent.len]));
    world.idle(Duration::from_millis(10));
    let mut tensors = tensors(2);
    let begun = world.now;
    let outcomes = world.all_reduce(&mut tensors, Reduction::Sum);
    assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
    assert_sums(&tensors);
    // The stack keeps the socket of the vain request silent for a second.
    assert!(world.now - begun < Duration::from_millis(500), "{}", world.now - begun);
    let resent: u64 = world.workers.iter().map(|worker| worker.counters().resent).sum();
    assert_eq!(resent, 0);
}

#[test]
fn malformed_answers_to_a_join_change_nothing() {
    let mut world = World::<1>::new(2, 45, AMPLE);
    // In the aggregator's name: every kind, every length, noise behind it.
    for kind in 0..16u8 {
        for len in 1..160 {
            let payload: Vec<_> =
                (0..len).map(|i| if i == 0 { kind << 4 | 1 } else { (i * 31) as u8 }).collect();
            for rank in 0..2 {
                let frame = frame((0, DEFAULT_PORT_BASE), (rank + 1, WORKER_PORT), &payload);
                world.net.inject(world.now, frame);
            }
        }
    }
    world.join();
    let mut tensors = tensors(2);
    let outcomes = world.all_reduce(&mut tensors, Reduction::Sum);
    assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
    assert_sums(&tensors);
}

#[test]
fn joining_goes_through_heavy_faults() {
    let mut world = World::<2>::new(4, 46, AMPLE);
    world.net.set_faults(Faults { drop: 200, duplicate: 100, corrupt: 100, reorder: 200, occupies: 10 });
    world.join();
    assert!(world.workers.iter().all(|worker| worker.status() == WorkerStatus::Ready));
}
