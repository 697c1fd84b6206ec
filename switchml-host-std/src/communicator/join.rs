//! From a configuration to a ready session.

use core::net::SocketAddr;
use core::time::Duration;

use mio::{Events, Poll, Token};
use switchml_proto::control::{EndReason, Member, MemberConfig, MemberEvent, SessionParams};
use switchml_proto::wire::{Class, HEADER_LEN};
use switchml_proto::{ChunkSize, Instant, LaneId, Nonce, WorkerSet};

use super::error::{Error, SessionFailure, TensorState};
use super::session::OnWaiting;
use super::waiting::{Waiting, WaitingFor};
use crate::clock::Clock;
use crate::transport::{Received, RecvBatch, Transport};

/// Joins, with a socket for each lane in `transports`, and waits until all ranks have.
pub(super) fn join(
    config: MemberConfig,
    clock: Clock,
    aggregator: SocketAddr,
    transports: &[Transport],
    on_waiting: Option<&OnWaiting>,
) -> Result<(Member, SessionParams), Error> {
    let no_random = |error: getrandom::Error| std::io::Error::other(error.to_string());
    let nonce = getrandom::u64().map_err(|error| Error::io("drawing a random number", no_random(error)))?;
    let now = clock.now();
    let member = Member::new(config, Nonce(nonce), now).map_err(Error::RankOutsideWorld)?;
    let mut joining = Joining {
        datagram: vec![0; member.transmit_capacity()],
        member,
        config,
        aggregator,
        transports,
        missing: None,
        started: now,
        told: now,
    };
    joining.run(clock, on_waiting).map(|params| (joining.member, params))
}

struct Joining<'t> {
    member: Member,
    config: MemberConfig,
    aggregator: SocketAddr,
    transports: &'t [Transport],
    datagram: Vec<u8>,
    /// Who has not joined, once the aggregator has told.
    missing: Option<WorkerSet>,
    started: Instant,
    /// When the callback was last called.
    told: Instant,
}

impl Joining<'_> {
    /// How often the callback is called.
    const PERIOD: Duration = Duration::from_secs(1);

    fn run(&mut self, clock: Clock, on_waiting: Option<&OnWaiting>) -> Result<SessionParams, Error> {
        let failed = |error| Error::io("waiting for the aggregator", error);
        let mut poll = Poll::new().map_err(failed)?;
        for (lane, transport) in self.transports.iter().enumerate() {
            transport.register(&poll, Token(lane)).map_err(failed)?;
        }
        let mut events = Events::with_capacity(self.transports.len());
        let mut batch = RecvBatch::new(HEADER_LEN + self.config.chunk.octets());
        loop {
            let now = clock.now();
            self.member.handle_timeout(now);
            self.transmit(now)?;
            match self.events() {
                Ok(None) => {}
                Ok(Some(params)) => return Ok(params),
                Err(error) => {
                    // An abort is acknowledged, so that the aggregator need not repeat it; a place is given back.
                    self.transmit(now)?;
                    return Err(error);
                }
            }
            if now.since(self.told) >= Self::PERIOD {
                self.told = now;
                if let Some(on_waiting) = on_waiting {
                    on_waiting(&self.waiting(now));
                }
            }
            if self.receive(clock, &mut batch).map_err(failed)? == Heard::Nothing {
                let deadline = self.member.poll_timeout().unwrap_or(now).min(self.told + Self::PERIOD);
                match poll.poll(&mut events, Some(clock.until(deadline))) {
                    Err(error) if error.kind() != std::io::ErrorKind::Interrupted => {
                        return Err(failed(error));
                    }
                    _ => {}
                }
            }
        }
    }

    fn transmit(&mut self, now: Instant) -> Result<(), Error> {
        while let Some(transmit) = self.member.poll_transmit(now, &mut self.datagram) {
            // The member has one lane for each socket.
            let transport = &self.transports[transmit.lane.index()];
            let sent = transport.send_to(None, &self.datagram[..transmit.len]);
            if sent.too_long > 0 {
                return Err(self.path_too_small(transmit.lane));
            }
        }
        Ok(())
    }

    /// What the member has to tell; the session's parameters once it is ready.
    fn events(&mut self) -> Result<Option<SessionParams>, Error> {
        while let Some(event) = self.member.poll_event() {
            match event {
                MemberEvent::Waiting { missing } => self.missing = Some(missing),
                MemberEvent::Ready(params) => return Ok(Some(params)),
                MemberEvent::Ended(reason) => return Err(self.error(reason)),
                // Nobody has asked for a status, nor to leave.
                _ => {}
            }
        }
        Ok(None)
    }

    /// Looks once for datagrams in every lane.
    fn receive(&mut self, clock: Clock, batch: &mut RecvBatch) -> std::io::Result<Heard> {
        let mut heard = Heard::Nothing;
        for (lane, transport) in self.config.lanes.lanes().zip(self.transports) {
            match transport.recv(batch)? {
                Received::Nothing => continue,
                Received::Batch | Received::Unreachable => heard = Heard::Something,
            }
            for datagram in batch.runs().flat_map(|run| run.datagrams()) {
                // Data cannot come before this rank has sent some.
                if Class::of(datagram) == Class::Control {
                    // The member has dealt with it, whatever it was.
                    let _ = self.member.handle_datagram(clock.now(), lane, datagram);
                }
            }
        }
        Ok(heard)
    }

    fn waiting(&self, now: Instant) -> Waiting {
        let what = match self.missing {
            Some(missing) => WaitingFor::Join { missing, world_size: self.config.world_size },
            None => WaitingFor::Aggregator { address: self.aggregator },
        };
        Waiting { what, waited: now.since(self.started) }
    }

    fn error(&self, reason: EndReason) -> Error {
        let MemberConfig { connect_timeout, join_timeout, .. } = self.config;
        let failure = match reason {
            EndReason::Rejected(reason) => return Error::Rejected { address: self.aggregator, reason },
            EndReason::AggregatorSilent { lane } => {
                let mut address = self.aggregator;
                address.set_port(address.port() + u16::from(lane.get()));
                return Error::AggregatorSilent { address, after: connect_timeout.min(join_timeout) };
            }
            EndReason::PathTooSmall { lane } => return self.path_too_small(lane),
            EndReason::JoinTimeout { missing } => {
                return Error::JoinTimeout { missing, after: join_timeout };
            }
            EndReason::Aborted { reason, culprit } => {
                SessionFailure::aborted(reason, culprit, self.aggregator)
            }
            // The last reason, for one that was welcomed, and any that comes later.
            _ => {
                let after = self.member.lease().unwrap_or(connect_timeout);
                SessionFailure::AggregatorLost { address: self.aggregator, after }
            }
        };
        Error::Session { failure, tensor: TensorState::Untouched }
    }

    fn path_too_small(&self, lane: LaneId) -> Error {
        let chunk = self.config.chunk;
        let largest = self.transports[lane.index()].max_datagram().and_then(ChunkSize::largest_within);
        // A path that was only found too small by its silence has not told its size.
        Error::PathTooSmall { chunk, largest: largest.filter(|&largest| largest < chunk) }
    }
}

#[derive(Clone, Copy, Eq, PartialEq)]
enum Heard {
    Nothing,
    Something,
}
