//! What the tests and experiments of SwitchML share: a network emulator, the naive oracle, a generator of packet traces, and a
//! harness that runs the protocol's own machines through the emulator in virtual time.
//!
//! It is for the tests of this repository's crates, for its fuzzers, and for the experiments of the program
//! `switchml-sim`. It is not published, and nothing that ships depends on it.
//!
//! | module | what it is |
//! |---|---|
//! | [`network`] | links that lose, delay, repeat, reorder, cut and damage datagrams; the virtual clock; captures for Wireshark |
//! | [`harness`] | workers and aggregators at the ends of such links; what a run must hold |
//! | [`oracle`] | what an aggregator must answer, and what every rank must hold, as plainly as the rules say it |
//! | [`record`] | packet traces as JSON |
//! | [`tensors`] | tensors of any type, as a rank reduces them |
//! | [`trace`] | random packet traces, with the answers that the oracle gives |
//! | [`session`] | processes that join, reduce and leave, and a switch; any of them may stop or die |
//! | [`soak`] | random schedules, many |
//! | [`published`] | the published algorithm, which has no seq to check |
//!
//! Time is virtual, all randomness follows from seeds, and nothing here opens a socket.

pub mod dice;
pub mod harness;
pub mod network;
pub mod oracle;
pub mod published;
// The form of the records ships with the program `switchml`, whose `replay` reads them, and which cannot depend on an
// unpublished crate. So that there is one declaration, this crate has the program's file.
#[path = "../../switchml-host-std/src/bin/switchml/replay/record.rs"]
pub mod record;
pub mod session;
pub mod soak;
pub mod tensors;
pub mod trace;
