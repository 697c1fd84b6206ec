//! The program's subcommands, a file each, and what they share.

pub(crate) mod incast;
mod job;
pub(crate) mod loss;
mod output;
mod parallel;
pub(crate) mod rate;
pub(crate) mod soak;
pub(crate) mod straggler;
pub(crate) mod trace;
pub(crate) mod window;

use core::time::Duration;
use std::path::PathBuf;

use clap::Args;
use switchml_sim::harness::{Host, Network, Place};
use switchml_sim::network::Profile;

/// What every experiment needs to know.
#[derive(Args, Clone)]
pub(crate) struct Common {
    /// Where the tables and plots go
    #[arg(long, value_name = "DIR", default_value = "target/sim")]
    out: PathBuf,
    /// What sending or receiving a datagram costs a worker's lane, in nanoseconds
    #[arg(long, value_name = "NS", default_value_t = 65.0)]
    worker_packet: f64,
    /// The same for each octet of its payload. With the default of both, sending a packet of k = 256 and receiving its
    /// result cost 470 ns, as measured over loopback with segmentation offload
    #[arg(long, value_name = "NS", default_value_t = 0.165)]
    worker_octet: f64,
    /// What a datagram costs a lane of the aggregator, in nanoseconds; the software switch needs about 38
    #[arg(long, value_name = "NS", default_value_t = 0.0)]
    aggregator_packet: f64,
    /// The same for each octet of its payload; the software switch needs about 0.1
    #[arg(long, value_name = "NS", default_value_t = 0.0)]
    aggregator_octet: f64,
    /// How long a datagram travels between a worker and the aggregator, in microseconds
    #[arg(long, value_name = "US", default_value_t = 10)]
    delay: u64,
    /// How much longer it may travel, at random, in nanoseconds
    #[arg(long, value_name = "NS", default_value_t = 1000)]
    jitter: u64,
}

impl Common {
    fn worker(&self) -> Host {
        Host { packet_nanos: self.worker_packet, octet_nanos: self.worker_octet, ..Host::FREE }
    }

    fn aggregator(&self) -> Host {
        Host { packet_nanos: self.aggregator_packet, octet_nanos: self.aggregator_octet, ..Host::FREE }
    }

    /// A link of `gbit` Gbit/s.
    fn link(&self, gbit: u64) -> Profile {
        Profile {
            delay: Duration::from_micros(self.delay),
            jitter: Duration::from_nanos(self.jitter),
            ..Profile::of_rate(gbit * 1_000_000_000)
        }
    }

    fn network(&self, gbit: u64) -> Network {
        Network { up: self.link(gbit), down: self.link(gbit), aggregator: Place::Switch }
    }

    /// What stands in every table and plot.
    fn note(&self) -> String {
        let Self { worker_packet, worker_octet, aggregator_packet, aggregator_octet, delay, jitter, .. } =
            self;
        format!(
            "Simulated. A datagram costs a worker's lane {worker_packet} ns + {worker_octet} ns per octet, the \
             aggregator's {aggregator_packet} ns + {aggregator_octet} ns per octet, and travels {delay} µs and up to {jitter} ns more."
        )
    }
}
