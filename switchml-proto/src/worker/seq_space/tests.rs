use core::time::Duration;

use super::SeqSpace;
use crate::MSL;
use crate::ids::Window;
use crate::time::Instant;

const BIG: u32 = (1 << 30) - 1;
const WINDOW: Window = Window::DEFAULT;

fn at(seconds: u64) -> Instant {
    Instant::ZERO + Duration::from_secs(seconds)
}

#[test]
fn w3_three_of_the_longest_collectives_fit_and_a_fourth_waits() {
    let mut space = SeqSpace::new();
    for _ in 0..3 {
        assert_eq!(space.book(at(1000), BIG, 0, WINDOW), Ok(()));
    }
    // 2^32 - 4 - 3 * 2^30 + 3 are left, less 3W.
    let left = ((1u64 << 32) - 3 * 128 - 3 * u64::from(BIG)) as u32;
    assert_eq!(space.book(at(1010), left, 0, WINDOW), Err(at(1000) + MSL));
    assert_eq!(space.book(at(1010), left - 1, 0, WINDOW), Ok(()));
    assert_eq!(space.book(at(1010), 1, 0, WINDOW), Err(at(1000) + MSL));
}

#[test]
fn w3_packets_count_for_one_to_two_msl_and_then_no_more() {
    let mut space = SeqSpace::new();
    for _ in 0..3 {
        assert_eq!(space.book(at(1000), BIG, 0, WINDOW), Ok(()));
    }
    // The period has changed, but some of those packets may have been sent at its end.
    assert_eq!(space.book(at(1120), BIG, 0, WINDOW), Err(at(1240)));
    assert_eq!(space.book(at(1240), BIG, 0, WINDOW), Ok(()));

    let mut space = SeqSpace::new();
    for _ in 0..3 {
        assert_eq!(space.book(at(1000), BIG, 0, WINDOW), Ok(()));
    }
    assert_eq!(space.book(at(1300), BIG, 0, WINDOW), Ok(()), "a long rest forgets both periods");
}

#[test]
fn w3_open_collectives_count_in_every_period() {
    let mut space = SeqSpace::new();
    assert_eq!(space.book(at(1000), BIG, 0, WINDOW), Ok(()));
    // Long after, that collective may still be about to send all its packets.
    for _ in 0..2 {
        assert_eq!(space.book(at(2000), BIG, BIG.into(), WINDOW), Ok(()));
    }
    assert_eq!(space.book(at(2000), BIG, BIG.into(), WINDOW), Err(at(2120)));
}
