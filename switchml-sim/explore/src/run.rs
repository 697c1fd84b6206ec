//! Runs explorations, and tells what came of them.

use core::sync::atomic::{AtomicUsize, Ordering};
use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};
use std::thread;
use std::time::Instant;

use stateright::{Checker, HasDiscoveries, Model};

use crate::aggregate::Aggregate;
use crate::fault::Fault;
use crate::model::{ENDS, Exploration};
use crate::scenario::Scenario;
use crate::trace;

/// What came of one scenario.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) states: usize,
    /// Longest of the shortest paths from the start to a state.
    pub(crate) depth: usize,
    /// Different states of one aggregator, and of all workers.
    pub(crate) machines: (usize, usize),
    pub(crate) time: Duration,
    pub(crate) violation: Option<Violation>,
}

/// A schedule after which something does not hold.
#[derive(Debug)]
pub(crate) struct Violation {
    pub(crate) property: &'static str,
    /// Shortest there is, a line for each step.
    pub(crate) trace: Vec<String>,
}

/// What an exploration ends with, unless it has seen every state.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Until {
    /// Anything does not hold.
    AnyFault,
    /// A wrong sum is accepted, whatever else does not hold.
    WrongSum,
}

/// Explores one scenario: every state, or until something does not hold. One thread, so that the search is by breadth, and
/// a trace is as short as any.
pub(crate) fn explore<A: Aggregate>(scenario: &Scenario, until: Until) -> Outcome {
    let began = Instant::now();
    let wrong = Fault::WrongResult.name();
    let finish_when = match until {
        Until::AnyFault => HasDiscoveries::AnyFailures,
        Until::WrongSum => HasDiscoveries::AnyOf(BTreeSet::from([wrong])),
    };
    let checker =
        Exploration::<A>::new(scenario.clone()).checker().finish_when(finish_when).spawn_bfs().join();
    let discoveries = checker.discoveries();
    let broken = match until {
        Until::AnyFault => discoveries.iter().find(|(name, _)| **name != ENDS),
        Until::WrongSum => discoveries.get_key_value(wrong),
    };
    let violation = match broken {
        Some((property, path)) => {
            let steps = path.clone().into_vec();
            Some(Violation { property, trace: trace::lines(checker.model(), &steps) })
        }
        None if !discoveries.contains_key(ENDS) => {
            Some(Violation { property: "the collectives end in some schedule", trace: Vec::new() })
        }
        None => None,
    };
    let machines = checker.model().machines();
    Outcome {
        states: checker.unique_state_count(),
        depth: checker.max_depth(),
        machines: (machines.aggregator.len(), machines.workers.iter().map(crate::states::States::len).sum()),
        time: began.elapsed(),
        violation,
    }
}

/// Explores each scenario, on as many threads as the machine has; counts and times go to stdout, and how many scenarios
/// break each property.
///
/// Returns the shortest schedule that breaks something, if any does.
pub(crate) fn explore_all<A: Aggregate>(set: &[Scenario], until: Until) -> Option<(Scenario, Violation)> {
    let began = Instant::now();
    let next = AtomicUsize::new(0);
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let explore_some = || {
        let mut outcomes = Vec::new();
        while let Some(scenario) = set.get(next.fetch_add(1, Ordering::Relaxed)) {
            let outcome = explore::<A>(scenario, until);
            report(scenario, &outcome);
            outcomes.push((scenario.clone(), outcome));
        }
        outcomes
    };
    let outcomes: Vec<_> = thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(explore_some)).collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("explorations do not panic")).collect()
    });
    summary(&outcomes, began.elapsed());
    let broken = outcomes.into_iter().filter_map(|(scenario, outcome)| Some((scenario, outcome.violation?)));
    let mut broken: Vec<_> = broken.collect();
    let mut properties = BTreeMap::<_, usize>::new();
    for (_, violation) in &broken {
        *properties.entry(violation.property).or_default() += 1;
    }
    tell_broken(&properties);
    broken.sort_by_key(|(scenario, violation)| (violation.trace.len(), scenario.to_string()));
    broken.into_iter().next()
}

/// What does not hold, where, and after which steps.
pub(crate) fn describe(scenario: &Scenario, violation: &Violation) -> String {
    let mut text = format!("does not hold: {}\nscenario: one {scenario}\n", violation.property);
    for (step, line) in violation.trace.iter().enumerate() {
        text += &format!("{:4}. {line}\n", step + 1);
    }
    text
}

#[allow(clippy::print_stdout, reason = "the figures are what the program is for")]
fn report(scenario: &Scenario, outcome: &Outcome) {
    let Outcome { states, depth, machines: (aggregator, workers), time, violation } = outcome;
    let verdict = if violation.is_some() { "BROKEN" } else { "sound" };
    println!(
        "{verdict:6} {states:9} states, depth {depth:3}, {aggregator:6} of the aggregator, {workers:5} of workers, \
         {:7.2} s  {scenario}",
        time.as_secs_f64()
    );
}

#[allow(clippy::print_stdout, reason = "the figures are what the program is for")]
fn summary(outcomes: &[(Scenario, Outcome)], time: Duration) {
    let mut totals = BTreeMap::<_, (usize, usize, Duration)>::new();
    let (mut scenarios, mut states) = (0, 0);
    for (scenario, outcome) in outcomes {
        let total = totals.entry((scenario.workers, scenario.window)).or_default();
        total.0 += 1;
        total.1 += outcome.states;
        total.2 += outcome.time;
        scenarios += 1;
        states += outcome.states;
    }
    println!("\n  n   W  scenarios      states   thread time");
    for ((workers, window), (scenarios, states, time)) in totals {
        println!("{workers:3} {window:3} {scenarios:10} {states:11} {:11.1} s", time.as_secs_f64());
    }
    println!("{scenarios} scenarios, {states} states in {:.1} s", time.as_secs_f64());
}

#[allow(clippy::print_stdout, reason = "the figures are what the program is for")]
fn tell_broken(properties: &BTreeMap<&str, usize>) {
    for (property, scenarios) in properties {
        println!("broken in {scenarios} scenarios: {property}");
    }
}
