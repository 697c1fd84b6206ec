//! The element part of a datagram as words: signed 32-bit integers in network byte order (W-8).

/// The words of the chunk's `elements` elements, after the rest of `wire` has been filled with zeros, the padding of
/// a tensor's last chunk (T-1).
///
/// # Panics
///
/// If `wire` has no whole number of words, or too few.
#[inline(always)]
pub(super) fn padded(wire: &mut [u8], elements: usize) -> &mut [[u8; 4]] {
    let (words, rest) = wire.as_chunks_mut();
    assert!(rest.is_empty(), "a datagram holds whole words");
    assert!(elements <= words.len(), "a chunk is not longer than its datagram");
    let (words, padding) = words.split_at_mut(elements);
    padding.fill([0; 4]);
    words
}

/// The chunk's elements from their sums, each first rounded to binary32 (N-5, N-6).
///
/// # Panics
///
/// If `wire` has fewer words than the chunk has elements.
#[inline(always)]
pub(super) fn convert<T>(wire: &[u8], chunk: &mut [T], element_of: impl Fn(f32) -> T) {
    let words = unpadded(wire, chunk.len());
    for (element, word) in chunk.iter_mut().zip(words) {
        *element = element_of(i32::from_be_bytes(*word) as f32);
    }
}

/// The words of the chunk's `elements` elements, without the padding.
///
/// # Panics
///
/// If `wire` has too few.
#[inline(always)]
pub(super) fn unpadded(wire: &[u8], elements: usize) -> &[[u8; 4]] {
    let (words, _) = wire.as_chunks();
    assert!(elements <= words.len(), "a chunk is not longer than its datagram");
    &words[..elements]
}
