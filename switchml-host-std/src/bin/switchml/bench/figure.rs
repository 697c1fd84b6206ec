//! A figure, what it was made of, and what it should be.

use anyhow::Result;
use serde::Serialize;

use super::measure::Spread;
use crate::output;

#[derive(Clone, Debug, Serialize)]
pub(super) struct Figure {
    pub(super) name: String,
    pub(super) place: Place,
    pub(super) value: f64,
    pub(super) unit: &'static str,
    #[serde(flatten)]
    pub(super) limit: Option<Limit>,
    /// The timings that the value was computed from, and those beside it.
    pub(super) timings: Vec<Timing>,
}

/// Where the data was that was worked on.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Place {
    /// More than the caches hold.
    InMemory,
    /// Less than the second-level cache of common processors holds.
    InCache,
    /// UDP between processes of this machine.
    Loopback,
}

impl Place {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::InMemory => "in memory",
            Self::InCache => "in L2 cache",
            Self::Loopback => "loopback",
        }
    }
}

/// What a value should be.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Limit {
    /// What the project aims at.
    pub(super) aim: f64,
    /// More than this is a failure.
    pub(super) limit: f64,
}

#[derive(Clone, Debug, Serialize)]
pub(super) struct Timing {
    pub(super) what: String,
    pub(super) nanoseconds: Spread,
}

impl Timing {
    pub(super) fn new(what: impl Into<String>, nanoseconds: Spread) -> Self {
        Self { what: what.into(), nanoseconds }
    }
}

impl Figure {
    /// How many times as long the `measured` timings took together as those they are measured `against`; of the medians.
    pub(super) fn ratio(
        name: impl Into<String>,
        place: Place,
        limit: Option<Limit>,
        measured: Vec<Timing>,
        against: Vec<Timing>,
    ) -> Self {
        let sum = |timings: &[Timing]| timings.iter().map(|timing| timing.nanoseconds.median).sum::<f64>();
        let value = sum(&measured) / sum(&against);
        let timings = measured.into_iter().chain(against).collect();
        Self { name: name.into(), place, value, unit: "x", limit, timings }
    }

    /// With a timing that tells more, but does not count.
    pub(super) fn beside(mut self, timing: Timing) -> Self {
        self.timings.push(timing);
        self
    }

    pub(super) fn verdict(&self) -> Verdict {
        match self.limit {
            None => Verdict::NoLimit,
            Some(limit) if self.value <= limit.aim => Verdict::AsAimed,
            Some(limit) if self.value <= limit.limit => Verdict::Within,
            Some(_) => Verdict::Over, // NaN too
        }
    }

    pub(super) fn print(&self) -> Result<()> {
        let limit = self.limit.map_or(String::new(), |Limit { aim, limit }| {
            format!("  aim {aim}, limit {limit}: {}", self.verdict().name())
        });
        let value = format!("{:.*} {}", if self.value < 100.0 { 2 } else { 0 }, self.value, self.unit);
        output::line(format_args!("{:<46} {:<12} {value:>10}{limit}", self.name, self.place.name()))?;
        for Timing { what, nanoseconds: Spread { median, min, max } } in &self.timings {
            output::line(format_args!(
                "    {what:<54} {:>10}  ({} to {})",
                duration(*median),
                duration(*min),
                duration(*max)
            ))?;
        }
        Ok(())
    }
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Verdict {
    NoLimit,
    AsAimed,
    Within,
    Over,
}

impl Verdict {
    fn name(self) -> &'static str {
        match self {
            Self::NoLimit => "",
            Self::AsAimed => "as aimed",
            Self::Within => "within",
            Self::Over => "OVER",
        }
    }
}

fn duration(nanoseconds: f64) -> String {
    match nanoseconds {
        ..1e3 => format!("{nanoseconds:.1} ns"),
        ..1e6 => format!("{:.1} us", nanoseconds / 1e3),
        ..1e9 => format!("{:.1} ms", nanoseconds / 1e6),
        _ => format!("{:.2} s", nanoseconds / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::{Figure, Limit, Place, Spread, Timing, Verdict};

    fn ratio(measured: f64, against: f64) -> Figure {
        let timing = |median| vec![Timing::new("", Spread { median, min: median, max: median })];
        let limit = Some(Limit { aim: 2.0, limit: 4.0 });
        Figure::ratio("", Place::InMemory, limit, timing(measured), timing(against))
    }

    #[test]
    fn a_figure_over_its_limit_is_over() {
        assert_eq!(ratio(2.0, 1.0).verdict(), Verdict::AsAimed);
        assert_eq!(ratio(4.0, 1.0).verdict(), Verdict::Within);
        assert_eq!(ratio(4.1, 1.0).verdict(), Verdict::Over);
        assert_eq!(ratio(0.0, 0.0).verdict(), Verdict::Over);
    }
}
