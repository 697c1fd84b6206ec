//! Replays the stored corpus: what the fuzzer once found interesting stays right.

use std::fs;
use std::path::Path;

/// Plays every file of a target's corpus. A file that fails is named by the panic's output.
fn replay(target: &str, body: fn(&[u8])) {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../corpus").join(target);
    let mut files: Vec<_> = fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(!files.is_empty(), "{} has no corpus", directory.display());
    for file in files {
        println!("{}", file.display());
        body(&fs::read(&file).unwrap());
    }
}

#[test]
fn packet_parse() {
    replay("packet_parse", switchml_fuzz_bodies::packet_parse);
}

#[test]
fn aggregator_ops() {
    replay("aggregator_ops", switchml_fuzz_bodies::aggregator_ops);
}

#[test]
fn worker_ops() {
    replay("worker_ops", switchml_fuzz_bodies::worker_ops);
}

#[test]
fn control_ops() {
    replay("control_ops", switchml_fuzz_bodies::control_ops);
}

#[test]
fn pair_lossy() {
    replay("pair_lossy", switchml_fuzz_bodies::pair_lossy);
}
