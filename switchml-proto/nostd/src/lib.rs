//! Proof that the core needs neither std nor alloc: a static library with its own panic handler, which a C program
//! links and runs.
//!
//! `.ci/run nostd` builds it bare and with `defmt`, looks for std and alloc in the archive, then links `main.c` with it
//! and runs that. It is no part of the product.
#![no_std]

#[cfg(feature = "defmt")]
mod logger;
mod plane;
mod session;
mod tensors;

use core::panic::PanicInfo;

/// Drives the core, and returns 0 if all its results were right, else the number of the first step that was not: a
/// [`session::Step`].
#[unsafe(no_mangle)]
pub extern "C" fn switchml_nostd_run() -> i32 {
    session::run().map_or_else(|step| step as i32, |()| 0)
}

unsafe extern "C" {
    /// Ends the program that links this library (`main.c`).
    safe fn switchml_nostd_panicked() -> !;
}

#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    switchml_nostd_panicked()
}
