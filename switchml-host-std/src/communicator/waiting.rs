//! What a communicator waits for, in words.

use core::fmt;
use core::net::SocketAddr;
use core::time::Duration;

use switchml_proto::wire::{PhaseState, STATUS_AGE_UNKNOWN, StatusReport};
use switchml_proto::{Rank, WorkerSet, WorldSize};

use super::error::{Phase, Ranks};

/// What has been waited for, and how long. Its `Display` is a line for a person.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Waiting {
    /// What for.
    pub what: WaitingFor,
    /// How long.
    pub waited: Duration,
}

/// What a communicator waits for.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum WaitingFor {
    /// An answer of the aggregator to the first join.
    Aggregator {
        /// Its address.
        address: SocketAddr,
    },
    /// Other ranks, which have not joined.
    Join {
        /// Which ones.
        missing: WorkerSet,
        /// The number of ranks.
        world_size: WorldSize,
    },
    /// A result.
    Result {
        /// Which one.
        phase: Phase,
        /// Who has not sent its part, and how long ago each of these was heard, if ever. None if the aggregator has
        /// no packet of it or has not told, empty if it says that all have.
        missing: Option<Vec<(Rank, Option<Duration>)>>,
    },
}

impl WaitingFor {
    /// A wait for the result of `phase`, in whose lane `report` told `age` ago.
    pub(super) fn result(phase: Phase, report: Option<(StatusReport, Duration)>) -> Self {
        let about_it = |report: &StatusReport| report.seq == phase.seq && report.phase != PhaseState::Unknown;
        let report = report.filter(|(report, _)| about_it(report));
        let missing = report.map(|(report, age)| {
            let heard = |rank: Rank| match report.ages_millis[rank.index()] {
                STATUS_AGE_UNKNOWN => None,
                millis => Some(Duration::from_millis(millis.into()) + age),
            };
            report.missing.iter().map(|rank| (rank, heard(rank))).collect()
        });
        Self::Result { phase, missing }
    }
}

/// `waiting for rank 3 (of 4): not joined yet, 12 s`
impl fmt::Display for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.waited.as_secs();
        match &self.what {
            WaitingFor::Aggregator { address } => {
                write!(f, "waiting for an answer of the aggregator at {address}, {seconds} s")
            }
            WaitingFor::Join { missing, world_size } => {
                write!(f, "waiting for {} (of {world_size}): not joined yet, {seconds} s", Ranks(*missing))
            }
            WaitingFor::Result { phase, missing: None } => {
                write!(
                    f,
                    "waiting for a result in {phase}, for {seconds} s; the aggregator has no packet of it, or has not answered"
                )
            }
            WaitingFor::Result { phase, missing: Some(missing) } if missing.is_empty() => {
                write!(f, "waiting for a result in {phase}, for {seconds} s; all ranks have sent their part")
            }
            WaitingFor::Result { phase, missing: Some(missing) } => {
                let ranks = missing.iter().fold(WorkerSet::EMPTY, |set, (rank, _)| set.with(*rank));
                write!(f, "waiting for {} in {phase}, for {seconds} s", Ranks(ranks))?;
                for (rank, heard) in missing {
                    match heard {
                        Some(age) => write!(f, "; rank {rank} last heard {:.1} s ago", age.as_secs_f64())?,
                        None => write!(f, "; rank {rank} not heard for a minute or more")?,
                    }
                }
                Ok(())
            }
        }
    }
}
