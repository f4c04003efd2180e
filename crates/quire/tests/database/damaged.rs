//! Damage in a sealed segment is reported by the read that finds it, and by no other read:
//! everything else is served.

use std::fs;
use std::path::Path;

use quire::events::{Condition, EventPosition, NewEvent, Query, QueryItem, ReadOptions};
use quire::{Background, ConsumerSettings, Database, Durability, Duty, ErrorKind, Message, Sequence};

use crate::support::{Place, files};

/// The event that is damaged.
const DAMAGED: u64 = 5;
const EVENTS: u64 = 60;

/// An event store with its first events in a sealed segment, one of them damaged.
fn damaged(place: &Place) -> Database {
    let database = place.builder(Durability::Os).background(Background::Caller).open().expect("opened");
    for number in 1..=EVENTS {
        let data = format!("event {number:04} {}", "x".repeat(3000));
        let event = NewEvent::new(if number % 2 == 0 { "Even" } else { "Odd" }).data(data.as_bytes());
        database.events("store").append([event]).expect("appended");
    }
    database.sync().expect("synced");
    while database.carry_out(Duty::Seal).expect("sealed") {}
    drop(database);
    let segment = files(&place.shard(), ".log").remove(0);
    let mut bytes = fs::read(&segment).expect("readable");
    let text = format!("event {DAMAGED:04}");
    let at = bytes.windows(text.len()).position(|window| window == text.as_bytes()).expect("it stands there");
    bytes[at + 100] ^= 1;
    fs::write(&segment, bytes).expect("written");
    place.builder(Durability::Os).background(Background::Caller).open().expect("opened")
}

#[test]
fn events_on_both_sides_of_a_damaged_one_are_read_up_to_it() {
    let place = Place::new();
    let database = damaged(&place);
    let positions = |options: ReadOptions| -> Result<Vec<u64>, ErrorKind> {
        let read = database.events("store").read(&Query::all(), options).map_err(|error| error.kind())?;
        Ok(read.events.iter().map(|event| event.position.get()).collect())
    };
    let (none, at) = (ReadOptions::default(), EventPosition::new);
    let before: Vec<u64> = (1..DAMAGED).collect();
    let behind: Vec<u64> = (DAMAGED + 1..=EVENTS).collect();
    assert_eq!(positions(none), Err(ErrorKind::Damaged));
    assert_eq!(positions(ReadOptions { up_to: Some(at(DAMAGED - 1)), ..none }), Ok(before.clone()));
    assert_eq!(positions(ReadOptions { limit: Some(DAMAGED - 1), ..none }), Ok(before.clone()));
    assert_eq!(positions(ReadOptions { before: Some(at(DAMAGED)), ..none }), Ok(before.clone()));
    assert_eq!(positions(ReadOptions { up_to: Some(at(DAMAGED)), ..none }), Err(ErrorKind::Damaged));
    assert_eq!(positions(ReadOptions { after: at(DAMAGED - 1), limit: Some(1), ..none }), Err(ErrorKind::Damaged));
    assert_eq!(positions(ReadOptions { after: at(DAMAGED), ..none }), Ok(behind.clone()));
    for after in DAMAGED..EVENTS {
        assert_eq!(positions(ReadOptions { after: at(after), limit: Some(1), ..none }), Ok(vec![after + 1]));
    }
    let backwards = ReadOptions { backwards: true, ..none };
    let reversed = |all: Vec<u64>| all.into_iter().rev().collect::<Vec<_>>();
    assert_eq!(positions(ReadOptions { before: Some(at(DAMAGED)), ..backwards }), Ok(reversed(before)));
    assert_eq!(positions(ReadOptions { limit: Some(EVENTS - DAMAGED), ..backwards }), Ok(reversed(behind)));
    assert_eq!(positions(ReadOptions { before: Some(at(DAMAGED + 1)), ..backwards }), Err(ErrorKind::Damaged));
}

#[test]
fn a_subscription_gives_every_event_before_a_damaged_one() {
    let place = Place::new();
    let database = damaged(&place);
    let of_type = |event_type| QueryItem::new().event_type(event_type);
    // One walk, and two that are merged.
    for query in [Query::all(), Query::from(of_type("Odd")).or(of_type("Even"))] {
        let subscription = database.events("store").subscribe(query, EventPosition::ZERO);
        let mut subscription = subscription.expect("a query that can be asked");
        let mut given = Vec::new();
        let error = loop {
            let look = subscription.visit_next(100, 1 << 20, |event| given.push(event.position.get()));
            match look {
                Ok(progress) => assert!(!progress.is_caught_up, "it is passed over"),
                Err(error) => break error,
            }
        };
        assert_eq!(error.kind(), ErrorKind::Damaged);
        assert_eq!(given, (1..DAMAGED).collect::<Vec<_>>());
    }
}

#[test]
fn a_database_that_lost_a_segment_serves_the_rest_and_fails_conditions_over_the_loss() {
    let spoil: [fn(&Path); 3] = [
        |segment| fs::remove_file(segment).expect("removed"),
        |segment| fs::File::options().write(true).open(segment).expect("opened").set_len(100).expect("cut"),
        |segment| {
            let mut bytes = fs::read(segment).expect("readable");
            bytes[..4096].fill(0);
            fs::write(segment, bytes).expect("written");
        },
    ];
    for spoil in spoil {
        let place = Place::new();
        let builder = || place.builder(Durability::Os).background(Background::Caller);
        let database = builder().open().expect("opened");
        let store = database.events("store");
        store.append([NewEvent::new("Once").data(b"the first of all")]).expect("appended");
        for number in 2..=EVENTS {
            let data = format!("event {number:04} {}", "x".repeat(3000));
            store.append([NewEvent::new("Often").data(data.as_bytes())]).expect("appended");
        }
        let job = database.queue("queue").enqueue(quire::jobs::JobSpec::new(b"job")).expect("accepted");
        database.sync().expect("synced");
        while database.carry_out(Duty::Seal).expect("sealed") {}
        drop((store, database));
        spoil(&files(&place.shard(), ".log")[0]);
        let opening = builder().open_and_report().expect("opened");
        let database = opening.database;
        assert_eq!((opening.recovery.damage.len(), database.damage().len()), (1, 1), "{:?}", database.damage());
        // It is unknown whether that event exists, so an append that rests on it is refused.
        let once = Query::from(QueryItem::new().event_type("Once"));
        let condition = Condition::fail_if_matches(once);
        let refused = database.events("store").append_if([NewEvent::new("Once")], [condition]);
        assert_eq!(refused.expect_err("it is not known").kind(), ErrorKind::Damaged);
        // All other commits continue, and survive a restart.
        let options = ReadOptions { after: EventPosition::new(EVENTS - 10), ..ReadOptions::default() };
        let appended = database.events("store").append([NewEvent::new("Often")]).expect("appended");
        assert_eq!(database.queue("queue").job(job).expect("readable").expect("there").payload, b"job");
        drop(database);
        let database = builder().open().expect("opened");
        let read = database.events("store").read(&Query::all(), options).expect("readable");
        assert_eq!(read.events.len(), 11);
        assert_eq!(Some(read.events[10].position), appended.last);
    }
}

#[test]
fn events_of_a_lost_segment_are_reported_missing_from_every_start() {
    let place = Place::new();
    let builder = || place.builder(Durability::Os).background(Background::Caller);
    let database = builder().open().expect("opened");
    let append = |number: u64| {
        let data = format!("event {number:04} {}", "x".repeat(3000));
        let event = NewEvent::new(if number.is_multiple_of(2) { "Even" } else { "Odd" }).data(data.as_bytes());
        database.events("store").append([event]).expect("appended");
    };
    (1..=EVENTS).for_each(append);
    database.sync().expect("synced");
    while database.carry_out(Duty::Seal).expect("sealed") {}
    drop(database);
    let segments = files(&place.shard(), ".log");
    let first_of = |segment: &Path| -> u64 {
        let name = segment.file_stem().and_then(|name| name.to_str()).expect("text");
        name.parse().expect("a number")
    };
    // Each record has one event. The first record also has the creation of the store.
    let gone = first_of(&segments[1])..first_of(&segments[2]);
    assert!(gone.end - gone.start > 3, "{gone:?}");
    fs::remove_file(&segments[1]).expect("removed");
    let database = builder().open().expect("opened");
    let of_type = |event_type| QueryItem::new().event_type(event_type);
    // One walk, and two that are merged.
    for query in [Query::all(), Query::from(of_type("Odd")).or(of_type("Even"))] {
        for after in gone.start - 2..gone.end - 1 {
            let forwards = ReadOptions { after: EventPosition::new(after), ..ReadOptions::default() };
            let read = database.events("store").read(&query, forwards);
            assert_eq!(read.expect_err("some are gone").kind(), ErrorKind::Damaged, "after {after}");
        }
    }
}

#[test]
fn a_partition_with_lost_last_batches_is_read_up_to_them() {
    let place = Place::new();
    let builder = || place.builder(Durability::Os).background(Background::Caller);
    let database = builder().open().expect("opened");
    let produce = |topic: &str, number: u64| {
        let value = format!("message {number:04} {}", "x".repeat(3000));
        database.topic(topic).produce(Message::new(&value)).expect("produced");
    };
    (0..EVENTS).for_each(|number| produce("gone", number));
    let behind = files(&place.shard(), ".log").len();
    // Enough records of another topic follow, so that the segment is sealed.
    (0..EVENTS).for_each(|number| produce("other", number));
    database.sync().expect("synced");
    while database.carry_out(Duty::Seal).expect("sealed") {}
    drop(database);
    fs::remove_file(&files(&place.shard(), ".log")[behind - 1]).expect("removed");

    let database = builder().open().expect("opened");
    let topic = database.topic("gone");
    assert_eq!(topic.offsets(0).expect_err("where it ends is not known").kind(), ErrorKind::Damaged);
    let told = topic.statistics().expect("as far as it can be read").partitions.remove(0);
    let end = told.next;
    assert!(0 < end.get() && end.get() < EVENTS && told.unreadable.is_some(), "{told:?}");
    let read = topic.fetch(0, Sequence::new(0), usize::MAX).expect("the rest is served");
    assert_eq!((read.records.len() as u64, read.next_offset), (end.get(), end));
    // A reader after the end of the remaining part gets an error of damage, not an empty topic.
    for from in [end, Sequence::new(EVENTS - 1), Sequence::new(EVENTS)] {
        let error = topic.fetch(0, from, usize::MAX).expect_err("it is gone");
        assert_eq!(error.kind(), ErrorKind::Damaged, "{from}: {error}");
    }
    // A group that has read nothing starts at the beginning, and gets an error at the first lost
    // record.
    let mut consumer = topic.consumer("group", ConsumerSettings::default()).expect("begun");
    let mut handed = 0;
    let met = loop {
        match consumer.poll() {
            Ok(Some(delivery)) => handed += delivery.records().len() as u64,
            Ok(None) => panic!("damage is told"),
            Err(error) => break error,
        }
    };
    assert_eq!((handed, met.kind()), (end.get(), ErrorKind::Damaged));
    assert_eq!(database.topic("other").offsets(0).expect("whole").next, Sequence::new(EVENTS));
    // The next message gets the number that was due, and shows where the partition ends.
    let next = topic.produce(Message::new(b"one more")).expect("produced").base_offset;
    assert_eq!((next, topic.offsets(0).expect("whole").next), (Sequence::new(EVENTS), Sequence::new(EVENTS + 1)));
    assert_eq!(topic.fetch(0, next, usize::MAX).expect("there").records.len(), 1);
}
