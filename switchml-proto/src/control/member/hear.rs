//! What a member makes of each message.

use core::time::Duration;

use super::events::End;
use super::lane::Progress;
use super::pulse::Pulse;
use super::{EndReason, SessionParams, SizedMember, State};
use crate::Instant;
use crate::control::Heard;
use crate::ids::{LaneId, Nonce, Rank, SessionId, Version, WorkerSet};
use crate::wire::{AbortReason, ControlError, Message, RejectReason, Welcome};

impl<const LANES: usize> SizedMember<LANES> {
    pub(super) fn hear(&mut self, now: Instant, lane: LaneId, message: &Message, len: usize) -> Heard {
        match *message {
            Message::Challenge { rank, lane: to, nonce, cookie } => {
                if !self.is_mine(lane, rank.get(), to.get(), nonce) {
                    return Heard::Foreign;
                }
                self.hear_challenge(now, lane, cookie)
            }
            Message::Welcome(ref welcome) => {
                if !self.is_mine(lane, welcome.rank.get(), welcome.lane.get(), welcome.nonce) {
                    return Heard::Foreign;
                }
                self.hear_welcome(now, lane, welcome, len)
            }
            Message::Reject { rank, lane: to, nonce, reason } => {
                if !self.is_mine(lane, rank, to, nonce) {
                    return Heard::Foreign;
                }
                self.hear_reject(reason)
            }
            Message::Alive { session, nonce } => {
                if !self.is_in(session) || nonce != self.nonce {
                    return Heard::Foreign;
                }
                self.hear_alive(now)
            }
            Message::Left { session, nonce } => {
                if !self.is_in(session) || nonce != self.nonce {
                    return Heard::Foreign;
                }
                match self.state {
                    State::Leaving(_) => self.end(End::Left),
                    State::Withdrawing(_) => self.state = State::Over,
                    _ => return Heard::Stale,
                }
                Heard::Accepted
            }
            Message::Abort { rank, session, reason, culprit, .. } => {
                if !self.is_in(session) || rank != self.config.rank {
                    return Heard::Foreign;
                }
                self.hear_abort(lane, reason, culprit)
            }
            Message::Aborted { rank, session, nonce } => {
                if !self.is_in(session) || rank != self.config.rank || nonce != self.nonce {
                    return Heard::Foreign;
                }
                let State::Aborting { .. } = self.state else { return Heard::Stale };
                self.state = State::Over;
                Heard::Accepted
            }
            Message::Status(report) => {
                if !self.is_in(report.session) {
                    return Heard::Foreign;
                }
                let State::Live(_) = self.state else { return Heard::Stale };
                self.last_heard = now;
                self.events.status(report);
                Heard::Accepted
            }
            Message::NoSession { job, .. } => {
                if self.ready.is_none_or(|ready| ready.job != job) {
                    return Heard::Foreign;
                }
                let State::Live(pulse) = &mut self.state else { return Heard::Stale };
                pulse.hurry(now);
                Heard::Accepted
            }
            // What only members send.
            Message::Join(_)
            | Message::ForeignJoin { .. }
            | Message::KeepAlive { .. }
            | Message::Leave { .. }
            | Message::Query { .. } => Heard::Foreign,
        }
    }

    /// Whether the answer to a join is to one that this lane sent (C-2).
    fn is_mine(&self, lane: LaneId, rank: u8, to: u8, nonce: Nonce) -> bool {
        nonce == self.nonce && rank == self.config.rank.get() && to == lane.get()
    }

    fn is_in(&self, session: SessionId) -> bool {
        self.welcomed.is_some_and(|welcomed| welcomed.session == session)
    }

    fn hear_challenge(&mut self, now: Instant, lane: LaneId, cookie: u64) -> Heard {
        let State::Joining = self.state else { return Heard::Stale };
        let Some(state) = self.lanes.get_mut(lane.index()) else { return Heard::Foreign };
        if state.challenged(now, cookie) { Heard::Accepted } else { Heard::Stale }
    }

    fn hear_welcome(&mut self, now: Instant, lane: LaneId, welcome: &Welcome, len: usize) -> Heard {
        let State::Joining = self.state else { return Heard::Stale };
        let lease = Duration::from_millis(welcome.lease_millis.into());
        let Some(layout) = welcome.layout(self.config.window, self.config.chunk) else {
            return Heard::Malformed(ControlError::Value);
        };
        let begins_a_round =
            layout.index(welcome.initial_seq) == 0 && layout.version(welcome.initial_seq) == Version::Zero;
        if lease < super::SHORTEST_LEASE || !begins_a_round {
            return Heard::Malformed(ControlError::Value);
        }
        let full = self.datagram_len();
        let Some(state) = self.lanes.get_mut(lane.index()) else { return Heard::Foreign };
        if len >= full {
            state.prove();
        }
        if !state.is_proven() {
            // The aggregator has this lane, but nothing shows yet that data packets could come back (W-11).
            state.heard_short();
            return Heard::Stale;
        }
        let Welcome { job, session, initial_seq, .. } = *welcome;
        if !self.is_in(session) {
            // The aggregator was restarted, or this is the first welcome, and there is nothing to forget.
            self.lanes.iter_mut().for_each(|lane| lane.forget_welcome(now));
        }
        let params = SessionParams { job, session, layout, initial_seq, lease };
        self.welcomed = Some(params);
        self.last_heard = now;
        let progress = if welcome.ready { Progress::Ready } else { Progress::Welcomed };
        if let Some(state) = self.lanes.get_mut(lane.index()) {
            state.welcomed(now, progress, lease);
        }
        if self.joining_lanes().all(super::Lane::is_ready) {
            self.ready = Some(params);
            self.events.ready(params);
            self.state = State::Live(Pulse::starting(now, lease));
        } else if !welcome.ready {
            self.note_missing(welcome.missing);
        }
        Heard::Accepted
    }

    fn note_missing(&mut self, missing: WorkerSet) {
        let others = WorkerSet::all(self.config.world_size).without(WorkerSet::EMPTY.with(self.config.rank));
        let missing = missing.and(others);
        // The first welcome always tells; afterwards only a change does.
        if self.told != Some(missing) && !missing.is_empty() {
            self.told = Some(missing);
            self.events.waiting(missing);
        }
        self.missing = missing;
    }

    fn hear_reject(&mut self, reason: RejectReason) -> Heard {
        let State::Joining = self.state else { return Heard::Stale };
        self.end(End::Failed(EndReason::Rejected(reason)));
        Heard::Accepted
    }

    fn hear_alive(&mut self, now: Instant) -> Heard {
        let State::Live(pulse) = &mut self.state else { return Heard::Stale };
        pulse.answered();
        self.last_heard = now;
        Heard::Accepted
    }

    fn hear_abort(&mut self, lane: LaneId, reason: AbortReason, culprit: Option<Rank>) -> Heard {
        // An aggregator that knows no such session waits for no acknowledgement.
        if reason != AbortReason::UnknownSession {
            self.acknowledge = Some(lane);
        }
        match self.state {
            State::Joining if reason == AbortReason::JoinTimeout => {
                self.end(End::Failed(EndReason::JoinTimeout { missing: self.missing }));
            }
            // The leave was heard, all others left too, and only the answer was lost.
            State::Leaving(_) if reason == AbortReason::UnknownSession => self.end(End::Left),
            State::Joining | State::Live(_) | State::Leaving(_) => {
                self.end(End::Failed(EndReason::Aborted { reason, culprit }));
            }
            State::Withdrawing(_) | State::Aborting { .. } => self.state = State::Over,
            State::Over => return Heard::Stale,
        }
        Heard::Accepted
    }
}
