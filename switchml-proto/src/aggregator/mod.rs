//! The aggregator: sums the packets of n workers slot by slot (section 3, A-1 to A-8).
//!
//! One [`Aggregator`] is one lane of an aggregator, for all jobs that use the lane; lanes share nothing. It
//! keeps no clock and allocates nothing: a switch has neither. The caller lends all memory when it makes one,
//! receives datagrams, and sends what [`Egress`] says.
//!
//! ```
//! use switchml_proto::aggregator::{Aggregator, Egress, Job, Kernels, Phase, PortEntry, Session, Storage};
//! use switchml_proto::wire::{Header, PayloadSize};
//! use switchml_proto::{ChunkSize, JobId, LaneLayout, Rank, Seq, Window, WorldSize};
//!
//! const SLOTS: usize = 4;
//! let mut phases = [Phase::EMPTY; Storage::phases(SLOTS)];
//! let mut elements = [0; Storage::elements(SLOTS, ChunkSize::MIN)];
//! let (mut jobs, mut ports) = ([Job::EMPTY; 1], [PortEntry::EMPTY; 2]);
//! let storage =
//!     Storage { phases: &mut phases, elements: &mut elements, jobs: &mut jobs, ports: &mut ports };
//! let mut aggregator = Aggregator::new(storage, ChunkSize::MIN, Kernels::PORTABLE)?;
//!
//! // 1. A session begins: its entries are installed, and each member's address becomes a port.
//! let layout = LaneLayout::new(0, Window::new(4)?, ChunkSize::MIN)?;
//! let job = JobId(7);
//! aggregator.install(&Session { job, world_size: WorldSize::new(2)?, layout, initial_seq: Seq(0) })?;
//! let ports = [aggregator.bind(job, Rank::new(0)?)?, aggregator.bind(job, Rank::new(1)?)?];
//!
//! // 2. Datagrams come in, each from the port of its source address.
//! let mut datagram = [0; 138];
//! let header =
//!     Header::new(job, layout, Seq(0), PayloadSize::Elements(ChunkSize::MIN), -128, 1);
//! header.emit(&mut datagram).fill(1);
//! assert!(matches!(aggregator.handle_datagram(Some(ports[0]), &datagram), Egress::Consume));
//!
//! // 3. The last contribution completes the phase: the reply goes to every member of the job.
//! let Egress::Multicast(reply) = aggregator.handle_datagram(Some(ports[1]), &datagram) else { panic!() };
//! let mut result = [0; 138];
//! assert_eq!((reply.job(), reply.emit(&mut result)), (job, 138));
//! assert_eq!(result[10..14], [2, 2, 2, 2]);
//! # Ok::<(), Box<dyn core::error::Error>>(())
//! ```
//!
//! It does not create jobs, place slots, watch leases, or answer control messages: that is the control
//! machine's business, which calls [`install`](Aggregator::install), [`bind`](Aggregator::bind) and
//! [`remove`](Aggregator::remove). It trusts that a member keeps the rule T-2; a member that does not can
//! spoil its own job's sums, and no other's.

mod counters;
mod decision;
pub mod kernels;
mod outcome;
mod pool;
mod session;
mod storage;

use crate::ids::ChunkSize;
use crate::wire::{Packet, PayloadSize};
use pool::Pool;

pub use crate::phase::PhaseStatus;
pub use counters::Counters;
pub use kernels::Kernels;
pub use outcome::{Egress, Reject, Reply};
pub use session::{InstallError, Session, SlotView};
pub use storage::{Job, Phase, Port, PortEntry, Storage, StorageError};

/// One lane of an aggregator: its slots, and the entries of the jobs that use them.
#[derive(Debug)]
pub struct Aggregator<'p> {
    pool: Pool<'p>,
    jobs: &'p mut [Job],
    ports: &'p mut [PortEntry],
    unknown_source: u64,
}

impl<'p> Aggregator<'p> {
    /// An aggregator without jobs, of `storage.phases.len() / 2` slots, each with room for two chunks of
    /// `largest_chunk`. What was in `storage` is cleared.
    ///
    /// # Errors
    /// [`StorageError`] if the elements lent are too few for the phases lent.
    pub fn new(
        storage: Storage<'p>,
        largest_chunk: ChunkSize,
        kernels: Kernels,
    ) -> Result<Self, StorageError> {
        storage.phases.fill(Phase::EMPTY);
        storage.jobs.fill(Job::EMPTY);
        storage.ports.fill(PortEntry::EMPTY);
        Self::over(storage, largest_chunk, kernels)
    }

    /// An aggregator that goes on where another one has left `storage`, or the memory that it is a copy of: a tool that
    /// tries several futures of one state copies the memory, and resumes on each copy. All state is in the memory, but
    /// for [`unknown_source`](Self::unknown_source), which begins at 0.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    #[cfg(feature = "snapshot")]
    pub fn resume(
        storage: Storage<'p>,
        largest_chunk: ChunkSize,
        kernels: Kernels,
    ) -> Result<Self, StorageError> {
        Self::over(storage, largest_chunk, kernels)
    }

    /// An aggregator over memory as it is.
    fn over(storage: Storage<'p>, largest_chunk: ChunkSize, kernels: Kernels) -> Result<Self, StorageError> {
        let Storage { phases, elements, jobs, ports } = storage;
        let needed = Storage::elements(phases.len() / 2, largest_chunk);
        if elements.len() < needed {
            return Err(StorageError::Elements { needed, got: elements.len() });
        }
        Ok(Self { pool: Pool::new(phases, elements, largest_chunk, kernels), jobs, ports, unknown_source: 0 })
    }

    /// Takes one datagram from the port `from`, or from a source address that no port has, and says what to
    /// do.
    ///
    /// The cost is O(1) state and O(k) arithmetic. Nothing in `datagram` is trusted; one that is rejected
    /// changes nothing but its count. A port whose job was removed is an unknown source.
    pub fn handle_datagram(&mut self, from: Option<Port>, datagram: &[u8]) -> Egress<'_> {
        let entry = from.and_then(|port| self.ports.get_mut(port.index()));
        let Some(PortEntry { member: Some(member), counters }) = entry else {
            self.unknown_source += 1;
            return Egress::Reject(Reject::UnknownSource);
        };
        let egress = match check(datagram, &member.session) {
            Ok(packet) => self.pool.take(member, &packet),
            Err(reject) => Egress::Reject(reject),
        };
        counters.count(&egress);
        egress
    }

    /// What became of the packets of one port: of one rank of one job in this lane (A-8). None if no job has
    /// this port.
    #[must_use]
    pub fn counters(&self, port: Port) -> Option<&Counters> {
        self.ports.get(port.index()).filter(|entry| entry.member.is_some()).map(|entry| &entry.counters)
    }

    /// Datagrams from sources that are no port, since this aggregator was made.
    #[must_use]
    pub const fn unknown_source(&self) -> u64 {
        self.unknown_source
    }

    /// Slots in the pool, used or not.
    #[must_use]
    pub const fn slots(&self) -> usize {
        self.pool.slots()
    }

    /// Elements of the largest chunk that a session may have.
    #[must_use]
    pub const fn largest_chunk(&self) -> ChunkSize {
        self.pool.largest_chunk()
    }
}

/// The checks of A-1 that need a session but no slot.
fn check<'d>(datagram: &'d [u8], session: &Session) -> Result<Packet<'d>, Reject> {
    let packet = Packet::parse(datagram).map_err(Reject::Malformed)?;
    let (header, layout) = (packet.header(), session.layout);
    if header.job != session.job {
        return Err(Reject::ForeignJob);
    }
    if header.slot != layout.slot(header.seq) {
        return Err(Reject::Slot);
    }
    if header.version != layout.version(header.seq) {
        return Err(Reject::Version);
    }
    match header.size {
        PayloadSize::Elements(chunk) if chunk != layout.chunk() => return Err(Reject::Size),
        PayloadSize::Elements(_) | PayloadSize::ExponentOnly => {}
    }
    if header.digest < 1 {
        return Err(Reject::Digest);
    }
    Ok(packet)
}

/// Without the pool, which may be as large as the machine's memory.
#[cfg(feature = "defmt")]
impl defmt::Format for Aggregator<'_> {
    fn format(&self, f: defmt::Formatter<'_>) {
        let Self { pool, jobs, unknown_source, .. } = self;
        let slots = pool.slots();
        defmt::write!(
            f,
            "Aggregator {{ slots: {}, jobs: {}, unknown_source: {}, .. }}",
            slots,
            jobs,
            unknown_source
        );
    }
}

#[cfg(test)]
mod tests;
