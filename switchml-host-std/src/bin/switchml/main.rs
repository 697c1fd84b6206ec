//! The `switchml` program: the software switch, a worker for arrays on disk, and what shows that both work.
//!
//! Every subcommand exits with 0 only when what it was asked was done and checked, with 1 after a line on standard
//! error that says what failed, and with 2 if it was asked wrongly.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

mod bench;
mod demo;
mod npy;
mod options;
mod output;
mod replay;

/// All-reduce over UDP with the sum moved into the network.
#[derive(Debug, Parser)]
#[command(name = "switchml", version, propagate_version = true)]
struct Program {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Measure this machine: conversion, core and loopback, against limits measured in the same run
    Bench(bench::Options),
    /// Run a recorded packet trace through the aggregator, and name the first event that differs
    Replay(replay::Options),
}

fn main() -> ExitCode {
    let (name, outcome) = match Program::parse().command {
        Command::Bench(options) => ("bench", bench::run(&options)),
        Command::Replay(options) => ("replay", replay::run(&options)),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            output::note(format_args!("switchml {name}: {error:#}"));
            ExitCode::FAILURE
        }
    }
}
