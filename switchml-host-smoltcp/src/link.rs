//! What the machines need of a stack: to put datagrams into its transmit buffers, and to look at those that it received.

use core::net::SocketAddr;
use core::time::Duration;

/// How long to wait before a full transmit buffer is tried again, if nothing else happens.
pub(crate) const FULL_RETRY: Duration = Duration::from_millis(1);

/// The sockets of one endpoint, one for each lane, as the driving loops see them.
pub(crate) trait Link {
    /// Reserves `capacity` octets in the transmit buffer of `lane` and lets `write` fill them; it returns how many it
    /// wrote, at least one. `write` is called only if the answer is [`Sent::Queued`].
    fn send(
        &mut self,
        lane: usize,
        to: SocketAddr,
        capacity: usize,
        write: impl FnOnce(&mut [u8]) -> usize,
    ) -> Sent;

    /// Takes one datagram out of the receive buffer of `lane`, if there is one.
    fn receive<R>(&mut self, lane: usize, take: impl FnOnce(SocketAddr, &[u8]) -> R) -> Option<R>;
}

/// What became of a datagram.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Sent {
    /// It is in the transmit buffer.
    Queued,
    /// There is no room now; there will be.
    Full,
    /// The stack would drop it: the interface has no address to send from.
    Unroutable,
}

/// Guards one socket's transmit buffer, a ring of octets beside a ring of packets' descriptions.
///
/// smoltcp 0.13 breaks the ring if a packet needs padding at the end of the octets while only one description is free:
/// it then writes the packet's octets, and fails. So that this never happens, two descriptions are kept free; how many are
/// taken is not told, but whether all are free is.
#[derive(Debug, Default)]
pub(crate) struct TransmitGuard {
    /// Packets written since the buffer was last seen empty: at least as many as are in it.
    packets: usize,
}

impl TransmitGuard {
    /// Octets that the buffer must have for datagrams of up to `datagram` octets. In half as many, a datagram might never
    /// find them in one piece.
    pub(crate) const fn octets_needed(datagram: usize) -> usize {
        2 * datagram
    }

    /// The fewest descriptions that do.
    pub(crate) const PACKETS_NEEDED: usize = 2;

    /// Whether a packet may be written into a buffer of `descriptions` descriptions.
    pub(crate) fn admits(&mut self, descriptions: usize, is_empty: impl FnOnce() -> bool) -> bool {
        if self.packets + Self::PACKETS_NEEDED > descriptions && is_empty() {
            self.packets = 0;
        }
        self.packets + Self::PACKETS_NEEDED <= descriptions
    }

    pub(crate) const fn wrote(&mut self) {
        self.packets += 1;
    }
}

#[cfg(all(test, feature = "smoltcp"))]
mod tests;
