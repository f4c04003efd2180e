//! Reading messages of segments that were packed when they were compacted.

use quire::Database;

use super::reads;
use crate::bench::case::Run;
use crate::bench::measurement::Measured;
use crate::bench::size::bytes_of;
use crate::failure::Result;
use crate::opening::open;

const MESSAGES: u64 = 200_000;

/// Reads one message at a time, all over what was packed, and counts the bytes of all files.
pub(super) fn random(run: &Run<'_>) -> Result<Measured> {
    let builder = || Database::builder(&run.path).durability(run.case.durability).pack_segments(true);
    let database = open(builder().create(true))?.database;
    reads::produce(run, &database, MESSAGES, 100)?;
    database.compact()?;
    drop(database);
    // Opened once more: what was left to be sealed or removed is by now.
    let database = open(builder())?.database;
    let bytes = bytes_of(&run.path)? as f64 / MESSAGES as f64;
    Ok(reads::random_of(run, &database, MESSAGES, || Ok(()))?.with("disk_bytes_per_message", bytes))
}
