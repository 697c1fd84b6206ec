//! What one run is about.

use core::ops::Range;
use core::time::Duration;

use switchml_proto::worker::Config;
use switchml_proto::{
    ChunkSize, Instant, InvalidId, JobId, LaneCount, LaneId, LaneLayout, RtoConfig, Seq, Window, WorldSize,
};

use crate::network::Profile;

/// A job on a simulated network. A run follows from it alone, seed included.
#[derive(Clone, Debug)]
#[allow(clippy::exhaustive_structs, reason = "tests and experiments build it")]
pub struct Scenario {
    /// What all random choices follow from.
    pub seed: u64,
    /// Workers.
    pub world_size: WorldSize,
    /// Lanes of each.
    pub lanes: LaneCount,
    /// Slots and chunk size of each lane.
    pub layout: LaneLayout,
    /// s0, a multiple of 2W.
    pub initial_seq: Seq,
    /// The workers' timers.
    pub timers: Timers,
    /// Links.
    pub network: Network,
    /// What a datagram costs a worker's lane.
    pub worker: Host,
    /// What a datagram costs a lane of the aggregator.
    pub aggregator: Host,
    /// How long a rank computes, at most and at random, before it starts its next collective.
    pub think: Duration,
    /// Ranks that do nothing for a while: they neither send nor receive, as a process that is stopped.
    pub stops: Vec<Stop>,
    /// For each datagram to the aggregator, the probability of another one from a stranger, from another job, or of garbage;
    /// and for each to a worker likewise.
    pub strangers: f64,
    /// Timers are looked at with every datagram, and not only when they are due.
    pub spurious_timeouts: bool,
    /// The run has failed if it is not over by then.
    pub deadline: Instant,
    /// The run has failed if more happens than that: a datagram arrives, or a timer ends.
    pub steps: u64,
}

/// The timers of [`Config`] that a scenario may change.
#[derive(Clone, Copy, Debug)]
#[allow(clippy::exhaustive_structs, reason = "experiments build it")]
pub struct Timers {
    /// Bounds of the retransmission timeout (T-6).
    pub rto: RtoConfig,
    /// Reordering allowance (T-9).
    pub reordering: Duration,
    /// T-8.
    pub stall_time: Duration,
}

/// Links between the workers and the aggregator. All lanes of a rank share its link.
#[derive(Clone, Copy, Debug)]
#[allow(clippy::exhaustive_structs, reason = "tests and experiments build it")]
pub struct Network {
    /// From each worker to the switch.
    pub up: Profile,
    /// From the switch to each worker.
    pub down: Profile,
    /// Where the aggregator is.
    pub aggregator: Place,
}

/// Where the aggregator is.
#[derive(Clone, Copy, Debug)]
#[allow(clippy::exhaustive_enums, reason = "there are no other places")]
#[allow(clippy::large_enum_variant, reason = "a run has one")]
pub enum Place {
    /// In the switch: every worker has a port of its own, and a result is sent at once on all of them.
    Switch,
    /// On a server behind one more link, which all packets share; it sends a result to one worker after the other.
    Server {
        /// From the switch to the server.
        to: Profile,
        /// From the server to the switch.
        from: Profile,
    },
}

/// What a datagram that is sent or received costs a thread: time in which it does nothing else.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(clippy::exhaustive_structs, reason = "tests and experiments build it")]
pub struct Host {
    /// Nanoseconds for each datagram.
    pub packet_nanos: f64,
    /// Nanoseconds for each octet of payload.
    pub octet_nanos: f64,
    /// Octets of payload that may wait to be received; what comes beyond is lost.
    pub receive_buffer: usize,
}

/// A rank that does nothing for a while.
#[derive(Clone, Debug)]
#[allow(clippy::exhaustive_structs, reason = "tests and experiments build it")]
pub struct Stop {
    /// Which one.
    pub rank: usize,
    /// When.
    pub time: Range<Instant>,
}

/// The number of the job that is simulated.
pub const JOB: JobId = JobId(5);

impl Host {
    /// Takes no time, and has room for everything.
    pub const FREE: Self = Self { packet_nanos: 0.0, octet_nanos: 0.0, receive_buffer: usize::MAX };

    /// The time that a datagram of `octets` costs.
    #[must_use]
    pub fn cost(&self, octets: usize) -> Duration {
        Duration::from_nanos((self.packet_nanos + self.octet_nanos * octets as f64) as u64)
    }
}

impl Scenario {
    /// `workers` workers with `lanes` lanes of `window` slots for `k` elements each, with the default timers, on hosts that
    /// take no time, at the ends of links that need 10 µs each way and do nothing else.
    ///
    /// # Errors
    /// [`InvalidId`] if a number is none that a job can have.
    pub fn new(seed: u64, workers: usize, lanes: usize, window: usize, k: usize) -> Result<Self, InvalidId> {
        let layout = LaneLayout::new(0, Window::new(window)?, ChunkSize::from_elements(k)?)?;
        let lanes = LaneCount::new(lanes)?;
        let link = Profile { delay: Duration::from_micros(10), ..Profile::PERFECT };
        let Config { rto, reordering, stall_time, .. } =
            Config::new(JOB, layout, Seq(0), LaneId::ZERO, lanes);
        Ok(Self {
            seed,
            world_size: WorldSize::new(workers)?,
            lanes,
            layout,
            initial_seq: Seq(0),
            timers: Timers { rto, reordering, stall_time },
            network: Network { up: link, down: link, aggregator: Place::Switch },
            worker: Host::FREE,
            aggregator: Host::FREE,
            think: Duration::ZERO,
            stops: Vec::new(),
            strangers: 0.0,
            spurious_timeouts: false,
            deadline: Instant::ZERO + Duration::from_secs(3600),
            steps: 1_000_000_000,
        })
    }

    pub(super) fn config(&self, lane: LaneId) -> Config {
        let mut config = Config::new(JOB, self.layout, self.initial_seq, lane, self.lanes);
        let Timers { rto, reordering, stall_time } = self.timers;
        (config.rto, config.reordering, config.stall_time) = (rto, reordering, stall_time);
        config
    }

    /// Until when a rank does nothing, if it does nothing at `now`.
    pub(super) fn stopped_until(&self, rank: usize, now: Instant) -> Option<Instant> {
        let stops = self.stops.iter().filter(|stop| stop.rank == rank && stop.time.contains(&now));
        stops.map(|stop| stop.time.end).max()
    }
}
