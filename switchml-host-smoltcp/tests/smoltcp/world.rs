//! A job on a net in memory: one aggregator, and workers, each with an interface of its own.

use core::net::{Ipv4Addr, SocketAddr};

use smoltcp::iface::{self, Interface, SocketHandle, SocketSet};
use smoltcp::socket::udp::{PacketBuffer, PacketMetadata, Socket};
use smoltcp::time::{Duration, Instant};
use smoltcp::wire::{EthernetAddress, HardwareAddress, IpCidr};
use switchml_host_smoltcp::smoltcp::{Aggregator, Collective, LaneSockets, Step, Worker};
use switchml_host_smoltcp::{
    AggregatorConfig, AggregatorStorage, Reduced, Reducible, WorkerConfig, WorkerError, WorkerStatus,
    WorkerStorage,
};
use switchml_proto::numeric::Reduction;
use switchml_proto::wire::{DEFAULT_PORT_BASE, JobName, MAX_CONTROL_LEN};
use switchml_proto::{Nonce, Rank, WorldSize};

use crate::net::{Net, Plug};

pub(crate) const MTU: usize = 1500;
pub(crate) const SLOTS: usize = 64;
pub(crate) const K: usize = 32;
pub(crate) const WINDOW: usize = 8;
pub(crate) const WORKERS: usize = 8;
/// No control message is longer, and no data packet of 32 elements.
pub(crate) const DATAGRAM: usize = MAX_CONTROL_LEN;
pub(crate) const WORKER_PORT: u16 = 5000;

/// A machine with one interface.
pub(crate) struct Host {
    pub(crate) interface: Interface,
    pub(crate) plug: Plug,
    pub(crate) sockets: SocketSet<'static>,
}

/// The address of host `host`; the aggregator is host 0, rank r is host r + 1.
pub(crate) fn ip(host: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, 0, 1 + host as u8)
}

#[cfg(feature = "ipv6")]
pub(crate) fn ipv6(host: usize) -> core::net::Ipv6Addr {
    core::net::Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1 + host as u16)
}

pub(crate) fn mac(host: usize) -> EthernetAddress {
    EthernetAddress([2, 0, 0, 0, 0, 1 + host as u8])
}

/// The address of the aggregator's lane 0.
pub(crate) fn aggregator_address() -> SocketAddr {
    (ip(0), DEFAULT_PORT_BASE).into()
}

impl Host {
    pub(crate) fn new(net: &Net, host: usize, now: Instant) -> Self {
        let mut plug = net.plug(mac(host));
        let mut config = iface::Config::new(HardwareAddress::Ethernet(mac(host)));
        config.random_seed = host as u64;
        let mut interface = Interface::new(config, &mut plug, now);
        interface.update_ip_addrs(|addresses| {
            addresses.push(IpCidr::new(ip(host).into(), 24)).expect("there is room for two");
            #[cfg(feature = "ipv6")]
            addresses.push(IpCidr::new(ipv6(host).into(), 64)).expect("there is room for two");
        });
        Self { interface, plug, sockets: SocketSet::new(Vec::new()) }
    }

    /// A socket bound to `port`, with room for `packets` datagrams each way.
    pub(crate) fn socket(&mut self, port: u16, transmit: usize, receive: usize) -> SocketHandle {
        let buffer =
            |packets| PacketBuffer::new(vec![PacketMetadata::EMPTY; packets], vec![0; packets * DATAGRAM]);
        let mut socket = Socket::new(buffer(receive), buffer(transmit));
        socket.bind(port).expect("a port that is not 0");
        self.sockets.add(socket)
    }

    pub(crate) fn poll(&mut self, now: Instant) {
        self.interface.poll(now, &mut self.plug, &mut self.sockets);
    }
}

/// Datagrams that the aggregator's transmit and receive buffers have room for.
#[derive(Clone, Copy)]
pub(crate) struct Room {
    pub(crate) transmit: usize,
    pub(crate) receive: usize,
}

pub(crate) const AMPLE: Room = Room { transmit: 32, receive: 128 };

/// The aggregator's machine.
pub(crate) struct Core<const LANES: usize> {
    pub(crate) host: Host,
    pub(crate) aggregator: Aggregator<'static, LANES>,
}

pub(crate) struct World<const LANES: usize = 1> {
    pub(crate) now: Instant,
    pub(crate) net: Net,
    /// None: the machine is off.
    pub(crate) core: Option<Core<LANES>>,
    pub(crate) hosts: Vec<Host>,
    pub(crate) workers: Vec<Worker<'static, LANES>>,
}

/// What one rank's turn came to.
pub(crate) struct Turn {
    pub(crate) poll_at: Option<Instant>,
    pub(crate) done: bool,
}

impl<const LANES: usize> World<LANES> {
    /// A job of `ranks` workers, none of which has joined.
    pub(crate) fn new(ranks: usize, seed: u64, room: Room) -> Self {
        Self::configured(ranks, seed, room, |_| (), |_| ())
    }

    pub(crate) fn configured(
        ranks: usize,
        seed: u64,
        room: Room,
        configure: impl Fn(&mut WorkerConfig),
        configure_aggregator: impl Fn(&mut AggregatorConfig),
    ) -> Self {
        let now = Instant::from_millis(1000);
        let net = Net::new(seed, MTU);
        let mut config = AggregatorConfig::new(MTU, [seed as u8; 32]);
        configure_aggregator(&mut config);
        let core = Core::new(Host::new(&net, 0, now), config, room, now);
        let mut world = Self { now, net, core: Some(core), hosts: Vec::new(), workers: Vec::new() };
        for rank in 0..ranks {
            let mut host = Host::new(&world.net, rank + 1, now);
            let sockets = core::array::from_fn(|lane| host.socket(WORKER_PORT + lane as u16, 12, 32));
            let storage = Box::leak(Box::new(WorkerStorage::<WINDOW, LANES>::new()));
            let mut config = worker_config(ranks, rank);
            configure(&mut config);
            let worker = Worker::new(config, storage, sockets, &host.sockets, now);
            world.workers.push(worker.expect("the configuration is good"));
            world.hosts.push(host);
        }
        world
    }

    /// A job that has joined.
    pub(crate) fn joined(ranks: usize, seed: u64) -> Self {
        let mut world = Self::new(ranks, seed, AMPLE);
        world.join();
        world
    }

    pub(crate) fn join(&mut self) {
        self.until(Duration::from_secs(30), |status| status == WorkerStatus::Ready);
    }

    /// Lets the workers go on until each has such a status.
    pub(crate) fn until(&mut self, limit: Duration, wanted: impl Fn(WorkerStatus) -> bool) {
        let Self { now, net, core, hosts, workers } = self;
        run(now, net, core, hosts, limit, |rank, now, host| {
            let progress = workers[rank].poll(now, &mut host.interface, &mut host.sockets);
            Turn { poll_at: progress.poll_at, done: wanted(progress.status) }
        });
    }

    /// All workers are idle, and polled, for so long.
    pub(crate) fn idle(&mut self, time: Duration) {
        let end = self.now + time;
        let Self { now, net, core, hosts, workers } = self;
        run(now, net, core, hosts, time * 2, |rank, now, host| {
            let progress = workers[rank].poll(now, &mut host.interface, &mut host.sockets);
            Turn { poll_at: Some(progress.poll_at.map_or(end, |at| at.min(end))), done: now >= end }
        });
    }

    /// All workers sum their tensors; how each rank's call ended.
    pub(crate) fn all_reduce<T: Reducible>(
        &mut self,
        tensors: &mut [Vec<T>],
        reduction: Reduction,
    ) -> Vec<Result<Reduced, WorkerError>> {
        self.collective(tensors, |_, worker, tensor, now| worker.all_reduce(tensor, reduction, now))
    }

    pub(crate) fn collective<T: Reducible>(
        &mut self,
        tensors: &mut [Vec<T>],
        begin: impl for<'c> Fn(
            usize,
            &'c mut Worker<'static, LANES>,
            &'c mut [T],
            Instant,
        ) -> Result<Collective<'c, 'static, T, LANES>, WorkerError>,
    ) -> Vec<Result<Reduced, WorkerError>> {
        self.collective_with(tensors, begin, |_, _, _| ())
    }

    /// As `collective`; `meanwhile` is called before each turn of a rank, for what happens on the way.
    pub(crate) fn collective_with<T: Reducible>(
        &mut self,
        tensors: &mut [Vec<T>],
        begin: impl for<'c> Fn(
            usize,
            &'c mut Worker<'static, LANES>,
            &'c mut [T],
            Instant,
        ) -> Result<Collective<'c, 'static, T, LANES>, WorkerError>,
        mut meanwhile: impl FnMut(usize, Instant, &mut Host),
    ) -> Vec<Result<Reduced, WorkerError>> {
        let Self { now, net, core, hosts, workers } = self;
        let mut outcomes: Vec<_> = workers.iter().map(|_| None).collect();
        let begun = workers.iter_mut().zip(tensors).enumerate();
        let mut open: Vec<_> = begun
            .map(|(rank, (worker, tensor))| match begin(rank, worker, tensor, *now) {
                Ok(collective) => Some(collective),
                Err(error) => {
                    outcomes[rank] = Some(Err(error));
                    None
                }
            })
            .collect();
        run(now, net, core, hosts, Duration::from_secs(300), |rank, now, host| {
            meanwhile(rank, now, host);
            let Some(collective) = &mut open[rank] else { return Turn { poll_at: None, done: true } };
            // Also after the end: whoever has failed tells the others, and whoever is done keeps its session alive.
            match collective.poll(now, &mut host.interface, &mut host.sockets) {
                Ok(Step::Working { poll_at }) => Turn { poll_at, done: outcomes[rank].is_some() },
                Ok(Step::Done(reduced)) => {
                    outcomes[rank].get_or_insert(Ok(reduced));
                    Turn { poll_at: None, done: true }
                }
                Err(error) => {
                    outcomes[rank].get_or_insert(Err(error));
                    Turn { poll_at: None, done: true }
                }
            }
        });
        drop(open);
        outcomes.into_iter().map(|outcome| outcome.expect("every rank has ended")).collect()
    }
}

impl<const LANES: usize> Core<LANES> {
    pub(crate) fn new(mut host: Host, config: AggregatorConfig, room: Room, now: Instant) -> Self {
        let ports: [_; LANES] = core::array::from_fn(|lane| config.port_base + lane as u16);
        let members = ports.map(|port| host.socket(port, room.transmit, room.receive));
        let strangers = ports.map(|port| host.socket(port, 4, 1));
        let sockets =
            core::array::from_fn(|lane| LaneSockets { members: members[lane], strangers: strangers[lane] });
        let storage = Box::leak(Box::new(AggregatorStorage::<SLOTS, K, WORKERS, 2, LANES>::new()));
        let aggregator = Aggregator::new(config, storage, sockets, &host.sockets, now);
        Self { aggregator: aggregator.expect("the configuration is good"), host }
    }

    fn turn(&mut self, now: Instant) -> Option<Instant> {
        let Self { host, aggregator } = self;
        host.poll(now);
        let poll_at = aggregator.poll(now, &mut host.interface, &mut host.sockets);
        host.poll(now);
        poll_at
    }
}

pub(crate) fn worker_config(ranks: usize, rank: usize) -> WorkerConfig {
    WorkerConfig::new(
        JobName::new("job").expect("a name"),
        WorldSize::new(ranks).expect("a world size"),
        Rank::new(rank).expect("a rank"),
        aggregator_address(),
        MTU,
        Nonce(1000 + rank as u64),
    )
}

/// Lets all machines go on, each asleep until it said to be woken or a frame comes, until all ranks are done.
pub(crate) fn run<const LANES: usize>(
    now: &mut Instant,
    net: &Net,
    core: &mut Option<Core<LANES>>,
    hosts: &mut [Host],
    limit: Duration,
    mut turn: impl FnMut(usize, Instant, &mut Host) -> Turn,
) {
    let limit = *now + limit;
    loop {
        let mut next = core.as_mut().and_then(|core| core.turn(*now));
        let mut all_done = true;
        for (rank, host) in hosts.iter_mut().enumerate() {
            host.poll(*now);
            let Turn { poll_at, done } = turn(rank, *now, host);
            host.poll(*now);
            all_done &= done;
            next = next.into_iter().chain(poll_at).min();
        }
        if all_done {
            return;
        }
        let next = next.into_iter().chain(net.next_arrival()).min().expect("somebody is to be woken");
        *now = next.max(*now + Duration::from_micros(1));
        assert!(*now < limit, "not done within the time");
    }
}
