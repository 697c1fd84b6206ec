//! The shortest way to a wrong sum.

use core::fmt;

use switchml_proto::wire::{Header, Packet, PayloadSize};
use switchml_proto::{ChunkSize, LaneLayout, Seq};

use crate::harness::{JOB, Plane};
use crate::record::Verdict;

/// A datagram arrives at the aggregator, and its answer, if there is one, at once where it belongs.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Step {
    /// Whose packet it is.
    pub rank: usize,
    /// Its number.
    pub seq: u32,
    /// Its first element.
    pub element: i32,
    /// Whether it arrived before.
    pub delivery: Delivery,
    /// What the aggregator does.
    pub verdict: Verdict,
    /// The result, if there is one.
    pub sum: Option<Sum>,
}

/// Whether a packet has arrived before.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[allow(clippy::exhaustive_enums, reason = "it has or it has not")]
pub enum Delivery {
    /// It has not.
    First,
    /// It has: this is a late copy.
    Again,
}

/// A result that a worker accepts.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[allow(clippy::exhaustive_structs, reason = "there is no more to say")]
pub struct Sum {
    /// The first element of the result.
    pub got: i32,
    /// What all ranks sent for this seq, added.
    pub expected: i32,
}

impl Sum {
    fn is_wrong(self) -> bool {
        self.got != self.expected
    }
}

const WORKERS: usize = 2;

/// Rank r sends (r + 1) * 10^seq: the digits of a sum tell whose packets are in it.
fn element(rank: usize, seq: u32) -> i32 {
    (rank as i32 + 1) * 10i32.pow(seq)
}

/// Two workers, and a lane of one slot. Every order in which packets arrive, and arrive again, is tried, the short ones
/// first, up to `longest` arrivals: the first in which a worker accepts a wrong sum. No packet is lost.
///
/// `with_plane` lends a plane at its start.
pub fn minimal(with_plane: impl Fn(&mut dyn FnMut(&mut dyn Plane)), longest: usize) -> Option<Vec<Step>> {
    (1..=longest).find_map(|length| deepen(&with_plane, &mut Vec::new(), length))
}

fn deepen(
    with_plane: &impl Fn(&mut dyn FnMut(&mut dyn Plane)),
    choices: &mut Vec<usize>,
    length: usize,
) -> Option<Vec<Step>> {
    let mut attempt = Attempt::new();
    with_plane(&mut |plane| attempt = Attempt::of(plane, choices));
    if attempt.steps.last().and_then(|step| step.sum).is_some_and(Sum::is_wrong) {
        return Some(attempt.steps);
    }
    if choices.len() == length {
        return None;
    }
    (0..attempt.sent.len()).find_map(|choice| {
        choices.push(choice);
        let found = deepen(with_plane, choices, length);
        choices.pop();
        found
    })
}

/// What has happened after some arrivals.
struct Attempt {
    /// Every packet that was sent, and whether it has arrived.
    sent: Vec<(usize, u32, Delivery)>,
    /// The seq whose result each worker waits for.
    waits_for: [u32; WORKERS],
    steps: Vec<Step>,
}

impl Attempt {
    fn new() -> Self {
        let sent = (0..WORKERS).map(|rank| (rank, 0, Delivery::First)).collect();
        Self { sent, waits_for: [0; WORKERS], steps: Vec::new() }
    }

    fn of(plane: &mut dyn Plane, choices: &[usize]) -> Self {
        let mut attempt = Self::new();
        choices.iter().for_each(|&choice| attempt.arrive(plane, choice));
        attempt
    }

    fn arrive(&mut self, plane: &mut dyn Plane, choice: usize) {
        let (rank, seq, delivery) = self.sent[choice];
        self.sent[choice].2 = Delivery::Again;
        let mut reply = Vec::new();
        let verdict = plane.take(Some(rank), &datagram(rank, seq), &mut reply);
        let to = match verdict {
            Verdict::Multicast => 0..WORKERS,
            Verdict::Unicast => rank..rank + 1,
            _ => 0..0,
        };
        let mut sum = None;
        if let Ok(result) = Packet::parse(&reply) {
            let seq = result.header().seq.0;
            let got = result.elements().first_chunk().map_or(0, |&octets| i32::from_be_bytes(octets));
            for to in to {
                // T-4 and T-2.
                if self.waits_for[to] == seq {
                    sum = Some(Sum { got, expected: (0..WORKERS).map(|rank| element(rank, seq)).sum() });
                    self.waits_for[to] += 1;
                    self.sent.push((to, seq + 1, Delivery::First));
                }
            }
        }
        self.steps.push(Step { rank, seq, element: element(rank, seq), delivery, verdict, sum });
    }
}

fn datagram(rank: usize, seq: u32) -> Vec<u8> {
    let window = switchml_proto::Window::new(1).expect("1 is a power of two");
    let layout = LaneLayout::new(0, window, ChunkSize::MIN).expect("there is a slot 0");
    let header = Header::new(JOB, layout, Seq(seq), PayloadSize::Elements(ChunkSize::MIN), -128, 1);
    let mut datagram = vec![0; header.datagram_len()];
    header.emit(&mut datagram)[..4].copy_from_slice(&element(rank, seq).to_be_bytes());
    datagram
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rank, seq, element, delivery, verdict, sum } = self;
        let again = if *delivery == Delivery::Again { ", again" } else { "" };
        write!(f, "packet {seq} of rank {rank} ({element}){again}: {verdict:?}")?;
        match sum {
            Some(sum) if sum.is_wrong() => {
                write!(f, ": {} accepted where {} was sent", sum.got, sum.expected)
            }
            Some(sum) => write!(f, ": {}", sum.got),
            None => Ok(()),
        }
    }
}
