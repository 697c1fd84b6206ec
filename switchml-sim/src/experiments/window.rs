//! `switchml-sim window`: time against the window.

use anyhow::Result;
use clap::Args;
use serde::Serialize;
use switchml_proto::numeric::ElementType;
use switchml_sim::harness::Scenario;
use switchml_sim::network::octets_on_wire;

use super::job::{all_reduce, seconds};
use super::output::{Legend, Panel, Series, Style, plot, table};
use super::{Common, parallel};

/// Time against the window, from a quarter of the bandwidth-delay product to four times as much
#[derive(Args)]
pub(crate) struct Options {
    #[command(flatten)]
    common: Common,
    #[arg(long, default_value_t = 8)]
    workers: usize,
    /// Elements of a packet
    #[arg(long, default_value_t = 256)]
    chunk: usize,
    /// Gbit/s of every link
    #[arg(long, default_value_t = 10)]
    gbit: u64,
    /// Size of the tensor of float32, in units of 10^6 octets
    #[arg(long, default_value_t = 20)]
    megabytes: u64,
}

#[derive(Serialize)]
struct Row {
    window: usize,
    /// The window over the packets that are under way in a round trip at the link's rate.
    of_bandwidth_delay: f64,
    seconds: f64,
    /// Over the time that the packets take on the link.
    over_ideal: f64,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    let Options { common, workers, chunk, gbit, megabytes } = options;
    let payload = 10 + 4 * chunk;
    let packet_time = (8 * octets_on_wire(payload)) as f64 / (*gbit as f64 * 1e9);
    // A packet passes two links, and two of the worker's calls.
    let round_trip =
        2e-6 * common.delay as f64 + 2.0 * packet_time + 2.0 * common.worker().cost(payload).as_secs_f64();
    let product = round_trip / packet_time;
    let elements = megabytes * 250_000;
    let ideal = elements.div_ceil(*chunk as u64) as f64 * packet_time;
    let windows: Vec<_> = (0..14)
        .map(|log| 1_usize << log)
        .filter(|&window| {
            (product / 5.7..product * 5.7).contains(&(window as f64)) // the powers of two around a quarter and four times
        })
        .collect();
    let rows = parallel::each(&windows, |&window| {
        let mut scenario = Scenario::new(1, *workers, 1, window, *chunk)?;
        scenario.network = common.network(*gbit);
        (scenario.worker, scenario.aggregator) = (common.worker(), common.aggregator());
        let seconds = seconds(&all_reduce(&scenario, elements, ElementType::Float32, &mut ())?);
        Ok(Row { window, of_bandwidth_delay: window as f64 / product, seconds, over_ideal: seconds / ideal })
    })?;
    for row in &rows {
        println!(
            "W = {:4}, {:5.2} of the product: {:.4} x the ideal",
            row.window, row.of_bandwidth_delay, row.over_ideal
        );
    }
    let note = format!(
        "{} {workers} workers, {megabytes} MB of float32, k = {chunk}, {gbit} Gbit/s.",
        common.note()
    );
    table(&common.out, "window", &note, &rows)?;
    let points = rows.iter().map(|row| (row.of_bandwidth_delay, row.over_ideal)).collect();
    let rule =
        rows.iter().map(|row| (row.of_bandwidth_delay, (1.0 / row.of_bandwidth_delay).max(1.0))).collect();
    let series = vec![
        Series { label: Some("simulated".into()), color: 1, points, style: Style::Simulated },
        Series {
            label: Some("one window each round trip, or the link's rate".into()),
            color: 2,
            points: rule,
            style: Style::Formula,
        },
    ];
    let panel = Panel {
        title: "Time against the window".into(),
        x: "window / bandwidth-delay product",
        y: "time / ideal",
        legend: Legend::UpperRight,
        series,
    };
    plot(&common.out, "window", &note, &[panel])
}
