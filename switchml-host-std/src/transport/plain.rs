//! One system call for each datagram, where there is nothing better.

use std::io;
use std::net::UdpSocket;

use super::send::Outgoing;
use super::{BATCH, RecvBatch};

/// Receives what waits. An error after the first datagram is left for the next look.
pub(super) fn recv(socket: &UdpSocket, batch: &mut RecvBatch) -> io::Result<()> {
    for i in 0..BATCH {
        let Some(place) = batch.places_alone().nth(i) else { break };
        match socket.recv_from(place) {
            Ok((len, from)) => batch.push(from, len, len),
            Err(_) if i > 0 => break,
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Sends the first of `queue`, of one datagram each, and returns how many; an error is about the first one.
pub(super) fn send(socket: &UdpSocket, queue: &[Outgoing<'_>]) -> io::Result<usize> {
    for (i, datagram) in queue.iter().enumerate() {
        let outcome = match datagram.to {
            Some(to) => socket.send_to(datagram.octets, to),
            None => socket.send(datagram.octets),
        };
        match outcome {
            Ok(_) => {}
            Err(_) if i > 0 => return Ok(i),
            Err(error) => return Err(error),
        }
    }
    Ok(queue.len())
}
