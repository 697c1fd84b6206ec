//! The all-reduce API: one rank of a job.

mod builder;
mod cancel;
mod element;
mod error;
mod join;
mod lane;
mod latch;
mod options;
mod pending;
mod session;
mod share;
mod tensor;
mod waiting;

use core::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use switchml_proto::Rank;
use switchml_proto::numeric::ElementType;
use switchml_proto::wire::AbortReason;
use switchml_proto::worker::{Collective, Conversion, Stats};

pub use self::builder::Builder;
pub use self::cancel::Canceller;
pub use self::element::Reducible;
pub use self::error::{Error, Phase, SessionFailure, TensorState};
use self::lane::{Driven, Lane};
pub use self::options::ReduceOptions;
use self::pending::Report;
pub use self::pending::{Bucket, Failed, Pending, Reduced};
use self::session::{End, LaneEnd, Session};
use self::share::{Role, Task, TypedShare};
use self::tensor::{Part, PerLane};
pub use self::waiting::{Waiting, WaitingFor};
use crate::transport::SocketCalls;

/// One rank of a job, joined to its session.
///
/// All ranks call the same collectives in the same order: the same length, element type, operation and options. Those that
/// do not all fail, instead of receiving wrong sums. A failure ends the session for all ranks: later calls
/// fail at once, and say why.
///
/// Threads of its own, one for each lane, serve the network and keep the session alive, whatever the application
/// does. While a call for a short tensor blocks, the caller's thread serves lane 0 itself: that saves waking others. Dropping it waits for what is pending, and leaves the job; if the thread is panicking, it gives up at once, and
/// all ranks fail. A callback or a waker runs in one of those threads: dropped there, it leaves when that has returned
/// and nothing is pending.
///
/// ```
/// use switchml_host_std::{Communicator, ReduceOp};
/// # use switchml_host_std::{Switch, SwitchConfig};
/// # let mut config = SwitchConfig::new([127, 0, 0, 1].into());
/// # config.port_base = 0;
/// # let switch = Switch::bind(config)?;
/// # let address = switch.local_addr();
/// # std::thread::spawn(move || switch.run());
///
/// // As the only rank; `address` is the switch's, as in "10.0.0.1:48864".
/// let mut comm = Communicator::builder(address).job("resnet50").rank(0).world_size(1).connect()?;
/// let mut gradients = vec![0.5_f32; 10_000];
/// comm.all_reduce(&mut gradients, ReduceOp::Mean)?;
/// let pending = comm.start_all_reduce(vec![1.0_f32; 4096], ReduceOp::Sum)?; // while others are computed
/// comm.broadcast(&mut gradients, 0)?;
/// let bucket = pending.wait()?;
/// assert_eq!((gradients[9_999], bucket[0]), (0.5, 1.0));
/// comm.leave()?;
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Communicator {
    session: Arc<Session>,
    /// Lane 0, which blocking calls serve themselves.
    lane: Arc<Mutex<Lane>>,
    threads: Vec<JoinHandle<()>>,
}

/// A collective takes fewer packets than this in a lane (W-3).
const PACKETS: u64 = 1 << 30;

/// A blocking call serves lane 0 itself if that has no more chunks than this. With more, waking the lane's thread takes
/// a small part of the time; and the system runs a thread that has slept sooner than one that has just computed.
const DRIVEN_CHUNKS: usize = 32;

impl Communicator {
    /// Begins to configure a rank of the job that the aggregator at `address` serves: `"host:port"`, where the port
    /// is that of its lane 0, or a [`SocketAddr`](std::net::SocketAddr).
    pub fn builder(address: impl fmt::Display) -> Builder {
        Builder::new(&address)
    }

    /// This worker's number in the job.
    #[must_use]
    pub fn rank(&self) -> usize {
        self.session.rank.index()
    }

    /// How many workers the job has.
    #[must_use]
    pub fn world_size(&self) -> usize {
        self.session.world_size.get().into()
    }

    /// Which system calls move datagrams now: those asked for, or what the system has instead. A route that refuses some
    /// shows when the first tensor is reduced.
    #[must_use]
    pub fn socket_calls(&self) -> SocketCalls {
        self.session.lanes.iter().map(|lane| lane.transport.calls()).min().unwrap_or_default()
    }

    /// Octets of the smallest receive buffer of the lanes' sockets, as the system counts them; `None` if it does not
    /// tell.
    #[must_use]
    pub fn receive_buffer(&self) -> Option<usize> {
        let buffers = self.session.lanes.iter().filter_map(|lane| lane.transport.buffers().ok());
        buffers.map(|(receive, _)| receive).min()
    }

    /// Replaces the elements of `tensor` by their sums or means over all ranks, and blocks until all have come.
    ///
    /// `how` is a [`ReduceOp`](crate::ReduceOp), or [`ReduceOptions`] made from one. All ranks receive the same bits.
    ///
    /// # Errors
    /// [`Error`]; if the session has failed, it says whether some chunks hold results already.
    pub fn all_reduce<T: Reducible>(
        &mut self,
        tensor: &mut [T],
        how: impl Into<ReduceOptions>,
    ) -> Result<Reduced, Error> {
        let collective = self.all_reduce_of::<T>(tensor.len(), how.into())?;
        self.run(collective, None, tensor)
    }

    /// As [`all_reduce`](Self::all_reduce), from `source` to `destination`: the source also survives a failure.
    ///
    /// # Errors
    /// [`Error`]; also if the lengths differ.
    pub fn all_reduce_into<T: Reducible>(
        &mut self,
        source: &[T],
        destination: &mut [T],
        how: impl Into<ReduceOptions>,
    ) -> Result<Reduced, Error> {
        if source.len() != destination.len() {
            let (source, destination) = (source.len(), destination.len());
            return Err(Error::LengthsDiffer { source, destination });
        }
        let collective = self.all_reduce_of::<T>(source.len(), how.into())?;
        self.run(collective, Some(source), destination)
    }

    /// Starts an all-reduce of `tensor`, and does not wait for it. Several may be under way, and they stream one behind
    /// the other; what comes of each is told by its [`Pending`].
    ///
    /// # Errors
    /// [`Failed`], with the tensor in it, if the session has failed, or the protocol has no such collective.
    pub fn start_all_reduce<T: Reducible>(
        &mut self,
        tensor: Vec<T>,
        how: impl Into<ReduceOptions>,
    ) -> Result<Pending<T>, Failed<T>> {
        let started = self
            .all_reduce_of::<T>(tensor.len(), how.into())
            .and_then(|collective| self.check().map(|()| collective));
        let collective = match started {
            Ok(collective) => collective,
            Err(error) => return Err(Failed { error, bucket: tensor }),
        };
        let report = self.report();
        let (owned, parts) = tensor::own(tensor, &self.ends(&collective, collective.len() as usize));
        self.submit(collective, parts, &report);
        self.session.lanes.iter().for_each(LaneEnd::wake);
        Ok(Pending::new(owned, report))
    }

    /// Replaces the elements of `tensor` by those of rank `root`, bit for bit, and blocks until all have come.
    ///
    /// # Errors
    /// [`Error`]; also if there is no such rank.
    pub fn broadcast<T: Reducible>(&mut self, tensor: &mut [T], root: usize) -> Result<(), Error> {
        let world_size = self.session.world_size;
        let rank = Rank::new(root).ok().filter(|rank| rank.get() < world_size.get());
        let rank = rank.ok_or(Error::RootOutsideWorld { root, world_size })?;
        let collective = Collective::broadcast(tensor.len() as u64, T::TYPE, rank);
        self.check_length(&collective, tensor.len())?;
        self.run(collective, None, tensor).map(|_| ())
    }

    /// Blocks until all ranks have called it.
    ///
    /// # Errors
    /// [`Error`] if the session has failed.
    pub fn barrier(&mut self) -> Result<(), Error> {
        self.run::<f32>(Collective::barrier(), None, &mut []).map(|_| ())
    }

    /// Finishes what is pending, and leaves the job. The other ranks may still fetch results that they miss.
    ///
    /// # Errors
    /// [`Error`] if the session failed before this rank had left.
    pub fn leave(mut self) -> Result<(), Error> {
        self.end_threads();
        match self.session.end() {
            Some(End::Failed(failure)) => Err(Error::Session { failure, tensor: TensorState::Untouched }),
            Some(End::Left) | None => Ok(()),
        }
    }

    /// What ends the session for all ranks from another thread, while this one waits for a collective.
    #[must_use]
    pub fn canceller(&self) -> Canceller {
        Canceller::new(&self.session)
    }

    /// What each lane has sent and received, up to the last collective that has ended in it.
    pub fn lane_stats(&self) -> impl Iterator<Item = Stats> {
        self.session.lanes.iter().map(|lane| *lock(&lane.stats))
    }

    fn all_reduce_of<T: Reducible>(&self, len: usize, how: ReduceOptions) -> Result<Collective, Error> {
        let ReduceOptions { reduction, factor, tag } = how;
        let conversion = match (T::TYPE, factor) {
            (_, Some(factor)) => Conversion::Fixed(factor),
            (ElementType::Int32, None) => Conversion::Integer,
            (_, None) => Conversion::Block,
        };
        let collective = Collective::all_reduce(len as u64, T::TYPE, reduction, conversion)?.with_tag(tag);
        self.check_length(&collective, len)?;
        Ok(collective)
    }

    /// Refuses what a lane could not number, alike on every rank (W-3).
    fn check_length(&self, collective: &Collective, elements: usize) -> Result<(), Error> {
        let layout = self.session.params.layout;
        let per_chunk = collective.elements_per_chunk(layout.chunk()) as u64;
        // The first exponents travel ahead of the chunks (T-3).
        let chunks = self.session.lanes.len() as u64 * (PACKETS - 1 - u64::from(layout.window().get()));
        let most = chunks * per_chunk;
        if elements as u64 > most { Err(Error::TooLong { elements, most }) } else { Ok(()) }
    }

    /// Why nothing can be started any more, if the session has failed.
    fn check(&self) -> Result<(), Error> {
        match self.session.end() {
            Some(End::Failed(failure)) => Err(Error::Session { failure, tensor: TensorState::Untouched }),
            Some(End::Left) | None => Ok(()),
        }
    }

    fn run<T: Reducible>(
        &mut self,
        collective: Collective,
        source: Option<&[T]>,
        tensor: &mut [T],
    ) -> Result<Reduced, Error> {
        self.check()?;
        let report = self.report();
        let ends = self.ends(&collective, tensor.len());
        tensor::lend(source, tensor, &ends, |parts| {
            self.submit(collective, parts, &report);
            let (first, others) = self.session.lanes.split_first().expect("a job has at least one lane");
            others.iter().for_each(LaneEnd::wake);
            let chunks = ends[0].div_ceil(collective.elements_per_chunk(self.session.params.layout.chunk()));
            if chunks > DRIVEN_CHUNKS || lane::drive(&self.lane) == Driven::HandedOver {
                first.wake();
            }
        });
        report.outcome()
    }

    fn report(&self) -> Arc<Report> {
        Arc::new(Report::new(self.session.lanes.len()))
    }

    /// Where each lane's part of a tensor ends.
    fn ends(&self, collective: &Collective, len: usize) -> PerLane<usize> {
        share::ends(collective, len, self.session.params.layout.chunk(), self.session.lane_count)
    }

    /// Hands a collective to all lanes: `&mut self` above keeps the order the same in all of them. They do not know of it
    /// before they are woken or driven.
    fn submit<T: Reducible>(&self, collective: Collective, parts: PerLane<Part<T>>, report: &Arc<Report>) {
        let role = Role::of(&collective, self.session.rank, self.session.world_size);
        for (lane, part) in self.session.lane_count.lanes().zip(parts) {
            let share = Box::new(TypedShare::new(lane, role, part, report.clone()));
            self.session.submit(lane, Task { collective, share });
        }
    }

    /// A lane's thread could not be started as it should be: ends those that were.
    fn give_up(self, error: Error) -> Error {
        let failure = SessionFailure::Cancelled { rank: Some(self.session.rank) };
        self.session.fail(failure, AbortReason::Cancelled, Some(self.session.rank));
        error
    }

    fn end_threads(&mut self) {
        self.session.ask_to_leave();
        let own = thread::current().id();
        if self.threads.iter().any(|thread| thread.thread().id() == own) {
            // A thread that waits for itself, or for one that waits for it, waits for ever.
            self.threads.clear();
            return;
        }
        for thread in self.threads.drain(..) {
            // If it panicked, the session has failed, and says so.
            let _ = thread.join();
        }
    }
}

impl Drop for Communicator {
    fn drop(&mut self) {
        if thread::panicking() {
            cancel::cancel(&self.session);
        }
        self.end_threads();
    }
}

/// Locks also what a thread that panicked had locked: all that stands under a lock here is valid between any two calls
/// that could panic.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
