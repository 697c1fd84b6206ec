//! One lane's share of a collective, as the lane's thread sees it: without the element type.

use core::fmt;
use core::ops::Range;
use std::sync::Arc;

use switchml_proto::numeric::Reduction;
use switchml_proto::worker::{Chunk, Collective, Fidelity, Operation};
use switchml_proto::{ChunkSize, LaneCount, LaneId, Rank, WorldSize};

use super::element::{Reducible, Rules};
use super::error::{SessionFailure, TensorState};
use super::pending::Report;
use super::tensor::{Part, PerLane};
use crate::kernels;

/// What is asked of a lane: its share of one collective.
#[derive(Debug)]
pub(super) struct Task {
    pub(super) collective: Collective,
    pub(super) share: Box<dyn Share>,
}

/// A lane's share of a tensor. Dropping it returns the memory to the caller.
pub(super) trait Share: fmt::Debug + Send {
    /// The block exponent of some elements (N-2).
    fn exponent(&self, range: Range<u64>) -> i8;
    /// Writes some elements to the wire.
    fn encode(&self, range: Range<u64>, exponent: i8, wire: &mut [u8]) -> Fidelity;
    /// Writes some elements to the wire as a block, and gives the block exponent of others, `ahead`.
    fn encode_and_scan(&self, range: Range<u64>, exponent: i8, wire: &mut [u8], ahead: Range<u64>) -> i8;
    /// Writes a result to the tensor.
    fn decode(&mut self, chunk: &Chunk<'_>);
    /// The collective has ended in this lane: reports it, and returns the memory.
    fn end(self: Box<Self>, end: Result<(), SessionFailure>);
}

/// Where the share of each lane ends, in elements of the tensor (T-1).
pub(super) fn ends(
    collective: &Collective,
    len: usize,
    chunk: ChunkSize,
    lanes: LaneCount,
) -> PerLane<usize> {
    let per_chunk = collective.elements_per_chunk(chunk);
    let chunks = len.div_ceil(per_chunk) as u128;
    let lanes_u128 = u128::from(lanes.get());
    let end = |lane: LaneId| {
        // At most `chunks`, which came from a `usize`.
        let chunks_before = (u128::from(lane.get()) + 1) * chunks / lanes_u128;
        (chunks_before as usize).saturating_mul(per_chunk).min(len)
    };
    lanes.lanes().map(end).collect()
}

/// What a rank does with its elements.
#[derive(Clone, Copy, Debug)]
pub(super) enum Role {
    /// Adds them to the others', and receives the sums.
    Reduce(Rules),
    /// Sends their octets to all (broadcast).
    Root,
    /// Sends zeros, and receives the root's octets.
    Listen,
}

impl Role {
    /// The part of rank `rank` in `collective`.
    pub(super) fn of(collective: &Collective, rank: Rank, world_size: WorldSize) -> Self {
        let reduction = match collective.operation() {
            Operation::Broadcast { root } if root == rank => return Self::Root,
            Operation::Broadcast { .. } => return Self::Listen,
            Operation::Mean => Reduction::Mean,
            // Sum, and a barrier, which has no elements.
            _ => Reduction::Sum,
        };
        Self::Reduce(Rules { conversion: collective.conversion(), reduction, world_size })
    }
}

/// A share of a tensor of elements `T`.
#[derive(Debug)]
pub(super) struct TypedShare<T: Reducible> {
    lane: LaneId,
    role: Role,
    tensor: TensorState,
    clamped: u64,
    report: Arc<Report>,
    part: Part<T>,
}

impl<T: Reducible> TypedShare<T> {
    pub(super) fn new(lane: LaneId, role: Role, part: Part<T>, report: Arc<Report>) -> Self {
        Self { lane, role, tensor: TensorState::Untouched, clamped: 0, report, part }
    }
}

impl<T: Reducible> Share for TypedShare<T> {
    fn exponent(&self, range: Range<u64>) -> i8 {
        self.part.fetch_after(&range);
        T::exponent(self.part.input(&range))
    }

    fn encode(&self, range: Range<u64>, exponent: i8, wire: &mut [u8]) -> Fidelity {
        self.part.fetch_after(&range);
        match &self.role {
            Role::Reduce(rules) => return T::encode(rules, exponent, self.part.input(&range), wire),
            Role::Root => kernels::encode_octets(self.part.input(&range), wire),
            Role::Listen => wire.fill(0),
        }
        Fidelity::Faithful
    }

    fn encode_and_scan(&self, range: Range<u64>, exponent: i8, wire: &mut [u8], ahead: Range<u64>) -> i8 {
        let Role::Reduce(rules) = &self.role else {
            // A broadcast has no exponents (T-3), and would not ask.
            self.encode(range, exponent, wire);
            return self.exponent(ahead);
        };
        self.part.fetch_after(&ahead);
        T::encode_and_scan(rules, exponent, self.part.input(&range), wire, self.part.input(&ahead))
    }

    fn decode(&mut self, chunk: &Chunk<'_>) {
        let output = self.part.output(&chunk.range);
        match &self.role {
            Role::Reduce(rules) => T::decode(rules, chunk.exponent, chunk.elements, output),
            Role::Root | Role::Listen => kernels::decode_octets(chunk.elements, output),
        }
        self.tensor = TensorState::Mixed;
        self.clamped += u64::from(chunk.fidelity == Fidelity::Clamped);
    }

    fn end(self: Box<Self>, end: Result<(), SessionFailure>) {
        self.report.done(self.lane, end, self.tensor, self.clamped);
    }
}

#[cfg(test)]
mod tests;
