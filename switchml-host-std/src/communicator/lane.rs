//! The thread of one lane: its socket, its worker, and the collectives that are open in it.

use core::ops::Range;
use core::time::Duration;
use std::collections::VecDeque;
use std::io;

use mio::{Events, Poll};
use switchml_proto::wire::{AbortReason, Class};
use switchml_proto::worker::{
    self, ChunkSource, CollectiveId, Event, Failure, Fidelity, Received, Slot, StartError, Worker,
};
use switchml_proto::{ChunkSize, Instant, LaneId};

use super::error::{Phase, SessionFailure};
use super::lock;
use super::session::{End, Session};
use super::share::{Share, Task};
use crate::spin::Spin;
use crate::transport::{BATCH, Received as Looked, RecvBatch};

/// How often a lane looks for datagrams, if there always are some, before it looks at its timers.
const LOOKS: u32 = 16;

/// Serves lane `lane` of `session` until the session is over and the application has asked to leave.
///
/// `poll` has the lane's socket and waker. If the thread panics, the session fails.
pub(super) fn run(session: &Session, lane: LaneId, poll: Poll, config: worker::Config, spin: Duration) {
    let close = CloseInbox { session, lane };
    let mut slots = vec![Slot::EMPTY; config.layout.window().get().into()];
    let worker = Worker::new(config, &mut slots).expect("the layout and the seq come from a checked welcome");
    let datagram_len = config.layout.datagram_len();
    let mut lane = Lane {
        _close: close,
        session,
        id: lane,
        worker,
        open: VecDeque::new(),
        queued: VecDeque::new(),
        leave: Leave::NotAsked,
        not_before: None,
        next_question: Instant::ZERO,
        spin: Spin::new(spin),
        batch: RecvBatch::new(datagram_len),
        run: OutgoingRun { octets: vec![0; BATCH * datagram_len], segment: 0, len: 0 },
    };
    if let Err(error) = lane.serve(poll) {
        session.fail(SessionFailure::Io(error.into()), AbortReason::Cancelled, Some(session.rank));
        lane.fail_all();
    }
}

/// Whoever submits a task must learn that nobody takes it any more.
struct CloseInbox<'s> {
    session: &'s Session,
    lane: LaneId,
}

impl Drop for CloseInbox<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let failure = SessionFailure::LanePanicked { lane: self.lane };
            self.session.fail(failure, AbortReason::Cancelled, Some(self.session.rank));
        }
        let tasks = {
            let mut inbox = lock(&self.session.lane(self.lane).inbox);
            inbox.closed = true;
            core::mem::take(&mut inbox.tasks)
        };
        drop(tasks);
    }
}

struct Lane<'a> {
    /// Dropped first: who gets its tensor back because this thread panicked must find that the session has failed.
    _close: CloseInbox<'a>,
    session: &'a Session,
    id: LaneId,
    worker: Worker<'a>,
    /// What the worker has started and not ended: one or two collectives (T-3a).
    open: VecDeque<Open>,
    /// What it cannot start yet.
    queued: VecDeque<Task>,
    leave: Leave,
    /// When it may start the next one (W-3).
    not_before: Option<Instant>,
    /// When to see whether to ask the aggregator who is missing.
    next_question: Instant,
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

impl Lane<'_> {
    /// # Errors
    /// The system's, if the socket cannot be used any more.
    fn serve(&mut self, mut poll: Poll) -> io::Result<()> {
        let mut events = Events::with_capacity(8);
        let mut looks = 0;
        loop {
            let now = self.session.clock.now();
            self.take_tasks();
            self.go_on(now);
            self.end_or_ask(now);
            if self.leave == Leave::Ready && self.session.is_over() {
                return Ok(());
            }
            // What came may have made packets due, and there may be more.
            let looked = self.receive()?;
            looks += 1;
            // A thread that had to wait for the processor finds deadlines passed whose answers are waiting: those first.
            if looked == Looked::Nothing || looks == LOOKS {
                looks = 0;
                let now = self.session.clock.now();
                self.handle_timeouts(now);
                self.go_on(now);
            }
            match looked {
                // There may be more.
                Looked::Batch | Looked::Unreachable => self.spin.found(),
                // A result is on its way.
                Looked::Nothing if !self.open.is_empty() && self.spin.looks_again() => {}
                Looked::Nothing => self.sleep(&mut poll, &mut events)?,
            }
        }
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
        while self.worker.can_start() {
            let Some(task) = self.queued.pop_front() else { return };
            match self.worker.start(task.collective, now) {
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
        while let Some(packet) = self.worker.poll_transmit(now) {
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
        if self.run.len == 0 {
            return;
        }
        let transport = &self.session.lane(self.id).transport;
        let sent = transport.send_run(&[], self.run.segment, &self.run.octets[..self.run.len]);
        self.run.len = 0;
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
        let now = self.session.clock.now();
        for run in self.batch.runs() {
            for datagram in run.datagrams() {
                match Class::of(datagram) {
                    Class::Control => self.session.hear(now, self.id, datagram),
                    Class::Data => {
                        if let Received::Chunk(chunk) = self.worker.handle_datagram(now, datagram) {
                            share(&mut self.open, chunk.collective).decode(&chunk);
                        }
                    }
                }
            }
        }
        Ok(looked)
    }

    /// Ends what the worker says has ended.
    fn finish(&mut self) {
        while let Some(event) = self.worker.poll_event() {
            match event {
                Event::Finished(id) => {
                    if let Some(open) = self.open.iter().position(|open| open.id == id)
                        && let Some(open) = self.open.remove(open)
                    {
                        *lock(&self.session.lane(self.id).stats) = *self.worker.stats();
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
        self.worker.handle_timeout(now);
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
        let idle = self.open.is_empty() && self.queued.is_empty();
        if self.leave == Leave::Asked && idle {
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
        if self.worker.failure().is_none() {
            self.worker.fail(Failure::Left);
        }
        *lock(&self.session.lane(self.id).stats) = *self.worker.stats();
        let open = self.open.drain(..).map(|open| open.share);
        for share in open.chain(self.queued.drain(..).map(|task| task.share)) {
            share.end(Err(failure.clone()));
        }
    }

    /// Asks who is missing, if a result takes long.
    fn ask(&mut self, now: Instant) {
        if self.open.is_empty() || now < self.next_question {
            return;
        }
        // So short that an answer is there when the callback is to be told.
        let period = self.session.patience / 2;
        self.next_question = now + period;
        let Some(waiting) = self.worker.waiting() else { return };
        let first = waiting.since + period;
        if now < first {
            self.next_question = first;
        } else {
            self.session.ask(now, self.id, &waiting);
        }
    }

    /// Sleeps until a datagram comes, a task, or the next deadline.
    fn sleep(&mut self, poll: &mut Poll, events: &mut Events) -> io::Result<()> {
        let question = (!self.open.is_empty()).then_some(self.next_question);
        let session = self.looks_after_session().then(|| self.session.deadline());
        let deadlines = [self.worker.poll_timeout(), self.not_before, question, session];
        let deadline = deadlines.into_iter().flatten().min();
        let timeout = deadline.map(|deadline| self.session.clock.until(deadline));
        match poll.poll(events, timeout) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => Err(error),
            _ => Ok(()),
        }
    }
}

/// The share of an open collective.
fn share(open: &mut VecDeque<Open>, id: CollectiveId) -> &mut dyn Share {
    let open = open.iter_mut().find(|open| open.id == id);
    &mut *open.expect("a worker speaks of collectives that it has started and not ended").share
}

/// Where packets get their elements from.
struct Tensors<'o>(&'o mut VecDeque<Open>);

impl ChunkSource for Tensors<'_> {
    fn exponent(&mut self, collective: CollectiveId, range: Range<u64>) -> i8 {
        share(self.0, collective).exponent(range)
    }

    fn encode(
        &mut self,
        collective: CollectiveId,
        range: Range<u64>,
        exponent: i8,
        wire: &mut [u8],
    ) -> Fidelity {
        share(self.0, collective).encode(range, exponent, wire)
    }

    fn encode_and_scan(
        &mut self,
        collective: CollectiveId,
        range: Range<u64>,
        exponent: i8,
        wire: &mut [u8],
        ahead: Range<u64>,
    ) -> i8 {
        share(self.0, collective).encode_and_scan(range, exponent, wire, ahead)
    }
}

/// Equal datagrams on their way out, one behind the other.
struct OutgoingRun {
    octets: Vec<u8>,
    segment: usize,
    len: usize,
}

impl OutgoingRun {
    /// Whether a datagram of `len` octets can go with those that are here.
    fn takes(&self, len: usize) -> bool {
        self.len == 0 || (len == self.segment && self.len < BATCH * len)
    }

    /// Room for the next datagram, of `len` octets.
    fn next(&mut self, len: usize) -> &mut [u8] {
        self.segment = len;
        let start = self.len;
        self.len += len;
        &mut self.octets[start..self.len]
    }
}
