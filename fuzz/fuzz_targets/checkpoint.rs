//! The bytes of a checkpoint next to a sound log.
#![no_main]

#[path = "../../crates/log/tests/outside/checks/mod.rs"]
mod checks;

// Same as in `segment`.
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    checks::checkpoint::check(bytes, false);
});
