//! The bytes of `quire.backup` in a sound backup.
#![no_main]

#[path = "../../crates/quire/tests/outside/checks/mod.rs"]
mod checks;

// The fuzzer forges checksums as soon as it sees them compared. So the run reports only panics and
// hangs, not wrong results.
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    checks::manifest::check(bytes, false);
});
