//! A worker and the slots that it uses, as one.

use self_cell::{MutBorrow, self_cell};
use switchml_proto::worker::{Config, Slot, Worker};

self_cell!(
    /// A worker with its own slots, so that it can go from thread to thread.
    pub(super) struct OwnedWorker {
        owner: MutBorrow<Vec<Slot>>,
        #[covariant]
        dependent: Worker,
    }
);

impl OwnedWorker {
    /// # Panics
    /// If the configuration is not one that a session's welcome gives.
    pub(super) fn of(config: Config) -> Self {
        let slots = vec![Slot::EMPTY; config.layout.window().get().into()];
        Self::new(MutBorrow::new(slots), |slots| {
            Worker::new(config, slots.borrow_mut())
                .expect("the layout and the seq come from a checked welcome")
        })
    }
}
