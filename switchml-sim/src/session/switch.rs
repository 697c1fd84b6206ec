//! The switch: the control machine, and an aggregator for each lane.

use core::net::SocketAddr;
use std::collections::{BTreeMap, HashMap};

use switchml_proto::aggregator::{
    Aggregator, Egress, InstallError, Job, Kernels, Phase, Port, PortEntry, Reject, Session, Storage,
};
use switchml_proto::control::{
    self, Coordinator, CoordinatorConfig, CoordinatorStorage, DataPlane, InstallRefused, JobEntry,
    MemberEntry, PhaseStatus, SessionPlan,
};
use switchml_proto::wire::{Class, MAX_DATAGRAM_LEN};
use switchml_proto::{ChunkSize, Instant, JobId, LaneCount, LaneId, Rank, Seq, WorkerSet, WorldSize};

const JOBS: usize = 8;
/// Each with one entry for each lane.
const MEMBERS: usize = 2 * WorldSize::MAX;

/// What one life of a switch works with.
#[derive(Debug)]
pub struct SwitchMemory {
    config: CoordinatorConfig,
    jobs: Vec<JobEntry>,
    members: Vec<MemberEntry>,
    ports: Vec<control::PortEntry>,
    lanes: Vec<LaneMemory>,
}

#[derive(Debug)]
struct LaneMemory {
    phases: Vec<Phase>,
    elements: Vec<i32>,
    jobs: Vec<Job>,
    ports: Vec<PortEntry>,
}

impl SwitchMemory {
    /// Memory for 8 jobs of up to 64 ranks each, 128 together.
    #[must_use]
    pub fn new(config: CoordinatorConfig) -> Self {
        let slots = usize::from(config.slots);
        let lane = |_| LaneMemory {
            phases: vec![Phase::EMPTY; Storage::phases(slots)],
            elements: vec![0; Storage::elements(slots, config.largest_chunk)],
            jobs: vec![Job::EMPTY; JOBS],
            ports: vec![PortEntry::EMPTY; MEMBERS],
        };
        Self {
            config,
            jobs: vec![JobEntry::EMPTY; JOBS],
            members: vec![MemberEntry::EMPTY; MEMBERS],
            ports: vec![control::PortEntry::EMPTY; MEMBERS * usize::from(config.lanes.get())],
            lanes: LaneCount::lanes(config.lanes).map(lane).collect(),
        }
    }
}

/// A datagram that the switch sends.
pub(super) struct Outgoing {
    pub(super) lane: LaneId,
    pub(super) to: SocketAddr,
    pub(super) octets: Vec<u8>,
}

pub(super) struct Switch<'m> {
    coordinator: Coordinator<'m>,
    plane: Lanes<'m>,
}

struct Lanes<'m>(Vec<Lane<'m>>);

struct Lane<'m> {
    aggregator: Aggregator<'m>,
    ports: HashMap<SocketAddr, (JobId, Port)>,
    /// By job, then by rank.
    addresses: BTreeMap<u8, Vec<SocketAddr>>,
}

impl<'m> Switch<'m> {
    pub(super) fn new(memory: &'m mut SwitchMemory, now: Instant) -> Result<Self, control::InvalidConfig> {
        let SwitchMemory { config, jobs, members, ports, lanes } = memory;
        let coordinator = Coordinator::new(*config, CoordinatorStorage { jobs, members, ports }, now)?;
        let lanes = lanes.iter_mut().map(|memory| Lane::new(memory, config.largest_chunk)).collect();
        Ok(Self { coordinator, plane: Lanes(lanes) })
    }

    pub(super) fn sessions(&self, now: Instant) -> usize {
        self.coordinator.sessions(now).count()
    }

    /// Slots of all lanes that hold a phase.
    pub(super) fn used_slots(&self) -> usize {
        let jobs = || (0..=u8::MAX).map(JobId);
        self.plane
            .0
            .iter()
            .map(|lane| jobs().map(|job| lane.aggregator.dump(job).count()).sum::<usize>())
            .sum()
    }

    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        self.coordinator.poll_timeout()
    }

    pub(super) fn handle_timeout(&mut self, now: Instant) {
        self.coordinator.handle_timeout(now, &mut self.plane);
    }

    pub(super) fn handle_datagram(
        &mut self,
        now: Instant,
        lane: LaneId,
        from: SocketAddr,
        datagram: &[u8],
        out: &mut Vec<Outgoing>,
    ) {
        if Class::of(datagram) == Class::Control {
            // It says itself what it made of it, in its counters.
            let _ = self.coordinator.handle_datagram(now, lane, from, datagram, &mut self.plane);
            return;
        }
        let Some(at) = self.plane.0.get_mut(lane.index()) else { return };
        let member = at.ports.get(&from).copied();
        match at.aggregator.handle_datagram(member.map(|(_, port)| port), datagram) {
            Egress::Consume | Egress::Ignore => {}
            Egress::Reject(Reject::UnknownSource | Reject::ForeignJob) => {
                self.coordinator.handle_stray_data(now, lane, from, datagram);
            }
            Egress::Reject(_) => {}
            Egress::Unicast(reply) => {
                let mut octets = vec![0; reply.datagram_len()];
                reply.emit(&mut octets);
                out.push(Outgoing { lane, to: from, octets });
            }
            Egress::Multicast(reply) => {
                let mut octets = vec![0; reply.datagram_len()];
                reply.emit(&mut octets);
                let members = at.addresses.get(&reply.job().0).into_iter().flatten();
                out.extend(members.map(|&to| Outgoing { lane, to, octets: octets.clone() }));
            }
        }
    }

    /// What the control machine sends.
    pub(super) fn transmit(&mut self, now: Instant, out: &mut Vec<Outgoing>) {
        let mut buffer = [0; MAX_DATAGRAM_LEN];
        while let Some(transmit) = self.coordinator.poll_transmit(now, &mut buffer) {
            let octets = buffer[..transmit.len].to_vec();
            out.push(Outgoing { lane: transmit.lane, to: transmit.to, octets });
        }
        while self.coordinator.poll_event().is_some() {}
    }
}

impl<'m> Lane<'m> {
    fn new(memory: &'m mut LaneMemory, largest_chunk: ChunkSize) -> Self {
        let LaneMemory { phases, elements, jobs, ports } = memory;
        let storage = Storage { phases, elements, jobs, ports };
        let aggregator = Aggregator::new(storage, largest_chunk, Kernels::PORTABLE)
            .expect("the memory was made for chunks of this size");
        Self { aggregator, ports: HashMap::new(), addresses: BTreeMap::new() }
    }

    fn install(
        &mut self,
        session: &Session,
        members: BTreeMap<Rank, SocketAddr>,
    ) -> Result<(), InstallError> {
        self.aggregator.install(session)?;
        for (&rank, &address) in &members {
            let port = self.aggregator.bind(session.job, rank)?;
            self.ports.insert(address, (session.job, port));
        }
        self.addresses.insert(session.job.0, members.into_values().collect());
        Ok(())
    }
}

impl DataPlane for Lanes<'_> {
    fn install(&mut self, plan: &SessionPlan<'_>) -> Result<(), InstallRefused> {
        let SessionPlan { job, world_size, layout, initial_seq, .. } = *plan;
        let session = Session { job, world_size, layout, initial_seq };
        for (id, lane) in plan.lanes.lanes().zip(&mut self.0) {
            let members = plan.members().filter(|member| member.1 == id);
            let members = members.map(|(rank, _, address)| (rank, address)).collect();
            if lane.install(&session, members).is_err() {
                self.remove(job);
                return Err(InstallRefused::Slots { largest: 0 });
            }
        }
        Ok(())
    }

    fn remove(&mut self, job: JobId) {
        for lane in &mut self.0 {
            lane.ports.retain(|_, member| member.0 != job);
            lane.addresses.remove(&job.0);
            lane.aggregator.remove(job);
        }
    }

    fn phase(&mut self, job: JobId, lane: LaneId, seq: Seq) -> PhaseStatus {
        self.0.get(lane.index()).map_or(PhaseStatus::Unknown, |lane| lane.aggregator.phase(job, seq))
    }

    fn missing(&mut self, job: JobId) -> WorkerSet {
        let missing = self.0.iter().map(|lane| lane.aggregator.missing(job));
        missing.fold(WorkerSet::EMPTY, WorkerSet::or)
    }

    fn largest_datagram(&mut self, _to: SocketAddr) -> Option<usize> {
        None
    }
}
