//! When to repeat a message that has no answer.

use core::time::Duration;

use crate::Instant;

/// The wait before the first repetition.
const FIRST: Duration = Duration::from_millis(20);
/// The longest wait between two repetitions.
const LONGEST: Duration = Duration::from_millis(500);

/// A message's times: due at once, then again after 20 ms, and each wait twice the one before, up to 500 ms.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub(super) struct Pace {
    due: Instant,
    wait: Duration,
}

impl Pace {
    pub(super) const fn starting(now: Instant) -> Self {
        Self { due: now, wait: FIRST }
    }

    pub(super) const fn due(&self) -> Instant {
        self.due
    }

    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.due <= now
    }

    /// The message was sent; what it waits for may still come.
    pub(super) fn sent(&mut self, now: Instant) {
        self.due = now + self.wait;
        self.wait = LONGEST.min(self.wait * 2);
    }

    /// The message is due at `at`, if it was to be later.
    pub(super) fn not_later_than(&mut self, at: Instant) {
        self.due = self.due.min(at);
    }

    /// The message is due again at `at`, and its waits begin anew.
    pub(super) const fn restart(&mut self, at: Instant) {
        *self = Self::starting(at);
    }
}
