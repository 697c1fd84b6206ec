//! The SwitchML protocol core.
#![no_std]
#![forbid(unsafe_code)]

use core::time::Duration;

pub mod control;
pub mod ids;
pub mod numeric;
mod time;
pub mod wire;

pub use ids::{
    ChunkSize, InvalidId, JobId, LaneCount, LaneId, LaneLayout, Nonce, Rank, Seq, SessionId, Version, Window,
    WorkerSet, WorldSize,
};
pub use time::Instant;

/// How long a datagram may live in the network: 120 s (section 1).
pub const MSL: Duration = Duration::from_secs(120);
