//! The aggregator's side of a state: the machine that ships, over memory that can be copied.

use core::hash::Hash;

use switchml_proto::aggregator::{
    Aggregator, Egress, Job, Kernels, Phase, PhaseStatus, Port, PortEntry, Session, Storage,
};
use switchml_proto::{Rank, Seq};

use crate::scenario::{CHUNK, JOB, Scenario};
use crate::states::{Key, KeyHasher};

/// An aggregator of one job, as an exploration needs it.
pub(crate) trait Aggregate: Clone + Send + 'static {
    fn new(scenario: &Scenario) -> Self;

    /// Takes a packet of a rank, and writes the result, if it answers with one.
    fn handle(&mut self, rank: usize, datagram: &[u8], result: &mut Vec<u8>) -> Answer;

    /// All that decides what it does.
    fn key(&self) -> Key;

    /// The seq of each phase that it holds; nothing where there is none, or where it keeps no seq.
    fn held(&self) -> Vec<Option<Seq>>;
}

/// Who is sent a result.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Answer {
    Nobody,
    Asker,
    All,
}

/// The memory of the real [`Aggregator`].
#[derive(Clone, Debug)]
pub(crate) struct Ours {
    phases: Vec<Phase>,
    elements: Vec<i32>,
    jobs: [Job; 1],
    members: Vec<PortEntry>,
    ports: Vec<Port>,
}

impl Ours {
    fn storage(&mut self) -> Storage<'_> {
        Storage {
            phases: &mut self.phases,
            elements: &mut self.elements,
            jobs: &mut self.jobs,
            ports: &mut self.members,
        }
    }

    fn resume(&mut self) -> Aggregator<'_> {
        Aggregator::resume(self.storage(), CHUNK, Kernels::PORTABLE).expect("it was made with this memory")
    }
}

impl Aggregate for Ours {
    fn new(scenario: &Scenario) -> Self {
        let mut ours = Self {
            phases: vec![Phase::EMPTY; Storage::phases(scenario.window)],
            elements: vec![0; Storage::elements(scenario.window, CHUNK)],
            jobs: [Job::EMPTY],
            members: vec![PortEntry::EMPTY; scenario.workers],
            ports: Vec::new(),
        };
        let session = Session {
            job: JOB,
            world_size: scenario.world_size(),
            layout: scenario.layout(),
            initial_seq: scenario.initial_seq(),
        };
        let mut aggregator =
            Aggregator::new(ours.storage(), CHUNK, Kernels::PORTABLE).expect("the memory suffices");
        aggregator.install(&session).expect("it is the only job");
        let bind = |rank: Rank| aggregator.bind(JOB, rank).expect("each rank once");
        ours.ports = scenario.world_size().ranks().map(bind).collect();
        ours
    }

    fn handle(&mut self, rank: usize, datagram: &[u8], result: &mut Vec<u8>) -> Answer {
        let port = self.ports[rank];
        let mut aggregator = self.resume();
        let (reply, answer) = match aggregator.handle_datagram(Some(port), datagram) {
            Egress::Consume | Egress::Ignore | Egress::Reject(_) => return Answer::Nobody,
            Egress::Unicast(reply) => (reply, Answer::Asker),
            Egress::Multicast(reply) => (reply, Answer::All),
        };
        result.resize(reply.datagram_len(), 0);
        reply.emit(result);
        answer
    }

    fn key(&self) -> Key {
        let mut hasher = KeyHasher::default();
        self.phases.hash(&mut hasher);
        self.elements.hash(&mut hasher);
        hasher.0
    }

    fn held(&self) -> Vec<Option<Seq>> {
        let mut copy = self.clone();
        let aggregator = copy.resume();
        let held = aggregator.dump(JOB).map(|slot| match slot.status {
            PhaseStatus::Unknown => None,
            PhaseStatus::Open { .. } | PhaseStatus::Complete => Some(slot.seq),
        });
        held.collect()
    }
}
