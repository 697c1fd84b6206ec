//! How a run went.

use core::fmt;
use std::io::Write;

use switchml_proto::worker::{Failure, Stats, Transmit, Worker};
use switchml_proto::{Instant, LaneId};

use crate::network::pcap::Capture;
use crate::network::{Sink, Tally};
use crate::record::Verdict;

/// Sees what happens in a run, besides every datagram. By default it sees nothing.
pub trait Watch: Sink {
    /// A lane of a worker sends a packet.
    fn transmit(&mut self, _at: Instant, _rank: usize, _lane: usize, _packet: &Transmit) {}

    /// A lane of a worker has dealt with a datagram, or with a timer, and sent what was due.
    fn worker(&mut self, _at: Instant, _rank: usize, _lane: usize, _worker: &Worker<'_>) {}
}

impl Watch for () {}

impl<W: Write> Watch for Capture<W> {}

/// A run that came to its end: every collective finished, on every lane of every rank.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Outcome {
    /// When the last lane finished its last collective.
    pub end: Instant,
    /// By rank, then by lane.
    pub workers: Vec<Vec<Stats>>,
    /// What the aggregator decided, over all lanes.
    pub verdicts: Verdicts,
    /// What the network did.
    pub network: Tally,
    /// Datagrams that found a receive buffer full.
    pub overruns: u64,
    /// What happened: datagrams arrived, timers ended.
    pub steps: u64,
}

/// An aggregator's decisions, counted.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct Verdicts {
    /// A contribution, and others are missing.
    pub consume: u64,
    /// The last contribution of its phase.
    pub multicast: u64,
    /// A repetition, answered.
    pub unicast: u64,
    /// A repetition, and others are missing: sent in vain.
    pub ignore: u64,
    /// Anything else.
    pub reject: u64,
}

impl Verdicts {
    pub(super) fn count(&mut self, verdict: Verdict) {
        *match verdict {
            Verdict::Consume => &mut self.consume,
            Verdict::Multicast => &mut self.multicast,
            Verdict::Unicast => &mut self.unicast,
            Verdict::Ignore => &mut self.ignore,
            Verdict::Reject => &mut self.reject,
        } += 1;
    }
}

impl Outcome {
    /// The counters of all lanes of all ranks, summed.
    #[must_use]
    pub fn sum(&self, counter: impl Fn(&Stats) -> u64) -> u64 {
        self.workers.iter().flatten().map(counter).sum()
    }
}

/// A run that broke a promise. It names the seed, from which it can be run again.
#[derive(Clone, Debug, PartialEq)]
#[allow(clippy::exhaustive_structs, reason = "there is no more to say")]
pub struct Broken {
    /// The scenario's seed.
    pub seed: u64,
    /// When.
    pub at: Instant,
    /// What happened.
    pub how: How,
}

/// Which promise.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum How {
    /// A collective failed, without any fault that may end one.
    Failed {
        /// On which rank.
        rank: usize,
        /// On which of its lanes.
        lane: LaneId,
        /// As the worker said.
        failure: Failure,
    },
    /// A worker asks to be called at a time that has come, again and again.
    Spinning {
        /// Which rank.
        rank: usize,
        /// Which of its lanes.
        lane: LaneId,
    },
    /// Nothing will happen any more, and some collective is not finished (I-3).
    Stuck,
    /// The scenario's deadline has passed.
    Late,
    /// More happened than the scenario allows.
    Endless,
    /// The job cannot be set up as the scenario says.
    Scenario(String),
    /// A rank does not hold what the oracle says.
    Wrong {
        /// Which rank.
        rank: usize,
        /// The collective's number.
        collective: usize,
        /// Elements that differ.
        elements: usize,
    },
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, at, how } = self;
        write!(f, "seed {seed}: after {} ns ", at.as_nanos())?;
        match how {
            How::Failed { rank, lane, failure } => write!(f, "lane {lane} of rank {rank} failed: {failure}"),
            How::Spinning { rank, lane } => {
                write!(f, "lane {lane} of rank {rank} asks for the same time for ever")
            }
            How::Stuck => f.write_str("nothing is under way, and no timer runs"),
            How::Late => f.write_str("the run is not over"),
            How::Endless => f.write_str("too much has happened"),
            How::Scenario(why) => write!(f, "there is no such job: {why}"),
            How::Wrong { rank, collective, elements } => {
                write!(f, "rank {rank} holds {elements} wrong elements of collective {collective}")
            }
        }
    }
}

impl core::error::Error for Broken {}
