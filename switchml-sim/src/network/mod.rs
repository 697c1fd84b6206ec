//! A network emulator without sockets and without a clock.
//!
//! A [`Link`] is one direction of a cable: it takes a datagram at a time and says when, and how, it arrives: at a rate,
//! through a queue, after a delay, or not at all. An [`Agenda`] is the virtual clock: what happens next. All faults follow
//! from a seed. A [`Sink`] may watch every datagram; [`pcap::Capture`] is one that writes what Wireshark opens.
//!
//! ```
//! use std::time::Duration;
//! use switchml_proto::Instant;
//! use switchml_sim::dice::Dice;
//! use switchml_sim::network::{Agenda, Datagram, Link, Profile};
//!
//! let profile = Profile { delay: Duration::from_micros(10), ..Profile::of_rate(10_000_000_000) };
//! let (mut link, mut agenda) = (Link::new(profile, Dice::new(1)), Agenda::new());
//! for octet in 0..3 {
//!     for arrival in link.carry(Instant::ZERO, &Datagram::new(&[octet; 138])) {
//!         agenda.put(arrival.at, arrival.datagram);
//!     }
//! }
//! // 138 octets are a frame of 204 with preamble and gap (163.2 ns), and one follows the other.
//! let times: Vec<_> = std::iter::from_fn(|| agenda.next()).map(|(at, _)| at.as_nanos()).collect();
//! assert_eq!(times, [10_164, 10_327, 10_490]);
//! ```

mod agenda;
mod link;
pub mod pcap;
mod profile;
mod tally;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use switchml_proto::Instant;

pub use agenda::Agenda;
pub use link::{Arrival, Link};
pub use profile::{Lateness, Loss, Profile};
pub use tally::{Fault, Tally};

/// Octets that UDP over IPv4 and Ethernet put around a payload, with the frame's check sequence, preamble and gap.
pub const OVERHEAD: u64 = 8 + 20 + 14 + 4 + 8 + 12;

/// Octets of the shortest frame, with preamble and gap.
const SHORTEST: u64 = 64 + 8 + 12;

/// How many octets' time a UDP payload of `payload` octets takes on an Ethernet link.
#[must_use]
pub const fn octets_on_wire(payload: usize) -> u64 {
    let octets = payload as u64 + OVERHEAD;
    if octets < SHORTEST { SHORTEST } else { octets }
}

/// A UDP payload on its way. Copies share their octets.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Datagram {
    /// The payload.
    pub octets: Arc<[u8]>,
    /// Whether its checksum is right.
    pub checksum: Checksum,
}

/// Whether a receiver that looks at the UDP checksum takes a datagram.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[allow(clippy::exhaustive_enums, reason = "a checksum is right or wrong")]
pub enum Checksum {
    /// It does.
    Right,
    /// A bit error shows: it drops the datagram.
    Wrong,
}

impl Datagram {
    /// An undamaged payload.
    #[must_use]
    pub fn new(octets: &[u8]) -> Self {
        Self { octets: octets.into(), checksum: Checksum::Right }
    }

    /// Octets of the payload.
    #[must_use]
    pub fn len(&self) -> usize {
        self.octets.len()
    }

    /// Whether the payload is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.octets.is_empty()
    }
}

/// One end of a datagram's way: a worker's lane, or the aggregator's.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
#[allow(clippy::exhaustive_enums, reason = "a job has no other parties")]
pub enum Party {
    /// Lane `lane` of rank `rank`.
    Worker {
        /// The rank.
        rank: usize,
        /// The lane.
        lane: usize,
    },
    /// The aggregator's port of a lane.
    Aggregator {
        /// The lane.
        lane: usize,
    },
    /// Somebody who is no member of the job.
    Stranger,
}

/// Sees every datagram that is handed to the network.
pub trait Sink {
    /// `datagram` was sent at `at`; `fate` is what the network does to it, the copies that arrive and the faults.
    fn datagram(&mut self, at: Instant, from: Party, to: Party, datagram: &Datagram, fate: &[Fault]);
}

/// Sees nothing.
impl Sink for () {
    fn datagram(&mut self, _: Instant, _: Party, _: Party, _: &Datagram, _: &[Fault]) {}
}
