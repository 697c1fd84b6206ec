//! `vectors/numbers.json`: every number that an independent model computed from the rules, to the bit.

use half::{bf16, f16};
use serde::Deserialize;
use switchml_proto::WorldSize;
use switchml_proto::numeric::{
    Float, Reduction, ScalingFactor, block_exponent, decode_block, decode_fixed, decode_integer,
    encode_block, encode_fixed, encode_integer,
};

/// What the padding behind a chunk holds before it is written.
const DIRT: u8 = 0xA5;
/// Two words more than the chunk needs.
const PADDING: usize = 8;

#[derive(Deserialize)]
struct Vectors {
    cases: Vec<Block>,
    half: Vec<Half>,
    fixed: Vec<Fixed>,
    integer: Vec<Integer>,
}

#[derive(Deserialize)]
struct Block {
    name: String,
    world_size: usize,
    inputs: Vec<Vec<String>>,
    worker_exponents: Vec<i8>,
    exponent: i8,
    quantized: Vec<Vec<i32>>,
    sum: Vec<i32>,
    result: Vec<String>,
    mean: Vec<String>,
}

#[derive(Deserialize)]
struct Half {
    name: String,
    element: String,
    world_size: usize,
    inputs: Vec<Vec<String>>,
    result: Vec<String>,
    mean: Vec<String>,
}

#[derive(Deserialize)]
struct Fixed {
    name: String,
    world_size: usize,
    factor: String,
    inputs: Vec<Vec<String>>,
    marked: Vec<bool>,
    quantized: Vec<Vec<i32>>,
    sum: Vec<i32>,
    result: Vec<String>,
    mean: Vec<String>,
}

#[derive(Deserialize)]
struct Integer {
    world_size: usize,
    inputs: Vec<Vec<i32>>,
    sum: Vec<i32>,
}

fn vectors() -> Vectors {
    serde_json::from_str(include_str!("vectors/numbers.json")).expect("the vectors are well-formed")
}

/// An element type as the vectors write it: its pattern in hexadecimal digits.
trait Pattern: Float {
    fn parse(digits: &str) -> Self;
    fn digits(self) -> String;
}

impl Pattern for f32 {
    fn parse(digits: &str) -> Self {
        Self::from_bits(u32::from_str_radix(digits, 16).expect("eight digits"))
    }

    fn digits(self) -> String {
        format!("{:08x}", self.to_bits())
    }
}

impl Pattern for f16 {
    fn parse(digits: &str) -> Self {
        Self::from_bits(u16::from_str_radix(digits, 16).expect("four digits"))
    }

    fn digits(self) -> String {
        format!("{:04x}", self.to_bits())
    }
}

impl Pattern for bf16 {
    fn parse(digits: &str) -> Self {
        Self::from_bits(u16::from_str_radix(digits, 16).expect("four digits"))
    }

    fn digits(self) -> String {
        format!("{:04x}", self.to_bits())
    }
}

fn tensor<T: Pattern>(patterns: &[String]) -> Vec<T> {
    patterns.iter().map(|digits| T::parse(digits)).collect()
}

fn patterns<T: Pattern>(tensor: &[T]) -> Vec<String> {
    tensor.iter().map(|element| element.digits()).collect()
}

/// The words that `encode` writes for a chunk, after a look at the padding behind them.
fn written(elements: usize, encode: impl FnOnce(&mut [u8])) -> Vec<i32> {
    let mut wire = vec![DIRT; 4 * elements + PADDING];
    encode(&mut wire);
    let (chunk, padding) = wire.split_at(4 * elements);
    assert_eq!(padding, [0; PADDING], "padding is zero");
    chunk.as_chunks().0.iter().map(|word| i32::from_be_bytes(*word)).collect()
}

/// What an aggregator returns for these words of all ranks, with some octets behind that must not be read.
fn aggregate(words: &[Vec<i32>]) -> Vec<u8> {
    let mut sums = vec![0i32; words[0].len()];
    for rank in words {
        for (sum, word) in sums.iter_mut().zip(rank) {
            *sum = sum.wrapping_add(*word);
        }
    }
    sums.iter().flat_map(|sum| sum.to_be_bytes()).chain([DIRT; PADDING]).collect()
}

fn sums(wire: &[u8], elements: usize) -> Vec<i32> {
    let mut sums = vec![0; elements];
    decode_integer(wire, &mut sums);
    sums
}

/// Runs a block through all ranks: the agreed exponent, the words of each, and the results as sum and mean.
fn reduce_block<T: Pattern>(inputs: &[Vec<T>], n: WorldSize) -> (i8, Vec<Vec<i32>>, [Vec<String>; 2]) {
    let exponent = inputs.iter().map(|chunk| block_exponent(chunk)).max().expect("at least one rank");
    let encode = |chunk: &Vec<T>| written(chunk.len(), |wire| encode_block(chunk, exponent, n, wire));
    let words: Vec<_> = inputs.iter().map(encode).collect();
    let wire = aggregate(&words);
    let results = [Reduction::Sum, Reduction::Mean].map(|reduction| {
        let mut chunk = inputs[0].clone(); // in place
        decode_block(&wire, exponent, n, reduction, &mut chunk);
        patterns(&chunk)
    });
    (exponent, words, results)
}

#[test]
fn n2_to_n5_block_floating_point() {
    for case in vectors().cases {
        let n = WorldSize::new(case.world_size).expect("a valid world size");
        let inputs: Vec<Vec<f32>> = case.inputs.iter().map(|rank| tensor(rank)).collect();
        let exponents: Vec<i8> = inputs.iter().map(|chunk| block_exponent(chunk)).collect();
        assert_eq!(exponents, case.worker_exponents, "{}", case.name);

        let (exponent, words, [result, mean]) = reduce_block(&inputs, n);
        assert_eq!(exponent, case.exponent, "{}", case.name);
        assert_eq!(words, case.quantized, "{}", case.name);
        assert_eq!(sums(&aggregate(&words), case.sum.len()), case.sum, "{}", case.name);
        assert_eq!(result, case.result, "{}", case.name);
        assert_eq!(mean, case.mean, "{}", case.name);
    }
}

#[test]
fn n2_to_n5_half_precision() {
    fn check<T: Pattern>(case: &Half) {
        let n = WorldSize::new(case.world_size).expect("a valid world size");
        let inputs: Vec<Vec<T>> = case.inputs.iter().map(|rank| tensor(rank)).collect();
        let (_, _, [result, mean]) = reduce_block(&inputs, n);
        assert_eq!(result, case.result, "{}", case.name);
        assert_eq!(mean, case.mean, "{}", case.name);
    }
    for case in vectors().half {
        match case.element.as_str() {
            "f16" => check::<f16>(&case),
            "bf16" => check::<bf16>(&case),
            other => panic!("no element type {other}"),
        }
    }
}

#[test]
fn n6_fixed_scaling_factor() {
    for case in vectors().fixed {
        let n = WorldSize::new(case.world_size).expect("a valid world size");
        let factor = ScalingFactor::new(f32::parse(&case.factor)).expect("a valid factor");
        let inputs: Vec<Vec<f32>> = case.inputs.iter().map(|rank| tensor(rank)).collect();
        let mut marked = Vec::new();
        let mut words = Vec::new();
        for chunk in &inputs {
            let encode = |wire: &mut [u8]| marked.push(encode_fixed(chunk, factor, n, wire));
            words.push(written(chunk.len(), encode));
        }
        assert_eq!(marked, case.marked, "{}", case.name);
        assert_eq!(words, case.quantized, "{}", case.name);

        let wire = aggregate(&words);
        assert_eq!(sums(&wire, case.sum.len()), case.sum, "{}", case.name);
        for (reduction, expected) in [(Reduction::Sum, &case.result), (Reduction::Mean, &case.mean)] {
            let mut chunk = inputs[0].clone();
            decode_fixed(&wire, factor, n, reduction, &mut chunk);
            assert_eq!(&patterns(&chunk), expected, "{} {reduction}", case.name);
        }
    }
}

#[test]
fn n1_integers() {
    for case in vectors().integer {
        assert_eq!(case.inputs.len(), case.world_size);
        let encode = |chunk: &Vec<i32>| written(chunk.len(), |wire| encode_integer(chunk, wire));
        let words: Vec<_> = case.inputs.iter().map(encode).collect();
        assert_eq!(words, case.inputs);
        assert_eq!(sums(&aggregate(&words), case.sum.len()), case.sum);
    }
}
