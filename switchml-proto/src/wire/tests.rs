use super::*;

#[test]
fn the_first_octet_tells_data_from_control() {
    for first in 0..=u8::MAX {
        let class = if first & 0xf0 == 0x10 { Class::Data } else { Class::Control };
        assert_eq!(Class::of(&[first, 0, 0]), class, "{first:#04x}");
    }
    assert_eq!(Class::of(&[]), Class::Control);
}

/// Octets of a frame's payload before the UDP payload: IPv4 and UDP headers.
const IPV4_UDP: usize = 20 + 8;

#[test]
fn w11_a_frame_of_32_elements_has_180_octets_and_one_of_256_has_1076() {
    let frame = |elements| {
        let chunk = crate::ChunkSize::from_elements(elements).unwrap();
        14 + IPV4_UDP + HEADER_LEN + chunk.octets()
    };
    assert_eq!((frame(32), frame(256)), (180, 1076));
}

#[test]
fn w11_chunks_of_512_elements_need_more_than_an_ethernet_frame() {
    let chunk = crate::ChunkSize::largest_within(1500 - IPV4_UDP);
    assert_eq!(chunk.map(crate::ChunkSize::elements), Some(256));
}
