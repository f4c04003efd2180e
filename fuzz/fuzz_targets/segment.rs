//! The bytes of a segment, plain or packed, as opening a log reads them.
#![no_main]

#[path = "../../crates/log/tests/outside/checks/mod.rs"]
mod checks;

// The fuzzer forges checksums as soon as it sees them compared. So the run reports only panics and
// hangs, not wrong results.
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    checks::segment::check(bytes, false);
});
