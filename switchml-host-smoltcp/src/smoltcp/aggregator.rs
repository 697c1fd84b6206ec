//! An aggregator.

use smoltcp::iface::{Interface, SocketHandle, SocketSet};
use smoltcp::time::Instant;
use switchml_proto::aggregator::Counters;
use switchml_proto::control::{ControlCounters, CoordinatorEvent, SessionView};
use switchml_proto::{JobId, LaneId, Rank};

use super::{Port, SmoltcpLink, earliest, from_smoltcp};
use crate::aggregator::{AggregatorStorage, Outlet, Switch, socket_index};
use crate::config::{AggregatorConfig, SetupError};
use crate::counters::AggregatorCounters;

/// The switch's part, on the caller's sockets: it lets workers of any host join, and sums what they send. The [crate]
/// shows how to drive it.
///
/// Whoever calls [`poll`](Self::poll) at the times that it returns, and whenever a packet came, keeps its sessions alive.
///
/// # Buffers
///
/// A result is written once for each rank, straight from the pool into the transmit buffer. If that has no room, no further
/// packet of the lane is taken before all ranks have the result, so nothing is lost by a small transmit buffer; room for one
/// result for each rank lets a result go at once. What comes in the meantime waits in the receive buffer, which has room for
/// all that the ranks may send unasked if it holds W datagrams for each of them.
///
/// The interface's neighbour cache must have room for every rank; smoltcp's feature `iface-neighbor-cache-count-N` sets
/// that, 8 by default. With fewer, each result waits for requests for link addresses. A lease
/// that is shorter than the minute for which an entry lasts keeps results from waiting for a rank that has gone.
///
/// # What a poll costs
///
/// It takes what the receive buffers hold: O(k) for a member's data packet, and a look at each entry of its storage for any
/// other datagram. Strangers are answered from sockets of their own, so that members never wait while the stack looks for
/// an address that nobody has. A flood of their datagrams takes room in the receive buffer: what it displaces is sent again.
#[derive(Debug)]
pub struct Aggregator<'s, const LANES: usize = 1> {
    switch: Switch<'s, LANES>,
    /// Those for members, then those for strangers.
    ports: [[Port; LANES]; 2],
}

/// The sockets of one lane, both bound to its port.
///
/// Add the one for strangers to the socket set after the one for members: the stack gives what comes to the first. It needs
/// room for two control messages each way, of [`MAX_CONTROL_LEN`](switchml_proto::wire::MAX_CONTROL_LEN) octets, and sends short answers only: challenges, rejections, hints.
#[derive(Clone, Copy, Debug)]
#[allow(clippy::exhaustive_structs, reason = "the caller builds it")]
pub struct LaneSockets {
    /// Receives everything, and sends to members.
    pub members: SocketHandle,
    /// Sends to everybody else.
    pub strangers: SocketHandle,
}

impl<'s, const LANES: usize> Aggregator<'s, LANES> {
    /// An aggregator without jobs. `sockets` are the caller's, bound to the ports from
    /// [`AggregatorConfig::port_base`] on, and used by nobody else.
    ///
    /// # Errors
    /// [`SetupError`]: also if the storage's chunks do not fit the interface (W-11), or a buffer is too small.
    ///
    /// # Panics
    /// If a handle is not that of a UDP socket of `set`.
    pub fn new<const SLOTS: usize, const K: usize, const WORKERS: usize, const JOBS: usize>(
        config: AggregatorConfig,
        storage: &'s mut AggregatorStorage<SLOTS, K, WORKERS, JOBS, LANES>,
        sockets: [LaneSockets; LANES],
        set: &SocketSet<'_>,
        now: Instant,
    ) -> Result<Self, SetupError> {
        let ports =
            [sockets.map(|lane| Port::new(lane.members)), sockets.map(|lane| Port::new(lane.strangers))];
        let shapes = ports.iter().flatten().map(|port| port.shape(set));
        let switch = Switch::new(config, storage, shapes, from_smoltcp(now))?;
        Ok(Self { switch, ports })
    }

    /// Serves what has come, and returns when to poll interface and aggregator next, if no packet comes before; never, if
    /// `None`. Call it after each poll of the interface, and poll the interface again afterwards.
    pub fn poll(
        &mut self,
        now: Instant,
        interface: &mut Interface,
        sockets: &mut SocketSet<'_>,
    ) -> Option<Instant> {
        let mut link = SmoltcpLink { ports: self.ports.as_flattened_mut(), sockets, interface };
        let next = self.switch.drive(from_smoltcp(now), &mut link);
        earliest(next, interface, sockets, now)
    }

    /// The next thing for a log. When nobody asks, the oldest are dropped and counted.
    pub fn poll_event(&mut self) -> Option<CoordinatorEvent> {
        self.switch.poll_event()
    }

    /// The sessions that there are, with ages as of `now`.
    pub fn sessions(&self, now: Instant) -> impl Iterator<Item = SessionView<'_>> {
        self.switch.sessions(from_smoltcp(now))
    }

    /// Aborts every job, and takes no more joins. Poll on until there are no [`sessions`](Self::sessions), so that all ranks
    /// learn of it; that takes a lease at most.
    pub fn shutdown(&mut self, now: Instant) {
        self.switch.shutdown(from_smoltcp(now));
    }

    /// What it has met.
    #[must_use]
    pub const fn counters(&self) -> &AggregatorCounters {
        self.switch.counters()
    }

    /// What its coordinator has met.
    #[must_use]
    pub const fn control_counters(&self) -> &ControlCounters {
        self.switch.control_counters()
    }

    /// What became of the data packets of a rank in a lane; none if the job has no such rank.
    #[must_use]
    pub fn rank_counters(&self, job: JobId, rank: Rank, lane: LaneId) -> Option<&Counters> {
        self.switch.rank_counters(job, rank, lane)
    }
}

const _: () = {
    // The order of `Aggregator::ports`.
    assert!(socket_index(2, 1, Outlet::Members) == 1 && socket_index(2, 1, Outlet::Strangers) == 3);
};
