//! Members and a coordinator, and any messages between them.

mod plane;

use core::net::{Ipv4Addr, SocketAddr};
use core::time::Duration;

use arbitrary::{Result, Unstructured};
use switchml_proto::control::{
    Coordinator, CoordinatorConfig, CoordinatorStorage, JobEntry, Member, MemberConfig, MemberEntry,
    MemberEvent, PortEntry,
};
use switchml_proto::wire::{AbortReason, JobName, Message};
use switchml_proto::{ChunkSize, Instant, LaneCount, LaneId, Nonce, Rank, Seq, Window, WorkerSet, WorldSize};

use plane::Plane;

const LEASE: Duration = Duration::from_secs(5);
/// The buffers hold each machine's longest datagram.
const CAPACITY: usize = ChunkSize::DEFAULT.datagram_len();
/// Processes at a time; another one takes the place of one that is killed.
const PROCESSES: usize = 4;
/// Datagrams on their way; of more than that the oldest are lost.
const ON_THE_WAY: usize = 128;
/// One machine has no more than this to say at one moment.
const BURST: usize = 500;

/// Up to four processes and an aggregator that may be restarted. The input says who joins, leaves, aborts, dies or asks,
/// which message arrives, again, bent, or never, and what strangers send.
///
/// Timers must be honest, no stranger gets more octets than it sent, and the slots of two jobs never overlap. At the end
/// all leave over a fair network: then every process has had one last event, and the aggregator holds nothing (I-6).
///
/// # Panics
/// If that does not hold.
pub fn control_ops(data: &[u8]) {
    let mut rooms = [Room::new(), Room::new()];
    let [first, second] = &mut rooms;
    let now = Instant::ZERO;
    let mut run = Run {
        now,
        coordinator: first.coordinator(1, now),
        spare: Some(second.coordinator(2, now)),
        plane: Plane::default(),
        processes: Vec::new(),
        network: Vec::new(),
        sent: Vec::new(),
        hosts: 0,
    };
    let mut input = Unstructured::new(data);
    // The input is at its end where it says no more.
    let _ = run.suffer(&mut input);
    run.end();
}

/// The memory of a coordinator.
struct Room {
    jobs: [JobEntry; 3],
    members: [MemberEntry; 6],
    ports: [PortEntry; 10],
}

impl Room {
    const fn new() -> Self {
        Self { jobs: [JobEntry::EMPTY; 3], members: [MemberEntry::EMPTY; 6], ports: [PortEntry::EMPTY; 10] }
    }

    fn coordinator(&mut self, seed: u8, now: Instant) -> Coordinator<'_> {
        let Self { jobs, members, ports } = self;
        let config = CoordinatorConfig::new(64, LaneCount::new(2).unwrap(), [seed; 32]);
        Coordinator::new(config, CoordinatorStorage { jobs, members, ports }, now)
            .expect("it can work like that")
    }
}

struct Process {
    member: Member,
    host: u32,
    last: Option<MemberEvent>,
}

struct Flight {
    to: To,
    lane: LaneId,
    datagram: Vec<u8>,
}

#[derive(Clone, Copy)]
enum To {
    Aggregator {
        from: SocketAddr,
    },
    /// By host number, for a process that may be gone by then.
    Host(u32),
}

struct Run<'s> {
    now: Instant,
    coordinator: Coordinator<'s>,
    /// What takes its place when the aggregator is restarted.
    spare: Option<Coordinator<'s>>,
    plane: Plane,
    processes: Vec<Process>,
    network: Vec<Flight>,
    /// What members have sent, to come again or bent.
    sent: Vec<(SocketAddr, LaneId, Vec<u8>)>,
    hosts: u32,
}

impl Run<'_> {
    fn suffer(&mut self, input: &mut Unstructured<'_>) -> Result<()> {
        while !input.is_empty() {
            self.step(input)?;
            self.settle();
        }
        Ok(())
    }

    fn step(&mut self, input: &mut Unstructured<'_>) -> Result<()> {
        let what = input.int_in_range(0..=19_u8)?;
        match what {
            0..=1 => self.join(input)?,
            2..=6 => {
                if let Ok(which) = input.choose_index(self.network.len()) {
                    let flight = self.network.remove(which);
                    if what == 2 {
                        self.deliver(flight.to, flight.lane, &flight.datagram);
                    }
                    if what != 6 {
                        self.deliver(flight.to, flight.lane, &flight.datagram);
                    }
                }
            }
            7..=8 => self.run_fairly(Duration::from_millis(input.arbitrary::<u16>()?.into())),
            9 => self.now += Duration::from_millis(input.arbitrary::<u16>()?.into()),
            10..=13 => {
                let Ok(which) = input.choose_index(self.processes.len()) else { return Ok(()) };
                let member = &mut self.processes[which].member;
                let rank = Rank::new(input.int_in_range(0..=63)?).unwrap();
                match what {
                    10 => member.leave(self.now),
                    11 => member.abort(self.now, AbortReason::Cancelled, Some(rank)),
                    12 => {
                        let lane = LaneId::new(rank.index() % 16).unwrap();
                        member.query(self.now, lane, Seq(input.arbitrary()?));
                    }
                    // It is killed.
                    _ => drop(self.processes.remove(which)),
                }
            }
            14..=15 => {
                let Ok(which) = input.choose_index(self.sent.len()) else { return Ok(()) };
                let (mut from, lane, mut datagram) = self.sent[which].clone();
                let place = input.choose_index(datagram.len().min(48))?;
                datagram[place] ^= input.arbitrary::<u8>()?;
                if what == 15 {
                    from = self.stranger();
                }
                self.say(from, lane, &datagram);
            }
            16 => {
                let lane = LaneId::new(input.int_in_range(0..=15)?).unwrap();
                let len = usize::from(input.arbitrary::<u8>()?).min(input.len());
                let datagram = input.bytes(len)?;
                self.say(self.stranger(), lane, datagram);
                for process in &mut self.processes {
                    // Its aggregator is believed, and may name any lease.
                    if !matches!(Message::parse(datagram), Ok(Message::Welcome(_))) {
                        let _ = process.member.handle_datagram(self.now, lane, datagram);
                    }
                }
            }
            17 => {
                let lane = LaneId::ZERO;
                let len = usize::from(input.arbitrary::<u8>()?).min(input.len());
                let stranger = self.stranger();
                self.coordinator.handle_stray_data(self.now, lane, stranger, input.bytes(len)?);
                self.answers_to(stranger, len);
            }
            18 => self.plane.missing = WorkerSet::from_bits(input.arbitrary()?),
            _ => match input.arbitrary::<u8>()? {
                0 => self.coordinator.shutdown(self.now, &mut self.plane),
                1 => {
                    if let Some(spare) = self.spare.take() {
                        self.coordinator = spare;
                        self.plane = Plane::default();
                    }
                }
                _ => self.coordinator.evict(self.now, "a", &mut self.plane),
            },
        }
        Ok(())
    }

    /// Another process starts to join, in the place of the oldest if there are enough.
    fn join(&mut self, input: &mut Unstructured<'_>) -> Result<()> {
        let world_size = input.int_in_range(1..=3)?;
        let rank = Rank::new(input.choose_index(world_size)?).unwrap();
        let name = JobName::new(input.choose(&["a", "b\u{7}"])?).unwrap();
        let mut config = MemberConfig::new(name, WorldSize::new(world_size).unwrap(), rank).unwrap();
        config.lanes = LaneCount::new(input.int_in_range(1..=2)?).unwrap();
        config.window = Window::new(*input.choose(&[16, 32, 64, 128])?).unwrap();
        config.chunk = *input.choose(&[ChunkSize::DEFAULT, ChunkSize::MIN])?;
        config.join_timeout = Duration::from_secs(30);
        self.hosts += 1;
        let nonce = Nonce(u64::from(self.hosts) << 32);
        let member = Member::new(config, nonce, self.now).expect("the rank is in the world");
        if self.processes.len() == PROCESSES {
            self.processes.remove(0);
        }
        self.processes.push(Process { member, host: self.hosts, last: None });
        Ok(())
    }

    fn stranger(&self) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::new(10, 9, 9, 9), 4000))
    }

    fn deliver(&mut self, to: To, lane: LaneId, datagram: &[u8]) {
        match to {
            To::Aggregator { from } => {
                let _ = self.coordinator.handle_datagram(self.now, lane, from, datagram, &mut self.plane);
            }
            To::Host(host) => {
                if let Some(process) = self.processes.iter_mut().find(|process| process.host == host) {
                    let _ = process.member.handle_datagram(self.now, lane, datagram);
                }
            }
        }
    }

    /// Somebody sends this to the aggregator.
    fn say(&mut self, from: SocketAddr, lane: LaneId, datagram: &[u8]) {
        self.settle();
        self.deliver(To::Aggregator { from }, lane, datagram);
        if from == self.stranger() {
            self.answers_to(from, datagram.len());
        }
    }

    /// What the coordinator answers to a stranger is not longer than what that has sent (C-1, C-3).
    fn answers_to(&mut self, stranger: SocketAddr, len: usize) {
        let mut buf = [0; CAPACITY];
        while let Some(transmit) = self.coordinator.poll_transmit(self.now, &mut buf) {
            assert!(transmit.to != stranger || transmit.len <= len, "{} octets for {len}", transmit.len);
            self.launch(transmit.to, transmit.lane, &buf[..transmit.len]);
        }
    }

    fn launch(&mut self, to: SocketAddr, lane: LaneId, datagram: &[u8]) {
        let process = self.processes.iter().find(|process| process.address(lane) == to);
        if let Some(process) = process {
            self.network.push(Flight { to: To::Host(process.host), lane, datagram: datagram.to_vec() });
        }
    }

    /// Does all that is due now, as a driver does it.
    fn settle(&mut self) {
        let mut buf = [0; CAPACITY];
        for process in &mut self.processes {
            let member = &mut process.member;
            member.handle_timeout(self.now);
            for burst in 0.. {
                let due = member.poll_timeout();
                let Some(transmit) = member.poll_transmit(self.now, &mut buf) else { break };
                assert!(
                    due.is_some_and(|due| due <= self.now),
                    "what waits to be sent shows in poll_timeout"
                );
                assert!(burst < BURST, "a member that never stops");
                let from = address(process.host, transmit.lane);
                let datagram = buf[..transmit.len].to_vec();
                self.sent.push((from, transmit.lane, datagram.clone()));
                self.network.push(Flight { to: To::Aggregator { from }, lane: transmit.lane, datagram });
            }
            while let Some(event) = member.poll_event() {
                let over = matches!(process.last, Some(MemberEvent::Left | MemberEvent::Ended(_)));
                assert!(!over, "{event:?} after the last event");
                process.last = Some(event);
            }
            assert!(member.poll_timeout().is_none_or(|due| due > self.now), "a driver would spin");
        }
        self.coordinator.handle_timeout(self.now, &mut self.plane);
        for burst in 0.. {
            let due = self.coordinator.poll_timeout();
            let Some(transmit) = self.coordinator.poll_transmit(self.now, &mut buf) else { break };
            assert!(due.is_some_and(|due| due <= self.now), "what waits to be sent shows in poll_timeout");
            assert!(burst < BURST, "a coordinator that never stops");
            self.launch(transmit.to, transmit.lane, &buf[..transmit.len]);
        }
        while self.coordinator.poll_event().is_some() {}
        assert!(self.coordinator.poll_timeout().is_none_or(|due| due > self.now), "a driver would spin");
        self.plane.check(self.coordinator.sessions(self.now).map(|session| session.job));
        let excess = self.sent.len().saturating_sub(ON_THE_WAY);
        self.sent.drain(..excess);
        let excess = self.network.len().saturating_sub(ON_THE_WAY);
        self.network.drain(..excess);
    }

    /// A fair network for a while: all arrives at once and in order, and machines are driven when they ask for it.
    fn run_fairly(&mut self, time: Duration) {
        let end = self.now + time;
        loop {
            self.settle();
            for flight in core::mem::take(&mut self.network) {
                self.deliver(flight.to, flight.lane, &flight.datagram);
                self.settle();
            }
            if !self.network.is_empty() {
                continue;
            }
            let timeouts = self.processes.iter().filter_map(|process| process.member.poll_timeout());
            match timeouts.chain(self.coordinator.poll_timeout()).min() {
                Some(next) if next <= end => self.now = next,
                _ => break,
            }
        }
        self.now = end;
    }

    fn end(&mut self) {
        for process in &mut self.processes {
            process.member.leave(self.now);
        }
        // A last message is repeated for a lease, and who does not hear it is given up after another one.
        self.run_fairly(4 * LEASE);
        for process in &self.processes {
            assert_eq!(process.member.poll_timeout(), None, "{:?}", process.member);
            assert!(
                matches!(process.last, Some(MemberEvent::Left | MemberEvent::Ended(_))),
                "{:?}",
                process.last
            );
        }
        assert_eq!(self.coordinator.sessions(self.now).count(), 0, "no session outlives its members");
        assert_eq!(self.coordinator.poll_timeout(), None);
        self.plane.check([].into_iter());
    }
}

impl Process {
    fn address(&self, lane: LaneId) -> SocketAddr {
        address(self.host, lane)
    }
}

fn address(host: u32, lane: LaneId) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::from(0x0a00_0000 + host), 4000 + u16::from(lane.get())))
}
