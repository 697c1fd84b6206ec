//! What a packet does to its phase: the decision table of.

use super::Phase;
use crate::ids::{Rank, Seq, Window, WorkerSet, WorldSize};

/// How a packet's seq stands to the two versions of its slot.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Relation {
    /// That of the phase in the version addressed.
    SamePhase,
    /// W after the phase in the shadow copy: the version addressed is overwritten.
    NewPhase,
    /// Neither.
    Stale,
}

impl Relation {
    pub(super) fn of(seq: Seq, addressed: &Phase, shadow: &Phase, window: Window) -> Self {
        if seq == addressed.seq {
            // A fresh slot has a seq but no phase. This comes before the question below, which such a
            // packet of version 1 would pass.
            if addressed.seen.is_empty() { Self::Stale } else { Self::SamePhase }
        } else if seq == shadow.seq.plus(u32::from(window.get())) {
            Self::NewPhase
        } else {
            Self::Stale
        }
    }
}

/// Whether the sender is in the phase's bitmap.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Contribution {
    First,
    Repeated,
}

impl Contribution {
    pub(super) const fn of(rank: Rank, addressed: &Phase) -> Self {
        if addressed.seen.contains(rank) { Self::Repeated } else { Self::First }
    }
}

/// Whether every rank has contributed when the packet is taken.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Fill {
    Open,
    Complete,
}

impl Fill {
    pub(super) fn of(rank: Rank, addressed: &Phase, relation: Relation, world_size: WorldSize) -> Self {
        let seen = match relation {
            Relation::SamePhase => addressed.seen,
            Relation::NewPhase | Relation::Stale => WorkerSet::EMPTY,
        };
        if seen.with(rank) == WorkerSet::all(world_size) { Self::Complete } else { Self::Open }
    }
}

/// What is done to the version addressed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Update {
    Keep,
    ///
    Add,
    ///
    Overwrite,
}

/// What is answered.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Answer {
    Consume,
    Ignore,
    Reject,
    Unicast,
    Multicast,
}

/// The decision table; the P4 program has the same rows.
pub(super) const fn decide(relation: Relation, contribution: Contribution, fill: Fill) -> (Update, Answer) {
    match (relation, contribution, fill) {
        (Relation::SamePhase, Contribution::First, Fill::Open) => (Update::Add, Answer::Consume),
        (Relation::SamePhase, Contribution::First, Fill::Complete) => (Update::Add, Answer::Multicast),
        (Relation::SamePhase, Contribution::Repeated, Fill::Open) => (Update::Keep, Answer::Ignore),
        (Relation::SamePhase, Contribution::Repeated, Fill::Complete) => (Update::Keep, Answer::Unicast),
        (Relation::NewPhase, _, Fill::Open) => (Update::Overwrite, Answer::Consume),
        (Relation::NewPhase, _, Fill::Complete) => (Update::Overwrite, Answer::Multicast),
        (Relation::Stale, _, _) => (Update::Keep, Answer::Reject),
    }
}
