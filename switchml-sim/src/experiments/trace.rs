//! `switchml-sim trace`: packet traces for `switchml replay`, and for aggregators that are no Rust.

use std::io::{Write, stdout};

use anyhow::Result;
use clap::Args;
use switchml_proto::WorldSize;
use switchml_sim::record::Record;
use switchml_sim::trace;

/// Random packet traces with the answers that an aggregator must give, as JSON
#[derive(Args)]
pub(crate) struct Options {
    /// How many
    #[arg(long, default_value_t = 1)]
    traces: u64,
    /// The seed of the first one; the others follow
    #[arg(long, default_value_t = 0)]
    seed: u64,
    #[arg(long, default_value_t = 4)]
    workers: usize,
    /// Datagrams of each
    #[arg(long, default_value_t = 200)]
    events: usize,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    let Options { traces, seed, workers, events } = *options;
    let world_size = WorldSize::new(workers)?;
    let seeds = (0..traces).map(|index| seed.wrapping_add(index));
    let traces = seeds.map(|seed| trace::random(seed, world_size, events)).collect();
    let mut out = stdout().lock();
    serde_json::to_writer(&mut out, &Record { traces })?;
    writeln!(out)?;
    Ok(())
}
