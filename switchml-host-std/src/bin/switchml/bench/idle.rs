//! A worker that has nothing to do is asked what to do: what each turn of a host's loop costs at least.

use core::hint::black_box;
use core::time::Duration;

use anyhow::Result;
use switchml_proto::numeric::{ElementType, Reduction};
use switchml_proto::worker::{Collective, Config, Conversion, Slot, Worker};
use switchml_proto::{Instant, JobId, LaneCount, LaneId, LaneLayout, Seq, Window};

use super::CHUNK;
use super::figure::{Figure, Limit, Place, Timing};
use super::measure::{in_turn, time};

const LIMIT: Limit = Limit { aim: 20.0, limit: 40.0 };

const POLLS: usize = 1 << 16;

/// Polls a worker whose whole window is on its way.
pub(super) fn run(window: Window, repetitions: usize) -> Result<Figure> {
    let slots = usize::from(window.get());
    let mut storage = vec![Slot::EMPTY; slots];
    let layout = LaneLayout::new(0, window, CHUNK)?;
    let config = Config::new(JobId(1), layout, Seq(0), LaneId::ZERO, LaneCount::new(1)?);
    let mut worker = Worker::new(config, &mut storage)?;
    let elements = 4 * slots * CHUNK.elements();
    let collective =
        Collective::all_reduce(elements as u64, ElementType::Float32, Reduction::Sum, Conversion::Block)?;
    worker.start(collective, Instant::ZERO)?;
    while worker.poll_transmit(Instant::ZERO).is_some() {}

    let [poll] = in_turn(repetitions, &mut worker, [poll]);
    let poll = poll.part(POLLS);
    Ok(Figure {
        name: format!("poll with nothing to do, W = {slots}"),
        place: Place::InCache,
        value: poll.median,
        unit: "ns",
        limit: Some(LIMIT),
        timings: vec![Timing::new("poll_timeout and poll_transmit, all slots in flight", poll)],
    })
}

fn poll(worker: &mut Worker<'_>) -> Duration {
    time(|| {
        for _ in 0..POLLS {
            let worker = black_box(&mut *worker);
            black_box(worker.poll_timeout());
            black_box(worker.poll_transmit(Instant::ZERO));
        }
    })
}
