//! SwitchML on smoltcp and embassy-net.
#![no_std]
#![forbid(unsafe_code)]

#[cfg(any(feature = "smoltcp", feature = "embassy-net"))]
mod aggregator;
#[cfg(any(feature = "smoltcp", feature = "embassy-net"))]
mod config;
#[cfg(any(feature = "smoltcp", feature = "embassy-net"))]
mod counters;
#[cfg(any(feature = "smoltcp", feature = "embassy-net"))]
mod element;
#[cfg(feature = "embassy-net")]
pub mod embassy;
#[cfg(any(feature = "smoltcp", feature = "embassy-net"))]
mod error;
#[cfg(any(feature = "smoltcp", feature = "embassy-net"))]
mod link;
#[cfg(feature = "smoltcp")]
pub mod smoltcp;
#[cfg(any(feature = "smoltcp", feature = "embassy-net"))]
mod worker;

#[cfg(any(feature = "smoltcp", feature = "embassy-net"))]
pub use self::{
    aggregator::{AggregatorStorage, aggregator_ram},
    config::{AggregatorConfig, Buffer, SetupError, WorkerConfig},
    counters::{AggregatorCounters, WorkerCounters},
    element::Reducible,
    error::WorkerError,
    worker::{Reduced, WorkerStatus, WorkerStorage, worker_ram},
};
