//! Workers and an aggregator on a network that loses, repeats, delays and reorders, in virtual time that jumps exactly to
//! the next arrival or to the earliest `poll_timeout`: what a worker forgets to ask for never comes.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod aggregator;
mod collectives;
mod lateness;
mod network;
mod random;
mod tensors;
