//! What happened to datagrams, counted.

use core::fmt;
use core::ops::AddAssign;

/// What may happen to a datagram.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[allow(clippy::exhaustive_enums, reason = "reports name every kind")]
pub enum Fault {
    /// Lost on the way.
    Lost,
    /// Lost because the queue was full.
    QueueFull,
    /// It arrives once more.
    Duplicated,
    /// It arrives later than others sent after it.
    Reordered,
    /// It arrives without its last octets.
    Truncated,
    /// It arrives with wrong bits, and a checksum that tells.
    Damaged,
    /// It was sent by somebody else, or belongs to another job.
    Foreign,
}

impl Fault {
    /// Every kind, in the order of [`Tally::iter`].
    pub const ALL: [Self; 7] = [
        Self::Lost,
        Self::QueueFull,
        Self::Duplicated,
        Self::Reordered,
        Self::Truncated,
        Self::Damaged,
        Self::Foreign,
    ];
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Lost => "lost",
            Self::QueueFull => "queue full",
            Self::Duplicated => "duplicated",
            Self::Reordered => "reordered",
            Self::Truncated => "truncated",
            Self::Damaged => "damaged",
            Self::Foreign => "foreign",
        })
    }
}

/// How many datagrams there were, and how often what happened.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Tally {
    /// Datagrams handed to the network.
    pub datagrams: u64,
    pub(super) faults: [u64; Fault::ALL.len()],
}

impl Tally {
    pub(crate) fn count(&mut self, fault: Fault) {
        self.faults[fault as usize] += 1;
    }

    /// How often one kind of fault happened.
    #[must_use]
    pub fn of(&self, fault: Fault) -> u64 {
        self.faults[fault as usize]
    }

    /// Faults of all kinds.
    #[must_use]
    pub fn faults(&self) -> u64 {
        self.faults.iter().sum()
    }

    /// Every kind with its number.
    pub fn iter(&self) -> impl Iterator<Item = (Fault, u64)> {
        Fault::ALL.into_iter().zip(self.faults)
    }
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.datagrams += other.datagrams;
        for (sum, faults) in self.faults.iter_mut().zip(other.faults) {
            *sum += faults;
        }
    }
}
