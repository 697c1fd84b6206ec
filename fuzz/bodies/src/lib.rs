//! What the fuzz targets do with their input, and what must hold whatever that is.
//!
//! Each function takes any octets, plays what they say with the real machines of `switchml-proto`, and panics if a
//! rule is broken. The fuzz targets are these functions under libFuzzer; `cargo test` replays the stored corpus through
//! the same functions on any toolchain. `README.md` beside the targets says how to run them.
//!
//! | function | machines | what must hold |
//! |---|---|---|
//! | [`packet_parse`] | the wire format | what parses is written again as the same octets |
//! | [`aggregator_ops`] | [`Aggregator`](switchml_proto::aggregator::Aggregator) | every answer is that of a naive model (I-1); what is rejected changes nothing |
//! | [`worker_ops`] | [`Worker`](switchml_proto::worker::Worker) | gates T-2 and T-3, each chunk once and in range, honest timers (I-3, I-4) |
//! | [`control_ops`] | [`Member`](switchml_proto::control::Member)s and [`Coordinator`](switchml_proto::control::Coordinator) | honest timers, everybody gets an end, nothing is left over (I-6) |
//! | [`pair_lossy`] | workers and an aggregator | exact sums under any schedule of faults (I-1, I-2), an end after it (I-3) |

mod aggregator_ops;
mod control_ops;
// What drives the aggregator in its own tests too.
#[path = "../../../switchml-proto/tests/aggregator/lane.rs"]
mod lane;
mod packet_parse;
mod pair_lossy;
// The tensors with exact arithmetic of the worker's tests.
#[path = "../../../switchml-proto/tests/worker_network/random.rs"]
#[allow(dead_code, reason = "those tests use the rest")]
mod random;
#[path = "../../../switchml-proto/tests/worker_network/tensors.rs"]
mod tensors;
mod worker_ops;

pub use aggregator_ops::aggregator_ops;
pub use control_ops::control_ops;
pub use packet_parse::packet_parse;
pub use pair_lossy::pair_lossy;
pub use worker_ops::worker_ops;
