//! A rank of a job, or its aggregator, on a TCP/IP stack of its own in this process, beside the kernel's.
//!
//! ```text
//! userspace worker --device tap:tap0 --address 10.0.0.2/24 --aggregator 10.0.0.1:48864 \
//!     --job resnet50 --rank 1 --world 2 --input gradients.f32 --output sums.f32
//! userspace aggregator --device raw:eth0 --address 10.0.0.3/24
//! ```
//!
//! `tap:NAME` is the far end of a TAP interface, `raw:NAME` an address more on a network interface. Both need the right to
//! use it, as root has. Tensors are files of little-endian binary32 numbers.

use core::hash::BuildHasher;
use core::net::{IpAddr, SocketAddr};
use std::collections::hash_map::RandomState;
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser};
use smoltcp::iface::{self, Interface, SocketHandle, SocketSet};
use smoltcp::phy::{self, Checksum, Device, DeviceCapabilities, Medium, RawSocket, TunTapInterface};
use smoltcp::socket::udp::{PacketBuffer, PacketMetadata, Socket};
use smoltcp::time::Instant;
use smoltcp::wire::{EthernetAddress, HardwareAddress, IpAddress, IpCidr};
use switchml_host_smoltcp::smoltcp::{Aggregator, LaneSockets, Step, Worker};
use switchml_host_smoltcp::{
    AggregatorConfig, AggregatorStorage, WorkerConfig, WorkerError, WorkerStatus, WorkerStorage,
};
use switchml_proto::numeric::Reduction;
use switchml_proto::wire::{DEFAULT_PORT_BASE, JobName};
use switchml_proto::{ChunkSize, Nonce, Rank, WorldSize};

type Failure = Box<dyn core::error::Error>;

/// Slots that a rank uses; all ranks of a job must agree.
const WINDOW: usize = 64;
/// The largest chunk that fits an Ethernet.
const CHUNK: usize = 256;
/// What the aggregator can hold: this many slots, for this many ranks together, in this many jobs.
const SLOTS: usize = 512;
const RANKS: usize = 16;
const JOBS: usize = 4;

#[derive(Parser)]
enum Command {
    /// Sums a tensor with the other ranks of a job
    Worker(WorkerOptions),
    /// Sums what ranks send, until it is killed
    Aggregator(Interfaces),
}

#[derive(Args)]
struct Interfaces {
    /// tap:NAME or raw:NAME
    #[arg(long)]
    device: String,
    /// Address of this process, and the length of its prefix
    #[arg(long, value_parser = cidr)]
    address: IpCidr,
}

#[derive(Args)]
struct WorkerOptions {
    #[command(flatten)]
    interfaces: Interfaces,
    /// Address and port of the aggregator's lane 0
    #[arg(long)]
    aggregator: SocketAddr,
    /// Name of the job
    #[arg(long)]
    job: String,
    /// Which rank this is
    #[arg(long)]
    rank: usize,
    /// How many ranks there are
    #[arg(long)]
    world: usize,
    /// The tensor
    #[arg(long)]
    input: PathBuf,
    /// Where the sums go
    #[arg(long)]
    output: PathBuf,
}

fn main() -> ExitCode {
    let outcome = match Command::parse() {
        Command::Worker(options) => match options.interfaces.device.split_once(':') {
            Some(("tap", name)) => tap(name).and_then(|device| worker(&options, device)),
            Some(("raw", name)) => raw(name).and_then(|device| worker(&options, device)),
            _ => Err("a device is tap:NAME or raw:NAME".into()),
        },
        Command::Aggregator(options) => match options.device.split_once(':') {
            Some(("tap", name)) => tap(name).and_then(|device| aggregator(&options, device)),
            Some(("raw", name)) => raw(name).and_then(|device| aggregator(&options, device)),
            _ => Err("a device is tap:NAME or raw:NAME".into()),
        },
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            say(&format!("userspace: {failure}"));
            ExitCode::FAILURE
        }
    }
}

fn worker<D: Device + AsRawFd>(options: &WorkerOptions, mut device: D) -> Result<(), Failure> {
    let octets = std::fs::read(&options.input)?;
    let mut tensor: Vec<f32> =
        octets.as_chunks().0.iter().map(|&octets| f32::from_le_bytes(octets)).collect();

    let mut interface = open(&options.interfaces, &mut device)?;
    let mut sockets = SocketSet::new(Vec::new());
    let port = 49_152 + (random() % 16_384) as u16;
    let socket = add_socket(&mut sockets, port, WINDOW)?;
    let mut config = WorkerConfig::new(
        JobName::new(&options.job).ok_or("a job's name has 1 to 64 octets")?,
        WorldSize::new(options.world)?,
        Rank::new(options.rank)?,
        options.aggregator,
        device.capabilities().ip_mtu(),
        Nonce(random()),
    );
    config.chunk = ChunkSize::from_elements(CHUNK)?;
    let mut storage = WorkerStorage::<WINDOW>::new();
    let mut worker = Worker::new(config, &mut storage, [socket], &sockets, Instant::now())?;

    until(&mut worker, &mut interface, &mut device, &mut sockets, |status| status == WorkerStatus::Ready)?;
    say("joined");
    let mut reduction = worker.all_reduce(&mut tensor, Reduction::Sum, Instant::now())?;
    loop {
        interface.poll(Instant::now(), &mut device, &mut sockets);
        let step = reduction.poll(Instant::now(), &mut interface, &mut sockets)?;
        interface.poll(Instant::now(), &mut device, &mut sockets);
        match step {
            Step::Done(_) => break,
            Step::Working { poll_at } => wait(&device, poll_at)?,
        }
    }
    say(&format!("summed {} elements: {:?}", tensor.len(), worker.counters()));
    std::fs::write(&options.output, tensor.iter().flat_map(|sum| sum.to_le_bytes()).collect::<Vec<_>>())?;
    worker.leave(Instant::now());
    until(&mut worker, &mut interface, &mut device, &mut sockets, |status| status == WorkerStatus::Left)?;
    Ok(())
}

/// Lets the worker go on until it has such a status.
fn until<D: Device + AsRawFd>(
    worker: &mut Worker<'_>,
    interface: &mut Interface,
    device: &mut D,
    sockets: &mut SocketSet<'_>,
    wanted: fn(WorkerStatus) -> bool,
) -> Result<(), Failure> {
    loop {
        interface.poll(Instant::now(), device, sockets);
        let progress = worker.poll(Instant::now(), interface, sockets);
        interface.poll(Instant::now(), device, sockets);
        match progress.status {
            status if wanted(status) => return Ok(()),
            WorkerStatus::Failed(error) => return Err(error.into()),
            WorkerStatus::Left => return Err(WorkerError::Left.into()),
            _ => wait(device, progress.poll_at)?,
        }
    }
}

fn aggregator<D: Device + AsRawFd>(options: &Interfaces, mut device: D) -> Result<(), Failure> {
    let mut interface = open(options, &mut device)?;
    let mut sockets = SocketSet::new(Vec::new());
    let members = add_socket(&mut sockets, DEFAULT_PORT_BASE, RANKS * WINDOW)?;
    let strangers = add_socket(&mut sockets, DEFAULT_PORT_BASE, 8)?;
    let seed = core::array::from_fn(|_| random() as u8);
    let config = AggregatorConfig::new(device.capabilities().ip_mtu(), seed);
    let mut storage = Box::new(AggregatorStorage::<SLOTS, CHUNK, RANKS, JOBS>::new());
    let lanes = [LaneSockets { members, strangers }];
    let mut aggregator = Aggregator::new(config, &mut storage, lanes, &sockets, Instant::now())?;
    say("listening");
    loop {
        interface.poll(Instant::now(), &mut device, &mut sockets);
        let poll_at = aggregator.poll(Instant::now(), &mut interface, &mut sockets);
        interface.poll(Instant::now(), &mut device, &mut sockets);
        while let Some(event) = aggregator.poll_event() {
            say(&format!("{event:?}"));
        }
        wait(&device, poll_at)?;
    }
}

fn tap(name: &str) -> Result<TunTapInterface, Failure> {
    TunTapInterface::new(name, Medium::Ethernet)
        .map_err(|error| format!("TAP interface {name}: {error}").into())
}

fn raw(name: &str) -> Result<Raw, Failure> {
    let socket = RawSocket::new(name, Medium::Ethernet);
    socket.map(Raw).map_err(|error| format!("raw socket on {name}: {error}").into())
}

fn open<D: Device>(options: &Interfaces, device: &mut D) -> Result<Interface, Failure> {
    let [_, _, _, a, b, c, d, e] = random().to_be_bytes();
    // One of those that everybody may give.
    let link_address = EthernetAddress([0x02, a, b, c, d, e]);
    let mut config = iface::Config::new(HardwareAddress::Ethernet(link_address));
    config.random_seed = random();
    let mut interface = Interface::new(config, device, Instant::now());
    let mut pushed = Ok(());
    interface.update_ip_addrs(|addresses| pushed = addresses.push(options.address));
    pushed.map_err(|_| "no room for an address")?;
    Ok(interface)
}

/// A socket with room for `packets` datagrams each way.
fn add_socket(sockets: &mut SocketSet<'_>, port: u16, packets: usize) -> Result<SocketHandle, Failure> {
    let longest = ChunkSize::from_elements(CHUNK)?.datagram_len();
    let buffer = || PacketBuffer::new(vec![PacketMetadata::EMPTY; packets], vec![0; packets * longest]);
    let mut socket = Socket::new(buffer(), buffer());
    socket.bind(port).map_err(|error| format!("port {port}: {error}"))?;
    Ok(sockets.add(socket))
}

/// Sleeps until a frame comes, or until `poll_at`.
fn wait<D: AsRawFd>(device: &D, poll_at: Option<Instant>) -> Result<(), Failure> {
    let now = Instant::now();
    let delay = poll_at.map(|at| if at > now { at - now } else { smoltcp::time::Duration::ZERO });
    phy::wait(device.as_raw_fd(), delay)?;
    Ok(())
}

/// A raw socket. What another process of this machine sends through a virtual interface has no UDP checksum yet, so none
/// is looked at here. Nor is it cut into datagrams, if it was sent in runs: `ip link set NAME gso_max_segs 1` at the other
/// end of a veth pair has the kernel do that. Neither concerns what comes from a cable.
struct Raw(RawSocket);

impl Device for Raw {
    type RxToken<'a> = <RawSocket as Device>::RxToken<'a>;
    type TxToken<'a> = <RawSocket as Device>::TxToken<'a>;

    fn receive(&mut self, now: Instant) -> Option<(Self::RxToken<'_>, Self::TxToken<'_>)> {
        self.0.receive(now)
    }

    fn transmit(&mut self, now: Instant) -> Option<Self::TxToken<'_>> {
        self.0.transmit(now)
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = self.0.capabilities();
        capabilities.checksum.udp = Checksum::Tx;
        capabilities
    }
}

impl AsRawFd for Raw {
    fn as_raw_fd(&self) -> std::os::fd::RawFd {
        self.0.as_raw_fd()
    }
}

fn cidr(text: &str) -> Result<IpCidr, String> {
    let refused = || "not an address and a prefix, as 10.0.0.2/24".to_owned();
    let (address, prefix) = text.split_once('/').ok_or_else(refused)?;
    let address: IpAddr = address.parse().map_err(|_| refused())?;
    let prefix: u8 = prefix.parse().map_err(|_| refused())?;
    match address {
        IpAddr::V4(address) if prefix <= 32 => Ok(IpCidr::new(IpAddress::Ipv4(address), prefix)),
        _ => Err(refused()),
    }
}

/// A random number, from what seeds the standard library's hash maps.
fn random() -> u64 {
    RandomState::new().hash_one(std::process::id())
}

#[allow(clippy::print_stderr, reason = "what a program is for")]
fn say(line: &str) {
    eprintln!("{line}");
}
