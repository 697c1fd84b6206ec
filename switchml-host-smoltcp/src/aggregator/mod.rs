//! An aggregator on any stack: a data plane for each lane, the coordinator, and the loop that drives them.

mod plane;
mod storage;

use core::net::SocketAddr;

use switchml_proto::aggregator::{Aggregator, Counters, Egress, Kernels, Storage};
use switchml_proto::control::{
    Audience, ControlCounters, Coordinator, CoordinatorDatagram, CoordinatorEvent, CoordinatorStorage,
    InvalidConfig, SessionView,
};
use switchml_proto::wire::Class;
use switchml_proto::{Instant, JobId, LaneCount, LaneId, Rank};

use self::plane::{Fanout, Lane, Plane};
pub use self::storage::{AggregatorStorage, aggregator_ram};
use crate::config::{AggregatorConfig, SetupError, SocketShape};
use crate::counters::AggregatorCounters;
use crate::link::{FULL_RETRY, Link, Sent};

/// Which socket of a lane a datagram takes.
///
/// A stack keeps a socket's datagrams in order, and waits with all of them while it looks for the link address of the
/// first one's receiver. Nobody need have that address, if the receiver's IP address was forged. So strangers have a
/// socket of their own, and members never wait for them.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Outlet {
    Members,
    Strangers,
}

/// A lane's two sockets in a [`Link`] of `2 * LANES` sockets: the members' come first.
pub(crate) const fn socket_index(lanes: usize, lane: usize, outlet: Outlet) -> usize {
    match outlet {
        Outlet::Members => lane,
        Outlet::Strangers => lanes + lane,
    }
}

/// All sockets of a [`Link`] in their order.
pub(crate) fn sockets_of(lanes: LaneCount) -> impl Iterator<Item = (LaneId, Outlet)> {
    let sockets = |outlet| lanes.lanes().map(move |lane| (lane, outlet));
    sockets(Outlet::Members).chain(sockets(Outlet::Strangers))
}

/// An aggregator, on whatever stack.
#[derive(Debug)]
pub(crate) struct Switch<'s, const LANES: usize> {
    config: AggregatorConfig,
    lanes: [Lane<'s>; LANES],
    coordinator: Coordinator<'s>,
    /// A member's control datagram that found a full transmit buffer.
    held: Option<CoordinatorDatagram>,
    counters: AggregatorCounters,
}

impl<'s, const LANES: usize> Switch<'s, LANES> {
    pub(crate) fn new<const SLOTS: usize, const K: usize, const WORKERS: usize, const JOBS: usize>(
        config: AggregatorConfig,
        storage: &'s mut AggregatorStorage<SLOTS, K, WORKERS, JOBS, LANES>,
        sockets: impl Iterator<Item = SocketShape>,
        now: Instant,
    ) -> Result<Self, SetupError> {
        let chunk = AggregatorStorage::<SLOTS, K, WORKERS, JOBS, LANES>::CHUNK;
        let coordinator = config.check(SLOTS, chunk, sockets, LANES)?;
        let AggregatorStorage { lanes, jobs, members, ports } = storage;
        let storage = CoordinatorStorage { jobs, members, ports: ports.as_flattened_mut() };
        let coordinator = Coordinator::new(coordinator, storage, now).map_err(|invalid| match invalid {
            InvalidConfig::Lease { lease } => SetupError::Lease { lease },
            _ => SetupError::Slots { slots: SLOTS },
        })?;
        let lanes = lanes.each_mut().map(|lane| {
            let storage = Storage {
                phases: lane.phases.as_flattened_mut(),
                elements: lane.elements.as_flattened_mut().as_flattened_mut(),
                jobs: &mut lane.jobs,
                ports: &mut lane.ports,
            };
            let aggregator = Aggregator::new(storage, chunk, Kernels::PORTABLE);
            let aggregator = aggregator.expect("the storage has two chunks for each slot");
            lane.bound.fill(None);
            Lane { aggregator, bound: &mut lane.bound, fanout: None }
        });
        Ok(Self { config, lanes, coordinator, held: None, counters: AggregatorCounters::default() })
    }

    /// Does all that can be done now: aggregates what the stack has received, lets the coordinator's time pass, and writes
    /// what is due into the transmit buffers. Returns when to drive again, if no datagram comes before.
    ///
    /// Costs O(1) state and O(k) arithmetic for each datagram received and sent, and a look at all entries of the
    /// coordinator for each one that is no member's data: at most as many as the sockets' buffers hold.
    pub(crate) fn drive(&mut self, now: Instant, link: &mut impl Link) -> Option<Instant> {
        let mut full = Full::No;
        for lane in 0..LANES {
            for outlet in [Outlet::Members, Outlet::Strangers] {
                full = full.or(self.receive(now, lane, outlet, link));
            }
        }
        let mut plane = Plane { lanes: &mut self.lanes, ip_mtu: self.config.ip_mtu };
        self.coordinator.handle_timeout(now, &mut plane);
        full = full.or(self.transmit_control(now, link));
        match full {
            Full::Yes => Some(now + FULL_RETRY),
            Full::No => self.coordinator.poll_timeout(),
        }
    }

    /// Takes what has come to a lane's socket, until nothing is left, or until a result cannot be sent: what comes next
    /// might overwrite it.
    fn receive(&mut self, now: Instant, lane: usize, outlet: Outlet, link: &mut impl Link) -> Full {
        // There are at most 16 lanes: the configuration was checked.
        let Ok(id) = LaneId::new(lane) else { return Full::No };
        loop {
            if self.fan_out(lane, link) == Full::Yes {
                return Full::Yes;
            }
            let socket = socket_index(LANES, lane, outlet);
            let taken = link.receive(socket, |from, datagram| self.take(now, id, from, datagram));
            match taken {
                None => return Full::No,
                Some(Class::Data) => {}
                // An answer waits in the coordinator, which keeps a few only.
                Some(Class::Control) => {
                    let _full = self.transmit_control(now, link);
                }
            }
        }
    }

    /// Takes one datagram. Says [`Class::Control`] if the coordinator heard of it.
    fn take(&mut self, now: Instant, id: LaneId, from: SocketAddr, datagram: &[u8]) -> Class {
        let lane = &mut self.lanes[id.index()]; // an id of this aggregator's lanes
        match (Class::of(datagram), lane.member(from)) {
            (Class::Data, Some((place, member))) => {
                let count = lane.bound.len();
                let egress = lane.aggregator.handle_datagram(Some(member.port), datagram);
                let range = match egress {
                    Egress::Reject(_) => {
                        self.counters.rejected += 1;
                        return Class::Data;
                    }
                    Egress::Consume | Egress::Ignore => None,
                    Egress::Unicast(reply) => Some((reply, place, place + 1)),
                    Egress::Multicast(reply) => Some((reply, 0, count)),
                };
                self.counters.taken += 1;
                lane.fanout = range.map(|(reply, from, to)| Fanout {
                    job: reply.job(),
                    seq: reply.header().seq,
                    from,
                    to,
                });
                Class::Data
            }
            (Class::Data, None) => {
                self.counters.strangers += 1;
                // Counted there as of an unknown source, and rejected; the coordinator may answer.
                let _rejected = lane.aggregator.handle_datagram(None, datagram);
                self.coordinator.handle_stray_data(now, id, from, datagram);
                Class::Control
            }
            (Class::Control, member) => {
                if member.is_none() {
                    self.counters.strangers += 1;
                }
                let mut plane = Plane { lanes: &mut self.lanes, ip_mtu: self.config.ip_mtu };
                // The coordinator counts what it heard.
                let _heard = self.coordinator.handle_datagram(now, id, from, datagram, &mut plane);
                Class::Control
            }
        }
    }

    /// Writes the copies of a result that are still owed, straight from the pool into the transmit buffer.
    fn fan_out(&mut self, lane: usize, link: &mut impl Link) -> Full {
        let Lane { aggregator, bound, fanout } = &mut self.lanes[lane]; // `lane` is below LANES
        let Some(Fanout { job, seq, from, to }) = *fanout else { return Full::No };
        for (place, entry) in bound.iter().enumerate().take(to).skip(from) {
            let Some(member) = entry.filter(|member| member.job == job) else { continue };
            // It is there: nothing that could overwrite it is taken before all have it.
            let Some(reply) = aggregator.result(job, seq, member.rank) else { break };
            let socket = socket_index(LANES, lane, Outlet::Members);
            match link.send(socket, member.address, reply.datagram_len(), |buf| reply.emit(buf)) {
                Sent::Queued => self.counters.results += 1,
                // As good as lost on the way: its receiver asks again.
                Sent::Unroutable => self.counters.given_up += 1,
                Sent::Full => {
                    self.counters.full += 1;
                    *fanout = Some(Fanout { job, seq, from: place, to });
                    return Full::Yes;
                }
            }
        }
        *fanout = None;
        Full::No
    }

    /// Sends what the coordinator has to send.
    fn transmit_control(&mut self, now: Instant, link: &mut impl Link) -> Full {
        while let Some(due) = self.held.take().or_else(|| self.coordinator.poll_datagram(now)) {
            let CoordinatorDatagram { lane, to, audience, datagram, .. } = due;
            let outlet = match audience {
                Audience::Member => Outlet::Members,
                Audience::Stranger => Outlet::Strangers,
            };
            let socket = socket_index(LANES, lane.index(), outlet);
            match (link.send(socket, to, datagram.capacity(), |buf| datagram.emit(buf)), audience) {
                (Sent::Queued, _) => {}
                // Whoever wants the answer asks again.
                (Sent::Unroutable, _) | (Sent::Full, Audience::Stranger) => self.counters.given_up += 1,
                (Sent::Full, Audience::Member) => {
                    self.counters.full += 1;
                    self.held = Some(due);
                    return Full::Yes;
                }
            }
        }
        Full::No
    }

    pub(crate) fn shutdown(&mut self, now: Instant) {
        let mut plane = Plane { lanes: &mut self.lanes, ip_mtu: self.config.ip_mtu };
        self.coordinator.shutdown(now, &mut plane);
    }

    pub(crate) fn poll_event(&mut self) -> Option<CoordinatorEvent> {
        self.coordinator.poll_event()
    }

    pub(crate) fn sessions(&self, now: Instant) -> impl Iterator<Item = SessionView<'_>> {
        self.coordinator.sessions(now)
    }

    pub(crate) const fn counters(&self) -> &AggregatorCounters {
        &self.counters
    }

    pub(crate) const fn control_counters(&self) -> &ControlCounters {
        self.coordinator.counters()
    }

    /// What became of the data packets of a rank in a lane.
    pub(crate) fn rank_counters(&self, job: JobId, rank: Rank, lane: LaneId) -> Option<&Counters> {
        let lane = self.lanes.get(lane.index())?;
        let bound = lane.bound.iter().flatten().find(|bound| bound.job == job && bound.rank == rank)?;
        lane.aggregator.counters(bound.port)
    }
}

/// Whether a transmit buffer was found full, so that something waits.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Full {
    No,
    Yes,
}

impl Full {
    const fn or(self, other: Self) -> Self {
        if matches!(self, Self::Yes) { self } else { other }
    }
}
