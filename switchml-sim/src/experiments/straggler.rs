//! `switchml-sim straggler`: one rank does nothing for a while.

use core::time::Duration;
use std::collections::HashMap;

use anyhow::Result;
use clap::Args;
use serde::Serialize;
use switchml_proto::Instant;
use switchml_proto::numeric::ElementType;
use switchml_proto::worker::{Cause, Transmit, Worker};
use switchml_sim::harness::{Scenario, Stop, Watch};
use switchml_sim::network::{Datagram, Fault, Party, Sink};

use super::job::{all_reduce, seconds};
use super::output::{Legend, Panel, Series, Style, plot, table};
use super::{Common, parallel};

/// One rank does nothing for a while: what the others send in vain, and when their timeouts are back to normal
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
    #[arg(long, default_value_t = 20)]
    megabytes: u64,
    /// How long the rank does nothing, in milliseconds
    #[arg(long, value_delimiter = ',', default_value = "1,10,100,1000")]
    stop: Vec<u64>,
    /// Runs of each
    #[arg(long, default_value_t = 20)]
    seeds: u64,
}

/// Over all runs of one stop.
#[derive(Serialize)]
struct Row {
    stop_milliseconds: u64,
    seconds: f64,
    /// The most that any rank but the straggler sent again on one slot during the stop.
    sent_again_per_slot: u32,
    /// Until the last timeout of another rank was back to what it was before the stop, in round trips of then.
    round_trips_until_normal: f64,
    /// The same for the straggler itself.
    straggler_until_normal: f64,
}

/// What a run shows of its workers.
struct Observer {
    stop: Stop,
    /// Packets sent again during the stop, by rank and slot.
    again: HashMap<(usize, u16), u32>,
    /// By rank: what its timeout and round trip were before the stop, and when its timeout was last above that.
    ranks: Vec<Seen>,
}

#[derive(Clone, Copy)]
struct Seen {
    rto: Duration,
    round_trip: Duration,
    late: Instant,
}

impl Sink for Observer {
    fn datagram(&mut self, _: Instant, _: Party, _: Party, _: &Datagram, _: &[Fault]) {}
}

impl Watch for Observer {
    fn transmit(&mut self, at: Instant, rank: usize, _: usize, packet: &Transmit) {
        if packet.cause() != Cause::First && self.stop.time.contains(&at) && rank != self.stop.rank {
            *self.again.entry((rank, packet.header().slot)).or_default() += 1;
        }
    }

    fn worker(&mut self, at: Instant, rank: usize, _: usize, worker: &Worker<'_>) {
        let seen = &mut self.ranks[rank];
        if at < self.stop.time.start {
            (seen.rto, seen.round_trip) = (worker.rto(), worker.srtt().unwrap_or_default());
        } else if worker.rto() > seen.rto {
            seen.late = at;
        }
    }
}

pub(crate) fn run(options: &Options) -> Result<()> {
    let mut points = Vec::new();
    for &stop in &options.stop {
        points.extend((0..options.seeds).map(|seed| (stop, seed)));
    }
    let runs = parallel::each(&points, |&(stop, seed)| one(options, stop, seed))?;
    let rows: Vec<_> = (options.stop.iter())
        .map(|&stop| {
            let runs = || runs.iter().filter(|row| row.stop_milliseconds == stop);
            let most = |value: fn(&Row) -> f64| runs().map(value).fold(0.0, f64::max);
            Row {
                stop_milliseconds: stop,
                seconds: most(|row| row.seconds),
                sent_again_per_slot: runs().map(|row| row.sent_again_per_slot).max().unwrap_or(0),
                round_trips_until_normal: most(|row| row.round_trips_until_normal),
                straggler_until_normal: most(|row| row.straggler_until_normal),
            }
        })
        .collect();
    for row in &rows {
        println!(
            "{:5} ms: at most {} sent again on a slot; timeouts normal after {:.2} round trips (the straggler's {:.2})",
            row.stop_milliseconds,
            row.sent_again_per_slot,
            row.round_trips_until_normal,
            row.straggler_until_normal
        );
    }
    let Options { common, workers, chunk, window, gbit, megabytes, seeds, .. } = options;
    let note = format!(
        "{} {workers} workers, {megabytes} MB of float32, k = {chunk}, W = {window}, {gbit} Gbit/s; the worst of {seeds} seeds.",
        common.note()
    );
    table(&common.out, "straggler", &note, &rows)?;
    let points =
        |value: fn(&Row) -> f64| rows.iter().map(|row| (row.stop_milliseconds as f64, value(row))).collect();
    // A logarithm has no 0.
    let series = vec![
        Series {
            label: Some("sent again on one slot + 1".into()),
            color: 1,
            points: points(|row| f64::from(row.sent_again_per_slot + 1)),
            style: Style::Simulated,
        },
        Series {
            label: Some("limit: 8 + 1".into()),
            color: 2,
            points: points(|_| 9.0),
            style: Style::Formula,
        },
    ];
    let panel = Panel {
        title: "One straggler".into(),
        x: "stop, milliseconds",
        y: "packets",
        legend: Legend::UpperLeft,
        series,
    };
    plot(&common.out, "straggler", &note, &[panel])
}

fn one(options: &Options, stop_milliseconds: u64, seed: u64) -> Result<Row> {
    let Options { common, workers, chunk, window, gbit, megabytes, .. } = options;
    let mut scenario = Scenario::new(seed, *workers, 1, *window, *chunk)?;
    scenario.network = common.network(*gbit);
    (scenario.worker, scenario.aggregator) = (common.worker(), common.aggregator());
    // When a third of the tensor is on the wire.
    let start = Instant::from_micros(megabytes * 8000 / gbit / 3);
    let stop = Stop { rank: 1 % workers, time: start..start + Duration::from_millis(stop_milliseconds) };
    scenario.stops = vec![stop.clone()];
    let seen = Seen { rto: Duration::ZERO, round_trip: Duration::ZERO, late: Instant::ZERO };
    let end = stop.time.end;
    let mut observer = Observer { stop, again: HashMap::new(), ranks: vec![seen; *workers] };
    let outcome = all_reduce(&scenario, megabytes * 250_000, ElementType::Float32, &mut observer)?;
    let until_normal = |seen: &Seen| seen.late.since(end).as_secs_f64() / seen.round_trip.as_secs_f64();
    let ranks = || observer.ranks.iter().enumerate();
    Ok(Row {
        stop_milliseconds,
        seconds: seconds(&outcome),
        sent_again_per_slot: observer.again.values().copied().max().unwrap_or(0),
        round_trips_until_normal: ranks()
            .filter(|&(rank, _)| rank != observer.stop.rank)
            .map(|(_, seen)| until_normal(seen))
            .fold(0.0, f64::max),
        straggler_until_normal: until_normal(&observer.ranks[observer.stop.rank]),
    })
}
