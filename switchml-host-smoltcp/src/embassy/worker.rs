//! A worker.

use core::fmt;
use core::future::poll_fn;
use core::task::Poll;
use core::time::Duration;

use embassy_net::Stack;
use embassy_net::udp::UdpSocket;
use switchml_proto::numeric::{Reduction, ScalingFactor};
use switchml_proto::{WorkerSet, worker};

use super::{EmbassyLink, Port, endpoint, now, wake_at};
use crate::config::{SetupError, WorkerConfig};
use crate::counters::WorkerCounters;
use crate::element::{Loan, Reducible, Rules, Tensor, Use};
use crate::error::WorkerError;
use crate::worker::{Driven, Rank, Reduced, WorkerStatus, WorkerStorage};

/// One rank of a job, on the caller's sockets. The [crate] shows how to use it.
///
/// # Who keeps the session alive
///
/// Whichever of its calls is awaited. While the application computes, none is, so it awaits
/// [`keep_alive`](Self::keep_alive) beside its own work, for example with a `select`; or calls and drops it every
/// third of the lease, which is 5 s by default. A rank that is silent for a lease ends the session.
///
/// # Cancelling
///
/// [`join`](Self::join) and `keep_alive` may be dropped at any time, and called again. A collective may be dropped too, but
/// what it has done cannot be undone, as the other ranks wait for this one: the next call ends the session for all, with
/// [`WorkerError::Cancelled`]. The tensor then holds some reduced and some original chunks.
///
/// # When the network changes
///
/// Packets for which the transmit buffer has no room wait, and those that are due while the stack has no address are given
/// up and sent again: both are counted. A link that goes down and comes up again, or an address that is lost and found,
/// costs what retransmission takes. A new address is a new sender to the aggregator, and ends the session (W-10). If
/// the aggregator's link address changes, the stack goes on with the old one until its neighbour cache forgets it, after
/// a minute at most, or until the new one asks for this host's; embassy-net has no call that a stack in any configuration
/// could be given here. [`silence`](Self::silence) tells when that may be so, and `Stack::set_config_v4` with the
/// address that the stack has looks up neighbours anew.
pub struct Worker<'s, const LANES: usize = 1> {
    rank: Rank<'s, LANES>,
    ports: [Port<'s>; LANES],
    stack: Stack<'s>,
}

impl<'s, const LANES: usize> Worker<'s, LANES> {
    /// A worker that has not joined. `sockets` are those of its lanes, bound to ports of the caller's choice.
    ///
    /// # Errors
    /// [`SetupError`]: also for a chunk that does not fit the interface (W-11), or a buffer that is too small.
    pub fn new<const WINDOW: usize>(
        config: WorkerConfig,
        storage: &'s mut WorkerStorage<WINDOW, LANES>,
        sockets: [UdpSocket<'s>; LANES],
        stack: Stack<'s>,
    ) -> Result<Self, SetupError> {
        if endpoint(config.aggregator).is_none() {
            return Err(SetupError::AddressFamily);
        }
        let ports = sockets.map(Port::new);
        let shapes = ports.each_ref().map(Port::shape);
        Ok(Self { rank: Rank::new(config, storage, &shapes, now())?, ports, stack })
    }

    /// Joins, and waits until all ranks have. The connect timeout runs from [`new`](Self::new) on.
    ///
    /// # Errors
    /// [`WorkerError`] says why there is no session.
    pub async fn join(&mut self) -> Result<(), WorkerError> {
        self.drive::<i32, _>(None, |rank, _| match rank.status() {
            WorkerStatus::Joining { .. } => None,
            WorkerStatus::Ready => Some(Ok(())),
            WorkerStatus::Left => Some(Err(WorkerError::Left)),
            WorkerStatus::Failed(error) => Some(Err(error)),
        })
        .await
    }

    /// Keeps the session alive until it ends, and says why it did.
    pub async fn keep_alive(&mut self) -> WorkerError {
        self.drive::<i32, _>(None, |rank, _| match rank.status() {
            WorkerStatus::Joining { .. } | WorkerStatus::Ready => None,
            WorkerStatus::Left => Some(WorkerError::Left),
            WorkerStatus::Failed(error) => Some(error),
        })
        .await
    }

    /// Replaces `tensor` with the sum over all ranks, or the mean; floating point in blocks with a common exponent
    /// (N-2 to N-5). All ranks must call the same collectives in the same order.
    ///
    /// # Errors
    /// [`WorkerError::NotReady`] before [`join`](Self::join), [`WorkerError::TooLong`], or why the session is over.
    ///
    /// # Panics
    /// If the mean of integers is asked for, which the protocol does not have.
    pub async fn all_reduce<T: Reducible>(
        &mut self,
        tensor: &mut [T],
        reduction: Reduction,
    ) -> Result<Reduced, WorkerError> {
        self.reduce(tensor, reduction, None).await
    }

    /// As [`all_reduce`](Self::all_reduce), with a fixed scaling factor (N-6): one packet less to wait for at the start, but
    /// what does not fit is clamped, and counted in the result. For `i32` the factor has no meaning, and none is used.
    ///
    /// # Errors
    /// As [`all_reduce`](Self::all_reduce).
    ///
    /// # Panics
    /// As [`all_reduce`](Self::all_reduce).
    pub async fn all_reduce_fixed<T: Reducible>(
        &mut self,
        tensor: &mut [T],
        reduction: Reduction,
        factor: ScalingFactor,
    ) -> Result<Reduced, WorkerError> {
        self.reduce(tensor, reduction, Some(factor)).await
    }

    /// Replaces `tensor` with that of rank `root`, octet for octet.
    ///
    /// # Errors
    /// As [`all_reduce`](Self::all_reduce).
    pub async fn broadcast<T: Reducible>(
        &mut self,
        tensor: &mut [T],
        root: switchml_proto::Rank,
    ) -> Result<(), WorkerError> {
        let collective = worker::Collective::broadcast(tensor.len() as u64, T::TYPE, root);
        let purpose = Use::broadcast(root, self.rank.rank());
        self.run(collective, Loan { elements: tensor, purpose }).await.map(|_| ())
    }

    /// Waits until all ranks do.
    ///
    /// # Errors
    /// As [`all_reduce`](Self::all_reduce).
    pub async fn barrier(&mut self) -> Result<(), WorkerError> {
        let none = Loan::<i32> { elements: &mut [], purpose: Use::BroadcastFromElsewhere };
        self.run(worker::Collective::barrier(), none).await.map(|_| ())
    }

    /// Leaves the session, and waits until the aggregator knows, a lease at most. After a failure it waits until the other
    /// ranks can learn of it.
    ///
    /// # Errors
    /// Why the session had ended before.
    pub async fn leave(mut self) -> Result<(), WorkerError> {
        self.rank.leave(now());
        self.end().await
    }

    /// Ends the session for all ranks, and waits until the aggregator knows, a lease at most.
    pub async fn abort(mut self) {
        self.rank.cancel(now());
        // It ends with that it was cancelled, or with what was before.
        let _ended = self.end().await;
    }

    /// Where it is in its session's life.
    #[must_use]
    pub const fn status(&self) -> WorkerStatus {
        self.rank.status()
    }

    /// For how long the aggregator has said nothing, if it should have: longer than half a lease.
    #[must_use]
    pub fn silence(&self) -> Option<Duration> {
        self.rank.silence(now())
    }

    /// Ranks that the aggregator was last waiting for, as far as it has told: it is asked when a result takes longer than
    /// half a second.
    #[must_use]
    pub const fn missing(&self) -> WorkerSet {
        self.rank.missing()
    }

    /// What it has met. [`neighbor_doubts`](WorkerCounters::neighbor_doubts) stays 0.
    #[must_use]
    pub fn counters(&self) -> WorkerCounters {
        self.rank.counters()
    }

    async fn end(&mut self) -> Result<(), WorkerError> {
        self.drive::<i32, _>(None, |rank, _| {
            rank.is_over().then(|| match rank.status() {
                WorkerStatus::Failed(error) => Err(error),
                _ => Ok(()),
            })
        })
        .await
    }

    async fn reduce<T: Reducible>(
        &mut self,
        tensor: &mut [T],
        reduction: Reduction,
        factor: Option<ScalingFactor>,
    ) -> Result<Reduced, WorkerError> {
        let rules = Rules { reduction, factor, world_size: self.rank.world_size() };
        let collective = rules.collective::<T>(tensor.len());
        self.run(collective, Loan { elements: tensor, purpose: Use::Reduce(rules) }).await
    }

    async fn run<T: Reducible>(
        &mut self,
        collective: worker::Collective,
        loan: Loan<'_, T>,
    ) -> Result<Reduced, WorkerError> {
        self.rank.start(collective, now())?;
        self.drive(Some(loan), |_, ended| ended).await
    }

    /// Drives the rank until `answer` has an answer.
    async fn drive<T: Reducible, R>(
        &mut self,
        mut loan: Option<Loan<'_, T>>,
        mut answer: impl FnMut(&Rank<'s, LANES>, Option<Result<Reduced, WorkerError>>) -> Option<R>,
    ) -> R {
        let Self { rank, ports, stack } = self;
        poll_fn(|context| {
            let tensor = loan.as_mut().map(|loan| loan as &mut dyn Tensor);
            let mut link = EmbassyLink { ports, stack: *stack, context };
            let Driven { next, ended } = rank.drive(now(), &mut link, tensor);
            match answer(rank, ended) {
                Some(answer) => Poll::Ready(answer),
                None => {
                    wake_at(next, context);
                    Poll::Pending
                }
            }
        })
        .await
    }
}

impl<const LANES: usize> fmt::Debug for Worker<'_, LANES> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker").field("status", &self.status()).finish_non_exhaustive()
    }
}
