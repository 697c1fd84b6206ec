//! A worker.

use core::fmt;

use smoltcp::iface::{Interface, SocketHandle, SocketSet};
use smoltcp::time::Instant;
use switchml_proto::numeric::{Reduction, ScalingFactor};
use switchml_proto::{WorkerSet, worker};

use super::{Port, SmoltcpLink, earliest, endpoint, from_smoltcp};
use crate::config::{SetupError, WorkerConfig};
use crate::counters::WorkerCounters;
use crate::element::{Loan, Reducible, Rules, Tensor, Use};
use crate::error::WorkerError;
use crate::worker::{Driven, Rank, Reduced, WorkerStatus, WorkerStorage};

/// One rank of a job, on the caller's sockets. The [crate] shows how to drive it.
///
/// It joins, keeps its session alive and ends it within [`poll`](Self::poll), and within
/// [`Collective::poll`] while a collective is open. So while the application computes, it calls `poll` at the times that
/// `poll` returns: at least each third of the lease, which is 5 s by default. Nobody else does it for it.
///
/// # When the network changes
///
/// Packets for which the transmit buffer has no room wait, and those that the interface has no address for are given up
/// and sent again: both are counted. A link that goes down and comes up again, or an address that is lost and found, costs
/// what retransmission takes, up to [`RtoConfig::ceiling`](switchml_proto::RtoConfig), and ends the session only after
/// a lease without contact. A new address is a new sender to the aggregator, and ends it (W-10). If the aggregator is silent
/// for half a lease, the interface's neighbours are looked up anew, as it may have another link address.
///
/// # What a poll costs
///
/// It takes what the receive buffers hold and fills the transmit buffers, and does no more: O(k) for each datagram. A flood
/// of foreign datagrams to the port costs a look at each one's source address, and room in the receive buffer: what it
/// displaces is sent again.
#[derive(Debug)]
pub struct Worker<'s, const LANES: usize = 1> {
    rank: Rank<'s, LANES>,
    ports: [Port; LANES],
    /// When the link address of a silent aggregator was last asked for anew.
    doubted_at: Option<switchml_proto::Instant>,
    doubts: u64,
}

/// What a poll has to tell.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub struct Progress {
    /// Where the worker is in its session's life.
    pub status: WorkerStatus,
    /// When to poll interface and worker next, if no packet comes before; never, if `None`.
    #[cfg_attr(feature = "defmt", defmt(Debug2Format))]
    pub poll_at: Option<Instant>,
}

/// How far a collective is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[allow(clippy::exhaustive_enums, reason = "it is done, or it is not")]
#[must_use]
pub enum Step {
    /// Results are missing.
    Working {
        /// When to poll interface and collective next, if no packet comes before.
        #[cfg_attr(feature = "defmt", defmt(Debug2Format))]
        poll_at: Option<Instant>,
    },
    /// The tensor is the result.
    Done(Reduced),
}

impl<'s, const LANES: usize> Worker<'s, LANES> {
    /// A worker that begins to join with its next [`poll`](Self::poll). `sockets` are the caller's, one for each lane, bound
    /// to ports of the caller's choice, and used by nobody else.
    ///
    /// # Errors
    /// [`SetupError`]: also for a chunk that does not fit the interface (W-11), or a buffer that is too small.
    ///
    /// # Panics
    /// If a handle is not that of a UDP socket of `set`.
    pub fn new<const WINDOW: usize>(
        config: WorkerConfig,
        storage: &'s mut WorkerStorage<WINDOW, LANES>,
        sockets: [SocketHandle; LANES],
        set: &SocketSet<'_>,
        now: Instant,
    ) -> Result<Self, SetupError> {
        if endpoint(config.aggregator).is_none() {
            return Err(SetupError::AddressFamily);
        }
        let ports = sockets.map(Port::new);
        let shapes = ports.each_ref().map(|port| port.shape(set));
        let rank = Rank::new(config, storage, &shapes, from_smoltcp(now))?;
        Ok(Self { rank, ports, doubted_at: None, doubts: 0 })
    }

    /// Joins, keeps the session alive, or leaves, whatever it is at. Call it after each poll of the interface, and poll the
    /// interface again afterwards.
    ///
    /// A collective that was begun and not polled to its end is given up by this call: it ends the session for all ranks.
    pub fn poll(&mut self, now: Instant, interface: &mut Interface, sockets: &mut SocketSet<'_>) -> Progress {
        let Driven { next, .. } = self.drive(now, interface, sockets, None);
        Progress { status: self.rank.status(), poll_at: earliest(next, interface, sockets, now) }
    }

    /// Where it is in its session's life.
    #[must_use]
    pub const fn status(&self) -> WorkerStatus {
        self.rank.status()
    }

    /// Begins to replace `tensor` with the sum over all ranks, or the mean; floating point in blocks with a common exponent
    /// (N-2 to N-5).
    ///
    /// All ranks must call the same collectives in the same order. Nothing is sent before the first
    /// [`Collective::poll`].
    ///
    /// # Errors
    /// [`WorkerError::NotReady`] before the session is ready, [`WorkerError::TooLong`], or why the session is over.
    ///
    /// # Panics
    /// If the mean of integers is asked for, which the protocol does not have.
    pub fn all_reduce<'c, T: Reducible>(
        &'c mut self,
        tensor: &'c mut [T],
        reduction: Reduction,
        now: Instant,
    ) -> Result<Collective<'c, 's, T, LANES>, WorkerError> {
        self.reduce(tensor, reduction, None, now)
    }

    /// As [`all_reduce`](Self::all_reduce), with a fixed scaling factor (N-6): one packet less to wait for at the start, but
    /// what does not fit is clamped, and counted in the result. For `i32` the factor has no meaning, and none is used.
    ///
    /// # Errors
    /// As [`all_reduce`](Self::all_reduce).
    ///
    /// # Panics
    /// As [`all_reduce`](Self::all_reduce).
    pub fn all_reduce_fixed<'c, T: Reducible>(
        &'c mut self,
        tensor: &'c mut [T],
        reduction: Reduction,
        factor: ScalingFactor,
        now: Instant,
    ) -> Result<Collective<'c, 's, T, LANES>, WorkerError> {
        self.reduce(tensor, reduction, Some(factor), now)
    }

    /// Begins to replace `tensor` with that of rank `root`, octet for octet.
    ///
    /// # Errors
    /// As [`all_reduce`](Self::all_reduce).
    pub fn broadcast<'c, T: Reducible>(
        &'c mut self,
        tensor: &'c mut [T],
        root: switchml_proto::Rank,
        now: Instant,
    ) -> Result<Collective<'c, 's, T, LANES>, WorkerError> {
        let collective = worker::Collective::broadcast(tensor.len() as u64, T::TYPE, root);
        let purpose = Use::broadcast(root, self.rank.rank());
        self.begin(collective, Loan { elements: tensor, purpose }, now)
    }

    /// Begins to wait until all ranks do.
    ///
    /// # Errors
    /// As [`all_reduce`](Self::all_reduce).
    pub fn barrier<'c>(&'c mut self, now: Instant) -> Result<Collective<'c, 's, i32, LANES>, WorkerError> {
        let purpose = Use::BroadcastFromElsewhere;
        self.begin(worker::Collective::barrier(), Loan { elements: &mut [], purpose }, now)
    }

    /// Leaves the session: poll on until the status is [`WorkerStatus::Left`], which takes a lease at most.
    pub fn leave(&mut self, now: Instant) {
        self.rank.leave(from_smoltcp(now));
    }

    /// Ends the session for all ranks. Poll on until it [is over](Self::is_over), so that all learn of it.
    pub fn abort(&mut self, now: Instant) {
        self.rank.cancel(from_smoltcp(now));
    }

    /// Whether nothing is left to send or to wait for: the session has ended, and what had to be told was acknowledged, or a
    /// lease has passed. Until then it is worth while to poll, also after a failure.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.rank.is_over()
    }

    /// Ranks that the aggregator was last waiting for, as far as it has told: it is asked when a result takes longer than
    /// half a second.
    #[must_use]
    pub const fn missing(&self) -> WorkerSet {
        self.rank.missing()
    }

    /// What it has met.
    #[must_use]
    pub fn counters(&self) -> WorkerCounters {
        WorkerCounters { neighbor_doubts: self.doubts, ..self.rank.counters() }
    }

    fn reduce<'c, T: Reducible>(
        &'c mut self,
        tensor: &'c mut [T],
        reduction: Reduction,
        factor: Option<ScalingFactor>,
        now: Instant,
    ) -> Result<Collective<'c, 's, T, LANES>, WorkerError> {
        let rules = Rules { reduction, factor, world_size: self.rank.world_size() };
        let collective = rules.collective::<T>(tensor.len());
        self.begin(collective, Loan { elements: tensor, purpose: Use::Reduce(rules) }, now)
    }

    fn begin<'c, T: Reducible>(
        &'c mut self,
        collective: worker::Collective,
        loan: Loan<'c, T>,
        now: Instant,
    ) -> Result<Collective<'c, 's, T, LANES>, WorkerError> {
        self.rank.start(collective, from_smoltcp(now))?;
        Ok(Collective { worker: self, loan })
    }

    fn drive(
        &mut self,
        now: Instant,
        interface: &mut Interface,
        sockets: &mut SocketSet<'_>,
        tensor: Option<&mut dyn Tensor>,
    ) -> Driven {
        let now = from_smoltcp(now);
        let mut link = SmoltcpLink { ports: &mut self.ports, sockets, interface };
        let driven = self.rank.drive(now, &mut link, tensor);
        let doubt_at = self.doubt(now, interface);
        Driven { next: crate::worker::earliest(driven.next, doubt_at), ..driven }
    }

    /// If the aggregator has been silent for long, its link address may have changed: smoltcp would go on sending to the old
    /// one for a minute. Returns when to look again, while it is silent.
    fn doubt(
        &mut self,
        now: switchml_proto::Instant,
        interface: &mut Interface,
    ) -> Option<switchml_proto::Instant> {
        let interval = self.rank.silence(now)? / 4;
        if self.doubted_at.is_none_or(|doubted_at| now.since(doubted_at) >= interval) {
            self.doubted_at = Some(now);
            self.doubts += 1;
            // This forgets all neighbours, and changes nothing else.
            interface.update_ip_addrs(|_| ());
        }
        self.doubted_at.map(|doubted_at| doubted_at + interval)
    }
}

/// A collective that has begun: poll it to its end.
///
/// Dropped before, it is given up, and the worker's next call ends the session for all ranks: they would wait for this one.
/// The tensor then holds some reduced and some original chunks.
#[must_use = "a collective that is not polled to its end ends the session"]
pub struct Collective<'c, 's, T, const LANES: usize = 1> {
    worker: &'c mut Worker<'s, LANES>,
    loan: Loan<'c, T>,
}

impl<T: Reducible, const LANES: usize> Collective<'_, '_, T, LANES> {
    /// Does all that can be done now, and keeps the session alive, also after the end. Call it after each poll of the interface, and poll the
    /// interface again afterwards.
    ///
    /// # Errors
    /// [`WorkerError`]: the session is over.
    pub fn poll(
        &mut self,
        now: Instant,
        interface: &mut Interface,
        sockets: &mut SocketSet<'_>,
    ) -> Result<Step, WorkerError> {
        let Driven { next, ended } = self.worker.drive(now, interface, sockets, Some(&mut self.loan));
        match ended {
            Some(Ok(reduced)) => Ok(Step::Done(reduced)),
            Some(Err(error)) => Err(error),
            None => Ok(Step::Working { poll_at: earliest(next, interface, sockets, now) }),
        }
    }

    /// The worker, for its counters and its status.
    #[must_use]
    pub fn worker(&self) -> &Worker<'_, LANES> {
        self.worker
    }
}

impl<T, const LANES: usize> fmt::Debug for Collective<'_, '_, T, LANES> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Collective").field("len", &self.loan.elements.len()).finish_non_exhaustive()
    }
}
