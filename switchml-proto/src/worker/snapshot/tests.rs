#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

extern crate std;

use core::hash::Hasher;
use std::vec::Vec;

use super::*;
use crate::ids::{ChunkSize, JobId, LaneCount, LaneId, LaneLayout, Seq, Window};
use crate::numeric::{ElementType, Reduction};
use crate::time::Instant;
use crate::wire::Header;
use crate::worker::{Collective, Config, Conversion, Event, Received, Transmit};

const W: usize = 4;
const NOW: Instant = Instant::ZERO;

/// Keeps what it is fed.
#[derive(Default)]
struct Octets(Vec<u8>);

impl Hasher for Octets {
    fn write(&mut self, octets: &[u8]) {
        self.0.extend(octets);
    }

    fn finish(&self) -> u64 {
        unreachable!("the octets are what is wanted")
    }
}

fn worker(slots: &mut [Slot]) -> Worker<'_> {
    let layout = LaneLayout::new(0, Window::new(W).unwrap(), ChunkSize::MIN).unwrap();
    Worker::new(Config::new(JobId(1), layout, Seq(0), LaneId::ZERO, LaneCount::new(1).unwrap()), slots)
        .unwrap()
}

fn block(chunks: u64) -> Collective {
    Collective::all_reduce(32 * chunks, ElementType::Float32, Reduction::Sum, Conversion::Block).unwrap()
}

fn state(worker: &Worker<'_>) -> Vec<u8> {
    let mut octets = Octets::default();
    worker.hash_state(&mut octets);
    octets.0
}

fn accept(worker: &mut Worker<'_>, transmit: &Transmit, exponent: i8) {
    let header = Header { exponent, ..*transmit.header() };
    let mut datagram = [0; 138];
    header.emit(&mut datagram);
    let received = worker.handle_datagram(NOW, &datagram[..header.datagram_len()]);
    assert!(matches!(received, Received::Chunk(_) | Received::Exponent { .. }), "{received:?}");
}

#[test]
fn a_resumed_worker_says_what_the_worker_would_have_said() {
    let mut slots = [Slot::EMPTY; W];
    let mut original = worker(&mut slots);
    original.start(block(6), NOW).unwrap();
    let sent: Vec<_> = core::iter::from_fn(|| original.poll_transmit(NOW)).collect();
    accept(&mut original, &sent[2], 7);
    let before = state(&original);
    let snapshot = original.into_snapshot();

    let mut copy = slots;
    let finish = |slots: &mut [Slot]| {
        let mut worker = snapshot.resume(slots);
        assert_eq!(state(&worker), before);
        accept(&mut worker, &sent[0], -3);
        let mut all = Vec::new();
        let mut unanswered: Vec<_> = [1, 3].map(|packet| sent[packet]).into();
        loop {
            unanswered.extend(core::iter::from_fn(|| worker.poll_transmit(NOW)));
            let Some(next) = unanswered.pop() else { break };
            accept(&mut worker, &next, 1);
            all.push(next);
        }
        assert!(matches!(worker.poll_event(), Some(Event::Finished(_))));
        assert_eq!(worker.stats().accepted, 10);
        all
    };
    assert_eq!(finish(&mut slots), finish(&mut copy));
}

#[test]
fn the_state_changes_with_what_decides_and_not_with_time() {
    let mut slots = [Slot::EMPTY; W];
    let mut one = worker(&mut slots);
    let idle = state(&one);
    one.start(block(1), NOW).unwrap();
    let ready = state(&one);
    let first = one.poll_transmit(NOW).unwrap();
    let sent = state(&one);
    let due = one.poll_timeout().unwrap();
    one.handle_timeout(due);
    let timed_out = state(&one);
    one.poll_transmit(due).unwrap();
    assert_eq!(state(&one), sent, "sent again, it is under way as before");
    accept(&mut one, &first, 5);
    let answered = state(&one);

    let mut others = [Slot::EMPTY; W];
    let mut other = worker(&mut others);
    other.start(block(1), due).unwrap();
    other.poll_transmit(due).unwrap();
    accept(&mut other, &first, 5);
    assert_eq!(state(&other), answered, "the same at another time");

    let mut others = [Slot::EMPTY; W];
    let mut other = worker(&mut others);
    other.start(block(1), due).unwrap();
    other.poll_transmit(due).unwrap();
    accept(&mut other, &first, 6);
    assert_ne!(state(&other), answered, "another exponent was agreed on");

    let states = [idle, ready, sent, timed_out, answered];
    for (index, state) in states.iter().enumerate() {
        assert!(!states[..index].contains(state), "state {index} is like an earlier one");
    }
}
