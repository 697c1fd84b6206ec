//! Random jobs on random networks.

use core::time::Duration;
use std::sync::Arc;

use switchml_proto::numeric::{ElementType, Reduction, ScalingFactor};
use switchml_proto::worker::{Collective, Conversion};
use switchml_proto::{ChunkSize, Instant, LaneLayout, Rank, Seq, Window};

use crate::dice::Dice;
use crate::harness::{Scenario, Stop};
use crate::network::{Lateness, Loss, Profile};
use crate::tensors::{Call, Elements};

/// A job, its collectives, and a network that is hard on it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Schedule {
    /// Job and network.
    pub scenario: Scenario,
    /// At least two.
    pub calls: Arc<[Call]>,
}

/// Packets that the workers of a schedule send at least, each counted once.
pub const PACKETS: u64 = 200;
/// Faults that a schedule has at least.
pub const FAULTS: u64 = 20;

impl Schedule {
    /// The schedule of a seed: 3 to 8 workers, now and then more, 1 to 3 lanes of 1 to 16 slots of 32 elements, 2 to 6
    /// collectives of all kinds, and at least [`PACKETS`] packets.
    ///
    /// All kinds of faults are as much more probable as `severity` says: with 1 there are [`FAULTS`] nearly always.
    #[must_use]
    pub fn random(seed: u64, severity: f64) -> Self {
        let mut dice = Dice::new(seed);
        let workers = dice.pick(&[3, 3, 3, 4, 4, 5, 6, 8, 16]);
        let (lanes, window) = (dice.pick(&[1, 1, 1, 2, 3]), dice.pick(&[1, 2, 4, 4, 8, 16]));
        let valid = "the numbers above are those of a job";
        let mut scenario = Scenario::new(seed, workers, lanes, window, 32).expect(valid);
        let base = dice.below(64) as u16;
        scenario.layout =
            LaneLayout::new(base, Window::new(window).expect(valid), ChunkSize::MIN).expect(valid);
        // Some begin shortly before the seqs wrap.
        let turns = dice.pick(&[0u32, 1, 2, 5, 1 << 20]);
        scenario.initial_seq = Seq(turns.wrapping_mul(2 * window as u32).wrapping_neg());
        scenario.network.up = profile(&mut dice, severity);
        scenario.network.down = profile(&mut dice, severity);
        scenario.think = Duration::from_micros(dice.pick(&[0, 0, 100, 10_000]));
        scenario.strangers = dice.pick(&[0.0, 0.02, 0.1]);
        scenario.spurious_timeouts = dice.chance(0.3);
        if dice.chance(0.2) {
            let from = Instant::ZERO + dice.time(Duration::from_millis(2));
            let time = from..from + dice.time(Duration::from_millis(30));
            scenario.stops.push(Stop { rank: dice.below(workers as u64) as usize, time });
        }
        // Far beyond what retransmission needs, and far from the stall time.
        scenario.deadline = Instant::ZERO + Duration::from_secs(500);
        scenario.steps = 1_000_000;
        Self { calls: calls(&mut dice, &scenario), scenario }
    }
}

/// One direction of all links: two or three kinds of faults prevail.
fn profile(dice: &mut Dice, severity: f64) -> Profile {
    let mut share = || dice.pick(&[0.0, 0.01, 0.03, 0.1]) * severity;
    let [loss, duplication, reordering, truncation, damage] =
        [share(), share(), share(), share() / 2.0, share() / 2.0];
    let mut longest = || Duration::from_micros(dice.pick(&[50, 1_000, 20_000]));
    let (copies, others) = (longest(), longest());
    Profile {
        rate: dice.pick(&[None, Some(1_000_000_000)]),
        delay: Duration::from_micros(dice.pick(&[2, 20, 200])),
        jitter: Duration::from_micros(dice.pick(&[0, 5, 100])),
        loss: if dice.chance(0.3) { Loss::bursts(loss.min(0.5), 5.0) } else { Loss::Random(loss.min(0.5)) },
        duplication: Lateness { probability: (duplication + 0.05 * severity).min(0.9), longest: copies },
        reordering: Lateness { probability: reordering.min(0.9), longest: others },
        truncation: truncation.min(0.3),
        // Of a datagram of 138 octets.
        bit_errors: (damage.min(0.3)) / (8.0 * 138.0),
        ..Profile::PERFECT
    }
}

/// Collectives of all kinds, with as many chunks as matter for a window: none, one, fewer than W, W, and more; the last one
/// is long enough.
fn calls(dice: &mut Dice, scenario: &Scenario) -> Arc<[Call]> {
    let (workers, k) = (u64::from(scenario.world_size.get()), 32);
    let window = u64::from(scenario.layout.window().get()) * u64::from(scenario.lanes.get());
    let needed = PACKETS.div_ceil(workers);
    let mut chunks = Vec::new();
    for _ in 0..1 + dice.below(5) {
        chunks.push(dice.pick(&[0, 1, window / 2, window - 1, window, window + 1, 3 * window, 7]));
    }
    let so_far: u64 = chunks.iter().sum();
    chunks.push(needed.saturating_sub(so_far).max(1));
    let last = chunks.len() - 1;
    chunks.swap(last, dice.below(last as u64 + 1) as usize);
    (0..)
        .zip(chunks)
        .map(|(tag, chunks)| {
            let collective = collective(dice, chunks, k, workers).with_tag(tag);
            let len = collective.len() as usize;
            let inputs = (0..workers).map(|_| Elements::random(dice, collective.element(), len)).collect();
            Call { collective, inputs }
        })
        .collect()
}

fn collective(dice: &mut Dice, chunks: u64, k: u64, workers: u64) -> Collective {
    let float =
        dice.pick(&[ElementType::Float32, ElementType::Float32, ElementType::Float16, ElementType::BFloat16]);
    let reduction = dice.pick(&[Reduction::Sum, Reduction::Mean]);
    let short = dice.below(k);
    let len = (chunks * k).saturating_sub(short);
    let kind = if chunks == 0 { 0 } else { 1 + dice.below(6) };
    let all_reduce = |element, reduction, conversion| {
        Collective::all_reduce(len, element, reduction, conversion)
            .expect("the conversion is one of the type")
    };
    match kind {
        0 => Collective::barrier(),
        1 | 2 => all_reduce(ElementType::Int32, Reduction::Sum, Conversion::Integer),
        3 => {
            let factor = ScalingFactor::new(dice.pick(&[0.5, 1000.0, 1e6])).expect("it is a normal number");
            all_reduce(float, reduction, Conversion::Fixed(factor))
        }
        4 => {
            let root = Rank::new(dice.below(workers) as usize).expect("there are at most 64 workers");
            let element = dice.pick(&[float, ElementType::Int32]);
            // As many chunks of octets.
            let broadcast = Collective::broadcast(0, element, root);
            let per_chunk = broadcast.elements_per_chunk(ChunkSize::MIN) as u64;
            Collective::broadcast((chunks * per_chunk).saturating_sub(short), element, root)
        }
        _ => all_reduce(float, reduction, Conversion::Block),
    }
}
