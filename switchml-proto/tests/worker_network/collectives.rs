//! Every collective ends, everywhere, with the exact result: T-1 to T-5, I-1 to I-3.

use core::time::Duration;

use switchml_proto::numeric::{ElementType, Reduction, ScalingFactor};
use switchml_proto::worker::{Collective, Conversion};
use switchml_proto::{ChunkSize, LaneCount, LaneLayout, Rank, Seq, Window};

use crate::network::Scenario;
use crate::random::Random;
use crate::tensors::{Reference, Tensors};

/// Random collectives, with as many chunks as matter for a window: none, one, fewer than W, W, and more.
fn references(
    random: &mut Random,
    layout: LaneLayout,
    lanes: LaneCount,
    world_size: usize,
) -> Vec<Reference> {
    let window = u64::from(layout.window().get()) * u64::from(lanes.get());
    let fixed = Conversion::Fixed(ScalingFactor::new(1024.0).unwrap());
    let count = 1 + random.below(6);
    (0..count)
        .map(|tag| {
            let chunks = random.pick(&[0, 1, window / 2, window - 1, window, window + 1, 3 * window, 7]);
            let half = random.pick(&[ElementType::Float16, ElementType::BFloat16]);
            let float = random.pick(&[ElementType::Float32, half]);
            let last = random.below(layout.chunk().elements() as u64);
            let len = (chunks * layout.chunk().elements() as u64).saturating_sub(last);
            let reduction = random.pick(&[Reduction::Sum, Reduction::Mean]);
            let root = Rank::new(random.below(world_size as u64) as usize).unwrap();
            let collective = match random.below(6) {
                0 => Collective::all_reduce(len, ElementType::Int32, Reduction::Sum, Conversion::Integer),
                1 => Collective::all_reduce(len, float, reduction, fixed),
                2 => Ok(Collective::broadcast(len, random.pick(&[float, ElementType::Int32]), root)),
                3 => Ok(Collective::barrier()),
                _ => Collective::all_reduce(len, float, reduction, Conversion::Block),
            };
            Reference::random(random, collective.unwrap().with_tag(tag as u32), world_size)
        })
        .collect()
}

fn run(seed: u64, spoil: impl Fn(&mut Random, &mut Scenario)) {
    let mut random = Random(seed);
    let world_size = random.pick(&[1, 2, 3, 4, 8]);
    let window = random.pick(&[1, 2, 4, 8]);
    let base = random.below(100) as u16;
    let layout = LaneLayout::new(base, Window::new(window).unwrap(), ChunkSize::MIN).unwrap();
    let lanes = LaneCount::new(random.pick(&[1, 1, 2, 3])).unwrap();
    let references = references(&mut random, layout, lanes, world_size);
    let mut tensors: Vec<_> = (0..world_size).map(|rank| Tensors::new(rank, &references)).collect();
    for lane in lanes.lanes() {
        let mut scenario = Scenario::new(random.next(), layout);
        (scenario.lane, scenario.lanes) = (lane, lanes);
        // Some begin shortly before the seqs wrap.
        let back = random.pick(&[0u32, 1, 3, 1 << 20]).wrapping_mul(2 * window as u32);
        scenario.initial_seq = Seq(back.wrapping_neg());
        scenario.think = Duration::from_micros(random.pick(&[0, 100, 10_000]));
        scenario.spurious_timeouts = random.chance(0.3);
        spoil(&mut random, &mut scenario);
        scenario.run(&mut tensors);
    }
    for tensors in &tensors {
        for (id, reference) in references.iter().enumerate() {
            assert_eq!(tensors.written[id], reference.collective.len(), "each element once: seed {seed}");
            assert_eq!(tensors.data[id], reference.expected(), "collective {id} of seed {seed}");
        }
    }
}

#[test]
fn collectives_are_exact_on_a_perfect_network() {
    for seed in 0..1000 {
        run(seed, |_, _| {});
    }
}

#[test]
fn collectives_are_exact_when_a_little_is_lost_repeated_and_late() {
    for seed in 1000..2000 {
        run(seed, |_, scenario| (scenario.loss, scenario.duplicate, scenario.late) = (0.01, 0.01, 0.05));
    }
}

#[test]
fn collectives_are_exact_when_much_is_lost_repeated_and_late() {
    for seed in 2000..3000 {
        run(seed, |random, scenario| {
            scenario.loss = random.pick(&[0.05, 0.2, 0.3]);
            scenario.duplicate = random.pick(&[0.0, 0.1, 0.5]);
            scenario.late = random.pick(&[0.0, 0.3, 0.9]);
        });
    }
}

#[test]
fn collectives_are_exact_when_the_order_is_random() {
    for seed in 3000..4000 {
        run(seed, |_, scenario| scenario.delay = Duration::from_micros(10)..Duration::from_millis(3));
    }
}
