//! What happens in a run: drawn from its seed.

use core::fmt;
use core::time::Duration;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// The switch's lease.
pub(crate) const LEASE: Duration = Duration::from_secs(1);
/// Workers of the job that is struck.
pub(crate) const WORLD: usize = 3;
/// Collectives of each job.
pub(crate) const ROUNDS: usize = 3;

pub(crate) struct Plan {
    pub(crate) victim: Victim,
    pub(crate) blow: Blow,
    pub(crate) moment: Moment,
    /// How long after its moment has begun.
    pub(crate) after: Duration,
    /// Elements of each collective.
    pub(crate) elements: usize,
    pub(crate) lanes: usize,
    /// Which other rank starts so late that the victim has to wait for it, perhaps for longer than a lease, and how late.
    pub(crate) late: Option<(usize, Duration)>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Victim {
    Worker(usize),
    Switch,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Blow {
    Kill,
    /// It is stopped for a time that a lease outlasts.
    ShortStop(Duration),
    /// It is stopped for longer than a lease.
    LongStop(Duration),
}

/// What the victim, or if that is the switch rank 0, is just doing.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Moment {
    Join,
    Collective(usize),
    Idle(usize),
    Leave,
}

impl Plan {
    pub(crate) fn new(seed: u64) -> Self {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut below = |end: u64| random.next_u64() % end;
        let victim =
            if below(4) == 0 { Victim::Switch } else { Victim::Worker(below(WORLD as u64) as usize) };
        let blow = match below(5) {
            0..=2 => Blow::Kill,
            3 => Blow::ShortStop(Duration::from_millis(20 + below(330))),
            _ => Blow::LongStop(Duration::from_millis(2200 + below(800))),
        };
        let round = below(ROUNDS as u64) as usize;
        let (moment, longest) = match below(4) {
            0 => (Moment::Join, 60),
            1 => (Moment::Collective(round), 40),
            2 => (Moment::Idle(round), 80),
            _ => (Moment::Leave, 4),
        };
        let after = Duration::from_micros(below(1000 * longest));
        let (elements, lanes) = (1 + below(300_000) as usize, 1 + below(2) as usize);
        let rank = if let Victim::Worker(rank) = victim { rank } else { 0 };
        let late = (moment == Moment::Join && below(2) == 0)
            .then(|| ((rank + 1) % WORLD, Duration::from_millis(100 + below(2400))));
        Self { late, victim, blow, moment, after, elements, lanes }
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { late, victim, blow, moment, after, elements, lanes } = self;
        write!(f, "{victim:?}, {blow:?} {after:?} into {moment:?}, {elements} elements, {lanes} lanes")?;
        match late {
            Some((rank, time)) => write!(f, ", rank {rank} {time:?} late"),
            None => Ok(()),
        }
    }
}
