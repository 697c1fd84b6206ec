//! Whole sessions: processes that join, reduce and leave, and a switch, on the emulated network. Any of them may stop, go on, or
//! die at any time.
//!
//! The control machines, the workers and the aggregators are the protocol's own. [`World::run_until`] lets virtual time pass.

mod process;
mod switch;

use core::fmt;
use core::time::Duration;
use std::collections::VecDeque;

use switchml_proto::control::{InvalidConfig, MemberConfig};
use switchml_proto::{Instant, LaneId};

use self::process::Process;
pub use self::process::{End, ProcessMemory};
pub use self::switch::SwitchMemory;
use self::switch::{Outgoing, Switch};
use crate::dice::Dice;
use crate::network::{Agenda, Checksum, Datagram, Link, Profile};
use crate::tensors::Application;

/// Whether a process, or the switch, does anything.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[allow(clippy::exhaustive_enums, reason = "a process has no other states")]
pub enum Power {
    /// It runs.
    On,
    /// It is stopped: what is sent to it waits, up to its buffer's room.
    Stopped,
    /// It is dead.
    Off,
}

/// Datagrams that wait for a stopped process.
const BACKLOG: usize = 500;

/// How often in a row something may be due at the same time.
const ROUNDS: u32 = 1000;

/// Some processes, and a switch.
pub struct World<'m, A> {
    now: Instant,
    profile: Profile,
    agenda: Agenda<Event>,
    dice: Dice,
    /// Memory for further lives of the switch.
    spare: core::slice::IterMut<'m, SwitchMemory>,
    switch: Option<Place<Switch<'m>>>,
    processes: Vec<Place<Process<'m, A>>>,
    links: Vec<[Link; 2]>,
}

impl<A> fmt::Debug for World<'_, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("World").field("now", &self.now).finish_non_exhaustive()
    }
}

/// Who runs somewhere, and what waits there.
struct Place<T> {
    who: T,
    power: Power,
    backlog: VecDeque<(LaneId, Option<usize>, Datagram)>,
}

enum Event {
    ToSwitch { from: usize, lane: LaneId, datagram: Datagram },
    ToProcess { to: usize, lane: LaneId, datagram: Datagram },
}

impl<'m, A: Application> World<'m, A> {
    /// A switch without jobs, and room for as many restarts as there is memory. All links have the profile.
    ///
    /// # Errors
    /// [`InvalidConfig`] if the switch's configuration is none.
    pub fn new(seed: u64, profile: Profile, memory: &'m mut [SwitchMemory]) -> Result<Self, InvalidConfig> {
        let mut world = Self {
            now: Instant::ZERO + Duration::from_secs(1),
            profile,
            agenda: Agenda::new(),
            dice: Dice::new(seed),
            spare: memory.iter_mut(),
            switch: None,
            processes: Vec::new(),
            links: Vec::new(),
        };
        world.restart_switch()?;
        Ok(world)
    }

    /// The virtual time.
    #[must_use]
    pub const fn now(&self) -> Instant {
        self.now
    }

    /// Starts a process that joins; its number. It thinks for up to `think` before each of its collectives, and leaves after the
    /// last one.
    ///
    /// # Errors
    /// [`InvalidConfig`] if the member's configuration is none.
    pub fn join(
        &mut self,
        config: MemberConfig,
        memory: &'m mut ProcessMemory,
        application: A,
        think: Duration,
    ) -> Result<usize, InvalidConfig> {
        let number = self.processes.len();
        let process =
            Process::new(number as u16, config, memory, application, think, self.dice.fork(), self.now)?;
        self.processes.push(Place::new(process));
        self.links.push([(); 2].map(|()| Link::new(self.profile, self.dice.fork())));
        self.go_on_with(number);
        Ok(number)
    }

    /// Stops, continues, or kills a process.
    pub fn set_power(&mut self, process: usize, power: Power) {
        let place = &mut self.processes[process];
        place.set_power(power);
        if power == Power::On {
            for (lane, _, datagram) in core::mem::take(&mut place.backlog) {
                place.who.handle_datagram(self.now, lane, &datagram.octets);
            }
            place.who.handle_timeout(self.now);
            self.go_on_with(process);
        }
    }

    /// Stops, continues, or kills the switch.
    pub fn set_switch_power(&mut self, power: Power) {
        let Some(place) = &mut self.switch else { return };
        place.set_power(power);
        if power == Power::On {
            for (lane, from, datagram) in core::mem::take(&mut place.backlog) {
                self.give_to_switch(from.unwrap_or_default(), lane, &datagram);
            }
            self.tick_switch();
        }
    }

    /// The switch dies, and another one that knows nothing takes its place. Does nothing if there is no memory left for one.
    ///
    /// # Errors
    /// [`InvalidConfig`] if its configuration is none.
    pub fn restart_switch(&mut self) -> Result<(), InvalidConfig> {
        if let Some(memory) = self.spare.next() {
            self.switch = Some(Place::new(Switch::new(memory, self.now)?));
        }
        Ok(())
    }

    /// How the application of a process has ended, and when, if it has.
    #[must_use]
    pub fn end(&self, process: usize) -> Option<(Instant, End)> {
        self.processes[process].who.end
    }

    /// When a process was told that its session is ready, if it was.
    #[must_use]
    pub fn ready_at(&self, process: usize) -> Option<Instant> {
        self.processes[process].who.ready_at
    }

    /// How many collectives of a process have finished, and its application.
    #[must_use]
    pub fn application(&self, process: usize) -> (u64, &A) {
        let process = &self.processes[process].who;
        (process.finished, &process.application)
    }

    /// Sessions that the switch knows, and versions of slots that they hold.
    #[must_use]
    pub fn sessions(&self) -> (usize, usize) {
        self.switch.as_ref().map_or((0, 0), |place| (place.who.sessions(self.now), place.who.used_slots()))
    }

    /// Lets time pass until `done`, or until `deadline`. Jumps to the next arrival, or to the earliest time that somebody asks for.
    ///
    /// # Panics
    /// If somebody asks for the present time again and again.
    pub fn run_until(&mut self, deadline: Instant, done: impl Fn(&Self) -> bool) {
        let mut rounds = 0;
        while !done(self) {
            let switch = self.switch.iter().filter(|place| place.power == Power::On);
            let processes = self.processes.iter().filter(|place| place.power == Power::On);
            let timeouts = processes.filter_map(|place| place.who.poll_timeout());
            let next = timeouts
                .chain(switch.filter_map(|place| place.who.poll_timeout()))
                .chain(self.agenda.next_at())
                .min();
            let Some(next) = next.filter(|&next| next <= deadline) else {
                self.now = self.now.max(deadline);
                return;
            };
            rounds = if next > self.now { 0 } else { rounds + 1 };
            assert!(rounds < ROUNDS, "a timer asks for the present time again and again");
            self.now = self.now.max(next);
            while self.agenda.next_at().is_some_and(|at| at <= self.now) {
                if let Some((_, event)) = self.agenda.next() {
                    self.happen(event);
                }
            }
            self.tick_switch();
            for process in 0..self.processes.len() {
                if self.processes[process].power == Power::On {
                    self.processes[process].who.handle_timeout(self.now);
                    self.go_on_with(process);
                }
            }
        }
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::ToSwitch { datagram, .. } | Event::ToProcess { datagram, .. }
                if datagram.checksum == Checksum::Wrong => {}
            Event::ToSwitch { from, lane, datagram } => match &mut self.switch {
                Some(place) if place.power != Power::On => place.keep(lane, Some(from), datagram),
                _ => self.give_to_switch(from, lane, &datagram),
            },
            Event::ToProcess { to, lane, datagram } => {
                let place = &mut self.processes[to];
                if place.power == Power::On {
                    place.who.handle_datagram(self.now, lane, &datagram.octets);
                    self.go_on_with(to);
                } else {
                    place.keep(lane, None, datagram);
                }
            }
        }
    }

    fn give_to_switch(&mut self, from: usize, lane: LaneId, datagram: &Datagram) {
        let Some(place) = &mut self.switch else { return };
        let address = self.processes[from].who.address(lane);
        let mut out = Vec::new();
        place.who.handle_datagram(self.now, lane, address, &datagram.octets, &mut out);
        place.who.transmit(self.now, &mut out);
        self.send_down(out);
    }

    fn tick_switch(&mut self) {
        let Some(place) = self.switch.as_mut().filter(|place| place.power == Power::On) else { return };
        let mut out = Vec::new();
        place.who.handle_timeout(self.now);
        place.who.transmit(self.now, &mut out);
        self.send_down(out);
    }

    fn send_down(&mut self, out: Vec<Outgoing>) {
        for Outgoing { lane, to, octets } in out {
            let Some(to) = self.processes.iter().position(|place| place.who.address(lane) == to) else {
                continue;
            };
            for arrival in self.links[to][1].carry(self.now, &Datagram::new(&octets)) {
                self.agenda.put(arrival.at, Event::ToProcess { to, lane, datagram: arrival.datagram });
            }
        }
    }

    fn go_on_with(&mut self, process: usize) {
        let Self { processes, links, agenda, now, .. } = self;
        let (link, now) = (&mut links[process][0], *now);
        processes[process].who.go_on(now, &mut |lane, octets| {
            for arrival in link.carry(now, &Datagram::new(octets)) {
                agenda.put(arrival.at, Event::ToSwitch { from: process, lane, datagram: arrival.datagram });
            }
        });
    }
}

impl<T> Place<T> {
    const fn new(who: T) -> Self {
        Self { who, power: Power::On, backlog: VecDeque::new() }
    }

    /// A dead one stays dead.
    fn set_power(&mut self, power: Power) {
        if self.power != Power::Off {
            self.power = power;
        }
        if self.power == Power::Off {
            self.backlog.clear();
        }
    }

    fn keep(&mut self, lane: LaneId, from: Option<usize>, datagram: Datagram) {
        if self.power == Power::Stopped && self.backlog.len() < BACKLOG {
            self.backlog.push_back((lane, from, datagram));
        }
    }
}
