//! The digest: what a packet says of the collective it belongs to (D-1).

use crc::{CRC_32_ISO_HDLC, Crc, NoTable};

use super::collective::{Collective, Conversion, Operation};

/// Without a table, which would take 1 KiB of a firmware's image: it runs over 24 octets for each collective.
const CRC_32: Crc<u32, NoTable> = Crc::<u32, NoTable>::new(&CRC_32_ISO_HDLC);

/// The hash h of a session before its first collective.
pub(super) const INITIAL_HASH: u32 = 0;

/// The hash h of `collective`, which follows one whose hash was `before`.
pub(super) fn hash(before: u32, collective: &Collective) -> u32 {
    let operation = match collective.operation() {
        Operation::Sum => 0,
        Operation::Mean => 1,
        Operation::Broadcast { .. } => 2,
        Operation::Barrier => 3,
    };
    let conversion = match collective.conversion() {
        Conversion::Integer => 0,
        Conversion::Block => 1,
        Conversion::Fixed(_) => 2,
    };
    let parameter = match (collective.operation(), collective.conversion()) {
        (Operation::Broadcast { root }, _) => root.get().into(),
        (_, Conversion::Fixed(factor)) => factor.bits(),
        _ => 0,
    };
    let mut crc = CRC_32.digest();
    crc.update(&before.to_be_bytes());
    crc.update(&collective.len().to_be_bytes());
    crc.update(&[collective.element() as u8, operation, conversion, 0]);
    crc.update(&parameter.to_be_bytes());
    crc.update(&collective.tag().to_be_bytes());
    crc.finalize()
}

/// The digest octet of packet `packet` of the collective with hash `hash`: 1 to 127.
pub(super) const fn octet(hash: u32, packet: u32) -> i8 {
    let octets = hash.to_be_bytes();
    1 + (octets[(packet % 4) as usize] % 127) as i8
}
