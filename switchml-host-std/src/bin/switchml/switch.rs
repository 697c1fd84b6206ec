//! `switchml switch`: the software switch.

use core::fmt;
use core::net::{IpAddr, SocketAddr};
use core::time::Duration;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;

use anyhow::{Context, Result};
use clap::Args;
use indicatif::ProgressBar;
use serde::Serialize;
use switchml_host_std::{Snapshot, Switch, SwitchConfig, SwitchHandle};
use switchml_proto::control::{CoordinatorEvent, SessionEnd};
use switchml_proto::wire::DEFAULT_PORT_BASE;
use switchml_proto::{ChunkSize, LaneCount, Window};

use crate::options::{self, FaultOptions, Loudness, PlacementOptions, SocketOptions};
use crate::output;

#[derive(Args, Debug)]
pub(crate) struct Options {
    /// Address to listen on; workers on other machines need one of this machine's own
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1")]
    listen: IpAddr,
    /// UDP port of lane 0; lane l has the port l above. 0: any that are free
    #[arg(long, value_name = "PORT", default_value_t = DEFAULT_PORT_BASE)]
    port_base: u16,
    /// Lanes, 1 to 16, each with a port and a thread of its own
    #[arg(long, value_name = "L", default_value = "1", value_parser = options::lanes)]
    lanes: LaneCount,
    /// Slots of each lane, for all jobs together
    #[arg(long, value_name = "N", default_value_t = 4096, value_parser = clap::value_parser!(u16).range(1..=Window::MAX as i64))]
    slots: u16,
    /// Elements of the largest chunk that a job may have
    #[arg(long, value_name = "K", default_value = "2048", value_parser = options::chunk)]
    max_chunk: ChunkSize,
    /// A worker that is not heard for so long ends its job
    #[arg(long, value_name = "SECONDS", default_value = "5", value_parser = options::seconds)]
    lease: Duration,
    /// TCP address that answers `GET /metrics` with counters for Prometheus
    #[arg(long, value_name = "ADDR:PORT")]
    metrics: Option<SocketAddr>,
    #[command(flatten)]
    sockets: SocketOptions,
    #[command(flatten)]
    placement: PlacementOptions,
    #[command(flatten)]
    faults: FaultOptions,
    /// Print the counters of each second as JSON, a line each
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    loudness: Loudness,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    let mut switch = Switch::bind(config(options)?)?;
    let live = if options.loudness.quiet { ProgressBar::hidden() } else { ProgressBar::new_spinner() };
    let (log, loudness) = (live.clone(), options.loudness);
    switch.on_event(move |event| {
        if loudness.verbose || !(loudness.quiet || matches!(event, CoordinatorEvent::Joined { .. })) {
            log.suspend(|| output::note(Event(event)));
        }
    });
    if !options.loudness.quiet {
        greet(options, &switch);
    }
    let handle = switch.handle();
    stop_when_interrupted(handle.clone())?;

    thread::scope(|scope| {
        let (stopped, ended) = mpsc::channel::<()>();
        let counters = scope.spawn(move || tell_counters(options, &handle, &ended, &live));
        let outcome = switch.run();
        drop(stopped);
        // A panic there has told itself.
        let told = counters.join().unwrap_or(Ok(()));
        outcome?;
        told
    })?;
    if !options.loudness.quiet {
        output::note("stopped; all members were told");
    }
    Ok(())
}

fn config(options: &Options) -> Result<SwitchConfig> {
    let mut config = SwitchConfig::new(options.listen);
    config.port_base = options.port_base;
    config.lanes = options.lanes;
    config.slots = options.slots;
    config.largest_chunk = options.max_chunk;
    config.lease = options.lease;
    config.metrics = options.metrics;
    config.calls = options.sockets.socket_calls;
    config.spin = options.sockets.spin;
    config.cpus.clone_from(&options.placement.cpus);
    config.faults = options.faults.faults()?;
    Ok(config)
}

fn greet(options: &Options, switch: &Switch) {
    let lanes = options.lanes.get();
    output::note(format_args!(
        "listening on {}, lanes {lanes}, slots of each {}",
        switch.local_addr(),
        options.slots
    ));
    if let Some(address) = switch.metrics_addr() {
        output::note(format_args!("metrics on http://{address}/metrics"));
    }
    if options.loudness.verbose {
        output::note(output::sockets(switch.socket_calls(), switch.receive_buffer()));
    }
}

/// The first interrupt stops the switch, which tells its members; the second ends the program.
fn stop_when_interrupted(handle: SwitchHandle) -> Result<()> {
    let mut interrupted = false;
    ctrlc::set_handler(move || {
        if interrupted {
            std::process::exit(130); // 128 and SIGINT, as shells say it
        }
        interrupted = true;
        handle.stop();
    })
    .context("no handler for interrupts can be set")
}

/// A line each second: live on a terminal, as JSON where that is asked for.
fn tell_counters(
    options: &Options,
    handle: &SwitchHandle,
    ended: &mpsc::Receiver<()>,
    live: &ProgressBar,
) -> Result<()> {
    let mut before = Totals::default();
    while ended.recv_timeout(Duration::from_secs(1)) == Err(RecvTimeoutError::Timeout) {
        let Some(snapshot) = handle.snapshot() else { break };
        let now = Totals::of(&snapshot);
        live.set_message(now.line(&before));
        if options.json {
            output::json(&now)?;
        }
        before = now;
    }
    live.finish_and_clear();
    Ok(())
}

/// Counters of all jobs that there are now, over lanes and ranks.
#[derive(Debug, Default, Serialize)]
struct Totals {
    jobs: usize,
    members: usize,
    consumed: u64,
    multicast: u64,
    retransmitted: u64,
    ignored: u64,
    rejected: u64,
    unknown_source: u64,
    dropped: u64,
}

impl Totals {
    fn of(snapshot: &Snapshot) -> Self {
        let mut totals = Self { jobs: snapshot.sessions.len(), ..Self::default() };
        for session in &snapshot.sessions {
            totals.members += session.ages.iter().flatten().count();
            for port in &session.ports {
                let counters = &port.counters;
                totals.consumed += counters.consumed;
                totals.multicast += counters.multicast;
                totals.retransmitted += counters.retransmitted;
                totals.ignored += counters.ignored;
                totals.rejected += counters.rejected.iter().sum::<u64>();
            }
        }
        for lane in &snapshot.lanes {
            totals.unknown_source += lane.unknown_source;
            totals.dropped += lane.dropped;
        }
        totals
    }

    fn packets(&self) -> u64 {
        self.consumed + self.multicast + self.retransmitted + self.ignored + self.rejected
    }

    fn line(&self, before: &Self) -> String {
        format!(
            "{} jobs, {} members; {} packets/s; results: {}, sent again: {}, ignored: {}, rejected: {}, dropped: {}",
            self.jobs,
            self.members,
            self.packets().saturating_sub(before.packets()), // jobs that ended are not counted any more
            self.multicast,
            self.retransmitted,
            self.ignored,
            self.rejected + self.unknown_source,
            self.dropped
        )
    }
}

/// A line of the log.
struct Event(CoordinatorEvent);

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            CoordinatorEvent::Created { name, run, job } => {
                write!(f, "job {name}, run {run}: created as {job}")
            }
            CoordinatorEvent::Joined { job, rank } => write!(f, "job {job}: rank {rank} has joined"),
            CoordinatorEvent::Ready { job } => write!(f, "job {job}: all ranks have joined"),
            CoordinatorEvent::Ended { name, run, job, how } => {
                write!(f, "job {name}, run {run} ({job}): ")?;
                match how {
                    SessionEnd::Left => f.write_str("all ranks have left"),
                    SessionEnd::Deserted => f.write_str("given up before all ranks had joined"),
                    SessionEnd::Aborted { reason, culprit: Some(rank) } => {
                        write!(f, "aborted because of rank {rank}: {reason}")
                    }
                    SessionEnd::Aborted { reason, culprit: None } => write!(f, "aborted: {reason}"),
                    SessionEnd::Refused(why) => write!(f, "refused: {why:?}"),
                    _ => write!(f, "ended: {how:?}"),
                }
            }
            event => write!(f, "{event:?}"),
        }
    }
}

#[cfg(test)]
mod tests;
