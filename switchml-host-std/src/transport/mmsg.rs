//! `recvmmsg` and `sendmmsg`: one system call for many datagrams, and for many runs of equal ones.
#![allow(
    unsafe_code,
    reason = "these calls take raw pointers, and no safe wrapper takes lent buffers without allocating"
)]

use core::mem;
use core::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use core::ptr;
use std::io;
use std::net::UdpSocket;
use std::os::fd::{AsRawFd, BorrowedFd};

use super::send::Outgoing;
use super::{BATCH, RecvBatch};

/// Whether the system has both calls.
pub(super) fn is_there(socket: BorrowedFd<'_>) -> bool {
    // SAFETY: there are no headers to look at, so that the pointers may be null.
    let [sent, received] = unsafe {
        let fd = socket.as_raw_fd();
        let sent = libc::sendmmsg(fd, ptr::null_mut(), 0, 0);
        [sent, libc::recvmmsg(fd, ptr::null_mut(), 0, libc::MSG_DONTWAIT as _, ptr::null_mut())]
    };
    sent == 0 && received == 0
}

/// Receives what waits, each datagram alone, without waiting.
pub(super) fn recv(socket: &UdpSocket, batch: &mut RecvBatch) -> io::Result<()> {
    let mut headers = Headers::<BATCH>::new();
    let places = batch.places_alone();
    let got = headers.recv(socket, places)?;
    headers.received(got).for_each(|(from, _, len)| batch.push(from, len, len));
    Ok(())
}

/// Receives what waits, and has been made one of equal datagrams, without waiting. The socket has `UDP_GRO` set.
pub(super) fn recv_segmented(socket: &UdpSocket, batch: &mut RecvBatch) -> io::Result<()> {
    let mut headers = Headers::<FEW>::new();
    let places = batch.places_segmented();
    let got = headers.recv(socket, places)?;
    headers.received(got).for_each(|(from, segment, len)| batch.push(from, segment.unwrap_or(len), len));
    Ok(())
}

/// Sends the first of `queue`, at most [`BATCH`], and returns how many; an error is about the first one.
pub(super) fn send(socket: &UdpSocket, queue: &[Outgoing<'_>]) -> io::Result<usize> {
    // Most often these are few, and headers take time to make.
    if queue.len() <= FEW {
        Headers::<FEW>::new().send(socket, queue)
    } else {
        Headers::<BATCH>::new().send(socket, queue)
    }
}

const FEW: usize = 8;

/// What the calls look at. It stays where it is from the first pointer into it to the end of the call.
struct Headers<const N: usize> {
    headers: [libc::mmsghdr; N],
    vectors: [libc::iovec; N],
    addresses: [Address; N],
    segments: [Segment; N],
}

impl<const N: usize> Headers<N> {
    fn new() -> Self {
        // SAFETY: all fields of these are integers and raw pointers, for which all zeros are valid.
        let (header, segment) = unsafe { (mem::zeroed(), mem::zeroed()) };
        let vector = libc::iovec { iov_base: ptr::null_mut(), iov_len: 0 };
        Self {
            headers: [header; N],
            vectors: [vector; N],
            addresses: [Address::NONE; N],
            segments: [segment; N],
        }
    }

    /// Receives into the first N of `places`, and returns how many are in use.
    fn recv<'p>(
        &mut self,
        socket: &UdpSocket,
        places: impl Iterator<Item = &'p mut [u8]>,
    ) -> io::Result<usize> {
        let mut len: libc::c_uint = 0;
        for ((((place, header), vector), address), segment) in places
            .zip(&mut self.headers)
            .zip(&mut self.vectors)
            .zip(&mut self.addresses)
            .zip(&mut self.segments)
        {
            *vector = libc::iovec { iov_base: place.as_mut_ptr().cast(), iov_len: place.len() };
            header.msg_hdr.msg_iov = vector;
            header.msg_hdr.msg_iovlen = 1;
            header.msg_hdr.msg_name = ptr::from_mut(address).cast();
            header.msg_hdr.msg_namelen = size_of::<Address>() as libc::socklen_t;
            header.msg_hdr.msg_control = ptr::from_mut(segment).cast();
            header.msg_hdr.msg_controllen = size_of::<Segment>() as _;
            len += 1;
        }
        // SAFETY: the first `len` headers each name one vector, one address and one control message, in arrays that
        // are borrowed mutably here, with their true sizes, and are not touched before the call has returned. Each
        // vector describes one of `places`, which are borrowed mutably for as long and do not overlap. The timeout may
        // be null.
        let got = unsafe {
            libc::recvmmsg(
                socket.as_raw_fd(),
                self.headers.as_mut_ptr(),
                len,
                libc::MSG_DONTWAIT as _,
                ptr::null_mut(),
            )
        };
        usize::try_from(got).map_err(|_| io::Error::last_os_error())
    }

    /// Of the first `got`: from whom, octets of each of several datagrams, octets of all.
    fn received(&self, got: usize) -> impl Iterator<Item = (SocketAddr, Option<usize>, usize)> {
        let all = self.headers.iter().zip(&self.addresses).zip(&self.segments).take(got);
        all.map(|((header, address), segment)| {
            // A source that is no IP address cannot be on an IP socket; its datagram shows as one from nobody.
            let nobody = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0));
            let told = header.msg_hdr.msg_controllen >= size_of::<Segment>() as _;
            let segment = if told { segment.received() } else { None };
            (address.to_std().unwrap_or(nobody), segment, header.msg_len as usize)
        })
    }

    /// Sends the first N of `queue` at most, and returns how many.
    fn send(mut self, socket: &UdpSocket, queue: &[Outgoing<'_>]) -> io::Result<usize> {
        let mut len: libc::c_uint = 0;
        for ((((outgoing, header), vector), address), segment) in queue
            .iter()
            .zip(&mut self.headers)
            .zip(&mut self.vectors)
            .zip(&mut self.addresses)
            .zip(&mut self.segments)
        {
            *vector = libc::iovec {
                iov_base: outgoing.octets.as_ptr().cast_mut().cast(),
                iov_len: outgoing.octets.len(),
            };
            header.msg_hdr.msg_iov = vector;
            header.msg_hdr.msg_iovlen = 1;
            if let Some(to) = outgoing.to {
                *address = Address::from_std(to);
                header.msg_hdr.msg_name = ptr::from_mut(address).cast();
                header.msg_hdr.msg_namelen = address.len();
            }
            // Several datagrams are sent at once only if two of them are within the length of an IP packet.
            if let (true, Ok(octets)) = (outgoing.len() > 1, u16::try_from(outgoing.segment)) {
                segment.say(octets);
                header.msg_hdr.msg_control = ptr::from_mut(segment).cast();
                header.msg_hdr.msg_controllen = size_of::<Segment>() as _;
            }
            len += 1;
        }
        // SAFETY: the first `len` headers each name one vector, and one address and one control message or none, in
        // arrays that `self` owns until the call has returned and that are not touched meanwhile, with their true sizes.
        // Each vector describes octets that `queue` borrows; the system only reads them, although `iovec` has no
        // constant pointer.
        let sent = unsafe {
            libc::sendmmsg(
                socket.as_raw_fd(),
                self.headers.as_mut_ptr(),
                len,
                (libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL) as _,
            )
        };
        usize::try_from(sent).map_err(|_| io::Error::last_os_error())
    }
}

/// A control message that says how long the segments are: laid out as the system lays out one whose value has up to
/// four octets.
#[derive(Clone, Copy)]
#[repr(C)]
struct Segment {
    header: libc::cmsghdr,
    value: [u8; 4],
}

// SAFETY: these only calculate.
const _: () = unsafe {
    assert!(size_of::<Segment>() == libc::CMSG_SPACE(4) as usize);
    assert!(mem::offset_of!(Segment, value) == libc::CMSG_LEN(0) as usize);
};

impl Segment {
    /// For sending segments of `octets`.
    fn say(&mut self, octets: u16) {
        // SAFETY: it only calculates.
        self.header.cmsg_len = unsafe { libc::CMSG_LEN(2) } as _;
        self.header.cmsg_level = libc::SOL_UDP;
        self.header.cmsg_type = libc::UDP_SEGMENT;
        self.value[..2].copy_from_slice(&octets.to_ne_bytes());
    }

    /// What the system has put here, if it is a segment's size.
    fn received(&self) -> Option<usize> {
        let is_segment = self.header.cmsg_level == libc::SOL_UDP && self.header.cmsg_type == libc::UDP_GRO;
        let octets = libc::c_int::from_ne_bytes(self.value);
        if is_segment && octets > 0 { usize::try_from(octets).ok() } else { None }
    }
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
