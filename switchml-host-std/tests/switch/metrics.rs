//! `GET /metrics`, and clients that mean no good.

use core::net::SocketAddr;
use core::time::Duration;
use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::Instant;

use switchml_host_std::{Switch, SwitchConfig, SwitchError};

use crate::support::{LOCALHOST, PATIENCE, Peer, RunningSwitch, Worker, config, job, results};

fn with_metrics() -> SwitchConfig {
    let mut config = config(LOCALHOST);
    config.metrics = Some((LOCALHOST, 0).into());
    config
}

/// What the server answers to `request`: all of it.
fn ask(address: SocketAddr, request: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).expect("loopback");
    stream.set_read_timeout(Some(PATIENCE)).expect("not zero");
    stream.write_all(request).expect("the server listens");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("text until the end");
    answer
}

/// The body of a good answer to `GET /metrics`.
fn scrape(switch: &RunningSwitch) -> String {
    let answer = ask(switch.metrics.expect("configured"), b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    assert!(head.contains("Content-Type: text/plain; version=0.0.4"), "{head}");
    assert!(head.contains(&format!("Content-Length: {}", body.len())), "{head}");
    body.to_owned()
}

/// Reads Prometheus' text format: every sample by its name and labels. Panics where the text breaks the format.
fn samples(text: &str) -> HashMap<String, f64> {
    let mut samples = HashMap::new();
    let mut family = "";
    for line in text.lines() {
        if let Some(comment) = line.strip_prefix("# ") {
            let mut words = comment.splitn(3, ' ');
            let kind = words.next().expect("HELP or TYPE");
            family = words.next().expect("a name");
            let rest = words.next().expect("help, or a type");
            assert!(kind == "HELP" || kind == "TYPE" && ["counter", "gauge"].contains(&rest), "{line}");
            continue;
        }
        let (name, value) = line.rsplit_once(' ').expect("a name and a value");
        let (base, labels) = name.split_once('{').expect("labels");
        assert_eq!(base, family, "a family's samples stand together");
        assert!(labels.ends_with("\"}"), "{line}");
        let value: f64 = value.parse().expect("a number");
        assert!(samples.insert(name.to_owned(), value).is_none(), "twice: {line}");
    }
    samples
}

#[test]
fn a8_every_outcome_is_there_for_each_job_rank_and_lane() {
    let switch = RunningSwitch::start(with_metrics());
    let name = "quo\"te\\and\nline";
    let workers = job(switch.address, name, 2, 1);
    workers[0].peer.send(&workers[0].packet(0, 1));
    workers[0].peer.send(&workers[0].packet(0, 1));
    // The repetition must not come after the result, or it would be answered.
    switch.snapshot_when(|snapshot| snapshot.sessions[0].ports[0].counters.ignored == 1);
    workers[1].peer.send(&workers[1].packet(0, 1));
    assert_eq!(results(&workers), [(0, 2); 2]);
    workers[1].peer.send(&workers[1].packet(0, 1));
    workers[1].result();
    workers[0].peer.send(&workers[0].packet(0, 1)[..100]);
    Peer::new(switch.address).send(&workers[0].packet(0, 1));
    switch.snapshot_when(|snapshot| {
        snapshot.lanes[0].unknown_source == 1 && snapshot.sessions[0].ports[0].counters.rejected[0] == 1
    });

    let samples = samples(&scrape(&switch));
    let packets = |rank: usize, outcome: &str, reason: &str| {
        let label = format!(
            "switchml_packets_total{{job=\"quo\\\"te\\\\and\\nline\",run=\"1\",rank=\"{rank}\",lane=\"0\",\
             outcome=\"{outcome}\",reason=\"{reason}\"}}"
        );
        *samples.get(&label).unwrap_or_else(|| panic!("{label} is not in {samples:#?}"))
    };
    let outcomes = ["consumed", "multicast", "retransmitted", "ignored"];
    assert_eq!(outcomes.map(|outcome| packets(0, outcome, "")), [1.0, 0.0, 0.0, 1.0]);
    assert_eq!(outcomes.map(|outcome| packets(1, outcome, "")), [0.0, 1.0, 1.0, 0.0]);
    for reason in ["foreign_job", "slot", "version", "size", "digest", "stale"] {
        assert_eq!(packets(0, "rejected", reason), 0.0);
    }
    assert_eq!(packets(0, "rejected", "malformed"), 1.0);
    assert_eq!(samples["switchml_unknown_source_total{lane=\"0\"}"], 1.0);
    assert_eq!(samples["switchml_jobs{state=\"ready\"}"], 1.0);
    assert_eq!(samples["switchml_control_total{event=\"joins\"}"], 4.0);
    workers.iter().for_each(Worker::leave);
}

#[test]
fn only_get_of_metrics_is_answered() {
    let switch = RunningSwitch::start(with_metrics());
    let status = |request: &[u8]| ask(switch.metrics.expect("configured"), request)[9..12].to_owned();
    assert_eq!(status(b"GET / HTTP/1.1\r\n\r\n"), "404");
    assert_eq!(status(b"POST /metrics HTTP/1.1\r\n\r\n"), "405");
    assert_eq!(status(b"\x16\x03\x01 not HTTP at all\r\n\r\n"), "400");
    // As long as it may be, and no end.
    let mut long = b"GET /metrics HTTP/1.1\r\nX: ".to_vec();
    long.resize(8 << 10, b'x');
    assert_eq!(status(&long), "431");
    let many = format!("GET /metrics HTTP/1.1\r\n{}\r\n", "A: b\r\n".repeat(65));
    assert_eq!(status(many.as_bytes()), "431");
    scrape(&switch);
}

#[test]
fn a_slow_client_makes_others_wait_two_seconds_and_stops_nothing() {
    let switch = RunningSwitch::start(with_metrics());
    let workers = job(switch.address, "slow", 1, 1);
    let slow = TcpStream::connect(switch.metrics.expect("configured")).expect("loopback");
    (&slow).write_all(b"GET /metr").expect("the server listens");
    thread::sleep(Duration::from_millis(50));
    let start = Instant::now();
    workers[0].peer.send(&workers[0].packet(0, 3));
    assert_eq!(workers[0].result(), (0, 3));
    assert!(start.elapsed() < Duration::from_secs(1), "data does not wait");
    scrape(&switch);
    assert!(start.elapsed() < Duration::from_secs(4), "{:?}", start.elapsed());
    workers[0].leave();

    // A stop does not wait for such a client either.
    (&TcpStream::connect(switch.metrics.expect("configured")).expect("loopback"))
        .write_all(b"G")
        .expect("sent");
    thread::sleep(Duration::from_millis(50));
    let start = Instant::now();
    switch.stop();
    assert!(start.elapsed() < Duration::from_millis(1500), "{:?}", start.elapsed());
}

#[test]
fn a_taken_metrics_port_is_named() {
    let first = Switch::bind(with_metrics()).expect("free ports");
    let mut config = config(LOCALHOST);
    config.metrics = first.metrics_addr();
    let error = Switch::bind(config).expect_err("the port is taken");
    assert!(matches!(error, SwitchError::Listen { address, .. } if Some(address) == first.metrics_addr()));
}
