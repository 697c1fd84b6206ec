//! Packets on their way out.

use core::ops::Range;

use super::collective::CollectiveId;
use crate::numeric::NO_EXPONENT;
use crate::wire::{HEADER_LEN, Header};

/// A packet to be sent now: which chunk it carries, and whose exponent.
///
/// It owns nothing and borrows nothing, so a caller may collect a batch before it writes them. A packet that is not sent
/// after all is as good as one lost in the network: it is sent again when its time is up.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Transmit {
    pub(super) collective: CollectiveId,
    /// As sent, but for the exponent, which needs the caller's tensor.
    pub(super) header: Header,
    pub(super) encode: Option<ChunkRef>,
    pub(super) exponent: ExponentField,
    pub(super) cause: Cause,
}

/// A run of elements of the tensor, and what is agreed about it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct ChunkRef {
    pub(super) elements: ElementRange,
    pub(super) exponent: i8,
}

impl ChunkRef {
    /// Which elements of the tensor: at least one, and at most
    /// [`Collective::elements_per_chunk`](super::Collective::elements_per_chunk).
    #[must_use]
    pub const fn range(&self) -> Range<u64> {
        self.elements.range()
    }

    /// The block exponent that the ranks agreed on; -128 with other conversions.
    #[must_use]
    pub const fn exponent(&self) -> i8 {
        self.exponent
    }
}

/// Where a chunk lies in the tensor. [`Range`] itself is not `Copy`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub(super) struct ElementRange {
    pub(super) start: u64,
    /// At most the 4,096 elements of 2 octets that the largest chunk of a broadcast holds.
    pub(super) len: u16,
}

impl ElementRange {
    pub(super) const fn range(self) -> Range<u64> {
        self.start..self.start + self.len as u64
    }
}

/// What the exponent octet tells (W-6).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub(super) enum ExponentField {
    /// Nothing: -128.
    Nothing,
    /// The block exponent of a chunk (T-3).
    Of(ElementRange),
    /// Whether the chunk that the packet carries was clamped (N-6).
    Mark,
}

/// Why a packet is sent.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum Cause {
    /// It is due for the first time (T-2, T-3).
    First,
    /// Its deadline passed without a result (T-6).
    Timeout,
    /// Results of packets sent later have arrived (T-9).
    Overtaken,
}

/// The octet of a chunk that was clamped, or held a NaN (N-6).
const MARKED: i8 = 1;

impl Transmit {
    /// Octets of the datagram.
    #[must_use]
    #[allow(clippy::len_without_is_empty, reason = "a datagram is never empty")]
    pub const fn len(&self) -> usize {
        self.header.datagram_len()
    }

    /// Whose packet it is.
    #[must_use]
    pub const fn collective(&self) -> CollectiveId {
        self.collective
    }

    /// The header, but for the exponent, which only [`emit`](Self::emit) can know: here it is -128.
    #[must_use]
    pub const fn header(&self) -> &Header {
        &self.header
    }

    /// The chunk whose elements the packet carries; none in an exponent-only packet.
    #[must_use]
    pub const fn encode(&self) -> Option<ChunkRef> {
        self.encode
    }

    /// The elements whose block exponent the packet tells, if it tells one.
    #[must_use]
    pub const fn scan(&self) -> Option<Range<u64>> {
        match self.exponent {
            ExponentField::Of(elements) => Some(elements.range()),
            ExponentField::Nothing | ExponentField::Mark => None,
        }
    }

    /// Why it is sent.
    #[must_use]
    pub const fn cause(&self) -> Cause {
        self.cause
    }

    /// Whether it was sent before.
    #[must_use]
    pub const fn is_retransmission(&self) -> bool {
        !matches!(self.cause, Cause::First)
    }

    /// Writes the packet at the start of `datagram`, straight from the caller's tensor, and returns its
    /// [`len`](Self::len) in octets.
    ///
    /// # Panics
    /// If `datagram` is shorter than that.
    pub fn emit(&self, source: &mut (impl ChunkSource + ?Sized), datagram: &mut [u8]) -> usize {
        let wire = &mut datagram[HEADER_LEN..self.len()];
        let exponent = match (self.encode, self.exponent) {
            (Some(chunk), ExponentField::Of(ahead)) => {
                source.encode_and_scan(self.collective, chunk.range(), chunk.exponent, wire, ahead.range())
            }
            (Some(chunk), field) => {
                let fidelity = source.encode(self.collective, chunk.range(), chunk.exponent, wire);
                let clamped = field == ExponentField::Mark && fidelity == Fidelity::Clamped;
                if clamped { MARKED } else { NO_EXPONENT }
            }
            (None, ExponentField::Of(elements)) => source.exponent(self.collective, elements.range()),
            (None, ExponentField::Nothing | ExponentField::Mark) => NO_EXPONENT,
        };
        Header { exponent, ..self.header }.emit(datagram);
        self.len()
    }
}

/// What a packet needs of the caller's tensor. The caller implements it with [`numeric`](crate::numeric), or with kernels
/// of its own that give the same bits.
///
/// The input of a chunk must not change until its result was returned by
/// [`Worker::handle_datagram`](super::Worker::handle_datagram): packets may have to be built again (T-7). A result may
/// overwrite the chunk it belongs to, so one tensor may be both input and output.
pub trait ChunkSource {
    /// The block exponent of the elements `range` of this rank's tensor (N-2). Asked with [`Conversion::Block`] only.
    ///
    /// [`Conversion::Block`]: super::Conversion::Block
    fn exponent(&mut self, collective: CollectiveId, range: Range<u64>) -> i8;

    /// Writes the elements `range` to the start of `wire`, as the collective's conversion says, and zeros to the rest of
    /// it. In a broadcast all ranks but the root write zeros only.
    ///
    /// `exponent` is the block exponent that the ranks agreed on, and -128 with other conversions. The answer counts with
    /// a fixed scaling factor only (N-6).
    fn encode(
        &mut self,
        collective: CollectiveId,
        range: Range<u64>,
        exponent: i8,
        wire: &mut [u8],
    ) -> Fidelity;

    /// [`encode`](Self::encode) of the elements `range`, and [`exponent`](Self::exponent) of the elements `ahead`, for a
    /// packet that carries both. Asked with [`Conversion::Block`] only. A source for which one pass over both is
    /// faster than two has its own.
    ///
    /// [`Conversion::Block`]: super::Conversion::Block
    fn encode_and_scan(
        &mut self,
        collective: CollectiveId,
        range: Range<u64>,
        exponent: i8,
        wire: &mut [u8],
        ahead: Range<u64>,
    ) -> i8 {
        self.encode(collective, range, exponent, wire);
        self.exponent(collective, ahead)
    }
}

/// Whether the integers of a chunk say what its elements said (N-6).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[allow(clippy::exhaustive_enums, reason = "the wire has one bit for it")]
pub enum Fidelity {
    /// All were within the range of the conversion.
    Faithful,
    /// Some element was clamped, or was a NaN.
    Clamped,
}

impl Fidelity {
    /// What a result's exponent octet says of it. Anything but -128 counts as a mark, so that none is hidden.
    pub(super) const fn of_result(exponent: i8) -> Self {
        if exponent == NO_EXPONENT { Self::Faithful } else { Self::Clamped }
    }
}
