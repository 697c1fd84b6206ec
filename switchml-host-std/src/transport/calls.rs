//! Which system calls move datagrams, and which of them this system has.

use core::fmt;
use core::str::FromStr;

use socket2::Socket;

/// Which system calls move datagrams. Whatever is asked for, the next one is taken where the system has not got it.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
#[non_exhaustive]
pub enum SocketCalls {
    /// One call for each datagram.
    Single,
    /// One call for many datagrams: `recvmmsg` and `sendmmsg`. Linux only.
    Batched,
    /// As `Batched`, and up to 64 equal datagrams pass through the system as one: `UDP_SEGMENT` and `UDP_GRO`. Linux
    /// only.
    Segmented,
}

/// The fastest ones.
impl Default for SocketCalls {
    fn default() -> Self {
        Self::Segmented
    }
}

impl fmt::Display for SocketCalls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Single => "single",
            Self::Batched => "batched",
            Self::Segmented => "segmented",
        })
    }
}

impl FromStr for SocketCalls {
    type Err = UnknownCalls;

    fn from_str(name: &str) -> Result<Self, UnknownCalls> {
        let all = [Self::Single, Self::Batched, Self::Segmented];
        all.into_iter().find(|calls| calls.to_string() == name).ok_or(UnknownCalls)
    }
}

/// A name that no [`SocketCalls`] have.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct UnknownCalls;

impl fmt::Display for UnknownCalls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not one of segmented, batched and single")
    }
}

impl core::error::Error for UnknownCalls {}

/// Sets a socket up for `wanted`, or for what is possible instead, and returns that.
#[cfg(target_os = "linux")]
pub(super) fn set_up(socket: &Socket, wanted: SocketCalls) -> SocketCalls {
    use std::os::fd::AsFd;

    use super::{mmsg, option};

    let has_segments = || {
        // 0 is the value that it has anyway; the segments' size is said with each run.
        option::set(socket.as_fd(), libc::SOL_UDP, libc::UDP_SEGMENT, 0)
            .and_then(|()| option::set(socket.as_fd(), libc::SOL_UDP, libc::UDP_GRO, 1))
            .is_ok()
    };
    match wanted {
        SocketCalls::Single => SocketCalls::Single,
        _ if !mmsg::is_there(socket.as_fd()) => SocketCalls::Single,
        SocketCalls::Segmented if has_segments() => SocketCalls::Segmented,
        SocketCalls::Batched | SocketCalls::Segmented => SocketCalls::Batched,
    }
}

/// Other systems have one kind.
#[cfg(not(target_os = "linux"))]
pub(super) fn set_up(_: &Socket, _: SocketCalls) -> SocketCalls {
    SocketCalls::Single
}
