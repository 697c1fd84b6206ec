//! Tasks on one thread. Each is polled only when it was woken, so that a wake-up that is missing shows.

use core::pin::Pin;
use core::task::{Context, Waker};
use core::time::Duration;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex};
use std::task::Wake;
use std::time::Instant;

pub(crate) type Task<'t> = Pin<Box<dyn Future<Output = ()> + 't>>;

#[derive(Default)]
struct Woken {
    tasks: Mutex<VecDeque<usize>>,
    any: Condvar,
}

struct TaskWaker {
    task: usize,
    woken: Arc<Woken>,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        let mut tasks = self.woken.tasks.lock().expect("nobody panics with it");
        if !tasks.contains(&self.task) {
            tasks.push_back(self.task);
            self.woken.any.notify_one();
        }
    }
}

/// Runs `tasks` until the first `needed` of them have ended.
pub(crate) fn run(mut tasks: Vec<Task<'_>>, needed: usize) {
    let woken = Arc::new(Woken::default());
    let wakers: Vec<Waker> =
        (0..tasks.len()).map(|task| Arc::new(TaskWaker { task, woken: woken.clone() }).into()).collect();
    wakers.iter().for_each(Waker::wake_by_ref);
    let mut ended = vec![false; tasks.len()];
    let deadline = Instant::now() + Duration::from_secs(60);
    while ended[..needed].contains(&false) {
        let task = {
            let mut woken_tasks = woken.tasks.lock().expect("nobody panics with it");
            loop {
                match woken_tasks.pop_front() {
                    Some(task) => break task,
                    None => {
                        let left = deadline.saturating_duration_since(Instant::now());
                        assert!(!left.is_zero(), "no task was woken: {ended:?}");
                        let waited = woken.any.wait_timeout(woken_tasks, left);
                        woken_tasks = waited.expect("nobody panics with it").0;
                    }
                }
            }
        };
        if !ended[task] {
            ended[task] = tasks[task].as_mut().poll(&mut Context::from_waker(&wakers[task])).is_ready();
        }
        assert!(Instant::now() < deadline, "not done within the time: {ended:?}");
    }
}
