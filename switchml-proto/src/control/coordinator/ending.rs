//! Leases, and how sessions end (C-3).

use core::time::Duration;

use super::storage::{Job, JobIndex, Plane, Stage, Standing};
use super::{Coordinator, CoordinatorEvent, DataPlane, SessionEnd};
use crate::Instant;
use crate::ids::Rank;
use crate::wire::AbortReason;

impl Coordinator<'_> {
    /// Looks at every lease and deadline.
    pub(super) fn sweep(&mut self, now: Instant, plane: &mut dyn DataPlane) {
        self.deadline = None;
        self.storage.take_census(now, self.config.lease);
        for at in self.job_indices() {
            if let Some(job) = self.storage.job(at).copied() {
                self.sweep_job(now, at, &job, plane);
            }
        }
    }

    fn sweep_job(&mut self, now: Instant, at: JobIndex, job: &Job, plane: &mut dyn DataPlane) {
        let census = job.census;
        let join_deadline = job.created + self.config.join_timeout;
        match job.stage {
            Stage::Joining => {
                if census.present == census.lapsed {
                    self.finish(now, at, plane);
                } else if let Some(culprit) = census.lapsed.iter().next() {
                    self.begin_abort(now, at, AbortReason::LeaseExpired, Some(culprit), plane);
                } else if join_deadline <= now {
                    self.begin_abort(now, at, AbortReason::JoinTimeout, None, plane);
                } else {
                    self.wake_at(join_deadline);
                }
            }
            Stage::Ready => {
                if let Some(culprit) = census.lapsed.iter().next() {
                    self.begin_abort(now, at, AbortReason::LeaseExpired, Some(culprit), plane);
                } else if !job.left.is_empty() && job.next_look <= now {
                    self.look(now, at, plane);
                } else if !job.left.is_empty() {
                    self.wake_at(job.next_look);
                }
            }
            Stage::Aborting { .. } | Stage::Refused(_) => {
                if census.present == census.lapsed {
                    self.finish(now, at, plane);
                }
            }
        }
        if let Some(lapse) = census.next_lapse {
            self.wake_at(lapse);
        }
    }

    /// Aborts the session if some phase waits for a rank that left, and looks again a little later.
    pub(super) fn look(&mut self, now: Instant, at: JobIndex, plane: &mut dyn DataPlane) {
        let next_look = now + self.config.lease / 10;
        let Some(job) = self.storage.job_mut(at) else { return };
        if job.stage != Stage::Ready {
            return;
        }
        job.next_look = next_look;
        let (number, left) = (job.job, job.left);
        match plane.missing(number).and(left).iter().next() {
            Some(culprit) => self.begin_abort(now, at, AbortReason::Left, Some(culprit), plane),
            None => self.wake_at(next_look),
        }
    }

    /// From now on the members are told that it is over, each until it acknowledges or its lease ends.
    pub(super) fn begin_abort(
        &mut self,
        now: Instant,
        at: JobIndex,
        reason: AbortReason,
        culprit: Option<Rank>,
        plane: &mut dyn DataPlane,
    ) {
        let Some(job) = self.storage.job_mut(at) else { return };
        let held = match job.stage {
            Stage::Joining => Plane::Untouched,
            Stage::Ready => Plane::Installed,
            Stage::Aborting { .. } | Stage::Refused(_) => return,
        };
        job.stage = Stage::Aborting { reason, culprit, plane: held };
        let lease = self.config.lease;
        for member in self.storage.members_mut().filter(|member| member.job == at) {
            member.abort_due = now;
            if member.standing == Standing::Present && member.heard + lease <= now {
                member.standing = Standing::Told;
            }
        }
        self.next_abort = Some(now);
        self.finish_if_all_told(now, at, plane);
    }

    /// Ends the job if there is nobody left who must be heard or told.
    pub(super) fn finish_if_all_told(&mut self, now: Instant, at: JobIndex, plane: &mut dyn DataPlane) {
        let of_job = |member: &super::storage::Membership| member.job == at;
        if !self.storage.members().any(|member| of_job(member) && member.standing == Standing::Present) {
            self.finish(now, at, plane);
        }
    }

    /// Frees the job's slots and entries; its number rests if data could flow.
    fn finish(&mut self, now: Instant, at: JobIndex, plane: &mut dyn DataPlane) {
        let Some(&Job { name, run, job, stage, .. }) = self.storage.job(at) else { return };
        let (how, held) = match stage {
            Stage::Joining => (SessionEnd::Deserted, Plane::Untouched),
            Stage::Ready => (SessionEnd::Left, Plane::Installed),
            Stage::Aborting { reason, culprit, plane } => (SessionEnd::Aborted { reason, culprit }, plane),
            Stage::Refused(refused) => (SessionEnd::Refused(refused), Plane::Untouched),
        };
        if held == Plane::Installed {
            plane.remove(job);
            self.numbers.rest(job, now);
        }
        for member in self.storage.members().filter(|member| member.job == at) {
            self.ghosts.remember(member.nonce, now);
        }
        self.storage.remove_job(at);
        self.tell(CoordinatorEvent::Ended { name, run, job, how });
    }

    /// How long after an abort to a member the next one follows.
    pub(super) fn abort_interval(&self) -> Duration {
        self.config.lease / 20
    }
}
