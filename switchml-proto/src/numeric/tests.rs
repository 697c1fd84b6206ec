//! The rules against exact arithmetic: binary64 and 128-bit integers hold every intermediate value.

extern crate std;

use std::vec;
use std::vec::Vec;

use half::{bf16, f16};
use proptest::prelude::*;

use crate::ids::{InvalidId, WorldSize};

use super::element::sealed::Binary32;
use super::round::round_half_even;
use super::*;

const WORLD_SIZES: [usize; 9] = [1, 2, 3, 4, 5, 8, 16, 33, 64];

fn world(workers: usize) -> WorldSize {
    WorldSize::new(workers).expect("a valid world size")
}

fn words(wire: &[u8]) -> Vec<i32> {
    wire.as_chunks().0.iter().map(|word| i32::from_be_bytes(*word)).collect()
}

fn encoded<T: Float>(chunk: &[T], exponent: i8, n: WorldSize) -> Vec<i32> {
    let mut wire = vec![0xA5; 4 * chunk.len()];
    encode_block(chunk, exponent, n, &mut wire);
    words(&wire)
}

fn decoded<T: Float>(sums: &[i32], exponent: i8, n: WorldSize, reduction: Reduction) -> Vec<T> {
    let wire: Vec<u8> = sums.iter().flat_map(|sum| sum.to_be_bytes()).collect();
    let mut chunk = vec![T::default(); sums.len()];
    decode_block(&wire, exponent, n, reduction, &mut chunk);
    chunk
}

/// s of N-4, written as the rule has it.
fn s(exponent: i8, n: WorldSize) -> i32 {
    let h = (usize::from(n.get()) as f64).log2().ceil() as i32;
    let e = (i32::from(exponent) + 128).max(1) - 126;
    (31 - h - e).min(125)
}

/// q of N-4 in binary64, which holds every product exactly.
fn quantized(v: f32, exponent: i8, n: WorldSize) -> i32 {
    let h = (usize::from(n.get()) as f64).log2().ceil() as i32;
    let largest = 2f64.powi(31 - h) - 1.0;
    // The cast of a NaN gives 0.
    (f64::from(v) * 2f64.powi(s(exponent, n))).round_ties_even().clamp(-largest, largest) as i32
}

/// Patterns that cover every exponent with both signs: the ends of each binade, and some in between.
fn patterns() -> Vec<u32> {
    let fractions = [0, 1, 0x2AAAAA, 0x3FFFFF, 0x400000, 0x400001, 0x600000, 0x7FFFFE, 0x7FFFFF];
    let magnitudes = (0..=255u32).flat_map(|b| fractions.map(|fraction| b << 23 | fraction));
    magnitudes.flat_map(|magnitude| [magnitude, magnitude | 1 << 31]).collect()
}

#[test]
fn n2_exponent_is_that_of_the_largest_magnitude() {
    assert_eq!(block_exponent::<f32>(&[]), NO_EXPONENT);
    assert_eq!(block_exponent(&[0.0f32, -0.0, f32::from_bits(1)]), NO_EXPONENT);
    assert_eq!(block_exponent(&[1.0f32, f32::NEG_INFINITY]), NOT_FINITE);
    assert_eq!(block_exponent(&[f32::NAN, 1.0f32]), NOT_FINITE);
    assert_eq!(block_exponent(&[f32::MAX, 1.0f32]), NOT_FINITE - 1);
    for bits in patterns() {
        let e = ((bits >> 23 & 0xFF) as i32 - 128) as i8;
        let mut chunk = [0f32; 37];
        chunk[bits as usize % 37] = f32::from_bits(bits);
        assert_eq!(block_exponent(&chunk), e, "{bits:08x}");
    }
    for bits in 0..=u16::MAX {
        let (half, brain) = (f16::from_bits(bits), bf16::from_bits(bits));
        assert_eq!(block_exponent(&[f16::ZERO, half]), block_exponent(&[half.to_f32()]), "{bits:04x}");
        assert_eq!(block_exponent(&[brain, bf16::ZERO]), block_exponent(&[brain.to_f32()]), "{bits:04x}");
    }
}

#[test]
fn n3_a_block_that_is_not_finite_becomes_the_quiet_nan() {
    let n = world(3);
    assert_eq!(encoded(&[1.0, f32::NAN, f32::INFINITY], NOT_FINITE, n), [0, 0, 0]);
    for reduction in [Reduction::Sum, Reduction::Mean] {
        let single: Vec<f32> = decoded(&[1, -1], NOT_FINITE, n, reduction);
        let half: Vec<f16> = decoded(&[1, -1], NOT_FINITE, n, reduction);
        let brain: Vec<bf16> = decoded(&[1, -1], NOT_FINITE, n, reduction);
        assert!(single.iter().all(|v| v.to_bits() == 0x7FC0_0000));
        assert!(half.iter().all(|v| v.to_bits() == 0x7E00));
        assert!(brain.iter().all(|v| v.to_bits() == 0x7FC0));
    }
}

#[test]
fn n4_rounds_half_to_even() {
    let ties = [0.5f32, 1.5, 2.5, -0.5, -1.5, -2.5, 65_535.5, 65_536.5, 98_304.0, 98_304.5, 4_194_303.5];
    let sampled = (0..0x4F00_0000u32).step_by(1009).map(f32::from_bits);
    for x in ties.into_iter().chain(sampled) {
        for x in [x, -x] {
            assert_eq!(round_half_even(x), f64::from(x).round_ties_even() as i32, "{x:e}");
        }
    }
}

#[test]
fn n4_every_value_with_every_exponent() {
    let chunk: Vec<f32> = patterns().into_iter().map(f32::from_bits).collect();
    for workers in WORLD_SIZES {
        let n = world(workers);
        for exponent in NO_EXPONENT..NOT_FINITE {
            // The whole list meets every exponent as a wrong one; what the exponent covers meets it as the right one.
            let covered: Vec<f32> =
                chunk.iter().copied().filter(|v| block_exponent(&[*v]) <= exponent).collect();
            for chunk in [&chunk, &covered] {
                let expected: Vec<i32> = chunk.iter().map(|v| quantized(*v, exponent, n)).collect();
                assert_eq!(encoded(chunk, exponent, n), expected, "n = {workers}, e = {exponent}");
            }
        }
    }
}

#[test]
fn n4_a_wrong_exponent_is_limited() {
    for workers in WORLD_SIZES {
        let n = world(workers);
        let largest = i32::MAX >> n.headroom();
        let chunk = [f32::MAX, f32::MIN, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, 1.0];
        assert_eq!(
            encoded(&chunk, -1, n),
            [largest, -largest, largest, -largest, 0, 1 << (30 - n.headroom())]
        );
        assert!(workers as i64 * i64::from(largest) <= i64::from(i32::MAX), "the sum cannot overflow");
    }
}

#[test]
fn n5_results_for_every_exponent() {
    let mut sums = vec![0, 1, -1, 3, 0x7FFF_FFFF, -0x7FFF_FFFF, i32::MIN, 0x0100_0001, 0x0100_0003];
    sums.extend((0..200u32).map(|i| i.wrapping_mul(0x9E37_79B9) as i32 >> (i % 31)));
    for workers in WORLD_SIZES {
        let n = world(workers);
        for exponent in NO_EXPONENT..NOT_FINITE {
            let scale = 2f64.powi(-s(exponent, n));
            let result: Vec<f32> = decoded(&sums, exponent, n, Reduction::Sum);
            let mean: Vec<f32> = decoded(&sums, exponent, n, Reduction::Mean);
            let mean16: Vec<f16> = decoded(&sums, exponent, n, Reduction::Mean);
            for (i, sum) in sums.iter().enumerate() {
                let rounded = *sum as f32;
                let expected = (f64::from(rounded) * scale) as f32;
                assert_eq!(result[i].to_bits(), expected.to_bits(), "{sum} e = {exponent}");
                let expected = (f64::from(rounded / workers as f32) * scale) as f32;
                assert_eq!(mean[i].to_bits(), expected.to_bits(), "{sum} e = {exponent} n = {workers}");
                assert_eq!(mean16[i].to_bits(), f16::from_f32(expected).to_bits(), "{expected:e}");
            }
        }
    }
}

#[test]
fn n5_a_zero_sum_is_positive() {
    let n = world(2);
    assert_eq!(encoded(&[-0.0f32], NO_EXPONENT, n), [0]);
    for exponent in NO_EXPONENT..NOT_FINITE {
        for reduction in [Reduction::Sum, Reduction::Mean] {
            assert_eq!(decoded::<f32>(&[0], exponent, n, reduction)[0].to_bits(), 0);
            assert_eq!(decoded::<f16>(&[0], exponent, n, reduction)[0].to_bits(), 0);
            assert_eq!(decoded::<bf16>(&[0], exponent, n, reduction)[0].to_bits(), 0);
        }
    }
}

/// An element as m * 2^(E - 24 - shift), the same for a list of ranks.
fn contributions() -> impl Strategy<Value = (i32, Vec<(i32, u32)>)> {
    let element = (-0xFF_FFFFi32..=0xFF_FFFF, prop_oneof![Just(0), 0..8u32, 0..=60u32]);
    (-40..=120i32, prop::collection::vec(element, 1..=64))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2000) })]

    #[test]
    fn n4_the_sum_is_within_its_bound((e, ranks) in contributions()) {
        let n = world(ranks.len());
        // Exact integers, in units of 2^(e - 84).
        let exact: i128 = ranks.iter().map(|(m, shift)| i128::from(*m) << (60 - shift)).sum();
        let values: Vec<f32> =
            ranks.iter().map(|(m, shift)| (f64::from(*m) * 2f64.powi(e - 24 - *shift as i32)) as f32).collect();
        let exponent = (e + 126 - 128) as i8;
        prop_assert!(block_exponent(&values) <= exponent);

        let sum = values.iter().fold(0i32, |sum, v| sum.wrapping_add(encoded(&[*v], exponent, n)[0]));
        let result = decoded::<f32>(&[sum], exponent, n, Reduction::Sum)[0];
        // A multiple of 2^-s = 2^(e + h - 31), and of its own ulp: a whole number of units.
        let result = (f64::from(result) * 2f64.powi(84 - e)) as i128;
        let bound = (ranks.len() as i128) << (n.headroom() + 52); // n * 2^-(s+1)
        let excess = (result - exact).abs() - bound;
        prop_assert!(excess << 24 <= result.abs(), "{} is not {} within {}", result, exact, bound);
    }

    #[test]
    fn n2_n4_one_pass_does_what_two_do(bits in prop::collection::vec(any::<u32>(), 0..70),
        more in prop::collection::vec(any::<u32>(), 0..70), exponent: i8, equal: bool, workers in 1..=64usize) {
        let n = world(workers);
        let chunk: Vec<f32> = bits.into_iter().map(f32::from_bits).collect();
        let mut ahead: Vec<f32> = more.into_iter().map(f32::from_bits).collect();
        if equal {
            ahead.resize(chunk.len(), -1.0);
        }
        let (mut once, mut twice) = ([0xA5; 4 * 70], [0xA5; 4 * 70]);
        let scanned = encode_block_and_scan(&chunk, exponent, n, &mut once, &ahead);
        encode_block(&chunk, exponent, n, &mut twice);
        prop_assert_eq!(once, twice);
        prop_assert_eq!(scanned, block_exponent(&ahead));
    }

    #[test]
    fn n6_product_limit_and_mark(bits in prop::collection::vec(any::<u32>(), 1..70), factor in any::<u32>(),
        workers in 1..=64usize) {
        let n = world(workers);
        // A factor of any exponent; the exponent is bent into the normal ones.
        let factor = f32::from_bits(factor & 0x007F_FFFF | (factor >> 23).clamp(1, 254) << 23);
        let factor = ScalingFactor::new(factor).expect("a normal factor");
        let chunk: Vec<f32> = bits.into_iter().map(f32::from_bits).collect();
        let limit = largest_below((f64::from(i32::MAX)) / workers as f64);
        let products = chunk.iter().map(|v| (f64::from(*v) * f64::from(factor.get())) as f32);
        let marked = products.clone().any(|x| x.is_nan() || f64::from(x).abs() > limit);
        let expected: Vec<i32> =
            products.map(|x| f64::from(x).clamp(-limit, limit).round_ties_even() as i32).collect();

        let mut wire = vec![0; 4 * chunk.len()];
        prop_assert_eq!(encode_fixed(&chunk, factor, n, &mut wire), marked);
        prop_assert_eq!(words(&wire), expected);
    }

    #[test]
    fn n1_and_broadcast_return_what_was_sent(integers in prop::collection::vec(any::<i32>(), 0..70),
        halves in prop::collection::vec(any::<u16>(), 0..70)) {
        let mut wire = vec![0xA5; 4 * 70];
        encode_integer(&integers, &mut wire);
        let mut back = vec![0; integers.len()];
        decode_integer(&wire, &mut back);
        prop_assert_eq!(&back, &integers);

        let halves: Vec<f16> = halves.into_iter().map(f16::from_bits).collect();
        encode_octets(&halves, &mut wire);
        let mut back = vec![f16::ZERO; halves.len()];
        decode_octets(&wire, &mut back);
        let same = halves.iter().zip(&back).all(|(sent, got)| sent.to_bits() == got.to_bits());
        prop_assert!(same, "{:?} is not {:?}", back, halves);
        prop_assert!(wire[2 * halves.len()..].iter().all(|octet| *octet == 0), "the rest is padding");
    }
}

/// The largest binary32 that is not above `bound`, as binary64.
fn largest_below(bound: f64) -> f64 {
    let nearest = bound as f32;
    f64::from(if f64::from(nearest) > bound { nearest.next_down() } else { nearest })
}

#[test]
fn n6_limit_for_every_world_size() {
    for workers in 1..=WorldSize::MAX {
        let mut wire = [0; 8];
        let unit = ScalingFactor::new(1.0).expect("a normal factor");
        assert!(encode_fixed(&[f32::INFINITY, f32::NAN], unit, world(workers), &mut wire));
        let limit = largest_below(f64::from(i32::MAX) / workers as f64);
        assert_eq!(words(&wire), [limit as i32, 0]);
        // The limit itself is no reason for a mark.
        assert!(!encode_fixed(&[limit as f32], unit, world(workers), &mut wire));
        assert_eq!(words(&wire), [limit as i32, 0]);
    }
}

#[test]
fn n6_halves_are_widened_first_and_rounded_last() {
    let n = world(3);
    let factor = ScalingFactor::new(1000.0).expect("a normal factor");
    let (mut halves, mut brains, mut singles) = ([f16::ZERO; 2], [bf16::ZERO; 2], [0.0f32; 2]);
    let mut wire = [0; 8];
    assert!(!encode_fixed(&[f16::from_f32(0.3), f16::from_f32(-70.0)], factor, n, &mut wire));
    assert_eq!(words(&wire), [300, -70_000]); // 0.3 is 0.30005 in float16
    for reduction in [Reduction::Sum, Reduction::Mean] {
        decode_fixed(&wire, factor, n, reduction, &mut singles);
        decode_fixed(&wire, factor, n, reduction, &mut halves);
        decode_fixed(&wire, factor, n, reduction, &mut brains);
        assert_eq!(halves, singles.map(f16::from_f32));
        assert_eq!(brains, singles.map(bf16::from_f32));
    }
    assert_eq!(singles, [300.0 / 3.0 / 1000.0, -70_000.0 / 3.0 / 1000.0]);
}

#[test]
fn halves_widen_as_half_does() {
    for bits in 0..=u16::MAX {
        let (half, brain) = (f16::from_bits(bits), bf16::from_bits(bits));
        for (ours, theirs) in [(half.widen(), half.to_f32()), (brain.widen(), brain.to_f32())] {
            assert!(ours.to_bits() == theirs.to_bits() || ours.is_nan() && theirs.is_nan(), "{bits:04x}");
        }
    }
}

#[test]
fn halves_narrow_as_half_does() {
    // A step that is prime; and around every half and every midpoint of two.
    let sampled = (0..0x7F80_0000u32).step_by(509);
    let halves = (0..0x7C00u16).flat_map(|bits| {
        let (low, high) = (f16::from_bits(bits).to_f32(), f16::from_bits(bits + 1).to_f32());
        let high = if high.is_finite() { high } else { 65_536.0 };
        let midpoint = ((low + high) / 2.0).to_bits();
        [low.to_bits(), low.to_bits() + 1, midpoint - 1, midpoint, midpoint + 1]
    });
    let brains =
        (0..0x7F80u32).flat_map(|bits| [0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF].map(|low| bits << 16 | low));
    for magnitude in sampled.chain(halves).chain(brains).chain([f32::INFINITY.to_bits()]) {
        for bits in [magnitude, magnitude | 1 << 31] {
            let value = f32::from_bits(bits);
            assert_eq!(f16::narrow(value).to_bits(), f16::from_f32(value).to_bits(), "{bits:08x}");
            assert_eq!(bf16::narrow(value).to_bits(), bf16::from_f32(value).to_bits(), "{bits:08x}");
        }
    }
}

#[test]
fn broadcast_octets_are_the_little_endian_image() {
    let mut wire = [0xA5; 12];
    encode_octets(&[f16::from_bits(0x0201), f16::from_bits(0x0403), f16::from_bits(0x0605)], &mut wire);
    assert_eq!(wire, [1, 2, 3, 4, 5, 6, 0, 0, 0, 0, 0, 0]);
    encode_octets(&[0x0403_0201i32], &mut wire);
    assert_eq!(wire, [1, 2, 3, 4, 0, 0, 0, 0, 0, 0, 0, 0]);
    encode_octets(&[f32::from_bits(0x7F80_0001)], &mut wire); // a signalling NaN stays one
    assert_eq!(wire[..4], [1, 0, 0x80, 0x7F]);
}

#[test]
fn values_that_break_a_rule_cannot_be_built() {
    for factor in [0.0, -1.0, f32::NAN, f32::INFINITY, f32::MIN_POSITIVE / 2.0] {
        assert!(ScalingFactor::new(factor).is_err(), "{factor}");
    }
    for factor in [1.0, f32::MIN_POSITIVE, f32::MAX] {
        assert_eq!(ScalingFactor::new(factor).map(ScalingFactor::bits), Ok(factor.to_bits()));
    }
    for workers in [0, 65, 256, 257, usize::MAX] {
        assert_eq!(WorldSize::new(workers), Err(InvalidId::WorldSize { workers }));
    }
    for workers in 1..=64 {
        let h = (workers as f64).log2().ceil() as u32;
        assert_eq!((world(workers).get(), world(workers).headroom()), (workers as u8, h));
    }
}

#[test]
fn d1_element_codes() {
    assert_eq!([f32::TYPE, f16::TYPE, bf16::TYPE, i32::TYPE].map(|element| element as u8), [0, 1, 2, 3]);
    for code in 0..=u8::MAX {
        let element = ElementType::from_code(code);
        assert_eq!(element.map(|element| element as u8), (code <= 3).then_some(code));
    }
    for (element, size) in [(f32::TYPE, 4), (f16::TYPE, 2), (bf16::TYPE, 2), (i32::TYPE, 4)] {
        assert_eq!(element.octets(), size, "{element}");
    }
}

#[test]
#[should_panic(expected = "a chunk is not longer than its datagram")]
fn a_chunk_longer_than_its_datagram_panics() {
    encode_block(&[1.0f32; 3], 0, world(2), &mut [0; 8]);
}
