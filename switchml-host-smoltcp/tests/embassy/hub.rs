//! Network drivers whose frames go through channels in memory, with one hub between them.

use core::cell::RefCell;
use core::task::{Context, Waker};
use std::collections::VecDeque;
use std::rc::Rc;

use embassy_net_driver::{Capabilities, Driver, HardwareAddress, LinkState, RxToken, TxToken};

pub(crate) const MTU: usize = 1500;
/// Frames that wait at a port; what comes then is lost.
const QUEUE: usize = 64;

#[derive(Default)]
struct Wires {
    ports: Vec<Port>,
    /// One in so many frames is lost; none if 0.
    lost_one_in: usize,
    frames: usize,
}

struct Port {
    frames: VecDeque<Vec<u8>>,
    link: LinkState,
    waker: Option<Waker>,
}

#[derive(Clone, Default)]
pub(crate) struct Hub(Rc<RefCell<Wires>>);

impl Hub {
    pub(crate) fn losing_one_in(frames: usize) -> Self {
        let hub = Self::default();
        hub.0.borrow_mut().lost_one_in = frames;
        hub
    }

    pub(crate) fn driver(&self) -> HubDriver {
        let mut wires = self.0.borrow_mut();
        wires.ports.push(Port { frames: VecDeque::new(), link: LinkState::Up, waker: None });
        HubDriver { hub: self.clone(), port: wires.ports.len() - 1 }
    }

    pub(crate) fn set_link(&self, port: usize, link: LinkState) {
        let port = &mut self.0.borrow_mut().ports[port];
        port.link = link;
        port.frames.clear();
        if let Some(waker) = port.waker.take() {
            waker.wake();
        }
    }

    /// How many frames were put on the wires.
    pub(crate) fn frames(&self) -> usize {
        self.0.borrow().frames
    }
}

pub(crate) struct HubDriver {
    hub: Hub,
    port: usize,
}

impl HubDriver {
    fn register(&self, context: &mut Context<'_>) {
        self.hub.0.borrow_mut().ports[self.port].waker = Some(context.waker().clone());
    }
}

impl Driver for HubDriver {
    type RxToken<'a> = Frame;
    type TxToken<'a> = Outgoing<'a>;

    fn receive(&mut self, context: &mut Context<'_>) -> Option<(Frame, Outgoing<'_>)> {
        self.register(context);
        let frame = self.hub.0.borrow_mut().ports[self.port].frames.pop_front()?;
        Some((Frame(frame), Outgoing(self)))
    }

    fn transmit(&mut self, context: &mut Context<'_>) -> Option<Outgoing<'_>> {
        self.register(context);
        Some(Outgoing(self))
    }

    fn link_state(&mut self, context: &mut Context<'_>) -> LinkState {
        self.register(context);
        self.hub.0.borrow().ports[self.port].link
    }

    fn capabilities(&self) -> Capabilities {
        let mut capabilities = Capabilities::default();
        capabilities.max_transmission_unit = MTU + 14;
        capabilities
    }

    fn hardware_address(&self) -> HardwareAddress {
        HardwareAddress::Ethernet([2, 0, 0, 0, 0, 1 + self.port as u8])
    }
}

pub(crate) struct Frame(Vec<u8>);

impl RxToken for Frame {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(mut self, f: F) -> R {
        f(&mut self.0)
    }
}

pub(crate) struct Outgoing<'a>(&'a HubDriver);

impl TxToken for Outgoing<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, f: F) -> R {
        let mut frame = vec![0; len];
        let result = f(&mut frame);
        let mut wires = self.0.hub.0.borrow_mut();
        if wires.ports[self.0.port].link == LinkState::Down {
            return result;
        }
        wires.frames += 1;
        if wires.lost_one_in > 0 && wires.frames.is_multiple_of(wires.lost_one_in) {
            return result;
        }
        for (port, end) in wires.ports.iter_mut().enumerate() {
            let wanted = frame[0] & 1 == 1 || usize::from(frame[5]) == port + 1;
            if port != self.0.port && wanted && end.link == LinkState::Up && end.frames.len() < QUEUE {
                end.frames.push_back(frame.clone());
                if let Some(waker) = end.waker.take() {
                    waker.wake();
                }
            }
        }
        result
    }
}
