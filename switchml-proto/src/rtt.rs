//! Round trip times, and the retransmission timeout that follows from them (T-6, RFC 6298).

use core::time::Duration;

/// Bounds of the retransmission timeout (T-6).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub struct RtoConfig {
    /// Before the first round trip has been measured.
    pub initial: Duration,
    /// Never shorter than this. Not zero.
    pub floor: Duration,
    /// Never longer than this, however often it was doubled. Not below the floor.
    pub ceiling: Duration,
}

impl RtoConfig {
    /// 50 ms, 2 ms and 1 s (the defaults of section 6).
    pub const DEFAULT: Self = Self {
        initial: Duration::from_millis(50),
        floor: Duration::from_millis(2),
        ceiling: Duration::from_secs(1),
    };
}

impl Default for RtoConfig {
    fn default() -> Self {
        Self::DEFAULT
    }
}
