//! The `switchml` program.
fn main() {}
