//! What waits to be told: at most one of each kind.

use super::{EndReason, MemberEvent, SessionParams};
use crate::ids::WorkerSet;
use crate::wire::StatusReport;

#[derive(Debug, Default)]
pub(super) struct Events {
    waiting: Option<WorkerSet>,
    ready: Option<SessionParams>,
    /// The latest one.
    report: Option<StatusReport>,
    last: Option<End>,
}

/// The last event; smaller than any event.
#[derive(Clone, Copy, Debug)]
pub(super) enum End {
    Left,
    Failed(EndReason),
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

    pub(super) const fn status(&mut self, report: StatusReport) {
        self.report = Some(report);
    }

    pub(super) const fn last(&mut self, end: End) {
        self.last = Some(end);
    }

    pub(super) fn pop(&mut self) -> Option<MemberEvent> {
        (self.waiting.take().map(|missing| MemberEvent::Waiting { missing }))
            .or_else(|| self.ready.take().map(MemberEvent::Ready))
            .or_else(|| self.report.take().map(MemberEvent::Status))
            .or_else(|| {
                Some(match self.last.take()? {
                    End::Left => MemberEvent::Left,
                    End::Failed(reason) => MemberEvent::Ended(reason),
                })
            })
    }
}
