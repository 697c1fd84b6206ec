//! The recorded traces of `vectors/aggregator.json`: every verdict and every reply, octet by octet.

use serde::Deserialize;
use switchml_proto::ChunkSize;

use crate::lane::{Outcome, deliver, join, session, with_aggregator};

#[derive(Deserialize)]
struct TraceFile {
    traces: Vec<Trace>,
}

/// One lane of one session, and what its members sent.
#[derive(Deserialize)]
struct Trace {
    name: String,
    world_size: usize,
    window: usize,
    base: u16,
    size: u8,
    job: u8,
    initial_seq: u32,
    events: Vec<Event>,
}

#[derive(Deserialize)]
struct Event {
    worker: usize,
    datagram: String,
    verdict: Verdict,
    #[serde(default)]
    reply: String,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Verdict {
    Consume,
    Ignore,
    Reject,
    Unicast,
    Multicast,
}

impl Event {
    fn expected(&self) -> Outcome {
        match self.verdict {
            Verdict::Consume => Outcome::Consume,
            Verdict::Ignore => Outcome::Ignore,
            Verdict::Reject => Outcome::Reject,
            Verdict::Unicast => Outcome::Unicast(octets(&self.reply)),
            Verdict::Multicast => Outcome::Multicast(octets(&self.reply)),
        }
    }
}

fn octets(hex: &str) -> Vec<u8> {
    (0..hex.len() / 2).map(|i| u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).unwrap()).collect()
}

/// Runs a trace; the first event that differs, if any, with what came instead.
fn replay(trace: &Trace) -> Result<(), (usize, Outcome)> {
    let chunk = ChunkSize::from_code(trace.size).unwrap();
    let (base, window) = (trace.base, trace.window);
    let session = session(trace.job, trace.world_size, base, window, chunk.elements(), trace.initial_seq);
    with_aggregator(usize::from(base) + window, chunk, |aggregator| {
        let ports = join(aggregator, &session).unwrap();
        for (i, event) in trace.events.iter().enumerate() {
            let got = deliver(aggregator, &ports, event.worker, &octets(&event.datagram));
            if got != event.expected() {
                return Err((i, got));
            }
        }
        Ok(())
    })
}

fn traces() -> Vec<Trace> {
    let file: TraceFile = serde_json::from_str(include_str!("../vectors/aggregator.json")).unwrap();
    file.traces
}

#[test]
fn every_recorded_answer_is_given_again() {
    let traces = traces();
    assert_eq!(traces.len(), 6);
    for trace in &traces {
        if let Err((i, got)) = replay(trace) {
            let Event { worker, datagram, .. } = &trace.events[i];
            panic!("{}, event {i}: worker {worker} sent {datagram}, which gave {got:?}", trace.name);
        }
    }
}

#[test]
fn an_altered_trace_differs_at_the_event_that_was_altered() {
    for mut trace in traces() {
        let reply = trace.events.iter().rposition(|event| !event.reply.is_empty()).unwrap();
        let last = trace.events[reply].reply.pop().unwrap();
        trace.events[reply].reply.push(if last == '0' { '1' } else { '0' });
        assert_eq!(replay(&trace).unwrap_err().0, reply, "{}", trace.name);
    }
}
