//! `switchml bench rank`: one rank of a measurement that a script conducts, as `bench/run` does.
//!
//! The tensors and the timing are those of the programs that measure other implementations, in `bench/ranks`.

use core::time::Duration;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use clap::Args;
use serde::Serialize;
use switchml_host_std::{Communicator, ReduceOp};
use switchml_proto::{Rank, WorldSize};

use crate::options::{self, LaneOptions, PlacementOptions};
use crate::output;

/// Elements after which a tensor repeats. A prime, so that data displaced by a whole chunk does not look right.
const PERIOD: usize = 251;

#[derive(Args, Debug)]
pub(crate) struct Options {
    /// The switch: host:port of its lane 0
    #[arg(long, value_name = "ADDR")]
    switch: String,
    /// Name of the job
    #[arg(long, value_name = "NAME", default_value = "bench")]
    job: String,
    /// This worker's number, from 0
    #[arg(long, value_name = "R", value_parser = options::rank)]
    rank: Rank,
    /// How many workers there are, 1 to 64
    #[arg(long, value_name = "N", value_parser = options::world_size)]
    world: WorldSize,
    /// Octets of each tensor, float32
    #[arg(long, value_name = "N", default_value_t = 100_000_000)]
    octets: usize,
    /// Tensors of a round, reduced one after the other
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    batch: u32,
    /// How often, each time with new tensors; the first round also warms up
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// How long the other workers may take to join, and how long nothing may move then
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = options::seconds)]
    timeout: Duration,
    #[command(flatten)]
    lanes: LaneOptions,
    #[command(flatten)]
    placement: PlacementOptions,
    /// Print the figures as JSON
    #[arg(long)]
    json: bool,
}

/// What a rank has measured.
#[derive(Serialize)]
struct Report {
    rank: u8,
    /// Elements compared with the exact sum, over all rounds: all of them.
    checked: u64,
    /// Of each round, from a barrier on until the last of its tensors is reduced.
    seconds: Vec<f64>,
    packets_sent: u64,
    /// How often a timeout passed; each time, packets may be sent again.
    timeouts: u64,
    sent_again_after_timeout: u64,
    sent_again_overtaken: u64,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    let LaneOptions { chunk, window, lanes } = options.lanes;
    let builder = Communicator::builder(&options.switch)
        .job(&options.job)
        .rank(options.rank.index())
        .world_size(options.world.get().into())
        .chunk(chunk.elements())
        .window(window.get().into())
        .lanes(lanes.get().into())
        .join_timeout(options.timeout)
        .stall_time(options.timeout);
    let mut communicator = options
        .placement
        .place(builder)?
        .connect()
        .with_context(|| format!("job {}, rank {}", options.job, options.rank))?;
    let mut tensors = vec![vec![0.0; options.octets / size_of::<f32>()]; options.batch as usize];
    let (mut checked, mut seconds) = (0, Vec::new());
    for round in 0..options.rounds as usize {
        for (number, tensor) in tensors.iter_mut().enumerate() {
            fill(tensor, options.rank.index(), round, number);
        }
        communicator.barrier()?;
        let start = Instant::now();
        for tensor in &mut tensors {
            communicator.all_reduce(tensor, ReduceOp::Sum)?;
        }
        seconds.push(start.elapsed().as_secs_f64());
        // No rank checks while others still reduce: they share processors.
        communicator.barrier()?;
        for (number, tensor) in tensors.iter().enumerate() {
            check(tensor, options.world.get().into(), round, number)
                .with_context(|| format!("rank {}, round {round}, tensor {number}", options.rank))?;
            checked += tensor.len() as u64;
        }
    }
    let mut report = Report {
        rank: options.rank.get(),
        checked,
        seconds,
        packets_sent: 0,
        timeouts: 0,
        sent_again_after_timeout: 0,
        sent_again_overtaken: 0,
    };
    for lane in communicator.lane_stats() {
        report.packets_sent += lane.sent;
        report.timeouts += lane.expiries;
        report.sent_again_after_timeout += lane.timeouts;
        report.sent_again_overtaken += lane.overtaken;
    }
    communicator.leave()?;
    tell(options, &report)
}

/// One period of the tensor of a rank: whole numbers from -125 to 125, whose sum over all ranks is exact in float32.
fn period(rank: usize, round: usize, number: usize) -> [i32; PERIOD] {
    core::array::from_fn(|place| {
        let element = (place + 37 * rank + 53 * round + 101 * number) % PERIOD;
        element as i32 - (PERIOD / 2) as i32
    })
}

fn fill(tensor: &mut [f32], rank: usize, round: usize, number: usize) {
    let period = period(rank, round, number).map(|element| element as f32);
    for part in tensor.chunks_mut(PERIOD) {
        part.copy_from_slice(&period[..part.len()]); // a part is at most a period long
    }
}

fn check(tensor: &[f32], world: usize, round: usize, number: usize) -> Result<()> {
    let mut sums = [0; PERIOD];
    for rank in 0..world {
        for (sum, element) in sums.iter_mut().zip(period(rank, round, number)) {
            *sum += element;
        }
    }
    for (element, (&result, sum)) in tensor.iter().zip(sums.iter().cycle()).enumerate() {
        ensure!(result == *sum as f32, "element {element} is {result}, and the sum {sum}");
    }
    Ok(())
}

fn tell(options: &Options, report: &Report) -> Result<()> {
    if options.json {
        return output::json(report);
    }
    let octets = f64::from(options.batch) * options.octets as f64;
    for (round, seconds) in report.seconds.iter().enumerate() {
        output::line(format_args!(
            "round {round}: {:.3} ms a tensor, {} of tensor",
            1e3 * seconds / f64::from(options.batch),
            output::rate(8e-9 * octets / seconds)
        ))?;
    }
    output::line(format_args!(
        "{} elements are the exact sum; packets sent: {}, again after {} timeouts: {}, again overtaken: {}",
        report.checked,
        report.packets_sent,
        report.timeouts,
        report.sent_again_after_timeout,
        report.sent_again_overtaken
    ))
}

#[cfg(test)]
mod tests {
    use super::{check, fill};

    #[test]
    fn sums_are_checked_to_the_last_element() {
        let (world, round, number) = (3, 2, 1);
        let mut sums = vec![0.0; 1000];
        for rank in 0..world {
            let mut tensor = vec![0.0; sums.len()];
            fill(&mut tensor, rank, round, number);
            sums.iter_mut().zip(&tensor).for_each(|(sum, element)| *sum += element);
        }
        check(&sums, world, round, number).expect("these are the sums");
        assert!(check(&sums, world, round + 1, number).is_err(), "of another round");
        assert!(check(&sums[256..], world, round, number).is_err(), "displaced by a chunk");
        sums[999] += 1.0;
        let error = check(&sums, world, round, number).expect_err("one is wrong").to_string();
        assert!(error.starts_with("element 999 "), "{error}");
    }
}
