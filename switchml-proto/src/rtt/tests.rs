use core::time::Duration;

use super::{BackOff, Expiry, Rto, RtoConfig};

const MS: Duration = Duration::from_millis(1);

fn learned(round_trip: Duration) -> Rto {
    let mut rto = Rto::new(RtoConfig::DEFAULT);
    for _ in 0..200 {
        rto.accept(Some(round_trip), 1);
    }
    rto
}

#[test]
fn rfc6298_first_measurement_gives_three_times_itself() {
    let mut rto = Rto::new(RtoConfig::DEFAULT);
    assert_eq!((rto.current(), rto.srtt()), (50 * MS, None));
    rto.accept(Some(10 * MS), 1);
    assert_eq!((rto.current(), rto.srtt()), (30 * MS, Some(10 * MS)));
}

#[test]
fn rfc6298_second_measurement_moves_an_eighth_and_a_quarter() {
    let mut rto = Rto::new(RtoConfig::DEFAULT);
    rto.accept(Some(8 * MS), 1);
    rto.accept(Some(16 * MS), 1);
    // SRTT = 8 + 8/8, RTTVAR = 4 + (8 - 4)/4.
    assert_eq!((rto.current(), rto.srtt()), (29 * MS, Some(9 * MS)));
}

#[test]
fn rfc7323_many_samples_of_a_round_trip_weigh_as_one() {
    let mut rto = Rto::new(RtoConfig::DEFAULT);
    rto.accept(Some(8 * MS), 16);
    rto.accept(Some(16 * MS), 16);
    assert_eq!(rto.srtt(), Some(8 * MS + MS / 8));
}

#[test]
fn t6_floor_and_ceiling_hold() {
    let mut rto = learned(MS / 10);
    assert_eq!(rto.current(), RtoConfig::DEFAULT.floor);
    for _ in 0..100 {
        let _ = rto.expire();
    }
    assert_eq!(rto.current(), RtoConfig::DEFAULT.ceiling);
    let long = learned(Duration::MAX);
    assert_eq!(long.current(), RtoConfig::DEFAULT.ceiling);
    let unmeasured = Rto::new(RtoConfig { initial: Duration::ZERO, ..RtoConfig::DEFAULT });
    assert_eq!(unmeasured.current(), RtoConfig::DEFAULT.floor);
}

#[test]
fn t6_the_first_expiry_is_a_probe_and_each_later_one_doubles_until_a_result() {
    for round_trip in [None, Some(MS / 10)] {
        let mut rto = learned(MS / 10);
        assert_eq!(rto.expire(), Expiry::Probe { packets: 1 });
        assert_eq!(rto.current(), 8 * MS);
        assert_eq!(rto.expire(), Expiry::All);
        assert_eq!(rto.current(), 16 * MS);
        assert_eq!(rto.accept(round_trip, 1), BackOff::Ended);
        assert_eq!(rto.current(), 2 * MS);
        assert_eq!(rto.accept(round_trip, 1), BackOff::None);
    }
}

#[test]
fn t6_karn_results_of_packets_sent_twice_measure_nothing() {
    let mut rto = learned(MS / 10);
    let srtt = rto.srtt();
    let _ = rto.expire();
    rto.accept(None, 1);
    assert_eq!(rto.srtt(), srtt);
}

#[test]
fn t6_back_offs_that_end_unmeasured_again_and_again_leave_a_longer_timeout() {
    let mut rto = learned(MS / 10);
    for (ended, expected) in [2, 4, 4, 8, 8, 8, 8, 16].into_iter().enumerate() {
        assert_eq!(rto.expire(), Expiry::Probe { packets: 1 << ended });
        rto.accept(None, 1);
        assert_eq!(rto.current(), expected * MS, "after {} back-offs", ended + 1);
    }
    rto.accept(Some(MS / 10), 1);
    assert_eq!(rto.current(), 2 * MS);
}

#[test]
fn t6_one_round_trip_beyond_the_timeout_is_learned_at_once() {
    let mut rto = learned(MS / 10);
    rto.accept(Some(10 * MS), 128);
    assert!(rto.current() > 10 * MS, "{:?}", rto.current());
}

#[test]
fn t6_a_steady_path_keeps_a_margin() {
    let rto = learned(100 * MS);
    assert!(rto.current() >= 149 * MS, "{:?}", rto.current());
}
