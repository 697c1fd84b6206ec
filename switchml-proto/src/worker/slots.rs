//! The lane's slots, and the queues that they stand in.

use super::transmit::Cause;
use crate::ids::Seq;
use crate::numeric::NO_EXPONENT;
use crate::time::Instant;

/// One slot of a lane's window, as the worker keeps it: 24 octets. The caller lends [`Slot::EMPTY`] for each; the rest is
/// the worker's business.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Slot {
    /// The slot's next packet, or the one under way: the first of its seqs without a result.
    pub(super) seq: Seq,
    /// When that packet was last sent, if it was.
    pub(super) sent_at: Instant,
    pub(super) sendings: Sendings,
    /// Exponent cell of this index, for each of the two open collectives (T-3).
    pub(super) cells: [i8; 2],
    queue: Option<Queue>,
    earlier: u16,
    later: u16,
}

const _: () = assert!(size_of::<Slot>() == 24);

impl Slot {
    /// A slot that no worker has used, for static arrays.
    pub const EMPTY: Self = Self {
        seq: Seq(0),
        sent_at: Instant::ZERO,
        sendings: Sendings::One,
        cells: [NO_EXPONENT; 2],
        queue: None,
        earlier: END,
        later: END,
    };
}

/// How often a packet was sent: with more than once, a result does not tell a round trip time (Karn's rule, T-6).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub(super) enum Sendings {
    One,
    More,
}

/// Where a slot stands that is not idle.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub(super) enum Queue {
    /// To be sent for the first time.
    Ready,
    /// To be sent again, because its deadline has passed.
    TimedOut,
    /// To be sent again, because later ones were answered.
    Overtaken,
    /// In flight, in order of sending.
    InFlight,
}

impl Queue {
    /// Why a packet that stands here is to be sent, if it is.
    pub(super) const fn cause(self) -> Option<Cause> {
        match self {
            Self::Ready => Some(Cause::First),
            Self::TimedOut => Some(Cause::Timeout),
            Self::Overtaken => Some(Cause::Overtaken),
            Self::InFlight => None,
        }
    }
}

const QUEUES: usize = 4;

/// No slot; a window has at most 2^14.
const END: u16 = u16::MAX;

/// All slots of the lane. Each is idle or in one queue; all changes cost O(1).
#[derive(Debug)]
pub(super) struct Slots<'s> {
    slots: &'s mut [Slot],
    ends: [Ends; QUEUES],
}

/// The ends of a queue.
#[derive(Clone, Copy, Debug)]
struct Ends {
    first: u16,
    last: u16,
    len: u16,
}

impl<'s> Slots<'s> {
    /// All idle, before packets `first`, `first + 1`, ...
    pub(super) fn new(slots: &'s mut [Slot], first: Seq) -> Self {
        for (slot, index) in slots.iter_mut().zip(0..) {
            *slot = Slot { seq: first.plus(index), ..Slot::EMPTY };
        }
        Self { slots, ends: [Ends { first: END, last: END, len: 0 }; QUEUES] }
    }

    /// The same queues over other memory, whose contents are taken for the slots.
    #[cfg(feature = "snapshot")]
    pub(super) fn over<'t>(&self, slots: &'t mut [Slot]) -> Slots<'t> {
        Slots { slots, ends: self.ends }
    }

    /// The slots of a queue, from its first to its last.
    #[cfg(feature = "snapshot")]
    pub(super) fn in_order(&self, queue: Queue) -> impl Iterator<Item = usize> {
        core::iter::successors(self.first(queue), |&index| {
            Some(self.slots[index].later).filter(|&later| later != END).map(usize::from)
        })
    }

    /// The slot at `index`, which is below the window.
    pub(super) fn get(&self, index: usize) -> &Slot {
        &self.slots[index]
    }

    /// The slot at `index`, which is below the window.
    pub(super) fn get_mut(&mut self, index: usize) -> &mut Slot {
        &mut self.slots[index]
    }

    pub(super) fn queue(&self, index: usize) -> Option<Queue> {
        self.slots[index].queue
    }

    pub(super) fn first(&self, queue: Queue) -> Option<usize> {
        Some(self.ends[queue as usize].first).filter(|&first| first != END).map(usize::from)
    }

    /// How many packets are in flight: sent, neither answered nor taken for lost.
    pub(super) fn in_flight(&self) -> u32 {
        self.ends[Queue::InFlight as usize].len.into()
    }

    /// Slots whose packet was sent, and has no result.
    pub(super) fn under_way(&self) -> impl Iterator<Item = &Slot> {
        self.slots.iter().filter(|slot| !matches!(slot.queue, None | Some(Queue::Ready)))
    }

    /// Moves a slot to the end of a queue, from wherever it was.
    pub(super) fn enqueue(&mut self, index: usize, queue: Queue) {
        self.release(index);
        let ends = &mut self.ends[queue as usize];
        ends.len += 1;
        let last = core::mem::replace(&mut ends.last, index as u16);
        if last == END {
            ends.first = index as u16;
        } else {
            self.slots[usize::from(last)].later = index as u16;
        }
        let slot = &mut self.slots[index];
        (slot.queue, slot.earlier, slot.later) = (Some(queue), last, END);
    }

    /// Makes a slot idle.
    pub(super) fn release(&mut self, index: usize) {
        let slot = &mut self.slots[index];
        let Some(queue) = slot.queue.take() else { return };
        let (earlier, later) = (slot.earlier, slot.later);
        self.ends[queue as usize].len -= 1;
        match self.slots.get_mut(usize::from(earlier)) {
            Some(slot) => slot.later = later,
            None => self.ends[queue as usize].first = later,
        }
        match self.slots.get_mut(usize::from(later)) {
            Some(slot) => slot.earlier = earlier,
            None => self.ends[queue as usize].last = earlier,
        }
    }
}
