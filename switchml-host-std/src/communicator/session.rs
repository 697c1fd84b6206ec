//! What a rank's lanes and its application share: the sockets, the member, and the end of it all.

use core::fmt;
use core::net::SocketAddr;
use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use core::time::Duration;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};

use switchml_proto::control::{EndReason, Heard, Member, MemberEvent, SessionParams};
use switchml_proto::wire::{AbortReason, StatusReport};
use switchml_proto::worker::{self, Stats};
use switchml_proto::{Instant, LaneCount, LaneId, Rank, WorkerSet, WorldSize};

use super::error::{Phase, SessionFailure};
use super::lock;
use super::share::Task;
use super::waiting::{Waiting, WaitingFor};
use crate::clock::Clock;
use crate::transport::Transport;

/// Called about each second while something is waited for.
pub(super) type OnWaiting = Arc<dyn Fn(&Waiting) + Send + Sync>;

/// One rank's part in a session.
pub(super) struct Session {
    pub(super) clock: Clock,
    pub(super) rank: Rank,
    pub(super) world_size: WorldSize,
    /// The aggregator's address in lane 0.
    pub(super) aggregator: SocketAddr,
    pub(super) params: SessionParams,
    pub(super) lane_count: LaneCount,
    pub(super) lanes: Vec<LaneEnd>,
    /// How long a result may take before the callback tells of it, and how often it does then.
    pub(super) patience: Duration,
    on_waiting: Option<OnWaiting>,
    control: Mutex<Control>,
    /// When lane 0 must look after the member, in nanoseconds; its thread sleeps no longer.
    deadline: AtomicU64,
    /// Whether `Control::end` is set.
    ended: AtomicBool,
    /// Whether the member has nothing left to send or to wait for, so that the threads may end.
    over: AtomicBool,
    /// Lanes that have work left, once the application has asked to leave.
    busy: AtomicUsize,
}

/// What others need to reach a lane's thread.
pub(super) struct LaneEnd {
    pub(super) transport: Transport,
    pub(super) waker: mio::Waker,
    pub(super) inbox: Mutex<Inbox>,
    pub(super) stats: Mutex<Stats>,
}

/// What the application has asked of a lane.
#[derive(Debug, Default)]
pub(super) struct Inbox {
    pub(super) tasks: VecDeque<Task>,
    /// No tasks will follow.
    pub(super) leave: bool,
    /// The lane's thread has gone: nobody would take a task.
    pub(super) closed: bool,
}

/// The member, and what it has told.
struct Control {
    member: Member,
    /// Where it writes its datagrams.
    datagram: Vec<u8>,
    end: Option<End>,
    /// The last report on each lane, and when it came.
    status: [Option<(StatusReport, Instant)>; LaneCount::MAX],
    /// When the callback was last called.
    told: Option<Instant>,
}

/// How a session has ended for this rank.
#[derive(Clone, Debug)]
pub(super) enum End {
    Left,
    Failed(SessionFailure),
}

impl Session {
    #[allow(clippy::too_many_arguments, reason = "called once; each is another thing")]
    pub(super) fn new(
        clock: Clock,
        rank: Rank,
        world_size: WorldSize,
        aggregator: SocketAddr,
        (member, params): (Member, SessionParams),
        (lane_count, lanes): (LaneCount, Vec<LaneEnd>),
        patience: Duration,
        on_waiting: Option<OnWaiting>,
    ) -> Self {
        let datagram = vec![0; member.transmit_capacity()];
        let control = Control { member, datagram, end: None, status: [None; LaneCount::MAX], told: None };
        Self {
            clock,
            rank,
            world_size,
            aggregator,
            params,
            busy: AtomicUsize::new(lanes.len()),
            lane_count,
            lanes,
            patience,
            on_waiting,
            control: Mutex::new(control),
            deadline: AtomicU64::new(0),
            ended: AtomicBool::new(false),
            over: AtomicBool::new(false),
        }
    }

    /// The lane `lane` of this session.
    pub(super) fn lane(&self, lane: LaneId) -> &LaneEnd {
        // Lanes are numbered from 0 up, and the member and the threads only know those there are.
        &self.lanes[lane.index()]
    }

    /// Puts a task into a lane's inbox; somebody must take it. If the lane's thread has gone, the task is dropped, which
    /// says so.
    pub(super) fn submit(&self, lane: LaneId, task: Task) {
        let mut inbox = lock(&self.lane(lane).inbox);
        if !inbox.closed {
            inbox.tasks.push_back(task);
        }
    }

    /// Tells the lanes that no task will follow: when all are done, the member leaves.
    pub(super) fn ask_to_leave(&self) {
        for lane in &self.lanes {
            lock(&lane.inbox).leave = true;
            lane.wake();
        }
    }

    /// A lane that was asked to leave has nothing left to do.
    pub(super) fn lane_is_done(&self) {
        if self.busy.fetch_sub(1, Ordering::AcqRel) == 1 {
            let now = self.clock.now();
            let mut control = lock(&self.control);
            if control.end.is_none() {
                control.member.leave(now);
            }
            self.drive(&mut control, now);
            drop(control);
            self.wake_all();
        }
    }

    /// How the session has ended for this rank, if it has.
    pub(super) fn end(&self) -> Option<End> {
        if self.has_ended() { lock(&self.control).end.clone() } else { None }
    }

    pub(super) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// Whether the threads may end.
    pub(super) fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }

    /// When [`look_after`](Self::look_after) must be called next.
    pub(super) fn deadline(&self) -> Instant {
        Instant::from_nanos(self.deadline.load(Ordering::Acquire))
    }

    /// The member's timers; called by lane 0's thread, and after the end by whichever is there.
    pub(super) fn look_after(&self, now: Instant) {
        let mut control = lock(&self.control);
        control.member.handle_timeout(now);
        self.drive(&mut control, now);
    }

    /// A control message came to a lane.
    pub(super) fn hear(&self, now: Instant, lane: LaneId, datagram: &[u8]) {
        let mut control = lock(&self.control);
        // Whatever it was, the member has dealt with it; there is nobody to tell.
        let _: Heard = control.member.handle_datagram(now, lane, datagram);
        self.drive(&mut control, now);
        drop(control);
        if lane != LaneId::ZERO {
            // The deadline may have moved.
            self.lane(LaneId::ZERO).wake();
        }
    }

    /// This rank ends the session for all.
    pub(super) fn fail(&self, failure: SessionFailure, reason: AbortReason, culprit: Option<Rank>) {
        let now = self.clock.now();
        let mut control = lock(&self.control);
        if control.end.is_none() {
            self.set_end(&mut control, End::Failed(failure));
            control.member.abort(now, reason, culprit);
        }
        self.drive(&mut control, now);
        drop(control);
        self.lane(LaneId::ZERO).wake();
    }

    /// No result came for the stall time.
    pub(super) fn stalled(&self, phase: Phase) {
        let control = lock(&self.control);
        let report = control.status[phase.lane.index()].filter(|(report, _)| report.seq == phase.seq);
        let missing = report.map_or(WorkerSet::EMPTY, |(report, _)| report.missing);
        drop(control);
        // One rank is named to the others if one is to blame.
        let culprit = missing.iter().next().filter(|_| missing.len() == 1);
        let failure = SessionFailure::Stalled { phase: Some(phase), missing };
        self.fail(failure, AbortReason::Stalled, culprit);
    }

    /// A result has been waited for: asks the aggregator who is missing, and tells what it last said of it, when that is
    /// due.
    pub(super) fn ask(&self, now: Instant, lane: LaneId, waiting: &worker::Waiting) {
        let phase = Phase { collective: waiting.collective, lane, seq: waiting.seq };
        let mut control = lock(&self.control);
        control.member.query(now, lane, waiting.seq);
        self.drive(&mut control, now);
        let waited = now.since(waiting.since);
        // Several lanes wait at once; one line for all of them will do.
        let told_lately = control.told.is_some_and(|told| now.since(told) < self.patience * 3 / 4);
        let due = waited >= self.patience && !told_lately;
        let Some(on_waiting) = self.on_waiting.as_ref().filter(|_| due) else { return };
        control.told = Some(now);
        let report = control.status[lane.index()].map(|(report, at)| (report, now.since(at)));
        let what = WaitingFor::result(phase, report);
        drop(control);
        on_waiting(&Waiting { what, waited });
    }

    /// Sends and tells what the member has to send and to tell.
    fn drive(&self, control: &mut MutexGuard<'_, Control>, now: Instant) {
        let control = &mut **control;
        while let Some(transmit) = control.member.poll_transmit(now, &mut control.datagram) {
            let datagram = &control.datagram[..transmit.len];
            // What is not sent is as good as lost on the way: the member repeats it.
            let _ = self.lane(transmit.lane).transport.send_to(None, datagram);
        }
        while let Some(event) = control.member.poll_event() {
            match event {
                MemberEvent::Left => self.set_end(control, End::Left),
                MemberEvent::Ended(reason) => self.set_end(control, End::Failed(self.failure(reason))),
                MemberEvent::Status(report) => control.status[report.lane.index()] = Some((report, now)),
                // Of the join, which is over.
                _ => {}
            }
        }
        let deadline = control.member.poll_timeout();
        self.deadline.store(deadline.map_or(u64::MAX, Instant::as_nanos), Ordering::Release);
        if deadline.is_none() && control.end.is_some() && !self.over.swap(true, Ordering::AcqRel) {
            self.wake_all();
        }
    }

    fn set_end(&self, control: &mut Control, end: End) {
        if control.end.is_none() {
            control.end = Some(end);
            self.ended.store(true, Ordering::Release);
            self.wake_all();
        }
    }

    fn failure(&self, reason: EndReason) -> SessionFailure {
        let (address, lease) = (self.aggregator, self.params.lease);
        match reason {
            EndReason::Aborted { reason, culprit } => SessionFailure::aborted(reason, culprit, address),
            // The others belong to the join; none of them would be anything but a silent aggregator now.
            _ => SessionFailure::AggregatorLost { address, after: lease },
        }
    }

    fn wake_all(&self) {
        for lane in &self.lanes {
            lane.wake();
        }
    }
}

impl LaneEnd {
    /// Has the lane's thread look what there is to do.
    pub(super) fn wake(&self) {
        // It only fails when the system's counter of wake-ups is full: then the thread is about to wake.
        let _ = self.waker.wake();
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session")
            .field("rank", &self.rank)
            .field("world_size", &self.world_size)
            .field("aggregator", &self.aggregator)
            .field("params", &self.params)
            .field("lanes", &self.lanes.len())
            .finish_non_exhaustive()
    }
}
