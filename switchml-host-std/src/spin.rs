//! Looking again before going to sleep.
//!
//! Waking a thread takes several microseconds, of which whoever sends to it pays the larger part. Looking again saves
//! that where the next datagram is near, and where nobody else wants the processor. Neither is known beforehand, so a
//! thread learns it. After looks in vain it sleeps at once the next few times, twice as many after each further vain
//! ones. When it gave way and came back late, some other program wants the processor: then it does not look again for
//! a while, twice as long after each further time.

use core::time::Duration;
use std::thread;
use std::time::Instant;

/// How long a lane's thread looks for datagrams again and again before it sleeps, unless something else is said.
pub(crate) const SPIN: Duration = Duration::from_micros(50);

/// Giving way to this job's other threads takes microseconds, up to some hundreds. A program that computes keeps the
/// processor for milliseconds.
const LATE: Duration = Duration::from_millis(1);

/// How long a thread does not look again after it came back late: at first, and at most.
const REST: [Duration; 2] = [Duration::from_millis(200), Duration::from_secs(10)];

/// The most sleeps in a row without looking again first, after looks in vain.
const MOST_ABSTENTIONS: u32 = 64;

/// Whether a thread that found nothing looks again or sleeps.
#[derive(Debug)]
pub(crate) struct Spin {
    limit: Duration,
    /// The looks in vain since something was found: when the first was, and when the last.
    vain: Option<(Instant, Instant)>,
    /// How many sleeps come without looking again first.
    abstain: u32,
    /// How many they will be after the next looks in vain.
    next_abstention: u32,
    /// Until when it rests since it came back late, and how long that rest is.
    rest: Option<(Instant, Duration)>,
}

impl Spin {
    /// Looks again for as long as `limit`; never if that is zero.
    pub(crate) const fn new(limit: Duration) -> Self {
        Self { limit, vain: None, abstain: 0, next_abstention: 1, rest: None }
    }

    /// Something was found.
    pub(crate) fn found(&mut self) {
        if self.vain.is_some() {
            self.found_at(Instant::now());
        }
    }

    /// Nothing was found: whether to look again. If so, others that want the processor have had it first.
    pub(crate) fn looks_again(&mut self) -> bool {
        let looks = !self.limit.is_zero() && self.looks_again_at(Instant::now());
        if looks {
            thread::yield_now();
        }
        looks
    }

    fn found_at(&mut self, now: Instant) {
        if let Some((_, last)) = self.vain.take() {
            self.next_abstention = 1;
            // What was found after it came back late may have waited for all that time.
            self.was_late(last, now);
        }
    }

    fn looks_again_at(&mut self, now: Instant) -> bool {
        if self.abstain > 0 {
            self.abstain -= 1;
            return false;
        }
        if self.rest.is_some_and(|(until, _)| now < until) {
            return false;
        }
        let (first, last) = self.vain.unwrap_or((now, now));
        if self.was_late(last, now) {
            self.vain = None;
            return false;
        }
        if now - first >= self.limit {
            self.vain = None;
            self.abstain = self.next_abstention;
            self.next_abstention = (2 * self.next_abstention).min(MOST_ABSTENTIONS);
            return false;
        }
        self.vain = Some((first, now));
        true
    }

    /// Whether it gave way at `last` and came back late; then it rests.
    fn was_late(&mut self, last: Instant, now: Instant) -> bool {
        let late = now - last >= LATE;
        if late {
            let [shortest, longest] = REST;
            let rest = match self.rest {
                // It went well for as long as it had rested: a new start.
                Some((until, rest)) if now - until < rest => (2 * rest).min(longest),
                _ => shortest,
            };
            self.rest = Some((now + rest, rest));
        }
        late
    }
}

#[cfg(test)]
mod tests;
