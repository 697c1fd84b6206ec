//! std adapter.

mod clock;
mod transport;

pub use transport::{Faults, InvalidFaults, SocketCalls};
