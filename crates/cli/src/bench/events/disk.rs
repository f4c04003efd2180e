//! How much disk events take once nothing is left to be given back.

use quire::Database;
use quire::events::NewEvent;

use super::embedded::{STORE, create};
use crate::bench::case::Run;
use crate::bench::measurement::{Measured, Recorder};
use crate::bench::size::bytes_of;
use crate::failure::Result;

/// How many events are appended at a time.
const BATCH: u64 = 1_000;

/// Appends events of two tags, seals and compacts, and counts the bytes of all files.
pub(super) fn after_compaction(run: &Run<'_>) -> Result<Measured> {
    let database = create(run)?;
    let data = vec![b'q'; run.case.payload_bytes];
    let mut recorder = Recorder::start();
    for first in (0..run.ops).step_by(BATCH as usize) {
        run.go_on(first)?;
        let numbers = first..run.ops.min(first + BATCH);
        let tags: Vec<[String; 2]> =
            numbers.map(|event| [format!("name:{event}"), format!("course:{}", event % 1_000)]).collect();
        let events = tags.iter().map(|[own, shared]| NewEvent::new("Happened").tag(own).tag(shared).data(&data));
        database.events(STORE).append(events)?;
        recorder.lap();
    }
    database.compact()?;
    drop(database);
    // Opened once more: what was left to be sealed or removed is by now.
    drop(crate::opening::open(Database::builder(&run.path))?);
    let bytes = bytes_of(&run.path)? as f64 / run.ops as f64;
    Ok(recorder.finish().with("disk_bytes_per_event", bytes))
}
