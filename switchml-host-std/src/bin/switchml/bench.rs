//! `switchml bench`: figures of this machine, against limits that were measured in the same run.

use anyhow::{Result, ensure};
use clap::{Args, Subcommand};
use multiversion::multiversion;
use serde::Serialize;
use switchml_proto::{ChunkSize, Window, WorldSize};

use crate::demo::input::Input;
use crate::options::{Loudness, SocketOptions};
use crate::output;
use crate::progress::{Progress, Unit};

mod aggregator;
mod aligned;
mod conversion;
mod figure;
mod idle;
mod loopback;
mod machines;
mod measure;
mod rank;

use self::conversion::Setting;
use self::figure::{Figure, Place, Verdict};

const CHUNK: ChunkSize = ChunkSize::DEFAULT;
const WINDOW: Window = Window::DEFAULT;

/// Octets of a tensor that fits in the cache beside what it is converted to.
const IN_CACHE: usize = 128 << 10;

/// Chunks of the window in that tensor: so few that it has many of them, as a long tensor has of the usual ones.
const WINDOW_IN_CACHE: usize = 8;

/// Windows of the workers that are polled with nothing to do.
const IDLE_WINDOWS: [usize; 3] = [1, 128, 4096];

/// Processes that all-reduce over loopback.
const CREWS: [usize; 3] = [2, 4, 8];

#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Options {
    #[command(subcommand)]
    part: Option<Part>,
    /// Print the figures as JSON
    #[arg(long)]
    json: bool,
    /// Small tensors and few repetitions: whether all of it works, not how fast it is, so no limit is enforced
    #[arg(long)]
    quick: bool,
    /// Tensor of each process in the loopback measurement, in units of 1,000,000 octets
    #[arg(long, value_name = "MB", default_value_t = 100, conflicts_with = "quick", value_parser = clap::value_parser!(u32).range(1..))]
    loopback_megabytes: u32,
    #[command(flatten)]
    sockets: SocketOptions,
}

#[derive(Debug, Subcommand)]
enum Part {
    /// Be one rank of a measurement across processes, namespaces or machines; every sum is checked
    Rank(rank::Options),
}

#[derive(Serialize)]
struct Report {
    quick: bool,
    chunk: usize,
    window: u16,
    figures: Vec<Figure>,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    match &options.part {
        Some(Part::Rank(options)) => rank::run(options),
        None => run_all(options),
    }
}

fn run_all(options: &Options) -> Result<()> {
    let (octets, repetitions, rounds) = if options.quick { (4 << 20, 3, 2) } else { (64 << 20, 15, 7) };
    let n4 = WorldSize::new(4)?;
    // Where figures are printed as they come, they are the progress.
    let loudness = Loudness { quiet: !options.json, verbose: false };
    let progress = Progress::new(IDLE_WINDOWS.len() as u64 + CREWS.len() as u64 + 8, Unit::Steps, loudness);
    let mut bench = Bench { json: options.json, progress, figures: Vec::new() };
    let in_memory =
        Setting { place: Place::InMemory, octets, window: usize::from(WINDOW.get()), repetitions };
    let in_cache = Setting {
        place: Place::InCache,
        octets: IN_CACHE,
        window: WINDOW_IN_CACHE,
        repetitions: 3 * repetitions,
    };
    for setting in [in_memory, in_cache] {
        for figure in conversion::run(setting, n4) {
            bench.add(figure)?;
        }
    }
    bench.add(machines::run(octets, repetitions, n4)?)?;
    // A quarter of that, since there are twice as many tensors.
    bench.add(machines::lanes(octets / 4, repetitions, n4)?)?;
    for figure in aggregator::run(3 * repetitions, n4)? {
        bench.add(figure)?;
    }
    for slots in IDLE_WINDOWS {
        bench.add(idle::run(Window::new(slots)?, 3 * repetitions)?)?;
    }

    let loopback = if options.quick { 4_000_000 } else { 1_000_000 * u64::from(options.loopback_megabytes) };
    let loopback = usize::try_from(loopback)?;
    for workers in CREWS {
        bench.add(loopback::run(workers, loopback, rounds, options.sockets)?)?;
    }

    bench.progress.finish();
    let figures = bench.figures;
    let over: Vec<_> = figures
        .iter()
        .filter(|figure| figure.verdict() == Verdict::Over)
        .map(|figure| figure.name.clone())
        .collect();
    if options.json {
        let (chunk, window) = (CHUNK.elements(), WINDOW.get());
        output::json(&Report { quick: options.quick, chunk, window, figures })?;
    }
    // With few repetitions a figure says little.
    ensure!(options.quick || over.is_empty(), "over the limit: {}; is the machine busy?", over.join(", "));
    Ok(())
}

struct Bench {
    json: bool,
    progress: Progress,
    figures: Vec<Figure>,
}

impl Bench {
    fn add(&mut self, figure: Figure) -> Result<()> {
        self.progress.advance(1);
        if !self.json {
            figure.print()?;
        }
        self.figures.push(figure);
        Ok(())
    }
}

/// Makes a tensor like the demo's.
fn fill(tensor: &mut [f32], rank: usize) {
    Input::new(1, 0, rank).fill(tensor);
}

fn mebibytes(octets: usize) -> String {
    if octets < 1 << 20 { format!("{} KiB", octets >> 10) } else { format!("{} MiB", octets >> 20) }
}

/// What the aggregator is measured against: plain additions, compiled for the same instructions as its own.
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512cd+avx512dq+avx512vl", "x86_64+avx2", "aarch64+neon",))]
fn add(addends: &[i32], sums: &mut [i32]) {
    for (sum, addend) in sums.iter_mut().zip(addends) {
        *sum = sum.wrapping_add(*addend);
    }
}
