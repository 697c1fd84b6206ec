//! One lane of one rank (T-1 to T-9, D-1).

mod collective;
mod config;
mod outcome;
mod received;
mod slots;
mod transmit;

use core::time::Duration;

pub use self::collective::{Collective, CollectiveId, Conversion, InvalidCollective, Operation};
pub use self::config::{Config, ConfigError};
pub use self::outcome::{Event, Failure, StartError, Stats, Waiting};
pub use self::received::{Chunk, Malformed, Received};
pub use self::slots::Slot;
pub use self::transmit::{Cause, ChunkRef, ChunkSource, Fidelity, Transmit};
use crate::time::Instant;

/// One lane of one rank: cuts collectives into packets, sends them as the window allows, repeats what is lost, and says
/// which chunk each result is.
///
/// It owns no buffer and no clock. Every call costs O(1), and none allocates or blocks.
#[derive(Debug)]
pub struct Worker<'s> {
    slots: &'s mut [Slot],
}

impl<'s> Worker<'s> {
    /// A worker at the start of a session. `slots` are its memory, one for each slot of the window.
    ///
    /// # Errors
    /// [`ConfigError`] says which parameter is wrong.
    pub fn new(config: Config, slots: &'s mut [Slot]) -> Result<Self, ConfigError> {
        let _ = (config, slots);
        todo!()
    }

    /// Starts the next collective. Every rank and every lane starts the same ones in the same order.
    ///
    /// Afterwards call [`poll_transmit`](Self::poll_transmit). For a collective without elements too:
    /// every collective synchronises every lane (T-1).
    ///
    /// # Errors
    /// [`StartError`]; nothing has changed then.
    pub fn start(&mut self, collective: Collective, now: Instant) -> Result<CollectiveId, StartError> {
        let _ = (collective, now, &self.slots);
        todo!()
    }

    /// Whether [`start`](Self::start) would not say [`StartError::Busy`] or [`StartError::Failed`].
    ///
    /// Changes to yes after [`poll_transmit`](Self::poll_transmit) and [`poll_event`](Self::poll_event).
    #[must_use]
    pub fn can_start(&self) -> bool {
        todo!()
    }

    /// The next packet to send, until there is none.
    ///
    /// Call it after `start`, `handle_datagram` and `handle_timeout`.
    #[must_use = "the packet counts as sent"]
    pub fn poll_transmit(&mut self, now: Instant) -> Option<Transmit> {
        let _ = now;
        todo!()
    }

    /// Takes one datagram that came from the aggregator's address for this lane: the caller checks that (W-10).
    ///
    /// A [`Received::Chunk`] must be written to the tensor before the next call of `poll_transmit`'s
    /// [`emit`](Transmit::emit) reads other chunks of it; both orders are safe within one thread.
    pub fn handle_datagram<'d>(&mut self, now: Instant, datagram: &'d [u8]) -> Received<'d> {
        let _ = (now, datagram);
        todo!()
    }

    /// Looks at the timers. Early or needless calls change nothing.
    pub fn handle_timeout(&mut self, now: Instant) {
        let _ = now;
        todo!()
    }

    /// When to call [`handle_timeout`](Self::handle_timeout) next, unless a datagram comes first; none if nothing is under
    /// way. Not later than the last `now` while [`poll_transmit`](Self::poll_transmit) has output.
    ///
    /// May change with every other call.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        todo!()
    }

    /// The next news of a collective, until there is none.
    ///
    /// Call it after `handle_datagram`, `handle_timeout` and `fail`.
    pub fn poll_event(&mut self) -> Option<Event> {
        todo!()
    }

    /// Ends the session for this lane, as it has ended elsewhere: all open collectives fail. Without effect if the worker
    /// has failed before.
    pub fn fail(&mut self, failure: Failure) {
        let _ = failure;
        todo!()
    }

    /// Why the worker has failed, if it has.
    #[must_use]
    pub fn failure(&self) -> Option<Failure> {
        todo!()
    }

    /// The oldest packet that was sent and has no result. Costs O(W): meant for a line each second, not for each packet.
    #[must_use]
    pub fn waiting(&self) -> Option<Waiting> {
        todo!()
    }

    /// What it has done so far.
    #[must_use]
    pub fn stats(&self) -> &Stats {
        todo!()
    }

    /// The retransmission timeout as it is now, back-off included.
    #[must_use]
    pub fn rto(&self) -> Duration {
        todo!()
    }

    /// The smoothed round trip time, from sending a packet to its result: it includes the wait for the slowest rank.
    #[must_use]
    pub fn srtt(&self) -> Option<Duration> {
        todo!()
    }
}
