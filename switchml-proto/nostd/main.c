/* Runs the static library in a program without a Rust runtime; the exit code is what the core's run returned. */
#include <stdlib.h>

int switchml_nostd_run(void);

/* The toolchain's compiled `core` was built for unwinding and names this function. With panic = "abort" nothing calls
   it. */
void rust_eh_personality(void) { abort(); }

/* Called by the library's panic handler. */
void switchml_nostd_panicked(void) { abort(); }

int main(void) { return switchml_nostd_run(); }
