//! A stretch of network between one rank and a switch, which a test can cut or lead elsewhere.

use core::net::{Ipv4Addr, SocketAddr};
use core::time::Duration;
use std::io::ErrorKind;
use std::net::UdpSocket;
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use switchml_proto::wire::Class;

/// What the stretch does with datagrams.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Way {
    /// It carries them to and from this switch.
    Open(SocketAddr),
    /// It carries them, but no results to the rank.
    NoResults(SocketAddr),
    /// It loses all.
    Cut,
}

/// Carries the datagrams of one lane of one rank. What the way is may be changed at any time.
pub(crate) struct Relay {
    pub(crate) address: SocketAddr,
    way: Arc<Mutex<Option<Way>>>,
    thread: Option<JoinHandle<()>>,
}

impl Relay {
    pub(crate) fn to(switch: SocketAddr) -> Self {
        let front = socket();
        let address = front.local_addr().unwrap();
        let way = Arc::new(Mutex::new(Some(Way::Open(switch))));
        let thread = thread::spawn({
            let way = way.clone();
            move || carry(&front, &way)
        });
        Self { address, way, thread: Some(thread) }
    }

    pub(crate) fn set(&self, way: Way) {
        *self.way.lock().unwrap() = Some(way);
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        *self.way.lock().unwrap() = None;
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

fn socket() -> UdpSocket {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    socket.set_nonblocking(true).unwrap();
    socket
}

/// Until the way is `None`.
fn carry(front: &UdpSocket, way: &Mutex<Option<Way>>) {
    let back = socket();
    let mut datagram = [0; 65536];
    let mut rank = None;
    loop {
        let Some(way) = *way.lock().unwrap() else { return };
        let mut idle = true;
        if let Some((len, from)) = receive(front, &mut datagram) {
            idle = false;
            rank = Some(from);
            if let Way::Open(switch) | Way::NoResults(switch) = way {
                back.send_to(&datagram[..len], switch).unwrap();
            }
        }
        if let Some((len, from)) = receive(&back, &mut datagram) {
            idle = false;
            let passes = match way {
                Way::Open(switch) => from == switch,
                Way::NoResults(switch) => from == switch && Class::of(&datagram[..len]) == Class::Control,
                Way::Cut => false,
            };
            if let (true, Some(rank)) = (passes, rank) {
                // The rank may have gone.
                let _ = front.send_to(&datagram[..len], rank);
            }
        }
        if idle {
            thread::sleep(Duration::from_micros(200));
        }
    }
}

fn receive(socket: &UdpSocket, datagram: &mut [u8]) -> Option<(usize, SocketAddr)> {
    match socket.recv_from(datagram) {
        Ok(received) => Some(received),
        // The other side is not there any more.
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::ConnectionRefused) => None,
        Err(error) => panic!("{error}"),
    }
}
