//! A worker of the demo and of `bench`, in a process of its own.

use core::hash::Hasher;
use core::time::Duration;
use std::hash::DefaultHasher;
use std::time::Instant;

use anyhow::{Context, Result};
use switchml_host_std::{Communicator, ReduceOp};

use super::exact::{self, Checked, Wrong};
use super::input::Input;
use crate::crew::{Message, Round, Task};
use crate::output;

/// How long workers wait for each other.
const PATIENCE: Duration = Duration::from_secs(60);

/// Elements that are checked at a time, so that the inputs of all ranks need little memory. A multiple of every chunk
/// size.
const PART: usize = 1 << 16;

/// Does the task, and tells of it on standard output.
pub(crate) fn run(task: &Task) -> Result<()> {
    match work(task) {
        Ok(done) => output::json(&done),
        Err(error) => output::json(&Message::Failed(format!("{error:#}"))),
    }
}

fn work(task: &Task) -> Result<Message> {
    // Before anybody waits for this worker.
    let mut tensor = Vec::new();
    tensor.try_reserve_exact(task.elements).with_context(|| {
        format!("there is no memory for {} elements; use fewer --elements", task.elements)
    })?;
    tensor.resize(task.elements, 0.0);
    let mut communicator = Communicator::builder(task.switch)
        .job("demo")
        .rank(task.rank)
        .world_size(task.world_size)
        .lanes(task.lanes)
        .chunk(task.chunk)
        .window(task.window)
        .socket_calls(task.calls.parse()?)
        .spin(Duration::from_micros(task.spin_microseconds))
        .join_timeout(PATIENCE)
        .stall_time(PATIENCE)
        .on_waiting(|waiting| {
            // If nobody reads it, this process is about to end.
            let _ = output::json(&Message::Waiting(waiting.to_string()));
        })
        .connect()?;
    for round in 0..task.rounds {
        Input::new(task.seed, round, task.rank).fill(&mut tensor);
        communicator.barrier()?;
        let start = Instant::now();
        communicator.all_reduce(&mut tensor, ReduceOp::Sum)?;
        let seconds = start.elapsed().as_secs_f64();
        let checked = if task.check { Some(check(task, round, &tensor)?) } else { None };
        let hash = format!("{:016x}", hash(&tensor));
        output::json(&Message::Round(Round { round, seconds, hash, checked }))?;
    }
    let (mut packets_sent, mut timeouts, mut overtaken) = (0, 0, 0);
    for lane in communicator.lane_stats() {
        packets_sent += lane.sent;
        timeouts += lane.timeouts;
        overtaken += lane.overtaken;
    }
    communicator.leave()?;
    Ok(Message::Done { packets_sent, timeouts, overtaken })
}

/// Compares all elements with the exact sums of what all ranks had.
fn check(task: &Task, round: u32, result: &[f32]) -> Result<Checked> {
    let mut ranks: Vec<_> = (0..task.world_size).map(|rank| Input::new(task.seed, round, rank)).collect();
    let mut inputs = vec![Vec::new(); task.world_size];
    let mut checked = Checked::default();
    for (number, part) in result.chunks(PART).enumerate() {
        for (rank, input) in ranks.iter_mut().zip(&mut inputs) {
            input.resize(part.len(), 0.0);
            rank.fill(input);
        }
        let found = exact::check(&inputs, part, task.chunk).map_err(|wrong| {
            let Wrong { element, result, sum, allowed } = wrong;
            let element = number * PART + element;
            anyhow::anyhow!(
                "round {round}, element {element} is {result:e}, and the exact sum {sum:e} with at most {allowed:e} \
                 of error"
            )
        })?;
        checked = checked.and(found);
    }
    Ok(checked)
}

fn hash(tensor: &[f32]) -> u64 {
    let mut hasher = DefaultHasher::new();
    for element in tensor {
        hasher.write_u32(element.to_bits());
    }
    hasher.finish()
}
