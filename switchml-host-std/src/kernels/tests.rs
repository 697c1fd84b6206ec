use half::{bf16, f16};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use super::*;

/// Bit patterns that break arithmetic, and random ones of every magnitude.
fn patterns(len: usize) -> Vec<u32> {
    let mut rng = ChaCha8Rng::seed_from_u64(len as u64);
    let edges = [
        0,
        0x8000_0000,
        1,
        0x8000_0001,
        0x007f_ffff,
        0x0080_0000,
        0x3f80_0000,
        0x4b00_0001,
        0x4eff_ffff,
        0x4f00_0000,
        0xcf00_0000,
        0xcf00_0001,
        0x7f7f_ffff,
        0xff7f_ffff,
        0x7f80_0000,
        0xff80_0000,
        0x7fc0_0000,
        0x7f80_0001,
    ];
    (0..len)
        .map(|_| match rng.next_u32() % 4 {
            0 => edges[rng.next_u32() as usize % edges.len()],
            1 => rng.next_u32(),
            // Of one magnitude: around 1.
            _ => rng.next_u32() & 0x80ff_ffff | 0x3f00_0000,
        })
        .collect()
}

/// The lengths at which vector loops and their remainders differ.
fn lengths() -> impl Iterator<Item = usize> {
    (0..70).chain([127, 128, 255, 256, 257, 2048])
}

fn worlds() -> impl Iterator<Item = WorldSize> {
    [1, 2, 3, 8, 64].into_iter().map(|workers| WorldSize::new(workers).expect("valid"))
}

/// `bits` shows a NaN's sign and payload too.
fn floats_agree<T: Float>(from: fn(u32) -> T, bits: fn(T) -> u32) {
    let shown = |tensor: &[T]| tensor.iter().map(|&element| bits(element)).collect::<Vec<_>>();
    for len in lengths() {
        let all = patterns(len);
        let tame: Vec<u32> = all.iter().map(|bits| bits & 0x80ff_ffff | 0x3f00_0000).collect();
        for chunk in [all, tame] {
            let chunk: Vec<T> = chunk.into_iter().map(from).collect();
            let mut ahead = chunk.clone();
            ahead.reverse();
            let own = numeric::block_exponent(&chunk);
            assert_eq!(block_exponent(&chunk), own);
            let (mut wire, mut portable) = (vec![0xaa; 4 * len + 8], vec![0xaa; 4 * len + 8]);
            let (mut out, mut out_portable) = (vec![T::default(); len], vec![T::default(); len]);
            for world in worlds() {
                for exponent in [own, own.saturating_sub(3), own.saturating_add(9), -128, 126, 127] {
                    encode_block(&chunk, exponent, world, &mut wire);
                    numeric::encode_block(&chunk, exponent, world, &mut portable);
                    assert_eq!(wire, portable);
                    let scanned = encode_block_and_scan(&chunk, exponent, world, &mut wire, &ahead);
                    assert_eq!((scanned, &wire), (own, &portable));
                    for reduction in [Reduction::Sum, Reduction::Mean] {
                        decode_block(&wire, exponent, world, reduction, &mut out);
                        numeric::decode_block(&wire, exponent, world, reduction, &mut out_portable);
                        assert_eq!(shown(&out), shown(&out_portable));
                    }
                }
                for factor in [1.0, 12345.678, 1e-30, 1e30] {
                    let factor = ScalingFactor::new(factor).expect("valid");
                    let marked = encode_fixed(&chunk, factor, world, &mut wire);
                    assert_eq!(marked, numeric::encode_fixed(&chunk, factor, world, &mut portable));
                    assert_eq!(wire, portable);
                    for reduction in [Reduction::Sum, Reduction::Mean] {
                        decode_fixed(&wire, factor, world, reduction, &mut out);
                        numeric::decode_fixed(&wire, factor, world, reduction, &mut out_portable);
                        assert_eq!(shown(&out), shown(&out_portable));
                    }
                }
            }
        }
    }
}

#[test]
fn n7_float32_has_the_portable_bits() {
    floats_agree::<f32>(f32::from_bits, f32::to_bits);
}

#[test]
fn n7_float16_has_the_portable_bits() {
    floats_agree::<f16>(|bits| f16::from_bits((bits >> 16) as u16), |element| element.to_bits().into());
}

#[test]
fn n7_bfloat16_has_the_portable_bits() {
    floats_agree::<bf16>(|bits| bf16::from_bits((bits >> 16) as u16), |element| element.to_bits().into());
}

#[test]
fn n1_integers_and_octets_have_the_portable_bits() {
    for len in lengths() {
        let chunk: Vec<i32> = patterns(len).into_iter().map(|bits| bits as i32).collect();
        let (mut wire, mut portable) = (vec![0xaa; 4 * len + 8], vec![0xaa; 4 * len + 8]);
        let mut out = vec![0; len];
        encode_integer(&chunk, &mut wire);
        numeric::encode_integer(&chunk, &mut portable);
        assert_eq!(wire, portable);
        decode_integer(&wire, &mut out);
        assert_eq!(out, chunk);

        let halves: Vec<f16> = chunk.iter().map(|&bits| f16::from_bits(bits as u16)).collect();
        let mut halves_out = vec![f16::default(); len];
        encode_octets(&halves, &mut wire);
        numeric::encode_octets(&halves, &mut portable);
        assert_eq!(wire, portable);
        decode_octets(&wire, &mut halves_out);
        assert!(halves.iter().zip(&halves_out).all(|(a, b)| a.to_bits() == b.to_bits()));
    }
}

#[test]
fn n1_the_aggregators_kernels_have_the_portable_bits() {
    for len in lengths() {
        let octets: Vec<u8> = patterns(len).into_iter().flat_map(u32::to_be_bytes).collect();
        let (mut sum, mut portable) = (vec![7; len], vec![7; len]);
        (AGGREGATOR.store)(&octets, &mut sum);
        (Kernels::PORTABLE.store)(&octets, &mut portable);
        assert_eq!(sum, portable);
        (AGGREGATOR.add)(&octets, &mut sum);
        (Kernels::PORTABLE.add)(&octets, &mut portable);
        assert_eq!(sum, portable);
        let (mut out, mut out_portable) = (vec![0; 4 * len], vec![0; 4 * len]);
        (AGGREGATOR.emit)(&sum, &mut out);
        (Kernels::PORTABLE.emit)(&portable, &mut out_portable);
        assert_eq!(out, out_portable);
    }
}
