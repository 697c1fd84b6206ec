//! All-reduce between processes, over UDP on loopback.

use anyhow::Result;

use super::figure::{Figure, Place, Timing};
use super::measure::Spread;
use super::{CHUNK, WINDOW, mebibytes};
use crate::crew::{Crew, Message, Plan};
use crate::options::{LaneOptions, SocketOptions};

/// All-reduces tensors of `octets` octets between `workers` processes and the software switch.
pub(super) fn run(workers: usize, octets: usize, rounds: u32, sockets: SocketOptions) -> Result<Figure> {
    let lanes = LaneOptions { chunk: CHUNK, window: WINDOW, lanes: switchml_proto::LaneCount::new(1)? };
    // One more, which is not counted.
    let rounds = rounds + 1;
    let elements = octets / size_of::<f32>();
    let plan = Plan { workers, elements, rounds, seed: 1, check: false, lanes, sockets, faults: None };
    let mut slowest = vec![0.0_f64; rounds as usize];
    let packets = Crew::start(&plan)?.wait(|_, message| {
        if let Message::Round(round) = message
            && let Some(slowest) = slowest.get_mut(round.round as usize)
        {
            *slowest = slowest.max(1e9 * round.seconds);
        }
        Ok(())
    })?;
    let took = Spread::of(slowest.split_off(1));
    let what = format!(
        "all-reduce of {}, the slowest rank; packets sent again: {} after a timeout, {} overtaken",
        mebibytes(octets),
        packets.sent_again_after_timeout,
        packets.sent_again_overtaken
    );
    Ok(Figure {
        name: format!("all-reduce, n = {workers} processes, 1 lane, {} calls", sockets.socket_calls),
        place: Place::Loopback,
        value: 1e3 * octets as f64 / took.median,
        unit: "MB/s",
        limit: None,
        timings: vec![Timing::new(what, took)],
    })
}
