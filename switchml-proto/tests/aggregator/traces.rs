//! The recorded traces of `vectors/aggregator.json`, and generated ones: every verdict and every reply, octet by octet.

use switchml_proto::WorldSize;
use switchml_sim::record::{Record, Trace};
use switchml_sim::trace;

fn traces() -> Vec<Trace> {
    let record: Record = serde_json::from_str(include_str!("../vectors/aggregator.json")).unwrap();
    record.traces
}

#[test]
fn every_recorded_answer_is_given_again() {
    let traces = traces();
    assert_eq!(traces.len(), 6);
    for trace in &traces {
        trace.replay().unwrap_or_else(|error| panic!("{}: {error:#}", trace.name));
    }
}

#[test]
fn an_altered_trace_differs_at_the_event_that_was_altered() {
    for mut trace in traces() {
        let altered = trace.events.iter().rposition(|event| event.reply.is_some()).unwrap();
        let reply = trace.events[altered].reply.as_mut().unwrap();
        let last = reply.pop().unwrap();
        reply.push(if last == '0' { '1' } else { '0' });
        let error = trace.replay().unwrap_err().to_string();
        assert!(error.starts_with(&format!("events[{altered}] ")), "{}: {error}", trace.name);
    }
}

#[test]
fn generated_traces_are_answered_as_the_oracle_says() {
    for seed in 1000..1100 {
        let world_size = WorldSize::new([1, 2, 5, 64][seed as usize % 4]).unwrap();
        let trace = trace::random(seed, world_size, 300);
        trace.replay().unwrap_or_else(|error| panic!("{}: {error:#}", trace.name));
    }
}
