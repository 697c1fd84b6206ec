//! Random schedules: sums are exact, whatever the network does; and the published algorithm's are not.

use switchml_sim::harness::{How, Pool, Scenario};
use switchml_sim::network::Fault;
use switchml_sim::published::Published;
use switchml_sim::soak::{Algorithm, Delivery, FAULTS, PACKETS, Schedule, minimal, once, soak};

#[test]
fn i1_i2_i3_every_sum_is_exact_and_every_collective_ends() {
    let totals = soak(1_000_000, 1_000, Algorithm::Protocol);
    assert_eq!((totals.schedules, totals.wrong, totals.broken), (1_000, 0, 0), "{totals}");
    assert!(totals.packets >= 1_000 * PACKETS && totals.network.faults() >= 1_000 * FAULTS, "{totals}");
    for (fault, times) in totals.network.iter() {
        // No queue has an end in these schedules.
        assert_eq!(times > 1_000, fault != Fault::QueueFull, "{fault}: {times}");
    }
}

#[test]
fn the_same_seed_gives_the_same_run() {
    for seed in 0..20 {
        let runs = [(); 2].map(|()| once(seed, Algorithm::Protocol, &mut ()).unwrap());
        assert_eq!(format!("{:?}", runs[0]), format!("{:?}", runs[1]));
    }
}

#[test]
fn a_schedule_has_what_it_promises() {
    for seed in 0..200 {
        let schedule = Schedule::random(seed, 1.0);
        assert!(schedule.scenario.world_size.get() >= 3 && schedule.calls.len() >= 2);
        let outcome = once(seed, Algorithm::Protocol, &mut ()).unwrap();
        assert!(outcome.sum(|stats| stats.sent) >= PACKETS && outcome.network.faults() >= FAULTS);
    }
}

#[test]
fn m1_the_published_algorithm_gives_wrong_sums_and_the_seed_shows_one_again() {
    let totals = soak(0, 300, Algorithm::Published);
    assert!(totals.wrong > 10, "{totals}");
    let wrong = (0..300).find_map(|seed| once(seed, Algorithm::Published, &mut ()).err());
    let broken = totals.examples.first().unwrap();
    assert_eq!(wrong.as_ref(), Some(broken));
    assert!(!matches!(broken.how, How::Scenario(_)));
}

#[test]
fn m1_five_packets_are_enough_for_a_wrong_sum_and_a3_needs_no_loss_to_prevent_it() {
    let scenario = Scenario::new(0, 2, 1, 1, 32).unwrap();
    let steps = minimal(|run| run(&mut Published::new(&scenario)), 8).unwrap();
    assert_eq!(steps.len(), 5);
    assert_eq!(steps.iter().filter(|step| step.delivery == Delivery::Again).count(), 2);
    let last = steps.last().unwrap().sum.unwrap();
    assert_ne!(last.got, last.expected);

    let ours = minimal(
        |run| {
            let mut pool = Pool::new(&scenario);
            run(&mut pool.planes().unwrap()[0]);
        },
        8,
    );
    assert_eq!(ours, None);
}
