//! Independent runs, on all processors.

use core::num::NonZero;
use core::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Mutex;
use std::thread;

use anyhow::Result;

/// What `run` makes of each item, in their order.
///
/// # Errors
/// The first error of any run.
pub(super) fn each<T: Sync, R: Send>(items: &[T], run: impl Fn(&T) -> Result<R> + Sync) -> Result<Vec<R>> {
    let next = AtomicUsize::new(0);
    let results: Mutex<Vec<(usize, Result<R>)>> = Mutex::new(Vec::new());
    let work = || {
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(index) else { return };
            let result = run(item);
            results.lock().expect("no run panics while it holds the results").push((index, result));
        }
    };
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, NonZero::get) {
            scope.spawn(work);
        }
    });
    let mut results = results.into_inner().expect("the scope has ended without a panic");
    results.sort_unstable_by_key(|&(index, _)| index);
    results.into_iter().map(|(_, result)| result).collect()
}
