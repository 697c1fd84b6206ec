//! How a worker's calls and its session fail.

use core::fmt;

use switchml_proto::control::EndReason;
use switchml_proto::wire::{AbortReason, RejectReason};
use switchml_proto::{LaneId, Rank, WorkerSet};

/// Why a worker cannot do what it was asked for.
///
/// All but [`NotReady`](Self::NotReady) and [`TooLong`](Self::TooLong) mean that the session is over: later calls say the
/// same. The tensor of a collective that was open then holds some reduced and some original chunks.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum WorkerError {
    /// The session is not ready yet. Nothing has changed.
    NotReady,
    /// The collective has 2^29 chunks or more for a lane, which may be too many packets (W-3). Nothing has changed.
    TooLong,
    /// The aggregator refused the join (C-1).
    Rejected(RejectReason),
    /// The aggregator gave no answer within the connect timeout.
    AggregatorSilent {
        /// The first lane that had none.
        lane: LaneId,
    },
    /// The aggregator answered short joins, but none as long as a data packet: somewhere on the path it does not fit
    /// (W-11).
    PathTooSmall {
        /// The first such lane.
        lane: LaneId,
    },
    /// Other ranks did not join within the join timeout.
    JoinTimeout {
        /// Which ones.
        missing: WorkerSet,
    },
    /// The session was aborted by another member, or by the aggregator.
    Aborted {
        /// Why.
        reason: AbortReason,
        /// The rank that caused it, if one did.
        culprit: Option<Rank>,
    },
    /// The aggregator gave no answer for a whole lease.
    AggregatorLost,
    /// The members called different collectives (D-1).
    CollectivesDiffer,
    /// No result came for the stall time (T-8).
    Stalled {
        /// Who was missing when the aggregator was last asked; empty if it never told.
        missing: WorkerSet,
    },
    /// This rank's application gave up a collective before its end, or aborted the session.
    Cancelled,
    /// This rank has left the session.
    Left,
}

impl WorkerError {
    pub(crate) const fn of_end(reason: EndReason) -> Self {
        match reason {
            EndReason::Rejected(reason) => Self::Rejected(reason),
            EndReason::AggregatorSilent { lane } => Self::AggregatorSilent { lane },
            EndReason::PathTooSmall { lane } => Self::PathTooSmall { lane },
            EndReason::JoinTimeout { missing } => Self::JoinTimeout { missing },
            EndReason::Aborted { reason: AbortReason::CollectivesDiffer, .. } => Self::CollectivesDiffer,
            EndReason::Aborted { reason, culprit } => Self::Aborted { reason, culprit },
            // The last reason, and any that comes later.
            _ => Self::AggregatorLost,
        }
    }
}

impl fmt::Display for WorkerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::NotReady => f.write_str("the session is not ready yet"),
            Self::TooLong => f.write_str("a collective of 2^29 or more chunks in a lane"),
            Self::Rejected(reason) => write!(f, "the aggregator refused the join: {reason}"),
            Self::AggregatorSilent { lane } => {
                write!(
                    f,
                    "the aggregator's port of lane {lane} gives no answer: look at its address, and that it runs"
                )
            }
            Self::PathTooSmall { lane } => {
                write!(
                    f,
                    "no datagram as long as a data packet comes through in lane {lane}: take a smaller chunk"
                )
            }
            Self::JoinTimeout { missing } => {
                write!(f, "other ranks did not join in time: {missing}")
            }
            Self::Aborted { reason, culprit: Some(rank) } => {
                write!(f, "session aborted because of rank {rank}: {reason}")
            }
            Self::Aborted { reason, culprit: None } => write!(f, "session aborted: {reason}"),
            Self::AggregatorLost => f.write_str("the aggregator does not answer any more"),
            Self::CollectivesDiffer => {
                f.write_str("collectives differ: the members did not call the same one")
            }
            Self::Stalled { missing } if missing.is_empty() => f.write_str("no result within the stall time"),
            Self::Stalled { missing } => {
                write!(f, "no result within the stall time; missing: {missing}")
            }
            Self::Cancelled => f.write_str("this rank gave up a collective"),
            Self::Left => f.write_str("this rank has left the session"),
        }
    }
}

impl core::error::Error for WorkerError {}
