//! The virtual clock.

use core::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use switchml_proto::Instant;

/// What happens when. Of what happens at one time, that comes first which was put in first.
#[derive(Clone, Debug)]
pub struct Agenda<E> {
    entries: BinaryHeap<Reverse<Entry<E>>>,
    puts: u64,
}

#[derive(Clone, Debug)]
struct Entry<E> {
    at: Instant,
    order: u64,
    what: E,
}

impl<E> Agenda<E> {
    /// Nothing happens.
    #[must_use]
    pub const fn new() -> Self {
        Self { entries: BinaryHeap::new(), puts: 0 }
    }

    /// `what` happens at `at`.
    pub fn put(&mut self, at: Instant, what: E) {
        self.entries.push(Reverse(Entry { at, order: self.puts, what }));
        self.puts += 1;
    }

    /// Takes out what happens next.
    #[expect(clippy::should_implement_trait, reason = "more may be put in between two calls")]
    pub fn next(&mut self) -> Option<(Instant, E)> {
        self.entries.pop().map(|Reverse(entry)| (entry.at, entry.what))
    }

    /// When that is.
    #[must_use]
    pub fn next_at(&self) -> Option<Instant> {
        self.entries.peek().map(|Reverse(entry)| entry.at)
    }
}

impl<E> Default for Agenda<E> {
    fn default() -> Self {
        Self::new()
    }
}

impl<E> Ord for Entry<E> {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.at, self.order).cmp(&(other.at, other.order))
    }
}

impl<E> PartialOrd for Entry<E> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl<E> Eq for Entry<E> {}
