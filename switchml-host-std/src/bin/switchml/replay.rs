//! `switchml replay`: a recorded packet trace, run through the aggregator.
//!
//! A record is JSON: `traces`, each one lane of one session, with its `events` in order. An event is the datagram that
//! came from a joined worker, the verdict, and the whole reply where there is one. Octets are hexadecimal.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use serde::{Deserialize, Serialize};
use switchml_proto::aggregator::{
    Aggregator, Egress, Job, Kernels, Phase, Port, PortEntry, Session, Storage,
};
use switchml_proto::{ChunkSize, JobId, LaneLayout, Rank, Seq, Window, WorldSize};

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

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Record {
    traces: Vec<Trace>,
}

/// One lane of one session.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Trace {
    name: String,
    world_size: usize,
    window: usize,
    base: u16,
    /// Code of the chunk size, 0 to 6.
    size: u8,
    job: u8,
    initial_seq: u32,
    events: Vec<Event>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Event {
    worker: usize,
    datagram: String,
    verdict: Verdict,
    #[serde(default)]
    reply: Option<String>,
}

#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "lowercase")]
enum Verdict {
    Consume,
    Multicast,
    Unicast,
    Ignore,
    Reject,
}

impl Verdict {
    fn name(self) -> &'static str {
        match self {
            Self::Consume => "consume",
            Self::Multicast => "multicast",
            Self::Unicast => "unicast",
            Self::Ignore => "ignore",
            Self::Reject => "reject",
        }
    }
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
        replay_trace(trace).with_context(|| format!("traces[{number}] \"{}\"", trace.name))?;
        if options.loudness.verbose {
            output::note(format_args!("\"{}\": {} events as recorded", trace.name, trace.events.len()));
        }
    }
    let events = record.traces.iter().map(|trace| trace.events.len()).sum();
    Ok(Replayed { traces: record.traces.len(), events })
}

fn replay_trace(trace: &Trace) -> Result<()> {
    if trace.events.is_empty() {
        bail!("has no events, so nothing was checked");
    }
    let chunk = ChunkSize::from_code(trace.size)
        .with_context(|| format!("size {} is the code of no chunk size", trace.size))?;
    let layout = LaneLayout::new(trace.base, Window::new(trace.window)?, chunk)?;
    let world_size = WorldSize::new(trace.world_size)?;
    let job = JobId(trace.job);
    let initial_seq = Seq(trace.initial_seq);

    let slots = usize::from(trace.base) + trace.window;
    let mut phases = vec![Phase::EMPTY; Storage::phases(slots)];
    let mut elements = vec![0; Storage::elements(slots, chunk)];
    let mut jobs = [Job::EMPTY];
    let mut entries = vec![PortEntry::EMPTY; trace.world_size];
    let storage =
        Storage { phases: &mut phases, elements: &mut elements, jobs: &mut jobs, ports: &mut entries };
    let mut aggregator = Aggregator::new(storage, chunk, Kernels::PORTABLE)?;
    aggregator.install(&Session { job, world_size, layout, initial_seq })?;
    let ports = (0..trace.world_size)
        .map(|rank| Ok(aggregator.bind(job, Rank::new(rank)?)?))
        .collect::<Result<Vec<_>>>()?;

    for (number, event) in trace.events.iter().enumerate() {
        replay_event(&mut aggregator, &ports, event)
            .with_context(|| format!("events[{number}] from worker {}", event.worker))?;
    }
    Ok(())
}

fn replay_event(aggregator: &mut Aggregator<'_>, ports: &[Port], event: &Event) -> Result<()> {
    let port = *ports.get(event.worker).context("there is no such worker in this trace")?;
    let datagram = hex::decode(&event.datagram).context("the datagram is not hexadecimal")?;
    let expected =
        event.reply.as_ref().map(hex::decode).transpose().context("the reply is not hexadecimal")?;
    let (verdict, why, reply) = match aggregator.handle_datagram(Some(port), &datagram) {
        Egress::Consume => (Verdict::Consume, None, None),
        Egress::Ignore => (Verdict::Ignore, None, None),
        Egress::Reject(reject) => (Verdict::Reject, Some(reject), None),
        Egress::Unicast(reply) => (Verdict::Unicast, None, Some(reply)),
        Egress::Multicast(reply) => (Verdict::Multicast, None, Some(reply)),
    };
    if verdict != event.verdict {
        let why = why.map_or(String::new(), |why| format!(" ({why})"));
        bail!("the record says {}, the aggregator {}{why}", event.verdict.name(), verdict.name());
    }
    let reply = reply.map(|reply| {
        let mut octets = vec![0; reply.datagram_len()];
        reply.emit(&mut octets);
        octets
    });
    match (expected, reply) {
        (None, None) => Ok(()),
        (Some(expected), Some(reply)) if expected == reply => Ok(()),
        (Some(expected), Some(reply)) => Err(difference(&expected, &reply)),
        (Some(_), None) => bail!("the record has a reply, and the aggregator gives none"),
        (None, Some(_)) => bail!("the record has no reply, and the aggregator gives one"),
    }
}

/// Where two replies begin to differ.
fn difference(expected: &[u8], got: &[u8]) -> anyhow::Error {
    if expected.len() != got.len() {
        return anyhow!("the reply recorded has {} octets, the aggregator's {}", expected.len(), got.len());
    }
    let at = expected.iter().zip(got).take_while(|(expected, got)| expected == got).count();
    let shown = at..expected.len().min(at + 8); // within both: they are as long
    let (expected, got) = (hex::encode(&expected[shown.clone()]), hex::encode(&got[shown]));
    anyhow!("the replies differ from octet {at} on: recorded {expected}, the aggregator's {got}")
}
