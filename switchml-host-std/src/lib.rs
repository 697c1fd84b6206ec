//! std adapter.

mod clock;
pub mod kernels;
mod transport;

pub use transport::{Faults, InvalidFaults, SocketCalls};
