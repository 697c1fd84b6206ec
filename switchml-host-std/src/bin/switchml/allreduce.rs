//! `switchml allreduce`: one worker, for an array on disk.

use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result, anyhow, ensure};
use clap::{Args, ValueEnum};
use serde::Serialize;
use switchml_host_std::{Canceller, Communicator, ReduceOp, ReduceOptions, Reducible, ScalingFactor};
use switchml_proto::{Rank, WorldSize};

use crate::npy::{Array, Elements, Output};
use crate::options::{self, LaneOptions, Loudness, PlacementOptions, SocketOptions};
use crate::output;
use crate::progress::{Progress, Unit};

/// Elements of one collective; longer arrays take several, one after the other. A multiple of every chunk size, so
/// that the chunks are those of the whole array.
const PIECE: usize = 1 << 22;

#[derive(Args, Debug)]
pub(crate) struct Options {
    /// The switch: host:port of its lane 0
    #[arg(long, value_name = "ADDR")]
    switch: String,
    /// Name of the job; workers that give the same name and run reduce together
    #[arg(long, value_name = "NAME")]
    job: String,
    /// Number of the run, to tell one from the next
    #[arg(long, value_name = "N", default_value_t = 0)]
    run: u64,
    /// This worker's number, from 0
    #[arg(long, value_name = "R", value_parser = options::rank)]
    rank: Rank,
    /// How many workers there are, 1 to 64
    #[arg(long, value_name = "N", value_parser = options::world_size)]
    world: WorldSize,
    /// The array: .npy, of float32, float16 or int32, in any shape, the same on all ranks
    #[arg(long, value_name = "A.npy")]
    input: PathBuf,
    /// Where the result goes; it may be the input
    #[arg(long, value_name = "B.npy")]
    output: PathBuf,
    /// What is computed
    #[arg(long, value_enum, default_value = "sum")]
    op: Operation,
    /// Multiply all elements with this number, instead of agreeing on an exponent for each chunk
    #[arg(long, value_name = "F", value_parser = options::factor)]
    factor: Option<ScalingFactor>,
    /// How long the other workers may take to join, and how long nothing may move then
    #[arg(long, value_name = "SECONDS", default_value = "600", value_parser = options::seconds)]
    timeout: Duration,
    #[command(flatten)]
    lanes: LaneOptions,
    #[command(flatten)]
    sockets: SocketOptions,
    #[command(flatten)]
    placement: PlacementOptions,
    /// Print figures as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    loudness: Loudness,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
enum Operation {
    Sum,
    Mean,
}

/// What is told of a reduction that was done.
#[derive(Serialize)]
struct Report {
    rank: u8,
    world_size: u8,
    element_type: &'static str,
    shape: String,
    octets: u64,
    seconds: f64,
    gigabits_per_second: f64,
    packets_sent: u64,
    packets_sent_again: u64,
    clamped_chunks: u64,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    let mut array = Array::read(&options.input)?;
    refuse_unknown_reductions(options, &array)?;
    let file = Output::create(&options.output)?;
    let interrupt = Interrupt::watch(&file)?;

    let progress = Progress::new(array.octets(), Unit::Octets, options.loudness);
    let outcome = work(options, &mut array, &progress, &interrupt);
    progress.finish();
    interrupt.wait_if_it_came();
    let (communicator, report) = outcome?;
    file.write(&array)?;
    if options.loudness.verbose {
        output::note(output::sockets(communicator.socket_calls(), communicator.receive_buffer()));
    }
    if let Err(error) = communicator.leave() {
        output::note(format_args!("switchml allreduce: the result is complete; leaving the job: {error}"));
    }
    tell(options, &report)
}

/// Joins the job, and reduces the array in place.
fn work(
    options: &Options,
    array: &mut Array,
    progress: &Progress,
    interrupt: &Interrupt,
) -> Result<(Communicator, Report)> {
    let mut communicator = connect(options, progress)?;
    interrupt.cancels(communicator.canceller());
    let start = Instant::now();
    let reduction = match options.op {
        Operation::Sum => ReduceOp::Sum,
        Operation::Mean => ReduceOp::Mean,
    };
    let mut how = ReduceOptions::from(reduction).tag(array.tag());
    if let Some(factor) = options.factor {
        how = how.scaling_factor(factor);
    }
    let clamped_chunks = match &mut array.elements {
        Elements::Float32(elements) => reduce(&mut communicator, elements, how, progress),
        Elements::Float16(elements) => reduce(&mut communicator, elements, how, progress),
        Elements::Int32(elements) => reduce(&mut communicator, elements, how, progress),
    }?;
    let seconds = start.elapsed().as_secs_f64();
    let mut report = Report {
        rank: options.rank.get(),
        world_size: options.world.get(),
        element_type: array.type_name(),
        shape: array.shape_name(),
        octets: array.octets(),
        seconds,
        gigabits_per_second: 8e-9 * array.octets() as f64 / seconds,
        packets_sent: 0,
        packets_sent_again: 0,
        clamped_chunks,
    };
    for lane in communicator.lane_stats() {
        report.packets_sent += lane.sent;
        report.packets_sent_again += lane.timeouts + lane.overtaken;
    }
    Ok((communicator, report))
}

/// Before anybody waits for this worker.
fn refuse_unknown_reductions(options: &Options, array: &Array) -> Result<()> {
    if let Elements::Int32(_) = array.elements {
        let input = options.input.display();
        ensure!(
            options.op == Operation::Sum,
            "input {input}: there is no mean of int32; convert it to float32, or use --op sum"
        );
        ensure!(options.factor.is_none(), "input {input}: int32 is sent as it is; leave --factor out");
    }
    Ok(())
}

/// What happens if the program is interrupted: the other ranks are told, and what was made of the output is gone.
struct Interrupt(Arc<Interrupted>);

#[derive(Default)]
struct Interrupted {
    canceller: OnceLock<Canceller>,
    came: AtomicBool,
}

impl Interrupt {
    /// How long the program goes on, so that the others are told again if a datagram is lost.
    const FAREWELL: Duration = Duration::from_millis(100);

    fn watch(file: &Output) -> Result<Self> {
        let part = file.part().to_path_buf();
        let interrupted = Arc::new(Interrupted::default());
        let interrupt = Self(interrupted.clone());
        ctrlc::set_handler(move || {
            interrupted.came.store(true, Ordering::SeqCst);
            if let Some(canceller) = interrupted.canceller.get() {
                canceller.cancel();
                thread::sleep(Self::FAREWELL);
            }
            let _ = fs::remove_file(&part); // at most it stays
            std::process::exit(130); // 128 and SIGINT, as shells say it
        })
        .context("no handler for interrupts can be set")?;
        Ok(interrupt)
    }

    fn cancels(&self, canceller: Canceller) {
        // There is one communicator.
        let _ = self.0.canceller.set(canceller);
    }

    /// The handler ends the program; what the interrupt has made fail needs no words.
    fn wait_if_it_came(&self) {
        while self.0.came.load(Ordering::SeqCst) {
            thread::park();
        }
    }
}

fn connect(options: &Options, progress: &Progress) -> Result<Communicator> {
    let LaneOptions { chunk, window, lanes } = options.lanes;
    let waiting = progress.clone();
    let builder = Communicator::builder(&options.switch)
        .job(&options.job)
        .run_id(options.run)
        .rank(options.rank.index())
        .world_size(options.world.get().into())
        .chunk(chunk.elements())
        .window(window.get().into())
        .lanes(lanes.get().into())
        .socket_calls(options.sockets.socket_calls)
        .spin(options.sockets.spin)
        .join_timeout(options.timeout)
        .stall_time(options.timeout)
        .on_waiting(move |what| waiting.waiting(what));
    let communicator = options
        .placement
        .place(builder)?
        .connect()
        .map_err(|error| anyhow!("job {}, rank {}: {error}", options.job, options.rank))?;
    if options.loudness.verbose {
        output::note(format_args!(
            "rank {} of {} has joined job {}",
            options.rank, options.world, options.job
        ));
    }
    Ok(communicator)
}

/// Reduces all elements in place, and says how many chunks were clamped.
fn reduce<T: Reducible>(
    communicator: &mut Communicator,
    elements: &mut [T],
    how: ReduceOptions,
    progress: &Progress,
) -> Result<u64> {
    let rank = communicator.rank();
    let mut all_reduce = |piece: &mut [T]| {
        let reduced = communicator
            .all_reduce(piece, how)
            .map_err(|error| anyhow!("rank {rank}: {error}; nothing was written"))?;
        progress.advance(size_of_val(piece) as u64);
        Ok(reduced.clamped_chunks)
    };
    if elements.is_empty() {
        return all_reduce(elements); // the ranks meet, also for nothing
    }
    elements.chunks_mut(PIECE).map(all_reduce).sum()
}

fn tell(options: &Options, report: &Report) -> Result<()> {
    if report.clamped_chunks > 0 {
        output::note(format_args!(
            "switchml allreduce: warning: {} chunks held an element too large for --factor, or a NaN; their sums are wrong",
            report.clamped_chunks
        ));
    }
    if options.json {
        return output::json(report);
    }
    if options.loudness.quiet {
        return Ok(());
    }
    output::line(format_args!(
        "rank {} of {}: {} {} reduced in {:.3} s, {}; {} packets, {} of them again; written to {}",
        report.rank,
        report.world_size,
        report.shape,
        report.element_type,
        report.seconds,
        output::rate(report.gigabits_per_second),
        report.packets_sent + report.packets_sent_again,
        report.packets_sent_again,
        options.output.display()
    ))
}
