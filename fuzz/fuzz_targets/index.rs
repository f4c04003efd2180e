//! The bytes of an index next to a sound segment.
#![no_main]

#[path = "../../crates/log/tests/outside/checks/mod.rs"]
mod checks;

// Same as in `segment`.
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    checks::index::check(bytes, false);
});
