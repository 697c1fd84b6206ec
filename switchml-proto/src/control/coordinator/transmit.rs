//! What the coordinator sends: answers, welcomes, aborts, hints.

use core::time::Duration;

use super::storage::{Job, JobEntry, JobIndex, MemberEntry, Membership, Owed, Port, Stage, Standing};
use super::{Audience, Coordinator, CoordinatorDatagram, Source};
use crate::Instant;
use crate::control::ControlDatagram;
use crate::wire::{Message, Welcome};

/// An answer that is sent once, as soon as the caller polls.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub(super) struct Answer {
    to: Source,
    message: Message,
}

/// The mean time between two hints to senders without a session: 200 in a second.
const HINT_INTERVAL: Duration = Duration::from_millis(5);
/// How far the hints may run ahead of that: a burst of 40.
const HINT_BURST: Duration = Duration::from_millis(200);

/// Limits the rate of hints, since their senders' addresses may be forged (C-3).
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub(super) struct HintLimit {
    /// When the hints sent so far are paid for.
    paid_at: Instant,
}

impl HintLimit {
    pub(super) const fn new(now: Instant) -> Self {
        Self { paid_at: now }
    }

    /// Whether another hint may go now; if so, it counts.
    pub(super) fn take(&mut self, now: Instant) -> bool {
        let paid_at = self.paid_at.max(now) + HINT_INTERVAL;
        let within = paid_at <= now + HINT_BURST;
        if within {
            self.paid_at = paid_at;
        }
        within
    }
}

impl Coordinator<'_> {
    pub(super) fn answer(&mut self, to: Source, message: Message) {
        if self.answers.push_back(Answer { to, message }).is_err() {
            self.counters.answers_dropped += 1;
        }
    }

    pub(super) fn poll_answer(&mut self) -> Option<CoordinatorDatagram> {
        let Answer { to: Source { lane, address }, message } = self.answers.pop_front()?;
        let audience = match self.storage.port(lane, address) {
            Some(_) => Audience::Member,
            None => Audience::Stranger,
        };
        Some(CoordinatorDatagram {
            lane,
            to: address,
            audience,
            datagram: ControlDatagram { message, padded: 0 },
        })
    }

    /// The next welcome that a port is owed; a rejection, if the plane had no room for its job.
    pub(super) fn poll_welcome(&mut self) -> Option<CoordinatorDatagram> {
        let from = self.owed_from?;
        let mut entries = self.storage.ports.iter_mut().enumerate().skip(from);
        let found = entries.find_map(|(at, entry)| {
            let port = entry.0.as_mut()?;
            let owed = core::mem::replace(&mut port.owed, Owed::Nothing);
            (owed != Owed::Nothing).then_some((at, *port, owed))
        });
        let Some((at, port, owed)) = found else {
            self.owed_from = None;
            return None;
        };
        self.owed_from = Some(at + 1);
        // Ports and members are taken out together with their job.
        let job = *self.storage.job(port.job)?;
        let member = *self.storage.member(port.job, port.rank)?;
        let (message, padded) = match job.stage {
            Stage::Refused(refused) => {
                self.counters.rejects += 1;
                let (rank, lane, nonce) = (port.rank.get(), port.lane.get(), member.nonce);
                (Message::Reject { rank, lane, nonce, reason: refused.into() }, 0)
            }
            Stage::Joining | Stage::Ready | Stage::Aborting { .. } => {
                self.counters.welcomes += 1;
                let padded = if owed == Owed::Padded { job.layout.datagram_len() } else { 0 };
                (self.welcome(&job, &port, &member), padded)
            }
        };
        Some(CoordinatorDatagram::to_member(&port, message, padded))
    }

    fn welcome(&self, job: &Job, port: &Port, member: &Membership) -> Message {
        Message::Welcome(Welcome {
            job: job.job,
            rank: port.rank,
            lane: port.lane,
            nonce: member.nonce,
            session: job.session,
            base: job.layout.base(),
            initial_seq: job.initial_seq,
            lease_millis: self.config.lease_millis(),
            missing: job.missing(),
            ready: job.stage == Stage::Ready,
        })
    }

    /// The next abort that is due to a member.
    pub(super) fn poll_abort(&mut self, now: Instant) -> Option<CoordinatorDatagram> {
        if self.next_abort? > now {
            return None;
        }
        let again_at = now + self.abort_interval();
        let jobs = &*self.storage.jobs;
        let mut next = None;
        let due = self.storage.members.iter_mut().find_map(|entry| {
            let (member, message) = abort_to(jobs, entry)?;
            if member.abort_due > now {
                next = Some(next.map_or(member.abort_due, |next: Instant| next.min(member.abort_due)));
                return None;
            }
            let turn = member.aborts_sent as usize % member.lanes.count_ones().max(1) as usize;
            member.abort_due = again_at;
            member.aborts_sent = member.aborts_sent.wrapping_add(1);
            Some((member.job, member.rank, turn, message))
        });
        let Some((job, rank, turn, message)) = due else {
            self.next_abort = next;
            return None;
        };
        let mut ports = self.storage.ports().filter(|port| port.job == job && port.rank == rank);
        let port = *ports.nth(turn)?;
        self.counters.aborts_sent += 1;
        Some(CoordinatorDatagram::to_member(&port, message, 0))
    }
}

impl CoordinatorDatagram {
    const fn to_member(port: &Port, message: Message, padded: usize) -> Self {
        let Port { lane, address, .. } = *port;
        Self { lane, to: address, audience: Audience::Member, datagram: ControlDatagram { message, padded } }
    }
}

/// The abort that a member has still to acknowledge, if its job is being aborted.
fn abort_to<'a>(jobs: &[JobEntry], entry: &'a mut MemberEntry) -> Option<(&'a mut Membership, Message)> {
    let member = entry.0.as_mut()?;
    let JobIndex(at) = member.job;
    let job = jobs.get(usize::from(at))?.0.as_ref()?;
    let Stage::Aborting { reason, culprit, .. } = job.stage else { return None };
    if member.standing != Standing::Present {
        return None;
    }
    let message = Message::Abort { job: job.job, rank: member.rank, session: job.session, reason, culprit };
    Some((member, message))
}
