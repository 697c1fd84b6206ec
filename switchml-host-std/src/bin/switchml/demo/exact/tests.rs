use switchml_proto::WorldSize;
use switchml_proto::numeric::{NO_EXPONENT, Reduction, block_exponent, decode_block, encode_block};

use super::super::input;
use super::{FRACTION, check, exactly};

const CHUNK: usize = 256;

fn inputs(ranks: usize, elements: usize) -> Vec<Vec<f32>> {
    (0..ranks)
        .map(|rank| {
            let mut tensor = vec![0.0; elements];
            input::Input::new(7, 3, rank).fill(&mut tensor);
            tensor
        })
        .collect()
}

/// What an aggregator makes of the inputs.
fn reduced(inputs: &[Vec<f32>]) -> Vec<f32> {
    let world_size = WorldSize::new(inputs.len()).unwrap();
    let mut result = vec![0.0f32; inputs[0].len()];
    for (number, chunk) in result.chunks_mut(CHUNK).enumerate() {
        let blocks: Vec<_> = inputs.iter().map(|input| &input[number * CHUNK..][..chunk.len()]).collect();
        let exponent = blocks.iter().map(|block| block_exponent(block)).max().unwrap_or(NO_EXPONENT);
        let mut sums = vec![0i32; chunk.len()];
        let mut wire = vec![0; 4 * chunk.len()];
        for block in blocks {
            encode_block(block, exponent, world_size, &mut wire);
            for (sum, octets) in sums.iter_mut().zip(wire.as_chunks().0) {
                *sum += i32::from_be_bytes(*octets);
            }
        }
        let wire: Vec<u8> = sums.iter().flat_map(|sum| sum.to_be_bytes()).collect();
        decode_block(&wire, exponent, world_size, Reduction::Sum, chunk);
    }
    result
}

#[test]
fn the_inputs_are_of_many_magnitudes_and_differ_by_rank() {
    let inputs = inputs(2, 100_000);
    let exponents = |tensor: &[f32]| {
        let mut exponents: Vec<_> = tensor.iter().map(|value| value.to_bits() >> 23 & 0xFF).collect();
        exponents.sort_unstable();
        exponents.dedup();
        exponents
    };
    let found = exponents(&inputs[0]);
    assert!(found.len() > 40 && found[0] == 0, "{found:?}");
    assert!(
        found[1] as i32 - 127 >= input::SMALLEST && *found.last().unwrap() as i32 - 127 <= input::LARGEST
    );
    assert!(inputs[0].iter().any(|&value| value > 0.0) && inputs[0].iter().any(|&value| value < 0.0));
    assert_ne!(inputs[0], inputs[1]);
}

#[test]
fn an_input_made_in_parts_is_the_same() {
    let whole = &inputs(1, 20_000)[0];
    let (mut input, mut parts) = (input::Input::new(7, 3, 0), vec![0.0; 20_000]);
    for part in parts.chunks_mut(777) {
        input.fill(part);
    }
    assert_eq!(*whole, parts);
}

#[test]
fn n4_what_the_rules_give_is_within_the_bound() {
    for ranks in [1, 2, 3, 8, 33] {
        let inputs = inputs(ranks, 30_000);
        let checked = check(&inputs, &reduced(&inputs), CHUNK).unwrap();
        assert_eq!(checked.elements, 30_000);
        assert!(
            checked.worst <= 1.0 && checked.worst > 0.3 && checked.exact > 0,
            "{ranks} ranks: {checked:?}"
        );
    }
}

#[test]
fn a_result_that_is_off_is_found() {
    let inputs = inputs(4, 20_000);
    let right = reduced(&inputs);
    let largest = (0..right.len()).max_by(|&a, &b| right[a].abs().total_cmp(&right[b].abs())).unwrap();
    let zero = right.iter().position(|&value| value == 0.0).unwrap();
    for (element, wrong) in [
        (largest, -right[largest]),
        (largest, f32::from_bits(right[largest].to_bits() + 40)),
        (largest, f32::NAN),
        (largest, f32::INFINITY),
        (zero, 1e-30),
        (right.len() - 1, right[right.len() - 1] + 1.0),
    ] {
        let mut result = right.clone();
        result[element] = wrong;
        let found = check(&inputs, &result, CHUNK).unwrap_err();
        assert_eq!(found.element, element, "{found:?}");
        assert_eq!(found.result.to_bits(), wrong.to_bits());
    }
}

#[test]
fn one_contribution_too_many_or_too_few_is_found() {
    let inputs = inputs(3, 10_000);
    assert!(check(&inputs, &reduced(&inputs[..2]), CHUNK).is_err());
    let twice: Vec<_> = inputs.iter().chain(&inputs[..1]).cloned().collect();
    assert!(check(&inputs, &reduced(&twice), CHUNK).is_err());
}

#[test]
fn fixed_point_numbers_are_exact() {
    let unit = |value: f64| (value * f64::from(FRACTION).exp2()) as i128;
    for value in [0.0f32, -0.0, 1.0, -1.5, 3.25e-9, 1023.75] {
        assert_eq!(exactly(value), Some(unit(f64::from(value))), "{value}");
    }
    for value in [f32::NAN, f32::INFINITY, f32::MAX, f32::MIN_POSITIVE, f32::from_bits(1)] {
        assert_eq!(exactly(value), None, "{value}");
    }
}
