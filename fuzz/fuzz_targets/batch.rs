//! A record batch from outside: parsed, decompressed, and every record of it read.
#![no_main]

use libfuzzer_sys::fuzz_target;
use quire::streams::wire::{Batch, BatchError};

fuzz_target!(|bytes: &[u8]| {
    // The right checksum is written into the input, because nothing after a wrong one would be
    // parsed.
    let mut sealed = bytes.to_vec();
    if let Err(BatchError::Checksum { computed, .. }) = Batch::parse(bytes) {
        sealed[17..21].copy_from_slice(&computed.to_be_bytes());
    }
    let Ok(batch) = Batch::parse(&sealed) else { return };
    let opened = match batch.records() {
        Ok(_) => None,
        Err(_) => match quire::open_batch(&batch) {
            Ok(opened) => Some(opened),
            Err(_) => return,
        },
    };
    let records = match &opened {
        Some(opened) => batch.records_from(opened),
        None => batch.records().expect("it was asked"),
    };
    let mut count = 0;
    for record in records {
        let Ok(record) = record else { return };
        // The batch may have fewer records than its count says.
        assert!(record.offset_delta >= count);
        count += 1;
        assert_eq!(record.headers.iter().count(), record.headers.len());
    }
    assert_eq!(count, batch.record_count());
});
