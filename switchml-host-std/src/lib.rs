//! SwitchML on hosts with std: all-reduce over UDP, and the software switch that makes the sums.
//!
//! - [`Communicator`] is for programs that train: each process joins a job with its rank, and all-reduces its tensors
//!   with the other ranks. It is what most people need.
//! - [`Switch`] is the aggregator where no programmable switch stands: on any machine that all workers reach.
//! - [`kernels`] are the core's conversions, compiled for the processor that is found.
//!
//! The `switchml` program of this package puts both to work from the command line. The protocol itself, with its
//! wire format, numbers and machines, is [`switchml_proto`]; this crate gives it sockets, threads and a clock.
//!
//! # What it does not do
//!
//! - It does not find peers: the switch's address, the rank and the world size come from the caller.
//! - It neither encrypts nor authenticates. Packets of strangers change no sum, since only addresses that joined
//!   are heard; but whoever can forge a member's address, or join in a rank's place, is believed.
//! - It moves tensors in the host's memory, with UDP sockets: no RDMA, no DPDK, no accelerator's memory.
//! - It runs on systems of the Unix family. Batched and segmented system calls, and the path's MTU, are Linux'
//!   only.
//!
//! # A switch in a program of one's own
//!
//! ```
//! use switchml_host_std::{Switch, SwitchConfig};
//!
//! let mut config = SwitchConfig::new([127, 0, 0, 1].into());
//! config.port_base = 0; // any free port
//! let switch = Switch::bind(config)?;
//! let (address, handle) = (switch.local_addr(), switch.handle());
//! let thread = std::thread::spawn(move || switch.run());
//!
//! println!("workers connect to {address}");
//! let snapshot = handle.snapshot().expect("it runs");
//! assert!(snapshot.sessions.is_empty());
//!
//! handle.stop(); // tells all members
//! thread.join().expect("no panic")?;
//! # Ok::<(), Box<dyn core::error::Error>>(())
//! ```

mod clock;
mod communicator;
mod cpus;
pub mod kernels;
mod spin;
mod switch;
mod transport;

pub use half::{bf16, f16};
// Its types stand in this crate's signatures.
pub use switchml_proto;
pub use switchml_proto::numeric::{Reduction as ReduceOp, ScalingFactor};

pub use communicator::{
    Bucket, Builder, Canceller, Communicator, Error, Failed, Pending, Phase, ReduceOptions, Reduced,
    Reducible, SessionFailure, TensorState, Waiting, WaitingFor,
};
pub use cpus::{CannotPlace, Cpus, InvalidCpus};
pub use switch::{
    LaneSnapshot, PortSnapshot, SessionSnapshot, Snapshot, Switch, SwitchConfig, SwitchError, SwitchHandle,
};
pub use transport::{Faults, InvalidFaults, SocketCalls, UnknownCalls};

/// Compiles the example of the project's README with the tests.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct ReadmeExample;
