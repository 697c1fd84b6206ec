//! The software switch as its peers meet it on the wire, with sockets of their own.

mod life;
mod metrics;
mod protocol;
mod support;
