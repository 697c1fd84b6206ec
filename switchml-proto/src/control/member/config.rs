//! What a member is told, and what it tells.

use core::time::Duration;

use crate::control::{ControlDatagram, InvalidConfig};
use crate::ids::{
    ChunkSize, JobId, LaneCount, LaneId, LaneLayout, Rank, Seq, SessionId, Window, WorkerSet, WorldSize,
};
use crate::wire::{AbortReason, JobName, RejectReason, StatusReport};

/// What a member asks for, and how long it waits for it.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub struct MemberConfig {
    /// Name of the job: with `run`, its key (C-1).
    pub name: JobName,
    /// Tells runs of one name apart.
    pub run: u64,
    /// Number of workers.
    pub world_size: WorldSize,
    /// Which of them this is.
    pub rank: Rank,
    /// Number of lanes.
    pub lanes: LaneCount,
    /// Elements of a packet.
    pub chunk: ChunkSize,
    /// Slots of a lane.
    pub window: Window,
    /// How long the aggregator may give no answer to the first joins; 5 s by default.
    pub connect_timeout: Duration,
    /// How long other ranks may take to join; 10 min by default.
    pub join_timeout: Duration,
}

impl MemberConfig {
    /// Rank `rank` of `world_size`, with one lane, the default chunk, window and timeouts, and run 0.
    ///
    /// # Errors
    /// [`InvalidConfig`] if the rank is not below the world size.
    pub const fn new(name: JobName, world_size: WorldSize, rank: Rank) -> Result<Self, InvalidConfig> {
        if rank.get() >= world_size.get() {
            return Err(InvalidConfig::RankOutsideWorld { rank, world_size });
        }
        let lanes = match LaneCount::new(1) {
            Ok(lanes) => lanes,
            Err(_) => unreachable!(),
        };
        Ok(Self {
            name,
            run: 0,
            world_size,
            rank,
            lanes,
            chunk: ChunkSize::DEFAULT,
            window: Window::DEFAULT,
            connect_timeout: Duration::from_secs(5),
            join_timeout: Duration::from_secs(600),
        })
    }
}

/// What the lanes' workers need to know of the session.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub struct SessionParams {
    /// The job's number.
    pub job: JobId,
    /// The session.
    pub session: SessionId,
    /// Slots and chunk size of each lane.
    pub layout: LaneLayout,
    /// s0 of each lane.
    pub initial_seq: Seq,
    /// How long a member may be silent.
    pub lease: Duration,
}

/// A datagram to send to the aggregator.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub struct MemberTransmit {
    /// From this lane's socket, to this lane's port at the aggregator.
    pub lane: LaneId,
    /// Octets of the buffer to send.
    pub len: usize,
}

/// A datagram to send to the aggregator, that is not written yet.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub struct MemberDatagram {
    /// From this lane's socket, to this lane's port at the aggregator.
    pub lane: LaneId,
    /// What to write.
    pub datagram: ControlDatagram,
}

/// What a member has to tell its caller.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum MemberEvent {
    /// This member has joined; others have not. Told again whenever the set changes.
    Waiting {
        /// Ranks that have not joined with all their lanes.
        missing: WorkerSet,
    },
    /// All have joined: data may flow in every lane.
    Ready(SessionParams),
    /// The answer to a query. Of several that no poll came between, the last.
    Status(StatusReport),
    /// It is over for this member, by a failure. The last event.
    Ended(EndReason),
    /// It is over for this member, as it wished. The last event.
    Left,
}

/// Why a member's part in a session failed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum EndReason {
    /// The aggregator refused the join (C-1).
    Rejected(RejectReason),
    /// A lane's port gave no answer within the connect timeout.
    AggregatorSilent {
        /// The first lane that had none.
        lane: LaneId,
    },
    /// A lane's port answered short joins within the connect timeout, but none as long as a data packet (W-11).
    PathTooSmall {
        /// The first such lane.
        lane: LaneId,
    },
    /// Other ranks did not join within the join timeout.
    JoinTimeout {
        /// Which ones.
        missing: WorkerSet,
    },
    /// The session was aborted, by the aggregator or by this member.
    Aborted {
        /// Why.
        reason: AbortReason,
        /// The rank that caused it, if one did.
        culprit: Option<Rank>,
    },
    /// The aggregator answered before, and then gave no answer for a whole lease.
    AggregatorLost,
}
