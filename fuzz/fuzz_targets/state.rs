//! The state of all models, as a checkpoint holds it.
#![no_main]

#[path = "../../crates/quire/tests/outside/checks/mod.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    checks::state::check(bytes);
});
