//! Faults put into the traffic on purpose: loss, duplication, reordering.

use core::fmt;
use core::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Mutex, PoisonError};

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use switchml_proto::wire::Class;

use super::RecvBatch;

/// A datagram that is held back comes behind 1 to this many later ones of the same peer.
const FARTHEST: u32 = 8;

/// The most datagrams held back at a time in one direction of a socket; beyond that none is.
const MOST_HELD: usize = 1024;

/// How often data packets are lost, duplicated and reordered on purpose, each with a probability from 0 to 1.
///
/// Each datagram is drawn for alone, in both directions of a socket, and for each destination. Control messages are
/// left alone. The draws come from the seed; which datagram meets which draw also depends on the order of events.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Faults {
    loss: f64,
    duplicate: f64,
    reorder: f64,
    seed: u64,
}

impl Faults {
    /// Faults with these probabilities.
    ///
    /// # Errors
    /// [`InvalidFaults`] if a probability is not from 0 to 1.
    pub fn new(loss: f64, duplicate: f64, reorder: f64, seed: u64) -> Result<Self, InvalidFaults> {
        for (name, probability) in [("loss", loss), ("duplicate", duplicate), ("reorder", reorder)] {
            if !(0.0..=1.0).contains(&probability) {
                return Err(InvalidFaults { name, probability });
            }
        }
        Ok(Self { loss, duplicate, reorder, seed })
    }
}

/// A probability that is none.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct InvalidFaults {
    name: &'static str,
    probability: f64,
}

impl fmt::Display for InvalidFaults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the probability of {} is {}, which is not from 0 to 1", self.name, self.probability)
    }
}

impl core::error::Error for InvalidFaults {}

/// The faults of one socket, in both directions.
#[derive(Debug)]
pub(super) struct Injectors {
    input: Mutex<Injector>,
    output: Mutex<Injector>,
}

impl Injectors {
    /// Different streams of one seed have nothing in common.
    pub(super) fn new(faults: Faults, stream: u64) -> Self {
        let injector = |direction| Mutex::new(Injector::new(faults, 2 * stream + direction));
        Self { input: injector(0), output: injector(1) }
    }

    /// Does to the datagrams in `batch` what is drawn for each.
    pub(super) fn receive(&self, batch: &mut RecvBatch) {
        let mut injector = self.input.lock().unwrap_or_else(PoisonError::into_inner);
        let mut arrived = Vec::new();
        for run in batch.runs() {
            for datagram in run.datagrams() {
                injector.pass(run.from, datagram, |octets| arrived.push((run.from, octets.to_vec())));
            }
        }
        batch.replace(arrived);
    }

    /// Calls `deliver` for each datagram that is to be sent to `to` now that `datagram` is.
    pub(super) fn send(&self, to: Option<SocketAddr>, datagram: &[u8], deliver: impl FnMut(&[u8])) {
        let to = to.unwrap_or(SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0));
        self.output.lock().unwrap_or_else(PoisonError::into_inner).pass(to, datagram, deliver);
    }
}

/// The faults of one direction.
#[derive(Debug)]
struct Injector {
    faults: Faults,
    rng: ChaCha8Rng,
    held: Vec<Held>,
}

/// A datagram that is held back.
#[derive(Debug)]
struct Held {
    peer: SocketAddr,
    octets: Vec<u8>,
    /// How many more datagrams of the peer come before it.
    behind: u32,
}

impl Injector {
    fn new(faults: Faults, stream: u64) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(faults.seed);
        rng.set_stream(stream);
        Self { faults, rng, held: Vec::new() }
    }

    /// Takes one datagram from or to `peer`, and calls `deliver` for it and those held back whose time has come.
    fn pass(&mut self, peer: SocketAddr, datagram: &[u8], mut deliver: impl FnMut(&[u8])) {
        if Class::of(datagram) != Class::Data {
            return deliver(datagram);
        }
        self.held.iter_mut().filter(|held| held.peer == peer).for_each(|held| held.behind -= 1);
        let copies = if self.draw(self.faults.loss) {
            0
        } else if self.draw(self.faults.duplicate) {
            2
        } else {
            1
        };
        let mut later = Vec::new();
        for _ in 0..copies {
            if self.draw(self.faults.reorder) && self.held.len() + later.len() < MOST_HELD {
                let behind = 1 + self.rng.next_u32() % FARTHEST;
                later.push(Held { peer, octets: datagram.to_vec(), behind });
            } else {
                deliver(datagram);
            }
        }
        for held in self.held.extract_if(.., |held| held.behind == 0) {
            deliver(&held.octets);
        }
        self.held.append(&mut later);
    }

    fn draw(&mut self, probability: f64) -> bool {
        // 2^-32 times a uniform 32-bit number is from 0 up to, not including, 1.
        f64::from(self.rng.next_u32()) / 4_294_967_296.0 < probability
    }
}
