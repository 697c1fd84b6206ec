//! The aggregator against recorded traces, against an oracle, and against garbage.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod lane;
mod properties;
mod traces;
