//! The `switchml` program: the software switch, a worker for arrays on disk, and what shows that both work.
//!
//! Every subcommand exits with 0 only when what it was asked was done and checked, with 1 after a line on standard
//! error that says what failed, and with 2 if it was asked wrongly.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

mod allreduce;
mod bench;
mod crew;
mod demo;
mod npy;
mod options;
mod output;
mod progress;
mod replay;
mod switch;

/// All-reduce over UDP with the sum moved into the network.
#[derive(Debug, Parser)]
#[command(name = "switchml", version, propagate_version = true)]
struct Program {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Show the whole system on this machine: a switch, workers, and a check of every element
    Demo(demo::Options),
    /// Run the software switch
    Switch(switch::Options),
    /// Be one worker: reduce an array on disk with those of the other workers
    Allreduce(allreduce::Options),
    /// Run a recorded packet trace through the aggregator, and name the first event that differs
    Replay(replay::Options),
    /// Measure this machine: conversion, core and loopback, against limits measured in the same run
    Bench(bench::Options),
    /// A worker process of `demo` and `bench`
    #[command(name = crew::WORKER, hide = true)]
    Worker,
}

fn main() -> ExitCode {
    let (name, outcome) = match Program::parse().command {
        Command::Demo(options) => ("demo", demo::run(&options)),
        Command::Switch(options) => ("switch", switch::run(&options)),
        Command::Allreduce(options) => ("allreduce", allreduce::run(&options)),
        Command::Replay(options) => ("replay", replay::run(&options)),
        Command::Bench(options) => ("bench", bench::run(&options)),
        Command::Worker => (crew::WORKER, crew::work()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            output::note(format_args!("switchml {name}: {error:#}"));
            ExitCode::FAILURE
        }
    }
}
