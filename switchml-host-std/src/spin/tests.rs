use super::*;

const LONG: Duration = Duration::from_secs(3600);
const SHORT: Duration = Duration::from_nanos(1);

/// How often it sleeps without having looked again, until it looks again.
fn abstentions(spin: &mut Spin) -> u32 {
    let mut sleeps = 0;
    while !spin.looks_again() {
        sleeps += 1;
        assert!(sleeps <= MOST_ABSTENTIONS, "it does not look again any more");
    }
    sleeps
}

#[test]
fn without_a_limit_it_never_looks_again() {
    let mut spin = Spin::new(Duration::ZERO);
    assert!(!spin.looks_again() && !spin.looks_again());
}

#[test]
fn looks_in_vain_make_it_sleep_at_once_ever_more_often() {
    let mut spin = Spin::new(SHORT);
    for expected in [1, 2, 4, 8, 16, 32, 64, 64] {
        assert!(spin.looks_again(), "the first look after the last abstention");
        assert!(!spin.looks_again(), "the limit has passed");
        assert_eq!(spin.abstain, expected);
        (0..expected).for_each(|_| assert!(!spin.looks_again()));
    }
}

#[test]
fn a_look_that_found_something_makes_it_look_again_as_before() {
    let mut spin = Spin::new(LONG);
    (spin.abstain, spin.next_abstention) = (3, 8);
    assert_eq!(abstentions(&mut spin), 3);
    spin.found();
    assert_eq!((spin.abstain, spin.next_abstention), (0, 1));
}

#[test]
fn what_comes_without_looking_again_proves_nothing() {
    let mut spin = Spin::new(LONG);
    (spin.abstain, spin.next_abstention) = (3, 8);
    spin.found();
    assert_eq!((spin.abstain, spin.next_abstention), (3, 8));
}

#[test]
fn who_comes_back_late_rests_twice_as_long_each_time() {
    let mut spin = Spin::new(LONG);
    let start = Instant::now();
    assert!(!spin.was_late(start, start + LATE / 2));
    let mut now = start;
    for rest in [1, 2, 4, 8, 16, 32, 50, 50].map(|times| times * REST[0]) {
        assert!(spin.was_late(now, now + LATE));
        now += LATE;
        assert_eq!(spin.rest, Some((now + rest, rest)));
        now += rest;
    }
    now += 2 * REST[1];
    assert!(spin.was_late(now, now + LATE));
    assert_eq!(spin.rest, Some((now + LATE + REST[0], REST[0])));
}

#[test]
fn while_it_rests_it_sleeps_at_once() {
    let mut spin = Spin::new(LONG);
    assert!(spin.looks_again());
    std::thread::sleep(2 * LATE);
    assert!(!spin.looks_again(), "it came back late");
    assert!(!spin.looks_again(), "it rests");
    spin.rest = Some((Instant::now(), REST[0]));
    assert!(spin.looks_again(), "the rest is over");
    std::thread::sleep(2 * LATE);
    spin.found();
    assert!(!spin.looks_again(), "it came back late, though not in vain");
}
