//! A file in PEM: certificates, a key and a revocation list.
#![no_main]

#[path = "../../crates/access/tests/outside/checks/mod.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    checks::pem::check(bytes);
});
