use core::time::Duration;

use switchml_proto::Instant;

use super::*;
use crate::dice::Dice;

const MICRO: Duration = Duration::from_micros(1);

fn arrivals(profile: Profile, datagrams: u64, gap: Duration) -> (Link, Vec<Vec<Arrival>>) {
    let mut link = Link::new(profile, Dice::new(7));
    let mut now = Instant::ZERO;
    let arrivals = (0..datagrams)
        .map(|i| {
            now += gap;
            link.carry(now, &Datagram::new(&i.to_be_bytes().repeat(16))).collect()
        })
        .collect();
    (link, arrivals)
}

fn share(link: &Link, fault: Fault) -> f64 {
    link.tally().of(fault) as f64 / link.tally().datagrams as f64
}

#[test]
fn a_perfect_link_hands_over_at_once() {
    let (link, arrivals) = arrivals(Profile::PERFECT, 100, MICRO);
    assert!(arrivals.iter().enumerate().all(|(i, all)| {
        all.len() == 1 && all[0].at == Instant::from_micros(i as u64 + 1) && all[0].datagram.len() == 128
    }));
    assert_eq!((link.tally().datagrams, link.tally().faults()), (100, 0));
}

#[test]
fn a_rate_spaces_datagrams_and_a_queue_has_an_end() {
    // 194 octets a frame at 1 Gbit/s: 1552 ns. Room for 3 that wait, and one on the wire.
    let profile = Profile { queue: 4 * 194, ..Profile::of_rate(1_000_000_000) };
    let (link, arrivals) = arrivals(profile, 10, Duration::ZERO);
    let at: Vec<_> = arrivals.iter().flatten().map(|arrival| arrival.at.as_nanos()).collect();
    assert_eq!(at, [1552, 3104, 4656, 6208]);
    assert_eq!(link.tally().of(Fault::QueueFull), 6);
}

#[test]
fn random_loss_has_the_rate_asked_for() {
    let (link, arrivals) = arrivals(Profile { loss: Loss::Random(0.05), ..Profile::PERFECT }, 100_000, MICRO);
    assert!((share(&link, Fault::Lost) - 0.05).abs() < 0.005);
    assert_eq!(arrivals.iter().filter(|all| all.is_empty()).count() as u64, link.tally().of(Fault::Lost));
}

#[test]
fn bursty_loss_has_the_rate_and_the_length_asked_for() {
    let (link, arrivals) =
        arrivals(Profile { loss: Loss::bursts(0.02, 8.0), ..Profile::PERFECT }, 400_000, MICRO);
    assert!((share(&link, Fault::Lost) - 0.02).abs() < 0.004);
    let bursts = arrivals.windows(2).filter(|pair| !pair[0].is_empty() && pair[1].is_empty()).count();
    let length = link.tally().of(Fault::Lost) as f64 / bursts as f64;
    assert!((length - 8.0).abs() < 0.5, "{length}");
}

#[test]
fn jitter_keeps_the_order_and_reordering_breaks_it() {
    let in_order =
        |arrivals: &[Vec<Arrival>]| arrivals.iter().flatten().is_sorted_by_key(|arrival| arrival.at);
    let delay = 10 * MICRO;
    let (_, jittered) = arrivals(Profile { delay, jitter: 50 * MICRO, ..Profile::PERFECT }, 1000, MICRO);
    assert!(in_order(&jittered));
    let reordering = Lateness { probability: 0.1, longest: 50 * MICRO };
    let (link, reordered) = arrivals(Profile { delay, reordering, ..Profile::PERFECT }, 10_000, MICRO);
    assert!(!in_order(&reordered));
    assert!((share(&link, Fault::Reordered) - 0.1).abs() < 0.02);
}

#[test]
fn copies_truncation_and_bit_errors_are_what_they_say() {
    let duplication = Lateness { probability: 0.2, longest: 5 * MICRO };
    let (link, twice) = arrivals(Profile { duplication, ..Profile::PERFECT }, 10_000, MICRO);
    assert!((share(&link, Fault::Duplicated) - 0.2).abs() < 0.02);
    assert!(
        twice
            .iter()
            .all(|all| all.len() == 1 || all[0].at <= all[1].at && all[0].datagram == all[1].datagram)
    );

    let (link, short) = arrivals(Profile { truncation: 0.1, ..Profile::PERFECT }, 10_000, MICRO);
    let shorter = short.iter().flatten().filter(|arrival| arrival.datagram.len() < 128).count();
    assert_eq!(shorter as u64, link.tally().of(Fault::Truncated));
    assert!(shorter > 800);

    // 1024 bits: 1 - (1 - 1e-4)^1024 is 0.097.
    let (link, wrong) = arrivals(Profile { bit_errors: 1e-4, ..Profile::PERFECT }, 10_000, MICRO);
    assert!((share(&link, Fault::Damaged) - 0.097).abs() < 0.015);
    for (i, all) in wrong.iter().enumerate() {
        let as_sent = all[0].datagram.octets[..] == (i as u64).to_be_bytes().repeat(16);
        assert_eq!(all[0].datagram.checksum == Checksum::Right, as_sent);
    }
}

#[test]
fn the_same_seed_gives_the_same_faults() {
    let profile = Profile {
        loss: Loss::Random(0.3),
        jitter: MICRO,
        duplication: Lateness { probability: 0.3, longest: MICRO },
        ..Profile::PERFECT
    };
    assert_eq!(arrivals(profile, 1000, MICRO).1, arrivals(profile, 1000, MICRO).1);
}
