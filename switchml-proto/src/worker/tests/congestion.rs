//! What waits for room, and what does not: T-10.

use super::*;

/// How many may be in flight at first.
const LIMIT: usize = 32;

fn wide() -> Worker<'static> {
    worker_with(Config { initial_seq: Seq(0), ..config(64) })
}

fn numbers(transmits: &[Transmit]) -> Vec<u32> {
    transmits.iter().map(|transmit| transmit.header().seq.0).collect()
}

#[test]
fn t10_no_more_packets_are_in_flight_than_the_limit_says_and_results_make_room() {
    let mut worker = wide();
    worker.start(integers(64), Instant::ZERO).unwrap();
    let sent = sendable(&mut worker, Instant::ZERO);
    assert_eq!((sent.len(), worker.congestion_window()), (LIMIT, LIMIT as u32));
    assert_eq!(worker.poll_timeout(), Some(at(50 * MS)), "what waits for room is no output");
    answer(&mut worker, at(MS), &sent[7]);
    assert_eq!(worker.poll_timeout(), Some(at(MS)), "output waits");
    // The limit was in the way, so it has grown too.
    assert_eq!(numbers(&sendable(&mut worker, at(MS))), [32, 33]);
    assert_eq!(worker.congestion_window(), LIMIT as u32 + 1);
}

#[test]
fn t10_packets_taken_for_lost_are_not_in_flight() {
    let mut worker = wide();
    worker.start(integers(64), Instant::ZERO).unwrap();
    sendable(&mut worker, Instant::ZERO);
    worker.handle_timeout(at(50 * MS));
    assert_eq!(numbers(&sendable(&mut worker, at(50 * MS))), [0], "a probe");
    worker.handle_timeout(at(250 * MS));
    let again = sendable(&mut worker, at(250 * MS));
    assert_eq!(numbers(&again), (1..LIMIT as u32).chain([0]).collect::<Vec<_>>());
    assert!(again.iter().all(Transmit::is_retransmission));
}

#[test]
fn t10_the_oldest_packet_without_a_result_is_sent_even_when_the_limit_is_reached() {
    let mut worker = wide();
    worker.congestion = Congestion::new(2);
    // In block floating point, packet 64 needs the result of packet 0.
    worker.start(block(128), Instant::ZERO).unwrap();
    let first = worker.poll_transmit(Instant::ZERO).unwrap();
    for _ in 1..64 {
        let next = worker.poll_transmit(Instant::ZERO).unwrap();
        answer(&mut worker, Instant::ZERO, &next);
    }
    let behind = worker.poll_transmit(Instant::ZERO).unwrap();
    assert_eq!((numbers(&[behind]), worker.poll_transmit(Instant::ZERO)), (vec![65], None));
    answer(&mut worker, Instant::ZERO, &first);
    assert_eq!(numbers(&sendable(&mut worker, Instant::ZERO)), [66, 64]);
    assert_eq!((worker.slots.in_flight(), worker.congestion_window()), (3, 2));
}
