//! What the program says: results on standard output, notes and errors on standard error.

use core::fmt;
use std::io::{self, Write};

use anyhow::{Context, Result};
use serde::Serialize;
use switchml_host_std::SocketCalls;

/// Prints a line of the result.
pub(crate) fn line(text: impl fmt::Display) -> Result<()> {
    writeln!(io::stdout(), "{text}").context("standard output cannot be written")
}

/// Prints the result as one line of JSON.
pub(crate) fn json(value: &impl Serialize) -> Result<()> {
    line(serde_json::to_string(value).context("the result has no JSON form")?)
}

/// Prints a line beside the result. Where standard error is gone, nobody reads it, and the work goes on.
pub(crate) fn note(text: impl fmt::Display) {
    let _ = writeln!(io::stderr(), "{text}");
}

/// `3.21 Gbit/s`, `45.6 Mbit/s`.
pub(crate) fn rate(gigabits_per_second: f64) -> String {
    if gigabits_per_second < 0.1 {
        format!("{:.1} Mbit/s", 1e3 * gigabits_per_second)
    } else {
        format!("{gigabits_per_second:.2} Gbit/s")
    }
}

/// How datagrams come and go; `receive_buffer` is in octets.
pub(crate) fn sockets(calls: SocketCalls, receive_buffer: Option<usize>) -> String {
    match receive_buffer {
        Some(octets) => format!("{calls} socket calls, receive buffers of {} KiB", octets >> 10),
        None => format!("{calls} socket calls"),
    }
}
