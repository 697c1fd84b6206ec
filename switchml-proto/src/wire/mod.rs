//! Octets on the wire: data packets (section 2) and control messages (section 6).
//!
//! - [`Packet::parse`] and [`Message::parse`] are for input: they check all that can be checked without
//!   knowing a job, never panic, and what they return has no accessor that can fail.
//! - [`Header::emit`] and [`Message::emit`] are for output: they write what a valid value says, and panic only
//!   if the caller's buffer is shorter than documented.
//! - [`Class::of`] tells data from control by the first octet.
//!
//! What needs a job's parameters to be judged (W-3, W-4, W-5, W-7, W-10) is judged by the aggregator and the worker.

mod control;
mod data;
mod raw;

pub use control::{
    AbortReason, ControlError, Field, JobName, Join, MAX_CONTROL_LEN, MIN_JOIN_LEN, Message, PhaseState,
    RejectReason, STATUS_AGE_UNKNOWN, StatusReport, Welcome,
};
pub use data::{DIGESTS_DIFFER, DataError, Header, Packet, PayloadSize};

/// Version of the protocol that this crate speaks; it travels in every control message.
pub const PROTOCOL_VERSION: u8 = 1;

/// Octets of a data packet's header.
pub const HEADER_LEN: usize = 10;

/// Octets of the longest data packet: a header and 2,048 elements.
pub const MAX_DATAGRAM_LEN: usize = crate::ChunkSize::MAX.datagram_len();

/// UDP port of lane 0 unless configured otherwise, 0xBEE0; lane l listens l ports above (W-9).
pub const DEFAULT_PORT_BASE: u16 = 48_864;

/// Which of the two formats a datagram claims to have.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Class {
    /// A data packet, kind 1 (W-1); [`Packet::parse`] takes it.
    Data,
    /// Any other kind, or nothing at all; [`Message::parse`] takes it, and refuses what is no message.
    Control,
}

impl Class {
    /// Looks at the first octet only.
    #[must_use]
    pub fn of(datagram: &[u8]) -> Self {
        match datagram.first() {
            Some(octet) if octet >> 4 == data::KIND_AGGREGATE => Self::Data,
            _ => Self::Control,
        }
    }
}

#[cfg(test)]
mod tests;
