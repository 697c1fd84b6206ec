//! A switch, and ranks that use it.

use core::net::{IpAddr, Ipv4Addr, SocketAddr};
use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use std::thread::{self, JoinHandle};
use std::time::Instant;

use switchml_host_std::{Builder, Communicator, Switch, SwitchConfig, SwitchHandle};
use switchml_proto::{ChunkSize, LaneCount};

/// A switch of this process, stopped when it is dropped.
pub(crate) struct TestSwitch {
    pub(crate) address: SocketAddr,
    handle: SwitchHandle,
    thread: Option<JoinHandle<()>>,
}

impl TestSwitch {
    pub(crate) fn start() -> Self {
        Self::with(|_| {})
    }

    /// A switch on free ports, with two lanes of 1,024 slots.
    pub(crate) fn with(configure: impl FnOnce(&mut SwitchConfig)) -> Self {
        let mut config = SwitchConfig::new(IpAddr::V4(Ipv4Addr::LOCALHOST));
        config.port_base = 0;
        config.lanes = LaneCount::new(2).unwrap();
        config.slots = 1024;
        config.largest_chunk = ChunkSize::from_elements(512).unwrap();
        configure(&mut config);
        let switch = Switch::bind(config).unwrap();
        let (address, handle) = (switch.local_addr(), switch.handle());
        let thread = Some(thread::spawn(move || switch.run().unwrap()));
        Self { address, handle, thread }
    }

    /// Rank `rank` of a job of `world_size`, with small chunks and short times; alone in its job if no other rank of the
    /// same test joins.
    pub(crate) fn rank(&self, job: &str, rank: usize, world_size: usize) -> Builder {
        builder(self.address, job, rank, world_size)
    }

    /// Runs `body` as each rank of a job of its own, and returns what they return.
    pub(crate) fn run<R: Send>(
        &self,
        world_size: usize,
        configure: impl Fn(Builder) -> Builder + Sync,
        body: impl Fn(Communicator) -> R + Sync,
    ) -> Vec<R> {
        static JOBS: AtomicU64 = AtomicU64::new(1);
        let run = JOBS.fetch_add(1, Ordering::Relaxed);
        let rank = |rank| {
            let builder = configure(self.rank("test", rank, world_size)).run_id(run);
            body(builder.connect().unwrap())
        };
        let rank = &rank;
        thread::scope(|scope| {
            let ranks: Vec<_> = (0..world_size).map(|r| scope.spawn(move || rank(r))).collect();
            ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
        })
    }

    /// Sessions that the switch has.
    pub(crate) fn sessions(&self) -> usize {
        self.handle.snapshot().unwrap().sessions.len()
    }

    pub(crate) fn stop(&mut self) {
        self.handle.stop();
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

impl Drop for TestSwitch {
    fn drop(&mut self) {
        if !thread::panicking() {
            self.stop();
        }
    }
}

/// Chunks of 32 elements and a window of 4, so that short tensors fill several windows.
pub(crate) fn builder(address: SocketAddr, job: &str, rank: usize, world_size: usize) -> Builder {
    Communicator::builder(address)
        .job(job)
        .rank(rank)
        .world_size(world_size)
        .chunk(CHUNK)
        .window(WINDOW)
        .join_timeout(Duration::from_secs(30))
        .stall_time(Duration::from_secs(30))
}

/// Waits for what another thread does; not for ever, since that may have failed.
pub(crate) fn eventually(what: impl Fn() -> bool) {
    let start = Instant::now();
    while !what() {
        assert!(start.elapsed() < Duration::from_secs(20), "it did not happen");
        thread::sleep(Duration::from_millis(1));
    }
}

pub(crate) const CHUNK: usize = 32;
pub(crate) const WINDOW: usize = 4;
