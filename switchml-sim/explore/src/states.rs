//! The states of one machine that occur, each once, and what each input makes of it.
//!
//! A global state is made of few machine states in many combinations. So each input is given to the real machine once
//! for each state of that machine, and the outcome is looked up from then on.

use std::collections::HashMap;

/// All that decides what a machine does, as octets: equal keys are equal states.
pub(crate) type Key = Vec<u8>;

/// States of one machine, and the steps between them that were asked for.
#[derive(Debug)]
pub(crate) struct States<M, S> {
    states: Vec<(M, Vec<Option<S>>)>,
    numbers: HashMap<Key, u32>,
}

impl<M, S: Copy> States<M, S> {
    /// With the first state, number 0.
    pub(crate) fn new(first: M, key: Key) -> Self {
        Self { states: vec![(first, Vec::new())], numbers: HashMap::from([(key, 0)]) }
    }

    /// The number of a state. Of equal ones the first is kept: they differ in time and counters only.
    pub(crate) fn intern(&mut self, machine: M, key: Key) -> u32 {
        let states = &mut self.states;
        *self.numbers.entry(key).or_insert_with(|| {
            states.push((machine, Vec::new()));
            states.len() as u32 - 1
        })
    }

    pub(crate) fn get(&self, state: u32) -> &M {
        &self.states[state as usize].0
    }

    /// What input number `input` makes of a state, if it was asked before.
    pub(crate) fn step(&self, state: u32, input: usize) -> Option<S> {
        self.states[state as usize].1.get(input).copied().flatten()
    }

    pub(crate) fn remember(&mut self, state: u32, input: usize, step: S) {
        let steps = &mut self.states[state as usize].1;
        if steps.len() <= input {
            steps.resize(input + 1, None);
        }
        steps[input] = Some(step);
    }

    pub(crate) fn len(&self) -> usize {
        self.states.len()
    }
}

/// The octets that a machine's state feeds a hasher with.
#[derive(Debug, Default)]
pub(crate) struct KeyHasher(pub(crate) Key);

impl core::hash::Hasher for KeyHasher {
    fn write(&mut self, octets: &[u8]) {
        self.0.extend_from_slice(octets);
    }

    fn finish(&self) -> u64 {
        unreachable!("the octets are the key")
    }
}
