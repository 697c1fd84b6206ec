//! Having memory fetched before it is needed.

use core::ops::Range;

/// How far ahead of what is needed now, in octets: a few chunks. A tensor is walked in pieces that are too short for the
/// processor to see where the walk leads, so that each would wait for memory.
const DISTANCE: usize = 4096;

/// Octets of a cache line on the processors of which this is compiled to something.
const LINE: usize = 64;

/// Asks the processor to have in its cache soon what a walk through `elements` needs a few chunks after `range`. It waits
/// for nothing and changes nothing. `range` may begin and end anywhere.
///
/// # Panics
/// If `range` runs backwards.
#[inline]
pub fn fetch_ahead<T>(elements: &[T], range: Range<usize>) {
    let octets = size_of::<T>().max(1);
    let ahead = &elements[clamped_ahead(range, DISTANCE / octets, elements.len())];
    // In fours, for speed; the lines beyond the last are of the same memory or of none, and do no harm.
    for offset in (0..size_of_val(ahead)).step_by(4 * LINE) {
        for line in 0..4 {
            fetch_line(ahead.as_ptr().wrapping_byte_add(offset + line * LINE));
        }
    }
}

/// The range `distance` elements behind `range`, as far as it lies before `end`.
#[inline]
fn clamped_ahead(range: Range<usize>, distance: usize, end: usize) -> Range<usize> {
    let place = |element: usize| element.saturating_add(distance).min(end);
    place(range.start)..place(range.end)
}

#[cfg(target_arch = "x86_64")]
#[inline]
fn fetch_line<T>(address: *const T) {
    use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: a hint, which every x86_64 has and which never faults, whatever the address.
    #[allow(unsafe_code, reason = "there is no safe function for it")]
    unsafe {
        _mm_prefetch::<_MM_HINT_T0>(address.cast());
    }
}

/// Without a stable function for it, the processor's own guess has to do.
#[cfg(not(target_arch = "x86_64"))]
#[inline]
fn fetch_line<T>(_: *const T) {}

#[cfg(test)]
mod tests {
    use super::{clamped_ahead, fetch_ahead};

    #[test]
    fn what_lies_ahead_ends_with_the_elements() {
        assert_eq!(clamped_ahead(0..2, 3, 6), 3..5);
        assert_eq!(clamped_ahead(2..4, 3, 6), 5..6);
        assert_eq!(clamped_ahead(4..6, 3, 6), 6..6);
        assert_eq!(clamped_ahead(6..6, usize::MAX, 6), 6..6);
        assert_eq!(clamped_ahead(7..9, 1, 6), 6..6);
    }

    #[test]
    fn elements_of_any_size_and_any_range_can_be_asked_for() {
        fetch_ahead(&[0_u8; 10_000], 0..256);
        fetch_ahead(&[[0_u64; 100]; 20], 5..usize::MAX);
        fetch_ahead(&[(); 10], 0..10);
    }
}
