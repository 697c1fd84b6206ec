//! One worker, and any calls and datagrams.

mod model;

use core::ops::Range;
use core::time::Duration;

use arbitrary::{Result, Unstructured};
use switchml_proto::numeric::{ElementType, Reduction, ScalingFactor};
use switchml_proto::wire::{AbortReason, DIGESTS_DIFFER, Header, PayloadSize};
use switchml_proto::worker::{
    ChunkSource, Collective, CollectiveId, Config, Conversion, Event, Failure, Fidelity, Received, Slot,
    StartError, Transmit, Worker,
};
use switchml_proto::{ChunkSize, Instant, JobId, LaneCount, LaneId, LaneLayout, Rank, Seq, Window};

use model::{Expected, Model};

const JOB: JobId = JobId(77);
/// Packets and results kept to be answered, or to come again.
const KEPT: usize = 256;
/// Virtual time ends here: 300 years.
const END: Instant = Instant::from_nanos(300 * 365 * 86_400 * 1_000_000_000);

/// One worker. The input says what its application asks for, what its network brings and when; results are those of
/// packets that it sent, true or spoiled, or any octets.
///
/// A model in terms of the rules alone says which packets may be sent (T-1, T-2, T-3), and what each datagram is (T-4).
/// Timers must be honest: what waits to be sent or to be answered shows in `poll_timeout`, an early call changes
/// nothing, and a call in time has an effect.
///
/// # Panics
/// If that does not hold.
pub fn worker_ops(data: &[u8]) {
    let mut input = Unstructured::new(data);
    // The input is at its end where it says no more.
    let _ = play(&mut input);
}

fn play(input: &mut Unstructured<'_>) -> Result<()> {
    let window = 1 << input.int_in_range(0..=4)?;
    let layout =
        LaneLayout::new(input.arbitrary::<u8>()?.into(), Window::new(window).unwrap(), ChunkSize::MIN)
            .unwrap();
    let lanes = LaneCount::new(input.int_in_range(1..=3)?).unwrap();
    let lane = LaneId::new(input.choose_index(lanes.get().into())?).unwrap();
    let turns: u32 = input.int_in_range(0..=7)?;
    // Even counts wrap soon.
    let turns = if turns.is_multiple_of(2) { turns.wrapping_neg() } else { turns };
    let initial_seq = Seq(turns.wrapping_mul(2 * window as u32));
    let mut config = Config::new(JOB, layout, initial_seq, lane, lanes);
    config.stall_time = Duration::from_millis(1 + u64::from(input.arbitrary::<u16>()?));
    let mut slots = vec![Slot::EMPTY; window];
    let worker = Worker::new(config, &mut slots).expect("the configuration is right");
    let model = Model::new(layout, initial_seq, lane, lanes);
    let mut run = Run { now: Instant::ZERO, config, worker, model, sent: Vec::new(), results: Vec::new() };
    while !input.is_empty() {
        run.step(input)?;
        run.check_timeout();
    }
    Ok(())
}

struct Run<'s> {
    now: Instant,
    config: Config,
    worker: Worker<'s>,
    model: Model,
    sent: Vec<Header>,
    results: Vec<Vec<u8>>,
}

impl Run<'_> {
    fn step(&mut self, input: &mut Unstructured<'_>) -> Result<()> {
        match input.int_in_range(0..=15_u8)? {
            0..=1 => self.start(collective(input)?),
            2..=3 => {
                let most = input.arbitrary::<u8>()?;
                self.transmit(most.into());
            }
            4..=7 => {
                let Some(result) = self.result(input)? else { return Ok(()) };
                self.receive(&result);
                self.results.push(result);
                if self.results.len() > KEPT {
                    self.results.remove(0);
                }
            }
            8 => {
                let Ok(which) = input.choose_index(self.results.len()) else { return Ok(()) };
                let mut again = self.results[which].clone();
                let place = input.choose_index(again.len().min(16))?;
                again[place] ^= input.arbitrary::<u8>()?;
                self.receive(&again);
            }
            9 => {
                let len = usize::from(input.arbitrary::<u8>()?).min(input.len());
                self.receive(input.bytes(len)?);
            }
            10..=11 => self.wait(Duration::from_micros(input.arbitrary::<u16>()?.into())),
            12 => self.wait(Duration::from_secs(input.arbitrary()?)),
            13 => self.time_out(),
            14 => self.time_out_early(),
            _ => {
                if input.arbitrary::<u8>()? == 0 {
                    let reason = AbortReason::Evicted;
                    self.worker.fail(Failure::Aborted { reason, culprit: None });
                }
            }
        }
        self.tell();
        Ok(())
    }

    fn start(&mut self, collective: Collective) {
        let can_start = self.worker.can_start();
        match self.worker.start(collective, self.now) {
            Ok(id) => {
                assert!(can_start);
                self.model.start(id, &collective);
                assert!(self.worker.poll_timeout().is_some(), "its first packet waits to be sent");
            }
            Err(StartError::Busy | StartError::Failed(_)) => assert!(!can_start),
            Err(StartError::TooLong) => assert!(self.model.is_too_long(&collective)),
            Err(StartError::SequenceSpace { retry_at }) => assert!(retry_at > self.now),
            Err(other) => panic!("{other:?}"),
        }
    }

    /// Sends some of the packets that are due.
    fn transmit(&mut self, most: usize) {
        for _ in 0..most {
            let due = self.worker.poll_timeout();
            let Some(transmit) = self.worker.poll_transmit(self.now) else { return };
            assert!(due.is_some_and(|due| due <= self.now), "what waits to be sent shows in poll_timeout");
            self.model.sent(&transmit);
            let header = emit(&transmit);
            self.sent.push(header);
            if self.sent.len() > KEPT {
                self.sent.remove(0);
            }
        }
    }

    /// What an aggregator might answer to a packet that was sent, or to the next one of its slot.
    fn result(&mut self, input: &mut Unstructured<'_>) -> Result<Option<Vec<u8>>> {
        let Ok(which) = input.choose_index(self.sent.len()) else { return Ok(None) };
        let mut header = self.sent[which];
        header.exponent = input.arbitrary()?;
        match input.arbitrary::<u8>()? {
            0 => header.digest = DIGESTS_DIFFER,
            1 => header.digest = input.arbitrary()?,
            2 => header.size = PayloadSize::ExponentOnly,
            3 => header.size = PayloadSize::Elements(ChunkSize::MIN),
            4 => header.job = JobId(input.arbitrary()?),
            5 => {
                let seq = header.seq.plus(self.config.layout.window().get().into());
                header = Header::new(
                    header.job,
                    self.config.layout,
                    seq,
                    header.size,
                    header.exponent,
                    header.digest,
                );
            }
            _ => {}
        }
        let mut datagram = vec![0; header.datagram_len()];
        header.emit(&mut datagram).fill(which as u8);
        Ok(Some(datagram))
    }

    fn receive(&mut self, datagram: &[u8]) {
        let failed = self.worker.failure().is_some();
        let expected = self.model.expect(datagram, failed);
        let received = self.worker.handle_datagram(self.now, datagram);
        match (&expected, &received) {
            (Expected::Chunk { collective, range, exponent }, Received::Chunk(chunk)) => {
                assert_eq!((collective, range, exponent), (&chunk.collective, &chunk.range, &chunk.exponent));
                assert_eq!(chunk.elements, &datagram[10..]);
            }
            (Expected::Exponent(expected), Received::Exponent { collective }) => {
                assert_eq!(expected, collective)
            }
            (Expected::Past, Received::Duplicate | Received::Stale) => {}
            (Expected::Foreign, Received::Foreign) => {}
            (Expected::Malformed, Received::Malformed(_)) => {}
            (Expected::Differ, Received::Differ) => {
                assert!(matches!(self.worker.failure(), Some(Failure::CollectivesDiffer { .. })));
            }
            _ => panic!("{received:?} instead of {expected:?}"),
        }
        let accepted = matches!(expected, Expected::Chunk { .. } | Expected::Exponent(_));
        if accepted {
            self.model.accept(datagram);
        }
    }

    fn wait(&mut self, time: Duration) {
        self.now = (self.now + time).min(END);
        self.worker.handle_timeout(self.now);
    }

    /// Sleeps exactly until the worker's timeout.
    fn time_out(&mut self) {
        let Some(timeout) = self.worker.poll_timeout().filter(|&timeout| timeout < END) else { return };
        self.now = self.now.max(timeout);
        self.worker.handle_timeout(self.now);
        self.transmit(usize::MAX);
        self.tell();
        let next = self.worker.poll_timeout();
        assert!(next.is_none_or(|next| next > self.now), "a driver that sleeps exactly would spin");
    }

    fn time_out_early(&mut self) {
        let before = (*self.worker.stats(), self.worker.poll_timeout(), self.worker.failure());
        if before.1.is_none_or(|timeout| timeout > self.now) {
            self.worker.handle_timeout(self.now);
            assert_eq!(before, (*self.worker.stats(), self.worker.poll_timeout(), self.worker.failure()));
            assert_eq!(self.worker.poll_transmit(self.now), None);
        }
    }

    /// Takes the news; each collective ends once, and those that are complete end well.
    fn tell(&mut self) {
        while let Some(event) = self.worker.poll_event() {
            match event {
                Event::Finished(id) => self.model.finish(id),
                Event::Failed { collective, failure } => {
                    assert_eq!(self.worker.failure(), Some(failure));
                    self.model.fail(collective);
                }
                other => panic!("{other:?}"),
            }
        }
        self.model.check_told(self.worker.failure().is_some());
    }

    fn check_timeout(&mut self) {
        if self.worker.failure().is_some() {
            assert_eq!(self.worker.poll_timeout(), None);
            assert_eq!(self.worker.poll_transmit(self.now), None);
            return;
        }
        assert_eq!(
            self.worker.poll_timeout().is_some(),
            self.model.has_work(),
            "work that is left shows (I-3)"
        );
        let waiting = self.worker.waiting().map(|waiting| waiting.seq);
        assert_eq!(waiting, self.model.oldest_under_way());
    }
}

/// Most are short; some have any length that a caller may think of.
fn collective(input: &mut Unstructured<'_>) -> Result<Collective> {
    let len = match input.arbitrary::<u8>()? {
        255 => input.arbitrary()?,
        254 => input.arbitrary::<u32>()?.into(),
        chunks => u64::from(chunks) * 16,
    };
    let float = *input.choose(&[ElementType::Float32, ElementType::Float16, ElementType::BFloat16])?;
    let fixed = Conversion::Fixed(ScalingFactor::new(2.0).unwrap());
    let collective = match input.int_in_range(0..=6)? {
        0 => Collective::all_reduce(len, ElementType::Int32, Reduction::Sum, Conversion::Integer),
        1 => Collective::all_reduce(len, float, Reduction::Mean, fixed),
        2 => Ok(Collective::broadcast(len, float, Rank::ZERO)),
        3 => Ok(Collective::barrier()),
        _ => Collective::all_reduce(len, float, Reduction::Sum, Conversion::Block),
    };
    Ok(collective.expect("the protocol has it").with_tag(input.arbitrary::<u8>()?.into()))
}

/// Writes the packet, and looks at what the worker asked of the tensor.
fn emit(transmit: &Transmit) -> Header {
    let mut tensor = Asked::default();
    let mut datagram = vec![0xaa; transmit.len()];
    assert_eq!(transmit.emit(&mut tensor, &mut datagram), datagram.len());
    assert_eq!(tensor.encoded, transmit.encode().map(|chunk| (chunk.range(), chunk.exponent())));
    assert_eq!(tensor.scanned, transmit.scan());
    let exponent = datagram[8] as i8;
    let marked = transmit.encode().is_some_and(|chunk| chunk.range().start.is_multiple_of(64));
    assert!(exponent == if transmit.scan().is_some() { 5 } else { -128 } || (exponent == 1 && marked));
    *transmit.header()
}

#[derive(Default)]
struct Asked {
    encoded: Option<(Range<u64>, i8)>,
    scanned: Option<Range<u64>>,
}

impl ChunkSource for Asked {
    fn exponent(&mut self, _: CollectiveId, range: Range<u64>) -> i8 {
        self.scanned = Some(range);
        5
    }

    fn encode(&mut self, _: CollectiveId, range: Range<u64>, exponent: i8, wire: &mut [u8]) -> Fidelity {
        wire.fill(0);
        let clamped = range.start.is_multiple_of(64);
        self.encoded = Some((range, exponent));
        if clamped { Fidelity::Clamped } else { Fidelity::Faithful }
    }
}
