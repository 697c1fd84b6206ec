//! All schedules of one scenario, for stateright.

use core::fmt;
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use stateright::{Model, Property};

use crate::aggregate::{Aggregate, Answer};
use crate::fault::Fault;
use crate::member::{Input, Member};
use crate::oracle::Oracle;
use crate::packets::{Packets, Set, members};
use crate::scenario::{Flight, MAX_WORKERS, Scenario};
use crate::states::States;

/// What is explored.
pub(crate) struct Exploration<A> {
    pub(crate) scenario: Scenario,
    oracle: Oracle,
    machines: Mutex<Machines<A>>,
}

/// The machines' states that were met, and the packets.
pub(crate) struct Machines<A> {
    pub(crate) aggregator: States<A, AggregatorStep>,
    pub(crate) workers: Vec<States<Member, WorkerStep>>,
    pub(crate) requests: Packets,
    pub(crate) results: Packets,
}

/// One state of everything.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) struct State {
    aggregator: u32,
    workers: [u32; MAX_WORKERS],
    /// Packets that may arrive at the aggregator.
    pub(crate) requests: Set,
    /// Packets that may arrive at workers.
    pub(crate) results: Set,
    pub(crate) fault: Option<Fault>,
}

/// What happens.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Happening {
    Worker { rank: usize, input: Input },
    AtAggregator { request: usize },
}

/// What happens, and the state after it, which is known once it is known that anything changes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Action {
    pub(crate) happening: Happening,
    next: State,
}

#[derive(Clone, Copy)]
pub(crate) struct WorkerStep {
    next: u32,
    sent: Set,
}

#[derive(Clone, Copy)]
pub(crate) struct AggregatorStep {
    next: u32,
    sent: Set,
    /// The packet whose phase was overwritten, by number.
    overwritten: Option<u32>,
    fault: Option<Fault>,
}

impl<A: Aggregate> Exploration<A> {
    pub(crate) fn new(scenario: Scenario) -> Self {
        let aggregator = A::new(&scenario);
        let key = aggregator.key();
        let workers = (0..scenario.workers)
            .map(|rank| Member::new(&scenario, rank))
            .map(|member| {
                let key = member.key();
                States::new(member, key)
            })
            .collect();
        let machines = Machines {
            aggregator: States::new(aggregator, key),
            workers,
            requests: Packets::default(),
            results: Packets::default(),
        };
        Self { oracle: Oracle::new(&scenario), scenario, machines: Mutex::new(machines) }
    }

    pub(crate) fn machines(&self) -> MutexGuard<'_, Machines<A>> {
        self.machines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The state after a happening.
    fn after(&self, machines: &mut Machines<A>, state: &State, happening: Happening) -> State {
        match happening {
            Happening::Worker { rank, input } => self.worker_takes(machines, state, rank, input),
            Happening::AtAggregator { request } => self.aggregator_takes(machines, state, request),
        }
    }

    fn worker_takes(&self, machines: &mut Machines<A>, state: &State, rank: usize, input: Input) -> State {
        let Machines { workers, requests, results, .. } = machines;
        let states = &mut workers[rank];
        let from = state.workers[rank];
        let step = states.step(from, input.number()).unwrap_or_else(|| {
            let member = states.get(from);
            let (member, sent) = member.after(input, &self.scenario, &self.oracle, requests, results);
            let key = member.key();
            let step = WorkerStep { next: states.intern(member, key), sent };
            states.remember(from, input.number(), step);
            step
        });
        let mut next = *state;
        next.workers[rank] = step.next;
        next.requests |= step.sent;
        let new = step.sent & !state.requests;
        let contradicted = members(new).any(|request| requests.get(request).contradicts & next.requests != 0);
        let progress = states.get(step.next).progress;
        let lags = |(states, &state): (&States<Member, WorkerStep>, &u32)| {
            states.get(state).progress.started < progress.ended
        };
        let alone = !progress.failed && workers.iter().zip(&next.workers).any(lags);
        next.fault = (next.fault)
            .or(progress.fault)
            .or(contradicted.then_some(Fault::TwoContributions))
            .or(alone.then_some(Fault::Unsynchronised));
        next
    }

    fn aggregator_takes(&self, machines: &mut Machines<A>, state: &State, request: usize) -> State {
        let from = state.aggregator;
        let step = machines.aggregator.step(from, request).unwrap_or_else(|| {
            let step = self.aggregator_step(machines, from, request);
            machines.aggregator.remember(from, request, step);
            step
        });
        let lost = step.overwritten.is_some_and(|number| {
            let lacks = |(rank, &worker): (usize, &u32)| {
                machines.workers[rank].get(worker).progress.accepted & 1 << number == 0
            };
            state.workers[..self.scenario.workers].iter().enumerate().any(lacks)
        });
        let mut next = *state;
        next.aggregator = step.next;
        next.results |= step.sent;
        next.fault = next.fault.or(step.fault).or(lost.then_some(Fault::ShadowLost));
        next
    }

    fn aggregator_step(&self, machines: &mut Machines<A>, from: u32, request: usize) -> AggregatorStep {
        let request = machines.requests.get(request);
        let mut aggregator = machines.aggregator.get(from).clone();
        let before = aggregator.held();
        let mut datagram = Vec::new();
        let answer = aggregator.handle(request.rank, &request.datagram, &mut datagram);
        let receivers = match answer {
            Answer::Nobody => 0..0,
            Answer::Asker => request.rank..request.rank + 1,
            Answer::All => 0..self.scenario.workers,
        };
        let (mut sent, mut fault) = (0, None);
        for rank in receivers {
            match machines.results.intern(rank, request.number, &datagram) {
                Ok(result) => sent |= result,
                Err(_) => fault = Some(Fault::WrongResult),
            }
        }
        let held = aggregator.held();
        let overwritten = (before.iter().zip(&held))
            .find_map(|(before, now)| before.filter(|_| before != now))
            .map(|seq| seq.since(self.scenario.initial_seq()));
        let key = aggregator.key();
        AggregatorStep { next: machines.aggregator.intern(aggregator, key), sent, overwritten, fault }
    }

    /// I-3: from here, with all that is under way lost, a round without faults brings some worker on: all start what they
    /// may, their timers run out, and each packet arrives, in the order of sending.
    ///
    /// The states after such a round are explored like any other, so that the rounds add up to an end.
    fn moves_on(&self, state: &State) -> bool {
        let machines = &mut *self.machines();
        if self.is_done(machines, state) {
            return true;
        }
        let before = self.accepted(machines, state);
        let mut state = State { requests: 0, results: 0, ..*state };
        let mut waiting = VecDeque::new();
        for rank in 0..self.scenario.workers {
            while self.drive(machines, &mut state, &mut waiting, rank, Input::Start) == Change::Some {}
            self.drive(machines, &mut state, &mut waiting, rank, Input::Timeout);
        }
        while let Some(happening) = waiting.pop_front() {
            match happening {
                Happening::Worker { rank, input } => {
                    self.drive(machines, &mut state, &mut waiting, rank, input);
                    if self.accepted(machines, &state) > before || self.is_done(machines, &state) {
                        return true;
                    }
                }
                Happening::AtAggregator { .. } => {
                    let next = self.after(machines, &State { results: 0, ..state }, happening);
                    let arrivals = members(next.results).map(|result| Happening::Worker {
                        rank: machines.results.get(result).rank,
                        input: Input::Arrival(result),
                    });
                    waiting.extend(arrivals);
                    state.aggregator = next.aggregator;
                }
            }
        }
        false
    }

    /// Gives a worker an input, lets it send all it has, and queues that at the aggregator.
    fn drive(
        &self,
        machines: &mut Machines<A>,
        state: &mut State,
        waiting: &mut VecDeque<Happening>,
        rank: usize,
        input: Input,
    ) -> Change {
        let before = state.workers[rank];
        let mut input = input;
        loop {
            let from = state.workers[rank];
            let happening = Happening::Worker { rank, input };
            let next = self.after(machines, &State { requests: 0, ..*state }, happening);
            waiting.extend(members(next.requests).map(|request| Happening::AtAggregator { request }));
            state.workers[rank] = next.workers[rank];
            if input == Input::Send && state.workers[rank] == from {
                return if from == before { Change::None } else { Change::Some };
            }
            input = Input::Send;
        }
    }

    fn accepted(&self, machines: &Machines<A>, state: &State) -> u32 {
        let states = state.workers.iter().zip(&machines.workers);
        states
            .map(|(&state, states)| states.get(state).progress)
            .map(|progress| progress.accepted.count_ones() + progress.ended as u32)
            .sum()
    }

    pub(crate) fn is_done(&self, machines: &Machines<A>, state: &State) -> bool {
        let mut states = state.workers.iter().zip(&machines.workers);
        states.all(|(&state, states)| states.get(state).is_done(&self.oracle))
    }
}

/// Whether a worker's state is another one than before.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Change {
    None,
    Some,
}

impl<A: Aggregate> Model for Exploration<A> {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State { aggregator: 0, workers: [0; MAX_WORKERS], requests: 0, results: 0, fault: None }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        if state.fault.is_some() {
            return;
        }
        let machines = &mut *self.machines();
        let own = (0..self.scenario.workers).flat_map(|rank| {
            let most = match self.scenario.flight {
                Flight::Window => 0,
                Flight::Any => self.scenario.window as u32,
            };
            let inputs = [Input::Start, Input::Send, Input::Timeout].into_iter();
            inputs.chain((1..=most).map(Input::Flight)).map(move |input| Happening::Worker { rank, input })
        });
        let mut happenings: Vec<_> = own.collect();
        happenings.extend(members(state.requests).map(|request| Happening::AtAggregator { request }));
        happenings.extend(members(state.results).map(|result| Happening::Worker {
            rank: machines.results.get(result).rank,
            input: Input::Arrival(result),
        }));
        for happening in happenings {
            let next = self.after(machines, state, happening);
            if next != *state {
                actions.push(Action { happening, next });
            }
        }
    }

    fn next_state(&self, _: &State, action: Action) -> Option<State> {
        Some(action.next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut properties = vec![
            Property::always(MOVES_ON, |model: &Self, state| state.fault.is_some() || model.moves_on(state)),
            Property::sometimes(ENDS, |model: &Self, state| model.is_done(&model.machines(), state)),
        ];
        for fault in Fault::ALL {
            properties.push(Property::always(fault.name(), condition(fault)));
        }
        properties
    }
}

/// Name of the property that is I-3.
pub(crate) const MOVES_ON: &str = "I-3: from every state, a fair run without faults goes on";

/// Name of the property without which nothing was explored.
pub(crate) const ENDS: &str = "all collectives end";

/// stateright takes functions, which capture nothing.
fn condition<A: Aggregate>(fault: Fault) -> fn(&Exploration<A>, &State) -> bool {
    match fault {
        Fault::WrongResult => |_, state| state.fault != Some(Fault::WrongResult),
        Fault::ShadowLost => |_, state| state.fault != Some(Fault::ShadowLost),
        Fault::Unsynchronised => |_, state| state.fault != Some(Fault::Unsynchronised),
        Fault::TwoContributions => |_, state| state.fault != Some(Fault::TwoContributions),
        Fault::Impossible => |_, state| state.fault != Some(Fault::Impossible),
        Fault::Failed => |_, state| state.fault != Some(Fault::Failed),
        Fault::Timer => |_, state| state.fault != Some(Fault::Timer),
        Fault::Panic => |_, state| state.fault != Some(Fault::Panic),
    }
}

impl<A> fmt::Debug for Exploration<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exploration").field("scenario", &self.scenario).finish_non_exhaustive()
    }
}
