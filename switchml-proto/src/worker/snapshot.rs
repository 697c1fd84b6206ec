//! A worker apart from its memory, for tools that try many futures of one state.

use core::hash::{Hash, Hasher};

use super::Worker;
use super::slots::{Queue, Slot};

/// All that a worker is but for its slots, which stay in the caller's memory: together they are the whole worker.
///
/// A tool that tries several futures of one state copies the slots, and [resumes](Self::resume) on each copy.
#[derive(Debug)]
pub struct Snapshot(Worker<'static>);

impl Snapshot {
    /// A worker that goes on from here. `slots` are those that the worker left when its snapshot was taken, or a copy
    /// of them.
    ///
    /// # Panics
    /// If `slots` are not as many as the window has. With the slots of another worker any later call may panic.
    #[must_use]
    pub fn resume<'s>(&self, slots: &'s mut [Slot]) -> Worker<'s> {
        assert_eq!(slots.len(), usize::from(self.0.config.layout.window().get()), "one slot for each of W");
        self.0.over(slots)
    }
}

impl Worker<'_> {
    /// Leaves the slots to the caller, and keeps the rest.
    #[must_use]
    pub fn into_snapshot(self) -> Snapshot {
        Snapshot(self.over(&mut []))
    }

    /// Sets the congestion window to `packets`, at least 1 and at most W, as losses or their absence would (T-10): for a
    /// tool that does not wait until they do. It goes on from there.
    pub fn set_congestion_window(&mut self, packets: u32) {
        self.congestion.set_limit(packets);
    }

    /// Feeds all that decides what this worker says and takes from now on, apart from its configuration and from time:
    /// two workers of one configuration that feed the same differ only in clocks, timeouts, round trip times and counters,
    /// and in what the congestion window will become. A queue's order counts where packets are to be sent.
    pub fn hash_state(&self, hasher: &mut impl Hasher) {
        // Each field is named, so that a new one is not forgotten.
        let Self {
            config: _,
            slots,
            open,
            next_id,
            next_seq,
            hash,
            unsent,
            under_way,
            oldest,
            congestion,
            rto: _,
            resumed_at: _,
            progress_at: _,
            answered_until: _,
            now: _,
            seq_space: _,
            failure,
            stats: _,
        } = self;
        for index in 0..usize::from(self.config.layout.window().get()) {
            let Slot { seq, cells, .. } = slots.get(index);
            seq.hash(hasher);
            cells.hash(hasher);
            matches!(slots.queue(index), Some(Queue::InFlight)).hash(hasher);
        }
        for queue in [Queue::Overtaken, Queue::TimedOut, Queue::Ready] {
            slots.in_order(queue).for_each(|index| index.hash(hasher));
            usize::MAX.hash(hasher);
        }
        for place in open {
            place.as_ref().map(|open| (open.plan.id, open.plan.first(), open.unanswered)).hash(hasher);
        }
        (next_id, next_seq, hash, unsent, under_way, oldest).hash(hasher);
        congestion.limit().hash(hasher);
        failure.is_some().hash(hasher);
    }

    /// The same worker over other memory, whose contents are taken for its slots.
    fn over<'t>(&self, slots: &'t mut [Slot]) -> Worker<'t> {
        Worker {
            config: self.config,
            slots: self.slots.over(slots),
            open: self.open,
            next_id: self.next_id,
            next_seq: self.next_seq,
            hash: self.hash,
            unsent: self.unsent,
            under_way: self.under_way,
            oldest: self.oldest,
            congestion: self.congestion.clone(),
            rto: self.rto.clone(),
            resumed_at: self.resumed_at,
            progress_at: self.progress_at,
            answered_until: self.answered_until,
            now: self.now,
            seq_space: self.seq_space.clone(),
            failure: self.failure,
            stats: self.stats,
        }
    }
}

#[cfg(test)]
mod tests;
