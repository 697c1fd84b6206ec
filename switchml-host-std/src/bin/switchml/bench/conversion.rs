//! Conversion between float32 and the wire, against copies of as many octets (N-7).

use core::hint::black_box;
use core::time::Duration;

use switchml_proto::WorldSize;
use switchml_proto::numeric::Reduction;

use super::aligned::Aligned;
use super::figure::{Figure, Limit, Place, Timing};
use super::measure::{in_turn, time};
use super::{CHUNK, WINDOW, fill, mebibytes};
use switchml_host_std::kernels;

const LIMIT: Limit = Limit { aim: 1.3, limit: 2.6 };

struct Conversion {
    tensor: Aligned<f32>,
    wire: Aligned<u8>,
    exponents: Vec<i8>,
    copy: [Aligned<u8>; 2],
    world_size: WorldSize,
    /// Small tensors are passed over several times, so that reading the clock does not matter.
    times: usize,
}

/// Converts a tensor of `octets` octets, a chunk at a time.
pub(super) fn run(place: Place, octets: usize, repetitions: usize, world_size: WorldSize) -> Figure {
    let mut tensor = Aligned::new(0.0, octets / 4);
    fill(&mut tensor, 0);
    let mut conversion = Conversion {
        wire: Aligned::new(0, octets),
        exponents: vec![0; tensor.len().div_ceil(CHUNK.elements())],
        copy: [Aligned::new(1, octets), Aligned::new(0, octets)],
        tensor,
        world_size,
        times: (4_usize << 20).div_ceil(octets),
    };
    let timings = in_turn(
        repetitions,
        &mut conversion,
        [Conversion::encode, Conversion::decode, Conversion::copy, Conversion::copy_back],
    );
    let [to_wire, from_wire, copy, copy_back] = timings.map(|spread| spread.part(conversion.times));
    let size = mebibytes(octets);
    Figure::ratio(
        "conversion of float32 to the wire and back",
        place,
        Some(LIMIT),
        vec![
            Timing::new(format!("to the wire, with the scan for exponents, {size}"), to_wire),
            Timing::new(format!("back to the tensor, {size}"), from_wire),
        ],
        vec![Timing::new(format!("copy of {size}"), copy), Timing::new("copy back", copy_back)],
    )
}

impl Conversion {
    /// As a worker does it: the exponent of a chunk is needed a window before the chunk itself (T-3).
    fn encode(&mut self) -> Duration {
        let chunk = CHUNK.elements();
        let ahead = usize::from(WINDOW.get()).min(self.exponents.len());
        time(|| {
            for _ in 0..self.times {
                let tensor = black_box(&*self.tensor);
                for (exponent, chunk) in self.exponents[..ahead].iter_mut().zip(tensor.chunks(chunk)) {
                    *exponent = kernels::block_exponent(chunk);
                }
                let wires = self.wire.chunks_mut(4 * chunk);
                for (number, (elements, wire)) in tensor.chunks(chunk).zip(wires).enumerate() {
                    let exponent = self.exponents[number];
                    match self.exponents.get_mut(number + ahead) {
                        Some(exponent_ahead) => {
                            let ahead = &tensor[(number + ahead) * chunk..][..chunk];
                            *exponent_ahead = kernels::encode_block_and_scan(
                                elements,
                                exponent,
                                self.world_size,
                                wire,
                                ahead,
                            );
                        }
                        None => kernels::encode_block(elements, exponent, self.world_size, wire),
                    }
                }
                black_box(&mut self.wire);
            }
        })
    }

    fn decode(&mut self) -> Duration {
        let chunk = CHUNK.elements();
        time(|| {
            for _ in 0..self.times {
                let wires = black_box(&*self.wire).chunks(4 * chunk);
                for ((elements, wire), &exponent) in
                    self.tensor.chunks_mut(chunk).zip(wires).zip(&self.exponents)
                {
                    kernels::decode_block(wire, exponent, self.world_size, Reduction::Sum, elements);
                }
                black_box(&mut self.tensor);
            }
        })
    }

    fn copy(&mut self) -> Duration {
        let [from, to] = &mut self.copy;
        time(|| (0..self.times).for_each(|_| black_box(&mut *to).copy_from_slice(black_box(from))))
    }

    fn copy_back(&mut self) -> Duration {
        let [to, from] = &mut self.copy;
        time(|| (0..self.times).for_each(|_| black_box(&mut *to).copy_from_slice(black_box(from))))
    }
}
