//! The bytes of a control file next to a sound log.
#![no_main]

#[path = "../../crates/log/tests/outside/checks/mod.rs"]
mod checks;

// Same as in `segment`.
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    checks::control::check(bytes, false);
});
