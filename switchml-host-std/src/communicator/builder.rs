//! What a rank tells of itself before it joins.

use core::fmt;
use core::net::SocketAddr;
use core::time::Duration;
use std::io;
use std::net::ToSocketAddrs;
use std::sync::{Arc, Mutex, mpsc};
use std::thread;

use mio::{Poll, Waker};
use switchml_proto::control::{MemberConfig, SessionParams};
use switchml_proto::wire::JobName;
use switchml_proto::worker::Config as WorkerConfig;
use switchml_proto::{ChunkSize, LaneCount, LaneId, Rank, RtoConfig, Window, WorldSize};

use super::Communicator;
use super::error::Error;
use super::join::join;
use super::lane::{self, Lane};
use super::session::{Inbox, LaneEnd, OnWaiting, Session};
use super::waiting::Waiting;
use crate::clock::Clock;
use crate::cpus::Cpus;
use crate::spin::SPIN;
use crate::transport::{Options, SocketCalls, Transport};

/// Configures a [`Communicator`]. `job`, `rank` and `world_size` must be given.
///
/// Job, run id, world size, lanes, chunk and window must be the same on all ranks; the aggregator refuses a rank that
/// differs, and says in what.
#[derive(Clone)]
#[must_use = "it does nothing before `connect`"]
pub struct Builder {
    address: String,
    job: Option<String>,
    run: u64,
    rank: Option<usize>,
    world_size: Option<usize>,
    lanes: usize,
    chunk: usize,
    window: usize,
    connect_timeout: Duration,
    join_timeout: Duration,
    stall_time: Duration,
    rto: RtoConfig,
    calls: SocketCalls,
    spin: Duration,
    cpus: Option<Cpus>,
    on_waiting: Option<OnWaiting>,
}

/// How long something is waited for before the callback tells of it, and how often it does then.
const PATIENCE: Duration = Duration::from_secs(1);

impl Builder {
    pub(super) fn new(address: &dyn fmt::Display) -> Self {
        Self {
            address: address.to_string(),
            job: None,
            run: 0,
            rank: None,
            world_size: None,
            lanes: 1,
            chunk: ChunkSize::DEFAULT.elements(),
            window: Window::DEFAULT.get().into(),
            connect_timeout: Duration::from_secs(5),
            join_timeout: Duration::from_secs(600),
            stall_time: WorkerConfig::STALL_TIME,
            rto: RtoConfig::DEFAULT,
            calls: SocketCalls::default(),
            spin: SPIN,
            cpus: None,
            on_waiting: None,
        }
    }

    /// Name of the job, 1 to 64 octets: the ranks that give the same name, and the same run id, reduce together.
    pub fn job(mut self, name: impl Into<String>) -> Self {
        self.job = Some(name.into());
        self
    }

    /// Tells runs of one job apart, as a job's id in a scheduler does; 0 by default.
    pub const fn run_id(mut self, run: u64) -> Self {
        self.run = run;
        self
    }

    /// This worker's number in the job, from 0.
    pub const fn rank(mut self, rank: usize) -> Self {
        self.rank = Some(rank);
        self
    }

    /// How many workers the job has, 1 to 64.
    pub const fn world_size(mut self, workers: usize) -> Self {
        self.world_size = Some(workers);
        self
    }

    /// Independent streams, each with a thread, a socket and slots of its own; 1 by default, at most 16, and at most those
    /// of the aggregator.
    pub const fn lanes(mut self, lanes: usize) -> Self {
        self.lanes = lanes;
        self
    }

    /// Elements of a packet: a power of two from 32 to 2,048, and 256 by default. More than 256 need jumbo frames.
    pub const fn chunk(mut self, elements: usize) -> Self {
        self.chunk = elements;
        self
    }

    /// Slots of a lane, that is packets under way: a power of two up to 16,384, and 128 by default.
    pub const fn window(mut self, slots: usize) -> Self {
        self.window = slots;
        self
    }

    /// How long the aggregator may be silent at the start; 5 s by default.
    pub const fn connect_timeout(mut self, time: Duration) -> Self {
        self.connect_timeout = time;
        self
    }

    /// How long the other ranks may take to join; 10 min by default.
    pub const fn join_timeout(mut self, time: Duration) -> Self {
        self.join_timeout = time;
        self
    }

    /// How long a collective may make no progress before it fails (T-8); 10 min by default. A rank that is late for
    /// longer fails the job, also if it is only computing.
    pub const fn stall_time(mut self, time: Duration) -> Self {
        self.stall_time = time;
        self
    }

    /// Bounds of the time after which an unanswered packet is sent again (T-6).
    pub const fn retransmission_timeout(mut self, rto: RtoConfig) -> Self {
        self.rto = rto;
        self
    }

    /// Which system calls move datagrams, where the system has them; the fastest by default.
    pub const fn socket_calls(mut self, calls: SocketCalls) -> Self {
        self.calls = calls;
        self
    }

    /// How long at most a lane's thread goes on looking for results before it sleeps, while some are awaited: that
    /// spares waking it. It does so less often where it proves vain. 50 microseconds by default; zero turns it off.
    pub const fn spin(mut self, time: Duration) -> Self {
        self.spin = time;
        self
    }

    /// Places the thread of each lane on a processor; the system does by default. A call that blocks for a short tensor
    /// serves lane 0 on the caller's thread, which [`Cpus::place`] places.
    pub fn cpus(mut self, cpus: Cpus) -> Self {
        self.cpus = Some(cpus);
        self
    }

    /// Is called about each second with what has been waited for during a second or longer. It runs in a thread of the
    /// communicator, which serves the network otherwise: it should return soon, and must not wait for a
    /// collective. If it panics, the session fails.
    pub fn on_waiting(mut self, tell: impl Fn(&Waiting) + Send + Sync + 'static) -> Self {
        self.on_waiting = Some(Arc::new(tell));
        self
    }

    /// Joins the job, and blocks until all ranks have.
    ///
    /// # Errors
    /// [`Error`] says which parameter is wrong, why the aggregator refused, or who did not join.
    pub fn connect(self) -> Result<Communicator, Error> {
        let mut config = self.member_config()?;
        let addresses = self.resolve(config.lanes)?;
        // A name may have several addresses, of which the switch listens at one.
        config.connect_timeout =
            self.connect_timeout / u32::try_from(addresses.len()).unwrap_or(u32::MAX).max(1);
        let mut silent = None;
        for address in addresses {
            match self.connect_to(address, config) {
                Err(error @ Error::AggregatorSilent { .. }) => silent = Some(error),
                outcome => return outcome,
            }
        }
        Err(silent.unwrap_or_else(|| self.bad_address(io::ErrorKind::NotFound.into())))
    }

    fn member_config(&self) -> Result<MemberConfig, Error> {
        let given = |number: Option<usize>, what| number.ok_or(Error::NotGiven { what });
        let name = self.job.as_deref().ok_or(Error::NotGiven { what: "job" })?;
        let name = JobName::new(name).ok_or_else(|| Error::JobName { name: name.into() })?;
        let world_size = WorldSize::new(given(self.world_size, "world_size")?)?;
        let rank = Rank::new(given(self.rank, "rank")?)?;
        let rto = self.rto;
        let zero =
            [self.connect_timeout, self.join_timeout, self.stall_time, rto.floor].contains(&Duration::ZERO);
        if zero || rto.floor > rto.ceiling {
            return Err(Error::Timers);
        }
        let mut config = MemberConfig::new(name, world_size, rank).map_err(Error::RankOutsideWorld)?;
        config.run = self.run;
        config.lanes = LaneCount::new(self.lanes)?;
        config.chunk = ChunkSize::from_elements(self.chunk)?;
        config.window = Window::new(self.window)?;
        config.join_timeout = self.join_timeout;
        Ok(config)
    }

    /// The addresses that lane 0 of the aggregator may have.
    fn resolve(&self, lanes: LaneCount) -> Result<Vec<SocketAddr>, Error> {
        let addresses: Vec<_> =
            self.address.as_str().to_socket_addrs().map_err(|error| self.bad_address(error))?.collect();
        if addresses.iter().any(|address| lane_address(*address, lanes.lanes().len() - 1).is_none()) {
            let error = io::Error::new(io::ErrorKind::InvalidInput, "no port is left for the last lane");
            return Err(self.bad_address(error));
        }
        Ok(addresses)
    }

    fn bad_address(&self, source: io::Error) -> Error {
        Error::Address { address: self.address.clone(), source: source.into() }
    }

    fn connect_to(&self, address: SocketAddr, config: MemberConfig) -> Result<Communicator, Error> {
        let clock = Clock::start();
        let transports = self.open(address, &config)?;
        let (member, params) = join(config, clock, address, &transports, self.on_waiting.as_ref())?;

        let failed = |error| Error::io("starting a lane", error);
        let mut polls = Vec::new();
        let mut lanes = Vec::new();
        for transport in transports {
            let poll = Poll::new().map_err(failed)?;
            let waker = Waker::new(poll.registry(), lane::WAKER).map_err(failed)?;
            lanes.push(LaneEnd {
                transport,
                waker,
                inbox: Mutex::new(Inbox::default()),
                stats: Mutex::default(),
            });
            polls.push(poll);
        }
        let session = Arc::new(Session::new(
            clock,
            config.rank,
            config.world_size,
            address,
            (member, params),
            (config.lanes, lanes),
            PATIENCE.min(self.stall_time / 4),
            self.on_waiting.clone(),
        ));
        let spin = self.spin;
        let lanes = config.lanes.lanes().map(|id| {
            let worker = self.worker_config(&params, id, config.lanes);
            Arc::new(Mutex::new(Lane::new(session.clone(), id, worker, spin)))
        });
        let lanes: Vec<_> = lanes.collect();
        let first = lanes[0].clone(); // a `LaneCount` is at least 1
        let mut communicator = Communicator { session, lane: first, threads: Vec::new() };
        for ((id, poll), lane) in config.lanes.lanes().zip(polls).zip(lanes) {
            let session = communicator.session.clone();
            let thread = thread::Builder::new().name(format!("switchml lane {id}"));
            let cpus = self.cpus.clone();
            let (tell, placed) = mpsc::sync_channel(1);
            let run = move || {
                let place = cpus.map_or(Ok(()), |cpus| cpus.place(id.index()));
                let runs = place.is_ok();
                // The channel has room for it, so that it fails only where nobody wants to know.
                let _ = tell.send(place);
                if runs {
                    lane::run(&session, id, &lane, poll);
                }
            };
            match thread.spawn(run) {
                Ok(thread) => communicator.threads.push(thread),
                Err(error) => return Err(communicator.give_up(failed(error))),
            }
            if let Ok(Err(error)) = placed.recv() {
                return Err(communicator.give_up(Error::CannotPlace(Arc::new(error))));
            }
        }
        Ok(communicator)
    }

    /// A socket for each lane, if the chunk fits the path as far as is known here (W-11).
    fn open(&self, address: SocketAddr, config: &MemberConfig) -> Result<Vec<Transport>, Error> {
        let mut transports = Vec::new();
        for lane in config.lanes.lanes() {
            let peer = lane_address(address, lane.index())
                .ok_or_else(|| self.bad_address(io::ErrorKind::InvalidInput.into()))?;
            let options = Options { calls: self.calls, faults: None };
            let transport = Transport::connect(peer, &options)
                .map_err(|error| Error::io("opening a socket to the aggregator", error))?;
            let largest = transport.max_datagram().map(ChunkSize::largest_within);
            if let Some(largest) = largest.filter(|&largest| largest < Some(config.chunk)) {
                return Err(Error::PathTooSmall { chunk: config.chunk, largest });
            }
            transports.push(transport);
        }
        Ok(transports)
    }

    fn worker_config(&self, params: &SessionParams, lane: LaneId, lanes: LaneCount) -> WorkerConfig {
        let mut config = WorkerConfig::new(params.job, params.layout, params.initial_seq, lane, lanes);
        config.rto = self.rto;
        config.stall_time = self.stall_time;
        config
    }
}

/// The aggregator's address in a lane, above that of lane 0 (W-9).
fn lane_address(mut address: SocketAddr, lane: usize) -> Option<SocketAddr> {
    address.set_port(address.port().checked_add(u16::try_from(lane).ok()?)?);
    Some(address)
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("address", &self.address)
            .field("job", &self.job)
            .field("run", &self.run)
            .field("rank", &self.rank)
            .field("world_size", &self.world_size)
            .field("lanes", &self.lanes)
            .field("chunk", &self.chunk)
            .field("window", &self.window)
            .finish_non_exhaustive()
    }
}
