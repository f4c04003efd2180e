//! The bytes of a statistics page next to a sound log.
#![no_main]

#[path = "../../crates/log/tests/outside/checks/mod.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    checks::statistics::check(bytes);
});
