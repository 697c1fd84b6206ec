//! Control (section 6): how members join, live and end, as two machines without socket or clock.
//!
//! - [`Member`] is one rank of a job, with all its lanes. Each process that joins drives one.
//! - [`Coordinator`] is the aggregator's side. A software switch, a DPU core and the controller of a P4 switch
//!   all drive the same one (C-6); what holds the slots stands behind [`DataPlane`].

mod coordinator;
mod member;
mod pace;

use core::fmt;
use core::time::Duration;

pub use coordinator::{
    ControlCounters, Coordinator, CoordinatorConfig, CoordinatorEvent, CoordinatorStorage,
    CoordinatorTransmit, DataPlane, InstallRefused, JobEntry, MemberEntry, PhaseStatus, PortEntry,
    SessionEnd, SessionPlan, SessionState, SessionView,
};
pub use member::{EndReason, Member, MemberConfig, MemberEvent, MemberTransmit, SessionParams};

use crate::ids::{Rank, WorldSize};
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
            Self::Slots { slots } => write!(f, "{slots} slots in a lane are not from 1 to 16384"),
            Self::Lease { lease } => write!(f, "a lease of {lease:?} is not from 20 ms to a day"),
            Self::Jobs { jobs } => write!(f, "{jobs} job entries are more than 65535"),
        }
    }
}

impl core::error::Error for InvalidConfig {}
