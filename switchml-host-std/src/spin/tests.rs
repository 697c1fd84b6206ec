use super::*;

const LIMIT: Duration = Duration::from_micros(50);

#[test]
fn without_a_limit_it_never_looks_again() {
    let mut spin = Spin::new(Duration::ZERO);
    assert!(!spin.looks_again() && !spin.looks_again());
}

#[test]
fn looks_in_vain_make_it_sleep_at_once_ever_more_often() {
    let mut spin = Spin::new(LIMIT);
    let mut now = Instant::now();
    for expected in [1, 2, 4, 8, 16, 32, 64, 64] {
        assert!(spin.looks_again_at(now), "the first look after the last abstention");
        assert!(spin.looks_again_at(now + LIMIT / 2));
        now += LIMIT;
        assert!(!spin.looks_again_at(now), "the limit has passed");
        assert_eq!(spin.abstain, expected);
        (0..expected).for_each(|_| assert!(!spin.looks_again_at(now)));
    }
}

#[test]
fn a_look_that_found_something_makes_it_look_again_as_before() {
    let mut spin = Spin::new(LIMIT);
    let now = Instant::now();
    spin.next_abstention = 8;
    assert!(spin.looks_again_at(now));
    spin.found_at(now + LIMIT / 2);
    assert_eq!((spin.abstain, spin.next_abstention), (0, 1));
}

#[test]
fn what_comes_without_looking_again_proves_nothing() {
    let mut spin = Spin::new(LIMIT);
    (spin.abstain, spin.next_abstention) = (3, 8);
    spin.found_at(Instant::now());
    assert_eq!((spin.abstain, spin.next_abstention), (3, 8));
}

#[test]
fn who_comes_back_late_rests_twice_as_long_each_time() {
    let mut spin = Spin::new(LIMIT);
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
    let mut spin = Spin::new(LIMIT);
    let start = Instant::now();
    assert!(spin.looks_again_at(start));
    let mut now = start + LATE;
    assert!(!spin.looks_again_at(now), "it came back late");
    assert!(!spin.looks_again_at(now + REST[0] / 2), "it rests");
    now += REST[0];
    assert!(spin.looks_again_at(now), "the rest is over");
    now += LATE;
    spin.found_at(now);
    assert!(!spin.looks_again_at(now), "it came back late, though not in vain");
}
