//! `recvmmsg` and `sendmmsg`: one system call for many datagrams.
#![allow(
    unsafe_code,
    reason = "these calls take raw pointers, and no safe wrapper takes lent buffers without allocating"
)]

use core::mem;
use core::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use core::ptr;
use std::io;
use std::net::UdpSocket;
use std::os::fd::AsRawFd;

use super::{BATCH, Outgoing, RecvBatch};

/// Receives what waits, without waiting.
pub(super) fn recv(socket: &UdpSocket, batch: &mut RecvBatch) -> io::Result<()> {
    let mut addresses = [Address::NONE; BATCH];
    let mut vectors = [NO_VECTOR; BATCH];
    let mut headers = [no_header(); BATCH];
    for (((place, vector), address), header) in
        batch.places_mut().zip(&mut vectors).zip(&mut addresses).zip(&mut headers)
    {
        *vector = libc::iovec { iov_base: place.as_mut_ptr().cast(), iov_len: place.len() };
        header.msg_hdr.msg_iov = vector;
        header.msg_hdr.msg_iovlen = 1;
        header.msg_hdr.msg_name = ptr::from_mut(address).cast();
        header.msg_hdr.msg_namelen = size_of::<Address>() as libc::socklen_t;
    }
    // SAFETY: `headers` has BATCH initialised headers. Each names one vector and one address, both in arrays that live
    // on this stack until the call has returned and are not touched meanwhile, with their true sizes; each vector
    // describes one place of `batch`, which is borrowed mutably, and places do not overlap. The timeout may be null.
    let got = unsafe {
        libc::recvmmsg(
            socket.as_raw_fd(),
            headers.as_mut_ptr(),
            BATCH as libc::c_uint,
            libc::MSG_DONTWAIT as _,
            ptr::null_mut(),
        )
    };
    let got = usize::try_from(got).map_err(|_| io::Error::last_os_error())?;
    for (header, address) in headers.iter().zip(&addresses).take(got) {
        // A source that is no IP address cannot be on an IP socket; its datagram shows as one from nobody.
        let from = address.to_std().unwrap_or(SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0)));
        batch.push(from, header.msg_len as usize);
    }
    Ok(())
}

/// Sends the first of `datagrams`, at most [`BATCH`], and returns how many; an error is about the first one.
pub(super) fn send(socket: &UdpSocket, datagrams: &[Outgoing<'_>]) -> io::Result<usize> {
    let mut addresses = [Address::NONE; BATCH];
    let mut vectors = [NO_VECTOR; BATCH];
    let mut headers = [no_header(); BATCH];
    for (((datagram, vector), address), header) in
        datagrams.iter().zip(&mut vectors).zip(&mut addresses).zip(&mut headers)
    {
        *vector = libc::iovec {
            iov_base: datagram.octets.as_ptr().cast_mut().cast(),
            iov_len: datagram.octets.len(),
        };
        header.msg_hdr.msg_iov = vector;
        header.msg_hdr.msg_iovlen = 1;
        if let Some(to) = datagram.to {
            *address = Address::from_std(to);
            header.msg_hdr.msg_name = ptr::from_mut(address).cast();
            header.msg_hdr.msg_namelen = address.len();
        }
    }
    let len = datagrams.len().min(BATCH);
    // SAFETY: the first `len` of BATCH headers each name one vector, and one address or none, in arrays that live on
    // this stack until the call has returned and are not touched meanwhile, with their true sizes. Each vector describes
    // octets that `datagrams` borrows; the system only reads them, although `iovec` has no constant pointer.
    let sent = unsafe {
        libc::sendmmsg(
            socket.as_raw_fd(),
            headers.as_mut_ptr(),
            len as libc::c_uint,
            (libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL) as _,
        )
    };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}

const NO_VECTOR: libc::iovec = libc::iovec { iov_base: ptr::null_mut(), iov_len: 0 };

fn no_header() -> libc::mmsghdr {
    // SAFETY: all fields of `mmsghdr` are integers and raw pointers, for which all zeros are valid.
    unsafe { mem::zeroed() }
}

/// A socket address as the system has it, IPv4 or IPv6.
#[derive(Clone, Copy)]
#[repr(C)]
union Address {
    family: libc::sa_family_t,
    v4: libc::sockaddr_in,
    v6: libc::sockaddr_in6,
}

impl Address {
    const NONE: Self = Self {
        v6: libc::sockaddr_in6 {
            sin6_family: libc::AF_UNSPEC as libc::sa_family_t,
            sin6_port: 0,
            sin6_flowinfo: 0,
            sin6_addr: libc::in6_addr { s6_addr: [0; 16] },
            sin6_scope_id: 0,
        },
    };

    fn from_std(address: SocketAddr) -> Self {
        // Both start from NONE, so that every octet of the union is initialised, whichever member is written.
        let mut raw = Self::NONE;
        match address {
            SocketAddr::V4(address) => {
                raw.v4 = libc::sockaddr_in {
                    sin_family: libc::AF_INET as libc::sa_family_t,
                    sin_port: address.port().to_be(),
                    sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(address.ip().octets()) },
                    sin_zero: [0; 8],
                };
            }
            SocketAddr::V6(address) => {
                raw.v6 = libc::sockaddr_in6 {
                    sin6_family: libc::AF_INET6 as libc::sa_family_t,
                    sin6_port: address.port().to_be(),
                    sin6_flowinfo: address.flowinfo(),
                    sin6_addr: libc::in6_addr { s6_addr: address.ip().octets() },
                    sin6_scope_id: address.scope_id(),
                };
            }
        }
        raw
    }

    fn family(&self) -> libc::c_int {
        // SAFETY: the family is the first field of each member, and the union never has an uninitialised octet: it
        // starts as NONE, and the system only writes initialised octets over it.
        unsafe { self.family }.into()
    }

    /// Octets that the system is to read.
    fn len(&self) -> libc::socklen_t {
        let len = if self.family() == libc::AF_INET {
            size_of::<libc::sockaddr_in>()
        } else {
            size_of::<libc::sockaddr_in6>()
        };
        len as libc::socklen_t
    }

    fn to_std(self) -> Option<SocketAddr> {
        match self.family() {
            libc::AF_INET => {
                // SAFETY: all octets are initialised, as in `family`, and the fields are integers.
                let address = unsafe { self.v4 };
                let ip = Ipv4Addr::from(address.sin_addr.s_addr.to_ne_bytes());
                Some(SocketAddrV4::new(ip, u16::from_be(address.sin_port)).into())
            }
            libc::AF_INET6 => {
                // SAFETY: all octets are initialised, as in `family`, and the fields are integers.
                let address = unsafe { self.v6 };
                let ip = Ipv6Addr::from(address.sin6_addr.s6_addr);
                // The flow label says nothing about who sent it, and must not make two sources of one.
                Some(SocketAddrV6::new(ip, u16::from_be(address.sin6_port), 0, address.sin6_scope_id).into())
            }
            _ => None,
        }
    }
}
