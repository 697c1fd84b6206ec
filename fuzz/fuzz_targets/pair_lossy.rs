#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| switchml_fuzz_bodies::pair_lossy(data));
