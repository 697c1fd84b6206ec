//! A member: one rank of a job, with all its lanes.

use core::time::Duration;

use super::{Heard, InvalidConfig};
use crate::Instant;
use crate::ids::{
    ChunkSize, JobId, LaneCount, LaneId, LaneLayout, Nonce, Rank, Seq, SessionId, Window, WorkerSet,
    WorldSize,
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
    /// The answer to a query.
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

/// The member's machine.
#[derive(Debug)]
pub struct Member {
    config: MemberConfig,
}

impl Member {
    /// A member that begins to join at `now`. `nonce` must be random: it tells this process from any other (C-2).
    ///
    /// # Errors
    /// [`InvalidConfig`] if the rank is not below the world size.
    pub fn new(config: MemberConfig, nonce: Nonce, now: Instant) -> Result<Self, InvalidConfig> {
        todo!()
    }

    /// Octets that the buffer for [`poll_transmit`](Self::poll_transmit) must have: the longest control message or a full data packet,
    /// whichever is longer.
    #[must_use]
    pub fn transmit_capacity(&self) -> usize {
        todo!()
    }

    /// Takes a control datagram that came from the aggregator's port of this lane.
    ///
    /// The caller has checked that it came from there; everything else is checked here. Afterwards the
    /// values of all polls may have changed.
    pub fn handle_datagram(&mut self, now: Instant, lane: LaneId, datagram: &[u8]) -> Heard {
        todo!()
    }

    /// Writes the next datagram that is due at `now` into `buf`; call it until it returns `None`.
    ///
    /// # Panics
    /// If `buf` is shorter than [`transmit_capacity`](Self::transmit_capacity).
    pub fn poll_transmit(&mut self, now: Instant, buf: &mut [u8]) -> Option<MemberTransmit> {
        todo!()
    }

    /// Lets time pass: call it at [`poll_timeout`](Self::poll_timeout), then poll for datagrams and events. An early call does nothing.
    pub fn handle_timeout(&mut self, now: Instant) {
        todo!()
    }

    /// When to call [`handle_timeout`](Self::handle_timeout) and [`poll_transmit`](Self::poll_transmit) next, if nothing comes before; `None` when it is all over.
    /// It is in the past or present while a datagram waits to be sent. Any other call may change it.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        todo!()
    }

    /// The next thing to tell; call it until it returns `None`.
    pub fn poll_event(&mut self) -> Option<MemberEvent> {
        todo!()
    }

    /// Leaves (C-3): all results that this member wants have come. [`MemberEvent::Left`] follows within a lease.
    pub fn leave(&mut self, now: Instant) {
        todo!()
    }

    /// Ends the session for all members. [`MemberEvent::Ended`] follows at once; the message is repeated
    /// until the aggregator acknowledges it or a lease has passed, if the caller polls that long.
    pub fn abort(&mut self, now: Instant, reason: AbortReason, culprit: Option<Rank>) {
        todo!()
    }

    /// Asks once who is missing in the phase of `seq` in `lane` (C-4); [`MemberEvent::Status`] follows unless
    /// a datagram is lost. Nothing happens while there is no ready session.
    pub fn query(&mut self, now: Instant, lane: LaneId, seq: Seq) {
        todo!()
    }

    /// The session, once it is ready; also after its end.
    #[must_use]
    pub fn session(&self) -> Option<SessionParams> {
        todo!()
    }
}
