//! I-6 in virtual time: a process or the switch stops, goes on or dies at any moment of joining, reducing, thinking and leaving;
//! every call of the others ends in time, with the right sum or with an error that names the cause.
//!
//! `SWITCHML_SIM_RUNS=10000 cargo test -p switchml-sim --test nobody_hangs` makes more of it.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use core::time::Duration;
use std::sync::Arc;

use switchml_proto::control::{CoordinatorConfig, EndReason, MemberConfig};
use switchml_proto::numeric::{ElementType, Reduction};
use switchml_proto::wire::JobName;
use switchml_proto::worker::{Collective, Conversion};
use switchml_proto::{ChunkSize, Instant, LaneCount, Rank, Window, WorldSize};
use switchml_sim::dice::Dice;
use switchml_sim::network::{Lateness, Loss, Profile};
use switchml_sim::oracle;
use switchml_sim::session::{End, Power, ProcessMemory, SwitchMemory, World};
use switchml_sim::tensors::{Call, Elements, Tensors};

const LEASE: Duration = Duration::from_secs(1);
/// An error comes within a lease and this.
const SLACK: Duration = Duration::from_secs(1);
const THINK: Duration = Duration::from_millis(300);
const JOIN_TIMEOUT: Duration = Duration::from_secs(4);

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn calls(dice: &mut Dice, workers: usize) -> Arc<[Call]> {
    (0..2 + dice.below(3))
        .map(|_| {
            let len = dice.below(800);
            let collective =
                Collective::all_reduce(len, ElementType::Float32, Reduction::Sum, Conversion::Block).unwrap();
            let inputs =
                (0..workers).map(|_| Elements::random(dice, ElementType::Float32, len as usize)).collect();
            Call { collective, inputs }
        })
        .collect()
}

/// One job of a run.
struct Job {
    configs: Vec<MemberConfig>,
    memory: Vec<ProcessMemory>,
    calls: Arc<[Call]>,
}

impl Job {
    fn new(dice: &mut Dice, name: &str, workers: usize, lanes: usize) -> Self {
        let config = |rank| {
            let (name, world) = (JobName::new(name).unwrap(), WorldSize::new(workers).unwrap());
            let mut config = MemberConfig::new(name, world, Rank::new(rank).unwrap()).unwrap();
            config.lanes = LaneCount::new(lanes).unwrap();
            (config.window, config.chunk) = (Window::new(4).unwrap(), ChunkSize::MIN);
            (config.connect_timeout, config.join_timeout) = (seconds(2), JOIN_TIMEOUT);
            config
        };
        let configs: Vec<_> = (0..workers).map(config).collect();
        let memory = configs.iter().map(ProcessMemory::new).collect();
        Self { configs, memory, calls: calls(dice, workers) }
    }

    fn start<'m>(&'m mut self, world: &mut World<'m, Tensors>) -> Vec<usize> {
        (self.configs.iter().zip(&mut self.memory).enumerate())
            .map(|(rank, (&config, memory))| {
                let tensors = Tensors::new(rank, config.world_size, self.calls.clone());
                world.join(config, memory, tensors, THINK).unwrap()
            })
            .collect()
    }
}

/// What a process says is finished must be right.
fn check_sums(world: &World<'_, Tensors>, process: usize, calls: &[Call], seed: u64) {
    let (finished, tensors) = world.application(process);
    for (id, call) in calls.iter().enumerate().take(finished as usize) {
        let expected = oracle::reduced(call, ChunkSize::MIN).bits();
        assert_eq!(tensors.data()[id].bits(), expected, "collective {id} of process {process}, seed {seed}");
    }
}

fn profile(dice: &mut Dice) -> Profile {
    let late = Lateness { probability: dice.pick(&[0.0, 0.05]), longest: Duration::from_millis(20) };
    Profile {
        delay: Duration::from_micros(50),
        jitter: Duration::from_micros(dice.pick(&[10, 1000])),
        loss: Loss::Random(dice.pick(&[0.0, 0.01, 0.05])),
        duplication: late,
        reordering: late,
        ..Profile::PERFECT
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Target {
    Process(usize),
    Switch,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    Kill,
    /// It never goes on.
    Stop,
    StopFor(Duration),
    /// A process that dies, or a switch that another one follows.
    Restart(Duration),
}

fn strike(world: &mut World<'_, Tensors>, target: Target, power: Power) {
    match target {
        Target::Process(process) => world.set_power(process, power),
        Target::Switch => world.set_switch_power(power),
    }
}

fn run(seed: u64) {
    let mut dice = Dice::new(seed);
    let (workers, lanes) = (2 + dice.below(4) as usize, 1 + dice.below(2) as usize);
    let mut jobs = ["first", "next"].map(|name| Job::new(&mut dice, name, workers, lanes));
    let calls = [jobs[0].calls.clone(), jobs[1].calls.clone()];
    let mut config = CoordinatorConfig::new(64, LaneCount::new(2).unwrap(), [seed as u8; 32]);
    (config.lease, config.join_timeout, config.largest_chunk) = (LEASE, JOIN_TIMEOUT, ChunkSize::MIN);
    let mut memory = [(); 2].map(|()| SwitchMemory::new(config));
    let mut world = World::new(seed, profile(&mut dice), &mut memory).unwrap();
    let [first, next] = &mut jobs;
    let start = world.now();
    let processes = first.start(&mut world);

    let target = match dice.below(workers as u64 + 1) as usize {
        switch if switch == workers => Target::Switch,
        process => Target::Process(process),
    };
    let pause = Duration::from_millis(50) + dice.time(seconds(3));
    let fault = dice.pick(&[Fault::Kill, Fault::Stop, Fault::StopFor(pause), Fault::Restart(pause)]);
    let struck_at = start + dice.time(Duration::from_millis(1500));
    world.run_until(struck_at, |_| false);
    strike(
        &mut world,
        target,
        if matches!(fault, Fault::Kill | Fault::Restart(_)) { Power::Off } else { Power::Stopped },
    );
    match fault {
        Fault::StopFor(pause) => {
            world.run_until(struck_at + pause, |_| false);
            strike(&mut world, target, Power::On);
        }
        Fault::Restart(pause) if target == Target::Switch => {
            world.run_until(struck_at + pause, |_| false);
            world.restart_switch().unwrap();
        }
        _ => {}
    }
    let resumed_at = world.now();

    // Whoever runs.
    let survives = |process: usize| target != Target::Process(process) || matches!(fault, Fault::StopFor(_));
    let survivors: Vec<_> = processes.iter().copied().filter(|&process| survives(process)).collect();
    let what = format!("seed {seed}: {fault:?} of {target:?} {:?} after the start", struck_at.since(start));
    world.run_until(resumed_at + seconds(30), |world| {
        survivors.iter().all(|&process| world.end(process).is_some())
    });
    for &process in &survivors {
        let (at, end) = world.end(process).unwrap_or_else(|| panic!("process {process} hangs, {what}"));
        check_sums(&world, process, &calls[0], seed);
        let End::Failed(reason) = end else {
            assert_eq!(world.application(process).0, calls[0].len() as u64, "{what}");
            continue;
        };
        // A session that was never ready ends with the join timeout at the latest.
        let itself = target == Target::Process(process);
        let since = if itself { resumed_at } else { struck_at };
        let joining = world.ready_at(process).is_none().then_some(start + JOIN_TIMEOUT);
        let limit = joining.map_or(since, |joining| joining.max(since)) + LEASE + SLACK;
        assert!(at <= limit, "process {process}: {reason:?} at {:?}, {what}", at.since(start));
        // A process that was stopped finds that it has lost the session, however that came.
        if !itself {
            names_the_cause(reason, target, &what);
        }
    }

    // No zombies: at last the leases of the dead run out too.
    if !matches!((target, fault), (Target::Switch, Fault::Kill | Fault::Stop)) {
        let now = world.now();
        world.run_until(now + JOIN_TIMEOUT + 2 * LEASE + SLACK, |world| world.sessions() == (0, 0));
        assert_eq!(world.sessions(), (0, 0), "{what}");
        let processes = next.start(&mut world);
        let now = world.now();
        world.run_until(now + seconds(30), |world| {
            processes.iter().all(|&process| world.end(process).is_some())
        });
        for &process in &processes {
            assert_eq!(world.end(process).map(|(_, end)| end), Some(End::Left), "the next job, {what}");
            check_sums(&world, process, &calls[1], seed);
        }
    }
}

fn names_the_cause(reason: EndReason, target: Target, what: &str) {
    let named = match (reason, target) {
        (EndReason::Aborted { culprit: Some(culprit), .. }, Target::Process(process)) => {
            culprit.index() == process
        }
        (EndReason::JoinTimeout { missing }, Target::Process(process)) => {
            missing.contains(Rank::new(process).unwrap())
        }
        (EndReason::AggregatorLost | EndReason::AggregatorSilent { .. }, Target::Switch) => true,
        // It fell silent after its first answer: to the member that looks as if long datagrams were lost.
        (EndReason::PathTooSmall { .. }, Target::Switch) => true,
        // The switch was away for longer than the leases, or is another one.
        (EndReason::Aborted { .. } | EndReason::JoinTimeout { .. }, Target::Switch) => true,
        _ => false,
    };
    assert!(named, "{reason:?} does not name the cause, {what}");
}

#[test]
fn i6_whoever_stops_or_dies_the_others_calls_return_in_time() {
    let runs = std::env::var("SWITCHML_SIM_RUNS").map_or(500, |runs| runs.parse().unwrap());
    (0..runs).for_each(run);
}

#[test]
fn a_session_without_faults_ends_with_right_sums_and_no_slot_in_use() {
    for seed in 0..50 {
        let mut dice = Dice::new(seed);
        let mut job = Job::new(&mut dice, "job", 1 + seed as usize % 8, 1 + seed as usize % 2);
        let calls = job.calls.clone();
        let mut config = CoordinatorConfig::new(64, LaneCount::new(2).unwrap(), [seed as u8; 32]);
        (config.lease, config.largest_chunk) = (LEASE, ChunkSize::MIN);
        let mut memory = [SwitchMemory::new(config)];
        let mut world = World::new(seed, profile(&mut dice), &mut memory).unwrap();
        let processes = job.start(&mut world);
        world.run_until(Instant::ZERO + seconds(60), |world| {
            processes.iter().all(|&p| world.end(p).is_some())
        });
        for &process in &processes {
            assert_eq!(world.end(process).map(|(_, end)| end), Some(End::Left), "seed {seed}");
            assert_eq!(world.application(process).0, calls.len() as u64);
            check_sums(&world, process, &calls, seed);
        }
        let now = world.now();
        world.run_until(now + LEASE, |_| false);
        assert_eq!(world.sessions(), (0, 0));
    }
}
