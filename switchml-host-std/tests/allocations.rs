//! What is allocated, by all threads of this process together: nothing for a packet, a little for a collective, and no
//! more for a switch's pool than its elements take. A test binary of its own, since it counts.
#![allow(unsafe_code, reason = "an allocator that counts is unsafe to write")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use core::alloc::{GlobalAlloc, Layout};
use core::sync::atomic::{AtomicUsize, Ordering};
use core::time::Duration;
use std::alloc::System;
use std::sync::{Mutex, PoisonError};
use std::thread;

use switchml_host_std::{Communicator, ReduceOp, Switch, SwitchConfig, SwitchHandle};
use switchml_proto::{ChunkSize, LaneCount};

/// The system's allocator, and how often and for how many octets it was asked.
struct Counting {
    calls: AtomicUsize,
    octets: AtomicUsize,
}

#[global_allocator]
static ALLOCATOR: Counting = Counting { calls: AtomicUsize::new(0), octets: AtomicUsize::new(0) };

impl Counting {
    fn count(&self, octets: usize) {
        self.calls.fetch_add(1, Ordering::Relaxed);
        self.octets.fetch_add(octets, Ordering::Relaxed);
    }

    fn counted(&self) -> (usize, usize) {
        (self.calls.load(Ordering::Relaxed), self.octets.load(Ordering::Relaxed))
    }
}

// SAFETY: each call is the system allocator's, with the arguments as they came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        self.count(layout.size());
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        self.count(layout.size());
        // SAFETY: as the caller promises.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, old: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        self.count(size);
        // SAFETY: as the caller promises.
        unsafe { System.realloc(old, layout, size) }
    }

    unsafe fn dealloc(&self, old: *mut u8, layout: Layout) {
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(old, layout) }
    }
}

/// Tests run one after the other: one must not count what another one allocates.
static ALONE: Mutex<()> = Mutex::new(());

/// What a collective allocates: what its lanes share, that is the loan of the tensor and the report, and each lane's share.
const CALL: usize = 2;
const LANE: usize = 1;

#[test]
fn i4_no_packet_allocates_and_a_collective_no_more_than_it_must() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    const RANKS: usize = 2;
    const COLLECTIVES: usize = 50;
    let (switch, handle, address) = start(config(1024, 256, 2));
    for lanes in [1, 2] {
        let ranks = (0..RANKS).map(|rank| {
            let builder = Communicator::builder(address).job("counted").run_id(lanes as u64).lanes(lanes);
            let builder = builder.rank(rank).world_size(RANKS).window(64);
            thread::spawn(move || builder.connect().unwrap())
        });
        let ranks: Vec<_> = ranks.collect();
        let mut ranks: Vec<_> = ranks.into_iter().map(|rank| rank.join().unwrap()).collect();
        // Several windows of packets; one packet; none.
        let mut counts = [200_000, 100, 0].map(|elements| {
            let mut tensors = vec![vec![1.0_f32; elements]; RANKS];
            let mut reduce = |times| {
                thread::scope(|scope| {
                    for (comm, tensor) in ranks.iter_mut().zip(&mut tensors) {
                        scope.spawn(move || {
                            for _ in 0..times {
                                comm.all_reduce(tensor, ReduceOp::Mean).unwrap();
                            }
                        });
                    }
                });
            };
            // Queues, tables and the threads' own memory get their room.
            reduce(COLLECTIVES);
            // The scope's threads allocate too, as many times each time.
            let mut count = |times| {
                let before = ALLOCATOR.counted().0;
                reduce(times);
                ALLOCATOR.counted().0 - before
            };
            // A queue may still grow once.
            let counts = [(); 3].map(|()| count(2 * COLLECTIVES).saturating_sub(count(COLLECTIVES)));
            counts.into_iter().min().unwrap()
        });
        let most = COLLECTIVES * RANKS * (CALL + lanes * LANE);
        counts.sort_unstable();
        assert!(counts[0] > 0, "it counts");
        assert!(
            counts[2] <= most,
            "{counts:?} allocations with {lanes} lanes, and at most {most} are needed"
        );
        drop(ranks);
    }
    handle.stop();
    switch.join().unwrap();
}

#[test]
fn a_switch_allocates_what_its_elements_take_and_little_more() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let allocated = |slots, chunk, lanes| {
        let before = ALLOCATOR.counted().1;
        let (switch, handle, _) = start(config(slots, chunk, lanes));
        // Over its whole life: the lanes' threads start one after the other.
        handle.stop();
        switch.join().unwrap();
        ALLOCATOR.counted().1 - before
    };
    for (chunk, lanes) in [(256, 1), (256, 4), (2048, 1)] {
        let (few, many) = (1024, 9 * 1024);
        let pool = allocated(many, chunk, lanes) - allocated(few, chunk, lanes);
        // Two versions of each slot, of four octets for each element.
        let elements = 2 * 4 * chunk * usize::from(many - few) * lanes;
        assert!(pool >= elements, "{pool} octets of memory for {elements} of elements: it counts");
        assert!(pool <= elements + elements / 20, "{pool} octets of memory for {elements} of elements");
    }
    // As it is by default, all that it has, with its buffers and tables.
    let all = allocated(4096, 2048, 1);
    let elements = 2 * 4 * 2048 * 4096;
    assert!(all <= elements + elements / 20, "{all} octets of memory for {elements} of elements");
}

fn config(slots: u16, chunk: usize, lanes: usize) -> SwitchConfig {
    let mut config = SwitchConfig::new([127, 0, 0, 1].into());
    config.port_base = 0;
    config.slots = slots;
    config.lanes = LaneCount::new(lanes).unwrap();
    config.largest_chunk = ChunkSize::from_elements(chunk).unwrap();
    config
}

/// A switch that serves.
fn start(config: SwitchConfig) -> (thread::JoinHandle<()>, SwitchHandle, core::net::SocketAddr) {
    let switch = Switch::bind(config).unwrap();
    let (handle, address) = (switch.handle(), switch.local_addr());
    let thread = thread::spawn(move || switch.run().unwrap());
    // Whoever answers has made all that it needs.
    while handle.snapshot().is_none() {
        thread::sleep(Duration::from_millis(1));
    }
    (thread, handle, address)
}
