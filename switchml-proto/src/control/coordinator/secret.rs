//! What the coordinator draws from its seed with SipHash-2-4: cookies and random numbers.

use core::fmt;
use core::hash::Hasher;
use core::net::{IpAddr, SocketAddr};
use core::time::Duration;

use siphasher::sip::SipHasher24;

use crate::Instant;
use crate::ids::{LaneId, Nonce};

/// How long a cookie is given out; it is valid for this epoch and the next one, 8 to 16 s (C-1).
const EPOCH: Duration = Duration::from_secs(8);

/// How long a join may be believed at most, from its cookie's challenge on.
pub(super) const COOKIE_LIFE: Duration = Duration::from_secs(16);

type Key = (u64, u64);

/// The seed, and how many numbers were drawn from it.
pub(super) struct Secret {
    cookies: Key,
    draws: Key,
    drawn: u64,
}

impl Secret {
    pub(super) fn new(seed: &[u8; 32]) -> Self {
        let word = |i: usize| {
            // 8 octets of the seed's 32, for i from 0 to 3.
            seed.iter().skip(8 * i).take(8).fold(0, |word, &octet| word << 8 | u64::from(octet))
        };
        Self { cookies: (word(0), word(1)), draws: (word(2), word(3)), drawn: 0 }
    }

    /// The cookie that proves that this address hears us. It is never 0, which stands for none.
    pub(super) fn cookie(&self, now: Instant, from: SocketAddr, lane: LaneId, nonce: Nonce) -> u64 {
        self.cookie_of(epoch(now), from, lane, nonce)
    }

    /// Whether the cookie was given to this address, lane and nonce in this epoch or the one before.
    pub(super) fn is_valid(
        &self,
        cookie: u64,
        now: Instant,
        from: SocketAddr,
        lane: LaneId,
        nonce: Nonce,
    ) -> bool {
        let epoch = epoch(now);
        let before = epoch.checked_sub(1);
        cookie == self.cookie_of(epoch, from, lane, nonce)
            || before.is_some_and(|before| cookie == self.cookie_of(before, from, lane, nonce))
    }

    /// The next random number.
    pub(super) fn draw(&mut self) -> u64 {
        let mut hasher = SipHasher24::new_with_keys(self.draws.0, self.draws.1);
        hasher.write(&self.drawn.to_be_bytes());
        self.drawn = self.drawn.wrapping_add(1);
        hasher.finish()
    }

    fn cookie_of(&self, epoch: u64, from: SocketAddr, lane: LaneId, nonce: Nonce) -> u64 {
        let mut hasher = SipHasher24::new_with_keys(self.cookies.0, self.cookies.1);
        match from.ip() {
            IpAddr::V4(ip) => hasher.write(&ip.octets()),
            IpAddr::V6(ip) => hasher.write(&ip.octets()),
        }
        hasher.write(&from.port().to_be_bytes());
        hasher.write(&[lane.get()]);
        hasher.write(&nonce.0.to_be_bytes());
        hasher.write(&epoch.to_be_bytes());
        hasher.finish().max(1)
    }
}

fn epoch(now: Instant) -> u64 {
    now.as_nanos() / EPOCH.as_nanos() as u64
}

/// Keeps it to itself.
impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Secret").finish_non_exhaustive()
    }
}

#[cfg(feature = "defmt")]
impl defmt::Format for Secret {
    fn format(&self, f: defmt::Formatter<'_>) {
        defmt::write!(f, "Secret {{ .. }}");
    }
}
