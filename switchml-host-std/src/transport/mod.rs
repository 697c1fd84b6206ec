//! One UDP socket, by which runs of equal datagrams come and go in few system calls.
//!
//! What is sent is a run of equal datagrams to each of some addresses, what is received is a run of equal datagrams
//! from one address: where the system can segment, up to 64 of them pass through it as one. Which of [`SocketCalls`] a
//! system has is tried when a socket is opened, and again when a route refuses. Sending and receiving take `&self`, so
//! that any thread may send through a socket that another one serves.
//!
//! Nothing here is an error of the network: a datagram that cannot be sent is counted and forgotten, since the
//! protocol repeats what it needs. Nothing allocates after the start, unless faults are injected.

mod batch;
mod calls;
mod faults;
#[cfg(target_os = "linux")]
mod mmsg;
mod mtu;
#[cfg(target_os = "linux")]
mod option;
mod plain;
mod send;

use core::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use core::sync::atomic::{AtomicBool, Ordering};
use std::io;
use std::net::UdpSocket;
use std::os::fd::AsRawFd;

use socket2::{Domain, Protocol, Socket, Type};

pub(crate) use batch::{BATCH, MOST_RECEIVED, RecvBatch};
pub use calls::{SocketCalls, UnknownCalls};
use faults::Injectors;
pub use faults::{Faults, InvalidFaults};
pub(crate) use send::Sent;
use send::{Outgoing, Sending};

/// Octets asked for in each of a socket's two buffers. Linux gives what it can; others refuse what is too much, and
/// are asked for less.
const SOCKET_BUFFERS: [usize; 4] = [16 << 20, 4 << 20, 1 << 20, 256 << 10];

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

/// One UDP socket that never blocks, with large buffers, and that sends nothing in fragments.
#[derive(Debug)]
pub(crate) struct Transport {
    socket: UdpSocket,
    local: SocketAddr,
    peer: Option<SocketAddr>,
    /// Chosen when the socket was opened.
    system: SocketCalls,
    /// Whether it sends segments: not any more once they were refused.
    segments: AtomicBool,
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
        let _ = SOCKET_BUFFERS.iter().find(|&&size| set_receive_buffer(&socket, size).is_ok());
        let _ = SOCKET_BUFFERS.iter().find(|&&size| socket.set_send_buffer_size(size).is_ok());
        let system = calls::set_up(&socket, options.calls);
        mtu::forbid_fragments(&socket, address)?;
        socket.bind(&address.into())?;
        if let Some(peer) = peer {
            socket.connect(&peer.into())?;
        }
        let socket = UdpSocket::from(socket);
        let local = socket.local_addr()?;
        let faults = options.faults.map(|(faults, stream)| Injectors::new(faults, stream));
        let segments = AtomicBool::new(system == SocketCalls::Segmented);
        Ok(Self { socket, local, peer, system, segments, faults })
    }

    /// Where the socket is bound.
    pub(crate) const fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// Which system calls move the datagrams, as far as is known by now: what was asked for, or what was possible
    /// instead.
    pub(crate) fn calls(&self) -> SocketCalls {
        match self.system {
            SocketCalls::Segmented if !self.segments.load(Ordering::Relaxed) => SocketCalls::Batched,
            system => system,
        }
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

    /// Receives up to [`MOST_RECEIVED`] datagrams that are waiting, without waiting for any.
    ///
    /// # Errors
    /// The system's, if the socket itself cannot be used any more.
    pub(crate) fn recv(&self, batch: &mut RecvBatch) -> io::Result<Received> {
        batch.clear();
        let outcome = loop {
            let outcome = match self.system {
                #[cfg(target_os = "linux")]
                SocketCalls::Segmented => mmsg::recv_segmented(&self.socket, batch),
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
        let mut sending = Sending::new(self);
        // A connected socket has one destination, which is not named.
        let destinations = (0..to.len().max(1)).map(|i| to.get(i).copied());
        match &self.faults {
            None => sending.send_run(destinations, segment, octets),
            Some(faults) => {
                for to in destinations {
                    // What is left goes on in runs as long as possible, as it would have without faults.
                    let (mut left, mut segment_left) = (Vec::with_capacity(octets.len()), segment);
                    for datagram in octets.chunks(segment.max(1)) {
                        faults.send(to.or(self.peer), datagram, |datagram| {
                            if datagram.len() != segment_left {
                                sending.send_left(to, segment_left, &mut left);
                                segment_left = datagram.len();
                            }
                            left.extend_from_slice(datagram);
                        });
                    }
                    sending.send_left(to, segment_left, &mut left);
                }
            }
        }
        sending.sent
    }

    /// Sends one datagram, which no fault touches: a control message.
    pub(crate) fn send_to(&self, to: Option<SocketAddr>, octets: &[u8]) -> Sent {
        let mut sending = Sending::new(self);
        sending.send(&[Outgoing::one(to, octets)]);
        sending.sent
    }
}

/// Asks for a receive buffer of `size` octets, beyond the system's limit where this process may.
fn set_receive_buffer(socket: &Socket, size: usize) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    {
        use std::os::fd::AsFd;

        let value = libc::c_int::try_from(size).unwrap_or(libc::c_int::MAX);
        if option::set(socket.as_fd(), libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, value).is_ok() {
            return Ok(());
        }
    }
    socket.set_recv_buffer_size(size)
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
