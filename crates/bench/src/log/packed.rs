//! Reading messages of packed segments.

use quire::Database;

use super::reads;
use crate::case::CaseRun;
use crate::measurement::CaseResult;
use crate::size::bytes_of;
use quire_cli::failure::Result;
use quire_cli::opening::open;

const MESSAGES: u64 = 200_000;

/// Reads one message at a time from packed segments, and counts the bytes of all files.
pub(super) fn random(run: &CaseRun<'_>) -> Result<CaseResult> {
    let builder = || Database::builder(&run.path).durability(run.case.durability).pack_segments(true);
    let database = open(builder().create(true))?.database;
    reads::produce(run, &database, MESSAGES, 100)?;
    database.compact()?;
    drop(database);
    // The second opening completes pending seals and removals.
    let database = open(builder())?.database;
    let bytes = bytes_of(&run.path)? as f64 / MESSAGES as f64;
    Ok(reads::random_of(run, &database, MESSAGES, || Ok(()))?.with("disk_bytes_per_message", bytes))
}
