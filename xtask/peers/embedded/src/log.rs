//! A log in a key-value store: entries by their number. The cases are those of `quire-bench log`.

use std::hint::black_box;

use crate::Result;
use crate::measured::Measured;

/// The payload of an entry, in bytes.
const PAYLOAD_BYTES: usize = 116;

/// How many entries there are for random reads.
const ENTRIES: u64 = 1_000_000;

/// How many entries are appended at a time to fill the log.
const FILL_AT_ONCE: usize = 1_000;

/// Entries by their number, from 0 on.
pub(crate) trait Log {
    /// Appends the same payload `count` times, all or none, at the end; durable as the store was
    /// opened.
    fn append(&mut self, first: u64, count: usize, payload: &[u8]) -> Result<()>;
    /// Reads the payload of a random entry.
    fn read(&self, number: u64, seen: &mut dyn FnMut(&[u8])) -> Result<()>;
    /// Reads the payloads of `count` entries in order.
    fn read_on(&self, first: u64, count: usize, seen: &mut dyn FnMut(&[u8])) -> Result<()>;
}

/// Runs a case.
pub(crate) fn run(case: &str, ops: u64, log: &mut impl Log) -> Result<Measured> {
    let append = |log: &mut dyn FnMut(u64) -> Result<()>, batch| Measured::warm(ops, batch, log);
    let payload = [b'q'; PAYLOAD_BYTES];
    match case {
        "append-single" => append(&mut |op| log.append(op, 1, &payload), 1),
        "append-batch-100" => append(&mut |op| log.append(op * 100, 100, &payload), 100),
        "append-batch-1000" => append(&mut |op| log.append(op * 1_000, 1_000, &payload), 1_000),
        "read-back" => {
            fill(log, ops * 1_000)?;
            Measured::cold(ops, 1_000, |op| {
                let mut seen = 0;
                log.read_on(op * 1_000, 1_000, &mut |payload| seen += black_box(payload.to_vec()).len())?;
                assert_eq!(seen, 1_000 * PAYLOAD_BYTES, "every entry is read");
                Ok(())
            })
        }
        "random-read-1m" => {
            fill(log, ENTRIES)?;
            Measured::cold(ops, 1, |op| {
                let mut seen = 0;
                let number = op.wrapping_mul(0x9E37_79B9_7F4A_7C15) % ENTRIES;
                log.read(number, &mut |payload| seen = black_box(payload).len())?;
                assert_eq!(seen, PAYLOAD_BYTES, "the entry is there");
                Ok(())
            })
        }
        other => Err(format!("there is no case {other}").into()),
    }
}

fn fill(log: &mut impl Log, entries: u64) -> Result<()> {
    let payload = [b'q'; PAYLOAD_BYTES];
    (0..entries).step_by(FILL_AT_ONCE).try_for_each(|first| log.append(first, FILL_AT_ONCE, &payload))
}
