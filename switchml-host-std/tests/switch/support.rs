//! A switch in a thread, and workers that speak the protocol octet by octet.

use core::net::{IpAddr, Ipv4Addr, SocketAddr};
use core::time::Duration;
use std::io;
use std::net::UdpSocket;
use std::thread::{self, JoinHandle};
use std::time::Instant;

use switchml_host_std::{Snapshot, Switch, SwitchConfig, SwitchError, SwitchHandle};
use switchml_proto::wire::{Header, JobName, Join, MAX_CONTROL_LEN, Message, Packet, PayloadSize, Welcome};
use switchml_proto::{ChunkSize, LaneCount, LaneId, LaneLayout, Nonce, Rank, Seq, Window, WorldSize};

pub(crate) const LOCALHOST: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
pub(crate) const CHUNK: ChunkSize = ChunkSize::MIN;
/// How long an answer may take on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);
/// After this time without an answer there is none.
pub(crate) const SILENCE: Duration = Duration::from_millis(150);

pub(crate) struct RunningSwitch {
    pub(crate) address: SocketAddr,
    pub(crate) metrics: Option<SocketAddr>,
    pub(crate) handle: SwitchHandle,
    thread: Option<JoinHandle<Result<(), SwitchError>>>,
}

/// A small switch on a free port.
pub(crate) fn config(listen: IpAddr) -> SwitchConfig {
    let mut config = SwitchConfig::new(listen);
    config.port_base = 0;
    config.slots = 64;
    config
}

impl RunningSwitch {
    pub(crate) fn start(config: SwitchConfig) -> Self {
        Self::run(Switch::bind(config).expect("free ports"))
    }

    pub(crate) fn run(switch: Switch) -> Self {
        let (address, metrics, handle) = (switch.local_addr(), switch.metrics_addr(), switch.handle());
        let thread = Some(thread::spawn(move || switch.run()));
        Self { address, metrics, handle, thread }
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        self.handle.snapshot().expect("the switch is alive")
    }

    /// Snapshots until one satisfies.
    pub(crate) fn snapshot_when(&self, satisfies: impl Fn(&Snapshot) -> bool) -> Snapshot {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let snapshot = self.snapshot();
            if satisfies(&snapshot) {
                return snapshot;
            }
            assert!(Instant::now() < deadline, "{snapshot:#?}");
            thread::sleep(Duration::from_millis(2));
        }
    }

    pub(crate) fn stop(mut self) {
        self.handle.stop();
        self.join();
    }

    fn join(&mut self) {
        if let Some(thread) = self.thread.take() {
            thread.join().expect("no panic in the switch").expect("no error of the switch");
        }
    }
}

impl Drop for RunningSwitch {
    fn drop(&mut self) {
        self.handle.stop();
        if !thread::panicking() {
            self.join();
        }
    }
}

/// A socket that talks to one port of the switch.
pub(crate) struct Peer {
    pub(crate) socket: UdpSocket,
}

impl Peer {
    pub(crate) fn new(switch: SocketAddr) -> Self {
        let any: SocketAddr = (switch.ip(), 0).into();
        let socket = UdpSocket::bind(any).expect("a free port");
        socket.connect(switch).expect("loopback");
        Self { socket }
    }

    pub(crate) fn send(&self, octets: &[u8]) {
        // A switch that has stopped is seen by what does not come back.
        match self.socket.send(octets) {
            Err(error) if error.kind() != io::ErrorKind::ConnectionRefused => panic!("{error}"),
            _ => {}
        }
    }

    pub(crate) fn tell(&self, message: &Message) {
        let mut octets = [0; MAX_CONTROL_LEN];
        let len = message.emit(&mut octets);
        self.send(&octets[..len]);
    }

    /// The next datagram, if one comes in time.
    pub(crate) fn hear(&self, within: Duration) -> Option<Vec<u8>> {
        self.socket.set_read_timeout(Some(within)).expect("not zero");
        let mut octets = [0; 10_000];
        match self.socket.recv(&mut octets) {
            Ok(len) => Some(octets[..len].to_vec()),
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => None,
            Err(error) => panic!("{error}"),
        }
    }

    pub(crate) fn hear_message(&self) -> Message {
        let octets = self.hear(PATIENCE).expect("an answer");
        Message::parse(&octets).expect("a message")
    }
}

/// One lane of a rank that has joined.
pub(crate) struct Worker {
    pub(crate) peer: Peer,
    pub(crate) welcome: Welcome,
    pub(crate) layout: LaneLayout,
}

/// The join of rank `rank` in a job of `name`.
pub(crate) fn join_of(name: &str, world_size: usize, rank: usize, lanes: usize, lane: usize) -> Join {
    // Another process for each rank of each job.
    let process =
        name.bytes().fold(rank as u64, |sum, octet| sum.wrapping_mul(257).wrapping_add(octet.into()));
    Join {
        name: JobName::new(name).expect("valid"),
        run: 1,
        world_size: WorldSize::new(world_size).expect("valid"),
        rank: Rank::new(rank).expect("valid"),
        lanes: LaneCount::new(lanes).expect("valid"),
        lane: LaneId::new(lane).expect("valid"),
        chunk: CHUNK,
        window: Window::new(4).expect("valid"),
        nonce: Nonce(process),
        cookie: 0,
    }
}

/// A join with its cookie, padded to the length of a data packet (W-11).
pub(crate) fn padded(join: &Join) -> Vec<u8> {
    let mut octets = vec![0; MAX_CONTROL_LEN.max(10 + join.chunk.octets())];
    Message::Join(*join).emit(&mut octets);
    octets
}

/// Says `join` and gets its cookie.
pub(crate) fn challenged(peer: &Peer, join: &Join) -> Join {
    peer.tell(&Message::Join(*join));
    match peer.hear_message() {
        Message::Challenge { nonce, cookie, .. } if nonce == join.nonce => Join { cookie, ..*join },
        other => panic!("no challenge: {other:?}"),
    }
}

/// All ranks of a job, joined; by rank, then by lane.
pub(crate) fn job(switch: SocketAddr, name: &str, world_size: usize, lanes: usize) -> Vec<Worker> {
    let mut asked = Vec::new();
    for rank in 0..world_size {
        for lane in 0..lanes {
            let mut port = switch;
            port.set_port(switch.port() + lane as u16);
            let peer = Peer::new(port);
            let join = challenged(&peer, &join_of(name, world_size, rank, lanes, lane));
            peer.send(&padded(&join));
            asked.push((peer, join));
        }
    }
    let ready = |(peer, join): (Peer, Join)| loop {
        match peer.hear_message() {
            Message::Welcome(welcome) if welcome.ready => {
                let layout = welcome.layout(join.window, join.chunk).expect("slots that exist");
                return Worker { peer, welcome, layout };
            }
            Message::Welcome(_) => {}
            other => panic!("no welcome: {other:?}"),
        }
    };
    asked.into_iter().map(ready).collect()
}

impl Worker {
    pub(crate) fn header(&self, seq: u32) -> Header {
        let seq = Seq(self.welcome.initial_seq.0.wrapping_add(seq));
        Header::new(self.welcome.job, self.layout, seq, PayloadSize::Elements(CHUNK), -128, 1)
    }

    /// Data packet number `seq` of the session, all elements `value`.
    pub(crate) fn packet(&self, seq: u32, value: i32) -> Vec<u8> {
        datagram(&self.header(seq), value)
    }

    /// The result that comes next: its seq, counted from the first of the session, and its elements' one value.
    pub(crate) fn result(&self) -> (u32, i32) {
        self.result_within(PATIENCE).expect("a result")
    }

    pub(crate) fn result_within(&self, within: Duration) -> Option<(u32, i32)> {
        let octets = self.peer.hear(within)?;
        let packet = Packet::parse(&octets).expect("a data packet");
        let words: Vec<_> = packet.elements().chunks_exact(4).collect();
        assert!(words.iter().all(|word| *word == words[0]));
        let value = i32::from_be_bytes(words[0].try_into().expect("four octets"));
        assert_eq!(packet.header().job, self.welcome.job);
        Some((packet.header().seq.since(self.welcome.initial_seq), value))
    }

    pub(crate) fn leave(&self) {
        let Welcome { session, nonce, .. } = self.welcome;
        self.say_leave();
        assert_eq!(self.peer.hear_message(), Message::Left { session, nonce });
    }

    fn say_leave(&self) {
        let Welcome { job, rank, session, nonce, .. } = self.welcome;
        self.peer.tell(&Message::Leave { job, rank, session, nonce });
    }
}

/// Leaves, so that the switch need not wait for its lease to end when it stops.
impl Drop for Worker {
    fn drop(&mut self) {
        self.say_leave();
    }
}

pub(crate) fn datagram(header: &Header, value: i32) -> Vec<u8> {
    let mut octets = vec![0; header.datagram_len()];
    for word in header.emit(&mut octets).chunks_exact_mut(4) {
        word.copy_from_slice(&value.to_be_bytes());
    }
    octets
}

/// The next result of each.
pub(crate) fn results(workers: &[Worker]) -> Vec<(u32, i32)> {
    workers.iter().map(Worker::result).collect()
}
