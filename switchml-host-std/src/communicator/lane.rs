//! One lane: its socket, its worker, and the collectives that are open in it.
//!
//! One thread at a time serves a lane. Most of the time that is the lane's own (`thread`). A call that blocks for a short
//! tensor serves lane 0 itself, on the thread of the caller (`drive`): waking two threads would take longer than the
//! packets do.

mod drive;
mod outgoing;
mod owned;
mod thread;

use core::fmt;
use core::time::Duration;
use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};

use switchml_proto::wire::{AbortReason, Class};
use switchml_proto::worker::{self, CollectiveId, Event, Failure, Received, StartError};
use switchml_proto::{ChunkSize, Instant, LaneId};

use self::outgoing::{OutgoingRun, Tensors, share};
use self::owned::OwnedWorker;
use super::error::{Phase, SessionFailure};
use super::lock;
use super::session::{End, Session};
use super::share::{Share, Task};
use crate::spin::Spin;
use crate::transport::{Received as Looked, RecvBatch};

pub(super) use self::drive::{Driven, drive};
pub(super) use self::thread::{WAKER, run};

/// How often a lane looks for datagrams, if there always are some, before it looks at its timers.
const LOOKS: u32 = 16;

/// What is served.
pub(super) struct Lane {
    session: Arc<Session>,
    id: LaneId,
    worker: OwnedWorker,
    /// What the worker has started and not ended: one or two collectives (T-3a).
    open: VecDeque<Open>,
    /// What it cannot start yet.
    queued: VecDeque<Task>,
    leave: Leave,
    /// When it may start the next one (W-3).
    not_before: Option<Instant>,
    /// When to see whether to ask the aggregator who is missing.
    next_question: Instant,
    /// Looks for datagrams since it looked at its timers.
    looks: u32,
    /// Whether a caller has served it since its thread last asked.
    driven: bool,
    spin: Spin,
    batch: RecvBatch,
    run: OutgoingRun,
}

struct Open {
    id: CollectiveId,
    share: Box<dyn Share>,
}

/// How far the lane is with leaving.
#[derive(Clone, Copy, Eq, PartialEq)]
enum Leave {
    NotAsked,
    Asked,
    /// Asked, and all work is done.
    Ready,
}

/// What whoever serves a lane does next.
#[derive(Clone, Copy, Eq, PartialEq)]
enum Next {
    /// There may be something at once.
    LookAgain,
    Sleep,
}

/// The right to serve a lane. If whoever has it panics, the session fails.
struct Serving<'l>(MutexGuard<'l, Lane>);

impl<'l> Serving<'l> {
    /// None while somebody else has it.
    fn try_begin(lane: &'l Mutex<Lane>) -> Option<Self> {
        match lane.try_lock() {
            Ok(lane) => Some(Self(lane)),
            // The session has failed; that is still to be told to those who wait.
            Err(TryLockError::Poisoned(lane)) => Some(Self(lane.into_inner())),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

impl Drop for Serving<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let lane = &mut *self.0;
            let failure = SessionFailure::LanePanicked { lane: lane.id };
            lane.session.fail(failure, AbortReason::Cancelled, Some(lane.session.rank));
            // Who gets its tensor back because of the panic must find that the session has failed.
            lane.open.clear();
            lane.queued.clear();
        }
    }
}

impl Lane {
    /// Lane `id` of `session`; `spin` is how long to look for datagrams before sleeping.
    pub(super) fn new(session: Arc<Session>, id: LaneId, config: worker::Config, spin: Duration) -> Self {
        let longest = config.layout.datagram_len();
        Self {
            session,
            id,
            worker: OwnedWorker::of(config),
            open: VecDeque::new(),
            queued: VecDeque::new(),
            leave: Leave::NotAsked,
            not_before: None,
            next_question: Instant::ZERO,
            looks: 0,
            driven: false,
            spin: Spin::new(spin),
            batch: RecvBatch::new(longest),
            run: OutgoingRun::new(longest),
        }
    }

    /// Looks once for datagrams, deals with what has come, and then with what is due by time.
    ///
    /// # Errors
    /// The system's, if the socket cannot be used any more.
    fn look(&mut self) -> io::Result<Next> {
        let looked = self.receive()?;
        self.looks += 1;
        // A thread that had to wait for the processor finds deadlines passed whose answers are waiting: those first.
        if looked == Looked::Nothing || self.looks == LOOKS {
            self.looks = 0;
            let now = self.session.clock.now();
            if self.deadline().is_some_and(|deadline| deadline <= now) {
                self.handle_timeouts(now);
                return Ok(Next::LookAgain);
            }
        }
        Ok(match looked {
            // What came may have made packets due, and there may be more.
            Looked::Batch | Looked::Unreachable => {
                self.spin.found();
                Next::LookAgain
            }
            // A result is on its way.
            Looked::Nothing if !self.open.is_empty() && self.spin.looks_again() => Next::LookAgain,
            Looked::Nothing => Next::Sleep,
        })
    }

    fn is_idle(&self) -> bool {
        self.open.is_empty() && self.queued.is_empty()
    }

    fn take_tasks(&mut self) {
        let mut inbox = lock(&self.session.lane(self.id).inbox);
        self.queued.append(&mut inbox.tasks);
        if inbox.leave && self.leave == Leave::NotAsked {
            self.leave = Leave::Asked;
        }
    }

    /// Does all that can be done now: nothing but a datagram, a task or time brings more.
    fn go_on(&mut self, now: Instant) {
        // What has ended makes room for the next.
        self.finish();
        self.start(now);
        self.transmit(now);
    }

    fn start(&mut self, now: Instant) {
        if self.not_before.is_some_and(|time| now < time) {
            return;
        }
        self.not_before = None;
        while self.worker().can_start() {
            let Some(task) = self.queued.pop_front() else { return };
            match self.worker.with_dependent_mut(|_, worker| worker.start(task.collective, now)) {
                Ok(id) => self.open.push_back(Open { id, share: task.share }),
                Err(StartError::SequenceSpace { retry_at }) => {
                    self.queued.push_front(task);
                    self.not_before = Some(retry_at);
                    return;
                }
                // A failure shows as an event too, and a tensor that is too long was refused before.
                Err(_) => {
                    self.queued.push_front(task);
                    return;
                }
            }
        }
    }

    /// Sends all packets that are due, in runs of equal ones.
    fn transmit(&mut self, now: Instant) {
        while let Some(packet) = self.worker.with_dependent_mut(|_, worker| worker.poll_transmit(now)) {
            if !self.run.takes(packet.len()) {
                self.send();
            }
            packet.emit(&mut Tensors(&mut self.open), self.run.next(packet.len()));
            // The window may have room for the next collective's packets too.
            if !self.queued.is_empty() {
                self.start(now);
            }
        }
        self.send();
    }

    fn send(&mut self) {
        let Some((segment, octets)) = self.run.take() else { return };
        let transport = &self.session.lane(self.id).transport;
        let sent = transport.send_run(&[], segment, octets);
        // What was dropped is repeated. What is too long would be too long again.
        if sent.too_long > 0 {
            let failure = SessionFailure::PathTooSmall {
                chunk: self.session.params.layout.chunk(),
                largest: transport.max_datagram().and_then(ChunkSize::largest_within),
            };
            self.session.fail(failure, AbortReason::Cancelled, Some(self.session.rank));
        }
    }

    /// Looks once for datagrams, and deals with what has come.
    fn receive(&mut self) -> io::Result<Looked> {
        let lane = self.session.lane(self.id);
        let looked = lane.transport.recv(&mut self.batch)?;
        if looked == Looked::Nothing {
            return Ok(looked);
        }
        let now = self.session.clock.now();
        self.worker.with_dependent_mut(|_, worker| {
            for run in self.batch.runs() {
                for datagram in run.datagrams() {
                    match Class::of(datagram) {
                        Class::Control => self.session.hear(now, self.id, datagram),
                        Class::Data => {
                            if let Received::Chunk(chunk) = worker.handle_datagram(now, datagram) {
                                share(&mut self.open, chunk.collective).decode(&chunk);
                            }
                        }
                    }
                }
            }
        });
        Ok(looked)
    }

    /// Ends what the worker says has ended.
    fn finish(&mut self) {
        while let Some(event) = self.worker.with_dependent_mut(|_, worker| worker.poll_event()) {
            match event {
                Event::Finished(id) => {
                    if let Some(open) = self.open.iter().position(|open| open.id == id)
                        && let Some(open) = self.open.remove(open)
                    {
                        *lock(&self.session.lane(self.id).stats) = *self.worker().stats();
                        open.share.end(Ok(()));
                    }
                }
                Event::Failed { collective, failure } => self.fail(collective, failure),
                _ => {}
            }
        }
    }

    /// The worker has given up: so does the session.
    fn fail(&mut self, collective: CollectiveId, failure: Failure) {
        let phase = |seq| Phase { collective, lane: self.id, seq };
        match failure {
            Failure::CollectivesDiffer { seq } => self.session.fail(
                SessionFailure::CollectivesDiffer { phase: Some(phase(seq)) },
                AbortReason::CollectivesDiffer,
                None,
            ),
            Failure::Stalled { seq } => self.session.stalled(phase(seq)),
            // The others come from the session, which has ended already.
            _ => {}
        }
    }

    fn handle_timeouts(&mut self, now: Instant) {
        self.worker.with_dependent_mut(|_, worker| worker.handle_timeout(now));
        if self.looks_after_session() && now >= self.session.deadline() {
            self.session.look_after(now);
        }
    }

    /// After the end, lane 0 may be the one that failed.
    fn looks_after_session(&self) -> bool {
        self.id == LaneId::ZERO || self.session.has_ended()
    }

    /// The end of the session, the application's wish to leave, and questions while neither has come.
    fn end_or_ask(&mut self, now: Instant) {
        if self.session.has_ended() {
            self.fail_all();
        } else {
            self.ask(now);
        }
        if self.leave == Leave::Asked && self.is_idle() {
            self.leave = Leave::Ready;
            self.session.lane_is_done();
        }
    }

    /// The session has ended: nothing that is open or queued will finish.
    fn fail_all(&mut self) {
        let failure = match self.session.end() {
            Some(End::Failed(failure)) => failure,
            // A rank leaves when nothing is left to do, so that nobody sees this one.
            Some(End::Left) | None => SessionFailure::RankLeft { rank: self.session.rank },
        };
        if self.worker().failure().is_none() {
            self.worker.with_dependent_mut(|_, worker| worker.fail(Failure::Left));
        }
        *lock(&self.session.lane(self.id).stats) = *self.worker().stats();
        let open = self.open.drain(..).map(|open| open.share);
        for share in open.chain(self.queued.drain(..).map(|task| task.share)) {
            share.end(Err(failure.clone()));
        }
    }

    /// Asks who is missing, if a result takes long.
    fn ask(&mut self, now: Instant) {
        if let Some(waiting) = self.question(now) {
            self.session.ask(now, self.id, &waiting);
        }
    }

    /// What has been waited for so long that it is time to ask who is missing.
    fn question(&mut self, now: Instant) -> Option<worker::Waiting> {
        if self.open.is_empty() || now < self.next_question {
            return None;
        }
        // So short that an answer is there when the callback is to be told.
        let period = self.session.patience / 2;
        self.next_question = now + period;
        let waiting = self.worker().waiting()?;
        let first = waiting.since + period;
        if now < first {
            self.next_question = first;
            return None;
        }
        Some(waiting)
    }

    /// When something is due that no datagram and no task brings.
    fn deadline(&self) -> Option<Instant> {
        let session = self.looks_after_session().then(|| self.session.deadline());
        [self.worker().poll_timeout(), self.not_before, session].into_iter().flatten().min()
    }

    fn worker(&self) -> &worker::Worker<'_> {
        self.worker.borrow_dependent()
    }
}

impl fmt::Debug for Lane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lane")
            .field("id", &self.id)
            .field("open", &self.open.len())
            .field("queued", &self.queued.len())
            .finish_non_exhaustive()
    }
}
