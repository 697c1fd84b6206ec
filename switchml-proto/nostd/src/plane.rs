//! What stands behind the coordinator: the slots of one aggregator.

use core::net::SocketAddr;

use switchml_proto::aggregator::{Aggregator, Port, Session};
use switchml_proto::control::{DataPlane, InstallRefused, PhaseStatus, SessionPlan};
use switchml_proto::{JobId, LaneId, Seq, WorkerSet};

/// One lane, and the port of each rank of the one job that it serves.
pub(crate) struct Plane<'p, const WORLD: usize> {
    pub(crate) aggregator: Aggregator<'p>,
    pub(crate) ports: [Option<Port>; WORLD],
}

impl<'p, const WORLD: usize> Plane<'p, WORLD> {
    pub(crate) const fn new(aggregator: Aggregator<'p>) -> Self {
        Self { aggregator, ports: [None; WORLD] }
    }
}

impl<const WORLD: usize> DataPlane for Plane<'_, WORLD> {
    fn install(&mut self, plan: &SessionPlan<'_>) -> Result<(), InstallRefused> {
        let SessionPlan { job, world_size, layout, initial_seq, .. } = *plan;
        let session = Session { job, world_size, layout, initial_seq };
        self.aggregator.install(&session).or(Err(InstallRefused::Jobs))?;
        for (rank, _, _) in plan.members() {
            let port = self.aggregator.bind(job, rank).ok();
            match self.ports.get_mut(rank.index()) {
                Some(entry) if port.is_some() => *entry = port,
                _ => {
                    self.remove(job);
                    return Err(InstallRefused::Members);
                }
            }
        }
        Ok(())
    }

    fn remove(&mut self, job: JobId) {
        self.aggregator.remove(job);
        self.ports = [None; WORLD];
    }

    fn phase(&mut self, job: JobId, _: LaneId, seq: Seq) -> PhaseStatus {
        self.aggregator.phase(job, seq)
    }

    fn missing(&mut self, job: JobId) -> WorkerSet {
        self.aggregator.missing(job)
    }

    fn largest_datagram(&mut self, _: SocketAddr) -> Option<usize> {
        None
    }
}
