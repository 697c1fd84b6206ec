//! The aggregator against recorded traces, against an oracle, and against garbage.

mod lane;
mod oracle;
mod properties;
mod traces;
