//! What must hold of a run.

use core::fmt::Write;
use core::time::Duration;
use std::time::Instant;

use crate::plan::{Blow, LEASE, Plan, Victim, WORLD};
use crate::run::Record;
use crate::worker::{CONNECT_TIMEOUT, Call, Cause, JOIN_TIMEOUT, Outcome, Said};

/// Beyond the lease, the promise.
const SECOND: Duration = Duration::from_secs(1);

/// From the end of a lease to a worker's line here, about four threads and processes must be woken one after the other.
pub(crate) fn slack(machine_late: Duration) -> Duration {
    4 * machine_late
}

/// A call of a worker.
struct Made {
    call: Call,
    began: Instant,
    ended: Instant,
    outcome: Outcome,
}

/// Judges a run; says in a word how it went.
pub(crate) fn check(plan: &Plan, record: &Record) -> Result<String, String> {
    let victim_ended: Vec<Call> = match plan.victim {
        Victim::Worker(rank) => (record.said[rank].iter())
            .filter(|(at, _)| *at < record.struck)
            .filter_map(|(_, said)| if let Said::Ends(call, _) = said { Some(*call) } else { None })
            .collect(),
        Victim::Switch => Vec::new(),
    };
    let (mut right, mut failed) = (0, 0);
    for (who, said) in record.said.iter().enumerate() {
        if plan.victim == Victim::Worker(who) {
            check_victim(said).map_err(|why| format!("the victim: {why}"))?;
            continue;
        }
        let in_words = |why| format!("worker {who}: {why}");
        for made in calls(said).map_err(in_words)? {
            match &made.outcome {
                Outcome::Right => right += 1,
                Outcome::Wrong(element) => return Err(in_words(format!("element {element} is wrong"))),
                Outcome::Failed(cause, words) => {
                    failed += 1;
                    check_failure(plan, record, who, &made, *cause, words).map_err(in_words)?;
                    if who < WORLD && victim_ended.contains(&made.call) && made.call != Call::Join {
                        return Err(in_words(format!("{:?} failed, which the victim had ended", made.call)));
                    }
                }
            }
            check_time(plan, record, &made).map_err(in_words)?;
        }
    }
    Ok(format!(
        "{right} calls went well, {failed} failed as they should, machine late by {:?}",
        record.machine_late
    ))
}

/// A call that failed must have a reason to.
fn check_failure(
    plan: &Plan,
    record: &Record,
    who: usize,
    made: &Made,
    cause: Cause,
    words: &str,
) -> Result<(), String> {
    let call = made.call;
    if who >= WORLD && plan.victim != Victim::Switch {
        return Err(format!("{call:?} failed, which nothing had touched: {words}"));
    }
    if made.ended < record.struck {
        return Err(format!("{call:?} failed before anything had happened: {words}"));
    }
    if let Blow::ShortStop(_) = plan.blow {
        // Unless the machine itself stopped for what was left of the lease.
        if record.machine_late < LEASE / 10 {
            return Err(format!("{call:?} failed, though the lease outlasts the stop: {words}"));
        }
    }
    let right = match plan.victim {
        Victim::Worker(rank) => {
            let names = words.split(|c: char| !c.is_ascii_digit()).any(|number| number == rank.to_string());
            // Of a victim that had joined nobody must wait for the join timeout, but one who came when the job was over.
            let is_late = plan.late.is_some_and(|(late, _)| late == who);
            let never_there = cause == Cause::JoinTimeout && (!record.victim_joined || is_late);
            names && (cause == Cause::RankLost || never_there && call == Call::Join)
        }
        Victim::Switch => {
            let names = words.contains(&format!("the aggregator at {}", port_zero(&record.address)));
            // A switch that goes on may find ranks silent, as they had given it up.
            let silent =
                cause == Cause::RankLost && matches!(plan.blow, Blow::LongStop(_) | Blow::ShortStop(_));
            silent || names && (cause == Cause::AggregatorLost || cause == Cause::SessionUnknown)
        }
    };
    if right { Ok(()) } else { Err(format!("{call:?} failed with {cause:?}: {words}")) }
}

/// The host of an address, since each lane has a port of its own.
fn port_zero(address: &str) -> &str {
    address.rsplit_once(':').map_or(address, |(host, _)| host)
}

/// Every call ends within a lease and a second of the blow, or of its beginning if that was later.
fn check_time(plan: &Plan, record: &Record, made: &Made) -> Result<(), String> {
    let from = match (plan.blow, record.resumed) {
        // What waited for the victim goes on with it.
        (Blow::ShortStop(_), Some(resumed)) => resumed,
        _ => record.struck,
    };
    let mut limit = made.began.max(from) + LEASE + SECOND;
    if made.call == Call::Join {
        limit = match (&made.outcome, plan.victim) {
            // Of one that was never there nobody can tell more.
            (Outcome::Failed(Cause::JoinTimeout, _), _) => limit.max(made.began + JOIN_TIMEOUT + SECOND),
            // No lease begins before the switch has answered.
            (_, Victim::Switch) => limit.max(last_join(record) + CONNECT_TIMEOUT + SECOND),
            (Outcome::Failed(..), Victim::Worker(_)) => limit,
            // All had to come first.
            (Outcome::Right | Outcome::Wrong(_), _) => limit.max(last_join(record) + LEASE + SECOND),
        };
    }
    let late = made.ended.saturating_duration_since(limit + slack(record.machine_late));
    if late.is_zero() {
        return Ok(());
    }
    let took = made.ended.saturating_duration_since(made.began.max(from));
    Err(format!("{:?} took {took:?} from the blow or its beginning, {late:?} too long", made.call))
}

/// When the last worker began to join.
fn last_join(record: &Record) -> Instant {
    let joins = record.said.iter().flatten().filter(|(_, said)| *said == Said::Begins(Call::Join));
    joins.map(|(at, _)| *at).max().unwrap_or(record.struck)
}

/// The victim may fail in any way, but has no wrong sums either, and comes to an end.
fn check_victim(said: &[(Instant, Said)]) -> Result<(), String> {
    match said.iter().find(|(_, said)| matches!(said, Said::Ends(_, Outcome::Wrong(_)))) {
        Some((_, said)) => Err(format!("{said:?}")),
        None => Ok(()),
    }
}

/// Every call that has begun has ended.
fn calls(said: &[(Instant, Said)]) -> Result<Vec<Made>, String> {
    let mut calls = Vec::new();
    let mut open = None;
    for (at, said) in said {
        match said {
            Said::Begins(call) => open = Some((*at, *call)),
            Said::Ends(call, outcome) => match open.take() {
                Some((began, begun)) if begun == *call => {
                    calls.push(Made { call: *call, began, ended: *at, outcome: outcome.clone() });
                }
                other => return Err(format!("{call:?} ended, but {other:?} had begun")),
            },
            Said::Idles(_) => {}
        }
    }
    let last = calls.last().map(|made| (made.call, &made.outcome));
    match (open, last) {
        (None, Some((Call::Leave, _) | (_, Outcome::Failed(..)))) => Ok(calls),
        other => Err(format!("it ended with {other:?}")),
    }
}

/// All that was said, with times from the blow.
pub(crate) fn story(plan: &Plan, record: &Record) -> String {
    let since = |at: Instant| match at.checked_duration_since(record.struck) {
        Some(after) => format!("+{:.3}", after.as_secs_f64()),
        None => format!("-{:.3}", record.struck.duration_since(at).as_secs_f64()),
    };
    let mut story = format!("{:?} struck at 0", plan.victim);
    if let Some(resumed) = record.resumed {
        let _ = write!(story, ", went on at {}", since(resumed));
    }
    for (who, said) in record.said.iter().enumerate() {
        for (at, said) in said {
            let _ = write!(story, "\n  {} worker {who}: {said:?}", since(*at));
        }
    }
    story
}
