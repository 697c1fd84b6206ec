//! The program's subcommands, a file each.

pub(crate) mod soak;
