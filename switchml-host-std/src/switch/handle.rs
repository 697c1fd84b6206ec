//! The switch as other threads see it.

use core::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};

use mio::Waker;

use super::snapshot::Snapshot;

/// Stops a switch, and looks into it, from any thread.
#[derive(Clone, Debug)]
pub struct SwitchHandle {
    shared: Arc<Shared>,
}

impl SwitchHandle {
    pub(super) const fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    /// Makes [`Switch::run`](super::Switch::run) tell all members that the switch stops, and return. That takes as
    /// long as they take to answer, but not longer than a lease. A second call changes nothing.
    pub fn stop(&self) {
        self.shared.stopped.store(true, Ordering::Release);
        self.shared.wake();
    }

    /// What there is to see of the switch now; `None` if it has ended. Waits for the switch to run if it does not yet.
    #[must_use]
    pub fn snapshot(&self) -> Option<Snapshot> {
        let (sender, receiver) = mpsc::channel();
        self.shared.requests_or_ended().as_mut()?.push(sender);
        self.shared.wake();
        receiver.recv().ok()
    }
}

/// What a switch and its handles share.
#[derive(Debug)]
pub(super) struct Shared {
    stopped: AtomicBool,
    /// Who waits for a snapshot; `None` when there is nobody any more to make one.
    requests: Mutex<Option<Vec<mpsc::Sender<Snapshot>>>>,
    /// Of lane 0's thread.
    waker: Arc<Waker>,
}

impl Shared {
    pub(super) const fn new(waker: Arc<Waker>) -> Self {
        Self { stopped: AtomicBool::new(false), requests: Mutex::new(Some(Vec::new())), waker }
    }

    /// Whether the switch is to stop.
    pub(super) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }

    /// Takes those who wait for a snapshot.
    pub(super) fn requests(&self) -> Vec<mpsc::Sender<Snapshot>> {
        self.requests_or_ended().as_mut().map(core::mem::take).unwrap_or_default()
    }

    /// Sends away those who wait for a snapshot, now and later.
    pub(super) fn end(&self) {
        *self.requests_or_ended() = None;
    }

    fn requests_or_ended(&self) -> MutexGuard<'_, Option<Vec<mpsc::Sender<Snapshot>>>> {
        // Nothing can panic while the list is changed.
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake(&self) {
        // A waker fails only if the system does; then lane 0's thread looks when it wakes for another reason.
        let _ = self.waker.wake();
    }
}
