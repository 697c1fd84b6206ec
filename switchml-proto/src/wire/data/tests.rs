extern crate std;

use std::string::ToString;
use std::vec;
use std::vec::Vec;

use proptest::prelude::*;

use super::*;
use crate::ids::Window;
use crate::wire::MAX_DATAGRAM_LEN;

/// Job 7, seq 0x01020384, version 1, slot 0x1304, exponent -2, digest 100, no elements.
const EXPONENT_ONLY: [u8; 10] = [0x17, 0x07, 0x01, 0x02, 0x03, 0x84, 0x93, 0x04, 0xfe, 0x64];

/// Job 255, seq 5, version 0, slot 0x3fff, exponent -128, digest -128, and the 32 elements that are 0x80000000 + i.
fn thirty_two_elements() -> Vec<u8> {
    let mut octets = vec![0x10, 0xff, 0x00, 0x00, 0x00, 0x05, 0x3f, 0xff, 0x80, 0x80];
    for i in 0..32 {
        octets.extend_from_slice(&[0x80, 0x00, 0x00, i]);
    }
    octets
}

fn exponent_only() -> Header {
    Header {
        job: JobId(7),
        seq: Seq(0x0102_0384),
        slot: 0x1304,
        version: Version::One,
        exponent: -2,
        digest: 100,
        size: PayloadSize::ExponentOnly,
    }
}

#[test]
fn parses_an_exponent_only_packet() {
    let packet = Packet::parse(&EXPONENT_ONLY).unwrap();
    assert_eq!(*packet.header(), exponent_only());
    assert!(packet.elements().is_empty());
}

#[test]
fn emits_an_exponent_only_packet() {
    let mut datagram = [0xaa; 12];
    assert!(exponent_only().emit(&mut datagram).is_empty());
    assert_eq!(datagram[..10], EXPONENT_ONLY);
    assert_eq!(datagram[10..], [0xaa; 2], "octets behind the packet stay as they are");
}

#[test]
fn parses_a_packet_with_elements() {
    let octets = thirty_two_elements();
    let packet = Packet::parse(&octets).unwrap();
    let expected = Header {
        job: JobId(255),
        seq: Seq(5),
        slot: 0x3fff,
        version: Version::Zero,
        exponent: -128,
        digest: -128,
        size: PayloadSize::Elements(ChunkSize::MIN),
    };
    assert_eq!(*packet.header(), expected);
    assert_eq!(packet.elements(), &octets[10..]);
    assert_eq!(expected.datagram_len(), octets.len());
}

#[test]
fn emits_a_packet_with_elements() {
    let octets = thirty_two_elements();
    let header = *Packet::parse(&octets).unwrap().header();
    let mut datagram = vec![0xaa; octets.len()];
    header.emit(&mut datagram).copy_from_slice(&octets[10..]);
    assert_eq!(datagram, octets);
}

#[test]
fn too_short_for_a_header() {
    for len in 0..HEADER_LEN {
        let error = Packet::parse(&EXPONENT_ONLY[..len]).unwrap_err();
        assert_eq!(error, DataError::TooShort { got: len });
    }
    let error = DataError::TooShort { got: 3 };
    assert_eq!(error.to_string(), "3 octets are shorter than a header of 10");
}

#[test]
fn w1_a_kind_that_is_not_aggregate() {
    for kind in (0..16).filter(|&kind| kind != 1) {
        let mut octets = EXPONENT_ONLY;
        octets[0] = kind << 4 | 7;
        assert_eq!(Packet::parse(&octets).unwrap_err(), DataError::Kind { kind });
    }
}

#[test]
fn w1_the_reserved_bit_of_the_size() {
    let mut octets = EXPONENT_ONLY;
    octets[0] |= 0x08;
    assert_eq!(Packet::parse(&octets).unwrap_err(), DataError::Reserved);
}

#[test]
fn w5_the_reserved_bit_of_the_slot() {
    let mut octets = EXPONENT_ONLY;
    octets[6] |= 0x40;
    assert_eq!(Packet::parse(&octets).unwrap_err(), DataError::Reserved);
}

#[test]
fn w8_too_short_for_its_size() {
    let octets = thirty_two_elements();
    for len in HEADER_LEN..octets.len() {
        let error = Packet::parse(&octets[..len]).unwrap_err();
        assert_eq!(error, DataError::Length { expected: 138, got: len });
    }
}

#[test]
fn w8_too_long_for_its_size() {
    let mut octets = thirty_two_elements();
    octets.push(0);
    assert_eq!(Packet::parse(&octets).unwrap_err(), DataError::Length { expected: 138, got: 139 });
    let octets = [&EXPONENT_ONLY[..], &[0]].concat();
    assert_eq!(Packet::parse(&octets).unwrap_err(), DataError::Length { expected: 10, got: 11 });
}

#[test]
fn w8_a_size_that_is_not_that_of_the_elements() {
    let mut octets = thirty_two_elements();
    for code in 1..=7 {
        octets[0] = 0x10 | code;
        let expected = if code == 7 { 10 } else { 10 + (128 << code) };
        assert_eq!(Packet::parse(&octets).unwrap_err(), DataError::Length { expected, got: 138 });
    }
}

#[test]
fn w5_slot_and_version_follow_from_seq() {
    let layout = LaneLayout::new(8, Window::new(4).unwrap(), ChunkSize::MIN).unwrap();
    let header = |seq| Header::new(JobId(1), layout, Seq(seq), PayloadSize::ExponentOnly, -128, 1);
    let places =
        [(0, 8, Version::Zero), (3, 11, Version::Zero), (6, 10, Version::One), (9, 9, Version::Zero)];
    for (seq, slot, version) in places {
        assert_eq!((header(seq).slot, header(seq).version), (slot, version), "seq {seq}");
        assert!(header(seq).is_placed_by(layout));
    }
    assert!(!Header { slot: 9, ..header(0) }.is_placed_by(layout), "another slot");
    assert!(!Header { version: Version::One, ..header(0) }.is_placed_by(layout), "another version");
}

#[test]
fn a_slot_beyond_14_bits_does_not_touch_version_and_reserved_bit() {
    let mut datagram = [0; HEADER_LEN];
    Header { slot: 0xffff, version: Version::Zero, ..exponent_only() }.emit(&mut datagram);
    assert_eq!(datagram[6..8], [0x3f, 0xff]);
}

fn any_size() -> impl Strategy<Value = PayloadSize> {
    (0_u8..8)
        .prop_map(|code| ChunkSize::from_code(code).map_or(PayloadSize::ExponentOnly, PayloadSize::Elements))
}

prop_compose! {
    fn any_header()(
        job in any::<u8>(), seq in any::<u32>(), slot in 0_u16..1 << 14, one in any::<bool>(), exponent in any::<i8>(), digest in any::<i8>(), size in any_size(),
    ) -> Header {
        let version = if one { Version::One } else { Version::Zero };
        Header { job: JobId(job), seq: Seq(seq), slot, version, exponent, digest, size }
    }
}

proptest! {
    #[test]
    fn every_header_round_trips(header in any_header(), fill: u8) {
        let mut datagram = [0; MAX_DATAGRAM_LEN];
        let datagram = &mut datagram[..header.datagram_len()];
        header.emit(datagram).fill(fill);
        let packet = Packet::parse(datagram).unwrap();
        prop_assert_eq!(*packet.header(), header);
        prop_assert_eq!(packet.elements().len(), header.size.octets());
        prop_assert!(packet.elements().iter().all(|&octet| octet == fill));
    }

    /// The octet that tells kind and size is drawn so that many datagrams parse, the others at random.
    #[test]
    fn what_parses_is_emitted_again_octet_for_octet(
        first in prop_oneof![3 => 0x10_u8..0x18, 1 => any::<u8>()],
        rest in prop::collection::vec(any::<u8>(), 0..300),
        fits: bool,
    ) {
        let mut datagram = [&[first][..], &rest].concat();
        if fits {
            let size = ChunkSize::from_code(first & 7).map_or(0, ChunkSize::octets);
            datagram.resize(HEADER_LEN + size, 0x5a);
        }
        if let Ok(packet) = Packet::parse(&datagram) {
            let mut again = vec![0; packet.header().datagram_len()];
            packet.header().emit(&mut again).copy_from_slice(packet.elements());
            prop_assert_eq!(again, datagram);
        }
    }
}
