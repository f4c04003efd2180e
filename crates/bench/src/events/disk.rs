//! The disk space of events after compaction.

use quire::Database;
use quire::events::NewEvent;

use super::embedded::{STORE, create};
use crate::case::CaseRun;
use crate::measurement::{CaseResult, Recorder};
use crate::size::bytes_of;
use quire_cli::failure::Result;

/// Events per append.
const BATCH: u64 = 1_000;

/// Appends events of two tags, seals and compacts, and counts the bytes of all files.
pub(super) fn after_compaction(run: &CaseRun<'_>) -> Result<CaseResult> {
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
    // The second opening completes pending seals and removals.
    drop(quire_cli::opening::open(Database::builder(&run.path))?);
    let bytes = bytes_of(&run.path)? as f64 / run.ops as f64;
    Ok(recorder.finish().with("disk_bytes_per_event", bytes))
}
