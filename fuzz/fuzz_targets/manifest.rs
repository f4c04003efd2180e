//! The bytes of `quire.backup` in a sound backup.
#![no_main]

#[path = "../../crates/quire/tests/outside/checks/mod.rs"]
mod checks;

// A run forges checksums as soon as it sees them compared, so it is told of what ends badly, and not of what is untrue.
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    checks::manifest::check(bytes, false);
});
