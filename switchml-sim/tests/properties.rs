//! Configurations and fault schedules chosen by proptest, which shrinks one that fails.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use core::time::Duration;
use std::sync::Arc;

use proptest::collection::vec;
use proptest::prelude::*;
use switchml_proto::numeric::{ElementType, Reduction};
use switchml_proto::worker::{Collective, Conversion};
use switchml_proto::{Instant, Seq};
use switchml_sim::dice::Dice;
use switchml_sim::harness::{Host, Outcome, Place, Pool, Scenario, Stop, check, run};
use switchml_sim::network::{Lateness, Loss, Profile};
use switchml_sim::tensors::{Call, Elements, Tensors};

fn lateness() -> impl Strategy<Value = Lateness> {
    (prop_oneof![Just(0.0), 0.0..0.4], 0..50_000_u64)
        .prop_map(|(probability, micros)| Lateness { probability, longest: Duration::from_micros(micros) })
}

fn profiles() -> impl Strategy<Value = Profile> {
    let loss = prop_oneof![
        (0.0..0.3).prop_map(Loss::Random),
        ((0.001..0.1), (1.0..8.0)).prop_map(|(loss, length)| Loss::bursts(loss, length)),
    ];
    let rate = prop_oneof![Just(None), (10_000_000..1_000_000_000_u64).prop_map(Some)];
    let queue = prop_oneof![Just(u64::MAX), 3_000..50_000_u64];
    let times = (0..500_u64, 0..500_u64);
    (rate, queue, times, loss, lateness(), lateness(), 0.0..0.1, 0.0..1e-4).prop_map(
        |(rate, queue, (delay, jitter), loss, duplication, reordering, truncation, bit_errors)| Profile {
            rate,
            queue,
            delay: Duration::from_micros(delay),
            jitter: Duration::from_micros(jitter),
            loss,
            duplication,
            reordering,
            truncation,
            bit_errors,
        },
    )
}

fn collectives() -> impl Strategy<Value = Collective> {
    let reduction = prop_oneof![Just(Reduction::Sum), Just(Reduction::Mean)];
    let float =
        prop_oneof![Just(ElementType::Float32), Just(ElementType::Float16), Just(ElementType::BFloat16)];
    prop_oneof![
        1 => Just(Collective::barrier()),
        4 => (0..1500_u64).prop_map(|len| {
            Collective::all_reduce(len, ElementType::Int32, Reduction::Sum, Conversion::Integer).unwrap()
        }),
        4 => (0..1500_u64, float, reduction).prop_map(|(len, float, reduction)| {
            Collective::all_reduce(len, float, reduction, Conversion::Block).unwrap()
        }),
    ]
}

fn hosts() -> impl Strategy<Value = Host> {
    let buffer = prop_oneof![Just(usize::MAX), 1_000..20_000_usize];
    (prop_oneof![Just(0.0), 0.0..5_000.0], 0.0..5.0, buffer).prop_map(
        |(packet_nanos, octet_nanos, receive_buffer)| Host { packet_nanos, octet_nanos, receive_buffer },
    )
}

fn scenarios() -> impl Strategy<Value = Scenario> {
    let shape = (1..=9_usize, 1..=4_usize, 0..=5_u32, any::<u32>());
    let stop = proptest::option::of((any::<prop::sample::Index>(), 0..5_000_u64, 0..50_000_u64));
    let server = proptest::option::of((profiles(), profiles()));
    (any::<u64>(), shape, profiles(), profiles(), server, stop, 0..20_000_u64, 0.0..0.1, (hosts(), hosts()))
        .prop_map(|(seed, (workers, lanes, window, seq), up, down, server, stop, think, strangers, hosts)| {
            let window = 1_usize << window;
            let mut scenario = Scenario::new(seed, workers, lanes, window, 32).unwrap();
            scenario.initial_seq = Seq(seq & !(2 * window as u32 - 1));
            (scenario.network.up, scenario.network.down) = (up, down);
            if let Some((to, from)) = server {
                scenario.network.aggregator = Place::Server { to, from };
            }
            if let Some((rank, from, time)) = stop {
                let from = Instant::from_micros(from);
                let time = from..from + Duration::from_micros(time);
                scenario.stops.push(Stop { rank: rank.index(workers), time });
            }
            (scenario.worker, scenario.aggregator) = hosts;
            scenario.think = Duration::from_micros(think);
            scenario.strangers = strangers;
            scenario.steps = 10_000_000;
            scenario
        })
}

fn reduce(scenario: &Scenario, collectives: &[Collective]) -> (Outcome, Vec<Tensors>, Arc<[Call]>) {
    let n = usize::from(scenario.world_size.get());
    let mut dice = Dice::new(scenario.seed);
    let calls: Arc<[_]> = collectives
        .iter()
        .map(|&collective| {
            let (element, len) = (collective.element(), collective.len() as usize);
            Call { collective, inputs: (0..n).map(|_| Elements::random(&mut dice, element, len)).collect() }
        })
        .collect();
    let mut ranks: Vec<_> =
        (0..n).map(|rank| Tensors::new(rank, scenario.world_size, calls.clone())).collect();
    let mut pool = Pool::new(scenario);
    let outcome = run(scenario, &mut pool.planes().unwrap(), &mut ranks, &mut ());
    (outcome.unwrap_or_else(|broken| panic!("{broken}")), ranks, calls)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn i1_i2_i3_any_job_ends_with_exact_sums_on_any_network(
        scenario in scenarios(), collectives in vec(collectives(), 1..5),
    ) {
        let (_, ranks, calls) = reduce(&scenario, &collectives);
        check(&scenario, &calls, &ranks).map_err(|broken| TestCaseError::fail(broken.to_string()))?;
    }

    /// Section 5: the bits do not depend on window, lanes and order of arrival.
    #[test]
    fn bits_depend_on_inputs_alone(
        mut scenario in scenarios(), other in scenarios(), collectives in vec(collectives(), 1..3),
    ) {
        let (_, ranks, _) = reduce(&scenario, &collectives);
        let bits = |ranks: &[Tensors]| ranks[0].data().iter().map(Elements::bits).collect::<Vec<_>>();
        let before = bits(&ranks);
        (scenario.lanes, scenario.layout, scenario.initial_seq) = (other.lanes, other.layout, other.initial_seq);
        scenario.network = other.network;
        let (_, ranks, _) = reduce(&scenario, &collectives);
        prop_assert_eq!(before, bits(&ranks));
    }
}
