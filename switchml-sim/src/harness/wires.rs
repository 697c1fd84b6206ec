//! The job's links, and who is at their ends.

use core::time::Duration;

use switchml_proto::Instant;

use super::outcome::Watch;
use super::scenario::{Place, Scenario};
use crate::dice::Dice;
use crate::network::{Agenda, Datagram, Fault, Link, Party, Tally};

/// What happens next.
#[derive(Debug)]
pub(super) enum Event {
    /// A datagram is at the switch, on its way to a server.
    Uplinked { from: usize, lane: usize, datagram: Datagram },
    /// A datagram is at the aggregator.
    AtAggregator { from: Option<usize>, lane: usize, datagram: Datagram },
    /// A datagram of the server is at the switch.
    AtSwitch { to: usize, lane: usize, datagram: Datagram },
    /// A datagram is at a worker's lane.
    AtWorker { to: usize, lane: usize, datagram: Datagram },
    /// A thread that was busy hands a datagram over.
    Handed { from: Party, to: usize, datagram: Datagram },
    /// A worker's lane may have something to do.
    WakeWorker { rank: usize, lane: usize },
    /// The aggregator's lane may have something to do.
    WakeAggregator { lane: usize },
}

/// All links. Lanes share them.
#[derive(Debug)]
pub(super) struct Wires {
    up: Vec<Link>,
    down: Vec<Link>,
    server: Option<Server>,
    strangers: Strangers,
}

#[derive(Debug)]
struct Server {
    to: Link,
    from: Link,
}

/// Sends what belongs to nobody.
#[derive(Debug)]
struct Strangers {
    probability: f64,
    delay: Duration,
    dice: Dice,
    tally: Tally,
}

impl Wires {
    pub(super) fn new(scenario: &Scenario, dice: &mut Dice) -> Self {
        let mut links = |profile| {
            (0..scenario.world_size.get()).map(|_| Link::new(profile, dice.fork())).collect::<Vec<_>>()
        };
        let (up, down) = (links(scenario.network.up), links(scenario.network.down));
        let server = match scenario.network.aggregator {
            Place::Switch => None,
            Place::Server { to, from } => {
                Some(Server { to: Link::new(to, dice.fork()), from: Link::new(from, dice.fork()) })
            }
        };
        let delay = 2 * scenario.network.up.delay;
        let strangers =
            Strangers { probability: scenario.strangers, delay, dice: dice.fork(), tally: Tally::default() };
        Self { up, down, server, strangers }
    }

    pub(super) fn tally(&self) -> Tally {
        let server = self.server.iter().flat_map(|server| [&server.to, &server.from]);
        let mut tally = self.strangers.tally;
        for link in self.up.iter().chain(&self.down).chain(server) {
            tally += *link.tally();
        }
        tally
    }

    /// A worker's lane hands a datagram to its link.
    pub(super) fn send_up(
        &mut self,
        now: Instant,
        rank: usize,
        lane: usize,
        datagram: &Datagram,
        agenda: &mut Agenda<Event>,
        watch: &mut impl Watch,
    ) {
        for arrival in self.up[rank].carry(now, datagram) {
            let (from, datagram) = (rank, arrival.datagram);
            agenda.put(
                arrival.at,
                match self.server {
                    Some(_) => Event::Uplinked { from, lane, datagram },
                    None => Event::AtAggregator { from: Some(from), lane, datagram },
                },
            );
        }
        let (worker, aggregator) = (Party::Worker { rank, lane }, Party::Aggregator { lane });
        watch.datagram(now, worker, aggregator, datagram, self.up[rank].fate());
        if let Some((datagram, from)) = self.strangers.invent(datagram) {
            let at = now + self.strangers.late();
            let party = if from == From::Stranger { Party::Stranger } else { worker };
            watch.datagram(at, party, aggregator, &datagram, &[Fault::Foreign]);
            let from = (from == From::Sender).then_some(rank);
            agenda.put(at, Event::AtAggregator { from, lane, datagram });
        }
    }

    /// A datagram goes from the switch to the server.
    pub(super) fn send_to_server(
        &mut self,
        now: Instant,
        from: usize,
        lane: usize,
        datagram: &Datagram,
        agenda: &mut Agenda<Event>,
        watch: &mut impl Watch,
    ) {
        let Some(server) = &mut self.server else { return };
        for arrival in server.to.carry(now, datagram) {
            agenda
                .put(arrival.at, Event::AtAggregator { from: Some(from), lane, datagram: arrival.datagram });
        }
        tell_faults(
            watch,
            now,
            [Party::Worker { rank: from, lane }, Party::Aggregator { lane }],
            datagram,
            &server.to,
        );
    }

    /// The aggregator hands a result for one rank to its link.
    pub(super) fn send_down(
        &mut self,
        now: Instant,
        lane: usize,
        rank: usize,
        datagram: &Datagram,
        agenda: &mut Agenda<Event>,
        watch: &mut impl Watch,
    ) {
        match &mut self.server {
            None => self.send_to_worker(now, lane, rank, datagram, agenda, watch),
            Some(server) => {
                for arrival in server.from.carry(now, datagram) {
                    agenda.put(arrival.at, Event::AtSwitch { to: rank, lane, datagram: arrival.datagram });
                }
                tell_faults(
                    watch,
                    now,
                    [Party::Aggregator { lane }, Party::Worker { rank, lane }],
                    datagram,
                    &server.from,
                );
            }
        }
    }

    /// A datagram goes from the switch to a worker.
    pub(super) fn send_to_worker(
        &mut self,
        now: Instant,
        lane: usize,
        rank: usize,
        datagram: &Datagram,
        agenda: &mut Agenda<Event>,
        watch: &mut impl Watch,
    ) {
        for arrival in self.down[rank].carry(now, datagram) {
            agenda.put(arrival.at, Event::AtWorker { to: rank, lane, datagram: arrival.datagram });
        }
        let (aggregator, worker) = (Party::Aggregator { lane }, Party::Worker { rank, lane });
        watch.datagram(now, aggregator, worker, datagram, self.down[rank].fate());
        // Workers hear only what comes from their aggregator's address (W-10).
        if let Some((datagram, From::Sender)) = self.strangers.invent(datagram) {
            let at = now + self.strangers.late();
            watch.datagram(at, aggregator, worker, &datagram, &[Fault::Foreign]);
            agenda.put(at, Event::AtWorker { to: rank, lane, datagram });
        }
    }
}

/// Every datagram is told on its worker's link; on the server's only what happens to it there.
fn tell_faults(watch: &mut impl Watch, now: Instant, ends: [Party; 2], datagram: &Datagram, link: &Link) {
    if !link.fate().is_empty() {
        watch.datagram(now, ends[0], ends[1], datagram, link.fate());
    }
}

/// Whose address a foreign datagram has.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum From {
    Sender,
    Stranger,
}

impl Strangers {
    /// Perhaps another datagram, when this one is sent.
    fn invent(&mut self, datagram: &Datagram) -> Option<(Datagram, From)> {
        if !self.dice.chance(self.probability) {
            return None;
        }
        let mut octets = datagram.octets.to_vec();
        let from = match self.dice.below(3) {
            0 => From::Stranger,
            1 => {
                // Another job's number, unless the datagram was cut before it.
                if let Some(job) = octets.get_mut(1) {
                    *job = job.wrapping_add(1);
                }
                From::Sender
            }
            _ => {
                octets.truncate(self.dice.below(octets.len() as u64) as usize);
                octets.iter_mut().for_each(|octet| *octet = self.dice.bits() as u8);
                From::Sender
            }
        };
        self.tally.datagrams += 1;
        self.tally.count(Fault::Foreign);
        Some((Datagram::new(&octets), from))
    }

    fn late(&mut self) -> Duration {
        self.dice.time(self.delay)
    }
}
