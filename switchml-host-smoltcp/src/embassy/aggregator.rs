//! An aggregator.

use core::fmt;
use core::future::poll_fn;
use core::task::Poll;

use embassy_net::Stack;
use embassy_net::udp::UdpSocket;
use switchml_proto::aggregator::Counters;
use switchml_proto::control::{ControlCounters, CoordinatorEvent, SessionView};
use switchml_proto::{JobId, LaneId, Rank};

use super::{EmbassyLink, Port, now, wake_at};
use crate::aggregator::{AggregatorStorage, Switch};
use crate::config::{AggregatorConfig, SetupError};
use crate::counters::AggregatorCounters;

/// The switch's part, on the caller's sockets: it lets workers of any host join, and sums what they send. The [crate]
/// shows how to use it.
///
/// Its sessions live as long as [`run`](Self::run) or [`next_event`](Self::next_event) is awaited; both may be dropped at any
/// time, and called again.
///
/// # Buffers
///
/// A result is written once for each rank, straight from the pool into the transmit buffer. If that has no room, no further
/// packet of the lane is taken before all ranks have the result, so nothing is lost by a small transmit buffer; room for one
/// result for each rank lets a result go at once. What comes in the meantime waits in the receive buffer, which has room for
/// all that the ranks may send unasked if it holds W datagrams for each of them.
///
/// The stack's neighbour cache must have room for every rank; smoltcp's feature `iface-neighbor-cache-count-N` sets that, 8
/// by default. With fewer, each result waits for requests for link addresses. A lease
/// that is shorter than the minute for which an entry lasts keeps results from waiting for a rank that has gone.
///
/// # What a turn costs
///
/// It takes what the receive buffers hold: O(k) for a member's data packet, and a look at each entry of its storage for any
/// other datagram. Strangers are answered from sockets of their own, so that members never wait while the stack looks for
/// an address that nobody has. A flood of their datagrams takes room in the receive buffer: what it displaces is sent again.
pub struct Aggregator<'s, const LANES: usize = 1> {
    switch: Switch<'s, LANES>,
    /// Those for members, then those for strangers.
    ports: [[Port<'s>; LANES]; 2],
    stack: Stack<'s>,
}

/// The sockets of one lane, both bound to its port.
///
/// Make the one for members first: the stack gives what comes to the older one. The other one needs room for two
/// control messages each way, of [`MAX_CONTROL_LEN`](switchml_proto::wire::MAX_CONTROL_LEN) octets, and sends short answers
/// only: challenges, rejections, hints.
#[allow(clippy::exhaustive_structs, reason = "the caller builds it")]
pub struct LaneSockets<'s> {
    /// Receives everything, and sends to members.
    pub members: UdpSocket<'s>,
    /// Sends to everybody else.
    pub strangers: UdpSocket<'s>,
}

impl<'s, const LANES: usize> Aggregator<'s, LANES> {
    /// An aggregator without jobs. `sockets` are bound to the ports from [`AggregatorConfig::port_base`] on.
    ///
    /// # Errors
    /// [`SetupError`]: also if the storage's chunks do not fit the interface (W-11), or a buffer is too small.
    pub fn new<const SLOTS: usize, const K: usize, const WORKERS: usize, const JOBS: usize>(
        config: AggregatorConfig,
        storage: &'s mut AggregatorStorage<SLOTS, K, WORKERS, JOBS, LANES>,
        sockets: [LaneSockets<'s>; LANES],
        stack: Stack<'s>,
    ) -> Result<Self, SetupError> {
        let mut strangers = [const { None }; LANES];
        let mut lanes = strangers.iter_mut();
        let members = sockets.map(|lane| {
            if let Some(stranger) = lanes.next() {
                *stranger = Some(Port::new(lane.strangers));
            }
            Port::new(lane.members)
        });
        let strangers = strangers.map(|port| port.expect("each of the lanes' sockets was put there"));
        let ports = [members, strangers];
        let switch = Switch::new(config, storage, ports.iter().flatten().map(Port::shape), now())?;
        Ok(Self { switch, ports, stack })
    }

    /// Serves for ever: a task of its own.
    pub async fn run(&mut self) -> ! {
        loop {
            self.next_event().await;
        }
    }

    /// Serves until there is something for a log.
    pub async fn next_event(&mut self) -> CoordinatorEvent {
        self.drive(Switch::poll_event).await
    }

    /// Aborts every job, takes no more joins, and waits until all ranks have learned of it, a lease at most.
    pub async fn shutdown(&mut self) {
        self.switch.shutdown(now());
        self.drive(|switch| switch.sessions(now()).next().is_none().then_some(())).await;
    }

    /// The sessions that there are, with ages as of now.
    pub fn sessions(&self) -> impl Iterator<Item = SessionView<'_>> {
        self.switch.sessions(now())
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

    /// Serves until `answer` has an answer.
    async fn drive<R>(&mut self, mut answer: impl FnMut(&mut Switch<'s, LANES>) -> Option<R>) -> R {
        let Self { switch, ports, stack } = self;
        poll_fn(|context| {
            let mut link = EmbassyLink { ports: ports.as_flattened_mut(), stack: *stack, context };
            let next = switch.drive(now(), &mut link);
            match answer(switch) {
                Some(answer) => Poll::Ready(answer),
                None => {
                    wake_at(next, context);
                    Poll::Pending
                }
            }
        })
        .await
    }
}

impl<const LANES: usize> fmt::Debug for Aggregator<'_, LANES> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Aggregator").field("switch", &self.switch).finish_non_exhaustive()
    }
}

impl fmt::Debug for LaneSockets<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LaneSockets").finish_non_exhaustive()
    }
}
