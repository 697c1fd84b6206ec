//! Sections 5's numbers, element by element.

use switchml_proto::ChunkSize;
use switchml_proto::numeric::ElementType;
use switchml_proto::worker::{Conversion, Operation};

use crate::tensors::{Call, Elements};

/// What every rank must hold after the call: N-1 to N-6, to the bit.
///
/// # Panics
/// If the inputs are not of the collective's type.
#[must_use]
pub fn reduced(call: &Call, chunk: ChunkSize) -> Elements {
    let (collective, n) = (call.collective, call.inputs.len());
    let mean = match collective.operation() {
        Operation::Broadcast { root } => return call.inputs[root.index()].clone(),
        Operation::Mean => Some(n as f32),
        _ => None,
    };
    if collective.element() == ElementType::Int32 {
        let inputs = call.inputs.iter().map(|input| match input {
            Elements::Int32(data) => data,
            other => panic!("{other:?} is not of the type int32"),
        });
        let sum = |i| inputs.clone().map(|data| i64::from(data[i])).sum::<i64>() as i32;
        return Elements::Int32((0..call.inputs[0].len()).map(sum).collect());
    }
    let inputs: Vec<_> = call.inputs.iter().map(Elements::widened).collect();
    let results: Vec<_> = match collective.conversion() {
        Conversion::Fixed(factor) => {
            let (factor, limit) = (factor.get(), fixed_limit(n));
            let results = (0..inputs[0].len()).map(|i| {
                let sum: i64 = inputs.iter().map(|input| fixed(input[i], factor, limit)).sum();
                sum as f32 / mean.unwrap_or(1.0) / factor
            });
            results.collect()
        }
        _ => {
            let blocks = (0..inputs[0].len()).step_by(chunk.elements());
            blocks.flat_map(|start| block(&inputs, start, chunk.elements(), mean)).collect()
        }
    };
    Elements::narrowed(collective.element(), &results)
}

/// How far a rank's integers for one element are from what they stand for.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(clippy::exhaustive_structs, reason = "there is no more to say")]
pub struct Deviation {
    /// The largest of |q * 2^-s - v| over the ranks, in units of 2^-s; exact. N-4 allows a half.
    pub units: f64,
    /// Whether some integer was clamped to +-(2^(31-h) - 1).
    pub clamped: bool,
}

/// N-4 for one element of a block of the exponent octet `exponent`, whose ranks have `values`: finite, and not larger in
/// exponent than the block.
#[must_use]
pub fn deviation(values: &[f32], exponent: i8) -> Deviation {
    let scale = Scale::new(exponent, values.len());
    let mut worst = Deviation { units: 0.0, clamped: false };
    for &value in values {
        let exact = f64::from(value) * power_of_two(scale.s);
        let q = scale.integer(value);
        // The difference has no more bits than a binary64 holds: see the bound itself.
        let units = (exact - q as f64).abs();
        if exact.round_ties_even() as i64 == q {
            worst.units = worst.units.max(units);
        } else {
            worst.clamped = true;
        }
    }
    worst
}

/// N-3 to N-5 for the elements of one block.
fn block(inputs: &[Vec<f32>], start: usize, k: usize, mean: Option<f32>) -> Vec<f32> {
    let end = inputs[0].len().min(start + k);
    let all = inputs.iter().flat_map(|input| &input[start..end]);
    let biased = all.map(|x| x.to_bits() >> 23 & 0xff).max().unwrap_or(0) as i32;
    if biased == 255 {
        return vec![f32::from_bits(0x7fc0_0000); end - start];
    }
    let scale = Scale::new((biased - 128) as i8, inputs.len());
    let unit = power_of_two(-scale.s) as f32;
    let results = (start..end).map(|i| {
        let sum: i64 = inputs.iter().map(|input| scale.integer(input[i])).sum();
        sum as f32 / mean.unwrap_or(1.0) * unit
    });
    results.collect()
}

/// N-4's s and its clamp.
struct Scale {
    s: i32,
    limit: i64,
}

impl Scale {
    fn new(exponent: i8, n: usize) -> Self {
        let h = n.next_power_of_two().trailing_zeros() as i32;
        let e = (i32::from(exponent) + 128).max(1) - 126;
        Self { s: (31 - h - e).min(125), limit: (1 << (31 - h)) - 1 }
    }

    fn integer(&self, value: f32) -> i64 {
        // A binary32 times a power of two within the range of binary64: exact.
        let product = f64::from(value) * power_of_two(self.s);
        (product.round_ties_even() as i64).clamp(-self.limit, self.limit)
    }
}

/// N-6 for one element.
fn fixed(value: f32, factor: f32, limit: f32) -> i64 {
    let product = value * factor;
    if product.is_nan() {
        return 0;
    }
    f64::from(product.clamp(-limit, limit)).round_ties_even() as i64
}

/// The largest binary32 that is not above (2^31 - 1) / n.
fn fixed_limit(n: usize) -> f32 {
    let bound = f64::from(i32::MAX) / n as f64;
    let nearest = bound as f32;
    if f64::from(nearest) > bound { nearest.next_down() } else { nearest }
}

/// 2^exponent, for exponents of binary64.
fn power_of_two(exponent: i32) -> f64 {
    f64::from_bits(((exponent + 1023) as u64) << 52)
}
