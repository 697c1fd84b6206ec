//! What stands behind the coordinator and holds slots and tables.

use core::net::SocketAddr;

use super::PortEntry;
use super::storage::JobIndex;
use crate::ids::{JobId, LaneCount, LaneId, LaneLayout, Rank, Seq, SessionId, WorkerSet, WorldSize};
use crate::phase::PhaseStatus;

/// What holds the slots and tables: the aggregators of the lanes, or a P4 switch.
///
/// The coordinator calls it within its own calls, so that nothing happens between a decision and its effect.
pub trait DataPlane {
    /// Sets up a session's slots as A-2 says, and its members' addresses, in every lane. From its return
    /// on, data is aggregated.
    ///
    /// # Errors
    /// [`InstallRefused`] if it cannot; then nothing of the session is left in the plane.
    fn install(&mut self, session: &SessionPlan<'_>) -> Result<(), InstallRefused>;

    /// Takes a session out: entries removed, packets drained, slots reset, in this order (C-3).
    fn remove(&mut self, job: JobId);

    /// How far the phase of `seq` is in `lane`.
    fn phase(&mut self, job: JobId, lane: LaneId, seq: Seq) -> PhaseStatus;

    /// Ranks that some open phase of the job waits for, in any lane.
    fn missing(&mut self, job: JobId) -> WorkerSet;

    /// Octets of UDP payload that the path to this member carries unfragmented; `None` if that is not known.
    fn largest_datagram(&mut self, to: SocketAddr) -> Option<usize>;
}

/// The plane cannot hold the session.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum InstallRefused {
    /// Too few slots.
    Slots {
        /// The most that a lane could get now.
        largest: u32,
    },
    /// Too few entries for jobs.
    Jobs,
    /// Too few entries for members.
    Members,
}

/// A session that is about to begin.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub struct SessionPlan<'a> {
    /// The job's number.
    pub job: JobId,
    /// The session.
    pub session: SessionId,
    /// Number of workers.
    pub world_size: WorldSize,
    /// Number of lanes.
    pub lanes: LaneCount,
    /// Slots and chunk size of each lane.
    pub layout: LaneLayout,
    /// s0 of each lane.
    pub initial_seq: Seq,
    pub(super) index: JobIndex,
    pub(super) ports: &'a [PortEntry],
}

impl SessionPlan<'_> {
    /// Where each lane of each rank has its address (W-10); all of them, in no order.
    pub fn members(&self) -> impl Iterator<Item = (Rank, LaneId, SocketAddr)> {
        let ports = self.ports.iter().filter_map(|entry| entry.0.as_ref());
        ports.filter(|port| port.job == self.index).map(|port| (port.rank, port.lane, port.address))
    }
}
