//! The text of an API key.
#![no_main]

#[path = "../../crates/access/tests/outside/checks/mod.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    checks::key::check(bytes);
});
