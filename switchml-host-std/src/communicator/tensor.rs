//! Lends the caller's memory to lane threads. The only `unsafe` of the communicator.
//!
//! A tensor is cut into consecutive parts, one for each lane, by [`slice::split_at_mut`]: no two overlap. A [`Part`] is
//! the one way to its elements while it lives, and it can be sent to another thread. What makes that sound is that
//! nobody else touches the memory, and nobody frees it, before the last part is gone:
//!
//! - [`lend`] keeps the caller's borrow, and does not return, nor unwind, before that.
//! - [`own`] keeps the vector where only [`Owned::take`] reaches it, which waits for that first; and every part
//!   keeps it alive.
//!
//! Neither relies on a destructor that might not run: a part that is leaked keeps its tensor lent for ever.

use core::ops::Range;
use core::task::{Context, Poll};
use std::sync::{Arc, Mutex};

use switchml_proto::LaneCount;
use switchml_proto::numeric::Element;

use super::latch::Latch;
use super::lock;
use crate::kernels;

/// Something for each lane, on the stack.
pub(super) type PerLane<T> = heapless::Vec<T, { LaneCount::MAX }>;

/// A lane's part of a tensor: what it reads and where it writes.
#[derive(Debug)]
pub(super) struct Part<T> {
    /// The first element to read: `len` elements, initialised.
    input: *const T,
    /// The first element to write: `len` elements, initialised. The same as `input` for a collective in place,
    /// else in other memory.
    output: *mut T,
    len: usize,
    /// Index of the first element in the whole tensor.
    first: usize,
    loan: Arc<Loan<T>>,
}

// SAFETY: a part has what a `&mut [T]` and a `&[T]` have, as the module says: while it lives, nobody else reads or
// writes `output`, and nobody writes `input`. Those can be sent to another thread if `T: Send + Sync`, which every
// `Element` is. The loan is an `Arc` of a latch and of a locked `Vec<T>`, both of which are Send and Sync then.
#[allow(unsafe_code, reason = "the module's purpose; the argument stands above")]
unsafe impl<T: Element> Send for Part<T> {}

/// What all parts of a tensor have in common.
#[derive(Debug)]
struct Loan<T> {
    /// Held by each part.
    latch: Latch,
    /// The memory itself, if it was given and not lent.
    elements: Mutex<Option<Vec<T>>>,
}

impl<T: Element> Part<T> {
    /// The elements `range` of the tensor, as this rank contributes them.
    ///
    /// # Panics
    /// If they are not all in this part.
    pub(super) fn input(&self, range: &Range<u64>) -> &[T] {
        let (offset, len) = self.locate(range);
        // SAFETY: `offset + len <= self.len`, so all of it is in the part. `&self` keeps `output`, which may be the
        // same memory, from handing out `&mut` meanwhile.
        #[allow(unsafe_code, reason = "the module's purpose; the argument stands above")]
        unsafe {
            core::slice::from_raw_parts(self.input.add(offset), len)
        }
    }

    /// Has the elements fetched from memory that will be asked for soon after those of `range`.
    ///
    /// # Panics
    /// If those are not all in this part.
    pub(super) fn fetch_after(&self, range: &Range<u64>) {
        let (offset, len) = self.locate(range);
        let all = self.first as u64..(self.first + self.len) as u64;
        kernels::fetch_ahead(self.input(&all), offset..offset + len);
    }

    /// Where the results of the elements `range` of the tensor go.
    ///
    /// # Panics
    /// If they are not all in this part.
    pub(super) fn output(&mut self, range: &Range<u64>) -> &mut [T] {
        let (offset, len) = self.locate(range);
        // SAFETY: as above, and `&mut self` keeps any other slice of this part from being alive.
        #[allow(unsafe_code, reason = "the module's purpose; the argument stands above")]
        unsafe {
            core::slice::from_raw_parts_mut(self.output.add(offset), len)
        }
    }

    /// Where `range` lies in the part, and its length.
    fn locate(&self, range: &Range<u64>) -> (usize, usize) {
        let place = |element: u64| usize::try_from(element).ok()?.checked_sub(self.first);
        match (place(range.start), place(range.end)) {
            (Some(start), Some(end)) if start <= end && end <= self.len => (start, end - start),
            _ => panic!("elements {range:?} are not in this lane's part"),
        }
    }
}

impl<T> Drop for Part<T> {
    fn drop(&mut self) {
        // The last thing that a part does: from here on the memory may be gone.
        self.loan.latch.let_go();
    }
}

/// Lends `output`, and `input` if it is not the same, to `use_parts` in parts that end at `ends`, and returns when all
/// parts have been dropped, wherever they were sent.
///
/// # Panics
/// If `ends` is not ascending up to the length of `output`, or has more places than there are lanes, or `input` has
/// another length; before anything is lent.
pub(super) fn lend<T: Element>(
    input: Option<&[T]>,
    output: &mut [T],
    ends: &[usize],
    use_parts: impl FnOnce(PerLane<Part<T>>),
) {
    let (loan, parts) = cut(input, output, ends);
    // Also if `use_parts` unwinds.
    let _returned = AllReturned(&loan.latch);
    use_parts(parts);
}

struct AllReturned<'l>(&'l Latch);

impl Drop for AllReturned<'_> {
    fn drop(&mut self) {
        self.0.wait();
    }
}

/// A vector that was given away in parts.
#[derive(Debug)]
pub(super) struct Owned<T> {
    loan: Arc<Loan<T>>,
}

/// Gives `elements` away in parts that end at `ends`.
///
/// # Panics
/// If `ends` is not ascending up to the number of elements, or has more places than there are lanes.
pub(super) fn own<T: Element>(mut elements: Vec<T>, ends: &[usize]) -> (Owned<T>, PerLane<Part<T>>) {
    // The parts point to the heap, which does not move with the vector; an empty vector has none, and no element.
    let (loan, parts) = cut(None, &mut elements, ends);
    *lock(&loan.elements) = Some(elements);
    (Owned { loan }, parts)
}

impl<T> Owned<T> {
    /// Whether all parts have been dropped.
    pub(super) fn is_returned(&self) -> bool {
        self.loan.latch.is_open()
    }

    /// As [`is_returned`](Self::is_returned); if not, the task that asked last is woken then.
    pub(super) fn poll_returned(&self, context: &Context<'_>) -> Poll<()> {
        self.loan.latch.poll(context)
    }

    /// The vector, once all parts have been dropped: it waits for that. Empty the second time.
    pub(super) fn take(&self) -> Vec<T> {
        self.loan.latch.wait();
        lock(&self.loan.elements).take().unwrap_or_default()
    }
}

/// Cuts a tensor into parts. They are valid as long as the memory is not touched otherwise.
fn cut<T: Element>(
    input: Option<&[T]>,
    output: &mut [T],
    ends: &[usize],
) -> (Arc<Loan<T>>, PerLane<Part<T>>) {
    assert_eq!(ends.last(), Some(&output.len()), "the parts make up the whole tensor");
    assert!(input.is_none_or(|input| input.len() == output.len()), "source and destination have one length");
    let loan = Arc::new(Loan { latch: Latch::new(ends.len()), elements: Mutex::new(None) });
    let mut rest = output;
    let mut first = 0;
    let mut pieces = PerLane::new();
    for &end in ends {
        let (piece, after) = rest.split_at_mut(end.checked_sub(first).expect("the parts' ends ascend"));
        pieces.push((first, end, piece)).unwrap_or_else(|_| panic!("there are more parts than lanes"));
        rest = after;
        first = end;
    }
    // Nothing below can panic between the first part and the last, so that the latch counts right.
    let parts = pieces.into_iter().map(|(first, end, piece)| {
        let output = piece.as_mut_ptr();
        let input = input.map_or(output.cast_const(), |input| input[first..end].as_ptr());
        Part { input, output, len: piece.len(), first, loan: loan.clone() }
    });
    let parts = parts.collect();
    (loan, parts)
}

#[cfg(test)]
mod tests;
