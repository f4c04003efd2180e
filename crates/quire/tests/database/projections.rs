//! Saved projections and recorded commands.

use std::cell::Cell;

use quire::events::{EventId, NewEvent, Query, QueryItem};
use quire::{CommandRecord, Database, Durability, ProjectedState, Projection, RecordedDecision};

use crate::support::Place;

fn append(database: &Database, count: usize) {
    database.events("s").append((0..count).map(|_| NewEvent::new("A"))).expect("appended");
}

/// Counts events, and how many of them were folded.
fn count(database: &Database, version: u32, save_after: u64) -> (u64, u64) {
    let folded = Cell::new(0);
    let store = database.events("s");
    let counted: ProjectedState<u64> = store
        .projection("count")
        .version(version)
        .save_after(save_after)
        .typed(QueryItem::new().event_type("A"), 0, |count, _| {
            folded.set(folded.get() + 1);
            *count += 1;
        })
        .expect("projected");
    (counted.state, folded.get())
}

#[test]
fn a_saved_projection_folds_only_new_events_also_after_a_restart_and_a_compaction() {
    let place = Place::new();
    let database = place.open(Durability::Os);
    append(&database, 100);
    assert_eq!(count(&database, 1, 50), (100, 100));
    append(&database, 10);
    assert_eq!(count(&database, 1, 50), (110, 10));
    assert_eq!(count(&database, 1, 50), (110, 10), "so few are not worth saving");
    append(&database, 40);
    assert_eq!(count(&database, 1, 50), (150, 50));
    assert_eq!(count(&database, 1, 50), (150, 0));
    // Enough for several segments, and for the earlier state to be compacted away.
    (0..20).for_each(|_| append(&database, 500));
    database.checkpoint().expect("saved");
    append(&database, 1);
    database.compact().expect("compacted");
    drop(database);
    let database = place.open(Durability::Os);
    assert_eq!(count(&database, 1, 50), (10_151, 10_001));
    drop(database);
    let database = place.open(Durability::Os);
    assert_eq!(count(&database, 1, 50), (10_151, 0));
}

#[test]
fn a_saved_state_that_is_outdated_unreadable_or_dropped_is_folded_again() {
    let place = Place::new();
    let database = place.open(Durability::Os);
    append(&database, 10);
    assert_eq!(count(&database, 1, 1), (10, 10));
    assert_eq!(count(&database, 2, 1), (10, 10));
    assert_eq!(count(&database, 2, 1), (10, 0));
    let store = database.events("s");
    let projection = store.projection("count").version(2);
    projection.drop_state().expect("dropped");
    assert_eq!(projection.load().expect("readable"), None);
    assert_eq!(count(&database, 2, 0), (10, 10), "and zero never saves");
    assert_eq!(count(&database, 2, 0), (10, 10));
    let text: ProjectedState<String> = store
        .projection("count")
        .version(2)
        .save_after(1)
        .typed(Query::all(), "text".to_owned(), |text, _| text.push('.'))
        .expect("projected");
    assert_eq!(text.state, "text..........");
    assert_eq!(count(&database, 2, 1), (10, 10), "a text is no number");
}

#[test]
fn a_decision_on_a_saved_state_is_as_safe_as_one_on_all_events() {
    let place = Place::new();
    let database = place.open(Durability::Os);
    let store = database.events("s");
    let mut others = 3;
    let seats = || {
        store.projection("taken").save_after(1).typed(QueryItem::new().event_type("Taken"), 0, |taken, _| *taken += 1)
    };
    let decided = store.decide_on(10, seats, |taken: u32| {
        // Another client takes a seat during the decision.
        if others > 0 {
            others -= 1;
            store.append([NewEvent::new("Taken")]).expect("appended");
        }
        if taken < 3 { Ok(vec![NewEvent::new("Taken")]) } else { Err("full") }
    });
    assert_eq!(decided.expect("no error"), Err("full"));
    assert_eq!(store.head().expect("readable").get(), 3);
}

#[test]
fn a_recorded_command_is_decided_once_and_its_events_name_their_cause() {
    let place = Place::new();
    let id: EventId = "7f1c3a52-8f5e-4c0e-9d0a-5b8f6a3e1c11".parse().expect("an id");
    let belongs: EventId = "00000000-0000-4000-8000-000000000001".parse().expect("an id");
    let command = CommandRecord::new("commands", id, "Enrol").data("{}").correlation(belongs);
    // The commands are in a separate store, and in the same store.
    for events in ["s", "commands"] {
        let database = place.open(Durability::Os);
        let store = database.events(events);
        let command = CommandRecord { id: if events == "s" { id } else { belongs }, ..command.clone() };
        let all = || store.project(Projection::new(Query::all(), 0, |count, _| *count += 1));
        let decided = store.decide_recorded(5, &command, all, |_: i32| Ok::<_, ()>(vec![NewEvent::new("Enrolled")]));
        assert!(matches!(decided, Ok(Ok(RecordedDecision::Now(appended))) if appended.first.is_some()));
        let again = store.decide_recorded(5, &command, all, |_| Err("never asked"));
        assert_eq!(again.expect("no error"), Ok(RecordedDecision::Before));
        drop((store, database));
        let database = place.open(Durability::Os);
        let enrolled =
            database.events(events).read(&QueryItem::new().event_type("Enrolled").into(), Default::default());
        let enrolled = enrolled.expect("readable").events;
        let metadata = format!(r#"{{"causation":"{}","correlation":"{belongs}"}}"#, command.id);
        assert_eq!(enrolled.len(), 1);
        assert_eq!(String::from_utf8_lossy(&enrolled[0].metadata), metadata);
        let recorded = database
            .events("commands")
            .read(&QueryItem::new().tag(format!("command:{}", command.id)).into(), Default::default());
        let recorded = recorded.expect("readable").events;
        assert_eq!((recorded.len(), recorded[0].id, recorded[0].event_type.as_str()), (1, command.id, "Enrol"));
    }
}

#[test]
fn one_of_eight_threads_with_the_same_command_causes_its_events() {
    let place = Place::new();
    let database = place.open(Durability::Os);
    let store = database.events("s");
    for round in 1..=50u128 {
        let command = CommandRecord::new("commands", EventId::from_bytes(round.to_be_bytes()), "Do");
        let one = || {
            let all = || store.project(Projection::new(QueryItem::new().event_type("X"), (), |(), _| ()));
            let decided = store.decide_recorded(100, &command, all, |()| Ok::<_, ()>(vec![NewEvent::new("Done")]));
            usize::from(matches!(decided, Ok(Ok(RecordedDecision::Now(_)))))
        };
        let now: usize = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(one)).collect();
            threads.into_iter().map(|thread| thread.join().expect("no panic")).sum()
        });
        assert_eq!(now, 1, "round {round}");
    }
    assert_eq!(store.head().expect("readable").get(), 50);
}
