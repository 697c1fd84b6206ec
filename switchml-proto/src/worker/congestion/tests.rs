//! T-10.

extern crate std;

use core::cmp::Reverse;
use std::collections::BinaryHeap;

use super::*;

const US: Duration = Duration::from_micros(1);

/// A path that carries a packet each microsecond after a queue, and takes 50 us besides.
struct Path {
    congestion: Congestion,
    /// How many packets the queue holds; what finds it full is lost.
    queue: u32,
    /// Of so many packets one is lost by chance.
    chance: Option<u32>,
    now: Instant,
    /// When the queue will be empty.
    busy_until: Instant,
    /// When each packet in flight is answered or taken for lost, when it was sent, and whether it is lost.
    in_flight: BinaryHeap<Reverse<(Instant, Instant, bool)>>,
    sent: u32,
}

impl Path {
    fn new(window: u32, queue: u32, chance: Option<u32>) -> Self {
        let now = Instant::ZERO;
        let congestion = Congestion::new(window);
        Self { congestion, queue, chance, now, busy_until: now, in_flight: BinaryHeap::new(), sent: 0 }
    }

    /// Lets some time pass. Returns the least and the greatest limit, and how many results were accepted.
    fn run(&mut self, time: Duration) -> (u32, u32, u32) {
        let end = self.now + time;
        let (mut least, mut greatest, mut accepted) = (u32::MAX, 0, 0);
        while self.now < end {
            while (self.in_flight.len() as u32) < self.congestion.limit() {
                self.send();
            }
            let in_flight = self.in_flight.len() as u32;
            let Reverse((at, sent_at, is_lost)) = self.in_flight.pop().unwrap();
            self.now = self.now.max(at);
            if is_lost {
                self.congestion.lose();
            } else {
                accepted += 1;
                self.congestion.accept(self.now, sent_at, Some(self.now.since(sent_at)), in_flight);
            }
            let limit = self.congestion.limit();
            (least, greatest) = (least.min(limit), greatest.max(limit));
        }
        (least, greatest, accepted)
    }

    fn send(&mut self) {
        self.now += US / 100;
        self.sent += 1;
        let is_full = self.busy_until > self.now + self.queue * US;
        let is_lost = is_full || self.chance.is_some_and(|chance| self.sent.is_multiple_of(chance));
        if !is_full {
            self.busy_until = self.busy_until.max(self.now) + US;
        }
        let answered = self.busy_until + 50 * US;
        // Packets that were sent later have been answered by then.
        let known = if is_lost { answered + 25 * US } else { answered };
        self.in_flight.push(Reverse((known, self.now, is_lost)));
    }
}

#[test]
fn t10_an_undisturbed_lane_uses_its_whole_window_after_a_few_round_trips() {
    for window in [1, 2, 32, 33, 64, 1024] {
        let mut path = Path::new(window, 2000, None);
        assert_eq!(path.congestion.limit(), window.min(32));
        path.run((if window > 32 { 1500 } else { 0 }) * US);
        assert_eq!(path.congestion.limit(), window);
    }
}

#[test]
fn t10_it_does_not_grow_while_its_limit_is_not_in_the_way() {
    let mut congestion = Congestion::new(128);
    for now in 0..1000 {
        congestion.accept(Instant::ZERO + (now + 1) * US, Instant::ZERO + now * US, Some(US), 31);
    }
    assert_eq!(congestion.limit(), 32);
}

#[test]
fn t10_queues_that_overflow_make_it_back_off_to_what_fits() {
    for queue in [30, 50, 200] {
        let mut path = Path::new(1024, queue, None);
        path.run(20_000 * US);
        let before = path.sent;
        let (_, _, accepted) = path.run(20_000 * US);
        let sent = path.sent - before;
        assert!(accepted >= 19_500 && sent <= 24_000, "{accepted} of {sent} with {queue}");
    }
}

#[test]
fn t10_losses_by_chance_do_not_keep_it_from_filling_the_path() {
    for chance in [10, 20, 100, 1000] {
        let mut path = Path::new(512, 1000, Some(chance));
        path.run(20_000 * US);
        let (_, _, accepted) = path.run(20_000 * US);
        let possible = 20_000 * (chance - 1) / chance;
        assert!(accepted >= possible * 97 / 100, "{accepted} of {possible} with 1 of {chance}");
    }
}

#[test]
fn t10_a_few_packets_may_always_be_in_flight() {
    let mut path = Path::new(128, 100, None);
    path.run(1_000 * US);
    for _ in 0..1000 {
        path.congestion.lose();
        path.congestion.accept(path.now, path.now, Some(1000 * US), 8);
    }
    assert_eq!(path.congestion.limit(), 8);
}

#[test]
fn t10_a_path_that_has_become_longer_is_learned() {
    let mut congestion = Congestion::new(64);
    for millis in 0..20_000 {
        let round_trip = if millis < 1000 { 100 } else { 1000 } * US;
        let sent_at = Instant::ZERO + millis * 1000 * US;
        congestion.accept(sent_at + round_trip, sent_at, Some(round_trip), 64);
    }
    assert_eq!(congestion.shortest.get(), Some(1000 * US));
}
