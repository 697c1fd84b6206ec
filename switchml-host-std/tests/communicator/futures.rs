//! A pending collective is a future of any runtime.

use switchml_host_std::{Communicator, Pending, ReduceOp};

use crate::world::TestSwitch;

fn start(comm: &mut Communicator, value: f32) -> Pending<f32> {
    comm.start_all_reduce(vec![value; 999], ReduceOp::Sum).unwrap()
}

#[test]
fn under_a_trivial_executor() {
    let switch = TestSwitch::start();
    switch.run(
        2,
        |builder| builder,
        |mut comm| {
            let (first, second) = (start(&mut comm, 1.0), start(&mut comm, 2.0));
            let bucket = pollster::block_on(second).unwrap();
            assert_eq!(*bucket, [4.0; 999]);
            assert_eq!(*pollster::block_on(first).unwrap(), [2.0; 999]);
        },
    );
}

#[test]
fn under_tokio_with_both_ranks_in_one_thread() {
    let switch = TestSwitch::start();
    let mut ranks = switch.run(2, |builder| builder, |comm| comm);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        // Nothing here can block: each waits for what the other rank starts only later.
        let zeroth = tokio::spawn(start(&mut ranks[0], 1.0));
        tokio::task::yield_now().await;
        assert!(!zeroth.is_finished());
        let (first, second) = (start(&mut ranks[1], 2.0), start(&mut ranks[1], 3.0));
        let third = start(&mut ranks[0], 4.0);
        let (second, first, third) = tokio::join!(second, first, third);
        assert_eq!(*zeroth.await.unwrap().unwrap(), [3.0; 999]);
        assert_eq!(*first.unwrap(), [3.0; 999]);
        assert_eq!(*second.unwrap(), [7.0; 999]);
        assert_eq!(*third.unwrap(), [7.0; 999]);
    });
    // One leaves while the other is still there.
    ranks.pop().unwrap().leave().unwrap();
    ranks.pop().unwrap().leave().unwrap();
}
