//! What must come out, computed as plainly as the rules say it, with none of the protocol's own code.
//!
//! [`Lane`] answers packets as an aggregator must, from memory of all that was ever sent. [`reduced`] is what every rank must
//! hold after a collective, and [`deviation`] how far that may be from the exact sum.

mod lane;
mod numbers;

pub use lane::{Answer, Contribution, Lane, Verdict};
pub use numbers::{Deviation, deviation, reduced};
