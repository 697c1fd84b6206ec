//! What is taken for lost, and when: T-6, T-8, T-9.

use core::time::Duration;

use super::Worker;
use super::outcome::{Failure, Waiting};
use super::slots::{Queue, Sendings, Slot};
use crate::time::Instant;

impl Worker<'_> {
    /// T-6 and T-8, at the present time. Something is under way.
    pub(super) fn expire(&mut self) {
        if self.now >= self.progress_at + self.config.stall_time {
            if let Some(Waiting { seq, .. }) = self.waiting() {
                self.fail(Failure::Stalled { seq });
            }
            return;
        }
        if self.deadline().is_none_or(|deadline| self.now < deadline) {
            return;
        }
        let timeout = self.rto.current();
        // Packets that would be due soon go along. Otherwise those sent a microsecond apart would each double the
        // back-off, and the last ones of a window wait for seconds.
        let soon = self.now + timeout / 4;
        let is_silent = self.now >= self.progress_at + timeout;
        let probe = if is_silent { self.rto.probe() } else { None };
        let mut left = probe.unwrap_or_else(|| {
            self.rto.expire();
            u32::MAX
        });
        while left > 0
            && let Some(index) = self.slots.first(Queue::InFlight)
            && self.due(self.slots.get(index), timeout) <= soon
        {
            self.slots.enqueue(index, Queue::TimedOut);
            left -= 1;
        }
        if probe.is_some() {
            // The others wait for what it brings.
            self.resumed_at = self.now;
        }
        self.stats.expiries += 1;
    }

    /// T-9. Only results of packets sent once tell anything: after a stall, that of one sent again may belong to the first
    /// sending, as late as all others.
    pub(super) fn resend_overtaken(&mut self) {
        let allowance = self.rto.srtt().map_or(Duration::ZERO, |srtt| srtt / 4).max(self.config.reordering);
        while let Some(index) = self.slots.first(Queue::InFlight)
            && self.slots.get(index).sent_at + allowance < self.answered_until
        {
            if self.slots.get(index).sendings == Sendings::One {
                self.congestion.lose();
            }
            self.slots.enqueue(index, Queue::Overtaken);
        }
    }

    /// When the first packet under way is due, of those that are not queued already.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.slots.first(Queue::InFlight).map(|index| self.due(self.slots.get(index), self.rto.current()))
    }

    /// When a packet in flight is due under this timeout.
    fn due(&self, slot: &Slot, timeout: Duration) -> Instant {
        slot.sent_at.max(self.resumed_at) + timeout
    }
}
