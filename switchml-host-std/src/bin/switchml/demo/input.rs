//! The tensors of the demo: made from a seed, so that every process can make those of all ranks again.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// Elements that have one scale, as the gradients of a layer have.
const LAYER: usize = 5_000;

/// Binary exponents of the smallest and largest scales.
const SCALES: std::ops::RangeInclusive<i32> = -20..=6;

/// How far below its layer's scale an element may lie, in binary orders.
const SPREAD: u32 = 32;

/// Smallest and largest binary exponent of an element that is not 0.
pub(super) const SMALLEST: i32 = *SCALES.start() - SPREAD as i32;
pub(super) const LARGEST: i32 = *SCALES.end() + RANK_SPREAD as i32;

/// How many binary orders the ranks differ in one layer.
const RANK_SPREAD: u32 = 4;

/// Makes the tensor of `rank` for `round`: layers of different scales, in them elements of many magnitudes, one in
/// sixteen zero, and one layer in eight nothing but zeros. No subnormals, no NaN and no infinity: every sum is exact
/// as a fixed-point number of 128 bits.
pub(crate) fn fill(seed: u64, round: u32, rank: usize, tensor: &mut [f32]) {
    // A stream for each rank and round; of the layers' scales, the ranks share one.
    let mut own = stream(seed, round, 1 + rank as u64);
    let mut shared = stream(seed, round, 0);
    for layer in tensor.chunks_mut(LAYER) {
        let scale = shared.next_u32();
        if scale.is_multiple_of(8) {
            layer.fill(0.0);
            continue;
        }
        let orders = (SCALES.end() - SCALES.start() + 1) as u32;
        let scale =
            SCALES.start() + (scale / 8 % orders) as i32 + (own.next_u32() % (RANK_SPREAD + 1)) as i32;
        for element in layer {
            *element = value(own.next_u64(), scale);
        }
    }
}

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
