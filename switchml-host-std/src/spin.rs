//! Looking again before going to sleep.

use core::time::Duration;
use std::thread;
use std::time::Instant;

/// How long a lane's thread looks for datagrams again and again before it sleeps, unless something else is said: not at
/// all. Waking a thread takes several microseconds, of which whoever sends to it pays the larger part; but where
/// other programs want the processors, a thread that gives way to them between looks comes back late.
pub(crate) const SPIN: Duration = Duration::ZERO;

/// Whether a thread that found nothing looks again or sleeps.
#[derive(Debug)]
pub(crate) struct Spin {
    limit: Duration,
    /// When it first found nothing.
    since: Option<Instant>,
}

impl Spin {
    /// Looks again for as long as `limit`; never if that is zero.
    pub(crate) const fn new(limit: Duration) -> Self {
        Self { limit, since: None }
    }

    /// Something was found.
    pub(crate) const fn reset(&mut self) {
        self.since = None;
    }

    /// Nothing was found: whether to look again. If so, others that want the processor have had it first.
    pub(crate) fn looks_again(&mut self) -> bool {
        if self.limit.is_zero() || self.since.get_or_insert_with(Instant::now).elapsed() >= self.limit {
            return false;
        }
        thread::yield_now();
        true
    }
}
