//! One lane of a rank: the core's worker, from the session's begin on.

use core::time::Duration;

use switchml_proto::control::SessionParams;
use switchml_proto::worker::{Collective, Config, Event, Failure, Slot, StartError, Stats, Worker};
use switchml_proto::{Instant, LaneCount, LaneId, RtoConfig};

use crate::config::WorkerConfig;

#[derive(Debug)]
pub(super) struct Lane<'s> {
    machine: Machine<'s>,
    work: Work,
}

#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "the large one is what stays, and there is no heap")]
enum Machine<'s> {
    /// What the worker will be made of, until the session is ready.
    Parts {
        slots: &'s mut [Slot],
        rto: RtoConfig,
        reordering: Duration,
        stall_time: Duration,
    },
    Worker(Worker<'s>),
}

/// How far the open collective is in this lane.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Work {
    Done,
    /// To be started; not before a time, if the packet numbers would come round too soon (W-3).
    Requested {
        not_before: Option<Instant>,
    },
    Open,
}

impl<'s> Lane<'s> {
    pub(super) fn new(slots: &'s mut [Slot], config: &WorkerConfig) -> Self {
        let WorkerConfig { rto, reordering, stall_time, .. } = *config;
        Self { machine: Machine::Parts { slots, rto, reordering, stall_time }, work: Work::Done }
    }

    /// The session is ready.
    pub(super) fn begin(&mut self, session: &SessionParams, id: LaneId, lanes: usize) {
        let (Machine::Parts { slots, rto, reordering, stall_time }, Ok(lanes)) =
            (&mut self.machine, LaneCount::new(lanes))
        else {
            return;
        };
        let mut config = Config::new(session.job, session.layout, session.initial_seq, id, lanes);
        (config.rto, config.reordering, config.stall_time) = (*rto, *reordering, *stall_time);
        let worker = Worker::new(config, core::mem::take(slots));
        self.machine = Machine::Worker(
            worker.expect("the welcome and the configuration were checked, and the slots counted"),
        );
    }

    /// The worker, once the session is ready.
    pub(super) fn worker(&mut self) -> Option<&mut Worker<'s>> {
        match &mut self.machine {
            Machine::Parts { .. } => None,
            Machine::Worker(worker) => Some(worker),
        }
    }

    pub(super) fn stats(&self) -> Stats {
        match &self.machine {
            Machine::Parts { .. } => Stats::default(),
            Machine::Worker(worker) => *worker.stats(),
        }
    }

    /// A collective is to be started.
    pub(super) fn request(&mut self) {
        self.work = Work::Requested { not_before: None };
    }

    /// Starts it, if it is to be started now.
    pub(super) fn start(&mut self, collective: Collective, now: Instant) {
        let work = self.work;
        let (Work::Requested { not_before }, Some(worker)) = (work, self.worker()) else { return };
        if not_before.is_some_and(|not_before| now < not_before) {
            return;
        }
        match worker.start(collective, now) {
            Ok(_) => self.work = Work::Open,
            Err(StartError::SequenceSpace { retry_at }) => {
                self.work = Work::Requested { not_before: Some(retry_at) };
            }
            // No collective is open, and its length was checked: what is left is a failure, which is an event too.
            Err(_) => {}
        }
    }

    /// When a collective that could not start is to be started.
    pub(super) fn not_before(&self) -> Option<Instant> {
        match self.work {
            Work::Requested { not_before } => not_before,
            Work::Done | Work::Open => None,
        }
    }

    pub(super) fn handle_timeout(&mut self, now: Instant) {
        if let Some(worker) = self.worker() {
            worker.handle_timeout(now);
        }
    }

    /// Takes note of what has ended, and returns the worker's failure, if it has failed.
    pub(super) fn events(&mut self) -> Option<Failure> {
        let Machine::Worker(worker) = &mut self.machine else { return None };
        while let Some(event) = worker.poll_event() {
            if let Event::Finished(_) = event {
                self.work = Work::Done;
            }
        }
        worker.failure()
    }

    pub(super) fn is_done(&self) -> bool {
        self.work == Work::Done
    }

    /// The session is over.
    pub(super) fn stop(&mut self) {
        self.work = Work::Done;
        if let Some(worker) = self.worker() {
            worker.fail(Failure::Left);
        }
    }
}
