//! The coordinator's data plane: the slots of all lanes.

use core::net::SocketAddr;

use switchml_proto::aggregator::{Aggregator, InstallError, Session};
use switchml_proto::control::{DataPlane, InstallRefused, PhaseStatus, SessionPlan};
use switchml_proto::{JobId, LaneId, Rank, Seq, WorkerSet};

use super::storage::Bound;
use crate::config;

/// One lane: its slots, and who may use them.
#[derive(Debug)]
pub(super) struct Lane<'s> {
    pub(super) aggregator: Aggregator<'s>,
    pub(super) bound: &'s mut [Option<Bound>],
    pub(super) fanout: Option<Fanout>,
}

/// A result of which some receivers have no copy yet: the transmit buffer was full.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fanout {
    pub(super) job: JobId,
    pub(super) seq: Seq,
    /// The receivers, places in `Lane::bound`: those of the job in it.
    pub(super) from: usize,
    pub(super) to: usize,
}

impl Lane<'_> {
    /// Who has this address: a place in `bound`.
    pub(super) fn member(&self, address: SocketAddr) -> Option<(usize, Bound)> {
        let bound = |entry: &Option<Bound>| entry.filter(|bound| bound.address == address);
        self.bound.iter().enumerate().find_map(|(at, entry)| Some((at, bound(entry)?)))
    }

    fn install(
        &mut self,
        session: &Session,
        members: impl Iterator<Item = (Rank, SocketAddr)>,
    ) -> Result<(), InstallError> {
        self.aggregator.install(session)?;
        for (rank, address) in members {
            if self.member(address).is_some() {
                return Err(InstallError::RankBound); // an address is one member's (W-10)
            }
            let port = self.aggregator.bind(session.job, rank)?;
            let entry = self.bound.iter_mut().find(|entry| entry.is_none());
            *entry.ok_or(InstallError::NoPortEntry)? = Some(Bound { address, job: session.job, rank, port });
        }
        Ok(())
    }

    /// First the members' addresses, so that none of their packets comes through any more, then the slots (C-3).
    fn remove(&mut self, job: JobId) {
        for entry in self.bound.iter_mut() {
            if entry.is_some_and(|bound| bound.job == job) {
                *entry = None;
            }
        }
        self.fanout = self.fanout.filter(|fanout| fanout.job != job);
        self.aggregator.remove(job);
    }
}

/// The lanes, as the coordinator sees them.
pub(super) struct Plane<'p, 's> {
    pub(super) lanes: &'p mut [Lane<'s>],
    pub(super) ip_mtu: usize,
}

impl DataPlane for Plane<'_, '_> {
    fn install(&mut self, plan: &SessionPlan<'_>) -> Result<(), InstallRefused> {
        let SessionPlan { job, world_size, layout, initial_seq, .. } = *plan;
        let session = Session { job, world_size, layout, initial_seq };
        let mut installed = Ok(());
        for (id, lane) in plan.lanes.lanes().zip(self.lanes.iter_mut()) {
            let members = plan.members().filter(|&(_, lane, _)| lane == id);
            installed = lane.install(&session, members.map(|(rank, _, address)| (rank, address)));
            if installed.is_err() {
                break;
            }
        }
        installed.map_err(|error| {
            self.remove(job);
            match error {
                InstallError::NoJobEntry => InstallRefused::Jobs,
                InstallError::RankBound | InstallError::NoPortEntry => InstallRefused::Members,
                _ => InstallRefused::Slots { largest: 0 },
            }
        })
    }

    fn remove(&mut self, job: JobId) {
        self.lanes.iter_mut().for_each(|lane| lane.remove(job));
    }

    fn phase(&mut self, job: JobId, lane: LaneId, seq: Seq) -> PhaseStatus {
        let lane = self.lanes.get(lane.index());
        lane.map_or(PhaseStatus::Unknown, |lane| lane.aggregator.phase(job, seq))
    }

    fn missing(&mut self, job: JobId) -> WorkerSet {
        let missing = self.lanes.iter().map(|lane| lane.aggregator.missing(job));
        missing.fold(WorkerSet::EMPTY, WorkerSet::or)
    }

    fn largest_datagram(&mut self, to: SocketAddr) -> Option<usize> {
        Some(config::payload(self.ip_mtu, &to))
    }
}
