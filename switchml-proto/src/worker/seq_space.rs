//! How fast a lane's seqs may run, so that none comes round while an old packet of its number may live (W-3).

use crate::MSL;
use crate::ids::Window;
use crate::time::Instant;

/// Counts the packets of the collectives started, in two periods of MSL each: what the network may still hold is among
/// them.
#[derive(Clone, Debug)]
pub(super) struct SeqSpace {
    /// When the current period began.
    since: Instant,
    current: u64,
    before: u64,
}

impl SeqSpace {
    pub(super) const fn new() -> Self {
        Self { since: Instant::ZERO, current: 0, before: 0 }
    }

    /// Books a collective of `packets` packets. `open` is the number of packets of the collectives that are still open:
    /// they may be sent in any period until they end.
    ///
    /// # Errors
    /// When to try again, if a slot's seq could advance by 2^32 - 2W within MSL.
    pub(super) fn book(
        &mut self,
        now: Instant,
        packets: u32,
        open: u64,
        window: Window,
    ) -> Result<(), Instant> {
        let elapsed = now.since(self.since);
        if elapsed >= MSL {
            self.before = if elapsed >= 2 * MSL { 0 } else { self.current };
            self.current = open;
            self.since = now;
        }
        // A slot advances by less than W more than the lane has packets.
        let limit = (1 << 32) - 3 * u64::from(window.get());
        if self.before + self.current + u64::from(packets) >= limit {
            return Err(self.since + MSL);
        }
        self.current += u64::from(packets);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
