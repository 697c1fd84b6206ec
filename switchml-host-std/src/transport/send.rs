//! Datagrams on their way into the system.

use core::net::SocketAddr;
use core::sync::atomic::Ordering;
use core::time::Duration;
use std::io;
use std::thread;
use std::time::Instant;

#[cfg(target_os = "linux")]
use super::mmsg;
use super::{BATCH, SocketCalls, Transport, is_too_long, plain};

/// How long a full socket buffer is waited for before what is left of a run is dropped.
const PATIENCE: Duration = Duration::from_millis(5);

/// Most datagrams that Linux takes as one, and their most octets, with some left for headers.
const SEGMENTS: usize = 64;
const SEGMENTS_OCTETS: usize = 65_000;

/// What became of the datagrams of a run, each counted once for each address.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[must_use]
pub(crate) struct Sent {
    /// Handed to the system, or taken by injected faults.
    pub(crate) sent: usize,
    /// Not sent: the socket's buffer stayed full, or the system refused.
    pub(crate) dropped: usize,
    /// Not sent: longer than the path carries in one piece (W-11).
    pub(crate) too_long: usize,
}

/// Equal datagrams that go to the system as one: several only with [`SocketCalls::Segmented`].
#[derive(Clone, Copy)]
pub(super) struct Outgoing<'a> {
    /// Where to; to the peer of a connected socket if `None`.
    pub(super) to: Option<SocketAddr>,
    /// Octets of each datagram; the last may be shorter.
    pub(super) segment: usize,
    pub(super) octets: &'a [u8],
}

impl<'a> Outgoing<'a> {
    pub(super) const fn one(to: Option<SocketAddr>, octets: &'a [u8]) -> Self {
        Self { to, segment: octets.len(), octets }
    }

    /// How many datagrams these are.
    pub(super) fn len(&self) -> usize {
        // An empty datagram is one too.
        self.octets.len().div_ceil(self.segment.max(1)).max(1)
    }
}

/// One call to send, and what has become of its datagrams so far.
pub(super) struct Sending<'t> {
    transport: &'t Transport,
    /// When patience with a full buffer ends, once it was met.
    deadline: Option<Instant>,
    pub(super) sent: Sent,
}

impl<'t> Sending<'t> {
    pub(super) fn new(transport: &'t Transport) -> Self {
        Self { transport, deadline: None, sent: Sent::default() }
    }

    /// Sends a run of datagrams of `segment` octets each to every one of `destinations`.
    pub(super) fn send_run(
        &mut self,
        destinations: impl Iterator<Item = Option<SocketAddr>>,
        segment: usize,
        octets: &[u8],
    ) {
        let segment = segment.max(1);
        let at_once = match self.transport.calls() {
            SocketCalls::Segmented => (SEGMENTS_OCTETS / segment).clamp(1, SEGMENTS),
            SocketCalls::Batched | SocketCalls::Single => 1,
        };
        let mut queue = [Outgoing::one(None, &[]); BATCH];
        let mut len = 0;
        for to in destinations {
            for octets in octets.chunks(at_once * segment) {
                if len == BATCH {
                    self.send(&queue);
                    len = 0;
                }
                queue[len] = Outgoing { to, segment, octets };
                len += 1;
            }
        }
        self.send(&queue[..len]);
    }

    /// Sends the equal datagrams that injected faults have left, if any, and empties `left`.
    pub(super) fn send_left(&mut self, to: Option<SocketAddr>, segment: usize, left: &mut Vec<u8>) {
        if !left.is_empty() {
            self.send_run(core::iter::once(to), segment, left);
            left.clear();
        }
    }

    /// Sends as much of `queue`, at most [`BATCH`] long, as the system takes, and accounts for the rest.
    pub(super) fn send(&mut self, mut queue: &[Outgoing<'_>]) {
        // Of two refusals in a row at one place, the first may have been an old one that the system had to tell.
        let mut refused = false;
        while let Some(first) = queue.first() {
            let done = match self.transport.send_some(queue) {
                Ok(taken) => {
                    self.sent.sent += queue[..taken].iter().map(Outgoing::len).sum::<usize>();
                    taken
                }
                Err(error) => match error.kind() {
                    io::ErrorKind::Interrupted => 0,
                    io::ErrorKind::WouldBlock if self.waits() => 0,
                    io::ErrorKind::WouldBlock => {
                        self.sent.dropped += queue.iter().map(Outgoing::len).sum::<usize>();
                        return;
                    }
                    _ if !refused => {
                        refused = true;
                        continue;
                    }
                    _ if first.len() > 1 => {
                        self.send_apart(first, &error);
                        1
                    }
                    _ if is_too_long(&error) => {
                        self.sent.too_long += 1;
                        1
                    }
                    _ => {
                        self.sent.dropped += 1;
                        1
                    }
                },
            };
            refused &= done == 0;
            queue = &queue[done..];
        }
    }

    /// Sends datagrams one by one that the system refuses as one.
    fn send_apart(&mut self, refused: &Outgoing<'_>, error: &io::Error) {
        let before = self.sent;
        let mut queue = [Outgoing::one(refused.to, &[]); SEGMENTS];
        let mut len = 0;
        for octets in refused.octets.chunks(refused.segment.max(1)).take(SEGMENTS) {
            queue[len] = Outgoing::one(refused.to, octets);
            len += 1;
        }
        self.send(&queue[..len]);
        // Not every route and device can segment. A path that is too narrow, or a firewall, is another matter.
        let cannot = [libc::EINVAL, libc::EIO, libc::EOPNOTSUPP];
        if error.raw_os_error().is_some_and(|code| cannot.contains(&code))
            && self.sent.sent > before.sent
            && self.sent.too_long == before.too_long
        {
            self.transport.segments.store(false, Ordering::Relaxed);
        }
    }

    /// Waits a moment for room in the buffer, unless that was done for long enough.
    fn waits(&mut self) -> bool {
        let deadline = *self.deadline.get_or_insert_with(|| Instant::now() + PATIENCE);
        let waits = Instant::now() < deadline;
        if waits {
            thread::sleep(PATIENCE / 50);
        }
        waits
    }
}

impl Transport {
    /// Sends the first of `queue`, at least one and at most [`BATCH`], and returns how many.
    fn send_some(&self, queue: &[Outgoing<'_>]) -> io::Result<usize> {
        match self.system {
            #[cfg(target_os = "linux")]
            SocketCalls::Batched | SocketCalls::Segmented => mmsg::send(&self.socket, queue),
            _ => plain::send(&self.socket, queue),
        }
    }
}
