//! How collectives end, and what a worker can tell of itself.

use core::fmt;

use super::collective::CollectiveId;
use crate::ids::{Rank, Seq};
use crate::time::Instant;
use crate::wire::AbortReason;

/// News of a collective.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum Event {
    /// All results of this lane have been accepted.
    Finished(CollectiveId),
    /// It will not finish: its tensor holds some reduced and some original chunks.
    Failed {
        /// Which collective.
        collective: CollectiveId,
        /// Why.
        failure: Failure,
    },
}

/// Why a worker failed. It ends the session for this lane: every open collective fails with it, and no other can start.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum Failure {
    /// The members called different collectives (D-1).
    CollectivesDiffer {
        /// The packet whose result told it.
        seq: Seq,
    },
    /// No result came for the stall time, though packets were under way (T-8). The aggregator knows who is missing (C-4).
    Stalled {
        /// The oldest packet without a result.
        seq: Seq,
    },
    /// The session was aborted.
    Aborted {
        /// Why.
        reason: AbortReason,
        /// The rank that caused it, where one did.
        culprit: Option<Rank>,
    },
    /// The aggregator does not answer any more.
    AggregatorLost,
    /// This rank has left the session.
    Left,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::CollectivesDiffer { seq } => {
                write!(f, "collectives differ: the members did not call the same one (packet {seq})")
            }
            Self::Stalled { seq } => write!(f, "no result within the stall time: packet {seq} has none"),
            Self::Aborted { reason, culprit: Some(rank) } => {
                write!(f, "session aborted because of rank {rank}: {reason}")
            }
            Self::Aborted { reason, culprit: None } => write!(f, "session aborted: {reason}"),
            Self::AggregatorLost => f.write_str("the aggregator does not answer any more"),
            Self::Left => f.write_str("this rank has left the session"),
        }
    }
}

impl core::error::Error for Failure {}

/// Why a collective did not start. Nothing was changed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum StartError {
    /// Two are open, or the one before has packets that were never sent (T-3a), or
    /// [`Worker::poll_event`](super::Worker::poll_event) has not yet told an end. Drive the worker on, and try again.
    Busy,
    /// It takes 2^30 packets or more in this lane (W-3).
    TooLong,
    /// So many packets were started within the last minutes that a seq could meet an old one of its number (W-3).
    SequenceSpace {
        /// When to try again.
        retry_at: Instant,
    },
    /// The worker has failed before.
    Failed(Failure),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Busy => f.write_str("the lane has no place for another collective yet"),
            Self::TooLong => f.write_str("a collective of 2^30 or more packets in a lane"),
            Self::SequenceSpace { .. } => {
                f.write_str("the lane's packet numbers would come round too soon: try again later")
            }
            Self::Failed(_) => f.write_str("the lane has failed before"),
        }
    }
}

impl core::error::Error for StartError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Failed(failure) => Some(failure),
            Self::Busy | Self::TooLong | Self::SequenceSpace { .. } => None,
        }
    }
}

/// What a worker waits for: the packet to ask the aggregator about (C-4).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub struct Waiting {
    /// The oldest packet that was sent and has no result.
    pub seq: Seq,
    /// When the last result was accepted, or the first of the packets under way was sent, whichever is later.
    pub since: Instant,
    /// Whose packet it is.
    pub collective: CollectiveId,
}

/// What a worker has done since it was made. Counters wrap at 2^64, which no worker reaches.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub struct Stats {
    /// Packets sent for the first time.
    pub sent: u64,
    /// Packets sent again because their deadline had passed (T-6).
    pub timeouts: u64,
    /// Packets sent again because later ones were answered (T-9).
    pub overtaken: u64,
    /// Times that the retransmission timeout passed.
    pub expiries: u64,
    /// Results accepted.
    pub accepted: u64,
    /// Results of a packet that has one already.
    pub duplicates: u64,
    /// Older results, and any after a failure.
    pub stale: u64,
    /// Datagrams from another job, or for packets not sent.
    pub foreign: u64,
    /// Datagrams that are no results.
    pub malformed: u64,
}
