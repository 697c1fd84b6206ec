//! `switchml demo`: the whole system on this machine, and a check of every element.

use anyhow::{Result, bail, ensure};
use clap::Args;
use serde::Serialize;

use crate::crew::{Crew, Message, Packets, Plan, Round};
use crate::options::{self, FaultOptions, LaneOptions, Loudness, SocketOptions};
use crate::output;
use crate::progress::{Progress, Unit};

mod exact;
pub(crate) mod input;
pub(crate) mod worker;

pub(crate) use exact::Checked;

/// What each round has found is kept until the end.
const MAX_ROUNDS: i64 = 1_000_000;

#[derive(Args, Debug)]
pub(crate) struct Options {
    /// Worker processes, 1 to 64
    #[arg(long, value_name = "N", default_value = "4", value_parser = options::world_size)]
    workers: switchml_proto::WorldSize,
    /// Elements of each worker's tensor, float32
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    elements: usize,
    /// How often, each time with new tensors
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=MAX_ROUNDS))]
    rounds: u32,
    /// Which tensors
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    lanes: LaneOptions,
    #[command(flatten)]
    sockets: SocketOptions,
    #[command(flatten)]
    faults: FaultOptions,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    loudness: Loudness,
}

/// What a demo that went well has shown. The network is loopback, the aggregator the software switch.
#[derive(Serialize)]
struct Report {
    workers: usize,
    elements: usize,
    rounds: u32,
    lanes: u8,
    chunk: usize,
    window: u16,
    loss: f64,
    duplicate: f64,
    reorder: f64,
    /// Elements compared with the exact sum, over all rounds and ranks.
    checked: u64,
    /// Those that are the exact sum.
    exact: u64,
    /// The largest error, as a share of N-4's bound.
    worst_error_of_bound: f64,
    /// Of the slowest rank, each round.
    seconds: Vec<f64>,
    /// Tensor in each direction, for each worker; of the fastest and the slowest round.
    best_gigabits_per_second: f64,
    worst_gigabits_per_second: f64,
    #[serde(flatten)]
    packets: Packets,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    let plan = Plan {
        workers: options.workers.get().into(),
        elements: options.elements,
        rounds: options.rounds,
        seed: options.seed,
        check: true,
        lanes: options.lanes,
        sockets: options.sockets,
        faults: options.faults.faults()?,
    };
    let progress = Progress::new(u64::from(plan.rounds) * plan.workers as u64, Unit::Steps, options.loudness);
    let mut crew = Crew::start(&plan)?;
    if options.loudness.verbose {
        progress.note(format_args!(
            "switch on {}, {}; {} workers started",
            crew.address(),
            crew.sockets(),
            plan.workers
        ));
    }
    let mut rounds = vec![Vec::new(); plan.rounds as usize];
    let outcome = crew.wait(|rank, message| {
        match message {
            Message::Round(round) => {
                progress.advance(1);
                let Some(ranks) = rounds.get_mut(round.round as usize) else {
                    bail!("worker {rank} tells of round {}, which there is not", round.round)
                };
                ranks.push(round);
            }
            // All wait for the same; one line is enough.
            Message::Waiting(what) if rank == 0 => progress.say(format!("worker 0 is {what}")),
            _ => {}
        }
        Ok(())
    });
    progress.finish();
    tell(options, &report(options, &plan, &rounds, outcome?)?)
}

/// What all ranks have found, if they agree.
fn report(options: &Options, plan: &Plan, rounds: &[Vec<Round>], packets: Packets) -> Result<Report> {
    let mut checked = Checked::default();
    for (number, ranks) in rounds.iter().enumerate() {
        ensure!(ranks.len() == plan.workers, "round {number}: {} workers told of it", ranks.len());
        let same = ranks.windows(2).all(|pair| pair[0].hash == pair[1].hash); // windows of two
        ensure!(same, "round {number}: the ranks' results differ; that is a fault of this program");
        for found in ranks.iter().filter_map(|round| round.checked) {
            checked = checked.and(found);
        }
    }
    let expected = plan.elements as u64 * u64::from(plan.rounds) * plan.workers as u64;
    ensure!(checked.elements == expected, "{} of {expected} elements were checked", checked.elements);
    let seconds: Vec<_> =
        rounds.iter().map(|ranks| ranks.iter().map(|round| round.seconds).fold(0.0, f64::max)).collect();
    let rate = |seconds: f64| 8e-9 * (plan.elements * size_of::<f32>()) as f64 / seconds;
    Ok(Report {
        workers: plan.workers,
        elements: plan.elements,
        rounds: plan.rounds,
        lanes: plan.lanes.lanes.get(),
        chunk: plan.lanes.chunk.elements(),
        window: plan.lanes.window.get(),
        loss: options.faults.loss,
        duplicate: options.faults.duplicate,
        reorder: options.faults.reorder,
        checked: checked.elements,
        exact: checked.exact,
        worst_error_of_bound: checked.worst,
        best_gigabits_per_second: rate(seconds.iter().copied().fold(f64::INFINITY, f64::min)),
        worst_gigabits_per_second: rate(seconds.iter().copied().fold(0.0, f64::max)),
        seconds,
        packets,
    })
}

fn tell(options: &Options, report: &Report) -> Result<()> {
    if options.json {
        return output::json(report);
    }
    if options.loudness.quiet {
        return Ok(());
    }
    let Report { workers, elements, rounds, lanes, chunk, window, .. } = report;
    let again = report.packets.sent_again_after_timeout + report.packets.sent_again_overtaken;
    output::line(format_args!(
        "{workers} workers, {elements} float32 each, rounds {rounds}, lanes {lanes}, chunk {chunk}, window {window}"
    ))?;
    output::line(format_args!(
        "  sums     {} elements compared with the exact sum: all within the bound, {:.1} % exact, worst error {:.3} \
         of the bound",
        report.checked,
        100.0 * report.exact as f64 / report.checked.max(1) as f64,
        report.worst_error_of_bound
    ))?;
    output::line("  bits     identical on all ranks, in every round")?;
    output::line(format_args!(
        "  rate     {} to {} of tensor for each worker (loopback, software switch)",
        output::rate(report.worst_gigabits_per_second),
        output::rate(report.best_gigabits_per_second)
    ))?;
    output::line(format_args!(
        "  packets  {} sent, {again} of them again: {} after a timeout, {} overtaken",
        report.packets.sent + again,
        report.packets.sent_again_after_timeout,
        report.packets.sent_again_overtaken
    ))?;
    if report.loss + report.duplicate + report.reorder > 0.0 {
        output::line(format_args!(
            "  faults   injected, each way and for each worker: {} % lost, {} % duplicated, {} % reordered, seed {}",
            100.0 * report.loss,
            100.0 * report.duplicate,
            100.0 * report.reorder,
            options.faults.fault_seed
        ))?;
    }
    Ok(())
}
