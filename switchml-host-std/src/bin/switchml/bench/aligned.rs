//! Memory that begins at a cache line. Where allocations happen to begin changes the time of a copy by a third.

use core::ops::{Deref, DerefMut};

/// Octets of a cache line; elements no larger than that fill it.
const LINE: usize = 64;

pub(super) struct Aligned<T> {
    elements: Vec<T>,
    start: usize,
    len: usize,
}

impl<T: Copy> Aligned<T> {
    /// `len` elements, each `element`.
    pub(super) fn new(element: T, len: usize) -> Self {
        let elements = vec![element; len + LINE / size_of::<T>()];
        // Up to a line less one element; the vector is never grown, so it stays where it is.
        let start = elements.as_ptr().align_offset(LINE).min(elements.len() - len);
        Self { elements, start, len }
    }
}

impl<T> Deref for Aligned<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.elements[self.start..][..self.len]
    }
}

impl<T> DerefMut for Aligned<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.elements[self.start..][..self.len]
    }
}

#[cfg(test)]
mod tests {
    use super::{Aligned, LINE};

    #[test]
    fn it_begins_at_a_line_and_is_as_long_as_asked() {
        for len in [0, 1, 1000, 1 << 20] {
            let mut octets = Aligned::new(7_u8, len);
            assert_eq!((octets.as_ptr().addr() % LINE, octets.len()), (0, len));
            octets.fill(1);
            assert_eq!(Aligned::new(1.0_f32, len).as_ptr().addr() % LINE, 0);
        }
    }
}
