//! Where received datagrams lie.

use core::net::{IpAddr, Ipv4Addr, SocketAddr};

use switchml_proto::wire::MAX_CONTROL_LEN;

/// The most datagrams that one system call moves, each alone.
pub(crate) const BATCH: usize = 64;

/// The most datagrams that one look brings. Linux makes up to 128 equal ones into one.
pub(crate) const MOST_RECEIVED: usize = match Room::SEGMENTED.places * 128 {
    segmented if segmented > BATCH => segmented,
    _ => BATCH,
};

/// How the octets of a batch are cut into places. Whoever receives says it, and may say something else each time.
#[derive(Clone, Copy, Debug)]
struct Room {
    places: usize,
    capacity: usize,
}

impl Room {
    /// Room for the most that the system makes of equal datagrams. A few are enough: it is much faster to look
    /// again than to push what is being added out of the cache.
    const SEGMENTED: Self = Self { places: 8, capacity: 1 << 16 };
}

/// Room for what one look brings, used again for each.
#[derive(Debug)]
pub(crate) struct RecvBatch {
    octets: Box<[u8]>,
    /// For datagrams that come each alone.
    alone: Room,
    /// How the octets are cut now.
    room: Room,
    places: [Place; BATCH],
    len: usize,
    /// What injected faults made of the batch.
    faulted: Option<Vec<(SocketAddr, Vec<u8>)>>,
}

/// Whose datagrams lie in a place, and how long they are.
#[derive(Clone, Copy, Debug)]
struct Place {
    from: SocketAddr,
    /// Of each, but the last, which may be shorter.
    segment: usize,
    /// Of all.
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
        let alone = Room { places: BATCH, capacity: longest.max(MAX_CONTROL_LEN) + 1 };
        let octets = [alone, Room::SEGMENTED].map(|room| room.places * room.capacity);
        Self {
            // Zeroed memory takes no room until it is used.
            octets: vec![0; octets[0].max(octets[1])].into_boxed_slice(),
            alone,
            room: alone,
            places: [Place {
                from: SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0),
                segment: 0,
                len: 0,
            }; BATCH],
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
        let received = self.places[..received].iter().zip(self.octets.chunks_exact(self.room.capacity));
        let received = received.map(|(place, octets)| Run {
            from: place.from,
            segment: place.segment,
            octets: &octets[..place.len],
        });
        let faulted = faulted.iter().map(|(from, octets)| Run { from: *from, segment: octets.len(), octets });
        received.chain(faulted)
    }

    pub(super) fn clear(&mut self) {
        self.len = 0;
        self.faulted = None;
    }

    /// The places where datagrams may be put that come each alone, in order.
    pub(super) fn places_alone(&mut self) -> impl ExactSizeIterator<Item = &mut [u8]> {
        self.cut(self.alone)
    }

    /// The places where the system may put several equal datagrams at once, in order.
    #[cfg(target_os = "linux")]
    pub(super) fn places_segmented(&mut self) -> impl ExactSizeIterator<Item = &mut [u8]> {
        self.cut(Room::SEGMENTED)
    }

    fn cut(&mut self, room: Room) -> impl ExactSizeIterator<Item = &mut [u8]> {
        self.room = room;
        self.octets.chunks_exact_mut(room.capacity).take(room.places)
    }

    /// Datagrams of `segment` octets, `len` in all, were put into the next place. What did not fit there counts as one
    /// octet too many.
    pub(super) fn push(&mut self, from: SocketAddr, segment: usize, len: usize) {
        let len = len.min(self.room.capacity);
        self.places[self.len] = Place { from, segment: segment.min(len), len };
        self.len += 1;
    }

    /// Shows these instead of what was received.
    pub(super) fn replace(&mut self, datagrams: Vec<(SocketAddr, Vec<u8>)>) {
        self.faulted = Some(datagrams);
    }
}
