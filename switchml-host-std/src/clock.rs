//! The machines' time line, from the system's clock.

use core::time::Duration;
use std::time::Instant as SystemInstant;

use switchml_proto::Instant;

/// Tells the time in nanoseconds since it was made. Copies tell the same time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    start: SystemInstant,
}

impl Clock {
    /// A clock that starts now.
    pub(crate) fn start() -> Self {
        Self { start: SystemInstant::now() }
    }

    /// Now; never earlier than before.
    pub(crate) fn now(&self) -> Instant {
        let elapsed = self.start.elapsed().as_nanos();
        Instant::from_nanos(u64::try_from(elapsed).unwrap_or(u64::MAX))
    }

    /// How long it is until `deadline`; zero if it has passed.
    pub(crate) fn until(&self, deadline: Instant) -> Duration {
        deadline.since(self.now())
    }
}
