//! Answers `GET /metrics`, one connection at a time.
//!
//! A client has two seconds for its request and its answer together, and eight kibioctets for its request; whoever
//! needs more is cut off. So the worst that a hostile client can do is to make others wait.

use core::net::SocketAddr;
use core::time::Duration;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Waker};

use super::running::{Leaver, Running};
use super::{SOCKET, SwitchError, WAKER, metrics};

const MAX_REQUEST: usize = 8 << 10;
const MAX_HEADERS: usize = 64;
/// How long a client has, for all.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long one read or write may take before it is looked whether the switch ends.
const SLICE: Duration = Duration::from_millis(100);

/// The open port, and what its thread sleeps in.
pub(super) struct Server {
    listener: TcpListener,
    local: SocketAddr,
    poll: Poll,
    waker: Arc<Waker>,
}

impl Server {
    pub(super) fn bind(address: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let poll = Poll::new()?;
        poll.registry().register(&mut SourceFd(&listener.as_raw_fd()), SOCKET, Interest::READABLE)?;
        let waker = Arc::new(Waker::new(poll.registry(), WAKER)?);
        Ok(Self { local: listener.local_addr()?, listener, poll, waker })
    }

    pub(super) const fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// What ends the thread's sleep.
    pub(super) fn waker(&self) -> Arc<Waker> {
        self.waker.clone()
    }

    /// Serves until the switch ends.
    pub(super) fn serve(mut self, running: &Running<'_, '_>) -> Result<(), SwitchError> {
        let _leaver = Leaver(running);
        let mut events = Events::with_capacity(4);
        while !running.is_done() {
            match self.listener.accept() {
                // What becomes of a client is its own affair.
                Ok((stream, _)) => drop(answer(stream, running)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    match self.poll.poll(&mut events, None) {
                        Err(error) if error.kind() != io::ErrorKind::Interrupted => {
                            return Err(SwitchError::System(error));
                        }
                        _ => {}
                    }
                }
                // A client that is gone already, or too many open files: neither is a reason to end.
                Err(_) => thread::sleep(SLICE),
            }
        }
        Ok(())
    }
}

/// Reads one request and answers it.
fn answer(mut stream: TcpStream, running: &Running<'_, '_>) -> io::Result<()> {
    let deadline = Instant::now() + PATIENCE;
    // An accepted socket may have the listener's mode, or not, depending on the system.
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(SLICE))?;
    stream.set_write_timeout(Some(SLICE))?;
    let go_on = || Instant::now() < deadline && !running.is_done();
    let (status, body) = match read_request(&mut stream, go_on)? {
        Request::Metrics => ("200 OK", metrics::text(&running.snapshot())),
        Request::OtherPath => ("404 Not Found", "only /metrics is here\n".into()),
        Request::OtherMethod => ("405 Method Not Allowed\r\nAllow: GET", "only GET is understood\n".into()),
        Request::Bad => ("400 Bad Request", "this is no HTTP request\n".into()),
        Request::TooLong => ("431 Request Header Fields Too Large", "the request is too long\n".into()),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    write_all(&mut stream, head.as_bytes(), go_on)?;
    write_all(&mut stream, body.as_bytes(), go_on)
}

/// What is asked for.
enum Request {
    Metrics,
    OtherPath,
    OtherMethod,
    Bad,
    TooLong,
}

fn read_request(stream: &mut TcpStream, go_on: impl Fn() -> bool) -> io::Result<Request> {
    let mut octets = [0; MAX_REQUEST];
    let mut len = 0;
    while go_on() {
        match stream.read(&mut octets[len..]) {
            Ok(0) => return Ok(if len == MAX_REQUEST { Request::TooLong } else { Request::Bad }),
            Ok(more) => len += more,
            Err(error) if is_timeout(&error) => continue,
            Err(error) => return Err(error),
        }
        let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
        let mut request = httparse::Request::new(&mut headers);
        match request.parse(&octets[..len]) {
            Ok(httparse::Status::Partial) if len == MAX_REQUEST => return Ok(Request::TooLong),
            Ok(httparse::Status::Partial) => {}
            Ok(httparse::Status::Complete(_)) => {
                return Ok(match (request.method, request.path) {
                    (Some("GET"), Some("/metrics")) => Request::Metrics,
                    (Some("GET"), _) => Request::OtherPath,
                    _ => Request::OtherMethod,
                });
            }
            Err(httparse::Error::TooManyHeaders) => return Ok(Request::TooLong),
            Err(_) => return Ok(Request::Bad),
        }
    }
    Err(io::ErrorKind::TimedOut.into())
}

fn write_all(stream: &mut TcpStream, mut octets: &[u8], go_on: impl Fn() -> bool) -> io::Result<()> {
    while !octets.is_empty() && go_on() {
        match stream.write(octets) {
            Ok(0) => break,
            Ok(written) => octets = &octets[written..],
            Err(error) if is_timeout(&error) => {}
            Err(error) => return Err(error),
        }
    }
    if octets.is_empty() { Ok(()) } else { Err(io::ErrorKind::TimedOut.into()) }
}

fn is_timeout(error: &io::Error) -> bool {
    // Which of the first two a socket's own timeout is depends on the system.
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted)
}
