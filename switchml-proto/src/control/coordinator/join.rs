//! Joins (C-1, C-2): first the cookie, then the parameters, then room, and only then state.

use super::storage::{Census, Job, JobIndex, Membership, Owed, Port, Stage, Standing};
use super::{Coordinator, CoordinatorEvent, DataPlane, InstallRefused, Intake, SessionPlan, Source};
use super::{JobEntry, MemberEntry, PortEntry};
use crate::Instant;
use crate::control::Heard;
use crate::ids::{ChunkSize, LaneLayout, Nonce, Seq, SessionId, WorkerSet};
use crate::wire::{Field, Join, MIN_JOIN_LEN, Message, PROTOCOL_VERSION, RejectReason};

/// What a join that is not refused will change.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
enum Admission {
    /// Nothing: it is a repetition.
    Again(JobIndex),
    NewLane(JobIndex),
    NewRank(JobIndex),
    NewJob {
        base: u16,
    },
}

impl Coordinator<'_> {
    pub(super) fn hear_join(
        &mut self,
        now: Instant,
        source: Source,
        join: &Join,
        len: usize,
        plane: &mut dyn DataPlane,
    ) -> Heard {
        self.counters.joins += 1;
        if join.lane != source.lane {
            return Heard::Foreign;
        }
        if let Intake::Closed = self.intake {
            return Heard::Stale;
        }
        let Join { rank, lane, nonce, .. } = *join;
        if !self.secret.is_valid(join.cookie, now, source.address, lane, nonce) {
            if join.cookie != 0 {
                self.counters.stale_cookies += 1;
            }
            self.counters.challenges += 1;
            let cookie = self.secret.cookie(now, source.address, lane, nonce);
            self.answer(source, Message::Challenge { rank, lane, nonce, cookie });
            return Heard::Accepted;
        }
        if self.ghosts.contains(nonce, now) {
            self.reject(source, rank.get(), lane.get(), nonce, RejectReason::Ending);
            return Heard::Stale;
        }
        let admission = match self.admit(source, join, plane) {
            Ok(admission) => admission,
            Err(reason) => {
                self.reject(source, rank.get(), lane.get(), nonce, reason);
                return Heard::Accepted;
            }
        };
        let padded = len >= join.chunk.datagram_len();
        match admission {
            Admission::Again(at) => self.rejoin(now, source, at, join, padded),
            Admission::NewLane(_) | Admission::NewRank(_) | Admission::NewJob { .. } if !padded => {
                // The same cookie again: it tells the lane that the aggregator lives, and the path is to blame (W-11).
                self.counters.unpadded_joins += 1;
                self.counters.challenges += 1;
                self.answer(source, Message::Challenge { rank, lane, nonce, cookie: join.cookie });
                Heard::Accepted
            }
            Admission::NewLane(at) => self.enroll_lane(now, source, at, join, plane),
            Admission::NewRank(at) => self.enroll_rank(now, source, at, join, plane),
            Admission::NewJob { base } => self.create(now, source, base, join, plane),
        }
    }

    /// A join that this version cannot read further than to its nonce. It is told so at once: the answer is shorter
    /// than any join.
    pub(super) fn reject_unread(
        &mut self,
        source: Source,
        rank: u8,
        lane: u8,
        nonce: Nonce,
        len: usize,
        reason: RejectReason,
    ) {
        self.counters.joins += 1;
        if len >= MIN_JOIN_LEN {
            self.reject(source, rank, lane, nonce, reason);
        }
    }

    /// What a reader of another version is told.
    pub(super) const FOREIGN_VERSION: RejectReason =
        RejectReason::ProtocolVersion { version: PROTOCOL_VERSION };

    fn reject(&mut self, source: Source, rank: u8, lane: u8, nonce: Nonce, reason: RejectReason) {
        self.counters.rejects += 1;
        self.answer(source, Message::Reject { rank, lane, nonce, reason });
    }

    /// Judges a join whose source is proven; changes nothing.
    fn admit(
        &self,
        source: Source,
        join: &Join,
        plane: &mut dyn DataPlane,
    ) -> Result<Admission, RejectReason> {
        if join.lanes > self.config.lanes {
            return Err(RejectReason::TooManyLanes { lanes: self.config.lanes.get().into() });
        }
        let existing = self.storage.job_of_key(&join.name, join.run);
        if let Some(job) = existing.and_then(|at| self.storage.job(at)) {
            if let Some(disagreement) = disagreement(job, join) {
                return Err(disagreement);
            }
            match job.stage {
                // A member that does not know yet that it is over gets its welcome, and with it the abort.
                Stage::Aborting { .. } if !self.is_member(source, join) => return Err(RejectReason::Ending),
                Stage::Refused(refused) => return Err(refused.into()),
                Stage::Joining | Stage::Ready | Stage::Aborting { .. } => {}
            }
        }
        let path = plane.largest_datagram(source.address).map(ChunkSize::largest_within);
        let largest =
            path.map_or(Some(self.config.largest_chunk), |path| path.min(Some(self.config.largest_chunk)));
        if Some(join.chunk) > largest {
            let largest = largest.map_or(0, |chunk| chunk.elements() as u32);
            return Err(RejectReason::ChunkTooLarge { largest });
        }
        // The source's present port, if it has one: an address can only be one lane of one rank of one job (W-10).
        let port = self.storage.ports().find(|port| port.address == source.address);
        let Some(at) = existing else {
            if port.is_some() {
                return Err(RejectReason::AddressTaken);
            }
            if self.storage.jobs.iter().all(|entry| entry.0.is_some()) {
                return Err(RejectReason::TooManyJobs);
            }
            self.check_member_room()?;
            let free = self.storage.free_slots(self.config.slots, join.window);
            let base = free.map_err(|largest| RejectReason::NoFreeSlots { largest })?;
            return Ok(Admission::NewJob { base });
        };
        let member = self.storage.member(at, join.rank);
        if member.is_some_and(|member| member.nonce != join.nonce) {
            return Err(RejectReason::RankTaken);
        }
        let bit = 1 << join.lane.get();
        match (member, port) {
            (Some(_), Some(port)) if port.job == at && port.rank == join.rank && port.lane == join.lane => {
                Ok(Admission::Again(at))
            }
            (_, Some(_)) => Err(RejectReason::AddressTaken),
            // This process has joined in this lane already, from another address.
            (Some(member), None) if member.lanes & bit != 0 => Err(RejectReason::RankTaken),
            (Some(_), None) => self.check_port_room().map(|()| Admission::NewLane(at)),
            (None, None) => self.check_member_room().map(|()| Admission::NewRank(at)),
        }
    }

    /// Whether the join repeats one that made its source a port.
    fn is_member(&self, source: Source, join: &Join) -> bool {
        let port = self.storage.port(source.lane, source.address);
        port.filter(|port| port.rank == join.rank)
            .and_then(|port| self.storage.member(port.job, port.rank))
            .is_some_and(|member| member.nonce == join.nonce)
    }

    fn check_member_room(&self) -> Result<(), RejectReason> {
        if self.storage.members.iter().all(|entry| entry.0.is_some()) {
            return Err(RejectReason::TooManyMembers);
        }
        self.check_port_room()
    }

    fn check_port_room(&self) -> Result<(), RejectReason> {
        if self.storage.ports.iter().all(|entry| entry.0.is_some()) {
            return Err(RejectReason::TooManyMembers);
        }
        Ok(())
    }

    fn rejoin(&mut self, now: Instant, source: Source, at: JobIndex, join: &Join, padded: bool) -> Heard {
        let Some(stage) = self.storage.job(at).map(|job| job.stage) else { return Heard::Foreign };
        let Some(member) = self.storage.member_mut(at, join.rank) else { return Heard::Foreign };
        if member.standing != Standing::Present {
            return Heard::Stale;
        }
        if let Stage::Aborting { .. } = stage {
            member.abort_due = now;
            self.next_abort = Some(now);
        } else {
            member.heard = now;
        }
        self.owe(source, if padded { Owed::Padded } else { Owed::Short });
        Heard::Accepted
    }

    fn create(
        &mut self,
        now: Instant,
        source: Source,
        base: u16,
        join: &Join,
        plane: &mut dyn DataPlane,
    ) -> Heard {
        let Join { name, run, world_size, lanes, rank, lane, nonce, chunk, window, .. } = *join;
        let in_use = self.storage.jobs().map(|(_, job)| job.job);
        let number = self.numbers.draw(now, &mut self.secret, in_use);
        // The free slots lie within the configured ones, which 14 bits can name.
        let layout = LaneLayout::new(base, window, chunk).ok();
        let free = (0u16..).zip(self.storage.jobs.iter_mut()).find(|(_, entry)| entry.0.is_none());
        let (Some(job), Some(layout), Some((at, entry))) = (number, layout, free) else {
            self.reject(source, rank.get(), lane.get(), nonce, RejectReason::TooManyJobs);
            return Heard::Accepted;
        };
        let at = JobIndex(at);
        let session = SessionId(self.secret.draw());
        let round = 2 * u32::from(window.get());
        let initial_seq = Seq(self.secret.draw() as u32 & !(round - 1));
        *entry = JobEntry(Some(Job {
            name,
            run,
            job,
            session,
            world_size,
            lanes,
            layout,
            initial_seq,
            created: now,
            stage: Stage::Joining,
            joined: WorkerSet::EMPTY,
            left: WorkerSet::EMPTY,
            next_look: now,
            census: Census::NONE,
        }));
        self.wake_at(now + self.config.join_timeout);
        self.tell(CoordinatorEvent::Created { name, run, job });
        self.enroll_rank(now, source, at, join, plane)
    }

    fn enroll_rank(
        &mut self,
        now: Instant,
        source: Source,
        at: JobIndex,
        join: &Join,
        plane: &mut dyn DataPlane,
    ) -> Heard {
        let member = Membership {
            job: at,
            rank: join.rank,
            nonce: join.nonce,
            heard: now,
            lanes: 0,
            standing: Standing::Present,
            abort_due: now,
            aborts_sent: 0,
        };
        // `admit` has seen a free entry.
        if let Some(entry) = self.storage.members.iter_mut().find(|entry| entry.0.is_none()) {
            *entry = MemberEntry(Some(member));
        }
        self.wake_at(now + self.config.lease);
        self.enroll_lane(now, source, at, join, plane)
    }

    fn enroll_lane(
        &mut self,
        now: Instant,
        source: Source,
        at: JobIndex,
        join: &Join,
        plane: &mut dyn DataPlane,
    ) -> Heard {
        let Source { lane, address } = source;
        let port = Port { job: at, rank: join.rank, lane, address, owed: Owed::Nothing };
        // `admit` has seen a free entry.
        if let Some(entry) = self.storage.ports.iter_mut().find(|entry| entry.0.is_none()) {
            *entry = PortEntry(Some(port));
        }
        self.owe(source, Owed::Padded);
        let Some(member) = self.storage.member_mut(at, join.rank) else { return Heard::Foreign };
        member.heard = now;
        member.lanes |= 1 << lane.get();
        if member.lanes.count_ones() == u32::from(join.lanes.get())
            && let Some(job) = self.storage.job_mut(at)
        {
            job.joined = job.joined.with(join.rank);
            let (job, missing) = (job.job, job.missing());
            self.tell(CoordinatorEvent::Joined { job, rank: join.rank });
            if missing.is_empty() {
                self.begin(at, plane);
            }
        }
        Heard::Accepted
    }

    /// All have joined: data may flow (C-2).
    fn begin(&mut self, at: JobIndex, plane: &mut dyn DataPlane) {
        let Some(job) = self.storage.job(at) else { return };
        let plan = SessionPlan {
            job: job.job,
            session: job.session,
            world_size: job.world_size,
            lanes: job.lanes,
            layout: job.layout,
            initial_seq: job.initial_seq,
            index: at,
            ports: self.storage.ports,
        };
        let installed = plane.install(&plan);
        let Some(job) = self.storage.job_mut(at) else { return };
        let number = job.job;
        match installed {
            Ok(()) => {
                job.stage = Stage::Ready;
                self.tell(CoordinatorEvent::Ready { job: number });
            }
            Err(refused) => job.stage = Stage::Refused(refused),
        }
        for port in self.storage.ports_mut().filter(|port| port.job == at) {
            port.owed = Owed::Padded;
        }
        self.owed_from = Some(0);
    }

    fn owe(&mut self, source: Source, owed: Owed) {
        let Source { lane, address } = source;
        let of_source = |port: &Port| port.lane == lane && port.address == address;
        let mut entries = self.storage.ports.iter_mut().enumerate();
        if let Some((at, entry)) = entries.find(|(_, entry)| entry.0.as_ref().is_some_and(of_source))
            && let Some(port) = &mut entry.0
        {
            port.owed = owed;
            self.owed_from = Some(self.owed_from.map_or(at, |from| from.min(at)));
        }
    }
}

/// The first parameter in which a join differs from its job (C-1).
fn disagreement(job: &Job, join: &Join) -> Option<RejectReason> {
    let (field, job_value) = if join.world_size != job.world_size {
        (Field::WorldSize, job.world_size.get().into())
    } else if join.lanes != job.lanes {
        (Field::Lanes, job.lanes.get().into())
    } else if join.chunk != job.layout.chunk() {
        (Field::ChunkSize, job.layout.chunk().elements() as u32)
    } else if join.window != job.layout.window() {
        (Field::Window, job.layout.window().get().into())
    } else {
        return None;
    };
    Some(RejectReason::Disagrees { field, job_value })
}

impl From<InstallRefused> for RejectReason {
    fn from(refused: InstallRefused) -> Self {
        match refused {
            InstallRefused::Slots { largest } => Self::NoFreeSlots { largest },
            InstallRefused::Jobs => Self::TooManyJobs,
            InstallRefused::Members => Self::TooManyMembers,
        }
    }
}
