//! The bytes of `quire.meta` in a sound database.
#![no_main]

#[path = "../../crates/quire/tests/outside/checks/mod.rs"]
mod checks;

// The fuzzer forges checksums as soon as it sees them compared. So the run reports only panics and
// hangs, not wrong results.
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    checks::meta::check(bytes, false);
});
