//! Round trip times, and the retransmission timeout that follows from them (T-6, RFC 6298).

use core::time::Duration;

/// Bounds of the retransmission timeout (T-6).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub struct RtoConfig {
    /// Before the first round trip has been measured.
    pub initial: Duration,
    /// Never shorter than this. Not zero.
    pub floor: Duration,
    /// Never longer than this, however often it was doubled. Not below the floor.
    pub ceiling: Duration,
}

impl RtoConfig {
    /// 50 ms, 2 ms and 1 s (the defaults of section 6).
    pub const DEFAULT: Self = Self {
        initial: Duration::from_millis(50),
        floor: Duration::from_millis(2),
        ceiling: Duration::from_secs(1),
    };
}

impl Default for RtoConfig {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// The retransmission timeout of one lane.
#[derive(Clone, Debug)]
pub(crate) struct Rto {
    config: RtoConfig,
    estimate: Option<Estimate>,
    /// How often the timeout is doubled since the last result.
    doublings: u32,
    /// Back-offs that ended since the last round trip was measured.
    unmeasured: u32,
    current: Duration,
}

/// In nanoseconds, at most an hour.
#[derive(Clone, Copy, Debug)]
struct Estimate {
    srtt: i64,
    rttvar: i64,
}

/// Longer round trips count as this long, in nanoseconds.
const LONGEST: i64 = 3_600_000_000_000;

impl Rto {
    pub(crate) fn new(config: RtoConfig) -> Self {
        let mut rto = Self { config, estimate: None, doublings: 0, unmeasured: 0, current: Duration::ZERO };
        rto.update();
        rto
    }

    /// The timeout as it is now, back-off included.
    pub(crate) const fn current(&self) -> Duration {
        self.current
    }

    /// The smoothed round trip time, once one was measured.
    pub(crate) fn srtt(&self) -> Option<Duration> {
        // Never negative: a mean of values that are not.
        self.estimate.map(|estimate| Duration::from_nanos(estimate.srtt.unsigned_abs()))
    }

    /// A timeout has expired. The first time since a result, it becomes four times as long, and says how many packets are
    /// to be sent again, to see whether any gets through. From then on it doubles (RFC 6298 section 5.5), and all that are due
    /// are to be sent again.
    pub(crate) fn expire(&mut self) -> Expiry {
        let expiry = match self.doublings {
            0 => Expiry::Probe { packets: 1u32.checked_shl(self.unmeasured).unwrap_or(u32::MAX) },
            _ => Expiry::All,
        };
        self.doublings = self.doublings.saturating_add(if expiry == Expiry::All { 1 } else { 2 });
        self.update();
        expiry
    }

    /// A result was accepted. `round_trip` is none if its packet was sent more than once (Karn's rule);
    /// `flight` packets were under way, each of which gives a sample of the same round trip.
    ///
    /// Any result ends the back-off. But where the round trip has become longer than the timeout, every packet is sent
    /// twice and none can be measured; so the more back-offs end without a measurement, the longer is the timeout left:
    /// twice as long after 2, 4, 8, ...
    pub(crate) fn accept(&mut self, round_trip: Option<Duration>, flight: u32) -> BackOff {
        let back_off = if self.doublings > 0 { BackOff::Ended } else { BackOff::None };
        match round_trip {
            Some(round_trip) => {
                self.unmeasured = 0;
                self.measure(round_trip, flight);
            }
            None if back_off == BackOff::Ended => self.unmeasured = self.unmeasured.saturating_add(1),
            None => return back_off,
        }
        self.doublings = 0;
        self.update();
        back_off
    }

    /// RFC 6298 section 2, with the gains divided by half the number of samples in a round trip, so that
    /// the memory is as long as with one (RFC 7323 appendix G). A round trip beyond the timeout is news, and counts in full.
    fn measure(&mut self, round_trip: Duration, flight: u32) {
        let sample = i64::try_from(round_trip.as_nanos()).unwrap_or(LONGEST).min(LONGEST);
        let samples = if round_trip > self.base() { 1 } else { flight.div_ceil(2).max(1) };
        let shift = samples.next_power_of_two().trailing_zeros();
        self.estimate = Some(match self.estimate {
            None => Estimate { srtt: sample, rttvar: sample / 2 },
            Some(Estimate { srtt, rttvar }) => {
                let error = sample - srtt;
                Estimate {
                    srtt: srtt + (error >> (3 + shift)),
                    rttvar: rttvar + ((error.abs() - rttvar) >> (2 + shift)),
                }
            }
        });
    }

    /// The timeout without back-off: RFC 6298 section 2, with a margin of at least half a round trip in the place of its
    /// clock granularity. Over a long steady path the variance becomes so small that the least disturbance would look like a
    /// loss.
    fn base(&self) -> Duration {
        let RtoConfig { initial, floor, .. } = self.config;
        let base = match self.estimate {
            None => initial,
            Some(Estimate { srtt, rttvar }) => {
                Duration::from_nanos((srtt + (4 * rttvar).max(srtt / 2)).unsigned_abs())
            }
        };
        base.max(floor)
    }

    fn update(&mut self) {
        let level = self.doublings.saturating_add(self.unmeasured.checked_ilog2().unwrap_or(0));
        let factor = 1u32.checked_shl(level).unwrap_or(u32::MAX);
        self.current = self.base().saturating_mul(factor).min(self.config.ceiling);
    }
}

/// What is to be sent again.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Expiry {
    /// No more than this many.
    Probe { packets: u32 },
    /// All that are due.
    All,
}

/// Whether a result ended a back-off.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum BackOff {
    None,
    Ended,
}

#[cfg(test)]
mod tests;
