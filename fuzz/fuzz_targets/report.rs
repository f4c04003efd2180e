//! A report of `quire-bench --json`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    quire_bench::report(bytes);
});
