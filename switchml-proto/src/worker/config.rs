//! What a worker is told when it is made.

use core::fmt;
use core::time::Duration;

use crate::ids::{JobId, LaneCount, LaneId, LaneLayout, Seq};
use crate::rtt::RtoConfig;

/// The parameters of one lane of one rank, as the session's welcome told them, and the timers.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub struct Config {
    /// The session's number.
    pub job: JobId,
    /// Slots and chunk size.
    pub layout: LaneLayout,
    /// The session's first seq, a multiple of 2W.
    pub initial_seq: Seq,
    /// Which lane this is.
    pub lane: LaneId,
    /// How many lanes the job has: they share a tensor's chunks (T-1).
    pub lanes: LaneCount,
    /// Bounds of the retransmission timeout (T-6).
    pub rto: RtoConfig,
    /// Reordering allowance (T-9): how much later than a packet another one must have been sent for its result to tell
    /// that the first is lost. At least this, and at least a quarter of the smoothed round trip time.
    pub reordering: Duration,
    /// How long a packet may stay unanswered, and no result arrive, before all fails (T-8).
    pub stall_time: Duration,
}

impl Config {
    /// Default of [`reordering`](Self::reordering): 50 µs.
    pub const REORDERING: Duration = Duration::from_micros(50);

    /// Default of [`stall_time`](Self::stall_time): 10 min.
    pub const STALL_TIME: Duration = Duration::from_secs(600);

    /// A lane of a session, with the default timers.
    #[must_use]
    pub const fn new(
        job: JobId,
        layout: LaneLayout,
        initial_seq: Seq,
        lane: LaneId,
        lanes: LaneCount,
    ) -> Self {
        Self {
            job,
            layout,
            initial_seq,
            lane,
            lanes,
            rto: RtoConfig::DEFAULT,
            reordering: Self::REORDERING,
            stall_time: Self::STALL_TIME,
        }
    }
}

/// Parameters that no worker can have.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum ConfigError {
    /// The storage is not one slot for each of the window's.
    Slots {
        /// The window.
        expected: usize,
        /// Slots lent.
        got: usize,
    },
    /// The initial seq is not a multiple of 2W.
    InitialSeq {
        /// The seq.
        initial_seq: Seq,
    },
    /// The lane is not one of the job's.
    Lane {
        /// The lane.
        lane: LaneId,
        /// Lanes of the job.
        lanes: LaneCount,
    },
    /// The floor of the retransmission timeout is zero, or above its ceiling.
    Rto,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Slots { expected, got } => write!(f, "storage of {got} slots for a window of {expected}"),
            Self::InitialSeq { initial_seq } => {
                write!(f, "initial seq {initial_seq} is not a multiple of twice the window")
            }
            Self::Lane { lane, lanes } => write!(f, "lane {lane} of a job of {} lanes", lanes.get()),
            Self::Rto => f.write_str("the floor of the retransmission timeout is zero, or above its ceiling"),
        }
    }
}

impl core::error::Error for ConfigError {}
