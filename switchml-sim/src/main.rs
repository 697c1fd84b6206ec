//! `switchml-sim`: experiments on simulated links, and random schedules at scale.
#![allow(clippy::print_stdout, reason = "it is a program, and this is its output")]

mod experiments;

use anyhow::Result;
use clap::{Parser, Subcommand};

/// Runs the protocol's own machines through an emulated network, in virtual time.
#[derive(Parser)]
#[command(version)]
struct Options {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Soak(experiments::soak::Options),
}

fn main() -> Result<()> {
    match Options::parse().command {
        Command::Soak(options) => experiments::soak::run(&options),
    }
}
