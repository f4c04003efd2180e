//! A record batch from outside: parsed, decompressed, and every record of it read.
#![no_main]

use libfuzzer_sys::fuzz_target;
use quire::streams::wire::{Batch, BatchError};

fuzz_target!(|bytes: &[u8]| {
    // The checksum that it should have is put in, or else nothing behind it would ever be looked at.
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
        // Some may be left out, until there are fewer to come than are said.
        assert!(record.offset_delta >= count);
        count += 1;
        assert_eq!(record.headers.iter().count(), record.headers.len());
    }
    assert_eq!(count, batch.record_count());
});
