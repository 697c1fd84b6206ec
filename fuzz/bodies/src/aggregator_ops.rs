//! Any datagrams from anybody, against a naive model.

use arbitrary::{Result, Unstructured};
use switchml_proto::aggregator::{Aggregator, InstallError, PhaseStatus, Port, Reject, Session};
use switchml_proto::wire::Packet;
use switchml_proto::{ChunkSize, Rank, Seq};

use switchml_sim::oracle::{Answer, Contribution, Lane, Verdict};

use crate::lane::{datagram, deliver, join, session, with_aggregator};

/// Slots of the pool; two jobs of the largest window fit beside each other.
const SLOTS: u16 = 17;
/// Datagrams kept for repetition.
const KEPT: usize = 64;

/// Two jobs in one pool; the input says who sends what, in which order, and when a job ends and begins again.
///
/// Each answer, octet by octet, and each count must be that of a model which remembers every contribution and knows
/// neither slots nor bitmaps; each job is answered as if it were alone.
///
/// # Panics
/// If that does not hold.
pub fn aggregator_ops(data: &[u8]) {
    with_aggregator(SLOTS.into(), ChunkSize::from_elements(64).unwrap(), |aggregator| {
        // The input is at its end where it says no more.
        let _ = play(&mut Unstructured::new(data), aggregator);
    });
}

fn play(input: &mut Unstructured<'_>, aggregator: &mut Aggregator<'_>) -> Result<()> {
    let mut jobs = [Job::begin(input, aggregator, 1)?, Job::begin(input, aggregator, 2)?];
    let mut kept: Vec<(usize, usize, Vec<u8>)> = Vec::new();
    let mut strangers = 0;
    while !input.is_empty() {
        let which = usize::from(input.arbitrary::<bool>()?);
        let rank = usize::from(input.arbitrary::<u8>()?) % jobs[which].ports.len();
        let pick = |input: &mut Unstructured<'_>| {
            let (job, rank, octets) = kept.get(input.choose_index(kept.len()).ok()?)?;
            Some((*job, *rank, octets.clone()))
        };
        match input.int_in_range(0..=15_u8)? {
            0..=8 => {
                let octets = jobs[which].packet(input, rank)?;
                jobs[which].send(aggregator, rank, &octets);
                kept.push((which, rank, octets));
                if kept.len() > KEPT {
                    kept.remove(0);
                }
            }
            9..=10 => {
                let Some((which, rank, octets)) = pick(input) else { continue };
                let rank = rank % jobs[which].ports.len();
                jobs[which].send(aggregator, rank, &octets);
            }
            // Somebody else sends it, perhaps a member of the other job.
            11 => {
                let Some((.., octets)) = pick(input) else { continue };
                jobs[which].send(aggregator, rank, &octets);
            }
            12 => {
                let Some((which, rank, mut octets)) = pick(input) else { continue };
                let rank = rank % jobs[which].ports.len();
                let place = input.choose_index(octets.len().min(16))?;
                octets[place] ^= input.arbitrary::<u8>()?;
                jobs[which].send(aggregator, rank, &octets);
            }
            13 => {
                let len = usize::from(input.arbitrary::<u8>()?).min(input.len());
                jobs[which].send(aggregator, rank, input.bytes(len)?);
            }
            14 => {
                let Some((.., octets)) = pick(input) else { continue };
                let _ = aggregator.handle_datagram(None, &octets);
                strangers += 1;
                assert_eq!(aggregator.unknown_source(), strangers);
            }
            _ => {
                let job = &jobs[which];
                job.check_counters(aggregator);
                aggregator.remove(job.session.job);
                for &port in &job.ports {
                    assert_eq!(aggregator.counters(port), None);
                    let _ = aggregator.handle_datagram(Some(port), &[]);
                    strangers += 1;
                }
                jobs[which] = Job::begin(input, aggregator, job.session.job.0)?;
            }
        }
    }
    jobs.iter().for_each(|job| job.check_counters(aggregator));
    Ok(())
}

/// One job, and what the model expects of it.
struct Job {
    session: Session,
    ports: Vec<Port>,
    oracle: Lane,
    /// The highest seq that began a phase, counted from 2^32 so that none is negative.
    highest: u64,
    /// For each rank, how often each outcome is expected, by its name in the counters.
    tallies: Vec<Vec<(&'static str, u64)>>,
}

impl Job {
    fn begin(input: &mut Unstructured<'_>, aggregator: &mut Aggregator<'_>, number: u8) -> Result<Self> {
        let n = *input.choose(&[1, 2, 3, 4, 5, 64])?;
        let window = 1 << input.int_in_range(0..=3)?;
        let k = *input.choose(&[32, 64])?;
        let turns: u32 = input.arbitrary::<u16>()?.into();
        // Half of them wrap soon.
        let turns = if turns.is_multiple_of(2) { turns } else { (turns % 8).wrapping_neg() };
        let initial = turns.wrapping_mul(2 * window as u32);
        let base = if number == 1 { 0 } else { 8 };
        let session = session(number, n, base, window, k, initial);
        let ports = join(aggregator, &session).expect("there is room");
        let again = aggregator.install(&session);
        assert_eq!(again, Err(InstallError::JobInstalled));
        assert_eq!(aggregator.bind(session.job, Rank::ZERO), Err(InstallError::RankBound));
        let highest = (1 << 32) + u64::from(initial);
        let oracle = Lane::new(n, window as u64, highest);
        let names = ["consumed", "multicast", "retransmitted", "ignored"].into_iter().chain(Reject::NAMES);
        let tally: Vec<_> = names.filter(|&name| name != "unknown_source").map(|name| (name, 0)).collect();
        Ok(Self { session, ports, oracle, highest, tallies: vec![tally; n] })
    }

    /// A well-formed packet near the seqs that are under way.
    fn packet(&self, input: &mut Unstructured<'_>, rank: usize) -> Result<Vec<u8>> {
        let window = i64::from(self.session.layout.window().get());
        let ahead = i64::from(input.arbitrary::<u8>()?);
        // What a rank sends for a seq is one of a few things, so that ranks often agree, and sometimes do not.
        let variant = input.arbitrary::<u8>()?;
        // Half of them begin a new phase in their slot.
        let ahead =
            if variant & 0x20 == 0 { ahead % window + 1 } else { ahead % (4 * window + 1) - 3 * window + 1 };
        let seq = self.highest.wrapping_add_signed(ahead);
        let digest = if variant & 7 == 7 { 2 } else { 1 };
        let k = self.session.layout.chunk().elements();
        let count = if variant & 0x18 == 0x18 { 0 } else { k };
        let mix = |i: usize| (seq * 64 + rank as u64 + i as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 17;
        let elements: Vec<_> = (0..count).map(|i| mix(i) as i32).collect();
        Ok(datagram(&self.session, Seq(seq as u32), (mix(0) >> 40) as i8, digest, &elements))
    }

    /// Hands a datagram in, and compares.
    fn send(&mut self, aggregator: &mut Aggregator<'_>, rank: usize, octets: &[u8]) {
        let (name, expected) = self.expect(rank, octets);
        let tally = self.tallies[rank].iter_mut().find(|(outcome, _)| *outcome == name);
        tally.expect("every outcome is counted").1 += 1;
        let before: Vec<_> = aggregator.dump(self.session.job).collect();
        assert_eq!(deliver(aggregator, &self.ports, rank, octets), expected);
        let after: Vec<_> = aggregator.dump(self.session.job).collect();
        if let Verdict::Reject | Verdict::Ignore | Verdict::Unicast = expected.verdict {
            assert_eq!(before, after, "it changes nothing");
        }
        if let Ok(packet) = Packet::parse(octets)
            && expected.verdict != Verdict::Reject
        {
            match (aggregator.phase(self.session.job, packet.header().seq), expected.verdict) {
                (PhaseStatus::Complete, Verdict::Unicast | Verdict::Multicast) => {}
                (PhaseStatus::Open { seen }, Verdict::Consume | Verdict::Ignore) => {
                    assert!(seen.iter().any(|seen| seen.index() == rank));
                    let waits = aggregator.missing(self.session.job);
                    assert!(!waits.is_empty(), "an open phase waits for somebody");
                }
                other => panic!("{other:?}"),
            }
        }
    }

    /// What must come of a datagram, read octet by octet as section 2 says, and the name that it is counted under.
    fn expect(&mut self, rank: usize, octets: &[u8]) -> (&'static str, Answer) {
        let reject = |name| (name, Answer { verdict: Verdict::Reject, reply: None });
        let Some((header, elements)) = octets.split_first_chunk::<10>() else { return reject("malformed") };
        let &[kind, job, s0, s1, s2, s3, slot_high, slot_low, exponent, digest] = header;
        let size = kind & 7;
        let count = if size == 7 { 0 } else { 32 << size };
        if kind & 0xf8 != 0x10 || slot_high & 0x40 != 0 || elements.len() != 4 * count {
            return reject("malformed");
        }
        if job != self.session.job.0 {
            return reject("foreign_job");
        }
        let layout = self.session.layout;
        let seq = u32::from_be_bytes([s0, s1, s2, s3]);
        let window = u32::from(layout.window().get());
        let slot = u32::from(slot_high & 0x3f) << 8 | u32::from(slot_low);
        if slot != u32::from(layout.base()) + seq % window {
            return reject("slot");
        }
        if u32::from(slot_high >> 7) != seq / window % 2 {
            return reject("version");
        }
        if count != 0 && count != layout.chunk().elements() {
            return reject("size");
        }
        if !(1..=127).contains(&digest) {
            return reject("digest");
        }
        let elements = elements.chunks(4).map(|word| i32::from_be_bytes(word.try_into().unwrap())).collect();
        let contribution = Contribution { exponent: exponent as i8, digest: digest as i8, elements };
        // Of the seqs with these 32 bits the one next to those under way.
        let distance = seq.wrapping_sub(self.highest as u32) as i32;
        let seq = self.highest.wrapping_add_signed(distance.into());
        let answer = self.oracle.deliver(seq, rank, &contribution, header);
        if answer.verdict != Verdict::Reject {
            self.highest = self.highest.max(seq);
        }
        let name = match answer.verdict {
            Verdict::Consume => "consumed",
            Verdict::Multicast => "multicast",
            Verdict::Unicast => "retransmitted",
            Verdict::Ignore => "ignored",
            Verdict::Reject => "stale",
        };
        (name, answer)
    }

    fn check_counters(&self, aggregator: &Aggregator<'_>) {
        for (&port, tally) in self.ports.iter().zip(&self.tallies) {
            let counters = aggregator.counters(port).expect("the job is installed");
            assert_eq!(&counters.iter().collect::<Vec<_>>(), tally);
        }
    }
}
