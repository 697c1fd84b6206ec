//! What is wrong with a datagram that is no control message.

use core::fmt;

use crate::ids::Nonce;
use crate::wire::PROTOCOL_VERSION;

/// Why a datagram is no control message. Never fatal: drop it and count it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum ControlError {
    /// Fewer or more octets than the message has.
    Length,
    /// No message has this kind.
    Kind {
        /// The four high bits of octet 0.
        kind: u8,
    },
    /// Another version of the protocol.
    Version {
        /// The four low bits of octet 0.
        version: u8,
    },
    /// A field holds a value that it cannot have.
    Value,
    /// An octet that this message has no use for is not 0.
    Reserved,
    /// Padding that is not 0.
    Padding,
    /// A join with an option; this version knows none. The aggregator answers it.
    Option {
        /// Its rank octet.
        rank: u8,
        /// Its lane octet.
        lane: u8,
        /// Its nonce.
        nonce: Nonce,
    },
}

impl fmt::Display for ControlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Length => f.write_str("the length is not that of the message"),
            Self::Kind { kind } => write!(f, "kind {kind} is no message"),
            Self::Version { version } => write!(f, "protocol version {version} is not {PROTOCOL_VERSION}"),
            Self::Value => f.write_str("a field holds a value that it cannot have"),
            Self::Reserved => f.write_str("a reserved octet is not 0"),
            Self::Padding => f.write_str("the padding is not 0"),
            Self::Option { .. } => f.write_str("the join has an option, and this version knows none"),
        }
    }
}

impl core::error::Error for ControlError {}
