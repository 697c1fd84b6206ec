//! Many random schedules, each checked against the oracle.

mod minimal;
mod schedule;

use core::fmt;
use core::num::NonZero;
use core::sync::atomic::{AtomicU64, Ordering};
use std::thread;

pub use minimal::{Delivery, Step, Sum, minimal};
pub use schedule::{FAULTS, PACKETS, Schedule};

use crate::harness::{Broken, How, Outcome, Pool, Watch, check, run};
use crate::network::Tally;
use crate::published::Published;
use crate::tensors::Tensors;

/// What aggregates.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[allow(clippy::exhaustive_enums, reason = "there are these two")]
pub enum Algorithm {
    /// The protocol's aggregator.
    Protocol,
    /// The published algorithm, which looks at the bitmap only.
    Published,
}

/// What came of many schedules.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Totals {
    /// Schedules that were run.
    pub schedules: u64,
    /// Packets that workers sent, each counted once.
    pub packets: u64,
    /// Packets that they sent again.
    pub retransmissions: u64,
    /// What the network did, both ways.
    pub network: Tally,
    /// Schedules in which some rank held a wrong sum, or not all of one.
    pub wrong: u64,
    /// Schedules that broke another promise: that failed, or did not end.
    pub broken: u64,
    /// The first ones of both kinds.
    pub examples: Vec<Broken>,
}

/// How many broken schedules are kept.
const EXAMPLES: usize = 5;

/// Runs one schedule: the one of this seed, with at least [`PACKETS`] packets and [`FAULTS`] faults.
///
/// # Errors
/// [`Broken`] if a promise did not hold. The seed gives the same again.
pub fn once(seed: u64, algorithm: Algorithm, watch: &mut impl Watch) -> Result<Outcome, Broken> {
    let mut severity = 1.0;
    loop {
        let schedule = Schedule::random(seed, severity);
        let outcome = attempt(&schedule, algorithm, watch)?;
        if outcome.network.faults() >= FAULTS {
            return Ok(outcome);
        }
        severity *= 2.0;
    }
}

fn attempt(schedule: &Schedule, algorithm: Algorithm, watch: &mut impl Watch) -> Result<Outcome, Broken> {
    let Schedule { scenario, calls } = schedule;
    let ranks = 0..usize::from(scenario.world_size.get());
    let mut ranks: Vec<_> =
        ranks.map(|rank| Tensors::new(rank, scenario.world_size, calls.clone())).collect();
    let outcome = match algorithm {
        Algorithm::Protocol => {
            let mut pool = Pool::new(scenario);
            let mut planes = pool.planes().map_err(|error| Broken {
                seed: scenario.seed,
                at: switchml_proto::Instant::ZERO,
                how: How::Scenario(error.to_string()),
            })?;
            run(scenario, &mut planes, &mut ranks, watch)?
        }
        Algorithm::Published => {
            let mut planes: Vec<_> = scenario.lanes.lanes().map(|_| Published::new(scenario)).collect();
            run(scenario, &mut planes, &mut ranks, watch)?
        }
    };
    check(scenario, calls, &ranks)?;
    Ok(outcome)
}

/// Runs the schedules of the seeds from `first` on, on all processors.
#[must_use]
pub fn soak(first: u64, schedules: u64, algorithm: Algorithm) -> Totals {
    let next = AtomicU64::new(0);
    let work = || {
        let mut totals = Totals::default();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= schedules {
                return totals;
            }
            totals.take(once(first.wrapping_add(index), algorithm, &mut ()));
        }
    };
    let threads = thread::available_parallelism().map_or(1, NonZero::get);
    thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let mut sum = Totals::default();
        for thread in threads {
            // A schedule that panics ends the soak: the panic is the news.
            sum.add(thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
        sum
    })
}

impl Totals {
    fn take(&mut self, result: Result<Outcome, Broken>) {
        self.schedules += 1;
        match result {
            Ok(outcome) => {
                self.packets += outcome.sum(|stats| stats.sent);
                self.retransmissions += outcome.sum(|stats| stats.timeouts + stats.overtaken);
                self.network += outcome.network;
            }
            Err(broken) => {
                match broken.how {
                    How::Wrong { .. } => self.wrong += 1,
                    _ => self.broken += 1,
                }
                self.keep(broken);
            }
        }
    }

    fn keep(&mut self, broken: Broken) {
        self.examples.push(broken);
        self.examples.sort_by_key(|broken| broken.seed);
        self.examples.truncate(EXAMPLES);
    }

    fn add(&mut self, other: Self) {
        self.schedules += other.schedules;
        self.packets += other.packets;
        self.retransmissions += other.retransmissions;
        self.network += other.network;
        self.wrong += other.wrong;
        self.broken += other.broken;
        other.examples.into_iter().for_each(|broken| self.keep(broken));
    }
}

impl fmt::Display for Totals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { schedules, packets, retransmissions, network, wrong, broken, examples } = self;
        writeln!(f, "schedules             {schedules}")?;
        writeln!(f, "packets of workers    {packets}, and {retransmissions} sent again")?;
        writeln!(f, "datagrams, both ways  {}", network.datagrams)?;
        writeln!(f, "faults                {}", network.faults())?;
        for (fault, times) in network.iter() {
            writeln!(f, "  {fault:<20}{times}")?;
        }
        writeln!(f, "wrong sums            {wrong}")?;
        write!(f, "other promises broken {broken}")?;
        examples.iter().try_for_each(|broken| write!(f, "\n  {broken}"))
    }
}
