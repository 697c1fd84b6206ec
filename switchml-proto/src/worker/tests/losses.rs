//! Timers: T-6, T-8, T-9.

use std::format;

use super::*;
use crate::wire::AbortReason;

#[test]
fn t6_an_unanswered_packet_is_sent_again_at_its_deadline_and_not_before() {
    let mut worker = worker(4);
    worker.start(integers(1), Instant::ZERO).unwrap();
    assert_eq!(worker.poll_timeout(), Some(Instant::ZERO), "output waits");
    let sent = sendable(&mut worker, Instant::ZERO);
    assert_eq!(worker.poll_timeout(), Some(at(50 * MS)));
    let before = format!("{:?}{:?}{:?}", worker.slots, worker.rto, worker.stats);
    for early in [0, 1, 49] {
        worker.handle_timeout(at(early * MS));
        assert_eq!(worker.poll_transmit(at(early * MS)), None);
    }
    assert_eq!(format!("{:?}{:?}{:?}", worker.slots, worker.rto, worker.stats), before);
    worker.handle_timeout(at(50 * MS));
    assert_eq!(worker.poll_timeout(), Some(at(50 * MS)), "output waits");
    let again = sendable(&mut worker, at(50 * MS));
    assert_eq!(again[0].header(), sent[0].header());
    assert!(again[0].is_retransmission() && !sent[0].is_retransmission());
    assert_eq!(worker.poll_timeout(), Some(at(250 * MS)), "four times as long");
    assert_eq!((worker.stats().sent, worker.stats().timeouts, worker.stats().expiries), (1, 1, 1));
}

#[test]
fn t6_the_first_expiry_sends_the_oldest_packet_and_the_next_one_all_that_are_due() {
    let mut worker = worker(4);
    worker.start(integers(4), Instant::ZERO).unwrap();
    for i in 0..4 {
        assert!(worker.poll_transmit(at(i * MS)).is_some());
    }
    worker.handle_timeout(at(50 * MS));
    assert_eq!((worker.stats().expiries, worker.rto()), (1, 200 * MS));
    assert_eq!(seqs(&sendable(&mut worker, at(50 * MS))), [0]);
    // Those sent in the same milliseconds double the back-off once.
    assert_eq!(worker.poll_timeout(), Some(at(250 * MS)));
    worker.handle_timeout(at(250 * MS));
    assert_eq!((worker.stats().expiries, worker.rto()), (2, 400 * MS));
    assert_eq!(seqs(&sendable(&mut worker, at(250 * MS))), [1, 2, 3, 0]);
}

#[test]
fn t6_a_whole_window_that_is_lost_is_sent_again_in_steps_of_twice_as_many() {
    let mut worker = worker(16);
    worker.start(integers(16), Instant::ZERO).unwrap();
    sendable(&mut worker, Instant::ZERO);
    let mut now = Instant::ZERO;
    for step in [1, 2, 4, 8, 1] {
        now = worker.poll_timeout().unwrap();
        worker.handle_timeout(now);
        let again = sendable(&mut worker, now);
        assert_eq!(again.len(), step);
        now = now + MS;
        for packet in &again {
            answer(&mut worker, now, packet);
        }
    }
    assert!(now < at(800 * MS), "{now:?}");
    assert_eq!(worker.poll_event(), Some(Event::Finished(CollectiveId(0))));
}

#[test]
fn t6_the_end_of_a_back_off_gives_all_under_way_a_new_timeout() {
    let mut worker = worker(4);
    worker.start(integers(4), Instant::ZERO).unwrap();
    let sent = sendable(&mut worker, Instant::ZERO);
    worker.handle_timeout(at(50 * MS));
    sendable(&mut worker, at(50 * MS));
    answer(&mut worker, at(120 * MS), &sent[0]);
    assert_eq!((worker.rto(), worker.poll_timeout()), (50 * MS, Some(at(170 * MS))));
}

#[test]
fn t6_while_results_come_in_turn_no_deadline_passes() {
    let mut worker = worker(16);
    worker.start(integers(16), Instant::ZERO).unwrap();
    let sent = sendable(&mut worker, Instant::ZERO);
    // The first one makes the timeout 3 ms long. The last one's result comes after 16 ms.
    for (packet, millis) in sent.iter().zip(1..) {
        worker.handle_timeout(at(millis * MS));
        answer(&mut worker, at(millis * MS), packet);
    }
    assert_eq!((worker.stats().timeouts, worker.stats().expiries), (0, 0));
}

#[test]
fn t6_results_of_packets_sent_later_do_not_put_off_a_deadline() {
    let mut worker = worker(16);
    worker.start(integers(16), Instant::ZERO).unwrap();
    let sent: Vec<_> = (0..16).map(|i| worker.poll_transmit(at(i * MS / 100)).unwrap()).collect();
    let deadline = worker.poll_timeout().unwrap();
    for packet in &sent[1..] {
        answer(&mut worker, at(MS), packet);
    }
    assert!(worker.poll_timeout().unwrap() < deadline);
    assert!(worker.poll_timeout().unwrap() <= at(MS) + worker.rto());
    let due = at(MS) + worker.rto();
    worker.handle_timeout(due);
    assert_eq!(sendable(&mut worker, due)[0].header().seq, FIRST);
}

#[test]
fn t8_m4_no_result_for_the_stall_time_fails_and_names_the_oldest_packet() {
    let mut config = config(4);
    config.stall_time = Duration::from_secs(5);
    let mut worker = worker_with(config);
    worker.start(integers(4), at(MS)).unwrap();
    let sent = sendable(&mut worker, at(MS));
    answer(&mut worker, at(2 * MS), &sent[0]);
    let stalls_at = at(2 * MS) + config.stall_time;
    let waiting = worker.waiting().unwrap();
    assert_eq!(
        (waiting.seq, waiting.since, waiting.collective),
        (FIRST.plus(1), at(2 * MS), CollectiveId(0))
    );
    let mut now = at(2 * MS);
    // The back-off lets it send some ten times until then.
    for _ in 0..100 {
        assert_eq!(worker.poll_event(), None);
        sendable(&mut worker, now);
        now = worker.poll_timeout().unwrap();
        worker.handle_timeout(now);
        if worker.failure().is_some() {
            break;
        }
    }
    assert_eq!(now, stalls_at);
    assert_eq!(worker.waiting(), Some(waiting));
    let failure = Failure::Stalled { seq: FIRST.plus(1) };
    assert_eq!(worker.poll_event(), Some(Event::Failed { collective: CollectiveId(0), failure }));
    assert_eq!(worker.waiting(), None);
}

#[test]
fn t8_idle_time_is_no_stall() {
    let mut worker = worker(4);
    let long = 2 * Config::STALL_TIME;
    worker.handle_timeout(at(long));
    worker.start(integers(1), at(2 * long)).unwrap();
    worker.handle_timeout(at(3 * long));
    let sent = sendable(&mut worker, at(4 * long));
    worker.handle_timeout(at(4 * long + MS));
    answer(&mut worker, at(4 * long + MS), &sent[0]);
    worker.handle_timeout(at(9 * long));
    assert_eq!((worker.failure(), worker.poll_timeout()), (None, None));
    assert_eq!(worker.poll_event(), Some(Event::Finished(CollectiveId(0))));
}

#[test]
fn t8_an_ended_session_fails_what_is_open_but_not_what_has_ended() {
    let mut worker = worker(4);
    worker.start(integers(1), Instant::ZERO).unwrap();
    let first = sendable(&mut worker, Instant::ZERO);
    worker.start(integers(1), Instant::ZERO).unwrap();
    answer(&mut worker, Instant::ZERO, &first[0]);
    let culprit = Some(Rank::new(2).unwrap());
    let failure = Failure::Aborted { reason: AbortReason::LeaseExpired, culprit };
    worker.fail(failure);
    worker.fail(Failure::AggregatorLost);
    assert_eq!(worker.poll_event(), Some(Event::Finished(CollectiveId(0))));
    assert_eq!(worker.poll_event(), Some(Event::Failed { collective: CollectiveId(1), failure }));
    assert_eq!((worker.poll_event(), worker.can_start()), (None, false));
    assert_eq!(format!("{failure}"), "session aborted because of rank 2: a lease ran out");
}

#[test]
fn t9_a_packet_overtaken_by_more_than_the_allowance_is_sent_again() {
    let mut worker = worker(4);
    worker.start(integers(16), Instant::ZERO).unwrap();
    let first = sendable(&mut worker, Instant::ZERO);
    for packet in &first[1..] {
        answer(&mut worker, at(MS / 10), packet);
    }
    // Results of packets sent at the same time say nothing.
    let second = sendable(&mut worker, at(MS));
    assert_eq!(seqs(&second), [5, 6, 7]);
    answer(&mut worker, at(MS + MS / 10), &second[0]);
    let early = sendable(&mut worker, at(MS + MS / 10));
    assert_eq!(early[0].header().seq, first[0].header().seq);
    assert_eq!(early[0].cause(), Cause::Overtaken);
    // Packets sent before the repetition, or not much later, say nothing of it.
    for packet in &second[1..] {
        answer(&mut worker, at(3 * MS / 2), packet);
    }
    let third = sendable(&mut worker, at(2 * MS));
    assert_eq!(seqs(&third), [10, 11]);
    assert_eq!(worker.stats().overtaken, 1);
    answer(&mut worker, at(2 * MS + MS / 10), &third[0]);
    let again = sendable(&mut worker, at(2 * MS + MS / 10));
    assert_eq!((again[0].header().seq, again[0].cause()), (first[0].header().seq, Cause::Overtaken));
}

#[test]
fn t9_results_of_packets_sent_twice_overtake_nothing() {
    let mut worker = worker(2);
    worker.start(integers(2), Instant::ZERO).unwrap();
    assert!(worker.poll_transmit(Instant::ZERO).is_some());
    assert!(worker.poll_transmit(at(20 * MS)).is_some());
    worker.handle_timeout(at(50 * MS));
    let first = worker.poll_transmit(at(50 * MS)).unwrap();
    worker.handle_timeout(at(250 * MS));
    assert_eq!(seqs(&[worker.poll_transmit(at(250 * MS)).unwrap()]), [1]);
    assert_eq!(worker.poll_transmit(at(270 * MS)), Some(first));
    answer(&mut worker, at(271 * MS), &first);
    assert_eq!(worker.poll_transmit(at(271 * MS)), None);
}

#[test]
fn a_clock_that_goes_back_is_held() {
    let mut worker = worker(2);
    worker.start(integers(2), at(10 * MS)).unwrap();
    sendable(&mut worker, Instant::ZERO);
    assert_eq!(worker.poll_timeout(), Some(at(60 * MS)));
    worker.handle_timeout(Instant::from_nanos(u64::MAX));
    assert!(matches!(worker.failure(), Some(Failure::Stalled { .. })));
}
