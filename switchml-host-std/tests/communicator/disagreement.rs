//! Ranks that call different collectives (D-1), and calls that no collective can be made of.

use switchml_host_std::{
    Communicator, Error, ReduceOp, ReduceOptions, ScalingFactor, SessionFailure, TensorState,
};

use crate::oracle::How;
use crate::world::{CHUNK, TestSwitch};

type Call = fn(&mut Communicator) -> Result<(), Error>;

/// Both ranks learn that they called different things, whichever noticed first.
#[track_caller]
fn differ(switch: &TestSwitch, calls: [Call; 2]) {
    let errors =
        switch.run(2, |builder| builder.lanes(2), |mut comm| calls[comm.rank()](&mut comm).unwrap_err());
    for error in errors {
        let differ = matches!(error.session_failure(), Some(SessionFailure::CollectivesDiffer { .. }));
        assert!(differ, "{error:?}");
        assert!(error.to_string().starts_with("collectives differ"), "{error}");
    }
}

fn sum<T: crate::oracle::Sample>(
    comm: &mut Communicator,
    len: usize,
    how: impl Into<ReduceOptions>,
) -> Result<(), Error> {
    comm.all_reduce(&mut vec![T::default(); len], how).map(|_| ())
}

#[test]
fn other_lengths() {
    let switch = TestSwitch::start();
    differ(&switch, [|comm| sum::<f32>(comm, 300, How::SUM), |comm| sum::<f32>(comm, 301, How::SUM)]);
    differ(&switch, [|comm| sum::<f32>(comm, 0, How::SUM), |comm| sum::<f32>(comm, 9000, How::SUM)]);
}

#[test]
fn other_element_types() {
    let switch = TestSwitch::start();
    differ(&switch, [|comm| sum::<f32>(comm, 300, How::SUM), |comm| sum::<half::f16>(comm, 300, How::SUM)]);
    differ(&switch, [|comm| sum::<f32>(comm, 300, How::SUM), |comm| sum::<i32>(comm, 300, How::SUM)]);
}

#[test]
fn other_operations() {
    let switch = TestSwitch::start();
    differ(&switch, [|comm| sum::<f32>(comm, 300, How::SUM), |comm| sum::<f32>(comm, 300, How::MEAN)]);
    differ(&switch, [|comm| sum::<f32>(comm, 0, How::SUM), |comm| comm.barrier()]);
    differ(&switch, [|comm| sum::<i32>(comm, 300, How::SUM), |comm| comm.broadcast(&mut [0_i32; 300], 0)]);
}

#[test]
fn other_conversions_and_factors() {
    let switch = TestSwitch::start();
    let half: Call = |comm| sum::<f32>(comm, 300, How::fixed(ReduceOp::Sum, 0.5));
    differ(&switch, [half, |comm| sum::<f32>(comm, 300, How::SUM)]);
    differ(&switch, [half, |comm| sum::<f32>(comm, 300, How::fixed(ReduceOp::Sum, 0.25))]);
}

#[test]
fn other_roots_and_tags() {
    let switch = TestSwitch::start();
    differ(
        &switch,
        [|comm| comm.broadcast(&mut [0_i32; 300], 0), |comm| comm.broadcast(&mut [0_i32; 300], 1)],
    );
    differ(
        &switch,
        [
            |comm| sum::<f32>(comm, 300, ReduceOptions::from(ReduceOp::Sum).tag(1)),
            |comm| sum::<f32>(comm, 300, ReduceOptions::from(ReduceOp::Sum).tag(2)),
        ],
    );
}

#[test]
fn after_some_that_agreed() {
    let switch = TestSwitch::start();
    let agree = |comm: &mut Communicator| {
        sum::<f32>(comm, 500, How::SUM).unwrap();
        comm.barrier().unwrap();
    };
    switch.run(
        2,
        |builder| builder,
        |mut comm| {
            agree(&mut comm);
            let mut tensor = vec![1.0_f32; 40 * CHUNK + comm.rank()];
            let error = comm.all_reduce(&mut tensor, ReduceOp::Sum).unwrap_err();
            assert!(matches!(error.session_failure(), Some(SessionFailure::CollectivesDiffer { .. })));
            // No result was accepted, so that nothing was written.
            assert!(matches!(error, Error::Session { tensor: TensorState::Untouched, .. }));
            assert!(tensor.iter().all(|&element| element == 1.0));
        },
    );
}

#[test]
fn what_no_collective_can_be_made_of_is_refused_and_nothing_is_sent() {
    let switch = TestSwitch::start();
    switch.run(
        2,
        |builder| builder,
        |mut comm| {
            let error = comm.all_reduce(&mut [1_i32; 4], ReduceOp::Mean).unwrap_err();
            assert_eq!(error.to_string(), "the mean is for floating point only");

            let factor = ScalingFactor::new(2.0).unwrap();
            let options = ReduceOptions::from(ReduceOp::Sum).scaling_factor(factor);
            let failed = comm.start_all_reduce(vec![1, 2, 3], options).unwrap_err();
            assert!(matches!(failed.error, Error::Collective(_)));
            assert_eq!(failed.bucket, [1, 2, 3]);

            let error = comm.all_reduce_into(&[1.0_f32; 3], &mut [0.0; 4], ReduceOp::Sum).unwrap_err();
            assert!(
                error.to_string().starts_with("the source has 3 elements, and the destination 4"),
                "{error}"
            );

            for root in [2, 64] {
                let error = comm.broadcast(&mut [1.0_f32; 3], root).unwrap_err();
                assert_eq!(
                    error.to_string(),
                    format!("the broadcast's root is rank {root}, and the job has 2 ranks")
                );
            }
            // The session lives on.
            let mut tensor = [1, 2];
            comm.all_reduce(&mut tensor, ReduceOp::Sum).unwrap();
            assert_eq!(tensor, [2, 4]);
        },
    );
}
