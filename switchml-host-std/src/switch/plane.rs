//! The coordinator's data plane: the slots of all lanes.

use core::net::SocketAddr;

use switchml_proto::aggregator::{self, InstallError, Session};
use switchml_proto::control::{DataPlane, InstallRefused, PhaseStatus, SessionPlan};
use switchml_proto::{JobId, LaneId, Seq, WorkerSet};

use super::lane::Lane;
use crate::transport::{Options, Transport};

/// The lanes, as the coordinator sees them.
pub(super) struct Plane<'p, 's> {
    pub(super) lanes: &'p [Lane<'s>],
}

impl DataPlane for Plane<'_, '_> {
    fn install(&mut self, plan: &SessionPlan<'_>) -> Result<(), InstallRefused> {
        let session = Session {
            job: plan.job,
            world_size: plan.world_size,
            layout: plan.layout,
            initial_seq: plan.initial_seq,
        };
        let lanes = usize::from(plan.lanes.get());
        for lane in &self.lanes[..lanes.min(self.lanes.len())] {
            let members = plan.members().filter(|&(_, id, _)| id == lane.id);
            let members = members.map(|(rank, _, address)| (rank, address));
            if let Err(error) = lane.slots().install(&session, members) {
                self.remove(plan.job);
                return Err(match error {
                    InstallError::NoJobEntry => InstallRefused::Jobs,
                    InstallError::RankBound | InstallError::NoPortEntry => InstallRefused::Members,
                    _ => InstallRefused::Slots { largest: 0 },
                });
            }
        }
        Ok(())
    }

    fn remove(&mut self, job: JobId) {
        for lane in self.lanes {
            lane.slots().remove(job);
        }
    }

    fn phase(&mut self, job: JobId, lane: LaneId, seq: Seq) -> PhaseStatus {
        match self.lanes.get(lane.index()).map(|lane| lane.slots().aggregator.phase(job, seq)) {
            None | Some(aggregator::PhaseStatus::Unknown) => PhaseStatus::Unknown,
            Some(aggregator::PhaseStatus::Open { seen }) => PhaseStatus::Open { seen },
            Some(aggregator::PhaseStatus::Complete) => PhaseStatus::Complete,
        }
    }

    fn missing(&mut self, job: JobId) -> WorkerSet {
        let missing = self.lanes.iter().map(|lane| lane.slots().aggregator.missing(job));
        missing.fold(WorkerSet::EMPTY, WorkerSet::or)
    }

    fn largest_datagram(&mut self, to: SocketAddr) -> Option<usize> {
        // Connecting a socket sends nothing; it makes the system look up the path.
        Transport::connect(to, &Options::default()).ok()?.max_datagram()
    }
}
