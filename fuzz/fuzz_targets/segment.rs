//! A segment's bytes, plain or packed, as who opens a log meets them.
#![no_main]

#[path = "../../crates/log/tests/outside/checks/mod.rs"]
mod checks;

// A run forges checksums as soon as it sees them compared, so it is told of what ends badly, and not of what is untrue.
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    checks::segment::check(bytes, false);
});
