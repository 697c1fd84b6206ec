//! The thread of a lane: it serves the lane whenever no caller does.

use core::time::Duration;
use std::io;
use std::sync::Mutex;

use mio::{Events, Poll, Token};
use switchml_proto::LaneId;
use switchml_proto::wire::AbortReason;

use super::super::error::SessionFailure;
use super::super::lock;
use super::super::session::Session;
use super::{Lane, Leave, Next, Serving};

/// Datagrams have come.
const SOCKET: Token = Token(0);
/// Someone has something for the thread to do.
pub(in crate::communicator) const WAKER: Token = Token(1);

/// How long the thread leaves the socket alone after a caller has served the lane. As long as callers come more often,
/// no datagram wakes it.
const GUARD: Duration = Duration::from_millis(5);

/// Serves lane `id` of `session` until the session is over and the application has asked to leave.
///
/// `poll` has the lane's waker.
pub(in crate::communicator) fn run(session: &Session, id: LaneId, lane: &Mutex<Lane>, poll: Poll) {
    let _close = CloseInbox { session, lane: id };
    if let Err(error) = serve(session, id, lane, poll) {
        session.fail(SessionFailure::Io(error.into()), AbortReason::Cancelled, Some(session.rank));
        lock(lane).fail_all();
    }
}

/// Whoever submits a task must learn that nobody takes it any more.
struct CloseInbox<'s> {
    session: &'s Session,
    lane: LaneId,
}

impl Drop for CloseInbox<'_> {
    fn drop(&mut self) {
        let tasks = {
            let mut inbox = lock(&self.session.lane(self.lane).inbox);
            inbox.closed = true;
            core::mem::take(&mut inbox.tasks)
        };
        drop(tasks);
    }
}

/// # Errors
/// The system's, if the socket cannot be used any more.
fn serve(session: &Session, id: LaneId, lane: &Mutex<Lane>, mut poll: Poll) -> io::Result<()> {
    let transport = &session.lane(id).transport;
    let mut events = Events::with_capacity(8);
    let mut listens = false;
    loop {
        let woken = events.iter().any(|event| event.token() == WAKER);
        let mut serving = Serving::try_begin(lane);
        let serves = serving.as_mut().is_some_and(|serving| takes_over(woken, &mut serving.0.driven));
        let sleep = match serving {
            Some(mut serving) if serves => {
                if !listens {
                    // It tells of what has come before, too.
                    transport.register(&poll, SOCKET)?;
                    listens = true;
                }
                match serving.0.serve()? {
                    Served::UntilOver => return Ok(()),
                    Served::UntilSleep(sleep) => sleep,
                }
            }
            _ => {
                if listens {
                    transport.deregister(&poll)?;
                    listens = false;
                }
                Some(GUARD)
            }
        };
        match poll.poll(&mut events, sleep) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
            _ => {}
        }
    }
}

/// Whether the thread serves a lane that nobody else serves just now: if it was woken to do so, or no caller has `driven` the
/// lane since it was asked last.
const fn takes_over(woken: bool, driven: &mut bool) -> bool {
    let was_driven = core::mem::replace(driven, false);
    woken || !was_driven
}

/// Why a lane's thread stops serving.
enum Served {
    /// The session is over.
    UntilOver,
    /// Nothing is to be done for so long, unless something comes.
    UntilSleep(Option<Duration>),
}

impl Lane {
    fn serve(&mut self) -> io::Result<Served> {
        loop {
            let now = self.session.clock.now();
            self.take_tasks();
            self.go_on(now);
            self.end_or_ask(now);
            if self.leave == Leave::Ready && self.session.is_over() {
                return Ok(Served::UntilOver);
            }
            if self.look()? == Next::Sleep {
                let question = (!self.open.is_empty()).then_some(self.next_question);
                let deadline = question.into_iter().chain(self.deadline()).min();
                return Ok(Served::UntilSleep(deadline.map(|deadline| self.session.clock.until(deadline))));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::takes_over;

    #[test]
    fn a_thread_that_was_woken_to_serve_goes_on_until_a_caller_drives_the_lane_again() {
        let mut driven = true;
        assert!(takes_over(true, &mut driven), "a caller has handed over");
        assert!(takes_over(false, &mut driven), "a datagram came");
        driven = true;
        assert!(!takes_over(false, &mut driven), "callers serve it");
        assert!(takes_over(false, &mut driven), "none has for a while");
    }
}
