#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::aggregate::Ours;
use crate::fault::Fault;
use crate::packets::members;
use crate::published::Published;
use crate::run::{Outcome, Until, explore};
use crate::scenario::{Flight, Scenario, Sending, Start, Tensor};

fn list(text: &str) -> Vec<Tensor> {
    text.split(',').map(|tensor| tensor.parse().unwrap()).collect()
}

fn scenario(workers: usize, window: usize, tensors: &str) -> Scenario {
    Scenario {
        workers,
        window,
        start: Start::BeforeWrap,
        sending: Sending::Prompt,
        flight: Flight::Window,
        tensors: list(tensors),
        dissent: None,
    }
}

fn sound(scenario: &Scenario) -> Outcome {
    let outcome = explore::<Ours>(scenario, Until::AnyFault);
    assert!(outcome.violation.is_none(), "{outcome:#?}");
    outcome
}

#[test]
fn one_packet_of_one_worker_has_the_four_states_that_one_counts_by_hand() {
    // Not started; sent; summed; answered.
    assert_eq!(sound(&scenario(1, 1, "i1")).states, 4);
}

#[test]
fn one_packet_of_two_workers_has_the_states_that_one_counts_by_hand() {
    // Each rank has not started, has sent, or was summed: 3 * 3, of which one, both summed, comes with the results that
    // either may have taken or not: 4 in its place.
    assert_eq!(sound(&scenario(2, 1, "i1")).states, 3 * 3 - 1 + 4);
}

#[test]
fn more_freedom_for_the_schedule_is_more_states() {
    let prompt = scenario(2, 2, "i2,b1");
    let late = Scenario { sending: Sending::Late, ..prompt.clone() };
    let any = Scenario { flight: Flight::Any, ..prompt.clone() };
    let states = sound(&prompt).states;
    assert!(sound(&late).states > states);
    assert!(sound(&any).states > states);
}

#[test]
fn i1_the_published_algorithm_returns_a_wrong_sum_and_ours_does_not() {
    let scenario = scenario(2, 1, "i4");
    let violation = explore::<Published>(&scenario, Until::WrongSum).violation.unwrap();
    assert_eq!(violation.property, Fault::WrongResult.name());
    assert_eq!(violation.trace.len(), 15, "the shortest schedule: {:#?}", violation.trace);
    sound(&scenario);
}

#[test]
fn m2_the_published_algorithm_goes_wrong_alone_too() {
    let scenario = scenario(1, 1, "i3");
    assert!(explore::<Published>(&scenario, Until::WrongSum).violation.is_some());
    sound(&scenario);
}

#[test]
fn d1_members_that_do_not_agree_all_fail() {
    sound(&Scenario { dissent: Some(list("i1,b2")), ..scenario(2, 1, "i1,i2") });
}

#[test]
fn a_scenario_reads_as_the_options_that_explore_it() {
    let scenario = Scenario { dissent: Some(list("i0")), flight: Flight::Any, ..scenario(3, 2, "i3,b0") };
    let options = "--workers 3 --window 2 --start before-wrap --sending prompt --flight any --tensors i3,b0 --dissent i0";
    assert_eq!(scenario.to_string(), options);
}

#[test]
fn what_is_no_scenario_is_refused() {
    for tensor in ["", "3", "x3", "i", "i-1", "ß"] {
        tensor.parse::<Tensor>().unwrap_err();
    }
    scenario(4, 1, "i1").check().unwrap_err();
    scenario(0, 1, "i1").check().unwrap_err();
    scenario(1, 3, "i1").check().unwrap_err();
    scenario(1, 8, "i1").check().unwrap_err();
    scenario(1, 1, "i33").check().unwrap_err();
    scenario(3, 4, "i32").check().unwrap();
}

#[test]
fn the_members_of_a_set_are_its_bits() {
    assert_eq!(members(0).count(), 0);
    assert!(members(1 << 127 | 1 << 64 | 1).eq([0, 64, 127]));
}
