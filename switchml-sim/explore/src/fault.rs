//! What must not happen.

use core::fmt;

/// What an exploration looks for.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) enum Fault {
    /// I-1, I-2: a worker accepted a result that is not the sum of one contribution of each worker, or twice.
    WrongResult,
    /// Section 3: a buffer was overwritten whose result some worker had not received.
    ShadowLost,
    /// T-1: a collective ended at a worker before all others had started it.
    Unsynchronised,
    /// I-1: a worker sent two packets of one number that say different things.
    TwoContributions,
    /// T-4: a worker met what no member of its session can have sent.
    Impossible,
    /// A worker failed although all members call the same collectives.
    Failed,
    /// I-3: work is left, and `poll_timeout` does not show it, or its time brings nothing.
    Timer,
    /// I-4: a machine panicked.
    Panic,
}

impl Fault {
    pub(crate) const ALL: [Self; 8] = [
        Self::WrongResult,
        Self::ShadowLost,
        Self::Unsynchronised,
        Self::TwoContributions,
        Self::Impossible,
        Self::Failed,
        Self::Timer,
        Self::Panic,
    ];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::WrongResult => {
                "I-1, I-2: every accepted result is the sum of one contribution of each worker"
            }
            Self::ShadowLost => "A-5: no shadow copy is overwritten while a worker needs it",
            Self::Unsynchronised => "T-1: no collective ends before all have started it",
            Self::TwoContributions => "I-1: a packet that is built again says the same",
            Self::Impossible => "T-4: no worker meets what no member can have sent",
            Self::Failed => "D-1: nobody fails where all call the same",
            Self::Timer => "I-3: work left to do shows in poll_timeout",
            Self::Panic => "I-4: no machine panics",
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
