//! An Ethernet in memory, on virtual time, with the faults of real ones.

use core::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use smoltcp::phy::{Checksum, ChecksumCapabilities, Device, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::time::{Duration, Instant};
use smoltcp::wire::{EthernetAddress, EthernetFrame};

/// What goes wrong on the way, each in one of a thousand frames.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Faults {
    pub(crate) drop: u32,
    pub(crate) duplicate: u32,
    pub(crate) corrupt: u32,
    /// Frames that take ten times as long.
    pub(crate) reorder: u32,
    /// Microseconds that a frame occupies its sender's cable.
    pub(crate) occupies: u64,
}

/// Frames that a cable takes before the device is exhausted.
const CABLE_QUEUE: u64 = 8;
const LATENCY: Duration = Duration::from_micros(20);

#[derive(Debug)]
struct Wires {
    faults: Faults,
    random: ChaCha8Rng,
    hosts: Vec<Cable>,
    mtu: usize,
}

#[derive(Debug)]
struct Cable {
    address: EthernetAddress,
    up: bool,
    free_at: Instant,
    /// By time of arrival.
    arriving: BTreeMap<(Instant, u64), Vec<u8>>,
    arrived: VecDeque<Vec<u8>>,
    frames: u64,
}

#[derive(Clone, Debug)]
pub(crate) struct Net(Rc<RefCell<Wires>>);

impl Net {
    pub(crate) fn new(seed: u64, mtu: usize) -> Self {
        let random = ChaCha8Rng::seed_from_u64(seed);
        Self(Rc::new(RefCell::new(Wires { faults: Faults::default(), random, hosts: Vec::new(), mtu })))
    }

    pub(crate) fn set_faults(&self, faults: Faults) {
        self.0.borrow_mut().faults = faults;
    }

    pub(crate) fn plug(&self, address: EthernetAddress) -> Plug {
        let mut wires = self.0.borrow_mut();
        wires.hosts.push(Cable {
            address,
            up: true,
            free_at: Instant::ZERO,
            arriving: BTreeMap::new(),
            arrived: VecDeque::new(),
            frames: 0,
        });
        Plug { net: self.clone(), host: wires.hosts.len() - 1 }
    }

    /// When the next frame arrives anywhere.
    pub(crate) fn next_arrival(&self) -> Option<Instant> {
        let wires = self.0.borrow();
        wires.hosts.iter().filter_map(|cable| Some(cable.arriving.first_key_value()?.0.0)).min()
    }

    /// Puts a frame on the wire as if a host had sent it that has no other part in this.
    pub(crate) fn inject(&self, now: Instant, frame: Vec<u8>) {
        self.0.borrow_mut().carry(now, None, frame);
    }
}

impl Wires {
    fn chance(&mut self, thousandths: u32) -> bool {
        self.random.next_u32() % 1000 < thousandths
    }

    fn carry(&mut self, now: Instant, from: Option<usize>, frame: Vec<u8>) {
        let Ok(header) = EthernetFrame::new_checked(&frame) else { return };
        let to = header.dst_addr();
        let copies = if self.chance(self.faults.duplicate) { 2 } else { 1 };
        for host in 0..self.hosts.len() {
            let wanted = to.is_broadcast() || to.is_multicast() || to == self.hosts[host].address;
            if Some(host) == from || !wanted || !self.hosts[host].up {
                continue;
            }
            for _ in 0..copies {
                if self.chance(self.faults.drop) {
                    continue;
                }
                let mut frame = frame.clone();
                if self.chance(self.faults.corrupt) {
                    // Beyond the Ethernet header, whose checksum the hardware looks at.
                    let bit = 14 * 8 + self.random.next_u32() as usize % (8 * (frame.len() - 14));
                    frame[bit / 8] ^= 1 << (bit % 8);
                }
                let late = if self.chance(self.faults.reorder) { 10 } else { 1 };
                let cable = &mut self.hosts[host];
                cable.frames += 1;
                cable.arriving.insert((now + LATENCY * late, cable.frames), frame);
            }
        }
    }
}

/// One host's end of its cable.
#[derive(Debug)]
pub(crate) struct Plug {
    net: Net,
    host: usize,
}

impl Plug {
    /// Connects the cable, or takes it out: then nothing is sent or received, and what was on its way is lost.
    pub(crate) fn set_up(&self, up: bool) {
        let mut wires = self.net.0.borrow_mut();
        let cable = &mut wires.hosts[self.host];
        cable.up = up;
        cable.arriving.clear();
        cable.arrived.clear();
    }

    pub(crate) fn set_address(&self, address: EthernetAddress) {
        self.net.0.borrow_mut().hosts[self.host].address = address;
    }

    fn token(&self, now: Instant) -> Option<Outgoing> {
        let wires = self.net.0.borrow();
        let occupied = wires.faults.occupies;
        let queued = (wires.hosts[self.host].free_at - now).total_micros();
        let exhausted = wires.hosts[self.host].free_at > now && queued > occupied * CABLE_QUEUE;
        (!exhausted).then(|| Outgoing { net: self.net.clone(), host: self.host, now })
    }
}

impl Device for Plug {
    type RxToken<'a> = Incoming;
    type TxToken<'a> = Outgoing;

    fn receive(&mut self, now: Instant) -> Option<(Incoming, Outgoing)> {
        let mut outgoing = self.token(now)?;
        outgoing.now = now;
        let mut wires = self.net.0.borrow_mut();
        let cable = &mut wires.hosts[self.host];
        while cable.arriving.first_key_value().is_some_and(|(&(at, _), _)| at <= now) {
            cable.arrived.extend(cable.arriving.pop_first().map(|(_, frame)| frame));
        }
        Some((Incoming(cable.arrived.pop_front()?), outgoing))
    }

    fn transmit(&mut self, now: Instant) -> Option<Outgoing> {
        self.token(now)
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ethernet;
        capabilities.max_transmission_unit = self.net.0.borrow().mtu + 14;
        let mut checksum = ChecksumCapabilities::default();
        checksum.ipv4 = Checksum::Both;
        checksum.udp = Checksum::Both;
        capabilities.checksum = checksum;
        capabilities
    }
}

pub(crate) struct Incoming(Vec<u8>);

impl RxToken for Incoming {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, f: F) -> R {
        f(&self.0)
    }
}

pub(crate) struct Outgoing {
    net: Net,
    host: usize,
    now: Instant,
}

impl TxToken for Outgoing {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, f: F) -> R {
        let mut frame = vec![0; len];
        let result = f(&mut frame);
        let mut wires = self.net.0.borrow_mut();
        let occupies = Duration::from_micros(wires.faults.occupies);
        let cable = &mut wires.hosts[self.host];
        cable.free_at = cable.free_at.max(self.now) + occupies;
        let (sent_at, up) = (cable.free_at, cable.up);
        if up {
            wires.carry(sent_at, Some(self.host), frame);
        }
        result
    }
}
