//! Generated traces: the aggregator answers as the oracle says, and every kind of answer occurs.

use std::collections::HashMap;

use switchml_proto::WorldSize;
use switchml_sim::record::{Record, Verdict};
use switchml_sim::trace;

#[test]
fn a1_to_a7_random_traces_are_answered_as_the_oracle_says() {
    let mut verdicts = HashMap::new();
    for seed in 0..300 {
        let world_size = WorldSize::new([1, 2, 3, 4, 8, 64][seed as usize % 6]).unwrap();
        let trace = trace::random(seed, world_size, 400);
        trace.replay().unwrap_or_else(|error| panic!("{}: {error:#}", trace.name));
        for event in &trace.events {
            *verdicts.entry(format!("{:?}", event.verdict)).or_insert(0) += 1;
        }
    }
    assert!(verdicts.len() == 5 && verdicts.values().all(|&times| times > 1_000), "{verdicts:?}");
}

#[test]
fn a_trace_survives_json() {
    let record = Record { traces: vec![trace::random(1, WorldSize::new(3).unwrap(), 100)] };
    let text = serde_json::to_string(&record).unwrap();
    let back: Record = serde_json::from_str(&text).unwrap();
    assert_eq!(serde_json::to_string(&back).unwrap(), text);
    back.traces[0].replay().unwrap();
}

#[test]
fn an_altered_trace_differs_at_the_event_that_was_altered() {
    for seed in 0..20 {
        let mut trace = trace::random(seed, WorldSize::new(2).unwrap(), 200);
        let last = trace.events.iter().rposition(|event| event.verdict == Verdict::Multicast).unwrap();
        let reply = trace.events[last].reply.as_mut().unwrap();
        let end = if reply.ends_with('0') { "1" } else { "0" };
        reply.replace_range(reply.len() - 1.., end);
        let error = trace.replay().unwrap_err().to_string();
        assert!(error.starts_with(&format!("events[{last}] ")), "{error}");
    }
}
