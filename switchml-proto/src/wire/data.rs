//! Data packets: aggregate requests and results (W-1 to W-8).

use core::fmt;

use zerocopy::{FromBytes, IntoBytes};

use super::{HEADER_LEN, raw};
use crate::ids::{ChunkSize, JobId, LaneLayout, Seq, Version};

pub(super) const KIND_AGGREGATE: u8 = 1;
const SIZE_NONE: u8 = 7;

/// Digest of a result whose contributions had different ones (W-7).
pub const DIGESTS_DIFFER: i8 = -128;

/// What a data packet carries after its header (W-2).
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum PayloadSize {
    /// A full chunk of elements.
    Elements(ChunkSize),
    /// No elements: an exponent-only packet, size 7 on the wire.
    ExponentOnly,
}

impl PayloadSize {
    /// Octets after the header, 0 to 8,192.
    #[must_use]
    pub const fn octets(self) -> usize {
        match self {
            Self::Elements(chunk) => chunk.octets(),
            Self::ExponentOnly => 0,
        }
    }

    const fn code(self) -> u8 {
        match self {
            Self::Elements(chunk) => chunk.code(),
            Self::ExponentOnly => SIZE_NONE,
        }
    }
}

/// All that a data packet says besides its elements.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[allow(clippy::exhaustive_structs, reason = "the header is what W-1 to W-8 say")]
pub struct Header {
    /// The session's number (W-3).
    pub job: JobId,
    /// Running number in the lane (W-4).
    pub seq: Seq,
    /// Slot addressed, 0 to 16,383; what is above is cut off when emitted (W-5).
    pub slot: u16,
    /// Buffer of the slot addressed (W-5).
    pub version: Version,
    /// Block exponent, or -128 where there is none to tell (W-6).
    pub exponent: i8,
    /// Digest of the collective; [`DIGESTS_DIFFER`] in a result whose contributions do not agree (W-7).
    pub digest: i8,
    /// What follows the header (W-2).
    pub size: PayloadSize,
}

impl Header {
    /// The header of packet `seq` in a lane laid out as `layout` (W-5).
    #[must_use]
    pub const fn new(
        job: JobId,
        layout: LaneLayout,
        seq: Seq,
        size: PayloadSize,
        exponent: i8,
        digest: i8,
    ) -> Self {
        Self { job, seq, slot: layout.slot(seq), version: layout.version(seq), exponent, digest, size }
    }

    /// Whether slot and version are those that `layout` gives this seq (W-5).
    #[must_use]
    pub fn is_placed_by(&self, layout: LaneLayout) -> bool {
        self.slot == layout.slot(self.seq) && self.version == layout.version(self.seq)
    }

    /// Octets of the packet: header and elements.
    #[must_use]
    pub const fn datagram_len(&self) -> usize {
        HEADER_LEN + self.size.octets()
    }

    /// Writes the header at the start of `datagram`, and returns the place for its elements, of
    /// [`PayloadSize::octets`] octets.
    ///
    /// # Panics
    /// If `datagram` is shorter than [`datagram_len`](Self::datagram_len).
    pub fn emit<'a>(&self, datagram: &'a mut [u8]) -> &'a mut [u8] {
        let version = match self.version {
            Version::Zero => raw::SlotField::empty(),
            Version::One => raw::SlotField::VERSION,
        };
        let slot = raw::SlotField::from_bits_retain(self.slot) & raw::SlotField::SLOT;
        let header = raw::DataHeader {
            kind_size: KIND_AGGREGATE << 4 | self.size.code(),
            job: self.job.0,
            seq: self.seq.0.into(),
            slot: (version | slot).bits().into(),
            exponent: self.exponent,
            digest: self.digest,
        };
        let (head, elements) = datagram[..self.datagram_len()].split_at_mut(HEADER_LEN);
        head.copy_from_slice(header.as_bytes());
        elements
    }
}

/// A checked view of one data packet: W-1, W-2 and W-8 hold.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Packet<'a> {
    header: Header,
    elements: &'a [u8],
}

impl<'a> Packet<'a> {
    /// Parses one UDP payload.
    ///
    /// # Errors
    /// [`DataError`] names the rule that the datagram breaks.
    pub fn parse(datagram: &'a [u8]) -> Result<Self, DataError> {
        let Ok((header, elements)) = raw::DataHeader::read_from_prefix(datagram) else {
            return Err(DataError::TooShort { got: datagram.len() });
        };
        let kind = raw::KindField::from_bits_retain(header.kind_size);
        if (kind & raw::KindField::KIND).bits() >> 4 != KIND_AGGREGATE {
            return Err(DataError::Kind { kind: header.kind_size >> 4 });
        }
        let slot = raw::SlotField::from_bits_retain(header.slot.get());
        if kind.contains(raw::KindField::RESERVED) || slot.contains(raw::SlotField::RESERVED) {
            return Err(DataError::Reserved);
        }
        let size = match ChunkSize::from_code((kind & raw::KindField::SIZE).bits()) {
            Some(chunk) => PayloadSize::Elements(chunk),
            None => PayloadSize::ExponentOnly,
        };
        if elements.len() != size.octets() {
            return Err(DataError::Length { expected: HEADER_LEN + size.octets(), got: datagram.len() });
        }
        let header = Header {
            job: JobId(header.job),
            seq: Seq(header.seq.get()),
            slot: (slot & raw::SlotField::SLOT).bits(),
            version: if slot.contains(raw::SlotField::VERSION) { Version::One } else { Version::Zero },
            exponent: header.exponent,
            digest: header.digest,
            size,
        };
        Ok(Self { header, elements })
    }

    /// What the packet says.
    #[must_use]
    pub const fn header(&self) -> &Header {
        &self.header
    }

    /// Its elements, signed 32-bit in network byte order: exactly as many as the size says (W-8).
    #[must_use]
    pub const fn elements(&self) -> &'a [u8] {
        self.elements
    }
}

/// Why a datagram is no data packet. Never fatal: drop it and count it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum DataError {
    /// Shorter than a header.
    TooShort {
        /// Octets present.
        got: usize,
    },
    /// The kind is not `aggregate` (W-1).
    Kind {
        /// The four high bits of octet 0.
        kind: u8,
    },
    /// A reserved bit is 1 (W-1, W-5).
    Reserved,
    /// Fewer or more octets than the size says (W-8).
    Length {
        /// Octets that the size asks for, header included.
        expected: usize,
        /// Octets present.
        got: usize,
    },
}

impl fmt::Display for DataError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::TooShort { got } => write!(f, "{got} octets are shorter than a header of {HEADER_LEN}"),
            Self::Kind { kind } => write!(f, "kind {kind} is not a data packet"),
            Self::Reserved => f.write_str("a reserved bit is 1"),
            Self::Length { expected, got } => write!(f, "{got} octets where the size says {expected}"),
        }
    }
}

impl core::error::Error for DataError {}

#[cfg(test)]
mod tests;
