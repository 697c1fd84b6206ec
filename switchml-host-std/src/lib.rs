//! std adapter.

mod clock;
pub mod kernels;
mod switch;
mod transport;

pub use switch::{
    LaneSnapshot, PortSnapshot, SessionSnapshot, Snapshot, Switch, SwitchConfig, SwitchError, SwitchHandle,
};
pub use transport::{Faults, InvalidFaults, SocketCalls};
