//! A line of events to import.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    quire_cli::outside::event(bytes);
});
