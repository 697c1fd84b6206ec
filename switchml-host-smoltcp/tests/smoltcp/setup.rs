//! What is refused before the first packet.

use smoltcp::iface::SocketSet;
use smoltcp::phy::Device;
use smoltcp::socket::udp::{PacketBuffer, PacketMetadata, Socket};
use smoltcp::time::Instant;
use switchml_host_smoltcp::smoltcp::{Aggregator, LaneSockets, Worker};
use switchml_host_smoltcp::{
    AggregatorConfig, AggregatorStorage, Buffer, SetupError, WorkerConfig, WorkerStorage, aggregator_ram,
    worker_ram,
};
use switchml_proto::wire::MAX_CONTROL_LEN;
use switchml_proto::{ChunkSize, LaneId};

use crate::net::Net;
use crate::world::{Host, MTU, WORKER_PORT, worker_config};

fn worker_with(
    configure: impl Fn(&mut WorkerConfig),
    transmit: (usize, usize),
    receive: (usize, usize),
) -> Option<SetupError> {
    let mut sockets = SocketSet::new(Vec::new());
    let buffer = |(packets, octets)| PacketBuffer::new(vec![PacketMetadata::EMPTY; packets], vec![0; octets]);
    let mut socket = Socket::new(buffer(receive), buffer(transmit));
    socket.bind(WORKER_PORT).expect("a port");
    let handle = sockets.add(socket);
    let mut config = worker_config(2, 0);
    configure(&mut config);
    let mut storage = WorkerStorage::<8>::new();
    Worker::new(config, &mut storage, [handle], &sockets, Instant::ZERO).err()
}

#[test]
fn a_chunk_that_does_not_fit_the_mtu_is_refused_with_the_largest_that_does() {
    let refused = |mtu, chunk| {
        let configure = |config: &mut WorkerConfig| {
            config.ip_mtu = mtu;
            config.chunk = ChunkSize::from_elements(chunk).expect("a chunk");
        };
        worker_with(configure, (8, 20_000), (8, 20_000))
    };
    let largest = |elements| Some(ChunkSize::from_elements(elements).expect("a chunk"));
    let too_large = |chunk: usize, largest| {
        Some(SetupError::ChunkTooLarge { chunk: ChunkSize::from_elements(chunk).expect("a chunk"), largest })
    };
    // 20 + 8 + 10 + 4 * 256 = 1062 octets.
    assert_eq!(refused(1062, 256), None);
    assert_eq!(refused(1061, 256), too_large(256, largest(128)));
    assert_eq!(refused(1500, 512), too_large(512, largest(256)));
    assert_eq!(refused(100, 32), too_large(32, None));
    let error = refused(1500, 512).expect("it is refused").to_string();
    assert!(error.contains("512") && error.contains("256"), "{error}");
}

#[test]
fn the_mtu_of_the_interface_is_that_of_its_device() {
    let host = Host::new(&Net::new(0, MTU), 0, Instant::ZERO);
    assert_eq!(host.plug.capabilities().ip_mtu(), MTU);
}

#[test]
fn a_buffer_without_room_for_the_session_is_refused_by_name() {
    let needed = |refused: Option<SetupError>| match refused {
        Some(SetupError::Buffer { lane: LaneId::ZERO, buffer, needed, got }) => Some((buffer, needed, got)),
        None => None,
        other => panic!("{other:?}"),
    };
    let longest = MAX_CONTROL_LEN; // longer than a data packet of 32 elements
    assert_eq!(needed(worker_with(|_| (), (2, 2 * longest), (1, longest))), None);
    let refused = |transmit, receive| needed(worker_with(|_| (), transmit, receive));
    assert_eq!(
        refused((2, 2 * longest - 1), (1, longest)),
        Some((Buffer::TransmitOctets, 2 * longest, 2 * longest - 1))
    );
    assert_eq!(refused((1, 2 * longest), (1, longest)), Some((Buffer::TransmitPackets, 2, 1)));
    assert_eq!(
        refused((2, 2 * longest), (1, longest - 1)),
        Some((Buffer::ReceiveOctets, longest, longest - 1))
    );
    assert_eq!(refused((2, 2 * longest), (0, longest)), Some((Buffer::ReceivePackets, 1, 0)));
}

#[test]
fn an_aggregators_sockets_have_the_ports_of_their_lanes() {
    let mut host = Host::new(&Net::new(0, MTU), 0, Instant::ZERO);
    let mut config = AggregatorConfig::new(MTU, [1; 32]);
    config.port_base = 7000;
    let (members, strangers) = (host.socket(7000, 8, 8), host.socket(7001, 8, 8));
    let mut storage = AggregatorStorage::<8, 32, 2>::new();
    let sockets = [LaneSockets { members, strangers }];
    let refused = Aggregator::new(config, &mut storage, sockets, &host.sockets, Instant::ZERO).err();
    assert_eq!(refused, Some(SetupError::Port { lane: LaneId::ZERO, expected: Some(7000), got: 7001 }));
}

#[test]
fn an_ipv6_aggregator_needs_the_feature() {
    let configure = |config: &mut WorkerConfig| config.aggregator = "[fd00::1]:48864".parse().expect("one");
    let refused = worker_with(configure, (8, 4000), (8, 4000));
    assert_eq!(refused, (!cfg!(feature = "ipv6")).then_some(SetupError::AddressFamily));
}

#[test]
fn the_memory_of_small_configurations_is_small() {
    let worker = worker_ram::<1>(16);
    let aggregator = aggregator_ram::<128, 32, 8, 1, 1>();
    assert!(worker <= 2 << 10, "{worker}");
    assert!(aggregator <= 64 << 10, "{aggregator}");
}
