//! The arithmetic on elements, between the pool and datagrams.
//!
//! The functions here define the bits. They are inlined into their caller, so that a host may compile them
//! again for the processor it finds (`#[target_feature]`, or a crate that does so), and hand the outcome in
//! as [`Kernels`].

use core::fmt;

/// The three passes over elements that an aggregator makes; which compilation of each.
///
/// Octets are elements in network byte order. The aggregator calls each with four times as many octets as
/// elements; what lies beyond the shorter one stays as it was.
#[derive(Clone, Copy)]
#[allow(clippy::exhaustive_structs, reason = "the caller builds it")]
pub struct Kernels {
    /// Sets the elements to those of a datagram, as [`store`].
    pub store: fn(&[u8], &mut [i32]),
    /// Adds those of a datagram to the elements, as [`add`].
    pub add: fn(&[u8], &mut [i32]),
    /// Writes the elements into a datagram, as [`emit`].
    pub emit: fn(&[i32], &mut [u8]),
}

impl Kernels {
    /// Compiled for whatever the crate is compiled for.
    pub const PORTABLE: Self = Self { store, add, emit };
}

impl fmt::Debug for Kernels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Kernels")
    }
}

#[cfg(feature = "defmt")]
impl defmt::Format for Kernels {
    fn format(&self, f: defmt::Formatter<'_>) {
        defmt::write!(f, "Kernels");
    }
}

/// Sets `elements` to those in `octets`.
#[inline(always)]
pub fn store(octets: &[u8], elements: &mut [i32]) {
    let (octets, _) = octets.as_chunks();
    for (element, &octets) in elements.iter_mut().zip(octets) {
        *element = i32::from_be_bytes(octets);
    }
}

/// Adds those in `octets` to `elements`, wrapping (A-4, N-1).
#[inline(always)]
pub fn add(octets: &[u8], elements: &mut [i32]) {
    let (octets, _) = octets.as_chunks();
    for (element, &octets) in elements.iter_mut().zip(octets) {
        *element = element.wrapping_add(i32::from_be_bytes(octets));
    }
}

/// Writes `elements` to `octets`.
#[inline(always)]
pub fn emit(elements: &[i32], octets: &mut [u8]) {
    let (octets, _) = octets.as_chunks_mut();
    for (octets, element) in octets.iter_mut().zip(elements) {
        *octets = element.to_be_bytes();
    }
}
