//! A file of settings.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    quire_cli::outside::settings(bytes);
});
