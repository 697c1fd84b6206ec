//! Giving up from another thread.

use core::fmt;
use std::sync::{Arc, Weak};

use switchml_proto::wire::AbortReason;

use super::error::SessionFailure;
use super::session::Session;

/// Ends a session for all its ranks, from any thread, as a handler of signals does: made by
/// [`Communicator::canceller`](super::Communicator::canceller).
#[derive(Clone)]
pub struct Canceller {
    session: Weak<Session>,
}

impl Canceller {
    pub(super) fn new(session: &Arc<Session>) -> Self {
        Self { session: Arc::downgrade(session) }
    }

    /// Every call that is under way fails here with [`SessionFailure::Cancelled`], and on the other ranks with the same
    /// and this rank's number. They are told before it returns, and again for as long as the communicator lives, until
    /// the aggregator has acknowledged it. Without effect once the session has ended.
    pub fn cancel(&self) {
        if let Some(session) = self.session.upgrade() {
            cancel(&session);
        }
    }
}

/// This rank gives up, for all.
pub(super) fn cancel(session: &Session) {
    let rank = Some(session.rank);
    session.fail(SessionFailure::Cancelled { rank }, AbortReason::Cancelled, rank);
}

impl fmt::Debug for Canceller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Canceller").finish_non_exhaustive()
    }
}
