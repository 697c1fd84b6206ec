//! The lane's slots.

/// One slot of a lane's window, as the worker keeps it. The caller lends [`Slot::EMPTY`] for each.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Slot {}

impl Slot {
    /// A slot that no worker has used, for static arrays.
    pub const EMPTY: Self = Self {};
}
