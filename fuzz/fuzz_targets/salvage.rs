//! The bytes of a segment in a database that is salvaged.
#![no_main]

#[path = "../../crates/quire/tests/outside/checks/mod.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    checks::salvage::check(bytes);
});
