//! Event stores in this process.

use std::hint::black_box;
use std::thread;

use quire::events::{Condition, EventPosition, NewEvent, Query, QueryItem, ReadOptions};
use quire::{Database, EventStore, Projection};

use super::dataset::Size;
use crate::case::CaseRun;
use crate::measurement::{CaseResult, Recorder};
use crate::memory::memory_bytes;
use quire_cli::failure::{CommandError, Result};
use quire_cli::latencies::Latencies;
use quire_cli::opening::open;
use quire_cli::stopwatch::Stopwatch;

pub(super) const STORE: &str = "bench";

/// Number of tags that the events of a case share.
const TAGS: u64 = 1_000;

pub(super) fn create(run: &CaseRun<'_>) -> Result<Database> {
    Ok(open(Database::builder(&run.path).durability(run.case.durability).create(true))?.database)
}

/// Appends `count` events in large batches, each with the tags of its number.
fn fill(store: &EventStore, events: u64, tags: impl Fn(u64) -> [String; 2]) -> Result {
    let data = [b'q'; super::PAYLOAD_BYTES];
    for batch in 0..events.div_ceil(1_000) {
        let numbers = batch * 1_000..events.min((batch + 1) * 1_000);
        let tags: Vec<[String; 2]> = numbers.map(&tags).collect();
        store.append(
            tags.iter().map(|[first, second]| NewEvent::new("Filled").tag(first).tag(second).data(&data[..])),
        )?;
    }
    Ok(())
}

/// Tags that are made ahead of their use.
const MADE_AT_ONCE: u64 = 1_024;

/// Runs `append` with the data and three tags for each operation. One tag is unique. The tags exist
/// before the operation starts.
fn each(run: &CaseRun<'_>, mut append: impl FnMut(NewEvent<'_>, &str) -> Result) -> Result<CaseResult> {
    let data = vec![b'q'; run.case.payload_bytes];
    let tags = |op: u64| [format!("name:{op}"), format!("course:{}", op % TAGS)];
    let mut one = |[own, shared]: &[String; 2]| -> Result {
        append(NewEvent::new("Happened").tag(own).tag(shared).tag("school:1").data(&data), own)
    };
    let warm_up = (run.ops / 10).clamp(1, 10_000);
    (0..warm_up).try_for_each(|op| one(&tags(u64::MAX / 2 + op)))?;
    let mut recorder = Recorder::start();
    for first in (0..run.ops).step_by(MADE_AT_ONCE as usize) {
        let made: Vec<_> = (first..run.ops.min(first + MADE_AT_ONCE)).map(tags).collect();
        recorder.restart();
        for (op, tags) in (first..).zip(&made) {
            run.go_on(op)?;
            one(tags)?;
            recorder.lap();
        }
    }
    Ok(recorder.finish())
}

/// Appends without a condition.
pub(super) fn append(run: &CaseRun<'_>) -> Result<CaseResult> {
    let database = create(run)?;
    let store = database.events(STORE);
    each(run, |event, _| {
        store.append([event])?;
        Ok(())
    })
}

/// Appends if no event has the same name: a condition over the whole store.
pub(super) fn append_if_new<const EVENTS: u64>(run: &CaseRun<'_>) -> Result<CaseResult> {
    let database = create(run)?;
    let store = database.events(STORE);
    fill(&store, EVENTS, |event| [format!("filled:{event}"), format!("course:{}", event % TAGS)])?;
    each(run, |event, own| {
        let unclaimed = Query::from(QueryItem::new().event_type("Happened").tag(own));
        store.append_if([event], [Condition::fail_if_matches(unclaimed)])?;
        Ok(())
    })
}

/// Appends if there is no match since the last append, as after a read.
pub(super) fn append_if_unchanged(run: &CaseRun<'_>) -> Result<CaseResult> {
    let database = create(run)?;
    let store = database.events(STORE);
    let mut seen = EventPosition::ZERO;
    each(run, |event, _| {
        let school = Query::from(QueryItem::new().event_type("Happened").tag("school:1"));
        let appended = store.append_if([event], [Condition::fail_if_matches_after(school, seen)])?;
        seen = appended.last.expect("an event was appended");
        Ok(())
    })
}

/// The threads of the case append, and each waits for its own commit.
pub(super) fn append_threads(run: &CaseRun<'_>) -> Result<CaseResult> {
    let database = create(run)?;
    let (before, ops) = (database.statistics(), run.ops.div_ceil(run.case.clients.into()));
    let watch = Stopwatch::start();
    let clients: Vec<Result<Latencies>> = thread::scope(|scope| {
        let database = &database;
        let append = move |client: u32| -> Result<Latencies> {
            let (store, data) = (database.events(STORE), vec![b'q'; run.case.payload_bytes]);
            let mut recorder = Recorder::start_among_others();
            for op in 0..ops {
                run.go_on(op)?;
                let (own, shared) = (format!("name:{client}-{op}"), format!("course:{}", op % TAGS));
                let event = NewEvent::new("Happened").tag(&own).tag(&shared).tag("school:1").data(&data);
                store.append([event])?;
                recorder.lap();
            }
            Ok(recorder.into_latencies())
        };
        let running: Vec<_> = (0..run.case.clients).map(|client| scope.spawn(move || append(client))).collect();
        running.into_iter().map(|thread| thread.join().expect("a client does not panic")).collect()
    });
    let measured = CaseResult::of_clients(clients.into_iter().collect::<Result<Vec<_>>>()?, watch.elapsed());
    let after = database.statistics();
    let syncs = (after.syncs - before.syncs).max(1);
    Ok(measured.with("commits_per_sync", (after.commits - before.commits) as f64 / syncs as f64))
}

/// Appends under a condition that fails each time.
pub(super) fn append_refused(run: &CaseRun<'_>) -> Result<CaseResult> {
    let database = create(run)?;
    let store = database.events(STORE);
    fill(&store, 10_000, |event| [format!("filled:{event}"), format!("course:{}", event % TAGS)])?;
    let before = database.statistics().refusals;
    let measured = each(run, |event, _| {
        let claimed = Query::from(QueryItem::new().event_type("Filled").tag("filled:5000"));
        match store.append_if([event], [Condition::fail_if_matches(claimed)]) {
            Err(error) if error.kind() == quire::ErrorKind::Refused => Ok(()),
            Err(error) => Err(error.into()),
            Ok(_) => Err(CommandError::new("an append was accepted against its condition")),
        }
    })?;
    assert!(database.statistics().refusals - before >= run.ops, "every append was refused");
    Ok(measured)
}

/// Appends under a condition on a type alone, in a store of many events.
pub(super) fn append_if_type_absent(run: &CaseRun<'_>) -> Result<CaseResult> {
    let database = create(run)?;
    let store = database.events(STORE);
    fill(&store, 5_000_000, |event| [format!("filled:{event}"), format!("course:{}", event % TAGS)])?;
    each(run, |event, _| {
        let absent = Query::from(QueryItem::new().event_type("Absent"));
        store.append_if([event], [Condition::fail_if_matches(absent)])?;
        Ok(())
    })
}

/// Appends the smallest course data set with enough events, one event per append.
pub(super) fn load(run: &CaseRun<'_>) -> Result<CaseResult> {
    let database = create(run)?;
    let store = database.events(STORE);
    let size = Size::with_events(run.case.ops);
    let facts = size.facts().take(usize::try_from(run.ops).unwrap_or(usize::MAX));
    let mut recorder = Recorder::start();
    for (op, fact) in (0..).zip(facts) {
        run.go_on(op)?;
        let event = NewEvent::new(fact.event_type).data(&fact.data);
        store.append([fact.tags.iter().fold(event, |event, tag| event.tag(tag))])?;
        recorder.lap();
    }
    let bytes = database.statistics().bytes as f64 / run.ops.min(size.events()) as f64;
    Ok(recorder.finish().with("log_bytes_per_event", bytes).with("memory_bytes", memory_bytes()))
}

/// Runs `read` on one tag after another, in a store of `EVENTS` events with evenly distributed
/// tags.
fn reads(
    run: &CaseRun<'_>,
    events: u64,
    of_tag: u64,
    read: impl Fn(&EventStore, &str) -> Result<u64>,
) -> Result<CaseResult> {
    let database = create(run)?;
    let store = database.events(STORE);
    let tags = events / of_tag;
    fill(&store, events, |event| [format!("course:{}", event % tags), "school:1".to_owned()])?;
    let mut recorder = Recorder::start();
    for op in 0..run.ops {
        run.go_on(op)?;
        // Multiples of the golden ratio are far from each other, and the same every time.
        let tag = op.wrapping_mul(0x9E37_79B9_7F4A_7C15) % tags;
        let found = read(&store, &format!("course:{tag}"))?;
        recorder.lap();
        assert_eq!(found, of_tag, "every event was read");
    }
    Ok(recorder.finish())
}

/// Reads the events of a tag that has `OF_TAG` of them, in a store of `EVENTS`.
pub(super) fn read_tag<const OF_TAG: u64, const EVENTS: u64>(run: &CaseRun<'_>) -> Result<CaseResult> {
    reads(run, EVENTS, OF_TAG, |store, tag| {
        let mut found = 0;
        store.visit(&Query::from(QueryItem::new().tag(tag)), ReadOptions::default(), |event| {
            found += 1;
            black_box(event.data);
        })?;
        Ok(found)
    })
}

/// Projects two projections over 50 events.
pub(super) fn project(run: &CaseRun<'_>) -> Result<CaseResult> {
    reads(run, 50_000, 50, |store, tag| {
        let of_course = || QueryItem::new().tag(tag);
        let count = Projection::new(of_course(), 0, |count, _| *count += 1);
        let bytes = Projection::new(of_course().event_type("Filled"), 0, |bytes, event| *bytes += event.data.len());
        let projected = store.project((count, bytes))?;
        black_box(projected.state.1);
        Ok(projected.state.0)
    })
}
