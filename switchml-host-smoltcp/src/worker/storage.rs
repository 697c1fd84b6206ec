//! The memory that a worker's user lends.

use switchml_proto::Window;
use switchml_proto::worker::Slot;

/// A worker's memory: `WINDOW` slots for each of `LANES` lanes. A `static` or a local variable of `main`.
///
/// `WINDOW` is a power of two from 1 to 16,384, the same on all ranks; another number does not compile.
#[derive(Debug)]
pub struct WorkerStorage<const WINDOW: usize, const LANES: usize = 1> {
    pub(crate) slots: [[Slot; WINDOW]; LANES],
}

impl<const WINDOW: usize, const LANES: usize> WorkerStorage<WINDOW, LANES> {
    /// Fresh memory.
    #[must_use]
    pub const fn new() -> Self {
        let _ = Self::WINDOW;
        Self { slots: [[Slot::EMPTY; WINDOW]; LANES] }
    }

    pub(crate) const WINDOW: Window = match Window::new(WINDOW) {
        Ok(window) => window,
        Err(_) => panic!("WINDOW is a power of two from 1 to 16384"),
    };
}

impl<const WINDOW: usize, const LANES: usize> Default for WorkerStorage<WINDOW, LANES> {
    fn default() -> Self {
        Self::new()
    }
}

/// Octets of RAM that a worker takes besides its sockets' buffers and its tensor: its storage of `window` slots in each of
/// `LANES` lanes, and the machines.
#[must_use]
pub const fn worker_ram<const LANES: usize>(window: usize) -> usize {
    LANES * window * size_of::<Slot>() + size_of::<super::Rank<'static, LANES>>()
}
