//! Rules of access and rules for names of certificates, as text.
#![no_main]

#[path = "../../crates/access/tests/outside/checks/mod.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    checks::rule::check(bytes);
});
