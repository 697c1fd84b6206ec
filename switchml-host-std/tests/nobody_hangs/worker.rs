//! A worker process: joins, reduces, checks, idles and leaves, and tells of each call when it begins and when it ends.

use core::net::SocketAddr;
use core::time::Duration;
use std::io::Write;

use serde::{Deserialize, Serialize};
use switchml_host_std::{Communicator, Error, ReduceOp, SessionFailure};

use crate::plan::ROUNDS;

/// The environment variable with the task.
pub(crate) const TASK: &str = "NOBODY_HANGS_TASK";

/// How long the aggregator may be silent at the start.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// How long others may take to join.
pub(crate) const JOIN_TIMEOUT: Duration = Duration::from_secs(5);
/// How long the application computes between two collectives.
const IDLE: Duration = Duration::from_millis(80);

#[derive(Deserialize, Serialize)]
pub(crate) struct Task {
    pub(crate) address: SocketAddr,
    pub(crate) job: String,
    pub(crate) rank: usize,
    pub(crate) world: usize,
    pub(crate) lanes: usize,
    pub(crate) elements: usize,
    /// How long it is late.
    pub(crate) late: Duration,
}

/// What a worker tells.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) enum Said {
    Begins(Call),
    Ends(Call, Outcome),
    Idles(usize),
}

#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) enum Call {
    Join,
    Reduce(usize),
    Leave,
}

#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) enum Outcome {
    /// It went well; of a collective: every element is the exact sum.
    Right,
    /// The first element that is not.
    Wrong(usize),
    /// Its error, as a kind and in words.
    Failed(Cause, String),
}

/// The errors that a kill or a stop may lead to.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) enum Cause {
    /// A rank gave no sign of life for a lease.
    RankLost,
    /// Ranks did not join in time.
    JoinTimeout,
    /// The aggregator never answered, or does not any more.
    AggregatorLost,
    /// The aggregator does not know the session any more.
    SessionUnknown,
    /// Any other.
    Other,
}

/// Does the task. The lines go to standard output with a mark, as the test harness writes there too.
pub(crate) fn work(task: &str) {
    let task: Task = serde_json::from_str(task).unwrap();
    let _ = play(&task); // the error was told
}

/// What a worker said, if that is what the line is.
pub(crate) fn heard(line: &str) -> Option<Said> {
    serde_json::from_str(line.split_once(MARK)?.1).ok()
}

const MARK: &str = "@ ";

fn play(task: &Task) -> Result<(), Error> {
    std::thread::sleep(task.late);
    let mut communicator = call(Call::Join, || {
        Communicator::builder(task.address)
            .job(&task.job)
            .rank(task.rank)
            .world_size(task.world)
            .lanes(task.lanes)
            .connect_timeout(CONNECT_TIMEOUT)
            .join_timeout(JOIN_TIMEOUT)
            .connect()
            .map(|communicator| (communicator, Outcome::Right))
    })?;
    for round in 0..ROUNDS {
        // Integers, and floating point numbers that are whole: both have exact sums.
        let whole: Vec<i32> = (0..task.elements).map(|element| input(task.rank, round, element)).collect();
        let sum = |element| (0..task.world).map(|rank| input(rank, round, element)).sum::<i32>();
        let judge = |wrong: Option<usize>| wrong.map_or(Outcome::Right, Outcome::Wrong);
        if round % 2 == 0 {
            let mut tensor: Vec<f32> = whole.iter().map(|&x| x as f32).collect();
            call(Call::Reduce(round), || {
                communicator.all_reduce(&mut tensor, ReduceOp::Sum)?;
                let wrong = (0..task.elements).find(|&element| tensor[element] != sum(element) as f32);
                Ok(((), judge(wrong)))
            })?;
        } else {
            let mut tensor = whole;
            call(Call::Reduce(round), || {
                communicator.all_reduce(&mut tensor, ReduceOp::Sum)?;
                Ok(((), judge((0..task.elements).find(|&element| tensor[element] != sum(element)))))
            })?;
        }
        say(&Said::Idles(round));
        std::thread::sleep(IDLE);
    }
    call(Call::Leave, || communicator.leave().map(|()| ((), Outcome::Right)))
}

/// Small enough that sums are exact in binary32.
fn input(rank: usize, round: usize, element: usize) -> i32 {
    ((element * 31 + rank * 1009 + round * 7919) % 2001) as i32 - 1000
}

fn call<T>(which: Call, run: impl FnOnce() -> Result<(T, Outcome), Error>) -> Result<T, Error> {
    say(&Said::Begins(which));
    match run() {
        Ok((value, outcome)) => {
            say(&Said::Ends(which, outcome));
            Ok(value)
        }
        Err(error) => {
            say(&Said::Ends(which, Outcome::Failed(cause(&error), error.to_string())));
            Err(error)
        }
    }
}

fn cause(error: &Error) -> Cause {
    match error {
        Error::JoinTimeout { .. } => Cause::JoinTimeout,
        Error::AggregatorSilent { .. } => Cause::AggregatorLost,
        Error::Session { failure, .. } => match failure {
            SessionFailure::RankLost { .. } => Cause::RankLost,
            SessionFailure::AggregatorLost { .. } => Cause::AggregatorLost,
            SessionFailure::AggregatorRestarted { .. } => Cause::SessionUnknown,
            _ => Cause::Other,
        },
        _ => Cause::Other,
    }
}

fn say(what: &Said) {
    // One write, so that nothing comes between; who does not listen any more is gone, and so is this process soon.
    let line = format!("\n{MARK}{}\n", serde_json::to_string(what).unwrap());
    let _ = std::io::stdout().lock().write_all(line.as_bytes());
    let _ = std::io::stdout().flush();
}
