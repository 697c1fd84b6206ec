//! What members say after they have joined (C-3, C-4).

use super::storage::{JobIndex, Membership, Stage, Standing};
use super::{Coordinator, DataPlane, Source};
use crate::Instant;
use crate::control::Heard;
use crate::ids::{JobId, Nonce, Rank, Seq, SessionId, WorkerSet, WorldSize};
use crate::phase::PhaseStatus;
use crate::wire::{AbortReason, Message, PhaseState, STATUS_AGE_UNKNOWN, StatusReport};

/// Who claims to speak, in which session.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub(super) struct Speaker {
    pub(super) source: Source,
    pub(super) job: JobId,
    pub(super) session: SessionId,
    pub(super) rank: Rank,
}

impl Coordinator<'_> {
    pub(super) fn hear_keep_alive(&mut self, now: Instant, speaker: Speaker, nonce: Nonce) -> Heard {
        let Some(at) = self.storage.job_of_session(speaker.session) else {
            return self.answer_unknown_session(speaker);
        };
        let Some((stage, member)) = self.member_speaking(at, speaker, Some(nonce)) else {
            return Heard::Foreign;
        };
        match (stage, member.standing) {
            (Stage::Joining | Stage::Ready, Standing::Present) => {
                member.heard = now;
                self.counters.keep_alives += 1;
                self.answer(speaker.source, Message::Alive { session: speaker.session, nonce });
                Heard::Accepted
            }
            (Stage::Aborting { .. }, Standing::Present | Standing::Told) => {
                self.counters.keep_alives += 1;
                self.answer_end(at, speaker)
            }
            (_, Standing::Left) | (Stage::Refused(_), _) | (_, Standing::Told) => Heard::Stale,
        }
    }

    pub(super) fn hear_leave(
        &mut self,
        now: Instant,
        speaker: Speaker,
        nonce: Nonce,
        plane: &mut dyn DataPlane,
    ) -> Heard {
        let Some(at) = self.storage.job_of_session(speaker.session) else {
            return self.answer_unknown_session(speaker);
        };
        let Some((stage, member)) = self.member_speaking(at, speaker, Some(nonce)) else {
            return Heard::Foreign;
        };
        let left = Message::Left { session: speaker.session, nonce };
        match (stage, member.standing) {
            (Stage::Joining | Stage::Refused(_), _) => {
                self.counters.leaves += 1;
                self.ghosts.remember(nonce, now);
                self.storage.remove_member(at, speaker.rank);
                self.answer(speaker.source, left);
                self.finish_if_all_told(now, at, plane);
                Heard::Accepted
            }
            (Stage::Ready, Standing::Present) => {
                member.standing = Standing::Left;
                self.counters.leaves += 1;
                self.answer(speaker.source, left);
                if let Some(job) = self.storage.job_mut(at) {
                    job.left = job.left.with(speaker.rank);
                }
                self.finish_if_all_told(now, at, plane);
                self.look(now, at, plane);
                Heard::Accepted
            }
            (_, Standing::Left) => {
                self.answer(speaker.source, left);
                Heard::Stale
            }
            (Stage::Aborting { .. }, Standing::Present | Standing::Told) => {
                self.counters.leaves += 1;
                self.answer_end(at, speaker)
            }
            (Stage::Ready, Standing::Told) => Heard::Stale,
        }
    }

    pub(super) fn hear_abort(
        &mut self,
        now: Instant,
        speaker: Speaker,
        reason: AbortReason,
        culprit: Option<Rank>,
        plane: &mut dyn DataPlane,
    ) -> Heard {
        // An abort is never answered with an abort: two aggregators whose addresses somebody forged must not
        // answer each other for ever.
        let Some(at) = self.storage.job_of_session(speaker.session) else { return Heard::Foreign };
        let Some((stage, member)) = self.member_speaking(at, speaker, None) else { return Heard::Foreign };
        if member.standing == Standing::Left {
            return Heard::Stale;
        }
        member.standing = Standing::Told;
        let nonce = member.nonce;
        self.counters.aborts_heard += 1;
        self.answer(speaker.source, Message::Aborted { rank: speaker.rank, session: speaker.session, nonce });
        match stage {
            Stage::Joining | Stage::Ready => self.begin_abort(now, at, reason, culprit, plane),
            Stage::Aborting { .. } | Stage::Refused(_) => self.finish_if_all_told(now, at, plane),
        }
        Heard::Accepted
    }

    pub(super) fn hear_aborted(
        &mut self,
        now: Instant,
        source: Source,
        session: SessionId,
        rank: Rank,
        nonce: Nonce,
        plane: &mut dyn DataPlane,
    ) -> Heard {
        // The last acknowledgement ends a session, so its copies come to none.
        let Some(at) = self.storage.job_of_session(session) else { return Heard::Stale };
        let Some(job) = self.storage.job(at).map(|job| job.job) else { return Heard::Stale };
        let speaker = Speaker { source, job, session, rank };
        let Some((stage, member)) = self.member_speaking(at, speaker, Some(nonce)) else {
            return Heard::Foreign;
        };
        let (Stage::Aborting { .. }, Standing::Present) = (stage, member.standing) else {
            return Heard::Stale;
        };
        member.standing = Standing::Told;
        self.counters.acknowledgements += 1;
        self.finish_if_all_told(now, at, plane);
        Heard::Accepted
    }

    pub(super) fn hear_query(
        &mut self,
        now: Instant,
        speaker: Speaker,
        lane: crate::LaneId,
        seq: Seq,
        plane: &mut dyn DataPlane,
    ) -> Heard {
        let Some(at) = self.storage.job_of_session(speaker.session) else {
            return self.answer_unknown_session(speaker);
        };
        if self.member_speaking(at, speaker, None).is_none() {
            return Heard::Foreign;
        }
        let Some(job) = self.storage.job(at) else { return Heard::Foreign };
        let (number, world_size) = (job.job, job.world_size);
        match job.stage {
            Stage::Ready if lane.get() < job.lanes.get() => {}
            Stage::Aborting { .. } => return self.answer_end(at, speaker),
            Stage::Ready | Stage::Joining | Stage::Refused(_) => return Heard::Stale,
        }
        let (phase, missing) = match plane.phase(number, lane, seq) {
            PhaseStatus::Unknown => (PhaseState::Unknown, WorkerSet::EMPTY),
            PhaseStatus::Open { seen } => (PhaseState::Open, WorkerSet::all(world_size).without(seen)),
            PhaseStatus::Complete => (PhaseState::Complete, WorkerSet::EMPTY),
        };
        let mut ages_millis = [0; WorldSize::MAX];
        ages_millis[..usize::from(world_size.get())].fill(STATUS_AGE_UNKNOWN);
        for member in self.storage.members().filter(|member| member.job == at) {
            // A rank is below 64, the length of the array.
            ages_millis[member.rank.index()] =
                u16::try_from(now.since(member.heard).as_millis()).unwrap_or(STATUS_AGE_UNKNOWN);
        }
        let session = speaker.session;
        self.counters.queries += 1;
        self.answer(
            speaker.source,
            Message::Status(StatusReport { session, lane, seq, phase, missing, world_size, ages_millis }),
        );
        Heard::Accepted
    }

    /// The member that speaks, if the address is one of its own, and the nonce too where the message has one.
    fn member_speaking(
        &mut self,
        at: JobIndex,
        speaker: Speaker,
        nonce: Option<Nonce>,
    ) -> Option<(Stage, &mut Membership)> {
        let Speaker { source, rank, .. } = speaker;
        let port = self.storage.port(source.lane, source.address)?;
        if port.job != at || port.rank != rank {
            return None;
        }
        let job = self.storage.job(at)?;
        if job.job != speaker.job {
            return None;
        }
        let stage = job.stage;
        let member = self.storage.member_mut(at, rank)?;
        if nonce.is_some_and(|nonce| nonce != member.nonce) {
            return None;
        }
        Some((stage, member))
    }

    /// Tells who asks that its session is not known here; no longer than what it answers.
    fn answer_unknown_session(&mut self, speaker: Speaker) -> Heard {
        let Speaker { source, job, session, rank } = speaker;
        let reason = AbortReason::UnknownSession;
        self.counters.aborts_sent += 1;
        self.answer(source, Message::Abort { job, rank, session, reason, culprit: None });
        Heard::Foreign
    }

    /// Tells a member why its session is over.
    fn answer_end(&mut self, at: JobIndex, speaker: Speaker) -> Heard {
        let Speaker { source, job, session, rank } = speaker;
        let (reason, culprit) = match self.storage.job(at).map(|job| job.stage) {
            Some(Stage::Aborting { reason, culprit, .. }) => (reason, culprit),
            // It was the last one to be told, and the session is gone.
            _ => return self.answer_unknown_session(speaker),
        };
        self.counters.aborts_sent += 1;
        self.answer(source, Message::Abort { job, rank, session, reason, culprit });
        Heard::Accepted
    }
}
