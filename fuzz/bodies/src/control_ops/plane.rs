//! Where the sessions' slots would be: it refuses what no switch could do.

use core::net::SocketAddr;
use std::collections::{BTreeMap, BTreeSet};

use switchml_proto::control::{DataPlane, InstallRefused, PhaseStatus, SessionPlan};
use switchml_proto::{JobId, LaneId, LaneLayout, Seq, WorkerSet};

#[derive(Default)]
pub(super) struct Plane {
    installed: BTreeMap<u8, LaneLayout>,
    /// What it says of every job's open phases.
    pub(super) missing: WorkerSet,
}

impl Plane {
    /// Every job that it holds is one of the sessions.
    pub(super) fn check(&self, sessions: impl Iterator<Item = JobId>) {
        let sessions: BTreeSet<_> = sessions.map(|job| job.0).collect();
        assert!(self.installed.keys().all(|job| sessions.contains(job)), "slots of a job that has ended");
    }
}

impl DataPlane for Plane {
    fn install(&mut self, plan: &SessionPlan<'_>) -> Result<(), InstallRefused> {
        let slots = |layout: LaneLayout| layout.base()..layout.base() + layout.window().get();
        for &other in self.installed.values() {
            let (ours, theirs) = (slots(plan.layout), slots(other));
            assert!(ours.end <= theirs.start || theirs.end <= ours.start, "slots of two jobs overlap");
        }
        assert!(slots(plan.layout).end <= 64, "within the lane's slots");
        let members: BTreeSet<_> = plan.members().collect();
        assert_eq!(members.len(), usize::from(plan.world_size.get()) * usize::from(plan.lanes.get()));
        let addresses: BTreeSet<_> = members.iter().map(|&(_, lane, address)| (lane, address)).collect();
        assert_eq!(addresses.len(), members.len(), "an address is one member's (W-10)");
        assert_eq!(plan.initial_seq.0 % (2 * u32::from(plan.layout.window().get())), 0, "A-2");
        assert!(self.installed.insert(plan.job.0, plan.layout).is_none(), "a job's number is its own");
        Ok(())
    }

    fn remove(&mut self, job: JobId) {
        assert!(self.installed.remove(&job.0).is_some(), "it was installed");
    }

    fn phase(&mut self, job: JobId, _: LaneId, seq: Seq) -> PhaseStatus {
        assert!(self.installed.contains_key(&job.0));
        match seq.0 % 3 {
            0 => PhaseStatus::Unknown,
            1 => PhaseStatus::Open { seen: WorkerSet::EMPTY },
            _ => PhaseStatus::Complete,
        }
    }

    fn missing(&mut self, job: JobId) -> WorkerSet {
        assert!(self.installed.contains_key(&job.0));
        self.missing
    }

    fn largest_datagram(&mut self, to: SocketAddr) -> Option<usize> {
        // Some paths are small (W-11).
        to.ip().to_string().ends_with('7').then_some(600)
    }
}
