//! Layout structs in network byte order; private, so that `zerocopy` is no part of the public API.

use zerocopy::network_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

macro_rules! layout {
    ($(#[$doc:meta])* $name:ident, $octets:literal, { $($field:ident: $type:ty),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
        #[repr(C)]
        pub(super) struct $name { $(pub(super) $field: $type),* }
        const _: () = assert!(size_of::<$name>() == $octets && align_of::<$name>() == 1);
    };
}

bitflags::bitflags! {
    /// Octets 6 and 7 of a data packet; the 14 low bits are the slot (W-5).
    #[derive(Clone, Copy, Debug, Eq, PartialEq)]
    pub(super) struct SlotField: u16 {
        const VERSION = 1 << 15;
        const RESERVED = 1 << 14;
        const SLOT = (1 << 14) - 1;
    }
}

bitflags::bitflags! {
    /// Octet 0 of a data packet (W-1, W-2).
    #[derive(Clone, Copy, Debug, Eq, PartialEq)]
    pub(super) struct KindField: u8 {
        const KIND = 0xf0;
        const RESERVED = 1 << 3;
        const SIZE = 0x07;
    }
}

layout!(
    /// Header of a data packet.
    DataHeader, 10, { kind_size: u8, job: u8, seq: U32, slot: U16, exponent: i8, digest: i8 });

layout!(
    /// First octets of every control message but `no session`. `token` is the session, or a nonce while joining.
    /// Octets that a kind has no use for are 0.
    Head, 12, { kind_version: u8, job: u8, rank: u8, lane: u8, token: U64 });

layout!(
    /// Join, after the head; the name follows, then options, then padding.
    Join, 24, { world_size: u8, lanes: u8, chunk: u8, name_len: u8, window: U16, options_len: U16, run: U64, cookie: U64 });

layout!(
    /// Challenge, after the head.
    Challenge, 8, { cookie: U64 });

layout!(
    /// Welcome, after the head; padding may follow.
    Welcome, 32, { session: U64, missing: U64, initial_seq: U32, lease_millis: U32, base: U16, ready: u8, reserved: u8, reserved_word: U32 });

layout!(
    /// Reject, after the head.
    Reject, 8, { reason: u8, field: u8, reserved: U16, detail: U32 });

layout!(
    /// Keep-alive, alive, leave, left and aborted, after the head: the member's nonce.
    Member, 8, { nonce: U64 });

layout!(
    /// Abort, after the head.
    Abort, 4, { reason: u8, culprit: u8, reserved: U16 });

layout!(
    /// Query, after the head.
    Query, 8, { seq: U32, reserved: U32 });

layout!(
    /// Status, after the head; one [`Age`] for each rank follows.
    Status, 16, { seq: U32, phase: u8, world_size: u8, reserved: U16, missing: U64 });

layout!(
    /// Milliseconds since a rank's last keep-alive.
    Age, 2, { millis: U16 });

layout!(
    /// No session, whole: job and seq stand where the data packet that it answers has them.
    NoSession, 8, { kind_version: u8, job: u8, seq: U32, reserved: U16 });
