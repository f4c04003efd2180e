//! A GraphML file that is imported. A task that panics ends the run.
#![no_main]

#[path = "../../crates/http/tests/outside/checks/mod.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    checks::graphml(bytes);
});
