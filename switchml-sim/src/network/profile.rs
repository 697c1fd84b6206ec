//! What a link does to datagrams.

use core::time::Duration;

/// One direction of a link. [`Profile::PERFECT`] does nothing but to hand datagrams over.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(clippy::exhaustive_structs, reason = "tests and experiments build it")]
pub struct Profile {
    /// Bits in a second, headers, preamble and gap of each frame counted; none: no time passes on the wire.
    pub rate: Option<u64>,
    /// Octets, with headers, that may wait for the wire; what comes beyond is lost. Without a rate nothing waits.
    pub queue: u64,
    /// How long each datagram travels.
    pub delay: Duration,
    /// How much longer it may take, at random. It keeps the order.
    pub jitter: Duration,
    /// Datagrams that vanish.
    pub loss: Loss,
    /// Datagrams that arrive twice, the copy later.
    pub duplication: Lateness,
    /// Datagrams that arrive later than others sent after them.
    pub reordering: Lateness,
    /// Probability that a datagram arrives without its last octets.
    pub truncation: f64,
    /// Probability for each bit that it is flipped; the UDP checksum then is wrong.
    pub bit_errors: f64,
}

/// How likely something is to come late, and how late.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(clippy::exhaustive_structs, reason = "tests and experiments build it")]
pub struct Lateness {
    /// Probability for each datagram.
    pub probability: f64,
    /// At most this much later.
    pub longest: Duration,
}

impl Lateness {
    /// It never happens.
    pub const NEVER: Self = Self { probability: 0.0, longest: Duration::ZERO };
}

/// How datagrams are lost.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Loss {
    /// Each with the same probability, whatever became of others. 0: none is lost.
    Random(f64),
    /// In bursts, after Gilbert and Elliott: the link is good or bad, and changes between datagrams.
    Bursty {
        /// Probability that a good link is bad for the next datagram.
        worsens: f64,
        /// Probability that a bad link is good for the next datagram: one by the mean length of a burst.
        recovers: f64,
        /// Probability that a bad link loses a datagram. A good one loses none.
        lost_while_bad: f64,
    },
}

impl Loss {
    /// Bursts of `length` datagrams on average, so that a share of `loss` of all datagrams is lost.
    #[must_use]
    pub fn bursts(loss: f64, length: f64) -> Self {
        let recovers = 1.0 / length;
        Self::Bursty { worsens: (recovers * loss / (1.0 - loss)).min(1.0), recovers, lost_while_bad: 1.0 }
    }
}

impl Profile {
    /// No time passes, nothing happens.
    pub const PERFECT: Self = Self {
        rate: None,
        queue: u64::MAX,
        delay: Duration::ZERO,
        jitter: Duration::ZERO,
        loss: Loss::Random(0.0),
        duplication: Lateness::NEVER,
        reordering: Lateness::NEVER,
        truncation: 0.0,
        bit_errors: 0.0,
    };

    /// A link of `rate` bits in a second without faults, with room for all that waits.
    #[must_use]
    pub const fn of_rate(rate: u64) -> Self {
        Self { rate: Some(rate), ..Self::PERFECT }
    }
}
