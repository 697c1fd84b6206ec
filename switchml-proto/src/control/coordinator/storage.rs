//! The coordinator's tables, in memory that the caller lends.

/// Which job entry something belongs to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct JobIndex(pub(super) u16);

/// The coordinator's memory. What does not fit is refused with a reason (C-1).
#[derive(Debug)]
#[allow(clippy::exhaustive_structs, reason = "the caller builds it")]
pub struct CoordinatorStorage<'s> {
    /// One for each job at a time.
    pub jobs: &'s mut [JobEntry],
    /// One for each rank of all jobs.
    pub members: &'s mut [MemberEntry],
    /// One for each lane of each rank of all jobs.
    pub ports: &'s mut [PortEntry],
}

/// Room for one job.
#[derive(Clone, Copy, Debug)]
pub struct JobEntry {}

impl JobEntry {
    /// No job.
    pub const EMPTY: Self = Self {};
}

/// Room for one rank of a job.
#[derive(Clone, Copy, Debug)]
pub struct MemberEntry {}

impl MemberEntry {
    /// No member.
    pub const EMPTY: Self = Self {};
}

/// Room for one lane of one rank of a job.
#[derive(Clone, Copy, Debug)]
pub struct PortEntry {}

impl PortEntry {
    /// No port.
    pub const EMPTY: Self = Self {};
}
