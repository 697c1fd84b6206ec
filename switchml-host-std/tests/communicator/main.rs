//! Ranks in threads of this process, on real sockets on loopback, around a software switch.

mod collectives;
mod disagreement;
mod failures;
mod futures;
mod joining;
mod oracle;
mod path;
mod pending;
mod relay;
mod world;
