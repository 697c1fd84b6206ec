//! One job, timed in virtual time, with every sum checked.

use core::ops::Range;

use anyhow::{Result, ensure};
use switchml_proto::numeric::{ElementType, NO_EXPONENT, Reduction};
use switchml_proto::worker::{Chunk, ChunkSource, Collective, CollectiveId, Conversion, Fidelity};
use switchml_sim::harness::{Outcome, Pool, Scenario, Watch, run};
use switchml_sim::tensors::Application;

/// One rank's tensor, made up as it is asked for: element i of rank r is i * (r + 1), modulo 2^32. So a run of many ranks and
/// long tensors needs no memory for them, and every sum can still be checked.
struct Load {
    collective: Collective,
    rank: usize,
    world_size: usize,
    written: u64,
    wrong: u64,
}

impl ChunkSource for Load {
    /// The integers are not made from an exponent: any will do.
    fn exponent(&mut self, _: CollectiveId, _: Range<u64>) -> i8 {
        NO_EXPONENT + 1
    }

    fn encode(&mut self, _: CollectiveId, range: Range<u64>, _: i8, wire: &mut [u8]) -> Fidelity {
        let factor = self.rank as u32 + 1;
        let elements = (range.end - range.start) as usize;
        let (words, padding) = wire.split_at_mut(4 * elements);
        for (word, index) in words.as_chunks_mut().0.iter_mut().zip(range.start as u32..) {
            *word = index.wrapping_mul(factor).to_be_bytes();
        }
        padding.fill(0);
        Fidelity::Faithful
    }
}

impl Application for Load {
    fn collective(&self, index: u64) -> Option<Collective> {
        (index == 0).then_some(self.collective)
    }

    fn write(&mut self, chunk: &Chunk<'_>) {
        let elements = chunk.range.end - chunk.range.start;
        self.written += elements;
        let factor = (self.world_size * (self.world_size + 1) / 2) as u32;
        let words = chunk.elements.as_chunks().0.iter().take(elements as usize);
        let wrong = words
            .zip(chunk.range.start as u32..)
            .filter(|&(&word, index)| u32::from_be_bytes(word) != index.wrapping_mul(factor));
        self.wrong += wrong.count() as u64;
    }
}

/// Runs one all-reduce of `elements` elements.
///
/// # Errors
/// If it does not end, or some sum is wrong.
pub(super) fn all_reduce(
    scenario: &Scenario,
    elements: u64,
    element: ElementType,
    watch: &mut impl Watch,
) -> Result<Outcome> {
    let conversion = match element {
        ElementType::Int32 => Conversion::Integer,
        _ => Conversion::Block,
    };
    let collective = Collective::all_reduce(elements, element, Reduction::Sum, conversion)?;
    let world_size = usize::from(scenario.world_size.get());
    let load = |rank| Load { collective, rank, world_size, written: 0, wrong: 0 };
    let mut ranks: Vec<_> = (0..world_size).map(load).collect();
    let mut pool = Pool::new(scenario);
    let outcome = run(scenario, &mut pool.planes()?, &mut ranks, watch)?;
    for Load { rank, written, wrong, .. } in &ranks {
        ensure!(*wrong == 0 && *written == elements, "rank {rank}: {wrong} wrong of {written} elements");
    }
    Ok(outcome)
}

/// Virtual time, in seconds.
pub(super) fn seconds(outcome: &Outcome) -> f64 {
    outcome.end.as_nanos() as f64 / 1e9
}

/// The smallest power of two that is not below `slots`, from 1 to 8192: half of the slots that can be named.
pub(super) fn window(slots: f64) -> usize {
    (slots.ceil() as usize).next_power_of_two().clamp(1, 1 << 13)
}
