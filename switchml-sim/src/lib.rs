//! What the tests and experiments of SwitchML share: a network emulator, the naive oracle, a generator of packet traces, and a
//! harness that runs the protocol's own machines through the emulator in virtual time.
//!
//! It is for the tests of this repository's crates, for its fuzzers, and for the experiments of the program
//! `switchml-sim`. It is not published, and nothing that ships depends on it.
//!
//! | module | what it is |
//! |---|---|
//! | [`network`] | links that lose, delay, repeat, reorder, cut and damage datagrams; the virtual clock; captures for Wireshark |

pub mod dice;
pub mod network;
