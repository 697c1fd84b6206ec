//! The SwitchML protocol core.
#![no_std]
#![forbid(unsafe_code)]

pub mod numeric;
