//! The memory that an aggregator's user lends.

use core::net::SocketAddr;

use switchml_proto::aggregator::{Job, Phase, Port, PortEntry};
use switchml_proto::control::{self, JobEntry, MemberEntry};
use switchml_proto::{ChunkSize, JobId, Rank};

/// An aggregator's memory: in each of `LANES` lanes `SLOTS` slots for chunks of up to `K` elements, shared by at most
/// `JOBS` jobs with at most `WORKERS` ranks together.
///
/// `K` is 32, 64, 128, 256, 512, 1024 or 2048; another number does not compile. A slot takes two chunks, each of `4 * K`
/// octets and 24 octets of state. [`aggregator_ram`] tells how much a configuration takes.
#[derive(Debug)]
pub struct AggregatorStorage<
    const SLOTS: usize,
    const K: usize,
    const WORKERS: usize,
    const JOBS: usize = 1,
    const LANES: usize = 1,
> {
    pub(super) lanes: [LaneStorage<SLOTS, K, WORKERS, JOBS>; LANES],
    pub(super) jobs: [JobEntry; JOBS],
    pub(super) members: [MemberEntry; WORKERS],
    pub(super) ports: [[control::PortEntry; WORKERS]; LANES],
}

/// Memory of one lane.
#[derive(Debug)]
pub(super) struct LaneStorage<const SLOTS: usize, const K: usize, const WORKERS: usize, const JOBS: usize> {
    pub(super) phases: [[Phase; 2]; SLOTS],
    pub(super) elements: [[[i32; K]; 2]; SLOTS],
    pub(super) jobs: [Job; JOBS],
    pub(super) ports: [PortEntry; WORKERS],
    pub(super) bound: [Option<Bound>; WORKERS],
}

/// Whose an address is (W-10).
#[derive(Clone, Copy, Debug)]
pub(super) struct Bound {
    pub(super) address: SocketAddr,
    pub(super) job: JobId,
    pub(super) rank: Rank,
    pub(super) port: Port,
}

impl<const SLOTS: usize, const K: usize, const WORKERS: usize, const JOBS: usize, const LANES: usize>
    AggregatorStorage<SLOTS, K, WORKERS, JOBS, LANES>
{
    /// Fresh memory, all of it zero but a few octets of each slot.
    #[must_use]
    pub const fn new() -> Self {
        let _ = Self::CHUNK;
        Self {
            lanes: [const {
                LaneStorage {
                    phases: [[Phase::EMPTY; 2]; SLOTS],
                    elements: [[[0; K]; 2]; SLOTS],
                    jobs: [Job::EMPTY; JOBS],
                    ports: [PortEntry::EMPTY; WORKERS],
                    bound: [None; WORKERS],
                }
            }; LANES],
            jobs: [JobEntry::EMPTY; JOBS],
            members: [MemberEntry::EMPTY; WORKERS],
            ports: [[control::PortEntry::EMPTY; WORKERS]; LANES],
        }
    }

    pub(super) const CHUNK: ChunkSize = match ChunkSize::from_elements(K) {
        Ok(chunk) => chunk,
        Err(_) => panic!("K is 32, 64, 128, 256, 512, 1024 or 2048"),
    };
}

impl<const SLOTS: usize, const K: usize, const WORKERS: usize, const JOBS: usize, const LANES: usize> Default
    for AggregatorStorage<SLOTS, K, WORKERS, JOBS, LANES>
{
    fn default() -> Self {
        Self::new()
    }
}

/// Octets of RAM that an aggregator takes besides its sockets' buffers: its storage and the machines.
#[must_use]
pub const fn aggregator_ram<
    const SLOTS: usize,
    const K: usize,
    const WORKERS: usize,
    const JOBS: usize,
    const LANES: usize,
>() -> usize {
    size_of::<AggregatorStorage<SLOTS, K, WORKERS, JOBS, LANES>>()
        + size_of::<super::Switch<'static, LANES>>()
}
