//! std adapter.

mod clock;
mod communicator;
pub mod kernels;
mod switch;
mod transport;

pub use switchml_proto::numeric::{Reduction as ReduceOp, ScalingFactor};

pub use communicator::{
    Bucket, Builder, Communicator, Error, Failed, Pending, Phase, ReduceOptions, Reduced, Reducible,
    SessionFailure, TensorState, Waiting, WaitingFor,
};
pub use switch::{
    LaneSnapshot, PortSnapshot, SessionSnapshot, Snapshot, Switch, SwitchConfig, SwitchError, SwitchHandle,
};
pub use transport::{Faults, InvalidFaults, SocketCalls};
