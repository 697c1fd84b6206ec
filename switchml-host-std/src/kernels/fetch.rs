//! Having memory fetched before it is needed.

/// How far ahead of what is needed now, in octets: a few chunks. A tensor is walked in pieces that are too short for the
/// processor to see where the walk leads, so that each would wait for memory.
const DISTANCE: usize = 4096;

/// Octets of a cache line on the processors of which this is compiled to something.
const LINE: usize = 64;

/// [`fetch`] is for elements that lie so many elements behind those that are used now.
#[must_use]
pub const fn fetch_distance<T>() -> usize {
    DISTANCE / size_of::<T>()
}

/// Asks the processor to have these elements in its cache soon. It waits for nothing and changes nothing.
#[inline]
pub fn fetch<T>(elements: &[T]) {
    for line in elements.chunks(LINE / size_of::<T>().max(1)) {
        fetch_line(line.as_ptr());
    }
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
