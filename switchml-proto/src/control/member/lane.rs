//! How far one lane of a member has joined.

use core::time::Duration;

use crate::Instant;
use crate::control::pace::Pace;

/// How often at least a lane that waits for other ranks repeats its join: it renews the lease, and fetches a ready
/// welcome that was lost.
const WAITING: Duration = Duration::from_millis(250);
/// Repetitions in a lease at least, so that a few losses do not cost it.
const WAITING_IN_A_LEASE: u32 = 12;
/// No wait is shorter, whatever lease a member is told.
const SHORTEST_WAIT: Duration = Duration::from_millis(1);
/// The shortest time between a join with a cookie and the next one that a new cookie causes.
const COOKIE_GAP: Duration = Duration::from_millis(20);
/// The longest wait between two joins to an aggregator that has answered: so many fit in the connect timeout
/// that a path with heavy losses is not taken for a small one.
const LONGEST_AFTER_CHALLENGE: Duration = Duration::from_millis(125);
/// With fewer padded joins unanswered, bad luck is as likely as a small path.
const TELLING_ATTEMPTS: u32 = 3;

/// One lane's part of joining.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub(super) struct Lane {
    cookie: Option<u64>,
    /// Joins sent with a cookie.
    attempts: u32,
    last_sent: Instant,
    pace: Pace,
    path: Path,
    /// What keeps it from being welcomed, as far as answers tell.
    obstacle: Obstacle,
    progress: Progress,
    /// How long it waits between joins once it is welcomed.
    waiting: Duration,
}

/// Whether datagrams as long as data packets were seen to go both ways (W-11).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
enum Path {
    Unproven,
    Proven,
}

/// What the aggregator has said to this lane in the present session.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub(super) enum Progress {
    Asking,
    Welcomed,
    Ready,
}

/// What the next join of a lane looks like.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub(super) enum Shape {
    /// As short as it can be, with this cookie (0 before there is one).
    Short { cookie: u64 },
    /// As long as a full data packet, with this cookie.
    Padded { cookie: u64 },
}

/// Why a lane has not joined.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub(super) enum Obstacle {
    Silence,
    SmallPath,
}

impl Lane {
    pub(super) const fn new(now: Instant) -> Self {
        Self {
            cookie: None,
            attempts: 0,
            last_sent: now,
            pace: Pace::starting(now),
            path: Path::Unproven,
            obstacle: Obstacle::Silence,
            progress: Progress::Asking,
            waiting: WAITING,
        }
    }

    pub(super) const fn is_ready(&self) -> bool {
        matches!(self.progress, Progress::Ready)
    }

    pub(super) const fn is_proven(&self) -> bool {
        matches!(self.path, Path::Proven)
    }

    /// When the next join is due; `None` if there is none to send.
    pub(super) fn due(&self) -> Option<Instant> {
        (!self.is_ready()).then(|| self.pace.due())
    }

    /// The join to send now, if one is due. It counts as sent.
    pub(super) fn next_join(&mut self, now: Instant) -> Option<Shape> {
        if self.is_ready() || !self.pace.is_due(now) {
            return None;
        }
        self.pace.sent(now);
        self.last_sent = now;
        let Some(cookie) = self.cookie else { return Some(Shape::Short { cookie: 0 }) };
        match self.progress {
            Progress::Asking => self.pace.not_later_than(now + LONGEST_AFTER_CHALLENGE),
            Progress::Welcomed | Progress::Ready => self.pace.restart(now + self.waiting),
        }
        self.attempts = self.attempts.saturating_add(1);
        // Where the path is too small for a padded join, every third one is short, so that the aggregator can
        // say which chunk would fit.
        let short = self.progress == Progress::Welcomed || self.attempts.is_multiple_of(3);
        Some(if short { Shape::Short { cookie } } else { Shape::Padded { cookie } })
    }

    /// A challenge came; whether its cookie is new.
    pub(super) fn challenged(&mut self, now: Instant, cookie: u64) -> bool {
        if self.cookie == Some(cookie) {
            self.heard_short();
        }
        if self.is_ready() || self.cookie == Some(cookie) {
            return false;
        }
        // A cookie that replaces another one waits a little, so that two cookies cannot chase each other.
        let at = if self.cookie.is_some() { now.max(self.last_sent + COOKIE_GAP) } else { now };
        self.cookie = Some(cookie);
        // An aggregator that was restarted has forgotten this lane, and wants its path proven again.
        self.progress = Progress::Asking;
        self.pace.restart(at);
        true
    }

    /// A short answer came. If it is to a short join, the padded ones before it had none.
    pub(super) fn heard_short(&mut self) {
        if self.attempts >= TELLING_ATTEMPTS {
            self.obstacle = Obstacle::SmallPath;
        }
    }

    /// A welcome as long as a data packet came: the path is good.
    pub(super) const fn prove(&mut self) {
        self.path = Path::Proven;
    }

    /// A welcome of the present session came. Ready stays ready: a late copy may say less.
    pub(super) fn welcomed(&mut self, now: Instant, progress: Progress, lease: Duration) {
        if !self.is_ready() {
            self.progress = progress;
            self.waiting = (lease / WAITING_IN_A_LEASE).clamp(SHORTEST_WAIT, WAITING);
            self.pace.restart(now + self.waiting);
        }
    }

    /// Another session has taken the place of the one that welcomed this lane: it must ask again.
    pub(super) fn forget_welcome(&mut self, now: Instant) {
        if self.progress != Progress::Asking {
            self.progress = Progress::Asking;
            self.pace.restart(now);
        }
    }

    /// What keeps the lane from being welcomed.
    pub(super) const fn obstacle(&self) -> Obstacle {
        self.obstacle
    }
}
