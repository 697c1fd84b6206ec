//! Job numbers: drawn at random, and resting after use (W-3).

use super::secret::Secret;
use crate::ids::JobId;
use crate::{Instant, MSL};

/// One octet names a job.
const NUMBERS: usize = 256;

/// Until when each number rests.
#[derive(Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub(super) struct JobNumbers {
    rested_at: [Instant; NUMBERS],
}

impl JobNumbers {
    pub(super) const fn new() -> Self {
        Self { rested_at: [Instant::ZERO; NUMBERS] }
    }

    /// Draws one of the numbers that neither rest nor are in use.
    pub(super) fn draw(
        &self,
        now: Instant,
        secret: &mut Secret,
        in_use: impl Iterator<Item = JobId>,
    ) -> Option<JobId> {
        let mut free = [true; NUMBERS];
        for (free, &rested_at) in free.iter_mut().zip(&self.rested_at) {
            *free = rested_at <= now;
        }
        for JobId(number) in in_use {
            // An octet is a valid index of 256 entries.
            free[usize::from(number)] = false;
        }
        let numbers = || (0..=u8::MAX).zip(free).filter(|&(_, free)| free).map(|(number, _)| JobId(number));
        let count = numbers().count() as u64;
        let choice = secret.draw().checked_rem(count)?;
        numbers().nth(choice as usize)
    }

    /// The number's session has ended; data of it may still be on its way.
    pub(super) fn rest(&mut self, JobId(number): JobId, now: Instant) {
        // An octet is a valid index of 256 entries.
        self.rested_at[usize::from(number)] = now + MSL;
    }
}
