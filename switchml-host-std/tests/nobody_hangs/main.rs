//! I-6 on real processes over loopback, with a lease of a second: a worker or the switch is killed, or stopped for a
//! while, at a random moment of joining, of a collective, between two, or of leaving. Every call of those that are left
//! must return within a lease and a second, with the right sum or with an error that names who is lost; a job beside
//! that one must not notice; and the switch must be rid of the job, and serve the next one.
//!
//! The quick test plays 20 such runs, the ignored one 300, or those that are asked for:
//!
//! ```sh
//! NOBODY_HANGS_SEEDS=17..18 cargo test -p switchml-host-std --test nobody_hangs -- --ignored --nocapture
//! ```
//!
//! The time limits are the product's promise. What the machine itself is late by is measured beside each run, with
//! threads that only sleep, and allowed for.

#![allow(clippy::unwrap_used, reason = "a panic is how tests fail")]
#![allow(clippy::print_stdout, reason = "it tells of each run")]
#![cfg(unix)]

mod check;
mod plan;
#[path = "../program_common/mod.rs"]
mod program_common;
mod run;
mod worker;

use core::ops::Range;
use core::sync::atomic::{AtomicU64, Ordering};
use std::env;
use std::thread;

/// Runs at the same time; most of their time is waiting.
const AT_ONCE: usize = 3;

/// Which runs the ignored test plays, as `first..end`.
const SEEDS: &str = "NOBODY_HANGS_SEEDS";

#[test]
fn i6_nobody_hangs() {
    // The runs start this very program again as a worker: that is how a test gets processes with calls of its own.
    if let Ok(task) = env::var(worker::TASK) {
        return worker::work(&task);
    }
    // Among these is every blow, to workers and to the switch, at every moment.
    play(1140..1160);
}

#[test]
#[ignore = "it takes minutes"]
fn i6_nobody_hangs_in_many_runs() {
    let seeds = env::var(SEEDS).unwrap_or_else(|_| "1000..1300".into());
    let (first, end) = seeds.split_once("..").expect("first..end");
    play(first.parse().unwrap()..end.parse().unwrap());
}

fn play(seeds: Range<u64>) {
    let next = AtomicU64::new(seeds.start);
    let failures: Vec<String> = thread::scope(|scope| {
        let player = || {
            let mut failures = Vec::new();
            loop {
                let seed = next.fetch_add(1, Ordering::Relaxed);
                if seed >= seeds.end {
                    return failures;
                }
                let plan = plan::Plan::new(seed);
                match run::run(&plan) {
                    Ok(summary) => println!("run {seed}: {plan}: {summary}"),
                    Err(why) => failures.push(format!("run {seed}: {plan}: {why}")),
                }
            }
        };
        let players: Vec<_> = (0..AT_ONCE).map(|_| scope.spawn(player)).collect();
        players.into_iter().flat_map(|player| player.join().unwrap()).collect()
    });
    assert!(
        failures.is_empty(),
        "{} of {} runs failed:\n\n{}\n\nThe first again: {SEEDS}={} cargo test -p switchml-host-std --test nobody_hangs \
         -- --ignored --nocapture",
        failures.len(),
        seeds.end - seeds.start,
        failures.join("\n\n"),
        failures[0]
            .split([' ', ':'])
            .nth(1)
            .map(|seed| format!("{seed}..{}", seed.parse::<u64>().unwrap() + 1))
            .unwrap()
    );
}
