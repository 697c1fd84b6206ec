//! A control message on its way out, before its octets are written.

use crate::wire::{MAX_CONTROL_LEN, Message};

/// A control datagram that is due. A caller that sends from its stack's own buffers first finds room for
/// [`capacity`](Self::capacity) octets there, and then lets [`emit`](Self::emit) write them: no buffer lies between.
///
/// One that is not sent is as good as lost on the way: what needs an answer is repeated. A caller whose buffers are full
/// may keep it, and send it before the next one.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct ControlDatagram {
    pub(super) message: Message,
    /// As many octets at least, of 0 behind the message (W-11).
    pub(super) padded: usize,
}

impl ControlDatagram {
    /// Octets that the buffer for [`emit`](Self::emit) must have.
    #[must_use]
    pub const fn capacity(&self) -> usize {
        if self.padded > MAX_CONTROL_LEN { self.padded } else { MAX_CONTROL_LEN }
    }

    /// Writes the datagram at the start of `buf`, and returns its length in octets.
    ///
    /// # Panics
    /// If `buf` is shorter than [`capacity`](Self::capacity).
    pub fn emit(&self, buf: &mut [u8]) -> usize {
        buf[..self.padded].fill(0);
        self.message.emit(buf).max(self.padded)
    }
}
