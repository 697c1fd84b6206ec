//! `switchml demo` and `switchml bench`, small.

#![allow(clippy::unwrap_used, reason = "a panic is how tests fail")]

mod program_common;

use program_common::{Running, run, switchml};
use serde_json::Value;

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[test]
fn i1_i2_the_demo_checks_every_element() {
    let ended = run("demo --elements 50000 --rounds 2 --json").succeeded();
    let report = json(&ended.stdout);
    assert_eq!(report["checked"], 50_000 * 2 * 4);
    assert!(report["worst_error_of_bound"].as_f64().unwrap() <= 1.0, "{report}");
    assert_eq!(report["seconds"].as_array().unwrap().len(), 2);
}

#[test]
fn i1_i2_the_demo_checks_every_element_in_a_bad_network() {
    let ended = run(
        "demo --workers 5 --lanes 2 --elements 100000 --rounds 2 --loss 0.01 --duplicate 0.01 --reorder 0.05 --chunk 64",
    )
    .succeeded();
    assert!(ended.stdout.contains("1000000 elements compared with the exact sum"), "{ended:?}");
    assert!(ended.stdout.contains("1 % lost, 1 % duplicated, 5 % reordered"), "{ended:?}");
    let again = ended.stdout.lines().find(|line| line.contains("packets ")).unwrap();
    assert!(!again.contains(" 0 of them again"), "{again}");
}

#[test]
fn m2_the_demo_runs_with_one_worker_and_with_no_elements() {
    run("demo --workers 1 --elements 1000 --rounds 1 --quiet").succeeded();
    let ended = run("demo --workers 2 --elements 0 --rounds 1 --json").succeeded();
    assert_eq!(json(&ended.stdout)["checked"], 0);
}

#[test]
fn i4_sizes_that_no_machine_holds_are_refused_in_a_line() {
    let too_many = "there is no memory for 9223372036854775808 elements; use fewer --elements";
    run("demo --elements 9223372036854775808").failed_with(too_many);
    run("demo --elements 1000000000000000").failed_with("there is no memory for 1000000000000000 elements");
    for (command, range) in [
        ("demo --rounds 4294967295", "is not in 1..=1000000"),
        ("bench --loopback-megabytes 18446744073710", "is not in 1..=4294967295"),
    ] {
        let ended = run(command);
        assert_eq!(ended.code, Some(2), "{command}: {ended:?}");
        assert!(ended.stderr.contains(range), "{command}: {ended:?}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn i6_a_worker_that_dies_ends_the_demo_and_is_named() {
    let mut demo = Running::start(&mut switchml("demo --elements 20000000 --rounds 9 -v"));
    demo.says("4 workers started");
    let victim = *demo.children().last().unwrap();
    let kill = std::process::Command::new("kill").args(["-KILL", &victim.to_string()]).status();
    assert!(kill.unwrap().success());
    demo.end().failed_with("worker 3 was ended by signal 9");
}

#[cfg(target_os = "linux")]
#[test]
fn workers_end_with_the_demo() {
    let mut demo = Running::start(&mut switchml("demo --elements 20000000 --rounds 9 -v"));
    demo.says("4 workers started");
    let children = demo.children();
    assert_eq!(children.len(), 4);
    demo.kill();
    let deadline = std::time::Instant::now() + program_common::PATIENCE;
    while children.iter().any(|child| std::path::Path::new(&format!("/proc/{child}/exe")).exists()) {
        assert!(std::time::Instant::now() < deadline, "a worker goes on alone");
        std::thread::sleep(core::time::Duration::from_millis(10));
    }
}

#[test]
fn the_bench_gives_every_figure() {
    let ended = run("bench --quick --json").succeeded();
    let report = json(&ended.stdout);
    let figures = report["figures"].as_array().unwrap();
    assert_eq!(figures.len(), 14, "{report}");
    for figure in figures {
        assert!(figure["value"].as_f64().is_some_and(|value| value > 0.0), "{figure}");
    }
    let places: Vec<_> = figures.iter().map(|figure| figure["place"].as_str().unwrap()).collect();
    for place in ["in_memory", "in_cache", "loopback"] {
        assert!(places.contains(&place), "{places:?}");
    }
}

#[test]
fn ranks_that_a_script_starts_measure_and_check_together() {
    let (_switch, address) = program_common::switch("--lanes 2");
    let rank = |rank: usize| {
        let work = "--world 2 --octets 100000 --batch 3 --rounds 2 --lanes 2";
        Running::start(&mut switchml(&format!("bench rank --switch {address} --rank {rank} {work} --json")))
    };
    let ranks = [rank(0), rank(1)];
    for (number, ended) in ranks.into_iter().map(Running::end).enumerate() {
        let report = json(&ended.succeeded().stdout);
        assert_eq!(report["rank"], number);
        assert_eq!(report["checked"], 25_000 * 3 * 2);
        let seconds = report["seconds"].as_array().unwrap();
        assert_eq!(seconds.len(), 2);
        assert!(
            seconds.iter().all(|seconds| seconds.as_f64().is_some_and(|seconds| seconds > 0.0)),
            "{report}"
        );
    }
}

#[test]
fn what_cannot_be_is_refused_as_wrong_usage() {
    let allreduce = "allreduce --switch a:1 --job j --input a --output b";
    for (wrong, text) in [
        ("demo --workers 65", "world size 65 is not from 1 to 64"),
        ("demo --workers 0", "world size 0 is not from 1 to 64"),
        ("demo --loss 1.5", "not a number from 0 to 1"),
        ("demo --chunk 100", "chunk size 100 is none of 32, 64, 128, 256, 512, 1024 and 2048 elements"),
        ("demo --window 3", "window 3 is not a power of two from 1 to 16384 slots"),
        ("demo --lanes 17", "17 lanes are not from 1 to 16"),
        ("demo --rounds 0", "0 is not in 1.."),
        ("bench --quick rank --switch a:1 --rank 0 --world 2", "cannot be used with"),
        ("bench rank --switch a:1 --rank 0 --world 2 --batch 0", "0 is not in 1.."),
        ("switch --slots 0", "0 is not in 1..=16384"),
        ("switch --lease -1", "unexpected argument '-1'"),
        ("switch --lease 0", "not a number of seconds from 0.001 to 86400"),
        (&format!("{allreduce} --rank 0 --world 0"), "world size 0 is not from 1 to 64"),
        (&format!("{allreduce} --rank 0 --world 65"), "world size 65 is not from 1 to 64"),
        (&format!("{allreduce} --rank 64 --world 64"), "rank 64 is not from 0 to 63"),
        (
            &format!("{allreduce} --rank 0 --world 2 --factor 0"),
            "a scaling factor is finite, normal and greater",
        ),
        (&format!("{allreduce} --rank 0 --world 2 --op max"), "possible values: sum, mean"),
        ("nothing", "unrecognized subcommand 'nothing'"),
    ] {
        let ended = run(wrong);
        assert_eq!(ended.code, Some(2), "{wrong}: {ended:?}");
        assert!(ended.stderr.contains(text), "{wrong}: {ended:?}");
    }
}
