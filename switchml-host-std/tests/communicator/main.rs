//! Ranks in threads of this process, on real sockets on loopback, around a software switch.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod collectives;
mod disagreement;
mod failures;
mod futures;
mod joining;
mod oracle;
mod own_thread;
mod path;
mod pending;
mod relay;
mod world;
