//! What waits to be told: at most one of each kind, and a few status reports.

use heapless::Deque;

use super::{MemberEvent, SessionParams};
use crate::ids::WorkerSet;
use crate::wire::StatusReport;

/// Reports kept for a caller that polls late; the oldest give way.
const REPORTS: usize = 4;

#[derive(Debug, Default)]
pub(super) struct Events {
    waiting: Option<WorkerSet>,
    ready: Option<SessionParams>,
    reports: Deque<StatusReport, REPORTS>,
    last: Option<MemberEvent>,
}

impl Events {
    pub(super) const fn waiting(&mut self, missing: WorkerSet) {
        self.waiting = Some(missing);
    }

    /// Nobody is waited for any more.
    pub(super) const fn ready(&mut self, params: SessionParams) {
        self.waiting = None;
        self.ready = Some(params);
    }

    pub(super) fn status(&mut self, report: StatusReport) {
        if let Err(report) = self.reports.push_back(report) {
            self.reports.pop_front();
            // There is room: one was just taken out.
            let _ = self.reports.push_back(report);
        }
    }

    pub(super) const fn last(&mut self, event: MemberEvent) {
        self.last = Some(event);
    }

    pub(super) fn pop(&mut self) -> Option<MemberEvent> {
        (self.waiting.take().map(|missing| MemberEvent::Waiting { missing }))
            .or_else(|| self.ready.take().map(MemberEvent::Ready))
            .or_else(|| self.reports.pop_front().map(MemberEvent::Status))
            .or_else(|| self.last.take())
    }
}
