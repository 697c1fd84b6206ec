//! `switchml replay`: a recorded packet trace, run through the aggregator.

#[allow(
    unreachable_pub,
    reason = "the crate switchml-sim, which records traces, has this file as a public module"
)]
mod record;

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::Args;
use serde::Serialize;

use self::record::Record;
use crate::options::Loudness;
use crate::output;

#[derive(Args, Debug)]
pub(crate) struct Options {
    /// The record, as JSON
    file: PathBuf,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    loudness: Loudness,
}

/// What was found to be as recorded.
#[derive(Serialize)]
struct Replayed {
    traces: usize,
    events: usize,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    let replayed = replay(options).with_context(|| options.file.display().to_string())?;
    if options.json {
        return output::json(&replayed);
    }
    if !options.loudness.quiet {
        let Replayed { traces, events } = replayed;
        output::line(format_args!(
            "{traces} traces, {events} events: every verdict and reply is as recorded"
        ))?;
    }
    Ok(())
}

fn replay(options: &Options) -> Result<Replayed> {
    let text = fs::read_to_string(&options.file).context("cannot be read")?;
    let record: Record = serde_json::from_str(&text).context("is no record of packet traces")?;
    if record.traces.is_empty() {
        bail!("has no traces, so nothing was checked");
    }
    for (number, trace) in record.traces.iter().enumerate() {
        trace.replay().with_context(|| format!("traces[{number}] \"{}\"", trace.name))?;
        if options.loudness.verbose {
            output::note(format_args!("\"{}\": {} events as recorded", trace.name, trace.events.len()));
        }
    }
    let events = record.traces.iter().map(|trace| trace.events.len()).sum();
    Ok(Replayed { traces: record.traces.len(), events })
}
