//! Where a phase stands, as the aggregator tells its control machine (C-4).

use crate::ids::WorkerSet;

/// Where a phase stands.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[allow(clippy::exhaustive_enums, reason = "a phase has no other states")]
pub enum PhaseStatus {
    /// Nobody contributed, or it is overwritten, or there is no such job.
    Unknown,
    /// Some rank has contributed, and some has not.
    Open {
        /// The ranks that have.
        seen: WorkerSet,
    },
    /// All ranks have contributed; the result is there to be asked for again.
    Complete,
}
