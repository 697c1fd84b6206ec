//! Processes whose session has ended a moment ago.

use heapless::Deque;

use super::secret::COOKIE_LIFE;
use crate::Instant;
use crate::ids::Nonce;

/// The most processes remembered. Who is forgotten too early can make, by a late copy of a join, a job that nobody
/// keeps alive: it is gone a lease later.
const REMEMBERED: usize = 256;

/// The nonces of such processes, for as long as a late copy of their joins may still carry a good cookie.
#[derive(Debug, Default)]
pub(super) struct Ghosts(Deque<(Nonce, Instant), REMEMBERED>);

impl Ghosts {
    pub(super) fn remember(&mut self, nonce: Nonce, now: Instant) {
        if self.0.is_full() {
            self.0.pop_front();
        }
        // There is room now.
        let _ = self.0.push_back((nonce, now + COOKIE_LIFE));
    }

    pub(super) fn contains(&self, nonce: Nonce, now: Instant) -> bool {
        self.0.iter().any(|&(ghost, until)| ghost == nonce && now <= until)
    }
}
