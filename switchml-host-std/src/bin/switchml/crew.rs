//! A software switch in this process, and workers in processes of their own, all on loopback.

use core::net::{Ipv4Addr, SocketAddr};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle};

use anyhow::{Context, Result, anyhow, bail};
use serde::{Deserialize, Serialize};
use switchml_host_std::{Faults, Switch, SwitchConfig, SwitchHandle};

use crate::demo::{Checked, worker};
use crate::options::{LaneOptions, SocketOptions};
use crate::output;

/// The subcommand, not shown to users, that is a worker of a crew.
pub(crate) const WORKER: &str = "worker";

/// What a worker is told, as a line of JSON on its standard input.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Task {
    pub(crate) switch: SocketAddr,
    pub(crate) rank: usize,
    pub(crate) world_size: usize,
    pub(crate) lanes: usize,
    pub(crate) chunk: usize,
    pub(crate) window: usize,
    /// The name of [`SocketCalls`](switchml_host_std::SocketCalls).
    pub(crate) calls: String,
    pub(crate) spin_microseconds: u64,
    pub(crate) elements: usize,
    pub(crate) rounds: u32,
    pub(crate) seed: u64,
    /// Whether results are compared with the exact sums.
    pub(crate) check: bool,
}

/// What a worker tells, each a line of JSON on its standard output.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Message {
    Round(Round),
    /// It waits for something.
    Waiting(String),
    /// All rounds are done, and it has left the job.
    Done {
        packets_sent: u64,
        timeouts: u64,
        overtaken: u64,
    },
    Failed(String),
}

/// A round that a worker has finished.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Round {
    pub(crate) round: u32,
    /// How long the all-reduce took, from a barrier on.
    pub(crate) seconds: f64,
    /// Of all bits of the result.
    pub(crate) hash: String,
    pub(crate) checked: Option<Checked>,
}

/// Packets of all workers of a crew.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(crate) struct Packets {
    pub(crate) sent: u64,
    pub(crate) sent_again_after_timeout: u64,
    pub(crate) sent_again_overtaken: u64,
}

/// What a crew does.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) workers: usize,
    pub(crate) elements: usize,
    pub(crate) rounds: u32,
    pub(crate) seed: u64,
    pub(crate) check: bool,
    pub(crate) lanes: LaneOptions,
    pub(crate) sockets: SocketOptions,
    pub(crate) faults: Option<Faults>,
}

/// All that comes to the one who waits for a crew.
enum News {
    Said(usize, Message),
    /// Nothing more comes from this worker.
    Silent(usize),
    SwitchEnded(String),
}

/// A crew at work. Dropping it ends its processes and its switch.
pub(crate) struct Crew {
    address: SocketAddr,
    sockets: String,
    workers: Vec<Child>,
    readers: Vec<JoinHandle<()>>,
    switch: SwitchHandle,
    news: Receiver<News>,
}

impl Crew {
    /// Starts the switch on free ports, and all workers.
    pub(crate) fn start(plan: &Plan) -> Result<Self> {
        let mut config = SwitchConfig::new(Ipv4Addr::LOCALHOST.into());
        config.port_base = 0;
        config.lanes = plan.lanes.lanes;
        config.faults = plan.faults;
        config.calls = plan.sockets.socket_calls;
        config.spin = plan.sockets.spin;
        config.largest_chunk = plan.lanes.chunk;
        config.slots = config.slots.max(plan.lanes.window.get());
        let switch = Switch::bind(config)?;
        let (address, handle) = (switch.local_addr(), switch.handle());
        let sockets = output::sockets(switch.socket_calls(), switch.receive_buffer());
        let (sender, news) = mpsc::channel();
        let ended = sender.clone();
        thread::Builder::new().name("switchml switch".into()).spawn(move || {
            let why = switch.run().map_or_else(|error| error.to_string(), |()| "it was stopped".into());
            let _ = ended.send(News::SwitchEnded(why)); // nobody waits any more
        })?;
        let mut crew =
            Self { address, sockets, workers: Vec::new(), readers: Vec::new(), switch: handle, news };
        for rank in 0..plan.workers {
            crew.start_worker(plan, rank, &sender)
                .with_context(|| format!("worker {rank} could not be started"))?;
        }
        Ok(crew)
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// What is told of the switch's sockets.
    pub(crate) fn sockets(&self) -> &str {
        &self.sockets
    }

    fn start_worker(&mut self, plan: &Plan, rank: usize, news: &Sender<News>) -> Result<()> {
        let program = std::env::current_exe()?;
        let mut child =
            Command::new(program).arg(WORKER).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let (input, output) = (child.stdin.take(), child.stdout.take());
        // From here on the crew ends it, whatever happens.
        self.workers.push(child);
        let (mut input, output) = (input.context("no pipe")?, output.context("no pipe")?);
        let task = Task {
            switch: self.address,
            rank,
            world_size: plan.workers,
            lanes: plan.lanes.lanes.get().into(),
            chunk: plan.lanes.chunk.elements(),
            window: plan.lanes.window.get().into(),
            calls: plan.sockets.socket_calls.to_string(),
            spin_microseconds: plan.sockets.spin.as_micros().try_into().unwrap_or(u64::MAX),
            elements: plan.elements,
            rounds: plan.rounds,
            seed: plan.seed,
            check: plan.check,
        };
        writeln!(input, "{}", serde_json::to_string(&task)?)?;
        // Its end tells the worker that this process is gone.
        if let Some(child) = self.workers.last_mut() {
            child.stdin = Some(input);
        }
        let news = news.clone();
        self.readers.push(thread::Builder::new().spawn(move || {
            for line in BufReader::new(output).lines() {
                let Ok(message) =
                    line.map_err(anyhow::Error::new).and_then(|line| Ok(serde_json::from_str(&line)?))
                else {
                    break;
                };
                if news.send(News::Said(rank, message)).is_err() {
                    return;
                }
            }
            let _ = news.send(News::Silent(rank)); // nobody waits any more
        })?);
        Ok(())
    }

    /// Waits until all workers are done, and hands on what they say meanwhile.
    pub(crate) fn wait(&mut self, mut said: impl FnMut(usize, Message) -> Result<()>) -> Result<Packets> {
        let mut packets = Packets::default();
        let mut done = vec![false; self.workers.len()];
        while done.contains(&false) {
            match self.news.recv().context("nobody is left to wait for")? {
                News::Said(rank, Message::Done { packets_sent, timeouts, overtaken }) => {
                    packets.sent += packets_sent;
                    packets.sent_again_after_timeout += timeouts;
                    packets.sent_again_overtaken += overtaken;
                    done[rank] = true; // the readers know no other ranks
                }
                News::Said(rank, Message::Failed(error)) => bail!("worker {rank}: {error}"),
                News::Said(rank, message) => said(rank, message)?,
                News::Silent(rank) if done[rank] => {}
                News::Silent(rank) => {
                    let ended = self.workers[rank].wait().context("a worker cannot be waited for")?;
                    bail!("worker {rank} {}", how(ended));
                }
                News::SwitchEnded(why) => bail!("the switch ended: {why}"),
            }
        }
        Ok(packets)
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        for worker in &mut self.workers {
            // Workers that are done end by themselves, and have nothing left to do; killing them is no loss.
            let _ = worker.kill();
            let _ = worker.wait();
        }
        // Its thread waits for members that are gone until their leases end; nobody else has to.
        self.switch.stop();
        for reader in self.readers.drain(..) {
            let _ = reader.join();
        }
    }
}

fn how(ended: ExitStatus) -> String {
    #[cfg(unix)]
    if let Some(signal) = std::os::unix::process::ExitStatusExt::signal(&ended) {
        return format!("was ended by signal {signal} before it was done");
    }
    match ended.code() {
        Some(code) => format!("ended with code {code} before it was done"),
        None => "ended before it was done".into(),
    }
}

/// A worker process: takes its task from standard input, and ends when that ends.
pub(crate) fn work() -> Result<()> {
    let mut line = String::new();
    let mut input = BufReader::new(std::io::stdin());
    input.read_line(&mut line).context("no task on standard input")?;
    let task: Task = serde_json::from_str(&line).map_err(|error| {
        anyhow!("no task on standard input ({error}); this subcommand is for `switchml demo` and `bench`")
    })?;
    thread::spawn(move || {
        // It says nothing more; that it ends means that nobody wants the result any more.
        let _ = std::io::copy(&mut input, &mut std::io::sink());
        std::process::exit(1);
    });
    worker::run(&task)
}
