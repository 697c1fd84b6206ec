//! SwitchML on smoltcp and embassy-net: workers and aggregators for firmware, DPU cores and userspace stacks.
//!
//! A worker is a rank of a job, and sums its tensors with the other ranks'. An aggregator is the switch's part. Both speak
//! the protocol of `switchml-proto`, so any mixture with std processes, software switches and P4 switches is a job.
//!
//! # With smoltcp
//!
//! Feature `smoltcp`. The caller owns device, interface and socket set, and polls:
//!
#![cfg_attr(feature = "smoltcp", doc = "```")]
#![cfg_attr(not(feature = "smoltcp"), doc = "```ignore")]
//! use smoltcp::iface::{Config, Interface, SocketSet, SocketStorage};
//! use smoltcp::phy::Device;
//! use smoltcp::socket::udp::{PacketBuffer, PacketMetadata, Socket};
//! use smoltcp::time::Instant;
//! use smoltcp::wire::{EthernetAddress, IpCidr, Ipv4Address};
//! use switchml_host_smoltcp::smoltcp::{Step, Worker};
//! use switchml_host_smoltcp::{WorkerConfig, WorkerError, WorkerStatus, WorkerStorage};
//! use switchml_proto::numeric::Reduction;
//! use switchml_proto::wire::JobName;
//! use switchml_proto::{Nonce, Rank, WorldSize};
//!
//! /// Rank 1 of 4. `now` reads a clock; `sleep` waits for a frame, or for a time if it has one.
//! fn sum(
//!     device: &mut impl Device, now: fn() -> Instant, sleep: fn(Option<Instant>), random: u64, tensor: &mut [f32],
//! ) -> Result<(), WorkerError> {
//!     // 1. An interface with an address, and a UDP socket: 16 datagrams of at most 160 octets each way.
//!     let config = Config::new(EthernetAddress([2, 0, 0, 0, 0, 2]).into());
//!     let mut interface = Interface::new(config, device, now());
//!     let address = IpCidr::new(Ipv4Address::new(10, 0, 0, 2).into(), 24);
//!     interface.update_ip_addrs(|addresses| addresses.push(address).expect("the first one"));
//!     let (mut receive, mut transmit) = ([PacketMetadata::EMPTY; 18], [PacketMetadata::EMPTY; 18]);
//!     let (mut received, mut sent) = ([0; 16 * 160], [0; 16 * 160]);
//!     let received = PacketBuffer::new(&mut receive[..], &mut received[..]);
//!     let sent = PacketBuffer::new(&mut transmit[..], &mut sent[..]);
//!     let mut storage = [SocketStorage::EMPTY; 1];
//!     let mut sockets = SocketSet::new(&mut storage[..]);
//!     let mut socket = Socket::new(received, sent);
//!     socket.bind(5000).expect("a port");
//!     let socket = sockets.add(socket);
//!     // 2. A worker with 16 slots, and packets of 32 elements.
//!     let (name, world) = (JobName::new("resnet50").expect("a name"), WorldSize::new(4).expect("ranks"));
//!     let (rank, aggregator) = (Rank::new(1).expect("a rank"), ([10, 0, 0, 1], 48864).into());
//!     let mtu = device.capabilities().ip_mtu();
//!     let config = WorkerConfig::new(name, world, rank, aggregator, mtu, Nonce(random));
//!     let mut storage = WorkerStorage::<16>::new();
//!     let worker = Worker::new(config, &mut storage, [socket], &sockets, now());
//!     let mut worker = worker.expect("the configuration is checked here: the error says what to change");
//!     // 3. It joins. The same loop keeps the session alive while there is nothing to sum.
//!     loop {
//!         interface.poll(now(), device, &mut sockets);
//!         let progress = worker.poll(now(), &mut interface, &mut sockets);
//!         interface.poll(now(), device, &mut sockets); // what the worker has written
//!         match progress.status {
//!             WorkerStatus::Ready => break,
//!             WorkerStatus::Failed(error) => return Err(error),
//!             _ => sleep(progress.poll_at),
//!         }
//!     }
//!     // 4. It sums: packets are built from the tensor, and results written back to it.
//!     let mut reduction = worker.all_reduce(tensor, Reduction::Sum, now())?;
//!     loop {
//!         interface.poll(now(), device, &mut sockets);
//!         let step = reduction.poll(now(), &mut interface, &mut sockets)?;
//!         interface.poll(now(), device, &mut sockets);
//!         match step {
//!             Step::Done(_) => return Ok(()),
//!             Step::Working { poll_at } => sleep(poll_at),
//!         }
//!     }
//! }
//! ```
//!
//! An aggregator is polled the same way: `smoltcp::Aggregator`. `examples/userspace.rs` has both, over a TAP interface or a
//! raw socket of Linux.
//!
//! # With embassy-net
//!
//! Feature `embassy-net`. The caller owns executor and stack, and awaits:
//!
#![cfg_attr(feature = "embassy-net", doc = "```")]
#![cfg_attr(not(feature = "embassy-net"), doc = "```ignore")]
//! use embassy_net::Stack;
//! use embassy_net::udp::{PacketMetadata, UdpSocket};
//! use switchml_host_smoltcp::embassy::{Aggregator, LaneSockets, Worker};
//! use switchml_host_smoltcp::{
//!     AggregatorConfig, AggregatorStorage, WorkerConfig, WorkerError, WorkerStorage,
//! };
//! use switchml_proto::numeric::Reduction;
//! use switchml_proto::wire::JobName;
//! use switchml_proto::{Nonce, Rank, WorldSize};
//!
//! /// Rank 1 of 4 sums the tensor. `mtu` is what the driver's capabilities say, without the Ethernet header.
//! async fn sum(stack: Stack<'_>, mtu: usize, random: u64, tensor: &mut [f32]) -> Result<(), WorkerError> {
//!     // 1. A UDP socket: 16 datagrams of at most 160 octets each way.
//!     let (mut receive, mut transmit) = ([PacketMetadata::EMPTY; 18], [PacketMetadata::EMPTY; 18]);
//!     let (mut received, mut sent) = ([0; 16 * 160], [0; 16 * 160]);
//!     let mut storage = WorkerStorage::<16>::new();
//!     let mut socket = UdpSocket::new(stack, &mut receive, &mut received, &mut transmit, &mut sent);
//!     socket.bind(5000).expect("a port");
//!     // 2. A worker with 16 slots, and packets of 32 elements.
//!     let (name, world) = (JobName::new("resnet50").expect("a name"), WorldSize::new(4).expect("ranks"));
//!     let (rank, aggregator) = (Rank::new(1).expect("a rank"), ([10, 0, 0, 1], 48864).into());
//!     let config = WorkerConfig::new(name, world, rank, aggregator, mtu, Nonce(random));
//!     let worker = Worker::new(config, &mut storage, [socket], stack);
//!     let mut worker = worker.expect("the configuration is checked here: the error says what to change");
//!     // 3. It joins, sums and leaves. While nothing of this is awaited, await `worker.keep_alive()`.
//!     worker.join().await?;
//!     worker.all_reduce(tensor, Reduction::Sum).await?;
//!     worker.leave().await
//! }
//!
//! /// The switch's part, for up to 8 ranks: 64 slots of 32 elements.
//! async fn aggregate(stack: Stack<'_>, mtu: usize, random: [u8; 32]) -> ! {
//!     let (mut metas, mut octets) = ([[PacketMetadata::EMPTY; 66]; 2], [[0; 64 * 160]; 2]);
//!     let (mut few_metas, mut few_octets) = ([[PacketMetadata::EMPTY; 8]; 2], [[0; 4 * 160]; 2]);
//!     let mut storage = AggregatorStorage::<64, 32, 8>::new();
//!     let ([receive, transmit], [received, sent]) = (&mut metas, &mut octets);
//!     let mut members = UdpSocket::new(stack, receive, received, transmit, sent);
//!     let ([receive, transmit], [received, sent]) = (&mut few_metas, &mut few_octets);
//!     let mut strangers = UdpSocket::new(stack, receive, received, transmit, sent);
//!     for socket in [&mut members, &mut strangers] {
//!         socket.bind(48864).expect("a port");
//!     }
//!     let lanes = [LaneSockets { members, strangers }];
//!     let aggregator = Aggregator::new(AggregatorConfig::new(mtu, random), &mut storage, lanes, stack);
//!     aggregator.expect("the configuration is checked here").run().await
//! }
//! ```
//!
//! # Memory
//!
//! All of it is the caller's, and of a size that the caller chose: [`WorkerStorage`], [`AggregatorStorage`], and the
//! sockets' buffers. [`worker_ram`] and [`aggregator_ram`] tell how much a configuration takes, for a `const` assertion.
//! Datagrams are written straight into the stack's transmit buffer and read straight from its receive buffer: there are no
//! others. A worker's socket wants room for W datagrams each way, of `10 + 4 * k` octets or
//! [`MAX_CONTROL_LEN`](switchml_proto::wire::MAX_CONTROL_LEN), whichever is more, and `W + 2` descriptions; two
//! datagrams are the least, and what has no room waits.
//!
//! # What is checked at the start
//!
//! smoltcp drops a datagram that is longer than the interface's MTU without a word. So a chunk that does not fit is
//! refused when a worker or an aggregator is made, with the largest that does; and so are buffers that are too small. A
//! path that carries less further on is found by the join itself, which is as long as a data packet (W-11).
//!
//! # What it does not do
//!
//! It brings no device, no executor, no clock and no source of random numbers, opens one collective at a time, and
//! neither encrypts nor authenticates. The features are independent of each other, add no type of one stack to the other's
//! interface, and neither is on by default. `ipv6` adds IPv6 to either, and `defmt` adds `defmt::Format` to the types that
//! a log may want. The crate is `no_std` without `alloc`, forbids `unsafe`, and nothing that the network brings makes it
//! panic, allocate or wait.
#![no_std]
#![cfg_attr(
    not(any(feature = "smoltcp", feature = "embassy-net")),
    allow(rustdoc::broken_intra_doc_links, reason = "without a stack there is nothing to link to")
)]
#![forbid(unsafe_code)]

#[cfg(any(feature = "smoltcp", feature = "embassy-net"))]
mod aggregator;
#[cfg(any(feature = "smoltcp", feature = "embassy-net"))]
mod config;
#[cfg(any(feature = "smoltcp", feature = "embassy-net"))]
mod counters;
#[cfg(any(feature = "smoltcp", feature = "embassy-net"))]
mod element;
#[cfg(feature = "embassy-net")]
pub mod embassy;
#[cfg(any(feature = "smoltcp", feature = "embassy-net"))]
mod error;
#[cfg(any(feature = "smoltcp", feature = "embassy-net"))]
mod link;
#[cfg(feature = "smoltcp")]
pub mod smoltcp;
#[cfg(any(feature = "smoltcp", feature = "embassy-net"))]
mod worker;

#[cfg(any(feature = "smoltcp", feature = "embassy-net"))]
pub use self::{
    aggregator::{AggregatorStorage, aggregator_ram},
    config::{AggregatorConfig, Buffer, SetupError, WorkerConfig},
    counters::{AggregatorCounters, WorkerCounters},
    element::Reducible,
    error::WorkerError,
    worker::{Reduced, WorkerStatus, WorkerStorage, worker_ram},
};
