//! Proof that the core needs neither std nor alloc: a static library with its own panic handler, which a C program
//! links and runs.
//!
//! `.ci/run nostd` builds it bare and with `defmt`, looks for std and alloc in the archive, then links `main.c` with it
//! and runs that. It is no part of the product.
#![no_std]

use core::panic::PanicInfo;

use switchml_proto as _;

#[cfg(feature = "defmt")]
mod logger;

/// Drives the core, and returns 0 if all its results were right, else the number of the first step that was not.
#[unsafe(no_mangle)]
pub extern "C" fn switchml_nostd_run() -> i32 {
    #[cfg(feature = "defmt")]
    if !logger::writes(0_u8) {
        return 1;
    }
    0
}

unsafe extern "C" {
    /// Ends the program that links this library (`main.c`).
    safe fn switchml_nostd_panicked() -> !;
}

#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    switchml_nostd_panicked()
}
