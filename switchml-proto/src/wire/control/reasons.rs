//! Why a join is refused, and why a session fails (C-1, C-3).

use core::fmt;

use zerocopy::IntoBytes;

use super::{ControlError, unused};
use crate::wire::{PROTOCOL_VERSION, raw};

/// A parameter of a join.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
#[repr(u8)]
pub enum Field {
    /// Number of workers.
    WorldSize = 1,
    /// Number of lanes.
    Lanes = 2,
    /// Elements of a packet.
    ChunkSize = 3,
    /// Slots of a lane.
    Window = 4,
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::WorldSize => "world size",
            Self::Lanes => "number of lanes",
            Self::ChunkSize => "chunk size",
            Self::Window => "window",
        })
    }
}

/// Why a join is refused (C-1).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum RejectReason {
    /// The aggregator speaks another version of the protocol.
    ProtocolVersion {
        /// The one it speaks.
        version: u8,
    },
    /// Another parameter than the job was created with.
    Disagrees {
        /// Which one.
        field: Field,
        /// The job's value, in elements, slots, lanes or workers.
        job_value: u32,
    },
    /// Another process joined with this rank.
    RankTaken,
    /// Too few slots are free for the job.
    NoFreeSlots {
        /// The most slots that a lane could get now.
        largest: u32,
    },
    /// No further job fits in the aggregator's tables.
    TooManyJobs,
    /// No further member fits in the aggregator's tables.
    TooManyMembers,
    /// The aggregator has fewer lanes.
    TooManyLanes {
        /// How many it has.
        lanes: u32,
    },
    /// The aggregator, or the path from it, carries only smaller chunks (W-11).
    ChunkTooLarge {
        /// The most elements that fit; 0 if no chunk does.
        largest: u32,
    },
    /// The join has an option that the aggregator does not know.
    UnknownOption,
    /// The job of that name and run ended a moment ago, or is being ended: try again later.
    Ending,
    /// Another lane or another rank has joined from the same address (W-10).
    AddressTaken,
}

impl RejectReason {
    pub(super) fn to_raw(self) -> raw::Reject {
        let (reason, field, detail) = match self {
            Self::ProtocolVersion { version } => (1, 0, version.into()),
            Self::Disagrees { field, job_value } => (2, field as u8, job_value),
            Self::RankTaken => (3, 0, 0),
            Self::NoFreeSlots { largest } => (4, 0, largest),
            Self::TooManyJobs => (5, 0, 0),
            Self::TooManyMembers => (6, 0, 0),
            Self::TooManyLanes { lanes } => (7, 0, lanes),
            Self::ChunkTooLarge { largest } => (8, 0, largest),
            Self::UnknownOption => (9, 0, 0),
            Self::Ending => (10, 0, 0),
            Self::AddressTaken => (11, 0, 0),
        };
        raw::Reject { reason, field, reserved: 0.into(), detail: detail.into() }
    }

    /// The reason, where what it does not use is 0.
    pub(super) fn from_raw(raw: &raw::Reject) -> Result<Self, ControlError> {
        let detail = raw.detail.get();
        let reason = match raw.reason {
            1 => Self::ProtocolVersion { version: detail.try_into().or(Err(ControlError::Value))? },
            2 => {
                let field = match raw.field {
                    1 => Field::WorldSize,
                    2 => Field::Lanes,
                    3 => Field::ChunkSize,
                    4 => Field::Window,
                    _ => return Err(ControlError::Value),
                };
                Self::Disagrees { field, job_value: detail }
            }
            3 => Self::RankTaken,
            4 => Self::NoFreeSlots { largest: detail },
            5 => Self::TooManyJobs,
            6 => Self::TooManyMembers,
            7 => Self::TooManyLanes { lanes: detail },
            8 => Self::ChunkTooLarge { largest: detail },
            9 => Self::UnknownOption,
            10 => Self::Ending,
            11 => Self::AddressTaken,
            _ => return Err(ControlError::Value),
        };
        if !matches!(reason, Self::Disagrees { .. }) {
            unused(&[raw.field])?;
        }
        if matches!(
            reason,
            Self::RankTaken
                | Self::TooManyJobs
                | Self::TooManyMembers
                | Self::UnknownOption
                | Self::Ending
                | Self::AddressTaken
        ) {
            unused(raw.detail.as_bytes())?;
        }
        Ok(reason)
    }
}

impl fmt::Display for RejectReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::ProtocolVersion { version } => {
                write!(
                    f,
                    "it speaks protocol version {version}, not {PROTOCOL_VERSION}: use programs of one release"
                )
            }
            Self::Disagrees { field, job_value } => {
                write!(f, "the job's {field} is {job_value}: all ranks must give the same")
            }
            Self::RankTaken => f.write_str("this rank is taken by another process: give each its own rank"),
            Self::NoFreeSlots { largest } => {
                write!(
                    f,
                    "no free slots for this window: {largest} can be had now; use a smaller window, or wait for another job to end"
                )
            }
            Self::TooManyJobs => f.write_str("its job table is full: wait for another job to end"),
            Self::TooManyMembers => f.write_str("its member table is full: wait for another job to end"),
            Self::TooManyLanes { lanes } => write!(f, "it has {lanes} lanes: use no more"),
            Self::ChunkTooLarge { largest: 0 } => f.write_str("no chunk fits the path's MTU"),
            Self::ChunkTooLarge { largest } => {
                write!(
                    f,
                    "the chunk is too large for it or for the path's MTU: use at most {largest} elements"
                )
            }
            Self::UnknownOption => {
                f.write_str("the join has an option that it does not know: use programs of one release")
            }
            Self::Ending => f.write_str(
                "a job of this name and run is just ending: try again later, or give another run id",
            ),
            Self::AddressTaken => f.write_str(
                "another lane or rank has joined from this address: give each lane a port of its own",
            ),
        }
    }
}

/// Why a session failed (C-3).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
#[repr(u8)]
pub enum AbortReason {
    /// A member's lease ran out: it died, was stopped, or cannot reach the aggregator.
    LeaseExpired = 1,
    /// A member left while others still needed it.
    Left = 2,
    /// The members called different collectives (D-1).
    CollectivesDiffer = 3,
    /// A collective made no progress for the stall time (T-8).
    Stalled = 4,
    /// A member gave up, as its application told it to.
    Cancelled = 5,
    /// The aggregator knows no such session: it was restarted, or the session ended.
    UnknownSession = 6,
    /// The operator ended the job.
    Evicted = 7,
    /// Not all joined within the join timeout.
    JoinTimeout = 8,
    /// The aggregator stops.
    Shutdown = 9,
}

impl AbortReason {
    pub(super) const fn from_raw(reason: u8) -> Option<Self> {
        Some(match reason {
            1 => Self::LeaseExpired,
            2 => Self::Left,
            3 => Self::CollectivesDiffer,
            4 => Self::Stalled,
            5 => Self::Cancelled,
            6 => Self::UnknownSession,
            7 => Self::Evicted,
            8 => Self::JoinTimeout,
            9 => Self::Shutdown,
            _ => return None,
        })
    }
}

impl fmt::Display for AbortReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::LeaseExpired => "a lease ran out",
            Self::Left => "a member left while others needed it",
            Self::CollectivesDiffer => "collectives differ",
            Self::Stalled => "a collective stalled",
            Self::Cancelled => "a member cancelled",
            Self::UnknownSession => {
                "the aggregator knows no such session: it was restarted, or the session has ended"
            }
            Self::Evicted => "the operator ended the job",
            Self::JoinTimeout => "not all joined in time",
            Self::Shutdown => "the aggregator stops",
        })
    }
}
