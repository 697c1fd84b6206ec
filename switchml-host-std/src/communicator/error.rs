//! What can go wrong, as the caller sees it.

use core::fmt;
use core::net::SocketAddr;
use core::time::Duration;
use std::io;
use std::sync::Arc;

use switchml_proto::control::InvalidConfig;
use switchml_proto::wire::{AbortReason, RejectReason};
use switchml_proto::worker::{CollectiveId, InvalidCollective};
use switchml_proto::{ChunkSize, InvalidId, LaneId, Rank, Seq, WorkerSet, WorldSize};

use crate::cpus::CannotPlace;

/// Why a call failed.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Error {
    /// The builder was not told something that has no default.
    NotGiven {
        /// The builder's method that tells it.
        what: &'static str,
    },
    /// A number is out of its range: world size, rank, lanes, chunk size, window.
    Invalid(InvalidId),
    /// The rank does not exist in a world of this size.
    RankOutsideWorld(InvalidConfig),
    /// A job's name has 1 to 64 octets.
    JobName {
        /// The name given.
        name: String,
    },
    /// A timer's bounds contradict each other, or are zero.
    Timers,
    /// The aggregator's address cannot be resolved, or has no room for the lanes' ports.
    Address {
        /// As it was given.
        address: String,
        /// The system's reason.
        source: Arc<io::Error>,
    },
    /// The system refused something.
    Io {
        /// What was tried.
        doing: &'static str,
        /// The system's reason.
        source: Arc<io::Error>,
    },
    /// The thread of a lane cannot be placed on the processor that it was to have.
    CannotPlace(Arc<CannotPlace>),
    /// Nobody answered at the aggregator's address within the connect timeout.
    AggregatorSilent {
        /// The address of the lane that got no answer.
        address: SocketAddr,
        /// The connect timeout.
        after: Duration,
    },
    /// The aggregator refused this rank.
    Rejected {
        /// The aggregator.
        address: SocketAddr,
        /// Its reason.
        reason: RejectReason,
    },
    /// The other ranks did not join within the join timeout.
    JoinTimeout {
        /// Who did not.
        missing: WorkerSet,
        /// The join timeout.
        after: Duration,
    },
    /// A data packet with such a chunk does not fit the path to the aggregator in one piece (W-11).
    PathTooSmall {
        /// The chunk size asked for.
        chunk: ChunkSize,
        /// The largest that fits, as far as is known.
        largest: Option<ChunkSize>,
    },
    /// Source and destination of an all-reduce have different lengths. Nothing was sent.
    LengthsDiffer {
        /// Elements of the source.
        source: usize,
        /// Elements of the destination.
        destination: usize,
    },
    /// The protocol has no such collective, as the mean of integers. Nothing was sent.
    Collective(InvalidCollective),
    /// The tensor is too long for the sequence numbers of a lane (W-3). Nothing was sent.
    TooLong {
        /// Its elements.
        elements: usize,
        /// The most that this job can reduce in one collective.
        most: u64,
    },
    /// The root of a broadcast is no rank of the job. Nothing was sent.
    RootOutsideWorld {
        /// The root asked for.
        root: usize,
        /// The job's world size.
        world_size: WorldSize,
    },
    /// The session has failed, for all its members. Every later call fails with the same reason, at once.
    Session {
        /// Why.
        failure: SessionFailure,
        /// What the failed call has done to the tensor.
        tensor: TensorState,
    },
}

/// Why a session has ended before its members left it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum SessionFailure {
    /// A rank gave no sign of life for a lease: it died, was stopped, or cannot reach the aggregator.
    RankLost {
        /// The rank.
        rank: Rank,
    },
    /// A rank left, or called fewer collectives than the others.
    RankLeft {
        /// The rank.
        rank: Rank,
    },
    /// The ranks called different collectives, or the same one with another length, type, operation, factor, root
    /// or tag (D-1).
    CollectivesDiffer {
        /// Where this rank saw it; none if another rank saw it first.
        phase: Option<Phase>,
    },
    /// A collective made no progress for the stall time (T-8).
    Stalled {
        /// Where this rank saw it; none if another rank saw it first.
        phase: Option<Phase>,
        /// Who was missing, as far as the aggregator told.
        missing: WorkerSet,
    },
    /// A rank gave up, as its application told it to, or because that panicked.
    Cancelled {
        /// The rank, if it was told.
        rank: Option<Rank>,
    },
    /// The aggregator gave no answer for a lease.
    AggregatorLost {
        /// Its address.
        address: SocketAddr,
        /// The lease.
        after: Duration,
    },
    /// The aggregator does not know the session: it was restarted, or has ended the session while this rank was away.
    AggregatorRestarted {
        /// Its address.
        address: SocketAddr,
    },
    /// The aggregator was stopped.
    AggregatorStopped,
    /// The aggregator's operator ended the job.
    Evicted,
    /// The session was aborted for another reason.
    Aborted {
        /// The reason.
        reason: AbortReason,
        /// The rank that caused it, if one did.
        rank: Option<Rank>,
    },
    /// This rank's data packets no longer fit the path to the aggregator in one piece (W-11).
    PathTooSmall {
        /// The session's chunk size.
        chunk: ChunkSize,
        /// The largest that fits, as far as is known.
        largest: Option<ChunkSize>,
    },
    /// A socket of this rank failed.
    Io(Arc<io::Error>),
    /// A lane's thread panicked: a fault of this library, or of the callback that tells what is waited for.
    LanePanicked {
        /// The lane.
        lane: LaneId,
    },
}

/// One packet's worth of a collective: where something was seen.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Phase {
    /// Number of the collective in its session, from 0.
    pub collective: CollectiveId,
    /// The lane.
    pub lane: LaneId,
    /// The packet's number in the lane.
    pub seq: Seq,
}

/// What a failed call has left of the caller's tensor.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum TensorState {
    /// As the caller gave it.
    Untouched,
    /// Some chunks hold results, the others what the caller gave.
    Mixed,
}

impl Error {
    pub(super) fn io(doing: &'static str, source: io::Error) -> Self {
        Self::Io { doing, source: Arc::new(source) }
    }

    /// Why the session has failed, if it has.
    #[must_use]
    pub const fn session_failure(&self) -> Option<&SessionFailure> {
        match self {
            Self::Session { failure, .. } => Some(failure),
            _ => None,
        }
    }
}

impl SessionFailure {
    /// What an abort means, whoever sent it.
    pub(super) fn aborted(reason: AbortReason, culprit: Option<Rank>, address: SocketAddr) -> Self {
        match (reason, culprit) {
            (AbortReason::LeaseExpired, Some(rank)) => Self::RankLost { rank },
            (AbortReason::Left, Some(rank)) => Self::RankLeft { rank },
            (AbortReason::CollectivesDiffer, _) => Self::CollectivesDiffer { phase: None },
            (AbortReason::Stalled, culprit) => {
                let missing = culprit.map_or(WorkerSet::EMPTY, |rank| WorkerSet::EMPTY.with(rank));
                Self::Stalled { phase: None, missing }
            }
            (AbortReason::Cancelled, rank) => Self::Cancelled { rank },
            (AbortReason::UnknownSession, _) => Self::AggregatorRestarted { address },
            (AbortReason::Evicted, _) => Self::Evicted,
            (AbortReason::Shutdown, _) => Self::AggregatorStopped,
            (reason, rank) => Self::Aborted { reason, rank },
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotGiven { what } => write!(f, "no {what} was given: call the builder's `{what}`"),
            Self::Invalid(invalid) => fmt::Display::fmt(invalid, f),
            Self::RankOutsideWorld(invalid) => fmt::Display::fmt(invalid, f),
            Self::JobName { name } => {
                write!(f, "a job's name has 1 to 64 octets, and {:?} has {}", name, name.len())
            }
            Self::Timers => {
                f.write_str("a time is zero, or the floor of the retransmission timeout is above its ceiling")
            }
            Self::Address { address, source } => {
                write!(f, "cannot use {address} as the aggregator's address: {source}; give host:port")
            }
            Self::Io { doing, source } => write!(f, "{doing}: {source}"),
            Self::CannotPlace(error) => error.fmt(f),
            Self::AggregatorSilent { address, after } => write!(
                f,
                "no answer from the aggregator at {address} within {after:?}: is the switch running there, \
                 and does a firewall let UDP through?"
            ),
            Self::Rejected { address, reason } => {
                write!(f, "the aggregator at {address} refused to let this rank join: {reason}")
            }
            Self::JoinTimeout { missing, after } => {
                write!(f, "{} did not join within {after:?}: start all ranks", Ranks(*missing))
            }
            Self::PathTooSmall { chunk, largest } => too_small(f, *chunk, *largest),
            Self::LengthsDiffer { source, destination } => write!(
                f,
                "the source has {source} elements, and the destination {destination}: they must be as long"
            ),
            Self::Collective(invalid) => fmt::Display::fmt(invalid, f),
            Self::TooLong { elements, most } => write!(
                f,
                "{elements} elements are too many for one collective: reduce at most {most} at a time"
            ),
            Self::RootOutsideWorld { root, world_size } => {
                write!(f, "the broadcast's root is rank {root}, and the job has {world_size} ranks")
            }
            Self::Session { failure, tensor } => {
                fmt::Display::fmt(failure, f)?;
                match tensor {
                    TensorState::Untouched => Ok(()),
                    TensorState::Mixed => {
                        f.write_str("; the tensor holds some reduced and some original chunks")
                    }
                }
            }
        }
    }
}

impl fmt::Display for SessionFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RankLost { rank } => write!(
                f,
                "rank {rank} was lost: it died, was stopped, or cannot reach the aggregator; start the job again"
            ),
            Self::RankLeft { rank } => write!(
                f,
                "rank {rank} left while others needed it: all ranks must call the same number of collectives"
            ),
            Self::CollectivesDiffer { phase } => {
                f.write_str("collectives differ")?;
                if let Some(phase) = phase {
                    write!(f, " in {phase}")?;
                }
                f.write_str(
                    ": all ranks must call the same ones in the same order, with the same length, element type, \
                     operation, scaling factor, root and tag",
                )
            }
            Self::Stalled { phase, missing } => {
                f.write_str("no progress within the stall time")?;
                if let Some(phase) = phase {
                    write!(f, " in {phase}")?;
                }
                if missing.is_empty() { Ok(()) } else { write!(f, ": {} missing", Ranks(*missing)) }
            }
            Self::Cancelled { rank: Some(rank) } => write!(f, "rank {rank} gave up: see its own messages"),
            Self::Cancelled { rank: None } => f.write_str("a rank gave up: see the ranks' own messages"),
            Self::AggregatorLost { address, after } => write!(
                f,
                "the aggregator at {address} has not answered for {after:?}: it died, or cannot be reached any more, or \
                 this process was stopped for so long"
            ),
            Self::AggregatorRestarted { address } => write!(
                f,
                "the aggregator at {address} does not know this session: it was restarted, or has given this rank \
                 up; start the job again"
            ),
            Self::AggregatorStopped => f.write_str("the aggregator was stopped"),
            Self::Evicted => f.write_str("the aggregator's operator ended the job"),
            Self::Aborted { reason, rank: Some(rank) } => {
                write!(f, "session aborted because of rank {rank}: {reason}")
            }
            Self::Aborted { reason, rank: None } => write!(f, "session aborted: {reason}"),
            Self::PathTooSmall { chunk, largest } => too_small(f, *chunk, *largest),
            Self::Io(source) => write!(f, "this rank's socket failed: {source}"),
            Self::LanePanicked { lane } => write!(f, "the thread of lane {lane} panicked"),
        }
    }
}

fn too_small(f: &mut fmt::Formatter<'_>, chunk: ChunkSize, largest: Option<ChunkSize>) -> fmt::Result {
    write!(
        f,
        "a chunk of {} elements does not fit the path to the aggregator in one piece: use ",
        chunk.elements()
    )?;
    match largest {
        Some(largest) => write!(f, "at most {}", largest.elements()),
        None => f.write_str("a smaller one"),
    }
}

/// `collective 3 (lane 0, seq 1234)`.
impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "collective {} (lane {}, seq {})", self.collective, self.lane, self.seq)
    }
}

/// `rank 3`, `ranks 2, 3`.
pub(super) struct Ranks(pub(super) WorkerSet);

impl fmt::Display for Ranks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", if self.0.len() == 1 { "rank" } else { "ranks" }, self.0)
    }
}

/// The message has the cause in it: as a `source` too, it would stand twice where a chain of errors is printed.
impl core::error::Error for Error {}

/// As for [`Error`].
impl core::error::Error for SessionFailure {}

impl From<InvalidId> for Error {
    fn from(invalid: InvalidId) -> Self {
        Self::Invalid(invalid)
    }
}

impl From<InvalidCollective> for Error {
    fn from(invalid: InvalidCollective) -> Self {
        Self::Collective(invalid)
    }
}
