//! Every schedule of the SwitchML machines, within bounds.
//!
//! This explores the real [`Worker`](switchml_proto::worker::Worker) and
//! [`Aggregator`](switchml_proto::aggregator::Aggregator), not a model of them. The network is the set of all packets that
//! were ever sent: each may arrive at any time, again, or never. Time, counters and round trip times are no part of a
//! state; a timer may run out whenever it is running. stateright searches the states by breadth.
//!
//! It is for whoever changes the protocol or the machines. What it does **not** do: it does not explore joining and
//! leaving, lanes (they share nothing), or the numeric conversions beyond a few symbols.

mod aggregate;
mod fault;
mod member;
mod model;
mod oracle;
mod packets;
mod published;
mod run;
mod scenario;
mod sets;
mod states;
mod tensors;
mod trace;

#[cfg(test)]
mod tests;

use anyhow::{Result, bail};
use clap::{Parser, Subcommand};

use crate::aggregate::Ours;
use crate::published::Published;
use crate::run::Until;
use crate::scenario::{Flight, Scenario, Sending, Start, Tensor};

/// Explores every schedule of the SwitchML machines, within bounds.
#[derive(Parser)]
struct Options {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Scenarios that take seconds: what mutants are tried with.
    Brief,
    /// Scenarios that take less than two minutes.
    Quick,
    /// All scenarios.
    Full,
    /// The published aggregation algorithm: succeeds if its wrong sum is found, and prints the schedule.
    Published,
    /// One scenario, as the other commands print it.
    One(One),
}

#[derive(clap::Args)]
struct One {
    #[arg(long)]
    workers: usize,
    #[arg(long)]
    window: usize,
    /// Where seqs begin.
    #[arg(long, value_enum, default_value = "zero")]
    start: Start,
    /// When workers hand their packets to the network.
    #[arg(long, value_enum, default_value = "prompt")]
    sending: Sending,
    /// How many packets workers may have in flight.
    #[arg(long, value_enum, default_value = "window")]
    flight: Flight,
    /// The collectives: i (integers) or b (block floating point), and the number of chunks, as in i3,b0.
    #[arg(long, value_delimiter = ',', required = true)]
    tensors: Vec<Tensor>,
    /// What the last rank calls instead.
    #[arg(long, value_delimiter = ',')]
    dissent: Option<Vec<Tensor>>,
}

fn main() -> Result<()> {
    match Options::parse().command {
        Command::Brief => sound(sets::brief()),
        Command::Quick => sound(sets::quick()),
        Command::Full => sound(sets::full()),
        Command::Published => published(),
        Command::One(One { workers, window, start, sending, flight, tensors, dissent }) => {
            sound(vec![Scenario { workers, window, start, sending, flight, tensors, dissent }])
        }
    }
}

/// Explores our machines, which must be found sound.
fn sound(set: Vec<Scenario>) -> Result<()> {
    set.iter().try_for_each(Scenario::check)?;
    match run::explore_all::<Ours>(&set, Until::AnyFault) {
        None => Ok(()),
        Some((scenario, violation)) => bail!("{}", run::describe(&scenario, &violation)),
    }
}

/// Explores the published algorithm, which must be found wrong.
#[allow(clippy::print_stdout, reason = "the schedule is what the command is for")]
fn published() -> Result<()> {
    match run::explore_all::<Published>(&sets::published(), Until::WrongSum) {
        None => bail!("nothing is found wrong with the published algorithm"),
        Some((scenario, violation)) => {
            println!("{}", run::describe(&scenario, &violation));
            Ok(())
        }
    }
}
