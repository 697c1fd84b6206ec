//! An in-memory network between members and a coordinator: seeded faults, and a clock that jumps exactly to what the
//! machines' timers say.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use switchml_proto::control::*;
use switchml_proto::wire::{JobName, MAX_DATAGRAM_LEN, Message, Welcome};
use switchml_proto::*;

pub(crate) const LEASE: Duration = Duration::from_secs(5);

/// What the network does to datagrams.
#[derive(Clone, Copy)]
pub(crate) struct Faults {
    /// Of 100 datagrams, how many are lost.
    pub(crate) loss: u64,
    /// Of 100 datagrams, how many arrive twice.
    pub(crate) duplication: u64,
    /// Each copy takes from a millisecond up to this long.
    pub(crate) slowest: Duration,
    /// Octets of the longest UDP payload that passes.
    pub(crate) mtu: usize,
}

pub(crate) const CALM: Faults =
    Faults { loss: 0, duplication: 0, slowest: Duration::from_millis(1), mtu: MAX_DATAGRAM_LEN };
pub(crate) const ROUGH: Faults =
    Faults { loss: 20, duplication: 20, slowest: Duration::from_millis(60), mtu: MAX_DATAGRAM_LEN };

/// Records what the coordinator does to it, and refuses what no plane could do.
pub(crate) struct Plane {
    pub(crate) installed: BTreeMap<u8, Installed>,
    pub(crate) removed: Vec<(Instant, u8)>,
    pub(crate) missing: WorkerSet,
    pub(crate) phases: BTreeMap<(u8, u32), PhaseStatus>,
    pub(crate) largest_datagram: Option<usize>,
    pub(crate) refuse: Option<InstallRefused>,
    pub(crate) clock: Instant,
}

#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Installed {
    pub(crate) session: SessionId,
    pub(crate) layout: LaneLayout,
    pub(crate) initial_seq: Seq,
    pub(crate) members: BTreeSet<(Rank, LaneId, SocketAddr)>,
}

impl Plane {
    fn new(now: Instant) -> Self {
        Self {
            installed: BTreeMap::new(),
            removed: Vec::new(),
            missing: WorkerSet::EMPTY,
            phases: BTreeMap::new(),
            largest_datagram: None,
            refuse: None,
            clock: now,
        }
    }
}

impl DataPlane for Plane {
    fn install(&mut self, plan: &SessionPlan<'_>) -> Result<(), InstallRefused> {
        if let Some(refused) = self.refuse {
            return Err(refused);
        }
        let slots = |layout: LaneLayout| layout.base()..layout.base() + layout.window().get();
        for other in self.installed.values() {
            let (ours, theirs) = (slots(plan.layout), slots(other.layout));
            assert!(ours.end <= theirs.start || theirs.end <= ours.start, "slots of two jobs overlap");
        }
        let members: BTreeSet<_> = plan.members().collect();
        assert_eq!(members.len(), plan.world_size.get() as usize * plan.lanes.get() as usize);
        assert_eq!(plan.members().count(), members.len());
        assert_eq!(plan.initial_seq.0 % (2 * u32::from(plan.layout.window().get())), 0, "A-2");
        let installed =
            Installed { session: plan.session, layout: plan.layout, initial_seq: plan.initial_seq, members };
        assert!(self.installed.insert(plan.job.0, installed).is_none(), "job number in use");
        Ok(())
    }

    fn remove(&mut self, job: JobId) {
        assert!(self.installed.remove(&job.0).is_some(), "removed what was not there");
        self.removed.push((self.clock, job.0));
    }

    fn phase(&mut self, job: JobId, _lane: LaneId, seq: Seq) -> PhaseStatus {
        assert!(self.installed.contains_key(&job.0));
        self.phases.get(&(job.0, seq.0)).copied().unwrap_or(PhaseStatus::Unknown)
    }

    fn missing(&mut self, job: JobId) -> WorkerSet {
        assert!(self.installed.contains_key(&job.0));
        self.missing
    }

    fn largest_datagram(&mut self, _to: SocketAddr) -> Option<usize> {
        self.largest_datagram
    }
}

/// A process with a member. A process that does not run neither hears nor speaks.
pub(crate) struct Process {
    pub(crate) member: Member,
    pub(crate) running: bool,
    pub(crate) events: Vec<(Instant, MemberEvent)>,
    /// How its addresses begin: one for each process, so that two may claim one rank.
    host: u16,
}

impl Process {
    pub(crate) fn address(&self, lane: LaneId) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::from(0x0a00_0000 + u32::from(self.host)), 4000 + u16::from(lane.get())))
    }

    pub(crate) fn last(&self) -> Option<MemberEvent> {
        self.events.last().map(|&(_, event)| event)
    }

    pub(crate) fn ended_at(&self) -> Option<(Instant, EndReason)> {
        self.events.iter().find_map(|&(at, event)| match event {
            MemberEvent::Ended(reason) => Some((at, reason)),
            _ => None,
        })
    }
}

enum To {
    Switch { from: SocketAddr },
    Process(usize),
}

struct Flight {
    to: To,
    lane: LaneId,
    datagram: Vec<u8>,
}

pub(crate) struct Net {
    pub(crate) now: Instant,
    pub(crate) faults: Faults,
    pub(crate) coordinator: Coordinator<'static>,
    pub(crate) switch_runs: bool,
    /// A lane whose datagrams are all lost, both ways.
    pub(crate) broken_lane: Option<LaneId>,
    pub(crate) plane: Plane,
    pub(crate) processes: Vec<Process>,
    pub(crate) log: Vec<CoordinatorEvent>,
    /// Every datagram that members sent, for those who want to repeat one.
    pub(crate) sent: Vec<(SocketAddr, LaneId, Vec<u8>)>,
    flights: BTreeMap<(Instant, u64), Flight>,
    serial: u64,
    hosts: u16,
    rng: ChaCha8Rng,
}

pub(crate) struct Room {
    pub(crate) jobs: usize,
    pub(crate) members: usize,
    pub(crate) ports: usize,
}

pub(crate) fn coordinator(config: CoordinatorConfig, room: Room, now: Instant) -> Coordinator<'static> {
    let storage = CoordinatorStorage {
        jobs: vec![JobEntry::EMPTY; room.jobs].leak(),
        members: vec![MemberEntry::EMPTY; room.members].leak(),
        ports: vec![PortEntry::EMPTY; room.ports].leak(),
    };
    Coordinator::new(config, storage, now).unwrap()
}

pub(crate) fn switch_config(seed: u8) -> CoordinatorConfig {
    CoordinatorConfig::new(512, LaneCount::new(4).unwrap(), [seed; 32])
}

pub(crate) fn rank(rank: usize) -> Rank {
    Rank::new(rank).unwrap()
}

pub(crate) fn ranks(ranks: &[usize]) -> WorkerSet {
    ranks.iter().fold(WorkerSet::EMPTY, |set, &r| set.with(rank(r)))
}

/// The welcome of a ready session, to rank 0 of the process with `nonce`.
pub(crate) fn welcome(nonce: Nonce) -> Welcome {
    Welcome {
        job: JobId(1),
        rank: rank(0),
        lane: LaneId::ZERO,
        nonce,
        session: SessionId(1),
        base: 0,
        initial_seq: Seq(0),
        lease_millis: 5000,
        missing: WorkerSet::EMPTY,
        ready: true,
    }
}

pub(crate) fn member_config(name: &str, world: usize, r: usize) -> MemberConfig {
    MemberConfig::new(JobName::new(name).unwrap(), WorldSize::new(world).unwrap(), rank(r)).unwrap()
}

impl Net {
    pub(crate) fn new(seed: u64, faults: Faults) -> Self {
        Self::with(seed, faults, switch_config(1), Room { jobs: 8, members: 64, ports: 256 })
    }

    pub(crate) fn with(seed: u64, faults: Faults, config: CoordinatorConfig, room: Room) -> Self {
        let now = Instant::ZERO + Duration::from_secs(1000);
        Self {
            now,
            faults,
            coordinator: coordinator(config, room, now),
            switch_runs: true,
            broken_lane: None,
            plane: Plane::new(now),
            processes: Vec::new(),
            log: Vec::new(),
            sent: Vec::new(),
            flights: BTreeMap::new(),
            serial: 0,
            hosts: 0,
            rng: ChaCha8Rng::seed_from_u64(seed),
        }
    }

    /// Starts a process that joins; its index.
    pub(crate) fn join(&mut self, config: MemberConfig) -> usize {
        let nonce = Nonce(self.rng.next_u64());
        let member = Member::new(config, nonce, self.now).unwrap();
        self.hosts += 1;
        let host = self.hosts;
        self.processes.push(Process { member, running: true, events: Vec::new(), host });
        self.processes.len() - 1
    }

    /// Starts all ranks of a job, and waits until they are ready.
    pub(crate) fn ready_job(&mut self, name: &str, world: usize, lanes: usize) -> Vec<usize> {
        let indices: Vec<_> = (0..world)
            .map(|r| {
                let mut config = member_config(name, world, r);
                config.lanes = LaneCount::new(lanes).unwrap();
                self.join(config)
            })
            .collect();
        let all = indices.clone();
        self.run_until(Duration::from_secs(60), |net| {
            all.iter().all(|&p| net.processes[p].member.session().is_some())
        });
        for &p in &indices {
            assert!(self.processes[p].member.session().is_some(), "{:?}", self.processes[p].events);
        }
        indices
    }

    /// The nonce that a process joined with.
    pub(crate) fn nonce(&self, process: usize) -> Nonce {
        let address = self.processes[process].address(LaneId::ZERO);
        let (.., join) = self.sent.iter().find(|&&(from, ..)| from == address).unwrap();
        match Message::parse(join) {
            Ok(Message::Join(join)) => join.nonce,
            other => panic!("{other:?} instead of a join"),
        }
    }

    pub(crate) fn params(&self, process: usize) -> SessionParams {
        self.processes[process].member.session().unwrap()
    }

    /// Runs for `time`.
    pub(crate) fn run(&mut self, time: Duration) {
        self.run_until(time, |_| false);
    }

    /// Runs for `time`, or until `done` holds after some event; the time that it took.
    pub(crate) fn run_until(&mut self, time: Duration, done: impl Fn(&Self) -> bool) -> Duration {
        let (start, end) = (self.now, self.now + time);
        loop {
            self.settle();
            if done(self) {
                return self.now.since(start);
            }
            let flight = self.flights.keys().next().map(|&(at, _)| at);
            let next = self.timeouts().chain(flight).min();
            match next {
                Some(next) if next <= end => {
                    assert!(next > self.now, "a timer asks for the past: the machines would spin");
                    self.now = next;
                }
                _ => {
                    self.now = end;
                    self.settle();
                    return time;
                }
            }
        }
    }

    fn timeouts(&self) -> impl Iterator<Item = Instant> {
        let members = self.processes.iter().filter(|p| p.running).filter_map(|p| p.member.poll_timeout());
        members.chain(self.coordinator.poll_timeout().filter(|_| self.switch_runs))
    }

    /// Does all that is due now.
    fn settle(&mut self) {
        self.plane.clock = self.now;
        while let Some(entry) = self.flights.first_entry().filter(|entry| entry.key().0 <= self.now) {
            let flight = entry.remove();
            self.deliver(flight);
        }
        for process in self.processes.iter_mut().filter(|p| p.running) {
            process.member.handle_timeout(self.now);
        }
        if self.switch_runs {
            self.coordinator.handle_timeout(self.now, &mut self.plane);
        }
        self.flush();
    }

    fn deliver(&mut self, flight: Flight) {
        match flight.to {
            To::Switch { from } if self.switch_runs => {
                self.coordinator.handle_datagram(
                    self.now,
                    flight.lane,
                    from,
                    &flight.datagram,
                    &mut self.plane,
                );
                self.flush();
            }
            To::Process(p) if self.processes[p].running => {
                self.processes[p].member.handle_datagram(self.now, flight.lane, &flight.datagram);
                self.flush();
            }
            _ => {}
        }
    }

    /// Takes all datagrams and events out of the machines.
    fn flush(&mut self) {
        let mut buf = [0; MAX_DATAGRAM_LEN];
        for p in 0..self.processes.len() {
            let mut burst = 0;
            while self.processes[p].running
                && let Some(transmit) = self.processes[p].member.poll_transmit(self.now, &mut buf)
            {
                let from = self.processes[p].address(transmit.lane);
                self.sent.push((from, transmit.lane, buf[..transmit.len].to_vec()));
                self.send(|| To::Switch { from }, transmit.lane, &buf[..transmit.len]);
                burst += 1;
                assert!(burst < 100, "a member that never stops sending");
            }
            let process = &mut self.processes[p];
            while let Some(event) = process.member.poll_event() {
                process.events.push((self.now, event));
            }
        }
        let mut burst = 0;
        while self.switch_runs
            && let Some(transmit) = self.coordinator.poll_transmit(self.now, &mut buf)
        {
            let lane = transmit.lane;
            let to = self.processes.iter().position(|p| p.address(lane) == transmit.to);
            if let Some(to) = to {
                self.send(|| To::Process(to), lane, &buf[..transmit.len]);
            }
            burst += 1;
            assert!(burst < 5000, "a coordinator that never stops sending");
        }
        while let Some(event) = self.coordinator.poll_event() {
            self.log.push(event);
        }
    }

    fn send(&mut self, to: impl Fn() -> To, lane: LaneId, datagram: &[u8]) {
        let Faults { loss, duplication, slowest, mtu } = self.faults;
        if datagram.len() > mtu || self.broken_lane == Some(lane) || self.rng.next_u64() % 100 < loss {
            return;
        }
        let copies = if self.rng.next_u64() % 100 < duplication { 2 } else { 1 };
        for _ in 0..copies {
            let slowest = slowest.as_micros() as u64;
            let micros = 1000 + self.rng.next_u64() % (slowest.saturating_sub(1000) + 1);
            let at = self.now + Duration::from_micros(micros);
            self.serial += 1;
            self.flights.insert((at, self.serial), Flight { to: to(), lane, datagram: datagram.to_vec() });
        }
    }

    /// All datagrams that are on their way are lost.
    pub(crate) fn lose_what_flies(&mut self) {
        self.flights.clear();
    }

    /// The switch is gone, and another one, that knows nothing, takes its place.
    pub(crate) fn restart_switch(&mut self, seed: u8) {
        let room = Room { jobs: 8, members: 64, ports: 256 };
        self.coordinator = coordinator(switch_config(seed), room, self.now);
        self.plane = Plane::new(self.now);
    }

    pub(crate) fn sessions(&self) -> usize {
        self.coordinator.sessions(self.now).count()
    }

    /// Gives the coordinator a datagram in lane 0; what it makes of it, and its answer.
    pub(crate) fn say(&mut self, from: SocketAddr, datagram: &[u8]) -> (Heard, Option<Vec<u8>>) {
        let heard = self.coordinator.handle_datagram(self.now, LaneId::ZERO, from, datagram, &mut self.plane);
        let mut buf = [0; MAX_DATAGRAM_LEN];
        let answer = self.coordinator.poll_transmit(self.now, &mut buf).map(|transmit| {
            assert_eq!(transmit.to, from);
            buf[..transmit.len].to_vec()
        });
        (heard, answer)
    }
}
