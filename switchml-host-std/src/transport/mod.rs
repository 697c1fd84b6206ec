//! One UDP socket, by which runs of equal datagrams come and go in few system calls.
//!
//! The calls are shaped so that segmentation offload can be put under them: what is sent is a run of equal datagrams
//! to each of some addresses, what is received is a run of equal datagrams from one address. Sending and receiving
//! take `&self`, so that any thread may send through a socket that another one serves.
//!
//! Nothing here is an error of the network: a datagram that cannot be sent is counted and forgotten, since the
//! protocol repeats what it needs. Nothing allocates after the start, unless faults are injected.

mod batch;
mod faults;
#[cfg(target_os = "linux")]
mod mmsg;
mod mtu;
mod plain;

use core::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use core::time::Duration;
use std::io;
use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::thread;
use std::time::Instant;

use socket2::{Domain, Protocol, Socket, Type};

pub(crate) use batch::{BATCH, RecvBatch};
use faults::Injectors;
pub use faults::{Faults, InvalidFaults};

/// Octets asked for in each of a socket's two buffers. Linux gives what it can; others refuse what is too much, and
/// are asked for less.
const SOCKET_BUFFERS: [usize; 3] = [4 << 20, 1 << 20, 256 << 10];

/// How long a full socket buffer is waited for before what is left of a run is dropped.
const PATIENCE: Duration = Duration::from_millis(5);

/// Which system calls move the datagrams.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum SocketCalls {
    /// One call for many datagrams: `recvmmsg` and `sendmmsg`. Linux only; elsewhere the same as `Single`.
    Batched,
    /// One call for each datagram.
    Single,
}

impl Default for SocketCalls {
    fn default() -> Self {
        if cfg!(target_os = "linux") { Self::Batched } else { Self::Single }
    }
}

/// How a socket is set up.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Options {
    /// Which system calls move the datagrams.
    pub(crate) calls: SocketCalls,
    /// Faults to inject, and a number that tells this socket's draws from those of others with the same seed.
    pub(crate) faults: Option<(Faults, u64)>,
}

/// What one look for datagrams brought.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[must_use]
pub(crate) enum Received {
    /// Datagrams are in the batch; or none, if faults took them all. There may be more.
    Batch,
    /// None waits.
    Nothing,
    /// None came, but the network said that the peer of a connected socket cannot be reached now, or that a datagram
    /// was too long for the path. It may pass; look again.
    Unreachable,
}

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

/// One datagram on its way out.
#[derive(Clone, Copy)]
struct Outgoing<'a> {
    /// Where to; to the peer of a connected socket if `None`.
    to: Option<SocketAddr>,
    octets: &'a [u8],
}

/// One UDP socket that never blocks, with large buffers, and that sends nothing in fragments.
#[derive(Debug)]
pub(crate) struct Transport {
    socket: UdpSocket,
    local: SocketAddr,
    peer: Option<SocketAddr>,
    calls: SocketCalls,
    faults: Option<Injectors>,
}

impl Transport {
    /// A socket that takes datagrams from anywhere.
    pub(crate) fn bind(address: SocketAddr, options: &Options) -> io::Result<Self> {
        Self::open(address, None, options)
    }

    /// A socket on a free port that takes datagrams from `peer` only: the system drops all others (T-4, W-10).
    pub(crate) fn connect(peer: SocketAddr, options: &Options) -> io::Result<Self> {
        let any = match peer {
            SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
            SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
        };
        Self::open(any, Some(peer), options)
    }

    fn open(address: SocketAddr, peer: Option<SocketAddr>, options: &Options) -> io::Result<Self> {
        let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
        if address.is_ipv6() {
            socket.set_only_v6(true)?;
        }
        socket.set_nonblocking(true)?;
        // What was given in the end, `buffers` tells.
        let _ = SOCKET_BUFFERS.iter().find(|&&size| socket.set_recv_buffer_size(size).is_ok());
        let _ = SOCKET_BUFFERS.iter().find(|&&size| socket.set_send_buffer_size(size).is_ok());
        mtu::forbid_fragments(&socket, address)?;
        socket.bind(&address.into())?;
        if let Some(peer) = peer {
            socket.connect(&peer.into())?;
        }
        let socket = UdpSocket::from(socket);
        let local = socket.local_addr()?;
        let faults = options.faults.map(|(faults, stream)| Injectors::new(faults, stream));
        Ok(Self { socket, local, peer, calls: options.calls, faults })
    }

    /// Where the socket is bound.
    pub(crate) const fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// Octets of the system's buffers for receiving and for sending, as the system counts them.
    pub(crate) fn buffers(&self) -> io::Result<(usize, usize)> {
        let socket = socket2::SockRef::from(&self.socket);
        Ok((socket.recv_buffer_size()?, socket.send_buffer_size()?))
    }

    /// Octets of the longest UDP payload that the path to the peer carries in one piece, as far as the system knows;
    /// `None` if it does not, or the socket has no peer.
    pub(crate) fn max_datagram(&self) -> Option<usize> {
        mtu::max_payload(&self.socket, self.peer?)
    }

    /// Lets `poll` wait for datagrams under `token`. It tells of changes only: after it woke, receive until
    /// [`Received::Nothing`].
    pub(crate) fn register(&self, poll: &mio::Poll, token: mio::Token) -> io::Result<()> {
        let fd = self.socket.as_raw_fd();
        poll.registry().register(&mut mio::unix::SourceFd(&fd), token, mio::Interest::READABLE)
    }

    /// Receives up to [`BATCH`] datagrams that are waiting, without waiting for any.
    ///
    /// # Errors
    /// The system's, if the socket itself cannot be used any more.
    pub(crate) fn recv(&self, batch: &mut RecvBatch) -> io::Result<Received> {
        batch.clear();
        let outcome = loop {
            let outcome = match self.calls {
                #[cfg(target_os = "linux")]
                SocketCalls::Batched => mmsg::recv(&self.socket, batch),
                _ => plain::recv(&self.socket, batch),
            };
            match outcome {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                outcome => break outcome,
            }
        };
        match outcome {
            Ok(()) => {
                if let Some(faults) = &self.faults {
                    faults.receive(batch);
                }
                Ok(Received::Batch)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(Received::Nothing),
            Err(error) if is_soft(&error) => Ok(Received::Unreachable),
            Err(error) => Err(error),
        }
    }

    /// Sends the datagrams that lie in `octets` one behind the other, each of `segment` octets, the last of them maybe
    /// shorter, to each of the addresses `to`: all of them to one address, then all to the next. A connected socket
    /// sends to its peer, and takes no addresses.
    ///
    /// While the socket's buffer is full it waits, but not longer than a few milliseconds for the whole run.
    pub(crate) fn send_run(&self, to: &[SocketAddr], segment: usize, octets: &[u8]) -> Sent {
        let mut sending = Sending { transport: self, deadline: None, sent: Sent::default() };
        // A connected socket has one destination, which is not named.
        let destinations = (0..to.len().max(1)).map(|i| to.get(i).copied());
        let datagrams = octets.chunks(segment.max(1));
        match &self.faults {
            None => {
                let mut queue = [Outgoing { to: None, octets: &[] }; BATCH];
                let mut len = 0;
                for to in destinations {
                    for octets in datagrams.clone() {
                        if len == BATCH {
                            sending.send(&queue);
                            len = 0;
                        }
                        queue[len] = Outgoing { to, octets };
                        len += 1;
                    }
                }
                sending.send(&queue[..len]);
            }
            Some(faults) => {
                for to in destinations {
                    for octets in datagrams.clone() {
                        faults.send(to.or(self.peer), octets, |octets| {
                            sending.send(&[Outgoing { to, octets }])
                        });
                    }
                }
            }
        }
        sending.sent
    }

    /// Sends one datagram, which no fault touches: a control message.
    pub(crate) fn send_to(&self, to: Option<SocketAddr>, octets: &[u8]) -> Sent {
        let mut sending = Sending { transport: self, deadline: None, sent: Sent::default() };
        sending.send(&[Outgoing { to, octets }]);
        sending.sent
    }
}

/// One call to send, and what has become of its datagrams so far.
struct Sending<'t> {
    transport: &'t Transport,
    /// When patience with a full buffer ends, once it was met.
    deadline: Option<Instant>,
    sent: Sent,
}

impl Sending<'_> {
    /// Sends as many of `datagrams`, at most [`BATCH`], as the system takes, and accounts for the others.
    fn send(&mut self, mut datagrams: &[Outgoing<'_>]) {
        // Of two refusals in a row at one datagram, the first may have been an old one that the system had to tell.
        let mut refused = false;
        while !datagrams.is_empty() {
            let done = match self.transport.send_some(datagrams) {
                Ok(taken) => {
                    self.sent.sent += taken;
                    taken
                }
                Err(error) => match error.kind() {
                    io::ErrorKind::Interrupted => 0,
                    io::ErrorKind::WouldBlock if self.waits() => 0,
                    io::ErrorKind::WouldBlock => {
                        self.sent.dropped += datagrams.len();
                        return;
                    }
                    _ if !refused => {
                        refused = true;
                        continue;
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
            datagrams = &datagrams[done..];
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
    /// Sends the first of `datagrams`, at least one of them and at most [`BATCH`], and returns how many.
    fn send_some(&self, datagrams: &[Outgoing<'_>]) -> io::Result<usize> {
        match self.calls {
            #[cfg(target_os = "linux")]
            SocketCalls::Batched => mmsg::send(&self.socket, datagrams),
            _ => plain::send(&self.socket, datagrams),
        }
    }
}

/// Whether the network or a want of memory refused, and not the socket itself: it may pass.
fn is_soft(error: &io::Error) -> bool {
    use io::ErrorKind::{
        ConnectionRefused, ConnectionReset, HostUnreachable, NetworkDown, NetworkUnreachable, OutOfMemory,
    };
    let kinds =
        [ConnectionRefused, ConnectionReset, HostUnreachable, NetworkDown, NetworkUnreachable, OutOfMemory];
    // An ICMP message of a rare kind shows as EPROTO.
    let codes = [libc::EMSGSIZE, libc::EPROTO, libc::ENOBUFS];
    kinds.contains(&error.kind()) || error.raw_os_error().is_some_and(|code| codes.contains(&code))
}

fn is_too_long(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::EMSGSIZE)
}

#[cfg(test)]
mod tests;
