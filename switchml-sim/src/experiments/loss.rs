//! `switchml-sim loss`: how much longer an all-reduce takes when packets are lost.

use core::time::Duration;

use anyhow::Result;
use clap::Args;
use serde::Serialize;
use switchml_proto::numeric::ElementType;
use switchml_sim::harness::{Scenario, Timers};
use switchml_sim::network::Loss;

use super::job::{all_reduce, seconds};
use super::output::{Legend, Panel, Series, Style, plot, table};
use super::{Common, parallel};

/// Inflation of the time by random loss on every link: with this project's retransmission, and with a fixed timeout of 1 ms
/// as in the paper
#[derive(Args)]
pub(crate) struct Options {
    #[command(flatten)]
    common: Common,
    #[arg(long, default_value_t = 8)]
    workers: usize,
    /// Elements of a packet
    #[arg(long, default_value_t = 256)]
    chunk: usize,
    #[arg(long, default_value_t = 128)]
    window: usize,
    /// Gbit/s of every link
    #[arg(long, default_value_t = 10)]
    gbit: u64,
    /// Size of the tensor of float32, in units of 10^6 octets
    #[arg(long, default_value_t = 100)]
    megabytes: u64,
    /// Percentages of datagrams that every link loses
    #[arg(long, value_delimiter = ',', default_value = "0.01,0.1,1,5")]
    loss: Vec<f64>,
    /// Runs of each
    #[arg(long, default_value_t = 20)]
    seeds: u64,
}

#[derive(Clone, Copy, PartialEq)]
enum Recovery {
    /// T-6 and T-9, with the defaults.
    Ours,
    /// A fixed timeout of 1 ms, and no early retransmission.
    Fixed,
}

impl Recovery {
    fn name(self) -> &'static str {
        match self {
            Self::Ours => "ours",
            Self::Fixed => "fixed 1 ms",
        }
    }
}

#[derive(Serialize)]
struct Row {
    recovery: &'static str,
    loss_percent: f64,
    seconds_mean: f64,
    inflation_mean: f64,
    inflation_least: f64,
    inflation_most: f64,
    /// Packets sent again, for each that was sent once.
    sent_again: f64,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    let mut points = Vec::new();
    for recovery in [Recovery::Ours, Recovery::Fixed] {
        points.push((recovery, 0.0, 0));
        for &loss in &options.loss {
            points.extend((0..options.seeds).map(|seed| (recovery, loss, seed)));
        }
    }
    let runs = parallel::each(&points, |&(recovery, loss, seed)| one(options, recovery, loss, seed))?;
    let rows: Vec<_> = [Recovery::Ours, Recovery::Fixed]
        .into_iter()
        .flat_map(|recovery| options.loss.iter().map(move |&loss| (recovery, loss)))
        .map(|(recovery, loss)| {
            let of = |loss| {
                let runs =
                    points.iter().zip(&runs).filter(move |(point, _)| point.0 == recovery && point.1 == loss);
                runs.map(|(_, &run)| run).collect::<Vec<_>>()
            };
            row(recovery, loss, of(0.0)[0].0, &of(loss))
        })
        .collect();
    for row in &rows {
        println!(
            "{:10} {:5} %: {:.3} x the time without loss ({:.3} to {:.3}), {:.4} sent again",
            row.recovery,
            row.loss_percent,
            row.inflation_mean,
            row.inflation_least,
            row.inflation_most,
            row.sent_again
        );
    }
    let Options { common, workers, chunk, window, gbit, megabytes, seeds, .. } = options;
    let note = format!(
        "{} {workers} workers, {megabytes} MB of float32, k = {chunk}, W = {window}, {gbit} Gbit/s, {seeds} seeds.",
        common.note()
    );
    table(&common.out, "loss", &note, &rows)?;
    let series = [Recovery::Fixed, Recovery::Ours].map(|recovery| {
        let rows = rows.iter().filter(|row| row.recovery == recovery.name());
        let points = rows.map(|row| (row.loss_percent, row.inflation_mean)).collect();
        Series {
            label: Some(recovery.name().into()),
            color: if recovery == Recovery::Ours { 1 } else { 2 },
            points,
            style: Style::Simulated,
        }
    });
    let panel = Panel {
        title: "Inflation of the time by loss".into(),
        x: "datagrams that every link loses, percent",
        y: "time / time without loss",
        legend: Legend::UpperLeft,
        series: series.into(),
    };
    plot(&common.out, "loss", &note, &[panel])
}

/// Time in seconds, and packets sent again for each.
fn one(options: &Options, recovery: Recovery, loss: f64, seed: u64) -> Result<(f64, f64)> {
    let Options { common, workers, chunk, window, gbit, megabytes, .. } = options;
    let mut scenario = Scenario::new(seed, *workers, 1, *window, *chunk)?;
    scenario.network = common.network(*gbit);
    (scenario.worker, scenario.aggregator) = (common.worker(), common.aggregator());
    scenario.network.up.loss = Loss::Random(loss / 100.0);
    scenario.network.down.loss = Loss::Random(loss / 100.0);
    if recovery == Recovery::Fixed {
        let Timers { mut rto, stall_time, .. } = scenario.timers;
        (rto.initial, rto.floor, rto.ceiling) =
            (Duration::from_millis(1), Duration::from_millis(1), Duration::from_millis(1));
        scenario.timers = Timers { rto, reordering: Duration::MAX, stall_time };
    }
    let outcome = all_reduce(&scenario, megabytes * 250_000, ElementType::Float32, &mut ())?;
    let again =
        outcome.sum(|stats| stats.timeouts + stats.overtaken) as f64 / outcome.sum(|stats| stats.sent) as f64;
    Ok((seconds(&outcome), again))
}

fn row(recovery: Recovery, loss: f64, without: f64, runs: &[(f64, f64)]) -> Row {
    let mean = |values: &dyn Fn(&(f64, f64)) -> f64| runs.iter().map(values).sum::<f64>() / runs.len() as f64;
    let inflations = || runs.iter().map(|run| run.0 / without);
    Row {
        recovery: recovery.name(),
        loss_percent: loss,
        seconds_mean: mean(&|run| run.0),
        inflation_mean: mean(&|run| run.0) / without,
        inflation_least: inflations().fold(f64::MAX, f64::min),
        inflation_most: inflations().fold(0.0, f64::max),
        sent_again: mean(&|run| run.1),
    }
}
