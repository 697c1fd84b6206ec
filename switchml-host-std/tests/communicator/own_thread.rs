//! A communicator may come to its end in one of its own threads: in a callback, or in a waker that runs a task.

use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use std::sync::{Arc, Mutex};
use std::task::Wake;
use std::thread;

use switchml_host_std::{Communicator, ReduceOp};

use crate::world::{TestSwitch, eventually};

/// Who drops what it holds when it is woken.
struct Last(Mutex<Option<Communicator>>);

impl Last {
    fn drop_it(&self) {
        let communicator = self.0.lock().unwrap().take();
        drop(communicator);
    }
}

impl Wake for Last {
    fn wake(self: Arc<Self>) {
        self.drop_it();
    }
}

#[test]
fn i6_dropped_by_the_waker_of_its_last_collective_it_leaves() {
    for lanes in [1, 2] {
        let switch = TestSwitch::start();
        switch.run(
            2,
            |builder| builder.lanes(lanes),
            |mut comm| {
                if comm.rank() == 1 {
                    comm.all_reduce(&mut [1.0_f32; 200], ReduceOp::Sum).unwrap();
                    comm.leave().unwrap();
                    return;
                }
                let mut pending = comm.start_all_reduce(vec![1.0_f32; 200], ReduceOp::Sum).unwrap();
                let last = Arc::new(Last(Mutex::new(Some(comm))));
                let waker = Waker::from(last.clone());
                // If all is done already, it is dropped here: nothing to see then, and nothing wrong.
                let polled = Pin::new(&mut pending).poll(&mut Context::from_waker(&waker));
                match polled {
                    Poll::Ready(outcome) => assert_eq!(*outcome.unwrap(), [2.0; 200]),
                    Poll::Pending => assert_eq!(*pending.wait().unwrap(), [2.0; 200]),
                }
            },
        );
        eventually(|| switch.sessions() == 0);
    }
}

#[test]
fn i6_dropped_by_its_callback_it_does_not_wait_for_itself() {
    for lanes in [1, 2] {
        let switch = TestSwitch::start();
        let last = Arc::new(Last(Mutex::new(None)));
        let dropped_late = last.clone();
        let rank = switch.rank("callback", 0, 2).lanes(lanes).on_waiting(move |_| dropped_late.drop_it());
        let other = switch.rank("callback", 1, 2).lanes(lanes);
        let other = thread::spawn(move || other.connect().unwrap());
        let mut comm = rank.connect().unwrap();
        let mut other = other.join().unwrap();
        let pending = comm.start_all_reduce(vec![1.0_f32; 200], ReduceOp::Sum).unwrap();
        *last.0.lock().unwrap() = Some(comm);
        eventually(|| last.0.lock().unwrap().is_none());
        // What is pending is still done, and then it leaves.
        other.all_reduce(&mut [1.0_f32; 200], ReduceOp::Sum).unwrap();
        assert_eq!(*pending.wait().unwrap(), [2.0; 200]);
        other.leave().unwrap();
        eventually(|| switch.sessions() == 0);
    }
}
