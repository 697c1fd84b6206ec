//! Workers and aggregators on the caller's smoltcp interface and sockets.
//!
//! The caller owns device, interface and socket set, and its loop: poll the interface, poll the worker, and poll the
//! interface again before it waits, because the worker has filled transmit buffers. What a poll returns says until when to
//! wait.

mod aggregator;
mod worker;

use core::net::SocketAddr;

use smoltcp::iface::{Interface, SocketHandle, SocketSet};
use smoltcp::socket::udp::{SendError, Socket, UdpMetadata};
use smoltcp::time::Instant;
use smoltcp::wire::IpEndpoint;

pub use self::aggregator::{Aggregator, LaneSockets};
pub use self::worker::{Collective, Progress, Step, Worker};
use crate::config::SocketShape;
use crate::link::{Link, Sent, TransmitGuard};

/// A caller's socket, and what guards its transmit buffer.
#[derive(Debug)]
struct Port {
    handle: SocketHandle,
    guard: TransmitGuard,
}

impl Port {
    fn new(handle: SocketHandle) -> Self {
        Self { handle, guard: TransmitGuard::default() }
    }

    fn shape(&self, sockets: &SocketSet<'_>) -> SocketShape {
        let socket = sockets.get::<Socket<'_>>(self.handle);
        SocketShape {
            port: socket.endpoint().port,
            transmit_octets: socket.payload_send_capacity(),
            transmit_packets: socket.packet_send_capacity(),
            receive_octets: socket.payload_recv_capacity(),
            receive_packets: socket.packet_recv_capacity(),
        }
    }
}

/// The sockets of one poll.
struct SmoltcpLink<'p, 's, 'b> {
    ports: &'p mut [Port],
    sockets: &'s mut SocketSet<'b>,
    interface: &'s Interface,
}

impl Link for SmoltcpLink<'_, '_, '_> {
    fn send(
        &mut self,
        lane: usize,
        to: SocketAddr,
        capacity: usize,
        write: impl FnOnce(&mut [u8]) -> usize,
    ) -> Sent {
        let (Some(port), Some(to)) = (self.ports.get_mut(lane), endpoint(to)) else {
            return Sent::Unroutable;
        };
        if self.interface.get_source_address(&to.addr).is_none_or(|source| source.is_unspecified()) {
            return Sent::Unroutable;
        }
        let socket = self.sockets.get_mut::<Socket<'_>>(port.handle);
        if !port.guard.admits(socket.packet_send_capacity(), || socket.send_queue() == 0) {
            return Sent::Full;
        }
        match socket.send_with(capacity, UdpMetadata::from(to), write) {
            Ok(_) => {
                port.guard.wrote();
                Sent::Queued
            }
            Err(SendError::BufferFull) => Sent::Full,
            // The caller has closed the socket, or the address is 0.0.0.0.
            Err(SendError::Unaddressable) => Sent::Unroutable,
        }
    }

    fn receive<R>(&mut self, lane: usize, take: impl FnOnce(SocketAddr, &[u8]) -> R) -> Option<R> {
        let socket = self.sockets.get_mut::<Socket<'_>>(self.ports.get(lane)?.handle);
        let (datagram, from) = socket.recv().ok()?;
        Some(take(from.endpoint.into(), datagram))
    }
}

/// An address as smoltcp has it; none for an IPv6 address if this crate has no IPv6.
fn endpoint(address: SocketAddr) -> Option<IpEndpoint> {
    match address {
        SocketAddr::V4(address) => Some(address.into()),
        #[cfg(feature = "ipv6")]
        SocketAddr::V6(address) => Some(address.into()),
        #[cfg(not(feature = "ipv6"))]
        SocketAddr::V6(_) => None,
    }
}

/// smoltcp counts microseconds, from a start that is the caller's; nothing lies before it.
fn from_smoltcp(time: Instant) -> switchml_proto::Instant {
    switchml_proto::Instant::from_micros(u64::try_from(time.total_micros()).unwrap_or(0))
}

/// The first microsecond that is not before `time`.
fn to_smoltcp(time: switchml_proto::Instant) -> Instant {
    Instant::from_micros(i64::try_from(time.as_nanos().div_ceil(1000)).unwrap_or(i64::MAX))
}

/// When to poll next: the earlier of what the interface and what the machine says.
fn earliest(
    machine: Option<switchml_proto::Instant>,
    interface: &mut Interface,
    sockets: &SocketSet<'_>,
    now: Instant,
) -> Option<Instant> {
    machine.map(to_smoltcp).into_iter().chain(interface.poll_at(now, sockets)).min()
}
