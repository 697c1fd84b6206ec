//! The protocol's machines, run through the emulated network in virtual time.
//!
//! [`run`] drives the workers of one job, and an aggregator for each lane, whose job is set up and whose members have joined.
//! Time jumps to the next arrival, or to the earliest time that a worker asks for: what it forgets to ask for never comes.
//!
//! ```
//! use std::sync::Arc;
//! use switchml_proto::numeric::{ElementType, Reduction};
//! use switchml_proto::worker::{Collective, Conversion};
//! use switchml_sim::harness::{Pool, Scenario, check, run};
//! use switchml_sim::dice::Dice;
//! use switchml_sim::network::Loss;
//! use switchml_sim::tensors::{Call, Elements, Tensors};
//!
//! // Three workers, two lanes of four slots, and a network that loses every tenth datagram.
//! let mut scenario = Scenario::new(1, 3, 2, 4, 32)?;
//! scenario.network.up.loss = Loss::Random(0.1);
//!
//! let sum = Collective::all_reduce(1000, ElementType::Float32, Reduction::Sum, Conversion::Block)?;
//! let mut dice = Dice::new(2);
//! let inputs = (0..3).map(|_| Elements::random(&mut dice, ElementType::Float32, 1000)).collect();
//! let calls: Arc<[_]> = [Call { collective: sum, inputs }].into();
//!
//! let mut ranks: Vec<_> = (0..3).map(|r| Tensors::new(r, scenario.world_size, calls.clone())).collect();
//! let mut pool = Pool::new(&scenario);
//! let outcome = run(&scenario, &mut pool.planes()?, &mut ranks, &mut ())?;
//! check(&scenario, &calls, &ranks)?;
//! assert!(outcome.network.faults() > 0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod outcome;
mod plane;
mod run;
mod scenario;
mod wires;

use switchml_proto::Instant;

pub use outcome::{Broken, How, Outcome, Verdicts, Watch};
pub use plane::{Plane, Pool, Real};
pub use run::run;
pub use scenario::{Host, JOB, Network, Place, Scenario, Stop, Timers};

use crate::oracle;
use crate::tensors::{Call, Tensors};

/// Compares what the ranks hold with the oracle: every element of every collective written once, and right to the bit
/// (I-1, I-2).
///
/// # Errors
/// [`Broken`] names the first rank and collective that is wrong.
pub fn check(scenario: &Scenario, calls: &[Call], ranks: &[Tensors]) -> Result<(), Broken> {
    for (collective, call) in calls.iter().enumerate() {
        let expected = oracle::reduced(call, scenario.layout.chunk()).bits();
        for (rank, tensors) in ranks.iter().enumerate() {
            let got = tensors.data()[collective].bits();
            let unwritten = expected.len().abs_diff(tensors.written()[collective] as usize);
            let wrong = expected.iter().zip(&got).filter(|(expected, got)| expected != got).count();
            if unwritten + wrong > 0 {
                let how = How::Wrong { rank, collective, elements: wrong.max(unwritten) };
                return Err(Broken { seed: scenario.seed, at: Instant::ZERO, how });
            }
        }
    }
    Ok(())
}
