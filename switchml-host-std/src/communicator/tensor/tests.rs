use core::panic::AssertUnwindSafe;
use std::panic::catch_unwind;
use std::thread;

use super::*;

/// Doubles what each part reads, on a thread of its own.
fn double_elsewhere(parts: PerLane<Part<i32>>) {
    for mut part in parts {
        thread::spawn(move || {
            let range = part.first as u64..(part.first + part.len) as u64;
            let doubled: Vec<i32> = part.input(&range).iter().map(|element| 2 * element).collect();
            part.output(&range).copy_from_slice(&doubled);
        });
    }
}

#[test]
fn lent_memory_is_back_when_the_call_returns() {
    let mut tensor = [1, 2, 3, 4, 5];
    lend(None, &mut tensor, &[2, 2, 5], double_elsewhere);
    assert_eq!(tensor, [2, 4, 6, 8, 10]);
}

#[test]
fn a_source_of_its_own_is_read_and_kept() {
    let source = [1, 2, 3];
    let mut tensor = [0; 3];
    lend(Some(&source), &mut tensor, &[1, 3], double_elsewhere);
    assert_eq!((source, tensor), ([1, 2, 3], [2, 4, 6]));
}

#[test]
fn an_unwinding_lender_waits_for_the_parts_too() {
    let mut tensor = [7; 4];
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        lend(None, &mut tensor, &[4], |parts| {
            double_elsewhere(parts);
            panic!("after the parts were sent");
        });
    }));
    assert!(outcome.is_err());
    assert_eq!(tensor, [14; 4]);
}

#[test]
fn a_thread_that_panics_returns_its_part() {
    let mut tensor = [1; 2];
    lend(None, &mut tensor, &[2], |parts| {
        thread::spawn(move || {
            let _parts = parts;
            panic!("with a part in hand");
        });
    });
    assert_eq!(tensor, [1; 2]);
}

#[test]
fn a_given_vector_comes_back_when_its_parts_are_gone() {
    let (owned, parts) = own(vec![1, 2, 3], &[1, 3]);
    assert!(!owned.is_returned());
    double_elsewhere(parts);
    assert_eq!(owned.take(), [2, 4, 6]);
    assert!(owned.is_returned());
    assert_eq!(owned.take(), []);
}

#[test]
fn parts_outlive_a_forgotten_owner() {
    let (owned, mut parts) = own(vec![5; 3], &[3]);
    drop(owned);
    parts[0].output(&(0..3)).fill(6);
    assert_eq!(parts[0].input(&(1..3)), [6, 6]);
}

#[test]
fn an_empty_vector_has_empty_parts() {
    let (owned, parts) = own(Vec::<i32>::new(), &[0, 0]);
    assert!(parts[1].input(&(0..0)).is_empty());
    drop(parts);
    assert!(owned.take().is_empty());
}

#[test]
#[should_panic(expected = "not in this lane's part")]
fn a_part_ends_where_the_next_begins() {
    let (_owned, parts) = own(vec![0; 4], &[2, 4]);
    parts[0].input(&(1..3));
}

#[test]
#[should_panic(expected = "not in this lane's part")]
fn a_part_begins_where_the_one_before_ends() {
    let (_owned, mut parts) = own(vec![0; 4], &[2, 4]);
    parts[1].output(&(1..3));
}
