//! The software switch: an aggregator for workers on the network.
//!
//! Each lane is a UDP port, a pool of slots, and a thread; lanes share nothing but the table of jobs, which one
//! coordinator keeps. A lane's thread takes datagrams in batches, aggregates them, and sends results in runs. Whichever
//! thread receives a control message hands it to the coordinator; the coordinator's timers run in lane 0's thread. Who
//! needs the coordinator and a lane at once locks the coordinator first.

mod handle;
mod http;
mod lane;
mod metrics;
mod outbox;
mod plane;
mod ports;
mod running;
mod serve;
mod snapshot;

use core::fmt;
use core::net::{IpAddr, SocketAddr};
use core::time::Duration;
use std::io;
use std::sync::Arc;
use std::thread;

use mio::{Poll, Token, Waker};
use switchml_proto::aggregator::{self, Aggregator, Storage, StorageError};
use switchml_proto::control::{
    Coordinator, CoordinatorConfig, CoordinatorEvent, CoordinatorStorage, InvalidConfig, JobEntry,
    MemberEntry, PortEntry,
};
use switchml_proto::wire::DEFAULT_PORT_BASE;
use switchml_proto::{ChunkSize, LaneCount, WorldSize};

use crate::clock::Clock;
use crate::cpus::{CannotPlace, Cpus};
use crate::kernels;
use crate::spin::SPIN;
use crate::transport::{Faults, SocketCalls, Transport};

pub use handle::SwitchHandle;
pub use snapshot::{LaneSnapshot, PortSnapshot, SessionSnapshot, Snapshot};

use handle::Shared;
use lane::Lane;
use running::Running;

/// Woken by someone else.
const WAKER: Token = Token(0);
/// Datagrams, or connections, have come.
const SOCKET: Token = Token(1);

const ONE_LANE: LaneCount = match LaneCount::new(1) {
    Ok(lanes) => lanes,
    Err(_) => unreachable!(),
};

/// What a switch offers, and where.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SwitchConfig {
    /// Address to listen on, of IPv4 or IPv6; datagrams of the other family do not arrive.
    pub listen: IpAddr,
    /// UDP port of lane 0; lane l listens l ports above (W-9). 0: the switch finds ports that are free.
    pub port_base: u16,
    /// Lanes, each a port, a pool and a thread.
    pub lanes: LaneCount,
    /// Slots in each lane, 1 to 16,384, for all jobs together.
    pub slots: u16,
    /// The largest chunk that a job may have. Each slot takes eight octets for each of its elements.
    pub largest_chunk: ChunkSize,
    /// How many jobs there may be at a time, 1 to 256.
    pub max_jobs: u16,
    /// How long a member may be silent before its job is aborted, 20 ms to a day (C-3).
    pub lease: Duration,
    /// How long a job may take from its first join to its last.
    pub join_timeout: Duration,
    /// TCP address where `GET /metrics` is answered with counters in Prometheus' text format.
    pub metrics: Option<SocketAddr>,
    /// Which system calls move datagrams, where the system has them.
    pub calls: SocketCalls,
    /// How long at most a lane's thread goes on looking for datagrams before it sleeps, once it has found none: that
    /// spares waking it. It does so less often where it proves vain. 50 microseconds by default; zero turns it off.
    pub spin: Duration,
    /// Which processors the lanes' threads run on; the system chooses by default.
    pub cpus: Option<Cpus>,
    /// Faults put into every worker's traffic on purpose.
    pub faults: Option<Faults>,
}

impl SwitchConfig {
    /// One lane of 4,096 slots for 16 jobs, on the usual port, with the usual times (section 6).
    #[must_use]
    pub fn new(listen: IpAddr) -> Self {
        Self {
            listen,
            port_base: DEFAULT_PORT_BASE,
            lanes: ONE_LANE,
            slots: 4096,
            largest_chunk: ChunkSize::MAX,
            max_jobs: 16,
            lease: Duration::from_secs(5),
            join_timeout: Duration::from_secs(600),
            metrics: None,
            calls: SocketCalls::default(),
            spin: SPIN,
            cpus: None,
            faults: None,
        }
    }
}

/// A switch whose ports are open, and that does not run yet.
pub struct Switch {
    config: SwitchConfig,
    /// One for each lane, as the next two; at least one.
    transports: Vec<Transport>,
    polls: Vec<Poll>,
    wakers: Vec<Arc<Waker>>,
    metrics: Option<http::Server>,
    shared: Arc<Shared>,
    on_event: Box<dyn Fn(CoordinatorEvent) + Send + Sync>,
}

impl Switch {
    /// Opens the ports.
    ///
    /// # Errors
    /// [`SwitchError`] says which address cannot be had or what in the configuration cannot work.
    pub fn bind(config: SwitchConfig) -> Result<Self, SwitchError> {
        if !(1..=256).contains(&config.max_jobs) {
            return Err(SwitchError::MaxJobs { max_jobs: config.max_jobs });
        }
        let metrics = config.metrics.map(|address| {
            http::Server::bind(address).map_err(|source| SwitchError::Listen { address, source })
        });
        let metrics = metrics.transpose()?;
        let transports = ports::bind(&config)?;
        let (mut polls, mut wakers) = (Vec::new(), Vec::new());
        for transport in &transports {
            let poll = Poll::new().map_err(SwitchError::System)?;
            transport.register(&poll, SOCKET).map_err(SwitchError::System)?;
            wakers.push(Arc::new(Waker::new(poll.registry(), WAKER).map_err(SwitchError::System)?));
            polls.push(poll);
        }
        let shared = Arc::new(Shared::new(wakers[0].clone()));
        Ok(Self { config, transports, polls, wakers, metrics, shared, on_event: Box::new(|_| {}) })
    }

    /// Calls `on_event` for each job that is made, becomes ready, or ends. It is called from a lane's thread, which
    /// serves nobody until it returns.
    pub fn on_event(&mut self, on_event: impl Fn(CoordinatorEvent) + Send + Sync + 'static) {
        self.on_event = Box::new(on_event);
    }

    /// Where lane 0 listens: the address that workers connect to.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.transports[0].local_addr()
    }

    /// Where `GET /metrics` is answered, if it is.
    #[must_use]
    pub fn metrics_addr(&self) -> Option<SocketAddr> {
        self.metrics.as_ref().map(http::Server::local_addr)
    }

    /// Which system calls move datagrams: those of the configuration, or what the system has instead.
    #[must_use]
    pub fn socket_calls(&self) -> SocketCalls {
        self.transports.iter().map(Transport::calls).min().unwrap_or_default()
    }

    /// Octets of the smallest receive buffer of the lanes' sockets, as the system counts them; it may give less than
    /// the 16 mebioctets that the switch asks for. `None` if it does not tell.
    #[must_use]
    pub fn receive_buffer(&self) -> Option<usize> {
        self.transports
            .iter()
            .filter_map(|transport| transport.buffers().ok())
            .map(|(receive, _)| receive)
            .min()
    }

    /// Something to stop the switch with, and to look into it, from other threads.
    #[must_use]
    pub fn handle(&self) -> SwitchHandle {
        SwitchHandle::new(self.shared.clone())
    }

    /// Serves until [`SwitchHandle::stop`] is called; then tells all members before it returns.
    ///
    /// # Errors
    /// [`SwitchError`] if the configuration cannot work, or a socket or thread cannot be used.
    ///
    /// # Panics
    /// If one of its threads panics, so that nobody waits for a switch of which a part is dead.
    pub fn run(mut self) -> Result<(), SwitchError> {
        let config = &self.config;
        let mut seed = [0; 32];
        getrandom::fill(&mut seed).map_err(|error| SwitchError::System(error.into()))?;
        let mut control = CoordinatorConfig::new(config.slots, config.lanes, seed);
        control.largest_chunk = config.largest_chunk;
        control.lease = config.lease;
        control.join_timeout = config.join_timeout;

        let members = usize::from(config.max_jobs) * WorldSize::MAX;
        let mut jobs = vec![JobEntry::EMPTY; config.max_jobs.into()];
        let mut ranks = vec![MemberEntry::EMPTY; members];
        let mut ports = vec![PortEntry::EMPTY; members * self.transports.len()];
        let storage = CoordinatorStorage { jobs: &mut jobs, members: &mut ranks, ports: &mut ports };
        let clock = Clock::start();
        let coordinator = Coordinator::new(control, storage, clock.now()).map_err(SwitchError::Config)?;

        let mut memory: Vec<_> = self.transports.iter().map(|_| Memory::new(config)).collect();
        let mut lanes = Vec::new();
        for (((id, transport), waker), memory) in
            config.lanes.lanes().zip(&self.transports).zip(&self.wakers).zip(&mut memory)
        {
            let aggregator = Aggregator::new(memory.lend(), config.largest_chunk, kernels::AGGREGATOR)
                .map_err(SwitchError::Storage)?;
            lanes.push(Lane::new(id, transport, waker.clone(), aggregator));
        }
        let metrics_waker = self.metrics.as_ref().map(http::Server::waker);
        let running = Running::new(&lanes, coordinator, clock, &self.shared, &*self.on_event, metrics_waker);
        thread::scope(|scope| {
            let mut threads = Vec::new();
            for (lane, poll) in lanes.iter().zip(core::mem::take(&mut self.polls)) {
                let running = &running;
                let thread = thread::Builder::new().name(format!("switchml-lane-{}", lane.id));
                let serve = move || serve::serve(running, lane, poll, config);
                threads.push(running.or_finish(thread.spawn_scoped(scope, serve))?);
            }
            if let Some(server) = self.metrics.take() {
                let running = &running;
                let thread = thread::Builder::new().name("switchml-metrics".into());
                threads.push(running.or_finish(thread.spawn_scoped(scope, move || server.serve(running)))?);
            }
            for thread in threads {
                match thread.join() {
                    Ok(outcome) => outcome?,
                    Err(panic) => std::panic::resume_unwind(panic),
                }
            }
            Ok(())
        })
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        self.shared.end();
    }
}

impl fmt::Debug for Switch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Switch").field("config", &self.config).finish_non_exhaustive()
    }
}

/// The memory of a lane's aggregator.
struct Memory {
    phases: Vec<aggregator::Phase>,
    elements: Vec<i32>,
    jobs: Vec<aggregator::Job>,
    ports: Vec<aggregator::PortEntry>,
}

impl Memory {
    fn new(config: &SwitchConfig) -> Self {
        let slots = config.slots.into();
        let jobs = usize::from(config.max_jobs);
        Self {
            phases: vec![aggregator::Phase::EMPTY; Storage::phases(slots)],
            // Zeroed memory takes no room until it is used.
            elements: vec![0; Storage::elements(slots, config.largest_chunk)],
            jobs: vec![aggregator::Job::EMPTY; jobs],
            ports: vec![aggregator::PortEntry::EMPTY; jobs * WorldSize::MAX],
        }
    }

    fn lend(&mut self) -> Storage<'_> {
        let Self { phases, elements, jobs, ports } = self;
        Storage { phases, elements, jobs, ports }
    }
}

/// Why a switch cannot serve.
#[derive(Debug)]
#[non_exhaustive]
pub enum SwitchError {
    /// An address cannot be listened on.
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the system says.
        source: io::Error,
    },
    /// No run of free ports was found that is long enough for the lanes.
    NoFreePorts {
        /// Ports looked for, one behind the other.
        lanes: LaneCount,
    },
    /// The lanes' ports would go beyond 65,535.
    PortsOutOfRange {
        /// Port of lane 0.
        port_base: u16,
        /// Number of lanes.
        lanes: LaneCount,
    },
    /// The number of jobs is not from 1 to 256.
    MaxJobs {
        /// Jobs asked for.
        max_jobs: u16,
    },
    /// The coordinator cannot work like that.
    Config(InvalidConfig),
    /// The slots have not got the memory that they need.
    Storage(StorageError),
    /// A socket that worked does not any more.
    Socket {
        /// Its address.
        address: SocketAddr,
        /// What the system says.
        source: io::Error,
    },
    /// The thread of a lane cannot be placed on the processor that it was to have.
    CannotPlace(CannotPlace),
    /// The system refuses threads, random octets, or the like.
    System(io::Error),
}

impl fmt::Display for SwitchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Listen { address, source } if source.kind() == io::ErrorKind::AddrInUse => write!(
                f,
                "cannot listen on {address}: the port is taken; stop the program that has it, or choose another port"
            ),
            Self::Listen { address, source } if source.kind() == io::ErrorKind::AddrNotAvailable => write!(
                f,
                "cannot listen on {address}: this machine has no such address; choose one of its own"
            ),
            Self::Listen { address, source } => write!(f, "cannot listen on {address}: {source}"),
            Self::NoFreePorts { lanes } => {
                write!(f, "found no {} free UDP ports in a row; name a port base", lanes.get())
            }
            Self::PortsOutOfRange { port_base, lanes } => write!(
                f,
                "{} lanes from port {port_base} on go beyond port 65535; choose a lower port base",
                lanes.get()
            ),
            Self::MaxJobs { max_jobs } => write!(f, "{max_jobs} jobs at a time are not from 1 to 256"),
            Self::Config(error) => error.fmt(f),
            Self::Storage(error) => error.fmt(f),
            Self::Socket { address, source } => write!(f, "the socket on {address} failed: {source}"),
            Self::CannotPlace(error) => error.fmt(f),
            Self::System(source) => write!(f, "the system refuses: {source}"),
        }
    }
}

/// The message has the cause in it: as a `source` too, it would stand twice where a chain of errors is printed.
impl core::error::Error for SwitchError {}
