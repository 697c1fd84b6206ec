//! The switch as an operator sees it.

use core::time::Duration;

use switchml_proto::aggregator::Counters;
use switchml_proto::control::{ControlCounters, Coordinator, SessionState};
use switchml_proto::wire::JobName;
use switchml_proto::{Instant, JobId, LaneCount, LaneId, LaneLayout, Rank, SessionId, WorkerSet, WorldSize};

use super::lane::Lane;
use crate::transport::SocketCalls;

/// All that there is to see of a switch at one moment.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Snapshot {
    /// The sessions that there are.
    pub sessions: Vec<SessionSnapshot>,
    /// The lanes, in order.
    pub lanes: Vec<LaneSnapshot>,
    /// Control messages, since the switch started.
    pub control: ControlCounters,
}

/// One session.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SessionSnapshot {
    /// Name of the job.
    pub name: JobName,
    /// Run of the job.
    pub run: u64,
    /// Number of the job.
    pub job: JobId,
    /// The session.
    pub session: SessionId,
    /// Where it is in its life.
    pub state: SessionState,
    /// Number of workers.
    pub world_size: WorldSize,
    /// Number of lanes.
    pub lanes: LaneCount,
    /// Slots and chunk size of each lane.
    pub layout: LaneLayout,
    /// Ranks that have not joined with all their lanes.
    pub missing: WorkerSet,
    /// Ranks that have left.
    pub left: WorkerSet,
    /// Time since each rank was last heard, if it has joined.
    pub ages: Vec<Option<Duration>>,
    /// What became of the members' packets, by lane and rank; none before data may flow.
    pub ports: Vec<PortSnapshot>,
}

/// The packets of one rank of a job in one lane.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PortSnapshot {
    /// The lane.
    pub lane: LaneId,
    /// The rank.
    pub rank: Rank,
    /// What became of its packets.
    pub counters: Counters,
}

/// What concerns a lane and no job, counted since the switch started.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LaneSnapshot {
    /// Data packets from sources that have not joined (W-10).
    pub unknown_source: u64,
    /// Datagrams not sent, because buffers were full or the system refused. The protocol repeats what is needed.
    pub dropped: u64,
    /// Datagrams not sent, because the path carries none so long (W-11).
    pub too_long: u64,
    /// Which system calls move its datagrams now: slower ones than at the start if a route has refused those.
    pub calls: SocketCalls,
    /// Datagrams of sources that are no members', not looked at because the lane could not keep up with what came.
    pub unheard: u64,
}

impl Snapshot {
    pub(super) fn take(coordinator: &Coordinator<'_>, lanes: &[Lane<'_>], now: Instant) -> Self {
        let sessions = coordinator.sessions(now).map(|view| SessionSnapshot {
            name: *view.name,
            run: view.run,
            job: view.job,
            session: view.session,
            state: view.state,
            world_size: view.world_size,
            lanes: view.lanes,
            layout: view.layout,
            missing: view.missing,
            left: view.left,
            ages: view.world_size.ranks().map(|rank| view.age(rank)).collect(),
            ports: ports(lanes, view.job),
        });
        let lane = |lane: &Lane<'_>| {
            let (dropped, too_long) = lane.unsent();
            LaneSnapshot {
                unknown_source: lane.slots().aggregator.unknown_source(),
                dropped,
                too_long,
                unheard: lane.unheard(),
                calls: lane.transport.calls(),
            }
        };
        Self {
            sessions: sessions.collect(),
            lanes: lanes.iter().map(lane).collect(),
            control: *coordinator.counters(),
        }
    }
}

fn ports(lanes: &[Lane<'_>], job: JobId) -> Vec<PortSnapshot> {
    let mut all = Vec::new();
    for lane in lanes {
        let slots = lane.slots();
        let members = slots.ports.values().filter(|member| member.job == job);
        all.extend(members.filter_map(|member| {
            let counters = *slots.aggregator.counters(member.port)?;
            Some(PortSnapshot { lane: lane.id, rank: member.rank, counters })
        }));
    }
    all.sort_unstable_by_key(|port| (port.lane, port.rank));
    all
}
