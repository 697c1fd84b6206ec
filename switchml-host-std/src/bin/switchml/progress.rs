//! What is shown while something takes long: a bar on a terminal, and a line for what is waited for.

use core::fmt;
use core::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use switchml_host_std::Waiting;

use crate::options::Loudness;
use crate::output;

/// Shown on standard error. Clones show the same.
#[derive(Clone, Debug)]
pub(crate) struct Progress {
    bar: ProgressBar,
    loudness: Loudness,
}

/// What is counted.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Unit {
    Octets,
    Steps,
}

impl Progress {
    /// Of something that has so many units.
    pub(crate) fn new(total: u64, unit: Unit, loudness: Loudness) -> Self {
        // Where standard error is no terminal, nothing is drawn.
        let bar = if loudness.quiet { ProgressBar::hidden() } else { ProgressBar::new(total) };
        let template = match unit {
            Unit::Octets => "{bar:30} {bytes} of {total_bytes}, {bytes_per_sec}  {msg}",
            Unit::Steps => "{bar:30} {pos} of {len}  {msg}",
        };
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        bar.enable_steady_tick(Duration::from_millis(100));
        Self { bar, loudness }
    }

    pub(crate) fn advance(&self, units: u64) {
        self.bar.set_message("");
        self.bar.inc(units);
    }

    pub(crate) fn waiting(&self, waiting: &Waiting) {
        self.say(waiting.to_string());
    }

    /// Says what goes on: beside the bar if there is one, else as a line.
    pub(crate) fn say(&self, what: String) {
        if !self.bar.is_hidden() {
            self.bar.set_message(what);
        } else if !self.loudness.quiet {
            output::note(what);
        }
    }

    /// A line that stays, above the bar if there is one.
    pub(crate) fn note(&self, what: impl fmt::Display) {
        self.bar.suspend(|| output::note(what));
    }

    pub(crate) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}
