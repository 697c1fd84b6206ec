//! What a datagram was.

use core::fmt;
use core::ops::Range;

use super::collective::CollectiveId;
use super::transmit::Fidelity;
use crate::wire::DataError;

/// What [`Worker::handle_datagram`](super::Worker::handle_datagram) made of a datagram. Never an error: whatever the network
/// brings, the worker can go on (T-4).
#[derive(Clone, Debug, Eq, PartialEq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[must_use = "a chunk that is not written to the tensor is lost"]
#[non_exhaustive]
pub enum Received<'d> {
    /// A result with elements: convert it, and write it to the tensor, now.
    Chunk(Chunk<'d>),
    /// A result without elements was accepted.
    Exponent {
        /// Whose result it is.
        collective: CollectiveId,
    },
    /// The last result accepted in its slot, once more: two answers to one packet, as retransmission brings.
    Duplicate,
    /// An older result, or any after the worker has failed.
    Stale,
    /// From another job, or the result of a packet that was not sent.
    Foreign,
    /// Not a result at all.
    Malformed(Malformed),
    /// The digest says that the members called different collectives (D-1): all have failed.
    Differ,
}

/// A chunk of the result, still as the wire has it.
#[derive(Clone, Debug, Eq, PartialEq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub struct Chunk<'d> {
    /// Whose chunk it is.
    pub collective: CollectiveId,
    /// The elements of the tensor that it holds. Octets beyond them are padding.
    pub range: Range<u64>,
    /// The block exponent to decode it with; -128 with other conversions.
    pub exponent: i8,
    /// Whether some rank clamped an element, with a fixed scaling factor (N-6).
    pub fidelity: Fidelity,
    /// The sums: k signed 32-bit integers in network byte order.
    pub elements: &'d [u8],
}

/// Why a datagram is no result for this worker.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum Malformed {
    /// It is no data packet (W-1, W-2, W-8).
    Data(DataError),
    /// Slot or version are not those of its seq (W-5).
    Placement,
    /// The digest is neither the collective's nor -128 (T-4).
    Digest,
    /// It has elements where none were asked for, or none where some were, or another number (T-4).
    Size,
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Data(error) => fmt::Display::fmt(error, f),
            Self::Placement => f.write_str("slot or version disagree with the seq"),
            Self::Digest => f.write_str("the digest is not this collective's"),
            Self::Size => f.write_str("the size is not the one asked for"),
        }
    }
}

/// The message has the cause in it: as a `source` too, it would stand twice where a chain of errors is printed.
impl core::error::Error for Malformed {}
