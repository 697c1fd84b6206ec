//! How many packets may be in flight: T-10.

use core::time::Duration;

use crate::time::Instant;

/// Packets in flight that a lane begins with.
const INITIAL: u32 = 32;

/// The fewest that may be in flight. Below that, a packet that is lost twice, and has to wait for its deadline, would hold up
/// all; and even 64 ranks with so many packets of 1 KiB each fill half a mebibyte only.
const LEAST: u32 = 8;

/// How long a shortest round trip is remembered, at least; at most twice as long.
const MEMORY: Duration = Duration::from_secs(5);

/// Round trips that tell whether packets stand in queues: of fewer, all may be long because others have lost packets.
const ENOUGH: u32 = 32;

/// A packet, in the unit that the limit is kept in.
const PACKET: u32 = 1 << 8;

/// The congestion window of a lane: how many of its W packets may be in flight.
///
/// Time is cut into rounds, each about a round trip long. A packet is in flight from its sending until its result is
/// accepted or it is taken for lost.
#[derive(Clone, Debug)]
pub(super) struct Congestion {
    /// In units of 1 / [`PACKET`].
    limit: u32,
    /// The window W, in packets.
    window: u32,
    growth: Growth,
    round: Round,
    shortest: Shortest,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Growth {
    /// Twofold in a round, until the path has shown its limit.
    SlowStart,
    /// By one packet in a round.
    Additive,
}

#[derive(Clone, Debug)]
struct Round {
    /// It ends when a packet sent later is answered, if enough round trips were measured by then.
    start: Instant,
    accepted: u32,
    lost: u32,
    /// Round trips measured in it.
    samples: u32,
    /// The shortest of them.
    shortest: Option<Duration>,
    /// Whether the limit has been in the way.
    was_limited: bool,
}

impl Congestion {
    pub(super) fn new(window: u32) -> Self {
        Self {
            limit: window.min(INITIAL) * PACKET,
            window,
            growth: Growth::SlowStart,
            round: Round::new(Instant::ZERO),
            shortest: Shortest::new(),
        }
    }

    /// The most packets that may be in flight.
    pub(super) const fn limit(&self) -> u32 {
        self.limit / PACKET
    }

    /// Sets the limit, to at least one packet and at most the window.
    #[cfg(feature = "snapshot")]
    pub(super) fn set_limit(&mut self, packets: u32) {
        self.limit = packets.clamp(1, self.window) * PACKET;
    }

    /// A result with elements was accepted, of a packet last sent at `sent_at`; `in_flight` packets were in flight until
    /// then. The round trip is none if the packet was sent more than once.
    pub(super) fn accept(
        &mut self,
        now: Instant,
        sent_at: Instant,
        round_trip: Option<Duration>,
        in_flight: u32,
    ) {
        self.round.accepted += 1;
        self.round.was_limited |= in_flight >= self.limit();
        if let Some(round_trip) = round_trip {
            self.round.samples += 1;
            self.shortest.update(now, round_trip);
            self.round.shortest = Some(self.round.shortest.map_or(round_trip, |least| least.min(round_trip)));
        }
        if self.growth == Growth::SlowStart && self.round.was_limited {
            self.grow();
        }
        if sent_at >= self.round.start && self.round.samples >= (self.limit() / 2).min(ENOUGH) {
            self.end_round(now);
        }
    }

    /// A packet that was sent once is taken for lost, because packets that were sent later have been answered (T-9). A
    /// deadline that passed says nothing of the path: a rank may just be late.
    pub(super) fn lose(&mut self) {
        self.round.lost += 1;
    }

    fn end_round(&mut self, now: Instant) {
        let round = core::mem::replace(&mut self.round, Round::new(now));
        let is_queued =
            (round.shortest.zip(self.shortest.get())).is_some_and(|(round, path)| round > path + path / 2);
        if round.lost > 0 && is_queued {
            self.growth = Growth::Additive;
            // Not zero: a result ends the round. At most 2 W.
            let packets = round.lost + round.accepted;
            let share = u64::from(round.lost) * u64::from(self.limit) / u64::from(2 * packets);
            // At most half of the limit, which fits.
            self.limit = (self.limit - share as u32).max(LEAST.min(self.window) * PACKET);
        } else if self.growth == Growth::Additive && round.was_limited {
            self.grow();
        }
    }

    fn grow(&mut self) {
        self.limit = (self.limit + PACKET).min(self.window * PACKET);
    }
}

impl Round {
    const fn new(start: Instant) -> Self {
        Self { start, accepted: 0, lost: 0, samples: 0, shortest: None, was_limited: false }
    }
}

/// The shortest round trip of the last [`MEMORY`] to twice that, so that a path that has become longer is learned.
#[derive(Clone, Debug)]
struct Shortest {
    since: Instant,
    current: Option<Duration>,
    before: Option<Duration>,
}

impl Shortest {
    const fn new() -> Self {
        Self { since: Instant::ZERO, current: None, before: None }
    }

    fn update(&mut self, now: Instant, round_trip: Duration) {
        if now >= self.since + MEMORY {
            (self.since, self.before) = (now, self.current.take());
        }
        self.current = Some(self.current.map_or(round_trip, |least| least.min(round_trip)));
    }

    fn get(&self) -> Option<Duration> {
        self.current.into_iter().chain(self.before).min()
    }
}

#[cfg(test)]
mod tests;
