//! Arguments of the command, one a line.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    quire_cli::outside::arguments(bytes);
});
