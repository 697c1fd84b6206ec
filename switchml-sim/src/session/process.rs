//! A process: one rank of a job, with its control machine and a worker for each lane.

use core::net::{Ipv4Addr, SocketAddr};
use core::time::Duration;

use switchml_proto::control::{EndReason, InvalidConfig, Member, MemberConfig, MemberEvent, SessionParams};
use switchml_proto::wire::{AbortReason, Class, MAX_DATAGRAM_LEN};
use switchml_proto::worker::{Config, Event, Failure, Received, Slot, Worker};
use switchml_proto::{Instant, LaneId, Nonce};

use crate::dice::Dice;
use crate::tensors::Application;

/// What a process works with.
#[derive(Debug)]
pub struct ProcessMemory(Vec<Vec<Slot>>);

impl ProcessMemory {
    /// Memory for a member of this configuration.
    #[must_use]
    pub fn new(config: &MemberConfig) -> Self {
        let window = usize::from(config.window.get());
        Self(vec![vec![Slot::EMPTY; window]; config.lanes.get().into()])
    }
}

/// What the application of a process has got at last.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum End {
    /// All its collectives have finished, and it has left.
    Left,
    /// The session failed.
    Failed(EndReason),
}

pub(super) struct Process<'m, A> {
    pub(super) application: A,
    host: u16,
    config: MemberConfig,
    member: Member,
    slots: Option<&'m mut ProcessMemory>,
    lanes: Vec<Lane<'m>>,
    think: Duration,
    dice: Dice,
    pub(super) end: Option<(Instant, End)>,
    /// How many collectives have finished on every lane.
    pub(super) finished: u64,
    pub(super) ready_at: Option<Instant>,
}

struct Lane<'m> {
    id: LaneId,
    worker: Worker<'m>,
    started: u64,
    finished: u64,
    next_start: Instant,
}

impl<'m, A: Application> Process<'m, A> {
    pub(super) fn new(
        host: u16,
        config: MemberConfig,
        memory: &'m mut ProcessMemory,
        application: A,
        think: Duration,
        mut dice: Dice,
        now: Instant,
    ) -> Result<Self, InvalidConfig> {
        let member = Member::new(config, Nonce(dice.bits()), now)?;
        Ok(Self {
            application,
            host,
            config,
            member,
            slots: Some(memory),
            lanes: Vec::new(),
            think,
            dice,
            end: None,
            finished: 0,
            ready_at: None,
        })
    }

    pub(super) fn address(&self, lane: LaneId) -> SocketAddr {
        let [high, low] = self.host.to_be_bytes();
        SocketAddr::from((Ipv4Addr::new(10, 1, high, low), 40_000 + u16::from(lane.get())))
    }

    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        let lanes = self.lanes.iter().filter(|_| self.end.is_none());
        let lanes = lanes.flat_map(|lane| {
            let starts = lane.worker.can_start() && self.application.collective(lane.started).is_some();
            [lane.worker.poll_timeout(), starts.then_some(lane.next_start)]
        });
        lanes.chain([self.member.poll_timeout()]).flatten().min()
    }

    pub(super) fn handle_timeout(&mut self, now: Instant) {
        self.member.handle_timeout(now);
        for lane in &mut self.lanes {
            lane.worker.handle_timeout(now);
        }
    }

    pub(super) fn handle_datagram(&mut self, now: Instant, lane: LaneId, datagram: &[u8]) {
        match Class::of(datagram) {
            // It is classified, and needs no attention.
            Class::Control => drop(self.member.handle_datagram(now, lane, datagram)),
            Class::Data => {
                let Some(lane) = self.lanes.get_mut(lane.index()) else { return };
                if let Received::Chunk(chunk) = lane.worker.handle_datagram(now, datagram) {
                    self.application.write(&chunk);
                }
            }
        }
    }

    /// Does all that can be done now; `send` takes what is sent.
    pub(super) fn go_on(&mut self, now: Instant, send: &mut impl FnMut(LaneId, &[u8])) {
        while let Some(event) = self.member.poll_event() {
            self.hear(now, event);
        }
        for index in 0..self.lanes.len() {
            self.go_on_with_lane(now, index, send);
        }
        // What a worker said may have ended the session.
        while let Some(event) = self.member.poll_event() {
            self.hear(now, event);
        }
        if !self.lanes.is_empty() && self.end.is_none() {
            self.finished = self.lanes.iter().map(|lane| lane.finished).min().unwrap_or(0);
            if self.application.collective(self.finished).is_none() {
                self.member.leave(now);
                self.lanes.clear();
            }
        }
        let mut buffer = [0; MAX_DATAGRAM_LEN];
        while let Some(transmit) = self.member.poll_transmit(now, &mut buffer) {
            send(transmit.lane, &buffer[..transmit.len]);
        }
    }

    fn hear(&mut self, now: Instant, event: MemberEvent) {
        match event {
            MemberEvent::Ready(params) => self.begin(now, &params),
            MemberEvent::Left => self.end = Some((now, End::Left)),
            MemberEvent::Ended(reason) => {
                self.end = Some((now, End::Failed(reason)));
                self.lanes.clear();
            }
            _ => {}
        }
    }

    fn begin(&mut self, now: Instant, params: &SessionParams) {
        self.ready_at = Some(now);
        // It is told once that it is ready.
        let Some(memory) = self.slots.take() else { return };
        let lanes = self.config.lanes;
        self.lanes = lanes
            .lanes()
            .zip(&mut memory.0)
            .map(|(id, slots)| {
                let config = Config::new(params.job, params.layout, params.initial_seq, id, lanes);
                let worker = Worker::new(config, slots).expect("a welcome has a layout as asked for");
                let next_start = now + self.dice.time(self.think);
                Lane { id, worker, started: 0, finished: 0, next_start }
            })
            .collect();
    }

    fn go_on_with_lane(&mut self, now: Instant, index: usize, send: &mut impl FnMut(LaneId, &[u8])) {
        let Self { lanes, application, member, dice, think, .. } = self;
        let Some(lane) = lanes.get_mut(index) else { return };
        loop {
            while let Some(event) = lane.worker.poll_event() {
                match event {
                    Event::Finished(_) => lane.finished += 1,
                    Event::Failed { failure: Failure::CollectivesDiffer { .. }, .. } => {
                        member.abort(now, AbortReason::CollectivesDiffer, None);
                    }
                    Event::Failed { .. } => member.abort(now, AbortReason::Cancelled, None),
                    _ => {}
                }
            }
            if lane.worker.can_start()
                && lane.next_start <= now
                && let Some(collective) = application.collective(lane.started)
            {
                lane.worker.start(collective, now).expect("the worker says that it can start");
                lane.started += 1;
                lane.next_start = now + dice.time(*think);
            }
            let Some(packet) = lane.worker.poll_transmit(now) else { return };
            let mut octets = vec![0; packet.len()];
            packet.emit(application, &mut octets);
            send(lane.id, &octets);
        }
    }
}
