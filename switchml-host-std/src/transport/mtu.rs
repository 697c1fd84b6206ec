//! What the path to a peer carries in one piece (W-11).

use core::net::SocketAddr;
use std::io;
use std::net::UdpSocket;

use socket2::Socket;

#[cfg(target_os = "linux")]
pub(super) use linux::{forbid_fragments, max_payload};

/// Other systems are left as they are: what they do with a datagram that is too long is their choice.
#[cfg(not(target_os = "linux"))]
pub(super) fn forbid_fragments(_: &Socket, _: SocketAddr) -> io::Result<()> {
    Ok(())
}

/// Other systems do not tell.
#[cfg(not(target_os = "linux"))]
pub(super) fn max_payload(_: &UdpSocket, _: SocketAddr) -> Option<usize> {
    None
}

#[cfg(target_os = "linux")]
mod linux {
    use std::os::fd::AsFd;

    use super::super::option;
    use super::{Socket, SocketAddr, UdpSocket, io};

    /// Octets of an IPv4 header without options and a UDP header.
    const HEADERS_V4: usize = 20 + 8;
    /// Octets of an IPv6 header without extensions and a UDP header.
    const HEADERS_V6: usize = 40 + 8;
    /// The most octets of an IPv4 packet with its header, and of an IPv6 packet without.
    const MAX_LENGTH: usize = 65_535;

    /// Sets the socket so that a datagram that is too long for its path is refused rather than fragmented.
    pub(in super::super) fn forbid_fragments(socket: &Socket, local: SocketAddr) -> io::Result<()> {
        let (level, option, value) = match local {
            SocketAddr::V4(_) => (libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_DO),
            SocketAddr::V6(_) => (libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, libc::IPV6_PMTUDISC_DO),
        };
        option::set(socket.as_fd(), level, option, value)
    }

    /// Octets of the longest UDP payload on the path of a connected socket.
    pub(in super::super) fn max_payload(socket: &UdpSocket, peer: SocketAddr) -> Option<usize> {
        match peer {
            SocketAddr::V4(_) => {
                let mtu = option::get(socket.as_fd(), libc::IPPROTO_IP, libc::IP_MTU)?;
                mtu.min(MAX_LENGTH).checked_sub(HEADERS_V4)
            }
            SocketAddr::V6(_) => {
                let mtu = option::get(socket.as_fd(), libc::IPPROTO_IPV6, libc::IPV6_MTU)?;
                mtu.min(MAX_LENGTH + 40).checked_sub(HEADERS_V6)
            }
        }
    }
}
