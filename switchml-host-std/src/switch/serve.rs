//! The thread of a lane.

use std::io;

use mio::{Events, Poll};
use switchml_proto::LaneId;
use switchml_proto::wire::{Class, HEADER_LEN};

use super::lane::{Lane, Slots};
use super::outbox::Outbox;
use super::running::{Leaver, Running};
use super::{SwitchConfig, SwitchError};
use crate::spin::Spin;
use crate::transport::{MOST_RECEIVED, Received, RecvBatch};

/// How many batches are taken under full load before the timers are looked at.
const BATCHES: usize = 16;
/// After so many datagrams without an end in sight, the lane cannot keep up with what comes.
const BACKLOG: usize = 256;
/// Of each batch then, one in so many of strangers' datagrams is heard. To answer one costs several times what it costs
/// to take one, so a flood of them would fill the socket's buffer, and members' packets would be lost.
const STRANGERS: usize = 8;

/// Serves a lane until the switch ends.
pub(super) fn serve(
    running: &Running<'_, '_>,
    lane: &Lane<'_>,
    mut poll: Poll,
    config: &SwitchConfig,
) -> Result<(), SwitchError> {
    let _leaver = Leaver(running);
    if let Some(cpus) = &config.cpus {
        cpus.place(lane.id.index()).map_err(SwitchError::CannotPlace)?;
    }
    let mut batch = RecvBatch::new(HEADER_LEN + config.largest_chunk.octets());
    let mut outbox = Outbox::new(config.largest_chunk);
    let mut spin = Spin::new(config.spin);
    let mut others = Vec::with_capacity(MOST_RECEIVED);
    let mut events = Events::with_capacity(4);
    // The poll tells of changes only: it is asked again only when nothing is left to receive.
    let mut drained = false;
    // Datagrams taken since nothing was left to receive.
    let mut backlog = 0_usize;
    loop {
        let sleep = if lane.id == LaneId::ZERO { running.tend() } else { None };
        if running.is_done() {
            return Ok(());
        }
        if drained {
            match poll.poll(&mut events, sleep) {
                Err(error) if error.kind() != io::ErrorKind::Interrupted => {
                    return Err(SwitchError::System(error));
                }
                _ => {}
            }
        }
        drained = false;
        for _ in 0..BATCHES {
            let received = lane.transport.recv(&mut batch);
            match received
                .map_err(|source| SwitchError::Socket { address: lane.transport.local_addr(), source })?
            {
                Received::Batch => {
                    let heard = if backlog < BACKLOG { Heard::All } else { Heard::OneIn(STRANGERS) };
                    let taken = take(running, lane, &batch, heard, &mut outbox, &mut others);
                    backlog = backlog.saturating_add(taken);
                    spin.found();
                }
                Received::Nothing if spin.looks_again() => backlog = 0,
                Received::Nothing => {
                    (drained, backlog) = (true, 0);
                    break;
                }
                Received::Unreachable => {}
            }
        }
    }
}

/// Which datagrams of sources that are no members' the coordinator hears.
#[derive(Clone, Copy)]
enum Heard {
    All,
    /// The first of each so many of a batch.
    OneIn(usize),
}

/// Aggregates the data packets of a batch, sends the results, and hands the coordinator all else, but of sources that are
/// no members' only what is `heard`. `others` is room for which datagrams that is. Returns how many the batch had.
fn take(
    running: &Running<'_, '_>,
    lane: &Lane<'_>,
    batch: &RecvBatch,
    heard: Heard,
    outbox: &mut Outbox,
    others: &mut Vec<usize>,
) -> usize {
    others.clear();
    let mut slots = lane.slots();
    let Slots { aggregator, ports, addresses } = &mut *slots;
    let mut taken = 0;
    let (mut strangers, mut unheard) = (0, 0);
    for run in batch.runs() {
        let member = ports.get(&run.from);
        for datagram in run.datagrams() {
            match (Class::of(datagram), member) {
                (Class::Control, Some(_)) => others.push(taken),
                (class, None) => {
                    if class == Class::Data {
                        // It is counted there, and answered by the coordinator.
                        let _rejected = aggregator.handle_datagram(None, datagram);
                    }
                    match heard {
                        Heard::OneIn(of) if strangers % of != 0 => unheard += 1,
                        Heard::All | Heard::OneIn(_) => others.push(taken),
                    }
                    strangers += 1;
                }
                (Class::Data, Some(member)) => {
                    let egress = aggregator.handle_datagram(Some(member.port), datagram);
                    outbox.take(lane, &egress, member, run.from, addresses);
                }
            }
            taken += 1;
        }
    }
    // The coordinator may need the slots of any lane.
    drop(slots);
    outbox.flush(lane);
    lane.count_unheard(unheard);
    if others.is_empty() {
        return taken;
    }
    let datagrams = batch.runs().flat_map(|run| run.datagrams().map(move |datagram| (run.from, datagram)));
    let mut others = others.iter().peekable();
    for (index, (from, datagram)) in datagrams.enumerate() {
        if others.next_if_eq(&&index).is_some() {
            running.hear(lane.id, from, datagram);
        }
    }
    taken
}
