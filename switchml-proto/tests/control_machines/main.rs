//! Both control machines against each other, over an in-memory network and in virtual time (C-1 to C-5).

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the answer")]
#![allow(clippy::std_instead_of_core, reason = "tests have std")]

mod ending;
mod hostile;
mod joining;
mod living;
mod net;
mod rejecting;
