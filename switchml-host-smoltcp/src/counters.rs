//! What happened, in numbers.

use switchml_proto::worker::Stats;

/// What a worker has met, in all its lanes. Counters wrap at 2^64, which no worker reaches.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub struct WorkerCounters {
    /// Data packets sent for the first time.
    pub sent: u64,
    /// Data packets sent again: too late an answer (T-6), or one overtaken (T-9).
    pub resent: u64,
    /// Results accepted.
    pub accepted: u64,
    /// Data packets dropped on arrival: duplicates, stale, foreign, malformed (T-4).
    pub dropped: u64,
    /// Datagrams from other addresses than the aggregator's (W-10).
    pub strangers: u64,
    /// Times that a datagram found the transmit buffer full, and waited.
    pub full: u64,
    /// Datagrams that were given up because the interface had no address.
    pub unroutable: u64,
    /// Times that the aggregator was silent for so long that its link address was asked for anew.
    pub neighbor_doubts: u64,
}

impl WorkerCounters {
    pub(crate) fn add(&mut self, stats: Stats) {
        self.sent += stats.sent;
        self.resent += stats.timeouts + stats.overtaken;
        self.accepted += stats.accepted;
        self.dropped += stats.duplicates + stats.stale + stats.foreign + stats.malformed;
    }
}

/// What an aggregator has met besides what its coordinator and its ports count.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub struct AggregatorCounters {
    /// Data packets of members that were aggregated, repeated or ignored.
    pub taken: u64,
    /// Data packets of members that were rejected.
    pub rejected: u64,
    /// Datagrams from addresses that are no member's in the lane.
    pub strangers: u64,
    /// Results put into a transmit buffer: one for each receiver.
    pub results: u64,
    /// Times that a datagram found the transmit buffer full, and waited.
    pub full: u64,
    /// Datagrams that were given up: the interface had no address, or the answer was to a stranger and its buffer full.
    pub given_up: u64,
}
