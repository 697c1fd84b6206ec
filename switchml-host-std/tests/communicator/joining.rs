//! What keeps a rank from joining, and what it is told.

use core::net::{IpAddr, Ipv4Addr, SocketAddr};
use core::time::Duration;
use std::net::UdpSocket;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Instant;

use switchml_host_std::{Builder, Communicator, Cpus, Error, ReduceOp};
use switchml_proto::wire::{Field, RejectReason};
use switchml_proto::{ChunkSize, InvalidId, RtoConfig};

use crate::world::{TestSwitch, builder, eventually};

/// Nobody is asked before the parameters are right, so this address is never used.
fn unused(rank: usize, world_size: usize) -> Builder {
    builder(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 1), "job", rank, world_size)
}

fn refused(builder: Builder) -> (Error, String) {
    let error = builder.connect().expect_err("it cannot join");
    let message = error.to_string();
    (error, message)
}

#[test]
fn numbers_out_of_range_are_named() {
    for (builder, message) in [
        (unused(0, 0), "world size 0 is not from 1 to 64"),
        (unused(0, 65), "world size 65 is not from 1 to 64"),
        (unused(64, 64), "rank 64 is not from 0 to 63"),
        (unused(4, 4), "rank 4 is not below the world size 4"),
        (unused(0, 1).lanes(0), "0 lanes are not from 1 to 16"),
        (unused(0, 1).lanes(17), "17 lanes are not from 1 to 16"),
        (unused(0, 1).chunk(100), "chunk size 100 is none of 32, 64, 128, 256, 512, 1024 and 2048 elements"),
        (unused(0, 1).window(3), "window 3 is not a power of two from 1 to 16384 slots"),
        (unused(0, 1).job(""), "a job's name has 1 to 64 octets, and \"\" has 0"),
        (
            unused(0, 1).stall_time(Duration::ZERO),
            "a time is zero, or the floor of the retransmission timeout is above its ceiling",
        ),
        (
            Communicator::builder("127.0.0.1:1").job("job").rank(0),
            "no world_size was given: call the builder's `world_size`",
        ),
        (
            Communicator::builder("127.0.0.1:1").rank(0).world_size(1),
            "no job was given: call the builder's `job`",
        ),
    ] {
        assert_eq!(refused(builder).1, message);
    }
    assert!(matches!(refused(unused(0, 65)).0, Error::Invalid(InvalidId::WorldSize { workers: 65 })));
}

#[test]
fn timers_that_contradict_each_other_are_refused() {
    let mut rto = RtoConfig::DEFAULT;
    rto.floor = rto.ceiling + Duration::from_nanos(1);
    assert!(matches!(refused(unused(0, 1).retransmission_timeout(rto)).0, Error::Timers));
}

#[test]
fn an_address_that_cannot_be_used_is_named() {
    for address in ["nowhere", "127.0.0.1", "127.0.0.1:65530"] {
        let builder = Communicator::builder(address).job("job").rank(0).world_size(1).lanes(16);
        let (error, message) = refused(builder);
        assert!(matches!(&error, Error::Address { address: named, .. } if named == address));
        assert!(message.contains(address) && message.contains("give host:port"), "{message}");
    }
}

#[test]
fn an_absent_switch_is_named_within_the_connect_timeout() {
    let closed = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap();
    // Taken, but mute.
    let mute = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    for address in [closed, mute.local_addr().unwrap()] {
        let start = Instant::now();
        let timeout = Duration::from_millis(300);
        let (error, message) = refused(builder(address, "job", 0, 1).connect_timeout(timeout));
        assert!(matches!(error, Error::AggregatorSilent { address: silent, .. } if silent == address));
        assert!(message.contains(&address.to_string()) && message.contains("300ms"), "{message}");
        assert!(start.elapsed() < 2 * timeout, "it took {:?}", start.elapsed());
    }
}

#[test]
fn a_rank_is_given_once() {
    let switch = TestSwitch::start();
    thread::scope(|scope| {
        let first =
            scope.spawn(|| switch.rank("job", 0, 2).join_timeout(Duration::from_millis(500)).connect());
        thread::sleep(Duration::from_millis(200));
        let (error, message) = refused(switch.rank("job", 0, 2));
        assert!(matches!(error, Error::Rejected { reason: RejectReason::RankTaken, .. }), "{error:?}");
        assert!(message.contains("this rank is taken by another process"), "{message}");
        // The first one is not disturbed: it waits for rank 1, which does not come.
        let error = first.join().unwrap().expect_err("rank 1 never joins");
        assert!(matches!(&error, Error::JoinTimeout { .. }), "{error:?}");
        assert_eq!(error.to_string(), "rank 1 did not join within 500ms: start all ranks");
    });
}

#[test]
fn parameters_that_disagree_are_named() {
    let switch = TestSwitch::start();
    thread::scope(|scope| {
        let first = scope.spawn(|| switch.rank("job", 0, 2).connect().map(drop));
        thread::sleep(Duration::from_millis(200));
        let second = || switch.rank("job", 1, 2);
        for (builder, field, job_value, words) in [
            (switch.rank("job", 1, 3), Field::WorldSize, 2, "world size is 2"),
            (second().lanes(2), Field::Lanes, 1, "number of lanes is 1"),
            (second().chunk(64), Field::ChunkSize, 32, "chunk size is 32"),
            (second().window(8), Field::Window, 4, "window is 4"),
        ] {
            let (error, message) = refused(builder);
            let expected = RejectReason::Disagrees { field, job_value };
            assert!(matches!(error, Error::Rejected { reason, .. } if reason == expected), "{error:?}");
            assert!(message.contains(words), "{message}");
        }
        let second = scope.spawn(move || second().connect().map(drop));
        assert!(first.join().unwrap().is_ok() && second.join().unwrap().is_ok());
    });
}

#[test]
fn too_few_slots_and_too_large_chunks_are_refused_with_what_would_fit() {
    let switch = TestSwitch::with(|config| {
        config.slots = 64;
        config.largest_chunk = ChunkSize::from_elements(256).unwrap();
    });
    let (error, message) = refused(switch.rank("window", 0, 1).window(128));
    assert!(matches!(error, Error::Rejected { reason: RejectReason::NoFreeSlots { largest: 64 }, .. }));
    assert!(message.contains("64 can be had"), "{message}");

    let (error, message) = refused(switch.rank("chunk", 0, 1).chunk(512));
    assert!(matches!(error, Error::Rejected { reason: RejectReason::ChunkTooLarge { largest: 256 }, .. }));
    assert!(message.contains("at most 256 elements"), "{message}");

    let (error, message) =
        refused(switch.rank("lanes", 0, 1).lanes(3).connect_timeout(Duration::from_millis(500)));
    // The third lane's port is nobody's, and the first two say that there is no third.
    assert!(
        matches!(error, Error::Rejected { reason: RejectReason::TooManyLanes { lanes: 2 }, .. }),
        "{error:?}"
    );
    assert!(message.contains("it has 2 lanes"), "{message}");
}

#[test]
fn a_rank_that_gave_up_joining_can_be_tried_again_at_once() {
    let switch = TestSwitch::start();
    let impatient = switch.rank("job", 0, 2).join_timeout(Duration::from_millis(300));
    assert!(matches!(impatient.connect(), Err(Error::JoinTimeout { .. })));
    thread::scope(|scope| {
        let ranks = [0, 1].map(|rank| {
            scope.spawn({
                let rank = switch.rank("job", rank, 2);
                move || rank.connect().unwrap().barrier()
            })
        });
        ranks.into_iter().for_each(|rank| rank.join().unwrap().unwrap());
    });
}

#[test]
fn what_is_waited_for_is_told() {
    let switch = TestSwitch::start();
    let lines = Arc::new(Mutex::new(Vec::new()));
    let comm = switch.rank("job", 0, 3).join_timeout(Duration::from_millis(1300)).on_waiting({
        let lines = lines.clone();
        move |waiting| lines.lock().unwrap().push(waiting.to_string())
    });
    assert!(matches!(comm.connect(), Err(Error::JoinTimeout { .. })));
    assert_eq!(*lines.lock().unwrap(), ["waiting for ranks 1, 2 (of 3): not joined yet, 1 s"]);

    let mute = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = mute.local_addr().unwrap();
    let comm = builder(address, "job", 0, 1).connect_timeout(Duration::from_millis(1300)).on_waiting({
        let lines = lines.clone();
        move |waiting| lines.lock().unwrap().push(waiting.to_string())
    });
    assert!(matches!(comm.connect(), Err(Error::AggregatorSilent { .. })));
    let line = format!("waiting for an answer of the aggregator at {address}, 1 s");
    assert_eq!(lines.lock().unwrap().last(), Some(&line));
}

#[cfg(target_os = "linux")]
#[test]
fn a_processor_that_is_not_there_is_named_at_once() {
    let switch = TestSwitch::start();
    let nowhere = Cpus::new([1023]).unwrap();
    let error = switch.rank("nowhere", 0, 1).cpus(nowhere).connect().unwrap_err();
    assert!(matches!(&error, Error::CannotPlace(error) if error.cpu == 1023), "{error}");
    eventually(|| switch.sessions() == 0);

    // The first processor that this process may use.
    let may = rustix::thread::sched_getaffinity(None).unwrap();
    let here = Cpus::new((0..1024).find(|&cpu| may.is_set(cpu))).unwrap();
    let mut comm = switch.rank("here", 0, 1).lanes(2).cpus(here).connect().unwrap();
    comm.all_reduce(&mut [1.0_f32; 200], ReduceOp::Sum).unwrap();
    comm.leave().unwrap();
}
