//! Why the transmit buffer has a guard.

extern crate std;

use std::collections::VecDeque;
use std::vec;
use std::vec::Vec;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use smoltcp::socket::udp::{PacketBuffer, PacketMetadata, UdpMetadata};
use smoltcp::wire::{IpEndpoint, Ipv4Address};

use super::TransmitGuard;

const LONGEST: usize = 50;

/// Writes packets of random lengths into a ring, and takes them out again, in random order. How many were written, if all
/// came out as they were.
fn come_out(
    seed: u64,
    descriptions: usize,
    octets: usize,
    mut guard: Option<TransmitGuard>,
) -> Option<usize> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut ring = PacketBuffer::new(vec![PacketMetadata::EMPTY; descriptions], vec![0; octets]);
    let to = UdpMetadata::from(IpEndpoint::new(Ipv4Address::new(10, 0, 0, 1).into(), 9));
    let mut inside: VecDeque<Vec<u8>> = VecDeque::new();
    let mut written = 0;
    for number in 0..5000u32 {
        if random.next_u32().is_multiple_of(2) {
            if guard.as_mut().is_some_and(|guard| !guard.admits(descriptions, || ring.is_empty())) {
                continue;
            }
            let packet = vec![number as u8; 1 + random.next_u32() as usize % LONGEST];
            let fill = |buf: &mut [u8]| {
                buf[..packet.len()].copy_from_slice(&packet);
                packet.len()
            };
            if ring.enqueue_with_infallible(LONGEST, to, fill).is_ok() {
                guard.iter_mut().for_each(TransmitGuard::wrote);
                inside.push_back(packet);
                written += 1;
            }
        } else if ring.dequeue().ok().map(|(_, packet)| packet.to_vec()) != inside.pop_front() {
            return None;
        }
    }
    Some(written)
}

#[test]
fn behind_the_guard_every_packet_comes_out_as_it_was_written() {
    for seed in 0..50 {
        for descriptions in 2..8 {
            for octets in [TransmitGuard::octets_needed(LONGEST), 130, 333] {
                let written = come_out(seed, descriptions, octets, Some(TransmitGuard::default()));
                let enough = written.is_some_and(|written| written > 500);
                assert!(enough, "seed {seed}, {descriptions} descriptions, {octets} octets: {written:?}");
            }
        }
    }
}

#[test]
fn without_the_guard_some_do_not() {
    assert!((0..50).any(|seed| come_out(seed, 4, 130, None).is_none()));
}
