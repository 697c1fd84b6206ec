//! Conversion between float32 and the wire, each way against a copy of as many octets (N-7).

use core::hint::black_box;
use core::time::Duration;

use switchml_proto::WorldSize;
use switchml_proto::numeric::Reduction;

use super::aligned::Aligned;
use super::figure::{Figure, Limit, Place, Timing};
use super::measure::{in_turn, time};
use super::{CHUNK, fill, mebibytes};
use switchml_host_std::kernels;

/// Datagrams of one super-packet, which is what a worker writes to and reads from over and over again.
const SUPER_PACKET: usize = 64;

/// What is converted, and what that should cost.
#[derive(Clone, Copy)]
pub(super) struct Setting {
    pub(super) place: Place,
    /// Octets of the tensor, and of its wire.
    pub(super) octets: usize,
    /// Chunks that the exponent of a chunk is needed before the chunk itself (T-3).
    pub(super) window: usize,
    pub(super) repetitions: usize,
}

impl Setting {
    const fn limit(self) -> Limit {
        match self.place {
            Place::InCache => Limit { aim: 1.2, limit: 3.0 },
            _ => Limit { aim: 1.05, limit: 2.6 },
        }
    }
}

struct Conversion {
    tensor: Aligned<f32>,
    /// As long as the tensor, so that it is in memory or in the cache as that is.
    wire: Aligned<u8>,
    exponents: Vec<i8>,
    copy: [Aligned<u8>; 2],
    window: usize,
    world_size: WorldSize,
    /// Small tensors are passed over several times, so that reading the clock does not matter.
    times: usize,
}

/// Converts a tensor, a chunk at a time, there and back.
pub(super) fn run(setting: Setting, world_size: WorldSize) -> [Figure; 2] {
    let Setting { place, octets, window, repetitions } = setting;
    let mut tensor = Aligned::new(0.0, octets / 4);
    fill(&mut tensor, 0);
    let mut conversion = Conversion {
        wire: Aligned::new(0, octets),
        exponents: vec![0; tensor.len().div_ceil(CHUNK.elements())],
        copy: [Aligned::new(1, octets), Aligned::new(0, octets)],
        tensor,
        window,
        world_size,
        times: (4_usize << 20).div_ceil(octets),
    };
    let timings = in_turn(
        repetitions,
        &mut conversion,
        [
            Conversion::encode,
            Conversion::decode,
            Conversion::copy,
            Conversion::copy_chunks,
            Conversion::encode_in_cache,
            Conversion::decode_in_cache,
        ],
    );
    let [encode, decode, copy, copy_chunks, encode_in_cache, decode_in_cache] =
        timings.map(|spread| spread.part(conversion.times));
    let size = mebibytes(octets);
    let figure = |name: &str, converted, converted_in_cache| {
        let converted = vec![Timing::new(format!("{size} and a wire as long"), converted)];
        let copied = vec![Timing::new(format!("copy of {size}, all at once"), copy)];
        Figure::ratio(name, place, Some(setting.limit()), converted, copied)
            .beside(Timing::new("beside it: copy, a chunk at a time", copy_chunks))
            .beside(Timing::new("beside it: with 64 datagrams, in cache", converted_in_cache))
    };
    [
        figure("conversion of float32 to the wire, with scan", encode, encode_in_cache),
        figure("conversion of float32 from the wire", decode, decode_in_cache),
    ]
}

impl Conversion {
    fn encode(&mut self) -> Duration {
        self.encode_to(self.exponents.len())
    }

    fn decode(&mut self) -> Duration {
        self.decode_from(self.exponents.len())
    }

    fn encode_in_cache(&mut self) -> Duration {
        self.encode_to(SUPER_PACKET)
    }

    fn decode_in_cache(&mut self) -> Duration {
        self.decode_from(SUPER_PACKET)
    }

    /// As a worker does it: the scan of a chunk rides along with the conversion of the one a window before (T-3).
    fn encode_to(&mut self, datagrams: usize) -> Duration {
        let len = CHUNK.elements();
        let ahead = self.window.min(self.exponents.len());
        time(|| {
            for _ in 0..self.times {
                let tensor = black_box(&*self.tensor);
                for (exponent, chunk) in self.exponents[..ahead].iter_mut().zip(tensor.chunks(len)) {
                    *exponent = kernels::block_exponent(chunk);
                }
                let mut number = 0;
                for chunks in tensor.chunks(datagrams * len) {
                    for (chunk, wire) in chunks.chunks(len).zip(self.wire.chunks_mut(4 * len)) {
                        let exponent = self.exponents[number];
                        match self.exponents.get_mut(number + ahead) {
                            Some(exponent_ahead) => {
                                let first = (number + ahead) * len;
                                let ahead = first..first + len;
                                kernels::fetch_ahead(tensor, ahead.clone());
                                *exponent_ahead = kernels::encode_block_and_scan(
                                    chunk,
                                    exponent,
                                    self.world_size,
                                    wire,
                                    &tensor[ahead],
                                );
                            }
                            None => kernels::encode_block(chunk, exponent, self.world_size, wire),
                        }
                        number += 1;
                    }
                }
                black_box(&mut self.wire);
            }
        })
    }

    fn decode_from(&mut self, datagrams: usize) -> Duration {
        let len = CHUNK.elements();
        time(|| {
            for _ in 0..self.times {
                let wire = black_box(&*self.wire);
                let exponents = self.exponents.chunks(datagrams);
                for (chunks, exponents) in self.tensor.chunks_mut(datagrams * len).zip(exponents) {
                    let wires = wire.chunks(4 * len);
                    for ((chunk, &exponent), wire) in chunks.chunks_mut(len).zip(exponents).zip(wires) {
                        kernels::decode_block(wire, exponent, self.world_size, Reduction::Sum, chunk);
                    }
                }
                black_box(&mut self.tensor);
            }
        })
    }

    fn copy(&mut self) -> Duration {
        let [from, to] = &mut self.copy;
        time(|| (0..self.times).for_each(|_| black_box(&mut *to).copy_from_slice(black_box(from))))
    }

    fn copy_chunks(&mut self) -> Duration {
        let [from, to] = &mut self.copy;
        let len = 4 * CHUNK.elements();
        time(|| {
            for _ in 0..self.times {
                for (from, to) in from.chunks(len).zip(to.chunks_mut(len)) {
                    black_box(to).copy_from_slice(black_box(from));
                }
            }
        })
    }
}
