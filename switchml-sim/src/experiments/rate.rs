//! `switchml-sim rate`: elements a second against the number of workers.

use anyhow::Result;
use clap::Args;
use serde::Serialize;
use switchml_proto::numeric::ElementType;
use switchml_sim::harness::Scenario;
use switchml_sim::network::octets_on_wire;

use super::job::{all_reduce, seconds, window};
use super::output::{Legend, Panel, Series, Style, plot, table};
use super::{Common, parallel};

/// Elements a second against the number of workers, beside the ceiling that headers leave, a ring, and a parameter server
#[derive(Args)]
pub(crate) struct Options {
    #[command(flatten)]
    common: Common,
    /// Workers
    #[arg(long, value_delimiter = ',', default_value = "1,2,4,8,16,32,64")]
    workers: Vec<usize>,
    /// Elements of a packet
    #[arg(long, value_delimiter = ',', default_value = "32,64,256,2048")]
    chunk: Vec<usize>,
    /// Gbit/s of every link
    #[arg(long, value_delimiter = ',', default_value = "10,25,100")]
    gbit: Vec<u64>,
    /// Lanes of each worker: threads
    #[arg(long, default_value_t = 4)]
    lanes: usize,
    /// Packets that a worker sends
    #[arg(long, default_value_t = 20_000)]
    packets: u64,
}

/// A row of the table. Rates are elements a second.
#[derive(Serialize)]
struct Row {
    gbit: u64,
    chunk: usize,
    workers: usize,
    lanes: usize,
    window: usize,
    rate: f64,
    /// What the link carries, without headers.
    link_ceiling: f64,
    /// What the worker's lanes send and receive.
    host_ceiling: f64,
    share_of_link_ceiling: f64,
    share_of_lower_ceiling: f64,
    /// A ring all-reduce over TCP: each worker sends 2 (n - 1) / n times its tensor.
    ring: f64,
    /// A parameter server on one host: n tensors through one link.
    parameter_server: f64,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    let mut points = Vec::new();
    for &gbit in &options.gbit {
        for &chunk in &options.chunk {
            points.extend(options.workers.iter().map(|&workers| (gbit, chunk, workers)));
        }
    }
    let rows = parallel::each(&points, |&(gbit, chunk, workers)| row(options, gbit, chunk, workers))?;
    for row in &rows {
        let limit = if row.host_ceiling < row.link_ceiling { "host" } else { "link" };
        println!(
            "{:3} Gbit/s, k = {:4}, n = {:2}: {:7.1} M elements/s, {:.4} of the link's ceiling, {:.4} of the lower one ({limit})",
            row.gbit,
            row.chunk,
            row.workers,
            row.rate / 1e6,
            row.share_of_link_ceiling,
            row.share_of_lower_ceiling
        );
    }
    let note =
        format!("{} int32, {} lanes, windows of twice the path's.", options.common.note(), options.lanes);
    table(&options.common.out, "rate", &note, &rows)?;
    let panels: Vec<_> = options.gbit.iter().map(|&gbit| panel(options, gbit, &rows)).collect();
    plot(&options.common.out, "rate", &note, &panels)
}

fn row(options: &Options, gbit: u64, chunk: usize, workers: usize) -> Result<Row> {
    let (common, lanes) = (&options.common, options.lanes);
    let payload = 10 + 4 * chunk;
    let bits = gbit as f64 * 1e9;
    let link_ceiling = bits * chunk as f64 / (8 * octets_on_wire(payload)) as f64;
    let host_ceiling = (lanes * chunk) as f64 / (2.0 * common.worker().cost(payload).as_secs_f64());

    // What is under way in a round trip at the ceiling, twice, and the time that the host adds.
    let round_trip = 2e-6 * common.delay as f64 + 4.0 * common.worker().cost(payload).as_secs_f64();
    let window =
        window(2.0 * link_ceiling.min(host_ceiling) / chunk as f64 * round_trip / lanes as f64).max(16);
    let mut scenario = Scenario::new(1, workers, lanes, window, chunk)?;
    scenario.network = common.network(gbit);
    (scenario.worker, scenario.aggregator) = (common.worker(), common.aggregator());
    let elements = options.packets * chunk as u64;
    let outcome = all_reduce(&scenario, elements, ElementType::Int32, &mut ())?;
    let rate = elements as f64 / seconds(&outcome);

    // Segments of 1,448 octets in frames that take 1,538 with preamble and gap.
    let tcp = bits / 32.0 * 1448.0 / 1538.0;
    let n = workers as f64;
    Ok(Row {
        gbit,
        chunk,
        workers,
        lanes,
        window,
        rate,
        link_ceiling,
        host_ceiling,
        share_of_link_ceiling: rate / link_ceiling,
        share_of_lower_ceiling: rate / link_ceiling.min(host_ceiling),
        ring: if workers == 1 { tcp } else { tcp * n / (2.0 * (n - 1.0)) },
        parameter_server: tcp / n,
    })
}

fn panel(options: &Options, gbit: u64, rows: &[Row]) -> Panel {
    let of = |chunk: usize| rows.iter().filter(move |row| row.gbit == gbit && row.chunk == chunk);
    let mut series = Vec::new();
    for (color, &chunk) in (1..).zip(&options.chunk) {
        let points = of(chunk).map(|row| (row.workers as f64, row.rate)).collect();
        let label = Some(format!("k = {chunk} (dashed: the link's ceiling)"));
        series.push(Series { label, color, points, style: Style::Simulated });
        let points = of(chunk).map(|row| (row.workers as f64, row.link_ceiling)).collect();
        series.push(Series { label: None, color, points, style: Style::Formula });
    }
    let first = options.chunk.first().copied().unwrap_or_default();
    let mut formula = |label: &str, color, value: fn(&Row) -> f64| {
        let points = of(first).map(|row| (row.workers as f64, value(row))).collect();
        series.push(Series { label: Some(label.to_owned()), color, points, style: Style::Formula });
    };
    formula("ring over TCP", 0, |row| row.ring);
    formula("parameter server, one host", options.chunk.len() + 1, |row| row.parameter_server);
    Panel {
        title: format!("{gbit} Gbit/s"),
        x: "workers",
        y: "elements a second",
        legend: Legend::LowerLeft,
        series,
    }
}
