//! Workers and aggregators on smoltcp interfaces, on an Ethernet in memory.

mod bad_input;
mod collectives;
mod net;
mod sessions;
mod setup;
mod world;
