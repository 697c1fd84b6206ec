//! How a switch starts and stops, and how its jobs end.

use core::time::Duration;
use std::sync::mpsc;
use std::time::Instant;

use switchml_host_std::{Cpus, Faults, Switch, SwitchConfig, SwitchError};
use switchml_proto::LaneCount;
use switchml_proto::control::{CoordinatorEvent, SessionEnd};
use switchml_proto::wire::{AbortReason, Message, Welcome};

use crate::support::{
    LOCALHOST, PATIENCE, Peer, RunningSwitch, SILENCE, Worker, challenged, config, job, join_of, padded,
    results,
};

#[test]
fn c3_a_stop_tells_every_member_before_it_returns() {
    let switch = RunningSwitch::start(config(LOCALHOST));
    let handle = switch.handle.clone();
    let workers = job(switch.address, "stopped", 2, 1);
    let start = Instant::now();
    switch.handle.stop();
    for worker in &workers {
        let Message::Abort { session, reason, .. } = worker.peer.hear_message() else { panic!("no abort") };
        assert_eq!((session, reason), (worker.welcome.session, AbortReason::Shutdown));
        let (rank, nonce) = (worker.welcome.rank, worker.welcome.nonce);
        worker.peer.tell(&Message::Aborted { rank, session, nonce });
    }
    switch.stop();
    assert!(start.elapsed() < Duration::from_secs(3), "sooner than the lease ends: {:?}", start.elapsed());
    assert!(handle.snapshot().is_none());
}

#[test]
fn c3_a_stop_waits_for_silent_members_no_longer_than_a_lease() {
    let mut config = config(LOCALHOST);
    config.lease = Duration::from_millis(300);
    let switch = RunningSwitch::start(config);
    let _silent = job(switch.address, "silent", 2, 1);
    let start = Instant::now();
    switch.stop();
    assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
}

#[test]
fn c3_a_silent_member_is_named_to_the_others_within_the_lease() {
    let mut config = config(LOCALHOST);
    config.lease = Duration::from_millis(300);
    let mut switch = Switch::bind(config).expect("free ports");
    let (sender, events) = mpsc::channel();
    switch.on_event(move |event| sender.send(event).expect("the test listens"));
    let switch = RunningSwitch::run(switch);
    let workers = job(switch.address, "silent", 2, 1);
    let start = Instant::now();
    let abort = loop {
        let Welcome { job, rank, session, nonce, .. } = workers[0].welcome;
        workers[0].peer.tell(&Message::KeepAlive { job, rank, session, nonce });
        match workers[0].peer.hear_message() {
            Message::Alive { .. } => std::thread::sleep(Duration::from_millis(20)),
            Message::Abort { reason, culprit, .. } => break (reason, culprit),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(abort, (AbortReason::LeaseExpired, Some(workers[1].welcome.rank)));
    assert!((200..2000).contains(&start.elapsed().as_millis()), "{:?}", start.elapsed());
    switch.snapshot_when(|snapshot| snapshot.sessions.is_empty());

    let events: Vec<_> = events.try_iter().collect();
    let culprit = Some(workers[1].welcome.rank);
    assert!(
        matches!(events[..], [
        CoordinatorEvent::Created { .. },
        CoordinatorEvent::Joined { .. },
        CoordinatorEvent::Joined { .. },
        CoordinatorEvent::Ready { .. },
        CoordinatorEvent::Ended { how: SessionEnd::Aborted { reason: AbortReason::LeaseExpired, culprit: told }, .. },
    ] if told == culprit),
        "{events:?}"
    );
}

#[test]
fn c3_the_addresses_of_an_ended_job_are_strangers() {
    let switch = RunningSwitch::start(config(LOCALHOST));
    let old = job(switch.address, "old", 2, 1);
    old.iter().for_each(Worker::leave);
    switch.snapshot_when(|snapshot| snapshot.sessions.is_empty());
    // The new job's members have the entries that the old one's had.
    let new = job(switch.address, "new", 2, 1);
    new[0].peer.send(&new[0].packet(0, 1));
    old.iter().for_each(|worker| worker.peer.send(&new[1].packet(0, 1000)));
    switch.snapshot_when(|snapshot| snapshot.lanes[0].unknown_source == 2);
    new[1].peer.send(&new[1].packet(0, 2));
    assert_eq!(results(&new), [(0, 3); 2]);
}

#[test]
fn c3_timers_that_begin_in_another_lane_run_too() {
    let mut config = config(LOCALHOST);
    config.lanes = LaneCount::new(2).expect("valid");
    config.lease = Duration::from_millis(100);
    let mut switch = Switch::bind(config).expect("free ports");
    let (sender, events) = mpsc::channel();
    switch.on_event(move |event| sender.send(event).expect("the test listens"));
    let switch = RunningSwitch::run(switch);
    // Lane 0, whose thread has the timers, sleeps all the while.
    let mut lane_1 = switch.address;
    lane_1.set_port(lane_1.port() + 1);
    let peer = Peer::new(lane_1);
    let join = challenged(&peer, &join_of("late", 1, 0, 2, 1));
    peer.send(&padded(&join));
    let next = || events.recv_timeout(PATIENCE).expect("an event");
    assert!(matches!(next(), CoordinatorEvent::Created { .. }));
    assert!(matches!(next(), CoordinatorEvent::Ended { how: SessionEnd::Deserted, .. }));
}

#[test]
fn a_stop_before_the_start_counts() {
    let switch = Switch::bind(config(LOCALHOST)).expect("a free port");
    switch.handle().stop();
    switch.run().expect("nothing is wrong");
}

#[test]
fn a_panic_in_one_thread_ends_them_all() {
    let mut config = config(LOCALHOST);
    config.lanes = LaneCount::new(2).expect("valid");
    config.metrics = Some((LOCALHOST, 0).into());
    let mut switch = Switch::bind(config).expect("free ports");
    switch.on_event(|event| panic!("meant: {event:?}"));
    let (address, handle) = (switch.local_addr(), switch.handle());
    let thread = std::thread::spawn(move || switch.run());
    let peer = Peer::new(address);
    let join = challenged(&peer, &join_of("panic", 2, 0, 2, 0));
    peer.send(&padded(&join));
    thread.join().expect_err("the panic comes through");
    assert!(handle.snapshot().is_none());
}

#[test]
fn faults_take_data_and_spare_control() {
    let mut config = config(LOCALHOST);
    config.faults = Some(Faults::new(1.0, 0.0, 0.0, 7).expect("valid"));
    let switch = RunningSwitch::start(config);
    let workers = job(switch.address, "lossy", 1, 1);
    workers[0].peer.send(&workers[0].packet(0, 1));
    assert_eq!(workers[0].result_within(SILENCE), None);
    workers[0].leave();
}

#[test]
fn a_taken_port_is_named_with_what_to_do() {
    let first = Switch::bind(config(LOCALHOST)).expect("a free port");
    let mut config = config(LOCALHOST);
    config.port_base = first.local_addr().port();
    let error = Switch::bind(config).expect_err("the port is taken");
    assert!(matches!(error, SwitchError::Listen { address, .. } if address == first.local_addr()));
    let message = error.to_string();
    assert!(
        message.contains(&first.local_addr().to_string()) && message.contains("choose another port"),
        "{message}"
    );
}

#[test]
fn what_cannot_work_is_refused_at_the_start() {
    let mut ports = config(LOCALHOST);
    ports.port_base = 65_530;
    ports.lanes = LaneCount::new(7).expect("valid");
    assert!(matches!(Switch::bind(ports), Err(SwitchError::PortsOutOfRange { .. })));
    let mut jobs = config(LOCALHOST);
    jobs.max_jobs = 257;
    assert!(matches!(Switch::bind(jobs), Err(SwitchError::MaxJobs { max_jobs: 257 })));
    let mut slots = config(LOCALHOST);
    slots.slots = 0;
    let switch = Switch::bind(slots).expect("a free port");
    let handle = switch.handle();
    assert!(matches!(switch.run(), Err(SwitchError::Config(_))));
    assert!(handle.snapshot().is_none(), "nobody waits for a switch that never ran");
}

#[cfg(target_os = "linux")]
#[test]
fn a_switch_that_cannot_be_placed_ends_and_says_why() {
    let mut config = SwitchConfig::new([127, 0, 0, 1].into());
    config.port_base = 0;
    config.cpus = Some(Cpus::new([1023]).unwrap());
    let error = Switch::bind(config).unwrap().run().unwrap_err();
    assert!(matches!(&error, SwitchError::CannotPlace(error) if error.cpu == 1023), "{error}");
}
