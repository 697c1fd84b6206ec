//! Options that several subcommands share, and what values they take.

use core::time::Duration;

use clap::Args;
use switchml_host_std::{Builder, CannotPlace, Cpus, Faults, ScalingFactor, SocketCalls};
use switchml_proto::{ChunkSize, InvalidId, LaneCount, Rank, Window, WorldSize};

/// How a job's packets are cut and spread; the same for all members of a job.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct LaneOptions {
    /// Elements a packet: 32, 64, ... 2048
    #[arg(long, value_name = "K", default_value = "256", value_parser = chunk)]
    pub(crate) chunk: ChunkSize,
    /// Slots a lane, a power of two: packets that may be on their way at the same time
    #[arg(long, value_name = "W", default_value = "128", value_parser = window)]
    pub(crate) window: Window,
    /// Independent streams, each with a thread and a port of its own
    #[arg(long, value_name = "L", default_value = "1", value_parser = lanes)]
    pub(crate) lanes: LaneCount,
}

/// How datagrams come and go.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct SocketOptions {
    /// System calls that move datagrams: segmented, batched or single; slower ones where the system has not got these
    #[arg(long, value_name = "CALLS", default_value_t)]
    pub(crate) socket_calls: SocketCalls,
    /// Microseconds at most that a thread goes on looking for packets before it sleeps; 0: it never does
    #[arg(long, value_name = "US", default_value = "50", value_parser = microseconds)]
    pub(crate) spin: Duration,
}

/// Where threads run.
#[derive(Args, Clone, Debug)]
pub(crate) struct PlacementOptions {
    /// Processors for the lanes' threads, as 0,2 or 4-7: lane l gets the l-th of them. Linux only
    #[arg(long, value_name = "LIST")]
    pub(crate) cpus: Option<Cpus>,
}

impl PlacementOptions {
    /// Places this thread, from which blocking calls serve lane 0, and the threads of the lanes.
    pub(crate) fn place(&self, builder: Builder) -> Result<Builder, CannotPlace> {
        let Some(cpus) = &self.cpus else { return Ok(builder) };
        cpus.place(0)?;
        Ok(builder.cpus(cpus.clone()))
    }
}

/// How much is said.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct Loudness {
    /// Say nothing but errors, and what `--json` asks for
    #[arg(short, long, conflicts_with = "verbose")]
    pub(crate) quiet: bool,
    /// Say more
    #[arg(short, long)]
    pub(crate) verbose: bool,
}

/// Faults that the software switch injects into data packets, in each direction and for each worker separately.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct FaultOptions {
    /// For testing: share of data packets that are lost, 0 to 1
    #[arg(long, value_name = "SHARE", default_value = "0", value_parser = share)]
    pub(crate) loss: f64,
    /// For testing: share of data packets that arrive twice
    #[arg(long, value_name = "SHARE", default_value = "0", value_parser = share)]
    pub(crate) duplicate: f64,
    /// For testing: share of data packets that are held back behind the next few
    #[arg(long, value_name = "SHARE", default_value = "0", value_parser = share)]
    pub(crate) reorder: f64,
    /// For testing: which data packets meet these faults
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) fault_seed: u64,
}

impl FaultOptions {
    /// None where none are asked for.
    pub(crate) fn faults(&self) -> anyhow::Result<Option<Faults>> {
        if self.loss == 0.0 && self.duplicate == 0.0 && self.reorder == 0.0 {
            return Ok(None);
        }
        Ok(Some(Faults::new(self.loss, self.duplicate, self.reorder, self.fault_seed)?))
    }
}

pub(crate) fn chunk(text: &str) -> Result<ChunkSize, String> {
    number(text, ChunkSize::from_elements)
}

fn window(text: &str) -> Result<Window, String> {
    number(text, Window::new)
}

pub(crate) fn lanes(text: &str) -> Result<LaneCount, String> {
    number(text, LaneCount::new)
}

pub(crate) fn rank(text: &str) -> Result<Rank, String> {
    number(text, Rank::new)
}

pub(crate) fn world_size(text: &str) -> Result<WorldSize, String> {
    number(text, WorldSize::new)
}

pub(crate) fn factor(text: &str) -> Result<ScalingFactor, String> {
    let factor = text.parse().map_err(|_| "not a number".to_owned())?;
    ScalingFactor::new(factor).map_err(|error| error.to_string())
}

fn number<T>(text: &str, new: impl Fn(usize) -> Result<T, InvalidId>) -> Result<T, String> {
    let number = text.parse().map_err(|_| "not a whole number".to_owned())?;
    new(number).map_err(|error| error.to_string())
}

fn share(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(share) if (0.0..=1.0).contains(&share) => Ok(share),
        _ => Err("not a number from 0 to 1".to_owned()),
    }
}

/// Whole microseconds, up to a second.
fn microseconds(text: &str) -> Result<Duration, String> {
    match text.parse() {
        Ok(microseconds @ 0..=1_000_000) => Ok(Duration::from_micros(microseconds)),
        _ => Err("not a whole number of microseconds from 0 to 1000000".to_owned()),
    }
}

/// Seconds, as `5` or `0.25`; at least a millisecond.
pub(crate) fn seconds(text: &str) -> Result<Duration, String> {
    let refused = || "not a number of seconds from 0.001 to 86400".to_owned();
    let seconds: f64 = text.parse().map_err(|_| refused())?;
    if !(0.001..=86_400.0).contains(&seconds) {
        return Err(refused());
    }
    Ok(Duration::from_secs_f64(seconds))
}

#[cfg(test)]
mod tests;
