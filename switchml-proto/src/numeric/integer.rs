//! Elements that are not converted: integers (N-1), and the octets of a broadcast.

use super::element::Element;
use super::words;

/// Writes a chunk of integers (N-1).
///
/// `wire` is the element part of a datagram, `4 * k` octets. What the chunk does not fill is padded with zeros.
///
/// # Panics
///
/// If `wire` is shorter than `4 * chunk.len()` octets, or no multiple of 4 octets long.
#[inline(always)]
pub fn encode_integer(chunk: &[i32], wire: &mut [u8]) {
    for (word, element) in words::padded(wire, chunk.len()).iter_mut().zip(chunk) {
        *word = element.to_be_bytes();
    }
}

/// Reads a chunk of sums, which have wrapped around modulo 2^32 (N-1). Octets beyond the chunk are padding, and
/// are not read.
///
/// # Panics
///
/// If `wire` is shorter than `4 * chunk.len()` octets.
#[inline(always)]
pub fn decode_integer(wire: &[u8], chunk: &mut [i32]) {
    let words = words::unpadded(wire, chunk.len());
    for (element, word) in chunk.iter_mut().zip(words) {
        *element = i32::from_be_bytes(*word);
    }
}

/// Writes the octets of a chunk that is broadcast, any element type.
///
/// The octets are the little-endian images of the elements, one after the other. They go out in this order, so that
/// each four make one word, and the last word is padded with zeros, as is the rest of `wire`. All ranks but the root
/// send zeros, and the sum is what the root sent, bit by bit. A chunk may be any run of the tensor's elements
/// that starts at a word: the offset of its first element is a multiple of 4 octets.
///
/// # Panics
///
/// If `wire` is shorter than the chunk's octets.
#[inline(always)]
pub fn encode_octets<T: Element>(chunk: &[T], wire: &mut [u8]) {
    let octets = size_of_val(chunk);
    assert!(octets <= wire.len(), "a chunk is not longer than its datagram");
    let (image, padding) = wire.split_at_mut(octets);
    T::write(chunk, image);
    padding.fill(0);
}

/// Reads the octets of a chunk that is broadcast, the inverse of [`encode_octets`]. Octets beyond the chunk are
/// padding, and are not read.
///
/// # Panics
///
/// If `wire` is shorter than the chunk's octets.
#[inline(always)]
pub fn decode_octets<T: Element>(wire: &[u8], chunk: &mut [T]) {
    let octets = size_of_val(chunk);
    assert!(octets <= wire.len(), "a chunk is not longer than its datagram");
    T::read(&wire[..octets], chunk);
}
