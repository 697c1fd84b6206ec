//! `switchml replay`: as recorded, or the first event that is not.

#![allow(clippy::unwrap_used, reason = "a panic is how tests fail")]

mod program_common;

use std::fs;
use std::path::PathBuf;

use program_common::{Ended, run};

fn record() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../switchml-proto/tests/vectors/aggregator.json")
}

/// What is said of the record after a change to its text, or to it as JSON.
fn replay_altered(alter: impl FnOnce(String) -> String) -> Ended {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("altered.json");
    fs::write(&path, alter(fs::read_to_string(record()).unwrap())).unwrap();
    run(&format!("replay {}", path.display()))
}

fn altered(alter: impl FnOnce(&mut serde_json::Value)) -> Ended {
    replay_altered(|text| {
        let mut record = serde_json::from_str(&text).unwrap();
        alter(&mut record);
        record.to_string()
    })
}

#[test]
fn i5_the_record_is_what_the_aggregator_does() {
    let ended = run(&format!("replay {}", record().display())).succeeded();
    assert!(ended.stdout.contains("6 traces, 1391 events"), "{ended:?}");
    let ended = run(&format!("replay --json {}", record().display())).succeeded();
    assert_eq!(ended.stdout, r#"{"traces":6,"events":1391}"#);
}

#[test]
fn i5_an_altered_verdict_is_named() {
    let mut number = 0;
    let ended = altered(|record| {
        let events = record["traces"][1]["events"].as_array_mut().unwrap();
        number = events.iter().position(|event| event["verdict"] == "multicast").unwrap();
        events[number]["verdict"] = "consume".into();
    });
    let ended = ended.failed_with("the record says consume, the aggregator multicast");
    assert!(
        ended.stderr.contains("traces[1] ") && ended.stderr.contains(&format!("events[{number}]")),
        "{ended:?}"
    );
}

#[test]
fn i5_an_altered_reply_is_named_with_the_octet() {
    let (mut number, mut worker) = (0, 0);
    let ended = altered(|record| {
        let events = record["traces"][2]["events"].as_array_mut().unwrap();
        number = events.iter().rposition(|event| event["verdict"] == "multicast").unwrap();
        worker = events[number]["worker"].as_u64().unwrap();
        let reply = events[number]["reply"].as_str().unwrap();
        let octet = if reply.starts_with('1') { "2" } else { "1" };
        events[number]["reply"] = format!("{octet}{}", &reply[1..]).into();
    });
    ended.failed_with(&format!("events[{number}] from worker {worker}: the replies differ from octet 0 on"));
}

#[test]
fn i5_an_altered_datagram_changes_the_answer() {
    altered(|record| record["traces"][0]["events"][20]["datagram"] = "".into())
        .failed_with("the record says consume, the aggregator reject (malformed");
}

#[test]
fn what_is_no_record_is_refused_in_a_line() {
    replay_altered(|text| text[..text.len() / 2].to_owned()).failed_with("is no record of packet traces");
    replay_altered(|_| "\u{1}\u{2}".to_owned()).failed_with("is no record of packet traces");
    replay_altered(|text| text.replace("initial_seq", "first_seq"))
        .failed_with("is no record of packet traces");
    altered(|record| record["traces"][0]["window"] = 3.into()).failed_with("window 3 is not a power of two");
    altered(|record| record["traces"][0]["world_size"] = 65.into()).failed_with("world size 65");
    altered(|record| record["traces"][0]["size"] = 7.into()).failed_with("size 7");
    altered(|record| record["traces"][0]["events"][3]["worker"] = 9.into()).failed_with("no such worker");
    altered(|record| record["traces"][0]["events"][3]["datagram"] = "1x".into())
        .failed_with("not hexadecimal");
    run("replay missing.json").failed_with("missing.json: cannot be read");
}

#[test]
fn i5_a_record_that_checks_nothing_does_not_pass() {
    altered(|record| record["traces"] = serde_json::json!([]))
        .failed_with("has no traces, so nothing was checked");
    altered(|record| record["traces"][3]["events"] = serde_json::json!([]))
        .failed_with("has no events, so nothing was checked");
}
