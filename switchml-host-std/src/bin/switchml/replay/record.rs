//! Recorded packet traces: their form as JSON, and how the aggregator is held against one.
//!
//! A record has `traces`, each one lane of one session, with its `events` in order. An event is the datagram that came
//! from a joined worker, the verdict, and the whole reply where there is one. Octets are hexadecimal.

use anyhow::{Context, Result, anyhow, bail};
use serde::{Deserialize, Serialize};
use switchml_proto::aggregator::{
    Aggregator, Egress, Job, Kernels, Phase, Port, PortEntry, Session, Storage,
};
use switchml_proto::{ChunkSize, JobId, LaneLayout, Rank, Seq, Window, WorldSize};

/// Some traces.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
#[allow(clippy::exhaustive_structs, reason = "it is what the file has")]
pub struct Record {
    /// At least one, or nothing is checked.
    pub traces: Vec<Trace>,
}

/// One lane of one session.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
#[allow(clippy::exhaustive_structs, reason = "it is what the file has")]
pub struct Trace {
    /// What it shows.
    pub name: String,
    /// Workers, 1 to 64.
    pub world_size: usize,
    /// Slots of the lane, W.
    pub window: usize,
    /// First slot.
    pub base: u16,
    /// Code of the chunk size, 0 to 6.
    pub size: u8,
    /// The job's number.
    pub job: u8,
    /// s0, a multiple of 2W.
    pub initial_seq: u32,
    /// What came, and what was answered.
    pub events: Vec<Event>,
}

/// One datagram, and what came of it.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
#[allow(clippy::exhaustive_structs, reason = "it is what the file has")]
pub struct Event {
    /// The rank whose address it came from.
    pub worker: usize,
    /// The UDP payload, in hexadecimal.
    pub datagram: String,
    /// The decision.
    pub verdict: Verdict,
    /// The datagram that answers it, in hexadecimal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reply: Option<String>,
}

/// An aggregator's decision about a datagram.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
#[allow(clippy::exhaustive_enums, reason = "the outcomes are what A-1 to A-5 say")]
pub enum Verdict {
    /// The contribution was taken; others are missing.
    Consume,
    /// The phase is complete: the result goes to every worker.
    Multicast,
    /// The phase was complete before: the result goes to the one that asked again.
    Unicast,
    /// The contribution had been taken before, and others are missing.
    Ignore,
    /// The datagram changed nothing.
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

impl Trace {
    /// Runs the trace through an aggregator.
    ///
    /// # Errors
    /// What the first event is that differs, and in what; or what is wrong with the trace itself.
    pub fn replay(&self) -> Result<()> {
        if self.events.is_empty() {
            bail!("has no events, so nothing was checked");
        }
        let chunk = ChunkSize::from_code(self.size)
            .with_context(|| format!("size {} is the code of no chunk size", self.size))?;
        let layout = LaneLayout::new(self.base, Window::new(self.window)?, chunk)?;
        let world_size = WorldSize::new(self.world_size)?;
        let job = JobId(self.job);
        let initial_seq = Seq(self.initial_seq);

        let slots = usize::from(self.base) + self.window;
        let mut phases = vec![Phase::EMPTY; Storage::phases(slots)];
        let mut elements = vec![0; Storage::elements(slots, chunk)];
        let mut jobs = [Job::EMPTY];
        let mut entries = vec![PortEntry::EMPTY; self.world_size];
        let storage =
            Storage { phases: &mut phases, elements: &mut elements, jobs: &mut jobs, ports: &mut entries };
        let mut aggregator = Aggregator::new(storage, chunk, Kernels::PORTABLE)?;
        aggregator.install(&Session { job, world_size, layout, initial_seq })?;
        let ports = (0..self.world_size)
            .map(|rank| Ok(aggregator.bind(job, Rank::new(rank)?)?))
            .collect::<Result<Vec<_>>>()?;

        for (number, event) in self.events.iter().enumerate() {
            event
                .replay(&mut aggregator, &ports)
                .with_context(|| format!("events[{number}] from worker {}", event.worker))?;
        }
        Ok(())
    }
}

impl Event {
    fn replay(&self, aggregator: &mut Aggregator<'_>, ports: &[Port]) -> Result<()> {
        let port = *ports.get(self.worker).context("there is no such worker in this trace")?;
        let datagram = hex::decode(&self.datagram).context("the datagram is not hexadecimal")?;
        let expected =
            self.reply.as_ref().map(hex::decode).transpose().context("the reply is not hexadecimal")?;
        let (verdict, why, reply) = match aggregator.handle_datagram(Some(port), &datagram) {
            Egress::Consume => (Verdict::Consume, None, None),
            Egress::Ignore => (Verdict::Ignore, None, None),
            Egress::Reject(reject) => (Verdict::Reject, Some(reject), None),
            Egress::Unicast(reply) => (Verdict::Unicast, None, Some(reply)),
            Egress::Multicast(reply) => (Verdict::Multicast, None, Some(reply)),
        };
        if verdict != self.verdict {
            let why = why.map_or(String::new(), |why| format!(" ({why})"));
            bail!("the record says {}, the aggregator {}{why}", self.verdict.name(), verdict.name());
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
