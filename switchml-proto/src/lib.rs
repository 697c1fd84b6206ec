//! The SwitchML protocol core: all-reduce with the sum made in the network.
//!
//! Each of n workers cuts its tensor into chunks of k integers and streams them to an aggregator, which adds them slot
//! by slot and multicasts each finished sum. This crate holds both ends of that, and what starts and ends a session,
//! as state machines that own no socket, no clock and no buffer: datagrams are lent for each call, and time is an
//! argument. The std and bare-metal adapters are thin loops around it.
//!
//! It is for whoever embeds SwitchML: in firmware, in a userspace stack, in a simulator, in a fuzzer. An application
//! that wants to call all-reduce takes a host crate instead.
//!
//! | module | what it does | rules |
//! |---|---|---|
//! | [`wire`] | octets to values and back | W-1 to W-12, section 6 |
//! | [`numeric`] | tensor elements to integers and back | N-1 to N-7 |
//! | [`worker`] | one lane of one rank: which chunk to send, which chunk a result is; retransmission | T-1 to T-9, D-1 |
//! | [`aggregator`] | one lane of the aggregator: slots, shadow copies, bitmaps; it knows no time | A-1 to A-8 |
//! | [`control`] | joining, keep-alive, leaving, abort: a machine for each side | C-1 to C-5 |
//!
//! The rules are those of the protocol text, `docs/protocol.md` in the repository. [`worker`] opens with the loop that
//! drives it, as a test that runs.
//!
//! What it does **not** do: it does not touch tensors but through [`numeric`], it does not log (every outcome is a return
//! value, and counted), it does not authenticate or encrypt, and it does not fragment: a data packet is one datagram.
//!
//! It is `no_std` without `alloc`, forbids `unsafe`, and does not panic on anything that comes from the network. The
//! feature `defmt` adds `defmt::Format` to the public types, and changes nothing else. The feature `snapshot` lets a tool
//! take machines apart from their memory and resume them on copies of it, to try many futures of one state.
//!
#![no_std]
#![forbid(unsafe_code)]

use core::time::Duration;

pub mod aggregator;
pub mod control;
pub mod ids;
pub mod numeric;
mod phase;
mod rtt;
mod time;
pub mod wire;
pub mod worker;

pub use ids::{
    ChunkSize, InvalidId, JobId, LaneCount, LaneId, LaneLayout, Nonce, Rank, Seq, SessionId, Version, Window,
    WorkerSet, WorldSize,
};
pub use phase::PhaseStatus;
pub use rtt::RtoConfig;
pub use time::Instant;

/// How long a datagram may live in the network: 120 s (section 1).
pub const MSL: Duration = Duration::from_secs(120);
