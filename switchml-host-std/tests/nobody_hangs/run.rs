//! One run: the processes, the blow, and what they said.

use core::net::SocketAddr;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use core::time::Duration;
use std::env;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use crate::check;
use crate::plan::{Blow, LEASE, Moment, Plan, Victim, WORLD};
use crate::program_common::{self, PATIENCE, Running, switch, switchml};
use crate::worker::{self, Call, Said, Task};

/// Workers of the job that is not struck.
const NEIGHBOURS: usize = 2;

/// All that is to be judged.
pub(crate) struct Record {
    pub(crate) address: String,
    /// What the workers said, in order: first those of the job that is struck, by rank, then the neighbours.
    pub(crate) said: Vec<Vec<(Instant, Said)>>,
    /// When the victim was killed or stopped.
    pub(crate) struck: Instant,
    /// When it went on, if it did.
    pub(crate) resumed: Option<Instant>,
    /// Whether the switch has seen all lanes of the victim join.
    pub(crate) victim_joined: bool,
    /// How much later than asked a sleeping thread was woken, at worst.
    pub(crate) machine_late: Duration,
}

/// Plays a run. What is wrong is told with all that was said.
pub(crate) fn run(plan: &Plan) -> Result<String, String> {
    let lateness = Lateness::watch();
    let (mut switch, address) = switch(&format!("-v --lease 1 --lanes {} --metrics 127.0.0.1:0", plan.lanes));
    let metrics = switch.says("metrics on ");
    let metrics =
        metrics.trim_start_matches("metrics on http://").trim_end_matches("/metrics").parse().unwrap();

    let mut workers = Workers::start(plan, &address);
    let (struck, resumed) = workers.strike(plan, &mut switch);
    let said = workers.end(plan)?;
    let victim_joined = has_joined(plan, switch.said_so_far());
    let machine_late = lateness.worst();
    let record = Record { address: address.clone(), said, struck, resumed, victim_joined, machine_late };
    let summary =
        check::check(plan, &record).map_err(|why| format!("{why}\n{}", check::story(plan, &record)))?;

    if (plan.victim, plan.blow) == (Victim::Switch, Blow::Kill) {
        // Another one in its place serves the next job as well.
        let port = address.rsplit(':').next().unwrap();
        switch = Running::start(&mut switchml(&format!(
            "switch --lease 1 --port-base {port} --lanes {}",
            plan.lanes
        )));
        switch.says("listening on ");
    } else {
        no_job_is_left(metrics, &lateness)?;
    }
    next_job(plan, &address)?;
    drop(switch);
    Ok(summary)
}

/// What the switch has told of the victim, if that is a worker.
fn has_joined(plan: &Plan, log: &[String]) -> bool {
    let Victim::Worker(rank) = plan.victim else { return false };
    let created = log.iter().find_map(|line| line.strip_prefix("job struck, run 0: created as "));
    created.is_some_and(|job| log.contains(&format!("job {job}: rank {rank} has joined")))
}

struct Workers {
    children: Vec<Child>,
    said: Vec<Vec<(Instant, Said)>>,
    news: Receiver<(usize, Instant, Option<String>)>,
    /// Workers whose output has ended.
    silent: usize,
}

impl Workers {
    fn start(plan: &Plan, address: &str) -> Self {
        let (sender, news) = mpsc::channel();
        let address = address.parse().unwrap();
        let struck = (0..WORLD).map(|rank| ("struck", rank, WORLD));
        let neighbours = (0..NEIGHBOURS).map(|rank| ("neighbour", rank, NEIGHBOURS));
        let children = struck.chain(neighbours).enumerate().map(|(who, (job, rank, world))| {
            let (job, lanes, elements) = (job.to_owned(), plan.lanes, plan.elements);
            let late = plan.late.filter(|&(late, _)| late == who).map_or(Duration::ZERO, |(_, time)| time);
            start(&Task { address, job, rank, world, lanes, elements, late }, who, sender.clone())
        });
        let children: Vec<_> = children.collect();
        Self { said: vec![Vec::new(); children.len()], children, news, silent: 0 }
    }

    /// Waits for the plan's moment, and strikes. When that was, and when the victim went on.
    fn strike(&mut self, plan: &Plan, switch: &mut Running) -> (Instant, Option<Instant>) {
        let witness = if let Victim::Worker(rank) = plan.victim { rank } else { 0 };
        let moment = match plan.moment {
            Moment::Join => Said::Begins(Call::Join),
            Moment::Collective(round) => Said::Begins(Call::Reduce(round)),
            Moment::Idle(round) => Said::Idles(round),
            Moment::Leave => Said::Begins(Call::Leave),
        };
        let deadline = Instant::now() + PATIENCE;
        while !self.said[witness].iter().any(|(_, said)| *said == moment) {
            self.listen(deadline).unwrap_or_else(|| panic!("{moment:?} did not come: {:?}", self.said));
        }
        thread::sleep(plan.after);
        let worker = &mut self.children[witness];
        let stop = match plan.blow {
            Blow::Kill => {
                match plan.victim {
                    Victim::Worker(_) => worker.kill().unwrap(),
                    Victim::Switch => switch.kill(),
                }
                return (Instant::now(), None);
            }
            Blow::ShortStop(time) | Blow::LongStop(time) => time,
        };
        let id = worker.id();
        let signal = |name: &str| match plan.victim {
            // It may have ended before.
            Victim::Worker(_) => {
                let mut kill = Command::new("kill");
                kill.args([&format!("-{name}"), &id.to_string()]).stderr(Stdio::null());
                kill.status().unwrap();
            }
            Victim::Switch => switch.signal(name),
        };
        signal("STOP");
        let stopped = Instant::now();
        while self.listen(stopped + stop).is_some() {}
        thread::sleep((stopped + stop).saturating_duration_since(Instant::now()));
        signal("CONT");
        (stopped, Some(Instant::now()))
    }

    /// Waits until all workers have ended, and returns what they said.
    fn end(&mut self, plan: &Plan) -> Result<Vec<Vec<(Instant, Said)>>, String> {
        let deadline = Instant::now() + PATIENCE;
        while self.silent < self.children.len() {
            if self.listen(deadline).is_none() {
                return Err(format!("somebody hangs for {PATIENCE:?}: {:#?}", self.said));
            }
        }
        for (who, child) in self.children.iter_mut().enumerate() {
            let ended = child.wait().unwrap();
            let killed = plan.victim == Victim::Worker(who) && plan.blow == Blow::Kill;
            if !ended.success() && !killed {
                return Err(format!("worker {who} ended with {ended}: {:?}", self.said[who]));
            }
        }
        Ok(core::mem::take(&mut self.said))
    }

    /// Waits for a line from a worker; none if none comes in time or nothing can come any more.
    fn listen(&mut self, deadline: Instant) -> Option<()> {
        match self.news.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok((who, at, Some(line))) => self.said[who].extend(worker::heard(&line).map(|said| (at, said))),
            Ok((_, _, None)) => self.silent += 1,
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return None,
        }
        Some(())
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        for child in &mut self.children {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn start(task: &Task, who: usize, news: Sender<(usize, Instant, Option<String>)>) -> Child {
    let mut child = Command::new(env::current_exe().unwrap())
        .args(["--exact", "i6_nobody_hangs", "--nocapture"])
        .env(worker::TASK, serde_json::to_string(task).unwrap())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let output = BufReader::new(child.stdout.take().unwrap());
    thread::spawn(move || {
        for line in output.lines().map_while(Result::ok) {
            let _ = news.send((who, Instant::now(), Some(line)));
        }
        let _ = news.send((who, Instant::now(), None)); // nobody waits any more
    });
    child
}

/// The switch's counters of jobs go back to zero within a lease and a second.
fn no_job_is_left(metrics: SocketAddr, lateness: &Lateness) -> Result<(), String> {
    let start = Instant::now();
    loop {
        let mut stream = TcpStream::connect(metrics).unwrap();
        stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: switch\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let jobs = answer.lines().filter(|line| line.starts_with("switchml_jobs{"));
        let counts: Vec<&str> = jobs.filter_map(|line| line.rsplit(' ').next()).collect();
        assert_eq!(counts.len(), 3, "{answer}");
        if counts.iter().all(|&count| count == "0") {
            return Ok(());
        }
        if start.elapsed() > LEASE + Duration::from_secs(1) + check::slack(lateness.worst()) {
            return Err(format!("jobs are left: {answer}"));
        }
        thread::sleep(Duration::from_millis(20));
    }
}

/// The next job, of the same name, in the program's own words.
fn next_job(plan: &Plan, address: &str) -> Result<(), String> {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: String| directory.path().join(name);
    let input = |rank: usize| (0..1000).map(move |element| (element * (rank + 1)) as f32);
    let workers: Vec<_> = (0..2)
        .map(|rank| {
            let file = program_common::npy(&path(format!("{rank}.npy")), "<f4", "(1000,)", input(rank));
            Running::start(&mut switchml(&format!(
                "allreduce --switch {address} --job struck --rank {rank} --world 2 --lanes {} --timeout 30 --input {} \
                 --output {}",
                plan.lanes,
                file.display(),
                path(format!("sum{rank}.npy")).display()
            )))
        })
        .collect();
    for worker in workers {
        let ended = worker.end();
        if ended.code != Some(0) {
            return Err(format!("the next job: {ended:#?}"));
        }
    }
    let sums: Vec<u8> = (0..1000).flat_map(|element| (3.0 * element as f32).to_le_bytes()).collect();
    for rank in 0..2 {
        if program_common::parts(&path(format!("sum{rank}.npy"))).1 != sums {
            return Err("the next job's sums are wrong".into());
        }
    }
    Ok(())
}

/// How late the machine is: a thread that only sleeps, and looks how long it really was.
struct Lateness {
    worst_micros: Arc<AtomicU64>,
    done: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Lateness {
    const NAP: Duration = Duration::from_millis(5);

    fn watch() -> Self {
        let (worst_micros, done) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let (worst, stop) = (worst_micros.clone(), done.clone());
        let thread = thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                let start = Instant::now();
                thread::sleep(Self::NAP);
                let late = start.elapsed().saturating_sub(Self::NAP);
                worst.fetch_max(late.as_micros() as u64, Ordering::Relaxed);
            }
        });
        Self { worst_micros, done, thread: Some(thread) }
    }

    fn worst(&self) -> Duration {
        Duration::from_micros(self.worst_micros.load(Ordering::Relaxed))
    }
}

impl Drop for Lateness {
    fn drop(&mut self) {
        self.done.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
