//! Random packet traces, with the answers that the oracle gives: for aggregators of any kind.

use switchml_proto::wire::{Header, PayloadSize};
use switchml_proto::{ChunkSize, JobId, LaneLayout, Seq, Window, WorldSize};

use crate::dice::Dice;
use crate::oracle::{Answer, Contribution, Lane};
use crate::record::{Event, Trace, Verdict};

/// One turn of seq: traces count from there, so that seqs before the first one have a number.
const TURN: u64 = 1 << 32;

/// Makes a trace of `events` datagrams: members that keep the rule T-2, whose packets arrive again at any time; now and then
/// a member that breaks it, or is in another collective, and a datagram that breaks A-1.
///
/// `world_size` is 1 to 64; window, chunk, base, job and first seq are random, the last often shortly before the wrap.
#[must_use]
pub fn random(seed: u64, world_size: WorldSize, events: usize) -> Trace {
    let mut dice = Dice::new(seed);
    let window = dice.pick(&[1_u16, 2, 4, 8]);
    let chunk = dice.pick(&[ChunkSize::MIN, ChunkSize::MIN, ChunkSize::DEFAULT]);
    let base = dice.below(100) as u16;
    let valid = "a power of two, and far below the last slot";
    let layout = LaneLayout::new(base, Window::new(window.into()).expect(valid), chunk).expect(valid);
    let initial_seq = match dice.below(3) {
        0 => 0,
        1 => 0_u32.wrapping_sub(2 * u32::from(window) * dice.below(8) as u32),
        _ => (dice.bits() as u32) & !(2 * u32::from(window) - 1),
    };
    let mut session = Members::new(JobId(dice.bits() as u8), layout, world_size, initial_seq, dice);
    let events = (0..events).map(|_| session.event()).collect();
    Trace {
        name: format!("random, seed {seed}"),
        world_size: world_size.get().into(),
        window: window.into(),
        base,
        size: chunk.code(),
        job: session.job.0,
        initial_seq,
        events,
    }
}

/// The members of one lane, and all that they have sent.
struct Members {
    job: JobId,
    layout: LaneLayout,
    oracle: Lane,
    dice: Dice,
    /// By rank and slot: the first seq whose result was not multicast, as far as the rank has got.
    next: Vec<Vec<u64>>,
    /// By slot: the first seq whose result was not multicast.
    open: Vec<u64>,
    sent: Vec<(u64, usize)>,
}

impl Members {
    fn new(job: JobId, layout: LaneLayout, world_size: WorldSize, initial_seq: u32, dice: Dice) -> Self {
        let window = u64::from(layout.window().get());
        let first = TURN + u64::from(initial_seq);
        let open: Vec<_> = (first..first + window).collect();
        let n = usize::from(world_size.get());
        let oracle = Lane::new(n, window, first);
        Self { job, layout, oracle, dice, next: vec![open.clone(); n], open, sent: Vec::new() }
    }

    fn event(&mut self) -> Event {
        let (seq, rank) = self.packet();
        let datagram = self.datagram(seq, rank);
        if self.dice.chance(0.05) {
            let datagram = self.spoilt(&datagram);
            return Event {
                worker: rank,
                datagram: hex::encode(datagram),
                verdict: Verdict::Reject,
                reply: None,
            };
        }
        self.sent.push((seq, rank));
        let sent = self.contribution(seq, rank);
        let Answer { verdict, reply } = self.oracle.deliver(seq, rank, &sent, &datagram);
        if verdict == Verdict::Multicast {
            self.open[self.layout.index(Seq(seq as u32))] += u64::from(self.layout.window().get());
        }
        Event { worker: rank, datagram: hex::encode(datagram), verdict, reply: reply.map(hex::encode) }
    }

    /// Which packet arrives next.
    fn packet(&mut self) -> (u64, usize) {
        let (n, window) = (self.next.len() as u64, self.open.len() as u64);
        let rank = self.dice.below(n) as usize;
        match self.dice.below(20) {
            0..6 if !self.sent.is_empty() => self.sent[self.dice.below(self.sent.len() as u64) as usize],
            // A member that breaks T-2.
            6 => (self.next[rank][0] + self.dice.below(6 * window) - 3 * window, rank),
            _ => {
                let slot = self.dice.below(window) as usize;
                let seq = self.next[rank][slot];
                // T-2: what the rank sent last in this slot must be answered first.
                if seq > self.open[slot] {
                    return (self.open[slot], rank);
                }
                self.next[rank][slot] += window;
                (seq, rank)
            }
        }
    }

    /// What a rank says in a packet: always the same.
    fn contribution(&self, seq: u64, rank: usize) -> Contribution {
        let mut dice = Dice::new(seq << 6 | rank as u64);
        // Now and then a member is in another collective: another digest, or no elements.
        let digest = if dice.chance(0.05) { 2 } else { 1 };
        let elements =
            if seq.is_multiple_of(3) != dice.chance(0.05) { 0 } else { self.layout.chunk().elements() };
        let exponent = dice.bits() as i8;
        Contribution { exponent, digest, elements: (0..elements).map(|_| dice.bits() as i32).collect() }
    }

    fn datagram(&self, seq: u64, rank: usize) -> Vec<u8> {
        let Contribution { exponent, digest, elements } = self.contribution(seq, rank);
        let size = if elements.is_empty() {
            PayloadSize::ExponentOnly
        } else {
            PayloadSize::Elements(self.layout.chunk())
        };
        let header = Header::new(self.job, self.layout, Seq(seq as u32), size, exponent, digest);
        let mut datagram = vec![0; header.datagram_len()];
        for (octets, element) in header.emit(&mut datagram).as_chunks_mut().0.iter_mut().zip(elements) {
            *octets = element.to_be_bytes();
        }
        datagram
    }

    /// The datagram with one thing wrong that A-1 names.
    fn spoilt(&mut self, datagram: &[u8]) -> Vec<u8> {
        let mut spoilt = datagram.to_vec();
        match self.dice.below(9) {
            0 => spoilt[0] ^= 0x20,                            // kind
            1 => spoilt[0] ^= 0x08,                            // reserved
            2 => spoilt[0] ^= 0x01,                            // size, so that the length is wrong
            3 => spoilt[1] = spoilt[1].wrapping_add(1),        // job
            4 => spoilt[6] ^= 0x80,                            // version
            5 => spoilt[6] ^= 0x40,                            // reserved
            6 => spoilt[7] ^= 0x40,                            // slot
            7 => spoilt[9] = 0_u8.wrapping_sub(spoilt[9] & 1), // digest 0 or -1
            _ => spoilt.truncate(self.dice.below(datagram.len() as u64) as usize),
        }
        spoilt
    }
}
