use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use switchml_proto::WorldSize;
use switchml_proto::numeric::{self, NOT_FINITE};

use super::{AND_SCAN, InstructionSet, ONLY_ENCODE};

/// The chunk sizes of W-2.
const SIZES: [usize; 7] = [32, 64, 128, 256, 512, 1024, 2048];

fn worlds() -> impl Iterator<Item = WorldSize> {
    [1, 2, 3, 4, 5, 8, 9, 33, 64].into_iter().map(|workers| WorldSize::new(workers).expect("valid"))
}

/// Elements that an exponent of `biased` covers: of this magnitude and of all that are smaller, ties between two integers
/// and their neighbours, the largest and the smallest.
fn covered(len: usize, biased: u32, scale: f32, rng: &mut ChaCha8Rng) -> Vec<f32> {
    let largest = biased << 23 | 0x7f_ffff;
    let limited = |bits: u32| bits & 0x8000_0000 | (bits & 0x7fff_ffff).min(largest);
    (0..len)
        .map(|_| {
            let sign = rng.next_u32() & 0x8000_0000;
            let bits = match rng.next_u32() % 8 {
                0 => sign | largest,
                1 => sign | biased << 23,
                2 => sign | (rng.next_u32() % 3),
                3 => rng.next_u32(),
                // A tie, exact unless it is subnormal, and what lies next to it.
                4..6 => {
                    let whole = (rng.next_u32() >> (9 + rng.next_u32() % 23)) as f32;
                    let tie = ((whole + 0.5) / scale).to_bits();
                    sign | (tie + rng.next_u32() % 3).saturating_sub(1)
                }
                _ => sign | biased.saturating_sub(rng.next_u32() % 34) << 23 | rng.next_u32() & 0x7f_ffff,
            };
            f32::from_bits(limited(bits))
        })
        .collect()
}

#[test]
fn n4_rounding_by_instruction_has_the_portable_bits_for_every_exponent() {
    let mut rng = ChaCha8Rng::seed_from_u64(4);
    for set in InstructionSet::all() {
        for biased in 0..=254 {
            let exponent = (biased as i32 - 128) as i8;
            for world in worlds() {
                let scale = numeric::block_scale(exponent, world);
                let chunk = covered(128, biased, scale, &mut rng);
                let ahead = covered(128, rng.next_u32() % 255, scale, &mut rng);
                let (mut wire, mut portable) = ([0xaa; 512], [0xaa; 512]);
                numeric::encode_block(&chunk, exponent, world, &mut portable);
                let scanned = set.encode::<_, AND_SCAN>(&chunk, exponent, world, &mut wire, &ahead);
                assert_eq!(scanned, Some(numeric::block_exponent(&ahead)), "{set:?}");
                assert_eq!(wire, portable, "{set:?}, {exponent}, {world:?}");
                wire.fill(0xaa);
                assert!(set.encode::<_, ONLY_ENCODE>(&chunk, exponent, world, &mut wire, &[]).is_some());
                assert_eq!(wire, portable, "{set:?}, {exponent}, {world:?}");
            }
        }
    }
}

#[test]
fn n4_a_product_out_of_range_is_left_to_the_core_wherever_it_stands() {
    for set in InstructionSet::all() {
        for world in worlds() {
            // Less than 1 in magnitude.
            let exponent = -2;
            let mut wire = [0; 512];
            for value in [1.0, -1.0, 1e30, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, -f32::NAN] {
                for place in 0..128 {
                    let mut chunk = [0.999_999_94, -0.999_999_94].repeat(64);
                    assert!(set.encode::<_, ONLY_ENCODE>(&chunk, exponent, world, &mut wire, &[]).is_some());
                    chunk[place] = value;
                    assert_eq!(set.encode::<_, ONLY_ENCODE>(&chunk, exponent, world, &mut wire, &[]), None);
                }
            }
        }
    }
}

#[test]
fn n2_the_scan_finds_the_largest_magnitude_wherever_it_stands() {
    let world = WorldSize::new(4).expect("valid");
    let mut wire = [0; 512];
    for set in InstructionSet::all() {
        for value in [2.0, -2.0, f32::MAX, f32::INFINITY, f32::NAN, -f32::NAN] {
            for place in 0..128 {
                let mut ahead = [1.999, -1.999].repeat(64);
                ahead[place] = value;
                let scanned = set.encode::<_, AND_SCAN>(&[0.5; 128], -2, world, &mut wire, &ahead);
                assert_eq!(scanned, Some(numeric::block_exponent(&[value])));
            }
        }
    }
}

#[test]
fn n7_whole_chunks_of_float32_have_the_portable_bits_whatever_the_exponent() {
    let mut rng = ChaCha8Rng::seed_from_u64(7);
    for len in SIZES {
        for biased in [0, 1, 100, 127, 254, 255] {
            let chunk = covered(len, biased, 1.0, &mut rng);
            let own = numeric::block_exponent(&chunk);
            let (mut wire, mut portable) = (vec![0xaa; 4 * len], vec![0xaa; 4 * len]);
            for world in worlds() {
                for exponent in [own, own.saturating_sub(3), own.saturating_add(9), -128, 126, NOT_FINITE] {
                    numeric::encode_block(&chunk, exponent, world, &mut portable);
                    crate::kernels::encode_block(&chunk, exponent, world, &mut wire);
                    assert_eq!(wire, portable);
                    wire.fill(0xaa);
                    let scanned =
                        crate::kernels::encode_block_and_scan(&chunk, exponent, world, &mut wire, &chunk);
                    assert_eq!((scanned, &wire), (own, &portable));
                }
            }
        }
    }
}

#[test]
fn w2_each_size_of_a_chunk_has_a_kernel() {
    if InstructionSet::all().next().is_some() {
        assert!(SIZES.into_iter().all(|size| InstructionSet::best_for(size).is_some()));
    }
}

#[test]
fn t1_what_is_no_whole_chunk_of_float32_is_left_to_the_core() {
    let world = WorldSize::new(4).expect("valid");
    let (mut wire, chunk) = ([0; 512], [0.5; 128]);
    for set in InstructionSet::all() {
        assert_eq!(set.encode::<f32, ONLY_ENCODE>(&chunk[..127], -2, world, &mut wire[..508], &[]), None);
        assert_eq!(set.encode::<f32, ONLY_ENCODE>(&chunk[..64], -2, world, &mut wire, &[]), None);
        assert_eq!(set.encode::<f32, ONLY_ENCODE>(&chunk, -2, world, &mut wire[..256], &[]), None);
        assert_eq!(set.encode::<f32, AND_SCAN>(&chunk, -2, world, &mut wire, &chunk[..64]), None);
        let halves = [half::f16::ONE; 128];
        assert_eq!(set.encode::<_, ONLY_ENCODE>(&halves, -1, world, &mut wire, &[]), None);
    }
}
