//! `switchml-sim incast`: all workers' packets meet in one shallow queue.

use anyhow::Result;
use clap::Args;
use serde::Serialize;
use switchml_proto::numeric::ElementType;
use switchml_sim::harness::{Place, Scenario};
use switchml_sim::network::{Fault, Profile, octets_on_wire};

use super::job::{all_reduce, seconds};
use super::output::{Legend, Panel, Series, Style, plot, table};
use super::{Common, parallel};

/// The aggregator on a server: all workers' packets meet in the queue before its link
#[derive(Args)]
pub(crate) struct Options {
    #[command(flatten)]
    common: Common,
    #[arg(long, default_value_t = 64)]
    workers: usize,
    /// Elements of a packet
    #[arg(long, default_value_t = 256)]
    chunk: usize,
    #[arg(long, default_value_t = 128)]
    window: usize,
    /// Gbit/s of every link, the server's too
    #[arg(long, default_value_t = 10)]
    gbit: u64,
    /// Size of the tensor of float32, in units of 10^6 octets
    #[arg(long, default_value_t = 4)]
    megabytes: u64,
    /// Room of the queue, in units of 1024 octets
    #[arg(long, value_delimiter = ',', default_value = "64,128,256,512,1024,4096,16384")]
    queue: Vec<u64>,
}

#[derive(Serialize)]
struct Row {
    queue_kib: u64,
    seconds: f64,
    /// Over the time that all packets take on the server's link.
    over_ideal: f64,
    /// Datagrams that found the queue full, of all that the workers sent.
    lost: f64,
    /// Packets sent again, for each that was sent once.
    sent_again: f64,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    let Options { common, workers, chunk, window, gbit, megabytes, queue } = options;
    let rows = parallel::each(queue, |&queue_kib| one(options, queue_kib))?;
    for row in &rows {
        println!(
            "{:6} KiB: {:6.2} x the ideal, {:.3} lost, {:.3} sent again",
            row.queue_kib, row.over_ideal, row.lost, row.sent_again
        );
    }
    let note = format!(
        "{} {workers} workers, {megabytes} MB of float32, k = {chunk}, W = {window}, {gbit} Gbit/s.",
        common.note()
    );
    table(&common.out, "incast", &note, &rows)?;
    let points = |value: fn(&Row) -> f64| rows.iter().map(|row| (row.queue_kib as f64, value(row))).collect();
    let series = vec![
        Series {
            label: Some("time / ideal".into()),
            color: 1,
            points: points(|row| row.over_ideal),
            style: Style::Simulated,
        },
        Series {
            label: Some("1 + packets sent again for each".into()),
            color: 2,
            points: points(|row| 1.0 + row.sent_again),
            style: Style::Simulated,
        },
    ];
    let panel = Panel {
        title: format!("{workers} workers into one queue"),
        x: "room of the queue, KiB",
        y: "ratio",
        legend: Legend::UpperRight,
        series,
    };
    plot(&common.out, "incast", &note, &[panel])
}

fn one(options: &Options, queue_kib: u64) -> Result<Row> {
    let Options { common, workers, chunk, window, gbit, megabytes, .. } = options;
    let mut scenario = Scenario::new(1, *workers, 1, *window, *chunk)?;
    scenario.network = common.network(*gbit);
    (scenario.worker, scenario.aggregator) = (common.worker(), common.aggregator());
    let rate = gbit * 1_000_000_000;
    let to = Profile { queue: 1024 * queue_kib, ..Profile::of_rate(rate) };
    scenario.network.aggregator = Place::Server { to, from: Profile::of_rate(rate) };
    let elements = megabytes * 250_000;
    let outcome = all_reduce(&scenario, elements, ElementType::Float32, &mut ())?;
    let packet_time = (8 * octets_on_wire(10 + 4 * chunk)) as f64 / rate as f64;
    let ideal = (*workers as u64 * elements.div_ceil(*chunk as u64)) as f64 * packet_time;
    let (sent, again) =
        (outcome.sum(|stats| stats.sent), outcome.sum(|stats| stats.timeouts + stats.overtaken));
    let seconds = seconds(&outcome);
    Ok(Row {
        queue_kib,
        seconds,
        over_ideal: seconds / ideal,
        lost: outcome.network.of(Fault::QueueFull) as f64 / (sent + again) as f64,
        sent_again: again as f64 / sent as f64,
    })
}
