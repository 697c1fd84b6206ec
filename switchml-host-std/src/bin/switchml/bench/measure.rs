//! Timing: several things in turn, many times, so that a noisy moment meets all of them alike.

use core::time::Duration;
use std::time::Instant;

use serde::Serialize;

/// How long something took, over its repetitions, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Spread {
    pub(super) median: f64,
    pub(super) min: f64,
    pub(super) max: f64,
}

impl Spread {
    /// Of no samples, all is NaN.
    pub(super) fn of(mut samples: Vec<f64>) -> Self {
        samples.sort_unstable_by(f64::total_cmp);
        let at = |index: usize| samples.get(index).copied().unwrap_or(f64::NAN);
        Self { median: at(samples.len() / 2), min: at(0), max: at(samples.len().saturating_sub(1)) }
    }

    /// Of one out of `parts` equal parts.
    pub(super) fn part(self, parts: usize) -> Self {
        let parts = parts as f64;
        Self { median: self.median / parts, min: self.min / parts, max: self.max / parts }
    }
}

/// Times all passes over `state` in turn, `repetitions` times after one that is not counted. A pass says itself how long
/// it took, so that what it prepares is not counted either.
pub(super) fn in_turn<S, const N: usize>(
    repetitions: usize,
    state: &mut S,
    passes: [fn(&mut S) -> Duration; N],
) -> [Spread; N] {
    let mut samples = [const { Vec::new() }; N];
    for repetition in 0..=repetitions {
        for (pass, samples) in passes.iter().zip(&mut samples) {
            let took = pass(state);
            if repetition > 0 {
                samples.push(took.as_nanos() as f64);
            }
        }
    }
    samples.map(Spread::of)
}

/// How long `work` takes.
pub(super) fn time(work: impl FnOnce()) -> Duration {
    let start = Instant::now();
    work();
    start.elapsed()
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::{Spread, in_turn};

    #[test]
    fn a_spread_is_of_the_samples() {
        assert_eq!(Spread::of(vec![3.0, 1.0, 2.0]), Spread { median: 2.0, min: 1.0, max: 3.0 });
        assert_eq!(Spread::of(vec![5.0]), Spread { median: 5.0, min: 5.0, max: 5.0 });
        assert!(Spread::of(vec![]).median.is_nan());
    }

    #[test]
    fn passes_are_timed_in_turn_and_the_first_turn_is_not_counted() {
        let mut turns = Vec::new();
        let [first, second] = in_turn(
            2,
            &mut turns,
            [
                |turns| {
                    turns.push('a');
                    Duration::from_nanos(turns.len() as u64)
                },
                |turns| {
                    turns.push('b');
                    Duration::from_nanos(7)
                },
            ],
        );
        assert_eq!(turns, ['a', 'b', 'a', 'b', 'a', 'b']);
        assert_eq!((first.min, first.max), (3.0, 5.0));
        assert_eq!((second.min, second.max), (7.0, 7.0));
    }
}
