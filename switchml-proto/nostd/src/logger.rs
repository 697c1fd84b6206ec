//! The smallest `defmt` logger: it counts the octets that it is given, so that formatting is really linked and run.

use core::sync::atomic::{AtomicUsize, Ordering};

static WRITTEN: AtomicUsize = AtomicUsize::new(0);

/// Logs `value`, and tells whether any octet of it reached the logger.
pub(crate) fn writes(value: impl defmt::Format) -> bool {
    let before = WRITTEN.load(Ordering::Relaxed);
    defmt::error!("{}", value);
    WRITTEN.load(Ordering::Relaxed) > before
}

#[defmt::global_logger]
struct Counter;

// SAFETY: the one program that links this has one thread, and logs from no signal handler, so no two calls overlap.
unsafe impl defmt::Logger for Counter {
    fn acquire() {}

    unsafe fn flush() {}

    unsafe fn release() {}

    unsafe fn write(octets: &[u8]) {
        WRITTEN.fetch_add(octets.len(), Ordering::Relaxed);
    }
}

/// Where `defmt` itself would panic; a firmware has this from `defmt`'s linker script or from `panic-probe`.
#[defmt::panic_handler]
fn panic() -> ! {
    crate::switchml_nostd_panicked()
}

defmt::timestamp!("{=u8}", 0);
