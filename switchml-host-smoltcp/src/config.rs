//! What the caller decides, and what is checked before anything is sent.

use core::fmt;
use core::net::SocketAddr;
use core::time::Duration;

use switchml_proto::control::{CoordinatorConfig, MemberConfig};
use switchml_proto::wire::{DEFAULT_PORT_BASE, JobName, MAX_CONTROL_LEN};
use switchml_proto::worker::Config;
use switchml_proto::{ChunkSize, LaneCount, LaneId, Nonce, Rank, RtoConfig, WorldSize};

use crate::aggregator::{Outlet, sockets_of};
use crate::link::TransmitGuard;

/// Which job a worker joins as which rank, and how. Window and number of lanes follow from its
/// [`WorkerStorage`](crate::WorkerStorage).
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub struct WorkerConfig {
    /// Name of the job: with `run`, its key (C-1).
    pub name: JobName,
    /// Tells runs of one name apart; 0 by default.
    pub run: u64,
    /// Number of workers.
    pub world_size: WorldSize,
    /// Which of them this is, below the world size.
    pub rank: Rank,
    /// Elements of a packet, equal on all ranks; 32 by default. Each rank's default is its host's: a job with std
    /// workers needs one number given to all.
    pub chunk: ChunkSize,
    /// The aggregator's address, with the port of lane 0.
    #[cfg_attr(feature = "defmt", defmt(Debug2Format))]
    pub aggregator: SocketAddr,
    /// Octets of the largest IP packet that the path to the aggregator carries in one piece; for a path of one hop, the
    /// interface's.
    pub ip_mtu: usize,
    /// A random number that tells this start of this process from any other (C-2).
    pub nonce: Nonce,
    /// How long the aggregator may give no answer to the first joins; 5 s by default.
    pub connect_timeout: Duration,
    /// How long other ranks may take to join; 10 min by default.
    pub join_timeout: Duration,
    /// Bounds of the retransmission timeout (T-6): 50 ms, 2 ms and 1 s by default.
    pub rto: RtoConfig,
    /// Reordering allowance (T-9); 250 microseconds by default.
    pub reordering: Duration,
    /// How long no result may come before the session fails (T-8); 10 min by default.
    pub stall_time: Duration,
}

impl WorkerConfig {
    /// Rank `rank` of the `world_size` ranks of job `name`, with the defaults. `ip_mtu` and `nonce` are explained at the
    /// fields.
    #[must_use]
    pub const fn new(
        name: JobName,
        world_size: WorldSize,
        rank: Rank,
        aggregator: SocketAddr,
        ip_mtu: usize,
        nonce: Nonce,
    ) -> Self {
        Self {
            name,
            run: 0,
            world_size,
            rank,
            chunk: ChunkSize::MIN,
            aggregator,
            ip_mtu,
            nonce,
            connect_timeout: Duration::from_secs(5),
            join_timeout: Duration::from_secs(600),
            rto: RtoConfig::DEFAULT,
            reordering: Config::REORDERING,
            stall_time: Config::STALL_TIME,
        }
    }

    /// Checks all that can be wrong before the first packet, and says what the member joins with.
    pub(crate) fn check(
        &self,
        window: switchml_proto::Window,
        sockets: &[SocketShape],
    ) -> Result<MemberConfig, SetupError> {
        let Self { chunk, aggregator, ip_mtu, rto, .. } = *self;
        let lanes = LaneCount::new(sockets.len()).map_err(|_| SetupError::Lanes { lanes: sockets.len() })?;
        if rto.floor.is_zero() || rto.floor > rto.ceiling {
            return Err(SetupError::Rto);
        }
        if aggregator.port().checked_add(u16::from(lanes.get()) - 1).is_none() || aggregator.port() == 0 {
            return Err(SetupError::PortBase { port_base: aggregator.port() });
        }
        fits(chunk, payload(ip_mtu, &aggregator))?;
        for (lane, socket) in lanes.lanes().zip(sockets) {
            socket.check(lane, chunk)?;
            if socket.port == 0 {
                return Err(SetupError::Port { lane, expected: None, got: 0 });
            }
        }
        let mut member = MemberConfig::new(self.name, self.world_size, self.rank)
            .map_err(|_| SetupError::RankOutsideWorld { rank: self.rank, world_size: self.world_size })?;
        member.run = self.run;
        member.lanes = lanes;
        member.chunk = chunk;
        member.window = window;
        member.connect_timeout = self.connect_timeout;
        member.join_timeout = self.join_timeout;
        Ok(member)
    }
}

/// How an aggregator serves. What it can hold follows from its [`AggregatorStorage`](crate::AggregatorStorage).
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub struct AggregatorConfig {
    /// UDP port of lane 0; lane l has the port l above (W-9). 48864 by default.
    pub port_base: u16,
    /// Octets of the largest IP packet that its interface carries in one piece.
    pub ip_mtu: usize,
    /// Secret random octets, new at every start (C-1, C-2).
    pub seed: [u8; 32],
    /// How long a member may be silent, 20 ms to a day; 5 s by default.
    pub lease: Duration,
    /// How long a job may take from its first join to its last; 10 min by default.
    pub join_timeout: Duration,
}

impl AggregatorConfig {
    /// The defaults. `ip_mtu` and `seed` are explained at the fields.
    #[must_use]
    pub const fn new(ip_mtu: usize, seed: [u8; 32]) -> Self {
        Self {
            port_base: DEFAULT_PORT_BASE,
            ip_mtu,
            seed,
            lease: Duration::from_secs(5),
            join_timeout: Duration::from_secs(600),
        }
    }

    /// Checks all that can be wrong before the first packet, and says what the coordinator gives.
    pub(crate) fn check(
        &self,
        slots: usize,
        largest_chunk: ChunkSize,
        sockets: impl Iterator<Item = SocketShape>,
        lanes: usize,
    ) -> Result<CoordinatorConfig, SetupError> {
        let lane_count = LaneCount::new(lanes).map_err(|_| SetupError::Lanes { lanes })?;
        let port_base = self.port_base;
        if port_base == 0 || port_base.checked_add(u16::from(lane_count.get()) - 1).is_none() {
            return Err(SetupError::PortBase { port_base });
        }
        // IPv4 has the shorter header. What an IPv6 member's path carries is looked at when it joins.
        fits(largest_chunk, self.ip_mtu.saturating_sub(IPV4_HEADER + UDP_HEADER))?;
        for ((lane, outlet), socket) in sockets_of(lane_count).zip(sockets) {
            // Strangers get nothing longer than the longest control message.
            socket.check(lane, if outlet == Outlet::Members { largest_chunk } else { ChunkSize::MIN })?;
            let expected = port_base + u16::from(lane.get());
            if socket.port != expected {
                return Err(SetupError::Port { lane, expected: Some(expected), got: socket.port });
            }
        }
        let slots = u16::try_from(slots).map_err(|_| SetupError::Slots { slots })?;
        let mut coordinator = CoordinatorConfig::new(slots, lane_count, self.seed);
        coordinator.largest_chunk = largest_chunk;
        coordinator.lease = self.lease;
        coordinator.join_timeout = self.join_timeout;
        Ok(coordinator)
    }
}

const IPV4_HEADER: usize = 20;
const IPV6_HEADER: usize = 40;
const UDP_HEADER: usize = 8;

/// Octets of UDP payload in an IP packet of `ip_mtu` octets to or from `peer`.
pub(crate) const fn payload(ip_mtu: usize, peer: &SocketAddr) -> usize {
    let headers = if peer.is_ipv4() { IPV4_HEADER } else { IPV6_HEADER } + UDP_HEADER;
    ip_mtu.saturating_sub(headers)
}

/// Octets of the longest datagram of a session with chunks of `chunk`.
const fn longest_datagram(chunk: ChunkSize) -> usize {
    if chunk.datagram_len() > MAX_CONTROL_LEN { chunk.datagram_len() } else { MAX_CONTROL_LEN }
}

/// W-11: the stack would drop what is too long without a word.
fn fits(chunk: ChunkSize, payload: usize) -> Result<(), SetupError> {
    let largest = ChunkSize::largest_within(payload);
    if largest.is_none_or(|largest| largest < chunk) {
        return Err(SetupError::ChunkTooLarge { chunk, largest });
    }
    Ok(())
}

/// What is to be known of a socket.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SocketShape {
    pub(crate) port: u16,
    pub(crate) transmit_octets: usize,
    pub(crate) transmit_packets: usize,
    pub(crate) receive_octets: usize,
    pub(crate) receive_packets: usize,
}

impl SocketShape {
    fn check(&self, lane: LaneId, chunk: ChunkSize) -> Result<(), SetupError> {
        let longest = longest_datagram(chunk);
        let sizes = [
            (Buffer::TransmitOctets, TransmitGuard::octets_needed(longest), self.transmit_octets),
            (Buffer::TransmitPackets, TransmitGuard::PACKETS_NEEDED, self.transmit_packets),
            (Buffer::ReceiveOctets, longest, self.receive_octets),
            (Buffer::ReceivePackets, 1, self.receive_packets),
        ];
        match sizes.into_iter().find(|&(_, needed, got)| got < needed) {
            Some((buffer, needed, got)) => Err(SetupError::Buffer { lane, buffer, needed, got }),
            None => Ok(()),
        }
    }
}

/// One of the four arrays of a UDP socket.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[allow(clippy::exhaustive_enums, reason = "a UDP socket of smoltcp has these four")]
pub enum Buffer {
    /// Octets to send.
    TransmitOctets,
    /// Descriptions of packets to send.
    TransmitPackets,
    /// Octets received.
    ReceiveOctets,
    /// Descriptions of packets received.
    ReceivePackets,
}

/// Why nothing can begin. Nothing was sent.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum SetupError {
    /// A data packet would be longer than the interface carries, and the stack would drop it (W-11).
    ChunkTooLarge {
        /// The chunk asked for.
        chunk: ChunkSize,
        /// The largest that fits, if one does.
        largest: Option<ChunkSize>,
    },
    /// A socket's buffer has no room for one datagram of the session, or for two where two are needed.
    Buffer {
        /// Whose socket it is.
        lane: LaneId,
        /// Which of its arrays.
        buffer: Buffer,
        /// The fewest octets or descriptions.
        needed: usize,
        /// What it has.
        got: usize,
    },
    /// A socket is not bound, or not to the port that its lane has.
    Port {
        /// Whose socket it is.
        lane: LaneId,
        /// The port that an aggregator's lane has; any will do for a worker.
        expected: Option<u16>,
        /// The port that it is bound to; 0 if to none.
        got: u16,
    },
    /// The ports of the lanes, from this one on, are not from 1 to 65535.
    PortBase {
        /// The port of lane 0.
        port_base: u16,
    },
    /// A job has 1 to 16 lanes.
    Lanes {
        /// Sockets lent.
        lanes: usize,
    },
    /// A lane has 1 to 16,384 slots.
    Slots {
        /// Slots lent.
        slots: usize,
    },
    /// The rank is not below the world size.
    RankOutsideWorld {
        /// Rank asked for.
        rank: Rank,
        /// World size asked for.
        world_size: WorldSize,
    },
    /// The floor of the retransmission timeout is zero, or above its ceiling.
    Rto,
    /// The lease is not from 20 ms to a day.
    Lease {
        /// Lease asked for.
        lease: Duration,
    },
    /// The aggregator's address is an IPv6 one, and this crate was built without its feature `ipv6`.
    AddressFamily,
}

impl fmt::Display for SetupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::ChunkTooLarge { chunk, largest } => {
                write!(f, "a chunk of {} elements does not fit the interface; ", chunk.elements())?;
                match largest {
                    Some(largest) => write!(f, "the largest that does has {}", largest.elements()),
                    None => f.write_str("not even the smallest one does"),
                }
            }
            Self::Buffer { lane, buffer, needed, got } => {
                let what = match buffer {
                    Buffer::TransmitOctets => "transmit octets",
                    Buffer::TransmitPackets => "transmit packet descriptions",
                    Buffer::ReceiveOctets => "receive octets",
                    Buffer::ReceivePackets => "receive packet descriptions",
                };
                write!(f, "the socket of lane {lane} has {got} {what}, and needs {needed}")
            }
            Self::Port { lane, expected: Some(expected), got } => {
                write!(f, "the socket of lane {lane} is bound to port {got}, not {expected}")
            }
            Self::Port { lane, expected: None, .. } => write!(f, "the socket of lane {lane} is not bound"),
            Self::PortBase { port_base } => {
                write!(f, "the lanes' ports from {port_base} on are not from 1 to 65535")
            }
            Self::Lanes { lanes } => write!(f, "{lanes} lanes are not from 1 to 16"),
            Self::Slots { slots } => write!(f, "{slots} slots in a lane are not from 1 to 16384"),
            Self::RankOutsideWorld { rank, world_size } => {
                write!(f, "rank {rank} is not below the world size {world_size}")
            }
            Self::Rto => f.write_str("the floor of the retransmission timeout is zero, or above its ceiling"),
            Self::Lease { lease } => write!(f, "a lease of {lease:?} is not from 20 ms to a day"),
            Self::AddressFamily => f.write_str("an IPv6 address, without the feature `ipv6`"),
        }
    }
}

impl core::error::Error for SetupError {}
