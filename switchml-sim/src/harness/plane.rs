//! What aggregates: the protocol's aggregator, or a variant that a test holds against it.

use switchml_proto::aggregator::{
    Aggregator, Egress, InstallError, Job, Kernels, Phase, Port, PortEntry, Session, Storage,
};
use switchml_proto::{LaneCount, Rank};

use super::scenario::{JOB, Scenario};
use crate::record::Verdict;

/// One lane of an aggregator whose job is installed and whose members have joined.
pub trait Plane {
    /// Takes a datagram, from a rank or from a stranger; with the verdicts `Multicast` and `Unicast` it leaves the result in
    /// `reply`, which was empty.
    fn take(&mut self, from: Option<usize>, datagram: &[u8], reply: &mut Vec<u8>) -> Verdict;
}

/// The memory of the aggregators of all lanes.
#[derive(Debug)]
pub struct Pool {
    session: Session,
    lanes: Vec<Memory>,
}

#[derive(Debug)]
struct Memory {
    phases: Vec<Phase>,
    elements: Vec<i32>,
    jobs: [Job; 1],
    ports: Vec<PortEntry>,
}

/// The protocol's aggregator.
#[derive(Debug)]
pub struct Real<'p> {
    aggregator: Aggregator<'p>,
    /// By rank.
    ports: Vec<Port>,
}

impl Pool {
    /// Memory for the scenario's job and no more.
    #[must_use]
    pub fn new(scenario: &Scenario) -> Self {
        let Scenario { layout, world_size, initial_seq, lanes, .. } = *scenario;
        let slots = usize::from(layout.base()) + usize::from(layout.window().get());
        let memory = |_| Memory {
            phases: vec![Phase::EMPTY; Storage::phases(slots)],
            elements: vec![0; Storage::elements(slots, layout.chunk())],
            jobs: [Job::EMPTY],
            ports: vec![PortEntry::EMPTY; world_size.get().into()],
        };
        let session = Session { job: JOB, world_size, layout, initial_seq };
        Self { session, lanes: LaneCount::lanes(lanes).map(memory).collect() }
    }

    /// An aggregator for each lane, with the job and its members.
    ///
    /// # Errors
    /// [`InstallError`] if the scenario's first seq is none that a session can have.
    pub fn planes(&mut self) -> Result<Vec<Real<'_>>, InstallError> {
        let session = self.session;
        self.lanes.iter_mut().map(|memory| Real::new(memory, &session)).collect()
    }
}

impl<'p> Real<'p> {
    fn new(memory: &'p mut Memory, session: &Session) -> Result<Self, InstallError> {
        let Memory { phases, elements, jobs, ports } = memory;
        let storage = Storage { phases, elements, jobs, ports };
        let mut aggregator = Aggregator::new(storage, session.layout.chunk(), Kernels::PORTABLE)
            .expect("the pool was made for this layout");
        aggregator.install(session)?;
        let bind = |rank: Rank| aggregator.bind(session.job, rank);
        let ports = session.world_size.ranks().map(bind).collect::<Result<_, _>>()?;
        Ok(Self { aggregator, ports })
    }
}

impl Plane for Real<'_> {
    fn take(&mut self, from: Option<usize>, datagram: &[u8], buffer: &mut Vec<u8>) -> Verdict {
        let port = from.and_then(|rank| self.ports.get(rank).copied());
        let (verdict, reply) = match self.aggregator.handle_datagram(port, datagram) {
            Egress::Consume => return Verdict::Consume,
            Egress::Ignore => return Verdict::Ignore,
            Egress::Reject(_) => return Verdict::Reject,
            Egress::Unicast(reply) => (Verdict::Unicast, reply),
            Egress::Multicast(reply) => (Verdict::Multicast, reply),
        };
        buffer.resize(reply.datagram_len(), 0);
        reply.emit(buffer);
        verdict
    }
}
