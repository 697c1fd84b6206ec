//! Octets to values and back.

use switchml_proto::wire::{Class, MAX_CONTROL_LEN, MAX_DATAGRAM_LEN, Message, Packet};

/// One datagram: what parses, as data or as control, is written again as the same octets, and only one of the two takes
/// it.
///
/// # Panics
/// If that does not hold.
pub fn packet_parse(datagram: &[u8]) {
    let class = Class::of(datagram);
    match Packet::parse(datagram) {
        Ok(packet) => {
            assert_eq!(class, Class::Data);
            let mut again = vec![0xaa; MAX_DATAGRAM_LEN];
            packet.header().emit(&mut again).copy_from_slice(packet.elements());
            assert_eq!(&again[..packet.header().datagram_len()], datagram);
        }
        // Every error has words.
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    match Message::parse(datagram) {
        Ok(message) => {
            assert_eq!(class, Class::Control);
            check(&message, datagram);
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

fn check(message: &Message, datagram: &[u8]) {
    let mut again = [0xaa; MAX_CONTROL_LEN];
    let len = message.emit(&mut again);
    let written = &again[..len];
    assert_eq!(Message::parse(written).as_ref(), Ok(message));
    match message {
        Message::Join(join) => {
            assert!(!join.name.to_string().chars().any(char::is_control), "a log line is not forged");
            is_padded(datagram, written);
        }
        Message::Welcome(_) => is_padded(datagram, written),
        // Of another version only what every version keeps in place: kind and version, rank, lane, nonce.
        Message::ForeignJoin { .. } => {
            assert_eq!((written[0], &written[2..12]), (datagram[0], &datagram[2..12]));
        }
        _ => assert_eq!(written, datagram),
    }
}

/// A message, and zeros up to the length that proves the path (W-11).
fn is_padded(datagram: &[u8], written: &[u8]) {
    let (message, padding) = datagram.split_at(written.len());
    assert_eq!(message, written);
    assert!(padding.iter().all(|&octet| octet == 0));
}
