//! Random traffic against the oracle.

use std::collections::HashSet;

use proptest::collection::vec;
use proptest::prelude::*;
use switchml_proto::aggregator::{Counters, Egress, Session};
use switchml_proto::{ChunkSize, Seq};

use switchml_sim::oracle::{Answer, Contribution, Lane, Verdict};

use crate::lane::{datagram, deliver, join, session, with_aggregator};

/// What happens next in a lane.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// A rank sends the packet that the rule T-2 lets it send next in some slot.
    Next { rank: usize, slot: u64 },
    /// The network delivers a packet again that was sent at any time before.
    Again { packet: usize },
    /// A member breaks T-2: it sends any packet near those that are in flight.
    Wild { rank: usize, ahead: u64 },
}

/// One contribution that differs by what was asked, and by who sends it; the same packet has always the same
/// octets.
fn contribution(seq: u64, rank: usize, k: usize) -> Contribution {
    let mix = |x: u64| (seq * 64 + rank as u64 + x * 0x1_0000).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 17;
    // Now and then a member is in another collective: another digest, or no elements.
    let digest = if mix(1).is_multiple_of(16) { 2 } else { 1 };
    let exponent_only = (seq % 2 == 1) != mix(2).is_multiple_of(16);
    let elements = if exponent_only { 0 } else { k as u64 };
    let elements = (0..elements).map(|i| mix(3 + i) as i32).collect();
    Contribution { exponent: mix(0) as i8, digest, elements }
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        12 => (0..64_usize, 0..8_u64).prop_map(|(rank, slot)| Step::Next { rank, slot }),
        6 => any::<usize>().prop_map(|packet| Step::Again { packet }),
        1 => (0..64_usize, 0..64_u64).prop_map(|(rank, ahead)| Step::Wild { rank, ahead }),
    ];
    vec(step, 0..600)
}

fn world_sizes() -> impl Strategy<Value = usize> {
    prop_oneof![8 => 1..=8_usize, 1 => Just(64)]
}

/// Starts shortly before the wrap of seq or anywhere else; a multiple of twice any window here.
fn initial_seqs() -> impl Strategy<Value = u32> {
    prop_oneof![
        Just(0),
        (1..8_u32).prop_map(|i| 0_u32.wrapping_sub(16 * i)),
        any::<u32>().prop_map(|seq| seq & !15),
    ]
}

/// Members of one session: which result each waits for in each slot, and all that was ever sent.
struct Members {
    session: Session,
    oracle: Lane,
    /// Next seq of each rank in each slot; it may be sent when the result W before it has come.
    next: Vec<Vec<u64>>,
    /// The result of these seqs was multicast. Every rank is taken to receive it at once.
    done: HashSet<u64>,
    sent: Vec<(u64, usize)>,
}

impl Members {
    fn new(session: Session) -> Self {
        let (n, window) = (session.world_size.get().into(), u64::from(session.layout.window().get()));
        // One turn of seq ahead, so that seqs before the first can be named.
        let initial = (1 << 32) + u64::from(session.initial_seq.0);
        let first = (initial..initial + window).collect::<Vec<_>>();
        Self {
            session,
            oracle: Lane::new(n, window, initial),
            next: vec![first; n],
            done: Default::default(),
            sent: Vec::new(),
        }
    }

    /// Which packet a step sends, if it sends one.
    fn packet(&mut self, step: Step) -> Option<(u64, usize)> {
        let (n, window) = (self.next.len(), self.next[0].len() as u64);
        match step {
            Step::Next { rank, slot } => {
                let (rank, slot) = (rank % n, (slot % window) as usize);
                let seq = self.next[rank][slot];
                let before = seq - window;
                if self.sent.iter().any(|&(sent, by)| sent == before && by == rank)
                    && !self.done.contains(&before)
                {
                    return Some((before, rank));
                }
                self.next[rank][slot] += window;
                Some((seq, rank))
            }
            Step::Again { packet } => {
                let packets = self.sent.len();
                (packets > 0).then(|| self.sent[packet % packets])
            }
            Step::Wild { rank, ahead } => {
                let near = self.next[rank % n][0] + ahead;
                Some((near - 4 * window, rank % n))
            }
        }
    }

    /// The datagram of a packet, and what must come of it.
    fn expect(&mut self, seq: u64, rank: usize) -> (Vec<u8>, Answer) {
        self.sent.push((seq, rank));
        let sent = contribution(seq, rank, self.session.layout.chunk().elements());
        let octets = datagram(&self.session, Seq(seq as u32), sent.exponent, sent.digest, &sent.elements);
        let expected = self.oracle.deliver(seq, rank, &sent, &octets[..10]);
        if expected.verdict == Verdict::Multicast {
            self.done.insert(seq);
        }
        (octets, expected)
    }
}

/// Counts outcomes as A-8 asks.
fn tally(counters: &mut [u64; 5], answer: &Answer) {
    counters[match answer.verdict {
        Verdict::Consume => 0,
        Verdict::Multicast => 1,
        Verdict::Unicast => 2,
        Verdict::Ignore => 3,
        Verdict::Reject => 4,
    }] += 1;
}

fn counted(counters: &Counters) -> [u64; 5] {
    let Counters { consumed, multicast, retransmitted, ignored, rejected, .. } = *counters;
    [consumed, multicast, retransmitted, ignored, rejected.iter().sum()]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// I-1: whatever is delayed, repeated and reordered, and even when a member breaks T-2, every answer is
    /// that of the oracle, and every outcome is counted.
    #[test]
    fn i1_every_answer_is_the_oracles(
        n in world_sizes(), window in 0..4_u32, base in 0..3_u16, initial_seq in initial_seqs(), steps in steps(),
    ) {
        let session = session(9, n, base, 1 << window, 32, initial_seq);
        let mut members = Members::new(session);
        with_aggregator(11, ChunkSize::from_elements(64).unwrap(), |aggregator| {
            let ports = join(aggregator, &session).unwrap();
            let mut tallies = vec![[0; 5]; n];
            for step in steps {
                let Some((seq, rank)) = members.packet(step) else { continue };
                let (octets, expected) = members.expect(seq, rank);
                let got = deliver(aggregator, &ports, rank, &octets);
                tally(&mut tallies[rank], &got);
                prop_assert_eq!(got, expected, "seq {} of rank {}", seq, rank);
            }
            for (port, tally) in ports.iter().zip(tallies) {
                prop_assert_eq!(counted(aggregator.counters(*port).unwrap()), tally);
            }
            Ok(())
        })?;
    }

    /// Two jobs side by side in one pool: each is answered as if it were alone.
    #[test]
    fn two_jobs_in_one_pool_do_not_touch_each_other(
        worlds in (world_sizes(), world_sizes()), windows in (0..4_u32, 0..4_u32),
        initial_seqs in (initial_seqs(), initial_seqs()), steps in vec((any::<bool>(), steps()), 1..8),
    ) {
        let first = session(1, worlds.0, 0, 1 << windows.0, 32, initial_seqs.0);
        let second = session(2, worlds.1, 1 << windows.0, 1 << windows.1, 64, initial_seqs.1);
        let mut jobs = [Members::new(first), Members::new(second)];
        with_aggregator(16, ChunkSize::from_elements(64).unwrap(), |aggregator| {
            let ports = [join(aggregator, &first).unwrap(), join(aggregator, &second).unwrap()];
            for (which, steps) in steps {
                for step in steps {
                    let members = &mut jobs[usize::from(which)];
                    let Some((seq, rank)) = members.packet(step) else { continue };
                    let (octets, expected) = members.expect(seq, rank);
                    prop_assert_eq!(deliver(aggregator, &ports[usize::from(which)], rank, &octets), expected);
                    // The other job's members cannot send it.
                    let other = &ports[usize::from(!which)];
                    let answer = deliver(aggregator, other, rank % other.len(), &octets);
                    prop_assert_eq!(answer.verdict, Verdict::Reject);
                }
            }
            Ok(())
        })?;
    }

    /// I-4: random octets, and damaged packets, from any port or none, never panic; and a datagram that is
    /// rejected changes nothing.
    #[test]
    fn i4_garbage_never_panics(
        datagrams in vec((any::<Option<u8>>(), vec(any::<u8>(), 0..300), any::<(u8, u8)>()), 0..200),
    ) {
        let session = session(3, 5, 0, 4, 32, 0);
        with_aggregator(4, ChunkSize::MIN, |aggregator| {
            let ports = join(aggregator, &session).unwrap();
            for (from, garbage, (place, damage)) in datagrams {
                let from = from.and_then(|from| ports.get(usize::from(from % 6))).copied();
                let mut damaged = datagram(&session, Seq(u32::from(place % 16)), 0, 1, &[7; 32]);
                damaged[usize::from(place) % 12] ^= damage;
                for octets in [&garbage, &damaged] {
                    let before = aggregator.dump(session.job).collect::<Vec<_>>();
                    if matches!(aggregator.handle_datagram(from, octets), Egress::Reject(_)) {
                        prop_assert_eq!(aggregator.dump(session.job).collect::<Vec<_>>(), before);
                    }
                }
            }
            Ok(())
        })?;
    }
}
