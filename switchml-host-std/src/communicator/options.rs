//! How to reduce.

use switchml_proto::numeric::{Reduction, ScalingFactor};

/// What an all-reduce computes, and how. Made from a [`ReduceOp`](crate::ReduceOp); all ranks give the same.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReduceOptions {
    pub(super) reduction: Reduction,
    pub(super) factor: Option<ScalingFactor>,
    pub(super) tag: u32,
}

impl ReduceOptions {
    /// Multiplies all elements with one factor, instead of agreeing on an exponent for each chunk (N-6). For floating
    /// point only. [`Reduced::clamped_chunks`](super::Reduced::clamped_chunks) tells whether it was too large.
    #[must_use]
    pub const fn scaling_factor(mut self, factor: ScalingFactor) -> Self {
        self.factor = Some(factor);
        self
    }

    /// A number that all ranks must give alike, 0 by default: it finds calls that are mixed up, though their
    /// lengths and types agree (D-1).
    #[must_use]
    pub const fn tag(mut self, tag: u32) -> Self {
        self.tag = tag;
        self
    }
}

/// Block floating point, or integers as they are.
impl From<Reduction> for ReduceOptions {
    fn from(reduction: Reduction) -> Self {
        Self { reduction, factor: None, tag: 0 }
    }
}
