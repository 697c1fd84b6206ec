//! The exact sum, and how far from it a result may be (N-4).

use serde::{Deserialize, Serialize};

use super::input;

/// A fixed-point number: so many units of 2^-[`FRACTION`].
type Fixed = i128;

/// Bits behind the point. The last bit of the smallest element is 2^(SMALLEST - 23); results are whole multiples of
/// 2^-s, and the smallest block there is has s <= 31 - SMALLEST - 1.
const FRACTION: i32 = 23 - input::SMALLEST + 16;

// The sum of 64 elements below 2^(LARGEST + 1), and twice that, stay within 127 bits.
const _: () = assert!(FRACTION + input::LARGEST + 1 + 6 + 1 < 127);
const _: () = assert!(FRACTION >= 31 - input::SMALLEST);

/// What a comparison of a result with the exact sums found.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
pub(crate) struct Checked {
    /// The largest error, as a share of the error allowed there.
    pub(crate) worst: f64,
    /// Elements that were compared.
    pub(crate) elements: u64,
    /// Elements that are the exact sum.
    pub(crate) exact: u64,
}

impl Checked {
    /// Of this and more elements.
    pub(crate) fn and(self, more: Self) -> Self {
        Self {
            worst: self.worst.max(more.worst),
            elements: self.elements + more.elements,
            exact: self.exact + more.exact,
        }
    }
}

/// An element that is further from the exact sum than it may be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Wrong {
    pub(super) element: usize,
    pub(super) result: f32,
    /// The exact sum, and the error allowed, rounded to binary64 for the reader.
    pub(super) sum: f64,
    pub(super) allowed: f64,
}

/// Compares every element of `result` with the exact sum of that element in `inputs`, one tensor for each rank.
/// `chunk` is the elements of a block.
pub(super) fn check(inputs: &[Vec<f32>], result: &[f32], chunk: usize) -> Result<Checked, Wrong> {
    let mut checked = Checked::default();
    for (number, block) in result.chunks(chunk).enumerate() {
        let start = number * chunk;
        let range = start..start + block.len();
        let blocks = || inputs.iter().map(|input| &input[range.clone()]);
        let largest = blocks().flatten().map(|value| value.to_bits() >> 23 & 0xFF).max().unwrap_or(0);
        let scale = scale(largest as i32, inputs.len());
        for (offset, &element) in block.iter().enumerate() {
            let sum: Fixed = blocks().map(|block| fixed(block[offset])).sum();
            let allowed = allowed(element, scale, inputs.len());
            // A result beyond what the elements can add up to has no fixed-point number.
            let error = exactly(element).map(|result| (result - sum).abs());
            match error {
                Some(error) if error <= allowed => {
                    checked.worst = checked.worst.max(error as f64 / allowed as f64);
                    checked.exact += u64::from(error == 0);
                    checked.elements += 1;
                }
                _ => {
                    let unit = f64::from(FRACTION).exp2();
                    return Err(Wrong {
                        element: start + offset,
                        result: element,
                        sum: sum as f64 / unit,
                        allowed: allowed as f64 / unit,
                    });
                }
            }
        }
    }
    Ok(checked)
}

/// The s of N-4: a block whose largest biased exponent is `largest` is sent in units of 2^-s.
fn scale(largest: i32, world_size: usize) -> i32 {
    let headroom = world_size.next_power_of_two().trailing_zeros() as i32;
    (31 - headroom - (largest.max(1) - 126)).min(125)
}

/// n * 2^-(s + 1), and half a unit in the last place of the result if the sum has more bits than a binary32.
fn allowed(result: f32, scale: i32, world_size: usize) -> Fixed {
    // Blocks of zeros alone have a scale beyond the fraction; nothing is allowed there.
    let units = |shift: i32| if (0..120).contains(&shift) { 1 << shift } else { 0 };
    let quantizing = world_size as Fixed * units(FRACTION - (scale + 1));
    let last_place = (result.to_bits() >> 23 & 0xFF) as i32 - 127 - 23;
    let rounding = if last_place > -scale { units(FRACTION + last_place - 1) } else { 0 };
    quantizing + rounding
}

/// An element of the demo's inputs, which all have a fixed-point number.
fn fixed(value: f32) -> Fixed {
    exactly(value).unwrap_or_else(|| unreachable!("{value:e} is none of the demo's elements"))
}

/// The number, if it has one: not too large, and no bits behind the last.
fn exactly(value: f32) -> Option<Fixed> {
    let bits = value.to_bits();
    let biased = (bits >> 23 & 0xFF) as i32;
    let mantissa = Fixed::from(bits & 0x007F_FFFF);
    let (mantissa, biased) = if biased == 0 { (mantissa, 1) } else { (mantissa | 1 << 23, biased) };
    let magnitude = match biased - 127 - 23 + FRACTION {
        shift @ 0..=102 => mantissa << shift, // 24 bits more stay below 127
        shift @ -24..0 if mantissa.trailing_zeros() >= shift.unsigned_abs() => mantissa >> -shift,
        _ if mantissa == 0 => 0,
        _ => return None,
    };
    Some(if bits >> 31 == 1 { -magnitude } else { magnitude })
}

#[cfg(test)]
mod tests;
