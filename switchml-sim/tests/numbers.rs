//! N-2 to N-5 against exact arithmetic: every block exponent, every number of workers.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use switchml_proto::numeric::{ElementType, Reduction, block_exponent, decode_block, encode_block};
use switchml_proto::worker::{Collective, Conversion};
use switchml_proto::{ChunkSize, WorldSize};
use switchml_sim::dice::Dice;
use switchml_sim::oracle::{deviation, reduced};
use switchml_sim::tensors::{Call, Elements};

/// Elements of a block here.
const LEN: usize = 4;

/// A number of the given biased exponent, or a smaller one.
fn number(dice: &mut Dice, biased: u32) -> f32 {
    let smaller = dice.pick(&[0, 0, 1, 8, 24, 40, 300]).min(biased);
    let random = dice.bits() as u32;
    let mantissa = dice.pick(&[0, 1, 0x40_0000, 0x7f_ffff, random & 0x7f_ffff]);
    f32::from_bits((random >> 31) << 31 | (biased - smaller) << 23 | mantissa)
}

fn through_the_wire(inputs: &[Vec<f32>], exponent: i8, reduction: Reduction) -> Vec<f32> {
    let world_size = WorldSize::new(inputs.len()).unwrap();
    let mut sums = vec![0_i32; ChunkSize::MIN.elements()];
    let mut wire = vec![0; ChunkSize::MIN.octets()];
    for input in inputs {
        encode_block(input, exponent, world_size, &mut wire);
        for (sum, octets) in sums.iter_mut().zip(wire.as_chunks().0) {
            *sum = sum.checked_add(i32::from_be_bytes(*octets)).expect("N-4: the sum cannot overflow");
        }
    }
    let wire: Vec<_> = sums.iter().flat_map(|sum| sum.to_be_bytes()).collect();
    let mut result = vec![0.0; LEN];
    decode_block(&wire, exponent, world_size, reduction, &mut result);
    result
}

#[test]
fn n2_to_n5_every_exponent_and_every_world_size_to_the_bit_and_within_the_bound() {
    let mut dice = Dice::new(1);
    for biased in 0..=254 {
        for workers in 1..=64 {
            let mut inputs: Vec<Vec<f32>> =
                (0..workers).map(|_| (0..LEN).map(|_| number(&mut dice, biased)).collect()).collect();
            // Some rank has the largest exponent.
            inputs[dice.below(workers) as usize][0] = f32::from_bits(biased << 23 | 0x7f_ffff);
            let exponent = inputs.iter().map(|input| block_exponent(input)).max().unwrap();
            assert_eq!(i64::from(exponent), i64::from(biased) - 128, "N-2");

            for i in 0..LEN {
                let values: Vec<_> = inputs.iter().map(|input| input[i]).collect();
                let found = deviation(&values, exponent);
                assert!(found.units <= 0.5 && !found.clamped, "N-4: {found:?} of {values:?}");
            }
            for reduction in [Reduction::Sum, Reduction::Mean] {
                let element = ElementType::Float32;
                let collective =
                    Collective::all_reduce(LEN as u64, element, reduction, Conversion::Block).unwrap();
                let call =
                    Call { collective, inputs: inputs.iter().cloned().map(Elements::Float32).collect() };
                let got = Elements::Float32(through_the_wire(&inputs, exponent, reduction)).bits();
                assert_eq!(got, reduced(&call, ChunkSize::MIN).bits(), "N-5: biased {biased}, n = {workers}");
            }
        }
    }
}
