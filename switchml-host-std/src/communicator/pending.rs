//! Collectives under way, and what comes of them.

use core::fmt;
use core::ops::{Deref, DerefMut};
use core::pin::Pin;
use core::task::{Context, Poll, ready};
use std::sync::{Arc, Mutex};

use switchml_proto::LaneId;
use switchml_proto::numeric::Element;

use super::error::{Error, SessionFailure, TensorState};
use super::lock;
use super::tensor::Owned;

/// What an all-reduce did, besides the sums.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct Reduced {
    /// Chunks in which some rank had an element that was out of the range of the fixed scaling factor, or a NaN: their
    /// sums are not those of the elements (N-6). The same on every rank; always 0 without a fixed factor.
    pub clamped_chunks: u64,
}

/// A tensor that was given to [`start_all_reduce`](super::Communicator::start_all_reduce).
///
/// [`wait`](Self::wait) for it, or await it: it is also a [`Future`], of any runtime. Dropping it does not stop the
/// collective, which the other ranks need; its result is lost then.
#[derive(Debug)]
#[must_use = "the tensor comes back through it"]
pub struct Pending<T> {
    elements: Owned<T>,
    report: Arc<Report>,
}

/// A tensor with its results.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Bucket<T> {
    /// The results.
    pub elements: Vec<T>,
    /// What is to be known of them.
    pub reduced: Reduced,
}

/// A tensor whose collective failed.
#[derive(Debug)]
#[non_exhaustive]
pub struct Failed<T> {
    /// Why.
    pub error: Error,
    /// The tensor as the failure left it: `error` tells whether some of it holds results.
    pub bucket: Vec<T>,
}

impl<T: Element> Pending<T> {
    pub(super) const fn new(elements: Owned<T>, report: Arc<Report>) -> Self {
        Self { elements, report }
    }

    /// Whether [`wait`](Self::wait) would return at once.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.elements.is_returned()
    }

    /// Blocks until the collective has ended, and gives the tensor back.
    ///
    /// # Errors
    /// [`Failed`], with the tensor in it, if the session has failed.
    pub fn wait(self) -> Result<Bucket<T>, Failed<T>> {
        self.take()
    }

    fn take(&self) -> Result<Bucket<T>, Failed<T>> {
        let elements = self.elements.take();
        match self.report.outcome() {
            Ok(reduced) => Ok(Bucket { elements, reduced }),
            Err(error) => Err(Failed { error, bucket: elements }),
        }
    }
}

/// As [`Pending::wait`]. After it was ready once, it gives an empty tensor.
impl<T: Element> Future for Pending<T> {
    type Output = Result<Bucket<T>, Failed<T>>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        ready!(self.elements.poll_returned(context));
        Poll::Ready(self.take())
    }
}

impl<T> Deref for Bucket<T> {
    type Target = Vec<T>;

    fn deref(&self) -> &Vec<T> {
        &self.elements
    }
}

impl<T> DerefMut for Bucket<T> {
    fn deref_mut(&mut self) -> &mut Vec<T> {
        &mut self.elements
    }
}

impl<T> From<Bucket<T>> for Vec<T> {
    fn from(bucket: Bucket<T>) -> Self {
        bucket.elements
    }
}

impl<T> fmt::Display for Failed<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.error, f)
    }
}

impl<T: fmt::Debug> core::error::Error for Failed<T> {}

impl<T> From<Failed<T>> for Error {
    fn from(failed: Failed<T>) -> Self {
        failed.error
    }
}

/// What the lanes report of one collective. Complete when all of them have returned their parts of the tensor.
#[derive(Debug)]
pub(super) struct Report(Mutex<Reported>);

#[derive(Debug)]
struct Reported {
    /// The lanes that have not reported: bit l for lane l.
    silent: u16,
    failure: Option<SessionFailure>,
    tensor: TensorState,
    reduced: Reduced,
}

impl Report {
    /// Nothing reported yet, by any of the first `lanes` lanes.
    pub(super) fn new(lanes: usize) -> Self {
        Self(Mutex::new(Reported {
            silent: u16::MAX >> (u16::BITS as usize).saturating_sub(lanes),
            failure: None,
            tensor: TensorState::Untouched,
            reduced: Reduced::default(),
        }))
    }

    /// A lane is done: it has written some chunks or none, of which some were clamped.
    pub(super) fn done(
        &self,
        lane: LaneId,
        end: Result<(), SessionFailure>,
        tensor: TensorState,
        clamped: u64,
    ) {
        let mut reported = lock(&self.0);
        reported.silent &= !(1 << lane.get());
        if let Err(failure) = end {
            reported.failure.get_or_insert(failure);
        }
        if tensor == TensorState::Mixed {
            reported.tensor = tensor;
        }
        reported.reduced.clamped_chunks += clamped;
    }

    /// The sum of it, once all parts have been returned.
    pub(super) fn outcome(&self) -> Result<Reduced, Error> {
        let reported = lock(&self.0);
        if let Some(failure) = &reported.failure {
            return Err(Error::Session { failure: failure.clone(), tensor: reported.tensor });
        }
        // A part that came back without a report was in the hands of a thread that panicked.
        match LaneId::new(reported.silent.trailing_zeros() as usize) {
            Ok(lane) => Err(Error::Session {
                failure: SessionFailure::LanePanicked { lane },
                tensor: TensorState::Mixed,
            }),
            Err(_) => Ok(reported.reduced),
        }
    }
}
