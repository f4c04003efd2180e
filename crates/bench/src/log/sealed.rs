//! Reads along a tag that no sealed segment has, and along one that each segment has.

use quire::events::{NewEvent, Query, QueryItem, ReadOptions};
use quire::{Background, Database, Duty};

use crate::case::CaseRun;
use crate::measurement::{CaseResult, Recorder};
use quire_cli::failure::Result;
use quire_cli::opening::open;

const STORE: &str = "bench";

/// Size of each segment, in bytes.
const SEGMENT_BYTES: u64 = 1 << 20;

/// Least number of sealed segments.
const SEGMENTS: u64 = 100;

/// Events per commit, each with its own tag.
const EVENTS: usize = 500;

/// Reads events with a tag that no segment has.
pub(super) fn walk_absent(run: &CaseRun<'_>) -> Result<CaseResult> {
    let database = filled(run, |commit, event| format!("filled:{commit}-{event}"))?;
    let absent: Vec<_> = (0..1_000).map(|tag| format!("absent:{tag}")).collect();
    let mut recorder = Recorder::start();
    for op in 0..run.ops {
        run.go_on(op)?;
        let found = walk(&database, &absent[op as usize % absent.len()])?;
        recorder.lap();
        assert_eq!(found, 0, "no entry has the tag");
    }
    Ok(recorder.finish().with("segments", database.statistics().segments as f64))
}

/// Reads events with a tag that one event of every commit has: a few per segment.
pub(super) fn walk_present(run: &CaseRun<'_>) -> Result<CaseResult> {
    let database = filled(run, |_, event| format!("filled:{event}"))?;
    let expected = walk(&database, "filled:0")?;
    let mut recorder = Recorder::start();
    for op in 0..run.ops {
        run.go_on(op)?;
        let found = walk(&database, &format!("filled:{}", op as usize % EVENTS))?;
        recorder.lap();
        assert_eq!(found, expected, "each commit has one entry with the tag");
    }
    let measured = recorder.finish().with("events_per_op", f64::from(expected));
    Ok(measured.with("segments", database.statistics().segments as f64))
}

/// A database with `SEGMENTS` sealed segments. `tags` names the tags of its events.
fn filled(run: &CaseRun<'_>, tag: impl Fn(u64, usize) -> String) -> Result<Database> {
    let builder = Database::builder(&run.path).durability(run.case.durability).create(true);
    let builder = builder.segment_bytes(SEGMENT_BYTES).commit_bytes_max(SEGMENT_BYTES / 4);
    let database = open(builder.background(Background::Caller))?.database;
    let (store, data) = (database.events(STORE), vec![b'q'; run.case.payload_bytes]);
    let mut commit = 0;
    while database.statistics().segments <= SEGMENTS + 1 {
        run.go_on(commit)?;
        let tags: Vec<_> = (0..EVENTS).map(|event| tag(commit, event)).collect();
        store.append(tags.iter().map(|tag| NewEvent::new("Filled").tag(tag).data(&data)))?;
        commit += 1;
        for duty in [Duty::Prepare, Duty::Sync, Duty::Seal] {
            database.carry_out(duty)?;
        }
    }
    while database.carry_out(Duty::Seal)? {}
    Ok(database)
}

/// Counts the events with a tag.
fn walk(database: &Database, tag: &str) -> Result<u32> {
    let mut found = 0;
    let query = Query::from(QueryItem::new().tag(tag));
    database.events(STORE).visit(&query, ReadOptions::default(), |_| found += 1)?;
    Ok(found)
}
