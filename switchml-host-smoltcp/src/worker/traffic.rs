//! Datagrams of a rank, from the stack and to it.

use core::net::SocketAddr;

use switchml_proto::control::{Heard, MemberDatagram};
use switchml_proto::wire::Class;
use switchml_proto::worker::{Fidelity, Received};
use switchml_proto::{Instant, LaneId};

use super::{Rank, earliest};
use crate::element::Tensor;
use crate::link::{FULL_RETRY, Link, Sent};

impl<const LANES: usize> Rank<'_, LANES> {
    /// Takes what has come to a lane.
    pub(super) fn receive(
        &mut self,
        now: Instant,
        lane: usize,
        link: &mut impl Link,
        tensor: &mut Option<&mut dyn Tensor>,
    ) {
        let Self { terms, member, lanes, open, heard_at, losses, .. } = self;
        let aggregator = lane_address(terms.aggregator, lane);
        // There are at most 16 lanes: the configuration was checked.
        let Ok(id) = LaneId::new(lane) else { return };
        let state = &mut lanes[lane]; // `lane` is below LANES
        let mut take = |from: SocketAddr, datagram: &[u8]| {
            if from != aggregator {
                losses.strangers += 1; // W-10
                return;
            }
            match Class::of(datagram) {
                Class::Control => {
                    if let Heard::Accepted = member.handle_datagram(now, id, datagram) {
                        *heard_at = now;
                    }
                }
                Class::Data => {
                    let Some(worker) = state.worker() else { return };
                    match worker.handle_datagram(now, datagram) {
                        Received::Chunk(chunk) => {
                            *heard_at = now;
                            let (Some(open), Some(tensor)) = (open.as_mut(), tensor.as_mut()) else {
                                return;
                            };
                            if chunk.fidelity == Fidelity::Clamped {
                                open.reduced.clamped_chunks += 1;
                            }
                            tensor.write(&chunk);
                        }
                        Received::Exponent { .. } => *heard_at = now,
                        // Counted by the worker.
                        _ => {}
                    }
                }
            }
        };
        while link.receive(lane, &mut take).is_some() {}
    }

    /// Sends what the member has to send. It goes before data, so that no stream of data ends the lease.
    pub(super) fn transmit_control(&mut self, now: Instant, link: &mut impl Link) -> Option<Instant> {
        while let Some(due) = self.held.take().or_else(|| self.member.poll_datagram(now)) {
            let MemberDatagram { lane, datagram, .. } = due;
            let to = lane_address(self.terms.aggregator, lane.index());
            match link.send(lane.index(), to, datagram.capacity(), |buf| datagram.emit(buf)) {
                Sent::Queued => {}
                // The member repeats it.
                Sent::Unroutable => self.losses.unroutable += 1,
                Sent::Full => {
                    self.losses.full += 1;
                    self.held = Some(due);
                    return Some(now + FULL_RETRY);
                }
            }
        }
        None
    }

    /// Sends the packets of one lane that are due; when to go on.
    pub(super) fn transmit_data(
        &mut self,
        now: Instant,
        lane: usize,
        link: &mut impl Link,
        tensor: &mut Option<&mut dyn Tensor>,
    ) -> Option<Instant> {
        let to = lane_address(self.terms.aggregator, lane);
        let capacity = self.terms.chunk.datagram_len();
        let state = &mut self.lanes[lane]; // `lane` is below LANES
        let retry_at = state.not_before();
        let worker = state.worker()?;
        let Some(tensor) = tensor else { return worker.poll_timeout() };
        while worker.can_transmit() {
            let sent = link.send(lane, to, capacity, |buf| {
                // There is one: `can_transmit` said so.
                worker.poll_transmit(now).map_or(0, |packet| packet.emit(*tensor, buf))
            });
            match sent {
                Sent::Queued => {}
                Sent::Unroutable => {
                    // As good as lost on the way: it is sent again when its time is up.
                    let _lost = worker.poll_transmit(now);
                    self.losses.unroutable += 1;
                }
                Sent::Full => {
                    self.losses.full += 1;
                    return Some(now + FULL_RETRY);
                }
            }
        }
        earliest(worker.poll_timeout(), retry_at)
    }
}

/// The aggregator's address for a lane (W-9).
fn lane_address(mut aggregator: SocketAddr, lane: usize) -> SocketAddr {
    // No overflow: the configuration was checked.
    aggregator.set_port(aggregator.port().wrapping_add(lane as u16));
    aggregator
}
