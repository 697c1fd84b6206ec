//! Where received datagrams lie.

use core::net::{IpAddr, Ipv4Addr, SocketAddr};

use switchml_proto::wire::MAX_CONTROL_LEN;

/// The most datagrams that one system call moves.
pub(crate) const BATCH: usize = 64;

/// Room for [`BATCH`] datagrams, used again for each look.
#[derive(Debug)]
pub(crate) struct RecvBatch {
    /// One place behind the other, each of `capacity` octets.
    octets: Box<[u8]>,
    capacity: usize,
    places: [Place; BATCH],
    len: usize,
    /// What injected faults made of the batch.
    faulted: Option<Vec<(SocketAddr, Vec<u8>)>>,
}

/// Whose datagram lies in a place, and how long it is.
#[derive(Clone, Copy, Debug)]
struct Place {
    from: SocketAddr,
    len: usize,
}

/// Equal datagrams from one source, one behind the other.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run<'b> {
    /// Who sent them.
    pub(crate) from: SocketAddr,
    /// Octets of each datagram; the last may be shorter. 0 if there is one datagram, which is empty.
    pub(crate) segment: usize,
    /// All their octets.
    pub(crate) octets: &'b [u8],
}

impl<'b> Run<'b> {
    /// The datagrams, at least one.
    pub(crate) fn datagrams(&self) -> impl Iterator<Item = &'b [u8]> + use<'b> {
        let empty: Option<&[u8]> = if self.octets.is_empty() { Some(&[]) } else { None };
        empty.into_iter().chain(self.octets.chunks(self.segment.max(1)))
    }
}

impl RecvBatch {
    /// Room for datagrams of up to `longest` octets, and for control messages. Of a longer datagram at least one octet
    /// more than that is kept: it never has the length that it should have.
    pub(crate) fn new(longest: usize) -> Self {
        let capacity = longest.max(MAX_CONTROL_LEN) + 1;
        Self {
            octets: vec![0; capacity * BATCH].into_boxed_slice(),
            capacity,
            places: [Place { from: SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0), len: 0 }; BATCH],
            len: 0,
            faulted: None,
        }
    }

    /// What was received, in the order of its arrival.
    pub(crate) fn runs(&self) -> impl Iterator<Item = Run<'_>> {
        let (received, faulted) = match &self.faulted {
            None => (self.len, &[][..]),
            Some(faulted) => (0, &faulted[..]),
        };
        let received = self.places[..received].iter().zip(self.octets.chunks_exact(self.capacity));
        let received = received.map(|(place, octets)| (place.from, &octets[..place.len]));
        let faulted = faulted.iter().map(|(from, octets)| (*from, &octets[..]));
        received.chain(faulted).map(|(from, octets)| Run { from, segment: octets.len(), octets })
    }

    pub(super) fn clear(&mut self) {
        self.len = 0;
        self.faulted = None;
    }

    /// The places where datagrams may be put, in order.
    pub(super) fn places_mut(&mut self) -> impl ExactSizeIterator<Item = &mut [u8]> {
        self.octets.chunks_exact_mut(self.capacity)
    }

    /// A datagram of `len` octets from `from` was put into the next place. What did not fit there counts as one octet
    /// too many.
    pub(super) fn push(&mut self, from: SocketAddr, len: usize) {
        self.places[self.len] = Place { from, len: len.min(self.capacity) };
        self.len += 1;
    }

    /// Shows these instead of what was received.
    pub(super) fn replace(&mut self, datagrams: Vec<(SocketAddr, Vec<u8>)>) {
        self.faulted = Some(datagrams);
    }
}
