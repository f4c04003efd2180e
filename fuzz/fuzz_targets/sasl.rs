//! Messages of a SASL exchange: the mechanism, and what a client sends.
#![no_main]

#[path = "../../crates/access/tests/outside/checks/mod.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    checks::sasl::check(bytes);
});
