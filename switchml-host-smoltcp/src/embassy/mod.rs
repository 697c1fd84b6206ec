//! Workers and aggregators as tasks on the caller's embassy-net stack.
//!
//! The caller owns executor, stack and sockets, and runs the stack's runner as a task of its own. Nothing here spawns, and
//! no executor is chosen: every call is a future, and time is that of `embassy-time`.

mod aggregator;
mod worker;

use core::future::Future;
use core::net::SocketAddr;
use core::pin::pin;
use core::task::{Context, Poll};

use embassy_net::udp::{SendError, UdpSocket};
use embassy_net::{IpEndpoint, Stack};
use embassy_time::{Duration, Instant, Timer};

pub use self::aggregator::{Aggregator, LaneSockets};
pub use self::worker::Worker;
use crate::config::SocketShape;
use crate::link::{Link, Sent, TransmitGuard};

/// A caller's socket, and what guards its transmit buffer.
struct Port<'s> {
    socket: UdpSocket<'s>,
    guard: TransmitGuard,
}

impl<'s> Port<'s> {
    fn new(socket: UdpSocket<'s>) -> Self {
        Self { socket, guard: TransmitGuard::default() }
    }

    fn shape(&self) -> SocketShape {
        SocketShape {
            port: self.socket.endpoint().port,
            transmit_octets: self.socket.payload_send_capacity(),
            transmit_packets: self.socket.packet_send_capacity(),
            receive_octets: self.socket.payload_recv_capacity(),
            receive_packets: self.socket.packet_recv_capacity(),
        }
    }
}

/// The sockets during one poll of a task. Where they have no datagram, or no room for one, they wake the task.
struct EmbassyLink<'p, 's, 'c, 'w> {
    ports: &'p mut [Port<'s>],
    stack: Stack<'s>,
    context: &'c mut Context<'w>,
}

impl Link for EmbassyLink<'_, '_, '_, '_> {
    fn send(
        &mut self,
        lane: usize,
        to: SocketAddr,
        capacity: usize,
        write: impl FnOnce(&mut [u8]) -> usize,
    ) -> Sent {
        let (Some(Port { socket, guard }), Some(to)) = (self.ports.get_mut(lane), endpoint(to)) else {
            return Sent::Unroutable;
        };
        if !self.stack.is_config_up() {
            return Sent::Unroutable;
        }
        let context = &mut *self.context;
        if !guard.admits(socket.packet_send_capacity(), || once(socket.flush(), context).is_ready()) {
            return Sent::Full;
        }
        match once(socket.send_to_with(capacity, to, |buf| (write(buf), ())), context) {
            Poll::Ready(Ok(())) => {
                guard.wrote();
                Sent::Queued
            }
            Poll::Pending => Sent::Full,
            // The caller has given an address of 0.0.0.0; the buffers' sizes and the port were checked.
            Poll::Ready(Err(SendError::NoRoute | SendError::SocketNotBound | SendError::PacketTooLarge)) => {
                Sent::Unroutable
            }
        }
    }

    fn receive<R>(&mut self, lane: usize, take: impl FnOnce(SocketAddr, &[u8]) -> R) -> Option<R> {
        let socket = &mut self.ports.get_mut(lane)?.socket;
        let taken = socket.recv_from_with(|datagram, from| take(from.endpoint.into(), datagram));
        match once(taken, self.context) {
            Poll::Ready(taken) => Some(taken),
            Poll::Pending => None,
        }
    }
}

/// Polls a future once: what it has not done then is not done, and the task is woken when it could be.
fn once<T>(future: impl Future<Output = T>, context: &mut Context<'_>) -> Poll<T> {
    pin!(future).poll(context)
}

/// Has the task woken at `time`, if it has one.
fn wake_at(time: Option<switchml_proto::Instant>, context: &mut Context<'_>) {
    if let Some(time) = time {
        let micros = time.as_nanos().div_ceil(1000);
        let tick = Instant::from_micros(micros);
        // A tick may be longer than a microsecond: one too early would be in vain.
        let tick = if tick.as_micros() < micros { tick + Duration::from_ticks(1) } else { tick };
        // It has asked the time driver to wake the task; that it is dropped changes nothing.
        let _armed = once(Timer::at(tick), context);
    }
}

fn now() -> switchml_proto::Instant {
    switchml_proto::Instant::from_micros(Instant::now().as_micros())
}

/// An address as embassy-net has it; none for an IPv6 address if this crate has no IPv6.
fn endpoint(address: SocketAddr) -> Option<IpEndpoint> {
    match address {
        SocketAddr::V4(address) => Some(address.into()),
        #[cfg(feature = "ipv6")]
        SocketAddr::V6(address) => Some(address.into()),
        #[cfg(not(feature = "ipv6"))]
        SocketAddr::V6(_) => None,
    }
}
