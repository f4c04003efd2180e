//! Damage in a sealed segment is told by the read that meets it, and by no other: everything else is served.

use std::fs;

use quire::events::{EventPosition, NewEvent, Query, QueryItem, ReadOptions};
use quire::{Background, Database, Durability, Duty, ErrorKind};

use crate::support::{Place, files};

/// The event that is damaged.
const DAMAGED: u64 = 5;
const EVENTS: u64 = 60;

/// A store of events, of which the first ones stand in a sealed segment, and one of those is damaged.
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
