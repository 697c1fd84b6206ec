//! `switchml-sim`: experiments on simulated links, and random schedules at scale.
#![allow(clippy::print_stdout, reason = "it is a program, and this is its output")]

mod experiments;

use anyhow::Result;
use clap::{Parser, Subcommand};
use experiments::{incast, loss, rate, soak, straggler, trace, window};

/// Runs the protocol's own machines through an emulated network, in virtual time. Experiments write a table and a plot
#[derive(Parser)]
#[command(version)]
struct Options {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Rate(rate::Options),
    Window(window::Options),
    Loss(loss::Options),
    Straggler(straggler::Options),
    Incast(incast::Options),
    Soak(soak::Options),
    Trace(trace::Options),
}

fn main() -> Result<()> {
    match Options::parse().command {
        Command::Rate(options) => rate::run(&options),
        Command::Window(options) => window::run(&options),
        Command::Loss(options) => loss::run(&options),
        Command::Straggler(options) => straggler::run(&options),
        Command::Incast(options) => incast::run(&options),
        Command::Soak(options) => soak::run(&options),
        Command::Trace(options) => trace::run(&options),
    }
}
