//! The memory that the caller lends to an aggregator.

use core::fmt;

use super::{Counters, Session};
use crate::ids::{ChunkSize, Rank, Seq, WorkerSet};
use crate::wire::PayloadSize;

/// The memory that the caller lends to an aggregator; arrays in a `static`, or boxed slices.
///
/// An aggregator has as many slots as half the phases. A lane with one job of the default window and chunk
/// size takes `Storage::phases(128)` phases and `Storage::elements(128, ChunkSize::DEFAULT)` elements, 260
/// KiB together.
#[derive(Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[allow(clippy::exhaustive_structs, reason = "the caller builds it")]
pub struct Storage<'p> {
    /// State of each version of each slot: two for a slot.
    pub phases: &'p mut [Phase],
    /// The sums: the largest chunk for each phase.
    pub elements: &'p mut [i32],
    /// Entries for jobs: one for each that may be served at the same time, at most 256.
    pub jobs: &'p mut [Job],
    /// Entries for members: one for each rank of each job, at most 65,536.
    pub ports: &'p mut [PortEntry],
}

impl Storage<'_> {
    /// Phases that `slots` slots take.
    #[must_use]
    pub const fn phases(slots: usize) -> usize {
        slots.saturating_mul(2)
    }

    /// Elements that `slots` slots take for chunks of up to `largest_chunk`.
    #[must_use]
    pub const fn elements(slots: usize, largest_chunk: ChunkSize) -> usize {
        Self::phases(slots).saturating_mul(largest_chunk.elements())
    }
}

/// State of one version of one slot, 16 octets; its elements lie elsewhere.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Phase {
    /// Who has contributed. None: there was no phase yet, and the seq is one that never comes.
    pub(super) seen: WorkerSet,
    pub(super) seq: Seq,
    pub(super) size: PayloadSize,
    pub(super) exponent: i8,
    pub(super) digest: i8,
}

const _: () = assert!(size_of::<Phase>() <= 24);

impl Phase {
    /// A phase of no job.
    pub const EMPTY: Self = Self::before(Seq(0));

    /// A phase that holds nothing, and accepts nothing for `seq`.
    pub(super) const fn before(seq: Seq) -> Self {
        Self { seen: WorkerSet::EMPTY, seq, size: PayloadSize::ExponentOnly, exponent: 0, digest: 0 }
    }
}

/// Entry of one job.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Job {
    pub(super) session: Option<Session>,
}

impl Job {
    /// A free entry.
    pub const EMPTY: Self = Self { session: None };
}

/// Names one member of one job in one lane: the caller finds it by the source address of a datagram (W-10).
///
/// It is valid until its job is removed; the number is then given to others.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Port(pub(super) u16);

impl Port {
    /// The number, below the length of [`Storage::ports`]: an index for the caller's tables.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Entry of one port: whose it is, and what became of its packets.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct PortEntry {
    pub(super) member: Option<Member>,
    pub(super) counters: Counters,
}

impl PortEntry {
    /// A free entry.
    pub const EMPTY: Self = Self { member: None, counters: Counters::ZERO };
}

/// Whose port it is.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub(super) struct Member {
    /// A copy, so that a packet finds all it needs at its port.
    pub(super) session: Session,
    pub(super) rank: Rank,
}

/// Why the memory lent makes no aggregator.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum StorageError {
    /// The elements do not suffice for two chunks in each slot.
    Elements {
        /// Elements that the phases lent ask for.
        needed: usize,
        /// Elements lent.
        got: usize,
    },
}

impl fmt::Display for StorageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Elements { needed, got } => {
                write!(f, "{got} elements lent where the slots need {needed}")
            }
        }
    }
}

impl core::error::Error for StorageError {}
