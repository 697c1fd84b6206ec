//! Opens when the last of some holders has let go, and wakes whoever waits for it: a thread, or a task.

use core::task::{Context, Poll, Waker};
use std::sync::{Condvar, Mutex};

use super::lock;

#[derive(Debug)]
pub(super) struct Latch {
    state: Mutex<State>,
    opened: Condvar,
}

#[derive(Debug)]
struct State {
    holders: usize,
    waker: Option<Waker>,
}

impl Latch {
    /// A latch that `holders` hold; open from the start if there is none.
    pub(super) fn new(holders: usize) -> Self {
        Self { state: Mutex::new(State { holders, waker: None }), opened: Condvar::new() }
    }

    /// One holder lets go.
    pub(super) fn let_go(&self) {
        let mut state = lock(&self.state);
        state.holders = state.holders.saturating_sub(1);
        if state.holders == 0 {
            self.opened.notify_all();
            let waker = state.waker.take();
            drop(state);
            if let Some(waker) = waker {
                waker.wake();
            }
        }
    }

    pub(super) fn is_open(&self) -> bool {
        lock(&self.state).holders == 0
    }

    /// Blocks until it is open.
    pub(super) fn wait(&self) {
        let mut state = lock(&self.state);
        while state.holders > 0 {
            state = self.opened.wait(state).unwrap_or_else(std::sync::PoisonError::into_inner);
        }
    }

    /// Whether it is open; if not, the task that asked last is woken when it opens.
    pub(super) fn poll(&self, context: &Context<'_>) -> Poll<()> {
        let mut state = lock(&self.state);
        if state.holders == 0 {
            return Poll::Ready(());
        }
        match &mut state.waker {
            Some(waker) => waker.clone_from(context.waker()),
            none => *none = Some(context.waker().clone()),
        }
        Poll::Pending
    }
}
