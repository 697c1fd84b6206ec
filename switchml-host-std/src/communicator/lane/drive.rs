//! Serving a lane on the thread of a caller that waits for it.

use core::time::Duration;
use std::io;
use std::sync::Mutex;

use super::{Lane, Next, Serving};

/// How long a caller sleeps at most before it sees whether the session has ended in another lane.
const NAP: Duration = Duration::from_millis(10);

/// What became of a lane that a caller was to serve.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[must_use]
pub(in crate::communicator) enum Driven {
    /// All that was submitted has ended.
    ToTheEnd,
    /// Not that: the lane's thread must be woken, and does the rest.
    HandedOver,
}

/// Serves `lane` on this thread until nothing is left to do, as long as results come. Who has kept a result waiting, and
/// what a failure means, is the lane's thread to find out.
pub(in crate::communicator) fn drive(lane: &Mutex<Lane>) -> Driven {
    // Whoever unwinds already could not tell a panic here from that.
    let serving = if std::thread::panicking() { None } else { Serving::try_begin(lane) };
    match serving.map(|mut serving| serving.0.drive()) {
        Some(Ok(driven)) => driven,
        // Its thread meets the same error, and tells it.
        Some(Err(_)) | None => Driven::HandedOver,
    }
}

impl Lane {
    fn drive(&mut self) -> io::Result<Driven> {
        self.driven = true;
        self.take_tasks();
        loop {
            let now = self.session.clock.now();
            self.go_on(now);
            if self.is_idle() {
                return Ok(Driven::ToTheEnd);
            }
            if self.session.has_ended() {
                return Ok(Driven::HandedOver);
            }
            if self.question(now).is_some() {
                // Its thread asks it.
                self.next_question = now;
                return Ok(Driven::HandedOver);
            }
            if self.look()? == Next::Sleep {
                let deadline = self.deadline().map(|deadline| self.session.clock.until(deadline));
                let nap = deadline.map_or(NAP, |deadline| deadline.min(NAP));
                self.session.lane(self.id).transport.wait(nap)?;
            }
        }
    }
}
