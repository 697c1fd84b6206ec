//! What every error of the core has in common, and what each of them says.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use core::error::Error;
use core::time::Duration;

use switchml_proto::aggregator::{InstallError, StorageError};
use switchml_proto::control::InvalidConfig;
use switchml_proto::numeric::{InvalidScalingFactor, ScalingFactor};
use switchml_proto::wire::{AbortReason, ControlError, DataError};
use switchml_proto::worker::{ConfigError, Failure, InvalidCollective, Malformed, StartError};
use switchml_proto::*;

/// It can be kept, sent to another thread, and boxed. The message is a line, and no cause says it again.
#[track_caller]
fn says<E: Error + Copy + Send + Sync + 'static>(error: E, text: &str) {
    assert_eq!(error.to_string(), text);
    assert!(error.source().is_none_or(|cause| !text.contains(&cause.to_string())), "told twice: {text}");
}

fn rank(rank: usize) -> Rank {
    Rank::new(rank).unwrap()
}

#[test]
fn i4_what_the_network_brings() {
    says(DataError::TooShort { got: 9 }, "9 octets are shorter than a header of 10");
    says(DataError::Kind { kind: 2 }, "kind 2 is not a data packet");
    says(DataError::Reserved, "a reserved bit is 1");
    says(DataError::Length { expected: 138, got: 139 }, "139 octets where the size says 138");

    says(Malformed::Data(DataError::Reserved), "a reserved bit is 1");
    says(Malformed::Placement, "slot or version disagree with the seq");
    says(Malformed::Digest, "the digest is not this collective's");
    says(Malformed::Size, "the size is not the one asked for");

    says(ControlError::Length, "the length is not that of the message");
    says(ControlError::Kind { kind: 15 }, "kind 15 is no message");
    says(ControlError::Version { version: 2 }, "protocol version 2 is not 1");
    says(ControlError::Value, "a field holds a value that it cannot have");
    says(ControlError::Reserved, "a reserved octet is not 0");
    says(ControlError::Padding, "the padding is not 0");
    let option = ControlError::Option { rank: 0, lane: 0, nonce: Nonce(1) };
    says(option, "the join has an option, and this version knows none");
}

#[test]
fn i6_how_a_session_fails() {
    let seq = Seq(7);
    says(
        Failure::CollectivesDiffer { seq },
        "collectives differ: the members did not call the same one (packet 7)",
    );
    says(Failure::Stalled { seq }, "no result within the stall time: packet 7 has none");
    says(Failure::AggregatorLost, "the aggregator does not answer any more");
    says(Failure::Left, "this rank has left the session");
    for (reason, text) in [
        (AbortReason::LeaseExpired, "a lease ran out"),
        (AbortReason::Left, "a member left while others needed it"),
        (AbortReason::CollectivesDiffer, "collectives differ"),
        (AbortReason::Stalled, "a collective stalled"),
        (AbortReason::Cancelled, "a member cancelled"),
        (
            AbortReason::UnknownSession,
            "the aggregator knows no such session: it was restarted, or the session has ended",
        ),
        (AbortReason::Evicted, "the operator ended the job"),
        (AbortReason::JoinTimeout, "not all joined in time"),
        (AbortReason::Shutdown, "the aggregator stops"),
    ] {
        says(Failure::Aborted { reason, culprit: None }, &format!("session aborted: {text}"));
        let because = format!("session aborted because of rank 3: {text}");
        says(Failure::Aborted { reason, culprit: Some(rank(3)) }, &because);
    }

    says(StartError::Busy, "the lane has no place for another collective yet");
    says(StartError::TooLong, "a collective of 2^30 or more packets in a lane");
    says(
        StartError::SequenceSpace { retry_at: Instant::ZERO },
        "the lane's packet numbers would come round too soon: try again later",
    );
    says(StartError::Failed(Failure::Left), "the lane has failed before");
}

#[test]
fn i4_what_a_caller_asks_for() {
    says(WorldSize::new(65).unwrap_err(), "world size 65 is not from 1 to 64");
    says(InvalidCollective::MeanOfIntegers, "the mean is for floating point only");
    says(
        InvalidCollective::Conversion,
        "int32 goes with the integer conversion, floating point with block or fixed factor",
    );
    let refused: InvalidScalingFactor = ScalingFactor::new(0.0).unwrap_err();
    says(refused, "a scaling factor is finite, normal and greater than zero, and 0e0 is not");

    says(ConfigError::Slots { expected: 8, got: 7 }, "storage of 7 slots for a window of 8");
    says(
        ConfigError::InitialSeq { initial_seq: Seq(8) },
        "initial seq 8 is not a multiple of twice the window",
    );
    let lane = ConfigError::Lane { lane: LaneId::new(1).unwrap(), lanes: LaneCount::new(1).unwrap() };
    says(lane, "lane 1 of a job of 1 lanes");
    says(ConfigError::Rto, "the floor of the retransmission timeout is zero, or above its ceiling");

    let outside = InvalidConfig::RankOutsideWorld { rank: rank(2), world_size: WorldSize::new(2).unwrap() };
    says(outside, "rank 2 is not below the world size 2");
    let lanes = InvalidConfig::Lanes { lanes: LaneCount::new(3).unwrap(), room: 2 };
    says(lanes, "a job of 3 lanes, and room for 2");
    says(InvalidConfig::Slots { slots: 0 }, "0 slots in a lane are not from 1 to 16384");
    let lease = Duration::from_millis(1);
    says(InvalidConfig::Lease { lease }, "a lease of 1ms is not from 20 ms to a day");
    says(InvalidConfig::Jobs { jobs: 65_536 }, "65536 job entries are more than 65535");

    says(StorageError::Elements { needed: 64, got: 63 }, "63 elements lent where the slots need 64");
    says(InstallError::JobInstalled, "the job is installed already");
    says(InstallError::UnknownJob, "the job is not installed");
    says(InstallError::InitialSeq, "the initial seq is no multiple of twice the window");
    says(InstallError::BeyondPool { slots: 8 }, "the slots go beyond the pool's 8");
    says(InstallError::Overlap { job: JobId(7) }, "job 7 has some of the slots");
    let largest = ChunkSize::DEFAULT;
    says(InstallError::ChunkTooLarge { largest }, "the pool takes chunks of 256 elements at most");
    says(InstallError::Rank, "the rank is not below the world size");
    says(InstallError::RankBound, "the rank has its port already");
    says(InstallError::NoJobEntry, "no entry for a job is free");
    says(InstallError::NoPortEntry, "no entry for a port is free");
}
