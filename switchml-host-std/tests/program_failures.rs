//! What `switchml switch` and `switchml allreduce` say when something is wrong. With `--loss 1` all data packets are
//! lost, so that a collective is under way for as long as a test needs it.

#![allow(clippy::unwrap_used, reason = "a panic is how tests fail")]
#![cfg(unix)]

mod program_common;

use core::time::Duration;
use std::fs;
use std::path::Path;
use std::time::Instant;

use program_common::{PATIENCE, Running, npy, run, switch, switchml};
use tempfile::TempDir;

/// The workers of a job, all of whose collectives are under way.
fn workers(directory: &TempDir, address: &str, world: usize) -> Vec<Running> {
    let mut workers: Vec<_> = (0..world).map(|rank| worker(directory, address, rank, world, "-v")).collect();
    for worker in &mut workers {
        worker.says("has joined job");
    }
    for worker in &mut workers {
        worker.says("waiting for ");
    }
    workers
}

fn worker(directory: &TempDir, address: &str, rank: usize, world: usize, more: &str) -> Running {
    worker_with(directory, address, rank, world, ("<f4", "(1000,)"), more)
}

/// A worker whose array has such a type and shape.
fn worker_with(
    directory: &TempDir,
    address: &str,
    rank: usize,
    world: usize,
    (descr, shape): (&str, &str),
    more: &str,
) -> Running {
    let elements = (0..1000).map(|element| element as f32);
    let input = npy(&directory.path().join(format!("{rank}.npy")), descr, shape, elements);
    let output = directory.path().join(format!("result{rank}.npy"));
    Running::start(&mut switchml(&format!(
        "allreduce --switch {address} --job test --rank {rank} --world {world} --input {} --output {} {more}",
        input.display(),
        output.display()
    )))
}

/// The files in a directory that are not the workers' inputs.
fn results(directory: &Path) -> usize {
    let names =
        fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.contains("result")).count()
}

#[test]
fn i6_a_killed_worker_is_named_within_the_lease() {
    let directory = tempfile::tempdir().unwrap();
    let (_switch, address) = switch("--lease 1 --loss 1");
    let mut workers = workers(&directory, &address, 3);
    let mut killed = workers.remove(1);
    let start = Instant::now();
    killed.kill();
    for worker in workers {
        worker.end().failed_with("rank 1 was lost");
    }
    assert!(start.elapsed() < Duration::from_secs(4), "{:?}", start.elapsed());
    drop(killed);
    // The killed one could not tidy up behind itself; the others have written nothing.
    assert!(results(directory.path()) <= 1);
}

#[test]
fn i6_a_stopped_worker_is_named_within_the_lease() {
    let directory = tempfile::tempdir().unwrap();
    let (_switch, address) = switch("--lease 1 --loss 1");
    let mut workers = workers(&directory, &address, 3);
    let stopped = workers.remove(2);
    let start = Instant::now();
    stopped.signal("STOP");
    for worker in workers {
        worker.end().failed_with("rank 2 was lost");
    }
    assert!(start.elapsed() < Duration::from_secs(4), "{:?}", start.elapsed());
    stopped.signal("CONT");
    // It cannot know who was silent, and says so.
    stopped.end().failed_with_any(&["or this process was stopped for so long", "or has given this rank up"]);
}

#[test]
fn c3_an_interrupted_worker_tells_the_others() {
    for signal in ["INT", "TERM"] {
        let directory = tempfile::tempdir().unwrap();
        let (_switch, address) = switch("--lease 30 --loss 1");
        let mut workers = workers(&directory, &address, 3);
        let interrupted = workers.remove(1);
        let start = Instant::now();
        interrupted.signal(signal);
        for worker in workers {
            worker.end().failed_with("rank 1 gave up");
        }
        assert!(start.elapsed() < Duration::from_secs(10), "no lease is waited for: {:?}", start.elapsed());
        let ended = interrupted.end();
        assert_eq!(
            (ended.code, ended.stderr.contains("switchml allreduce: ")),
            (Some(130), false),
            "{ended:?}"
        );
        assert_eq!(results(directory.path()), 0);
    }
}

#[test]
fn i6_a_killed_switch_is_noticed() {
    let directory = tempfile::tempdir().unwrap();
    let (mut switch, address) = switch("--lease 1 --loss 1");
    let workers = workers(&directory, &address, 2);
    switch.kill();
    for worker in workers {
        worker.end().failed_with(&format!("the aggregator at {address} has not answered for 1s"));
    }
    assert_eq!(results(directory.path()), 0);
}

#[test]
fn i6_c2_a_restarted_switch_is_noticed() {
    let directory = tempfile::tempdir().unwrap();
    let (mut switch, address) = switch("--lease 2 --loss 1");
    let workers = workers(&directory, &address, 2);
    switch.kill();
    let port = address.rsplit(':').next().unwrap();
    let mut again = Running::start(&mut switchml(&format!("switch --port-base {port}")));
    again.says("listening on ");
    for worker in workers {
        worker.end().failed_with("does not know this session: it was restarted");
    }
}

#[test]
fn c3_a_stopped_switch_tells_its_members() {
    let directory = tempfile::tempdir().unwrap();
    let (switch, address) = switch("--loss 1");
    let workers = workers(&directory, &address, 2);
    switch.signal("TERM");
    for worker in workers {
        worker.end().failed_with("the aggregator was stopped");
    }
    let ended = switch.end().succeeded();
    assert!(ended.stderr.contains("job test, run 0: created"), "{ended:?}");
    assert!(ended.stderr.contains("stopped; all members were told"), "{ended:?}");
}

#[test]
fn c4_a_worker_says_whom_it_waits_for() {
    let directory = tempfile::tempdir().unwrap();
    let (mut switch, address) = switch("");
    let mut first = worker(&directory, &address, 0, 2, "");
    first.says("waiting for rank 1 (of 2): not joined yet");
    let second = worker(&directory, &address, 1, 2, "--json");
    assert!(first.end().succeeded().stdout.contains("1000 float32 reduced"));
    let report: serde_json::Value = serde_json::from_str(&second.end().succeeded().stdout).unwrap();
    assert_eq!((report["octets"].as_u64(), report["clamped_chunks"].as_u64()), (Some(4000), Some(0)));
    assert_eq!(results(directory.path()), 2);
    switch.says("all ranks have left");
}

#[test]
fn a_join_that_takes_too_long_names_who_is_missing() {
    let directory = tempfile::tempdir().unwrap();
    let (_switch, address) = switch("");
    worker(&directory, &address, 0, 3, "--timeout 0.5").end().failed_with("ranks 1, 2 did not join");
}

#[test]
fn a_missing_switch_is_named_within_the_connect_timeout() {
    let directory = tempfile::tempdir().unwrap();
    let (mut switch, address) = switch("");
    switch.kill();
    let start = Instant::now();
    worker(&directory, &address, 0, 2, "")
        .end()
        .failed_with(&format!("no answer from the aggregator at {address} within 5s"));
    assert!(start.elapsed() < Duration::from_secs(8), "{:?}", start.elapsed());
    assert_eq!(results(directory.path()), 0);
}

#[test]
fn d1_unlike_arrays_are_not_added() {
    let directory = tempfile::tempdir().unwrap();
    let (_switch, address) = switch("");
    let plain = ("<f4", "(1000,)");
    for (arrays, more) in [
        ([plain, plain], ["--op sum", "--op mean"]),
        ([plain, plain], ["--factor 4", "--factor 8"]),
        ([plain, plain], ["", "--factor 8"]),
        ([plain, ("<i4", "(1000,)")], ["", ""]),
        ([plain, ("<f4", "(10, 100)")], ["", ""]),
        ([("<f4", "(10, 100)"), ("<f4", "(100, 10)")], ["", ""]),
    ] {
        let workers = [0, 1].map(|rank| worker_with(&directory, &address, rank, 2, arrays[rank], more[rank]));
        for worker in workers {
            worker.end().failed_with("collectives differ");
        }
    }
    assert_eq!(results(directory.path()), 0);
}

#[test]
fn c1_a_worker_that_does_not_fit_its_job_is_told_why_and_disturbs_nobody() {
    let directory = tempfile::tempdir().unwrap();
    let (_switch, address) = switch("--lanes 2 --slots 256 --max-chunk 512");
    let mut first = worker(&directory, &address, 0, 2, "");
    first.says("waiting for rank 1");
    let elsewhere = tempfile::tempdir().unwrap();
    for (rank, world, more, text) in [
        (0, 2, "", "this rank is taken by another process: give each its own rank"),
        (1, 3, "", "the job's world size is 2: all ranks must give the same"),
        (1, 2, "--chunk 64", "the job's chunk size is 256: all ranks must give the same"),
        (1, 2, "--window 64", "the job's window is 128: all ranks must give the same"),
        (1, 2, "--lanes 2", "the job's number of lanes is 1: all ranks must give the same"),
        (0, 1, "--run 1 --window 512", "no free slots for this window: 128 can be had now"),
        (0, 1, "--run 1 --chunk 1024", "too large for it or for the path's MTU: use at most 512 elements"),
    ] {
        let told =
            format!("job test, rank {rank}: the aggregator at {address} refused to let this rank join: ");
        let ended = worker(&elsewhere, &address, rank, world, more).end().failed_with(text);
        assert!(ended.stderr.contains(&told), "{ended:?}");
    }
    assert_eq!(results(elsewhere.path()), 0);
    worker(&directory, &address, 1, 2, "").end().succeeded();
    first.end().succeeded();
}

#[test]
fn n6_clamped_chunks_are_told_also_when_quiet() {
    let directory = tempfile::tempdir().unwrap();
    let (_switch, address) = switch("");
    let ended = worker(&directory, &address, 0, 1, "--factor 1e9 --quiet").end().succeeded();
    assert!(ended.stderr.contains("warning: 4 chunks held an element too large"), "{ended:?}");
    assert_eq!(ended.stdout, "");
}

/// Nobody listens at the address: the worker does not get that far.
fn refused_before_joining(input: &Path, output: &Path, more: &str, text: &str) {
    let start = Instant::now();
    run(&format!(
        "allreduce --switch 127.0.0.1:1 --job j --rank 0 --world 2 --input {} --output {} {more}",
        input.display(),
        output.display()
    ))
    .failed_with(text);
    assert!(start.elapsed() < Duration::from_secs(4), "{:?}", start.elapsed());
}

#[test]
fn bad_arrays_and_outputs_are_refused_before_joining() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    let array = |name: &str, descr: &str| npy(&path(name), descr, "(2,)", [1.0, 2.0].into_iter());
    let good = array("good.npy", "<f4");
    let octets = fs::read(&good).unwrap();
    let result = path("result.npy");

    fs::write(path("short.npy"), &octets[..octets.len() - 3]).unwrap();
    refused_before_joining(&path("short.npy"), &result, "", "is cut short: 5 octets of elements");
    fs::write(path("text.npy"), "no array but a text").unwrap();
    refused_before_joining(&path("text.npy"), &result, "", "is no .npy file: magic not found");
    refused_before_joining(&array("doubles.npy", "<f8"), &result, "", "'<f8'; convert it to float32");
    refused_before_joining(&path("missing.npy"), &result, "", "missing.npy: cannot be opened");
    let integers = array("integers.npy", "<i4");
    refused_before_joining(&integers, &result, "--op mean", "no mean of int32");
    refused_before_joining(&integers, &result, "--factor 2", "leave --factor out");

    refused_before_joining(&good, &path("no/result.npy"), "", "cannot be written: no file can be made in");
    refused_before_joining(&good, directory.path(), "", "is there, and is no file");
    assert_eq!(results(directory.path()), 0);
}

#[test]
fn a_taken_port_is_named() {
    let (_switch, address) = switch("");
    let port = address.rsplit(':').next().unwrap();
    run(&format!("switch --port-base {port}")).failed_with(&format!(
        "switchml switch: cannot listen on {address}: the port is taken; stop the program"
    ));
    run("switch --port-base 65530 --lanes 10").failed_with("go beyond port 65535; choose a lower port base");
    // An address for documentation: no machine has it. The system's reason is told once.
    let ended = run("switch --listen 192.0.2.1").failed_with("this machine has no such address");
    assert!(ended.stderr.ends_with("choose one of its own"), "{ended:?}");
}

#[test]
fn an_interrupted_worker_leaves_no_file_behind() {
    let directory = tempfile::tempdir().unwrap();
    let (_switch, address) = switch("");
    let mut worker = worker(&directory, &address, 0, 2, "");
    worker.says("waiting for ");
    assert_eq!(results(directory.path()), 1);
    worker.signal("INT");
    assert_eq!(worker.end().code, Some(130));
    assert_eq!(results(directory.path()), 0);
}

#[test]
fn metrics_are_served_as_text() {
    use std::io::{Read, Write};
    let mut switch = Running::start(&mut switchml("switch --port-base 0 --metrics 127.0.0.1:0"));
    let line = switch.says("metrics on http://");
    let address =
        line.strip_prefix("metrics on http://").unwrap().strip_suffix("/metrics").unwrap().to_owned();
    let mut connection = std::net::TcpStream::connect(address).unwrap();
    connection.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(connection, "GET /metrics HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    connection.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 ") && answer.contains("# TYPE switchml_"), "{answer}");
}
