//! A gRPC call: the method and its messages. A task that panics ends the run.
#![no_main]

#[path = "../../crates/grpc/tests/outside/checks/mod.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    checks::check(bytes);
});
