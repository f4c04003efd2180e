//! A control file's bytes beside a sound log.
#![no_main]

#[path = "../../crates/log/tests/outside/checks/mod.rs"]
mod checks;

// As in `segment`.
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    checks::control::check(bytes, false);
});
