//! Keep-alives of a member (C-3).

use core::time::Duration;

use crate::Instant;
use crate::ids::{LaneCount, LaneId};

/// The shortest time between two keep-alives that hints of a lost session cause.
const HINT_GAP: Duration = Duration::from_millis(50);
/// No timer of a member is shorter, whatever lease it is told.
const SHORTEST: Duration = Duration::from_millis(1);

/// When keep-alives are due: at once, then a third of the lease after each one that was answered, and a twenty-fourth
/// after each that was not.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub(super) struct Pulse {
    lease: Duration,
    due: Instant,
    last_sent: Option<Instant>,
    /// Keep-alives sent since the last answer; each goes through the next lane.
    unanswered: u32,
}

impl Pulse {
    pub(super) const fn starting(now: Instant, lease: Duration) -> Self {
        Self { lease, due: now, last_sent: None, unanswered: 0 }
    }

    pub(super) const fn due(&self) -> Instant {
        self.due
    }

    /// The lane to send a keep-alive through now, if one is due. It counts as sent.
    pub(super) fn beat(&mut self, now: Instant, lanes: LaneCount) -> Option<LaneId> {
        if self.due > now {
            return None;
        }
        let turn = self.unanswered as usize % usize::from(lanes.get());
        self.last_sent = Some(now);
        self.due = now + SHORTEST.max(self.lease / 24);
        self.unanswered = self.unanswered.wrapping_add(1);
        lanes.lanes().nth(turn)
    }

    pub(super) fn answered(&mut self) {
        self.unanswered = 0;
        if let Some(sent) = self.last_sent {
            self.due = sent + SHORTEST.max(self.lease / 3);
        }
    }

    /// Somebody says that the session is lost: ask soon.
    pub(super) fn hurry(&mut self, now: Instant) {
        let soonest = self.last_sent.map_or(now, |sent| now.max(sent + HINT_GAP));
        self.due = self.due.min(soonest);
    }
}
