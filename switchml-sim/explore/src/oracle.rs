//! What each packet must carry and each result must be, from the protocol's text alone.
//!
//! Contributions are symbolic. In chunk g of rank w, element 0 is 256^w: its sum counts how often each rank is in it.
//! Element 1 is (g + 1) * 256^w: its sum tells which chunk of each rank it is. Element 2 has an exponent that differs
//! from chunk to chunk, and is largest at another rank each time, so that a chunk coded with another chunk's exponent
//! becomes another sum.

use core::ops::Range;

use switchml_proto::worker::CollectiveId;

use crate::scenario::{CHUNK, Form, Scenario, Tensor};

/// Symbols at the start of each chunk; what follows is zero.
const SYMBOLS: usize = 3;

/// An exponent octet that tells nothing (W-6).
const NOTHING: i8 = -128;

/// All that is known of one scenario.
#[derive(Debug)]
pub(crate) struct Oracle {
    pub(crate) lists: Vec<RankList>,
    /// Packets before the first one on which the members do not agree.
    pub(crate) agreed: u32,
    /// By number of the packet, for those that are agreed.
    results: Vec<ResultOf>,
    chunks: Vec<Chunk>,
    workers: usize,
}

/// What one rank calls.
#[derive(Debug)]
pub(crate) struct RankList {
    pub(crate) tensors: Vec<Tensor>,
    pub(crate) packets: u32,
    /// Number of each tensor's first chunk, over the list.
    first_chunks: Vec<usize>,
}

/// What the aggregator must answer to a packet.
#[derive(Debug)]
pub(crate) struct ResultOf {
    pub(crate) collective: CollectiveId,
    pub(crate) exponent: i8,
    /// Empty without elements.
    pub(crate) elements: Vec<u8>,
    /// Its number in the list, if it carries one.
    pub(crate) chunk: Option<usize>,
}

/// A chunk of the list.
#[derive(Clone, Debug)]
pub(crate) struct Chunk {
    pub(crate) form: Form,
    /// Of its tensor.
    pub(crate) range: Range<u64>,
    /// The exponent that the ranks must agree on.
    pub(crate) agreed: i8,
    pub(crate) sums: [i64; SYMBOLS],
}

impl Oracle {
    pub(crate) fn new(scenario: &Scenario) -> Self {
        let workers = scenario.workers;
        let window = scenario.window;
        let chunks = chunks(&scenario.tensors, workers);
        let mut results = Vec::new();
        let mut first = 0;
        for (tensor, id) in scenario.tensors.iter().zip(0..) {
            for packet in 0..tensor.packets(window) {
                let (chunk, ahead) = content(*tensor, packet, window as u32);
                let number = |chunk: u32| first + chunk as usize;
                results.push(ResultOf {
                    collective: CollectiveId(id),
                    exponent: ahead.map_or(NOTHING, |chunk| chunks[number(chunk)].agreed),
                    elements: chunk.map_or(Vec::new(), |chunk| sum(&chunks[number(chunk)], workers)),
                    chunk: chunk.map(number),
                });
            }
            first += tensor.chunks as usize;
        }
        let lists: Vec<_> = (0..workers).map(|rank| RankList::new(scenario.list(rank), window)).collect();
        let common = lists.iter().map(|list| common(&scenario.tensors, &list.tensors)).min();
        let agreed =
            scenario.tensors.iter().take(common.unwrap_or(0)).map(|tensor| tensor.packets(window)).sum();
        results.truncate(agreed as usize);
        Self { lists, agreed, results, chunks, workers }
    }

    /// What packet `number` must be answered; nothing if the members do not agree on it.
    pub(crate) fn result(&self, number: u32) -> Option<&ResultOf> {
        self.results.get(number as usize)
    }

    pub(crate) fn chunk(&self, number: usize) -> &Chunk {
        &self.chunks[number]
    }

    /// The number of the chunk that begins at element `start` of a tensor of `rank`.
    pub(crate) fn chunk_number(&self, rank: usize, collective: CollectiveId, start: u64) -> usize {
        self.lists[rank].first_chunks[collective.0 as usize] + start as usize / CHUNK.elements()
    }

    /// What `rank` has in a chunk of its list, in a tensor of that form.
    pub(crate) fn contribution(&self, rank: usize, chunk: usize, form: Form) -> [i64; SYMBOLS] {
        contribution(rank, chunk, form, self.workers)
    }
}

impl RankList {
    fn new(tensors: &[Tensor], window: usize) -> Self {
        let first_chunks = tensors.iter().scan(0, |next, tensor| {
            let first = *next;
            *next += tensor.chunks as usize;
            Some(first)
        });
        Self {
            tensors: tensors.to_vec(),
            packets: tensors.iter().map(|tensor| tensor.packets(window)).sum(),
            first_chunks: first_chunks.collect(),
        }
    }
}

fn contribution(rank: usize, chunk: usize, form: Form, workers: usize) -> [i64; SYMBOLS] {
    let unit = 1 << (8 * rank);
    let last = match form {
        Form::Integer => -unit,
        Form::Block if chunk % workers == rank => 1 << largest(chunk),
        Form::Block => 1 << SMALLEST,
    };
    [unit, (chunk as i64 + 1) * unit, last]
}

/// Above the other symbols, which are below 2^22.
const SMALLEST: usize = 22;

/// The power of two in the largest contribution to a chunk: seven of them, each unlike the next ones.
fn largest(chunk: usize) -> usize {
    SMALLEST + 3 * chunk % 7
}

/// T-3: which chunk a packet carries, and of which one it tells the exponent.
fn content(tensor: Tensor, packet: u32, window: u32) -> (Option<u32>, Option<u32>) {
    let Tensor { form, chunks } = tensor;
    match form {
        _ if chunks == 0 => (None, None),
        Form::Integer => (Some(packet), None),
        Form::Block => {
            (packet.checked_sub(chunks.min(window)), Some(packet).filter(|&packet| packet < chunks))
        }
    }
}

fn chunks(tensors: &[Tensor], workers: usize) -> Vec<Chunk> {
    let all = tensors.iter().flat_map(|&tensor| (0..tensor.chunks).map(move |chunk| (tensor, chunk)));
    all.enumerate()
        .map(|(number, (tensor, chunk))| {
            let start = u64::from(chunk) * CHUNK.elements() as u64;
            let end = (start + CHUNK.elements() as u64).min(tensor.collective().len());
            let mut sums = [0; SYMBOLS];
            for rank in 0..workers {
                let contribution = contribution(rank, number, tensor.form, workers);
                sums.iter_mut().zip(contribution).for_each(|(sum, x)| *sum += x);
            }
            // The biased exponent of 2^x is x + 127 (N-2).
            let agreed = match tensor.form {
                Form::Integer => NOTHING,
                Form::Block => (largest(number) as i32 + 127 - 128) as i8,
            };
            Chunk { form: tensor.form, range: start..end, agreed, sums }
        })
        .collect()
}

/// N-1 and N-4, for contributions that they represent exactly.
fn sum(chunk: &Chunk, workers: usize) -> Vec<u8> {
    let scale = match chunk.form {
        Form::Integer => 0,
        Form::Block => {
            let headroom = workers.next_power_of_two().trailing_zeros() as i32;
            31 - headroom - (i32::from(chunk.agreed) + 128 - 126)
        }
    };
    let mut octets = vec![0; CHUNK.octets()];
    for (word, sum) in octets.chunks_exact_mut(4).zip(chunk.sums) {
        let scaled = i32::try_from(sum << scale).expect("the sum of what is in range is in range");
        word.copy_from_slice(&scaled.to_be_bytes());
    }
    octets
}

/// Tensors at the start that two lists have in common.
fn common(one: &[Tensor], other: &[Tensor]) -> usize {
    one.iter().zip(other).take_while(|(one, other)| one == other).count()
}
