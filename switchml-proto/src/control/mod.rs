//! Control (section 6): how members join, live and end, as two machines without socket or clock.
//!
//! - [`Member`] is one rank of a job, with all its lanes. Each process that joins drives one.
//! - [`Coordinator`] is the aggregator's side. A software switch, a DPU core and the controller of a P4 switch
//!   all drive the same one (C-6); what holds the slots stands behind [`DataPlane`].
//!
//! They do not carry data, and do not see any: data does not renew a lease (C-3). They authenticate nobody; a cookie
//! shows that an address hears what is sent to it, and no more (C-5).
//!
//! # The life of a session
//!
//! ```text
//!   member                                            aggregator
//!
//!   each lane  ---- join, cookie 0 ---------------->  makes no state
//!              <--- challenge, cookie --------------
//!              ---- join, cookie, padded ---------->  place taken; the first one makes the job:
//!              <--- welcome, padded: who is missing   slots, job number, session, s0
//!   Waiting    ---- join, cookie ------------------>  each 250 ms; renews the lease
//!              <--- welcome: who is missing --------
//!                                                     the last lane of the last rank joins:
//!                                                     slots and addresses are set up
//!   Ready      <--- welcome, padded: ready ---------  to every lane at once
//!
//!              ---- keep-alive -------------------->  each third of the lease, busy or idle
//!              <--- alive --------------------------
//!              ---- query, lane, seq -------------->
//!              <--- status: phase, missing, ages ---
//!
//!   leave()    ---- leave ------------------------->  no lease any more; its results stay
//!   Left       <--- left ---------------------------  the last leave frees the slots
//!
//!   or, when a lease runs out, a rank left that a phase waits for, a member or the operator aborts:
//!
//!   Ended      <--- abort, reason, rank ------------  to each member each twentieth of the lease,
//!              ---- aborted ----------------------->  until it answers, or its lease ends;
//!                                                     then the slots are freed
//!
//!   or, when the aggregator was restarted:
//!
//!              ---- data -------------------------->
//!              <--- no session --------------------   a hint, at a limited rate
//!              ---- keep-alive -------------------->
//!   Ended      <--- abort, unknown session ---------
//! ```
//!
//! The aggregator's view of a job:
//!
//! ```text
//!             first join           all have joined            all have left
//!    (none) ------------> Joining -----------------> Ready ------------------> (none), the number rests
//!       ^                  |   |                       |                          ^
//!       |  all went away   |   | join timeout,         | lease out, left while    |
//!       +------------------+   | lease out, abort      | needed, abort            |
//!                              v                       v                          |
//!                           Ending <-------------------+                          |
//!                              |    all have acknowledged, or their leases ended  |
//!                              +--------------------------------------------------+
//! ```
//!
//! # What is repeated, and for how long
//!
//! Any datagram may be lost, late or there twice. What a member needs an answer to, it repeats: joins after 20 ms,
//! doubling to 500 ms, or to 125 ms after a challenge, until the connect timeout; leave and abort likewise, for a
//! lease; keep-alives each 24th of the lease, each through another lane, until one is answered. A lease without
//! answer is the end: [`EndReason::AggregatorLost`]. The aggregator repeats nothing but aborts.
//!
//! A join with a cookie is as long as a full data packet, and so is the welcome that answers it, so that a path which
//! drops such datagrams is found here, not in the first collective (W-11). Each third one is short: where the long ones
//! do not arrive, the aggregator can still say which chunk would fit.
//!
//! # What is bounded
//!
//! The coordinator's state is the storage that the caller lends, plus about 16 KiB. No answer to an
//! unproven address is longer than what it answers, no abort is answered with an abort, and hints to senders without a
//! session are limited to 200 in a second.
//!
//! # The loop that drives them
//!
//! Both are driven alike: hand in what arrived, let time pass, send what is due, read the events, then sleep until
//! `poll_timeout` or the next datagram. Here a member and a coordinator meet without a network between them.
//!
//! ```
//! use core::net::SocketAddr;
//! use switchml_proto::control::*;
//! use switchml_proto::wire::JobName;
//! use switchml_proto::*;
//!
//! struct Tables; // A software switch has its aggregators here, a controller its P4 switch.
//! impl DataPlane for Tables {
//!     fn install(&mut self, session: &SessionPlan<'_>) -> Result<(), InstallRefused> {
//!         for (_rank, _lane, _address) in session.members() { /* data from there is this job's */ }
//!         Ok(())
//!     }
//!     fn remove(&mut self, _job: JobId) {}
//!     fn phase(&mut self, _job: JobId, _lane: LaneId, _seq: Seq) -> PhaseStatus { PhaseStatus::Unknown }
//!     fn missing(&mut self, _job: JobId) -> WorkerSet { WorkerSet::EMPTY }
//!     fn largest_datagram(&mut self, _to: SocketAddr) -> Option<usize> { Some(1472) }
//! }
//!
//! let mut now = Instant::ZERO; // 1. Both get the time as an argument.
//! let storage = CoordinatorStorage {
//!     jobs: &mut [JobEntry::EMPTY; 4],
//!     members: &mut [MemberEntry::EMPTY; 8],
//!     ports: &mut [PortEntry::EMPTY; 8],
//! };
//! let seed = [7; 32]; // Real ones are random, and so are nonces.
//! let config = CoordinatorConfig::new(512, LaneCount::new(1)?, seed);
//! let mut coordinator = Coordinator::new(config, storage, now)?;
//! let config = MemberConfig::new(JobName::new("job").ok_or("a name")?, WorldSize::new(1)?, Rank::new(0)?)?;
//! let mut member = Member::new(config, Nonce(1), now)?;
//! let address: SocketAddr = "10.0.0.1:4000".parse()?;
//! let mut buf = [0; 2048];
//!
//! let session = 'joined: loop {
//!     member.handle_timeout(now); // 2. Timers first,
//!     coordinator.handle_timeout(now, &mut Tables);
//!     while let Some(MemberTransmit { lane, len, .. }) = member.poll_transmit(now, &mut buf) {
//!         // 3. then all datagrams that are due: sending is handing over here,
//!         coordinator.handle_datagram(now, lane, address, &buf[..len], &mut Tables);
//!     }
//!     while let Some(CoordinatorTransmit { lane, len, .. }) = coordinator.poll_transmit(now, &mut buf) {
//!         member.handle_datagram(now, lane, &buf[..len]);
//!     }
//!     while let Some(event) = member.poll_event() {
//!         match event {
//!             // 4. then what there is to tell,
//!             MemberEvent::Ready(session) => break 'joined session,
//!             MemberEvent::Ended(reason) => panic!("{reason:?}"),
//!             _ => {}
//!         }
//!     }
//!     // 5. and then time passes.
//!     now = member.poll_timeout().into_iter().chain(coordinator.poll_timeout()).min().ok_or("over")?;
//! };
//! assert_eq!(session.layout.window(), Window::DEFAULT);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod coordinator;
mod datagram;
mod member;
mod pace;

use core::fmt;
use core::time::Duration;

pub use crate::phase::PhaseStatus;
pub use coordinator::{
    Audience, ControlCounters, Coordinator, CoordinatorConfig, CoordinatorDatagram, CoordinatorEvent,
    CoordinatorStorage, CoordinatorTransmit, DataPlane, InstallRefused, JobEntry, MemberEntry, PortEntry,
    SessionEnd, SessionPlan, SessionState, SessionView,
};
pub use datagram::ControlDatagram;
pub use member::{
    EndReason, Member, MemberConfig, MemberDatagram, MemberEvent, MemberTransmit, SessionParams, SizedMember,
};

use crate::ids::{LaneCount, Rank, WorldSize};
use crate::wire::ControlError;

/// What a machine made of a datagram. Nothing that the network brings is an error: it is told, counted, and dropped.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum Heard {
    /// A message for this machine, now or before: it was acted upon, or answered, or both.
    Accepted,
    /// A message for another process, job or session, or from an address that may not send it.
    Foreign,
    /// A message of this machine's past: a duplicate, or one that came too late.
    Stale,
    /// No control message.
    Malformed(ControlError),
}

/// A configuration that cannot work.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum InvalidConfig {
    /// The rank is not below the world size.
    RankOutsideWorld {
        /// Rank asked for.
        rank: Rank,
        /// World size asked for.
        world_size: WorldSize,
    },
    /// The job has more lanes than the machine has room for.
    Lanes {
        /// Lanes of the job.
        lanes: LaneCount,
        /// Lanes that there is room for.
        room: usize,
    },
    /// A lane of the aggregator must have 1 to 16,384 slots.
    Slots {
        /// Slots asked for.
        slots: u16,
    },
    /// The lease is not from 20 milliseconds to a day.
    Lease {
        /// Lease asked for.
        lease: Duration,
    },
    /// More job entries than 65,535 cannot be told apart.
    Jobs {
        /// Entries lent.
        jobs: usize,
    },
}

impl fmt::Display for InvalidConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::RankOutsideWorld { rank, world_size } => {
                write!(f, "rank {rank} is not below the world size {world_size}")
            }
            Self::Lanes { lanes, room } => write!(f, "a job of {} lanes, and room for {room}", lanes.get()),
            Self::Slots { slots } => write!(f, "{slots} slots in a lane are not from 1 to 16384"),
            Self::Lease { lease } => write!(f, "a lease of {lease:?} is not from 20 ms to a day"),
            Self::Jobs { jobs } => write!(f, "{jobs} job entries are more than 65535"),
        }
    }
}

impl core::error::Error for InvalidConfig {}
