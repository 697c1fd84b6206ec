//! One lane of one rank (T-1 to T-9, D-1).

mod collective;
mod config;
mod digest;
mod machine;
mod outcome;
mod plan;
mod received;
mod seq_space;
mod slots;
mod transmit;

pub use self::collective::{Collective, CollectiveId, Conversion, InvalidCollective, Operation};
pub use self::config::{Config, ConfigError};
pub use self::machine::Worker;
pub use self::outcome::{Event, Failure, StartError, Stats, Waiting};
pub use self::received::{Chunk, Malformed, Received};
pub use self::slots::Slot;
pub use self::transmit::{Cause, ChunkRef, ChunkSource, Fidelity, Transmit};
