//! What became of each datagram.

use super::{Egress, Reject};

/// Reasons for rejecting that can be laid to a port: all but [`Reject::UnknownSource`], the last.
const REASONS: usize = Reject::NAMES.len() - 1;

/// What became of the datagrams of one port, which is one rank of one job in one lane.
///
/// Each datagram counts once. A port starts at zero when it is bound.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub struct Counters {
    /// Contributions that left their phase incomplete.
    pub consumed: u64,
    /// Contributions that completed their phase: results multicast.
    pub multicast: u64,
    /// Repetitions for a complete phase: results sent again, to this port only.
    pub retransmitted: u64,
    /// Repetitions for an incomplete phase.
    pub ignored: u64,
    /// Datagrams rejected, by [`Reject::index`].
    pub rejected: [u64; REASONS],
}

impl Counters {
    pub(super) const ZERO: Self =
        Self { consumed: 0, multicast: 0, retransmitted: 0, ignored: 0, rejected: [0; REASONS] };

    pub(super) const fn count(&mut self, egress: &Egress<'_>) {
        match egress {
            Egress::Consume => self.consumed += 1,
            Egress::Ignore => self.ignored += 1,
            Egress::Unicast(_) => self.retransmitted += 1,
            Egress::Multicast(_) => self.multicast += 1,
            Egress::Reject(reject) => self.rejected[reject.index()] += 1,
        }
    }

    /// Every counter with its name in `snake_case`, for metrics: the four outcomes, then [`Reject::NAMES`]
    /// but the unknown source, which no port has (see
    /// [`Aggregator::unknown_source`](super::Aggregator::unknown_source)).
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let outcomes = [
            ("consumed", self.consumed),
            ("multicast", self.multicast),
            ("retransmitted", self.retransmitted),
            ("ignored", self.ignored),
        ];
        outcomes.into_iter().chain(Reject::NAMES.into_iter().zip(self.rejected))
    }
}
