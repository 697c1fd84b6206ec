//! A late worker makes all others wait, and must not make a packet storm (T-6); a lost packet must not make all wait for a
//! timeout (T-9).

use core::time::Duration;
use std::collections::HashMap;

use switchml_proto::numeric::{ElementType, Reduction};
use switchml_proto::worker::{Cause, Collective, Conversion};
use switchml_proto::{ChunkSize, Instant, LaneLayout, Window};

use crate::network::{Outcome, Scenario};
use crate::random::Random;
use crate::tensors::{Reference, Tensors};

const WINDOW: usize = 64;
const FLOOR: Duration = Duration::from_millis(2);

fn scenario(seed: u64) -> Scenario {
    Scenario::new(seed, LaneLayout::new(0, Window::new(WINDOW).unwrap(), ChunkSize::MIN).unwrap())
}

/// Four workers, `chunks` chunks of block floating point, exact at the end.
fn run(scenario: &Scenario, chunks: u64) -> Outcome {
    let collective =
        Collective::all_reduce(chunks * 32, ElementType::Float32, Reduction::Sum, Conversion::Block).unwrap();
    let references = [Reference::random(&mut Random(1), collective, 4)];
    let mut tensors: Vec<_> = (0..4).map(|rank| Tensors::new(rank, &references)).collect();
    let outcome = scenario.run(&mut tensors);
    assert!(tensors.iter().all(|tensors| tensors.data[0] == references[0].expected()));
    outcome
}

fn millis(millis: u64) -> Instant {
    Instant::from_micros(1000 * millis)
}

#[test]
fn t6_a_straggler_of_100_ms_costs_few_packets_and_the_timeout_recovers_at_once() {
    for seed in 0..20 {
        let mut scenario = scenario(seed);
        let (stop, resume) = (millis(10), millis(110));
        scenario.stopped = Some((1, stop..resume));
        let outcome = run(&scenario, 20_000);
        assert!(outcome.end > resume + Duration::from_millis(10), "it goes on afterwards");
        for (rank, worker) in outcome.workers.iter().enumerate() {
            let mut again = HashMap::new();
            for (at, seq, cause) in &worker.sent {
                if *cause != Cause::First && (stop..resume + Duration::from_millis(1)).contains(at) {
                    *again.entry(seq.0 % WINDOW as u32).or_insert(0) += 1;
                }
            }
            assert!(again.values().all(|&times| times <= 8), "{again:?}");
            // Two round trips of at most 120 us each. The straggler itself may have measured its own stop.
            let normal = if rank == 1 { Duration::from_millis(10) } else { Duration::from_micros(240) };
            let late = worker.rto.iter().rfind(|(_, rto)| *rto > FLOOR).unwrap();
            assert!(late.0 <= resume + normal, "{late:?}");
        }
        // Three workers wait, with a window each.
        assert!(outcome.ignored <= 3 * 8 * WINDOW as u64);
    }
}

#[test]
fn t6_no_packet_is_sent_twice_on_a_steady_network() {
    let outcome = run(&scenario(3), 20_000);
    assert_eq!((outcome.ignored, outcome.unicast), (0, 0));
    assert!(outcome.workers.iter().all(|worker| worker.sent.len() == WINDOW + 20_000));
}

#[test]
fn t6_round_trips_that_grow_beyond_the_timeout_are_learned() {
    let mut scenario = scenario(4);
    // From 100 us to 10 ms: five times the timeout, so that no packet is answered before it is sent again.
    let slower = millis(20);
    scenario.slower = Some((slower, Duration::from_millis(5)));
    let outcome = run(&scenario, 30_000);
    assert!(outcome.end > slower + Duration::from_secs(1), "it goes on afterwards");
    let learned = slower + Duration::from_millis(100);
    for worker in &outcome.workers {
        let again = worker.sent.iter().filter(|(at, _, cause)| *at > learned && *cause != Cause::First);
        assert_eq!(again.count(), 0);
    }
}

#[test]
fn t9_lost_packets_are_sent_again_before_their_timeout() {
    let mut scenario = scenario(5);
    scenario.loss = 0.001;
    let outcome = run(&scenario, 20_000);
    let causes = |cause| -> usize {
        outcome.workers.iter().map(|w| w.sent.iter().filter(|(_, _, c)| *c == cause).count()).sum()
    };
    // A packet lost twice, or at the end of the collective, has only its timeout.
    assert!(causes(Cause::Timeout) * 20 < causes(Cause::Overtaken), "{} timeouts", causes(Cause::Timeout));
}

#[test]
fn t9_t10_losses_by_chance_cost_few_packets_and_little_time() {
    let clean = run(&scenario(6), 5_000);
    for (loss, times) in [(0.01, 3), (0.05, 6), (0.1, 12)] {
        let mut scenario = scenario(6);
        scenario.loss = loss;
        let outcome = run(&scenario, 5_000);
        let took = |outcome: &Outcome| outcome.end.since(Instant::ZERO);
        assert!(took(&outcome) < times * took(&clean), "{:?} with {loss}", took(&outcome));
        let sent = |outcome: &Outcome| outcome.workers.iter().map(|worker| worker.sent.len()).sum::<usize>();
        // A packet is sent again by all when that of one is lost: at five links, with losses of repetitions in between.
        let expected = sent(&clean) as f64 * (1.0 + 5.0 * loss * (1.0 + 5.0 * loss));
        assert!((sent(&outcome) as f64) < 1.1 * expected, "{} sent with {loss}", sent(&outcome));
    }
}
