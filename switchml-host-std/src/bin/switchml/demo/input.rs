//! The tensors of the demo: made from a seed, so that every process can make those of all ranks again.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// Elements that have one scale, as the gradients of a layer have.
const LAYER: usize = 5_000;

/// Binary exponents of the smallest and largest scales.
const SCALES: core::ops::RangeInclusive<i32> = -20..=6;

/// How far below its layer's scale an element may lie, in binary orders.
const SPREAD: u32 = 32;

/// Smallest and largest binary exponent of an element that is not 0.
pub(super) const SMALLEST: i32 = *SCALES.start() - SPREAD as i32;
pub(super) const LARGEST: i32 = *SCALES.end() + RANK_SPREAD as i32;

/// How many binary orders the ranks differ in one layer.
const RANK_SPREAD: u32 = 4;

/// The tensor of one rank for one round, from its first element on: layers of different scales, in them elements of many
/// magnitudes, one in sixteen zero, and one layer in eight nothing but zeros. No subnormals, no NaN and no infinity:
/// every sum is exact as a fixed-point number of 128 bits.
pub(crate) struct Input {
    own: ChaCha8Rng,
    /// Of the layers' scales, the ranks share one part.
    shared: ChaCha8Rng,
    /// None: a layer of zeros.
    scale: Option<i32>,
    left_in_layer: usize,
}

impl Input {
    pub(crate) fn new(seed: u64, round: u32, rank: usize) -> Self {
        let own = stream(seed, round, 1 + rank as u64);
        Self { own, shared: stream(seed, round, 0), scale: None, left_in_layer: 0 }
    }

    /// Makes the next elements.
    pub(crate) fn fill(&mut self, mut part: &mut [f32]) {
        while !part.is_empty() {
            if self.left_in_layer == 0 {
                self.begin_layer();
            }
            let (now, later) = part.split_at_mut(part.len().min(self.left_in_layer));
            self.left_in_layer -= now.len();
            for element in now {
                *element = self.scale.map_or(0.0, |scale| value(self.own.next_u64(), scale));
            }
            part = later;
        }
    }

    fn begin_layer(&mut self) {
        let (shared, own) = (self.shared.next_u32(), self.own.next_u32());
        let orders = (SCALES.end() - SCALES.start() + 1) as u32;
        let scale = SCALES.start() + (shared / 8 % orders) as i32 + (own % (RANK_SPREAD + 1)) as i32;
        self.scale = if shared.is_multiple_of(8) { None } else { Some(scale) };
        self.left_in_layer = LAYER;
    }
}

/// A stream for each rank and round.
fn stream(seed: u64, round: u32, stream: u64) -> ChaCha8Rng {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    rng.set_stream(u64::from(round) << 32 | stream);
    rng
}

/// 23 bits of mantissa, a sign, and a magnitude that halves with each order below `scale` become as rare.
fn value(random: u64, scale: i32) -> f32 {
    let (mantissa, sign) = (random as u32 & 0x007F_FFFF, (random as u32) << 8 & 0x8000_0000);
    if random >> 24 & 0xF == 0 {
        return 0.0;
    }
    let below = (random >> 28 | 1 << SPREAD).trailing_zeros();
    let biased = (127 + scale - below as i32) as u32; // 1 to 254: SMALLEST and LARGEST are far within
    f32::from_bits(sign | biased << 23 | mantissa)
}
