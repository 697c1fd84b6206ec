use core::net::IpAddr;
use core::time::Duration;
use std::collections::HashMap;
use std::thread;
use std::time::Instant;

use super::*;

const V4: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const V6: IpAddr = IpAddr::V6(Ipv6Addr::LOCALHOST);

fn options(calls: SocketCalls) -> Options {
    Options { calls, faults: None }
}

/// Each kind of calls, over both families.
fn everywhere(test: impl Fn(Options, SocketAddr)) {
    for calls in [SocketCalls::Segmented, SocketCalls::Batched, SocketCalls::Single] {
        for ip in [V4, V6] {
            test(options(calls), (ip, 0).into());
        }
    }
}

/// Receives until `count` datagrams have come, or none has for half a second.
fn collect(transport: &Transport, batch: &mut RecvBatch, count: usize) -> Vec<(SocketAddr, Vec<u8>)> {
    let mut all = Vec::new();
    let mut last = Instant::now();
    while all.len() < count && last.elapsed() < Duration::from_millis(500) {
        if transport.recv(batch).expect("the socket works") != Received::Batch {
            thread::sleep(Duration::from_millis(1));
            continue;
        }
        last = Instant::now();
        for run in batch.runs() {
            all.extend(run.datagrams().map(|octets| (run.from, octets.to_vec())));
        }
    }
    all
}

#[test]
fn a_run_reaches_every_address_in_order() {
    everywhere(|options, any| {
        let sender = Transport::bind(any, &options).expect("a free port");
        let receivers: Vec<_> =
            (0..3).map(|_| Transport::bind(any, &options).expect("a free port")).collect();
        let to: Vec<_> = receivers.iter().map(Transport::local_addr).collect();
        // 100 datagrams of 50 octets, and a last one of 7: more than one batch.
        let octets: Vec<u8> = (0..5007_u32).map(|i| (i % 251) as u8).collect();
        let sent = sender.send_run(&to, 50, &octets);
        assert_eq!(sent, Sent { sent: 303, dropped: 0, too_long: 0 });
        for receiver in &receivers {
            let got = collect(receiver, &mut RecvBatch::new(200), 101);
            assert!(got.iter().all(|(from, _)| *from == sender.local_addr()));
            let got: Vec<_> = got.into_iter().map(|(_, octets)| octets).collect();
            assert_eq!(got, octets.chunks(50).collect::<Vec<_>>());
        }
    });
}

/// Sizes around every bound: one and two segments, 64 of them, and 65,000 octets of the longest and the shortest.
#[test]
fn runs_of_any_shape_arrive_as_they_were() {
    everywhere(|options, any| {
        let receiver = Transport::bind(any, &options).expect("a free port");
        let sender = Transport::connect(receiver.local_addr(), &options).expect("loopback");
        let mut batch = RecvBatch::new(9000);
        for (segment, len) in [
            (10, 10),
            (10, 20),
            (10, 25),
            (10, 640),
            (10, 1281),
            (1034, 64 * 1034),
            (1034, 65 * 1034 + 1),
            (8202, 17 * 8202 + 3),
            (9000, 9000),
        ] {
            let octets: Vec<u8> = (0..len).map(|i: u32| (i % 251) as u8).collect();
            let expected: Vec<_> = octets.chunks(segment).collect();
            assert_eq!(sender.send_run(&[], segment, &octets).sent, expected.len());
            let got = collect(&receiver, &mut batch, expected.len());
            let got: Vec<_> = got.into_iter().map(|(_, octets)| octets).collect();
            assert_eq!(got, expected, "{segment} of {len}");
        }
        assert!(sender.calls() == options.calls || !cfg!(target_os = "linux"));
    });
}

#[cfg(target_os = "linux")]
#[test]
fn equal_datagrams_pass_the_system_as_one() {
    for ip in [V4, V6] {
        let options = options(SocketCalls::Segmented);
        let receiver = Transport::bind((ip, 0).into(), &options).expect("a free port");
        let sender = Transport::connect(receiver.local_addr(), &options).expect("loopback");
        let octets: Vec<u8> = (0..64 * 1034_u32 - 7).map(|i| (i % 251) as u8).collect();
        assert_eq!(sender.send_run(&[], 1034, &octets).sent, 64);
        let mut batch = RecvBatch::new(1034);
        assert_eq!(receiver.recv(&mut batch).expect("the socket works"), Received::Batch);
        let runs: Vec<_> = batch.runs().map(|run| (run.segment, run.octets.len())).collect();
        assert_eq!(runs, [(1034, 62 * 1034), (1034, 2 * 1034 - 7)]);
    }
}

/// A socket without UDP checksums cannot segment: the system refuses a run as it does on such a route.
#[cfg(target_os = "linux")]
#[test]
fn a_run_that_cannot_be_segmented_is_sent_batched_and_so_are_those_behind_it() {
    use std::os::fd::AsFd;

    for ip in [V4, V6] {
        let options = options(SocketCalls::Segmented);
        let receiver = Transport::bind((ip, 0).into(), &options).expect("a free port");
        let sender = Transport::connect(receiver.local_addr(), &options).expect("loopback");
        let (level, name) = match ip {
            IpAddr::V4(_) => (libc::SOL_SOCKET, libc::SO_NO_CHECK),
            IpAddr::V6(_) => (libc::SOL_UDP, libc::UDP_NO_CHECK6_TX),
        };
        option::set(sender.socket.as_fd(), level, name, 1).expect("Linux has it");
        assert_eq!(sender.calls(), SocketCalls::Segmented);
        let octets: Vec<u8> = (0..10_007_u32).map(|i| (i % 251) as u8).collect();
        for _ in 0..2 {
            assert_eq!(sender.send_run(&[], 100, &octets), Sent { sent: 101, dropped: 0, too_long: 0 });
            if ip.is_ipv4() {
                // Those of IPv6 are dropped on their arrival: they have no checksum.
                let got = collect(&receiver, &mut RecvBatch::new(100), 101);
                let got: Vec<_> = got.into_iter().map(|(_, octets)| octets).collect();
                assert_eq!(got, octets.chunks(100).collect::<Vec<_>>());
            }
            assert_eq!(sender.calls(), SocketCalls::Batched);
        }
    }
}

#[test]
fn calls_are_known_by_their_names() {
    for calls in [SocketCalls::Segmented, SocketCalls::Batched, SocketCalls::Single] {
        assert_eq!(calls.to_string().parse(), Ok(calls));
    }
    assert_eq!("fast".parse::<SocketCalls>(), Err(UnknownCalls));
}

#[test]
fn nothing_waits_and_nothing_blocks() {
    everywhere(|options, any| {
        let transport = Transport::bind(any, &options).expect("a free port");
        let mut batch = RecvBatch::new(100);
        assert_eq!(transport.recv(&mut batch).expect("the socket works"), Received::Nothing);
        assert_eq!(batch.runs().count(), 0);
    });
}

#[test]
fn an_empty_datagram_is_one_datagram() {
    everywhere(|options, any| {
        let receiver = Transport::bind(any, &options).expect("a free port");
        let sender = Transport::connect(receiver.local_addr(), &options).expect("loopback");
        assert_eq!(sender.send_to(None, &[]).sent, 1);
        let got = collect(&receiver, &mut RecvBatch::new(100), 1);
        assert_eq!(got, [(sender_seen(&sender, &receiver), Vec::new())]);
    });
}

/// A socket bound to no address shows the one it sends from.
fn sender_seen(sender: &Transport, receiver: &Transport) -> SocketAddr {
    (receiver.local_addr().ip(), sender.local_addr().port()).into()
}

#[test]
fn w8_a_datagram_that_is_too_long_shows_as_longer_than_the_longest() {
    everywhere(|options, any| {
        let receiver = Transport::bind(any, &options).expect("a free port");
        let sender = Transport::connect(receiver.local_addr(), &options).expect("loopback");
        for len in [1034, 1035, 1036, 9000] {
            assert_eq!(sender.send_to(None, &vec![1; len]).sent, 1);
        }
        let got = collect(&receiver, &mut RecvBatch::new(1034), 4);
        let lengths: Vec<_> = got.iter().map(|(_, octets)| octets.len().min(1035)).collect();
        assert_eq!(lengths, [1034, 1035, 1035, 1035]);
    });
}

#[test]
fn w10_a_connected_socket_hears_its_peer_only() {
    everywhere(|options, any| {
        let peer = Transport::bind(any, &options).expect("a free port");
        let stranger = Transport::bind(any, &options).expect("a free port");
        let transport = Transport::connect(peer.local_addr(), &options).expect("loopback");
        let to = sender_seen(&transport, &peer);
        assert_eq!(stranger.send_to(Some(to), b"strange").sent, 1);
        assert_eq!(peer.send_to(Some(to), b"known").sent, 1);
        let got = collect(&transport, &mut RecvBatch::new(100), 2);
        assert_eq!(got, [(peer.local_addr(), b"known".to_vec())]);
    });
}

#[test]
fn a_peer_that_is_not_there_is_told_apart_and_the_socket_lives_on() {
    everywhere(|options, any| {
        let gone = Transport::bind(any, &options).expect("a free port").local_addr();
        let transport = Transport::connect(gone, &options).expect("loopback");
        assert_eq!(transport.send_to(None, b"anyone?").sent, 1);
        thread::sleep(Duration::from_millis(50));
        let mut batch = RecvBatch::new(100);
        assert_eq!(transport.recv(&mut batch).expect("a soft error"), Received::Unreachable);
        assert_eq!(transport.recv(&mut batch).expect("the socket works"), Received::Nothing);
        // The refusal that waits in the socket costs no datagram once the peer is there.
        assert_eq!(transport.send_to(None, b"anyone now?").sent, 1);
        thread::sleep(Duration::from_millis(50));
        let peer = Transport::bind(gone, &options).expect("the port is still free");
        assert_eq!(transport.send_to(None, b"hello"), Sent { sent: 1, dropped: 0, too_long: 0 });
        assert_eq!(collect(&peer, &mut RecvBatch::new(100), 1).len(), 1);
    });
}

#[test]
fn w11_what_the_path_cannot_carry_is_refused_and_the_rest_goes() {
    everywhere(|options, any| {
        let receiver = Transport::bind(any, &options).expect("a free port");
        let sender = Transport::connect(receiver.local_addr(), &options).expect("loopback");
        let octets = vec![0; 70_100];
        let sent = sender.send_run(&[], 70_000, &octets);
        assert_eq!(sent, Sent { sent: 1, dropped: 0, too_long: 1 });
        assert_eq!(collect(&receiver, &mut RecvBatch::new(200), 1)[0].1, [0; 100]);
    });
}

#[cfg(target_os = "linux")]
#[test]
fn w11_the_longest_datagram_of_a_path_is_known_and_true() {
    everywhere(|options, any| {
        let receiver = Transport::bind(any, &options).expect("a free port");
        assert_eq!(receiver.max_datagram(), None, "no peer, no path");
        let sender = Transport::connect(receiver.local_addr(), &options).expect("loopback");
        let longest = sender.max_datagram().expect("Linux tells");
        assert!(longest >= 1_200, "{longest}");
        assert_eq!(sender.send_to(None, &vec![0; longest]), Sent { sent: 1, dropped: 0, too_long: 0 });
        assert_eq!(sender.send_to(None, &vec![0; longest + 1]).too_long, 1);
    });
}

#[test]
fn a_port_is_taken_once() {
    everywhere(|options, any| {
        let first = Transport::bind(any, &options).expect("a free port");
        let second = Transport::bind(first.local_addr(), &options).expect_err("the port is taken");
        assert_eq!(second.kind(), io::ErrorKind::AddrInUse);
    });
}

/// Sends numbered data packets through faults, and returns how often each arrived, and how many came out of order.
fn through(faults: Faults, direction: &str) -> (HashMap<u32, usize>, usize) {
    let clean = Options::default();
    let faulty = Options { calls: SocketCalls::default(), faults: Some((faults, 0)) };
    let (outgoing, incoming) = if direction == "input" { (clean, faulty) } else { (faulty, clean) };
    let receiver = Transport::bind((V4, 0).into(), &incoming).expect("a free port");
    let sender = Transport::connect(receiver.local_addr(), &outgoing).expect("loopback");
    let mut batch = RecvBatch::new(100);
    let (mut counts, mut swapped, mut highest) = (HashMap::new(), 0, None);
    for first in (0..10_000_u32).step_by(100) {
        let octets: Vec<u8> =
            (first..first + 100).flat_map(|i| [[0x10, 0, 0, 0], i.to_be_bytes()]).flatten().collect();
        assert_eq!(sender.send_run(&[], 8, &octets).dropped, 0);
        while transport_brings(&receiver, &mut batch) {
            for octets in batch.runs().flat_map(|run| run.datagrams()) {
                let i = u32::from_be_bytes(octets[4..].try_into().expect("eight octets"));
                *counts.entry(i).or_default() += 1;
                swapped += usize::from(highest > Some(i));
                highest = highest.max(Some(i));
            }
        }
    }
    (counts, swapped)
}

fn transport_brings(transport: &Transport, batch: &mut RecvBatch) -> bool {
    transport.recv(batch).expect("the socket works") == Received::Batch
}

#[test]
fn faults_come_about_as_often_as_asked_in_both_directions() {
    for direction in ["input", "output"] {
        let (counts, swapped) = through(Faults::new(0.0, 0.0, 0.0, 1).expect("valid"), direction);
        assert_eq!((counts.len(), swapped), (10_000, 0));
        assert!(counts.values().all(|&count| count == 1));

        let (counts, _) = through(Faults::new(0.1, 0.0, 0.0, 1).expect("valid"), direction);
        assert!((8_850..9_150).contains(&counts.len()), "{}", counts.len());

        let (counts, _) = through(Faults::new(0.0, 0.1, 0.0, 1).expect("valid"), direction);
        let twice = counts.values().filter(|&&count| count == 2).count();
        assert!(counts.len() == 10_000 && (850..1_150).contains(&twice), "{twice}");

        let (counts, swapped) = through(Faults::new(0.0, 0.0, 0.1, 1).expect("valid"), direction);
        // The last ones held back have nobody to come behind.
        assert!(counts.len() > 9_980 && (700..1_150).contains(&swapped), "{} {swapped}", counts.len());

        let (counts, _) = through(Faults::new(1.0, 0.0, 0.0, 1).expect("valid"), direction);
        assert!(counts.is_empty());
    }
}

#[test]
fn faults_follow_their_seed_and_spare_control_messages() {
    let lost = |seed| {
        let faults = Faults::new(0.5, 0.0, 0.0, seed).expect("valid");
        let injectors = Injectors::new(faults, 3);
        (0..64_u8)
            .filter(|&i| {
                let mut arrived = false;
                injectors.send(None, &[0x10, i], |_| arrived = true);
                let mut control = false;
                injectors.send(None, &[0x20, i], |_| control = true);
                assert!(control);
                !arrived
            })
            .collect::<Vec<_>>()
    };
    assert_eq!(lost(1), lost(1));
    assert_ne!(lost(1), lost(2));
    assert!(
        Faults::new(0.0, 1.5, 0.0, 1).expect_err("no probability").to_string().contains("duplicate is 1.5")
    );
    assert!(Faults::new(f64::NAN, 0.0, 0.0, 1).is_err());
}
