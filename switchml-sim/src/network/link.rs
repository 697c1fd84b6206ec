//! One direction of a link.

use core::time::Duration;

use switchml_proto::Instant;

use super::{Checksum, Datagram, Fault, Lateness, Loss, Profile, Tally, octets_on_wire};
use crate::dice::Dice;

/// One direction of a link: says when and how a datagram arrives that is sent now.
#[derive(Clone, Debug)]
pub struct Link {
    profile: Profile,
    dice: Dice,
    /// When the wire is free, in picoseconds: an octet takes less than a nanosecond at more than 8 Gbit/s.
    free_at: u64,
    /// When the latest datagram arrives, of those that keep the order.
    latest: Instant,
    weather: Weather,
    tally: Tally,
    fate: Vec<Fault>,
}

/// The state of a link that loses in bursts.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Weather {
    Good,
    Bad,
}

/// A datagram at the end of the link.
#[derive(Clone, Debug, Eq, PartialEq)]
#[allow(clippy::exhaustive_structs, reason = "there is no more to say")]
pub struct Arrival {
    /// When it arrives.
    pub at: Instant,
    /// What arrives.
    pub datagram: Datagram,
}

impl Link {
    /// A link that nothing has used yet.
    #[must_use]
    pub const fn new(profile: Profile, dice: Dice) -> Self {
        Self {
            profile,
            dice,
            free_at: 0,
            latest: Instant::ZERO,
            weather: Weather::Good,
            tally: Tally { datagrams: 0, faults: [0; Fault::ALL.len()] },
            fate: Vec::new(),
        }
    }

    /// Sends a datagram at `now`, which is not before the last one was sent; returns what arrives of it: nothing, itself,
    /// or itself and a copy.
    pub fn carry(&mut self, now: Instant, datagram: &Datagram) -> impl Iterator<Item = Arrival> + use<> {
        self.fate.clear();
        let arrivals = self.arrivals(now, datagram);
        self.tally.datagrams += 1;
        for &fault in &self.fate {
            self.tally.count(fault);
        }
        arrivals.into_iter().flatten()
    }

    /// What happened to the last datagram.
    #[must_use]
    pub fn fate(&self) -> &[Fault] {
        &self.fate
    }

    /// What has happened to all.
    #[must_use]
    pub const fn tally(&self) -> &Tally {
        &self.tally
    }

    fn arrivals(&mut self, now: Instant, datagram: &Datagram) -> [Option<Arrival>; 2] {
        let Some(sent) = self.pass_wire(now, datagram) else {
            self.fate.push(Fault::QueueFull);
            return [None, None];
        };
        if self.is_lost() {
            self.fate.push(Fault::Lost);
            return [None, None];
        }
        let datagram = self.spoil(datagram.clone());
        let travelled = sent + self.profile.delay + self.dice.time(self.profile.jitter);
        let at = match self.lateness(self.profile.reordering) {
            Some(later) => {
                self.fate.push(Fault::Reordered);
                travelled + later
            }
            None => {
                self.latest = self.latest.max(travelled);
                self.latest
            }
        };
        let copy = self.lateness(self.profile.duplication).map(|later| {
            self.fate.push(Fault::Duplicated);
            Arrival { at: at + later, datagram: datagram.clone() }
        });
        [Some(Arrival { at, datagram }), copy]
    }

    /// When the last bit is on the wire; none if the datagram found the queue full.
    fn pass_wire(&mut self, now: Instant, datagram: &Datagram) -> Option<Instant> {
        let Some(rate) = self.profile.rate else { return Some(now) };
        const PICOS: u128 = 1_000_000_000_000;
        let octets = octets_on_wire(datagram.len());
        let now_picos = now.as_nanos() * 1000;
        let wait = self.free_at.saturating_sub(now_picos);
        let waiting = (u128::from(wait) * u128::from(rate) / (8 * PICOS)) as u64;
        // What is on the wire already does not wait: one datagram always passes.
        if wait > 0 && waiting + octets > self.profile.queue {
            return None;
        }
        let picos = (u128::from(octets) * 8 * PICOS / u128::from(rate)) as u64;
        self.free_at = self.free_at.max(now_picos) + picos;
        Some(Instant::from_nanos(self.free_at.div_ceil(1000)))
    }

    fn is_lost(&mut self) -> bool {
        match self.profile.loss {
            Loss::Random(probability) => self.dice.chance(probability),
            Loss::Bursty { worsens, recovers, lost_while_bad } => {
                let changes = match self.weather {
                    Weather::Good => worsens,
                    Weather::Bad => recovers,
                };
                if self.dice.chance(changes) {
                    self.weather = match self.weather {
                        Weather::Good => Weather::Bad,
                        Weather::Bad => Weather::Good,
                    };
                }
                self.weather == Weather::Bad && self.dice.chance(lost_while_bad)
            }
        }
    }

    fn lateness(&mut self, lateness: Lateness) -> Option<Duration> {
        self.dice.chance(lateness.probability).then(|| self.dice.time(lateness.longest))
    }

    /// Truncates, and flips bits.
    fn spoil(&mut self, mut datagram: Datagram) -> Datagram {
        if !datagram.is_empty() && self.dice.chance(self.profile.truncation) {
            self.fate.push(Fault::Truncated);
            let left = self.dice.below(datagram.len() as u64) as usize;
            datagram.octets = datagram.octets[..left].into();
        }
        let bits = 8 * datagram.len() as u64;
        if self.profile.bit_errors > 0.0 {
            let untouched = (1.0 - self.profile.bit_errors).powf(bits as f64);
            if bits > 0 && self.dice.chance(1.0 - untouched) {
                self.fate.push(Fault::Damaged);
                let bit = self.dice.below(bits);
                let mut octets = datagram.octets.to_vec();
                octets[(bit / 8) as usize] ^= 1 << (bit % 8);
                datagram = Datagram { octets: octets.into(), checksum: Checksum::Wrong };
            }
        }
        datagram
    }
}
