//! Trimmed and forgotten events are no longer read, a compaction erases their bytes, and everything
//! else stays.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use quire::events::{self, Condition, EventPosition, NewEvent, Query, QueryItem, ReadOptions};
use quire::{Background, Builder, Commit, Database, Durability, Duty, ManualClock, Part, Timestamp};

use crate::support::{Place, files};

const SECRET: &str = "ann lives in the house by the lake";

fn builder(place: &Place, clock: &Arc<ManualClock>) -> Builder {
    place.builder(Durability::Os).clock(clock.clone()).background(Background::Caller)
}

/// Events of two people, in some sealed segments, a second apart.
fn fill(database: &Database, clock: &ManualClock) {
    for number in 0..100 {
        clock.set(Timestamp::from_millis(1_000 * (number + 1)));
        let padded = format!("{SECRET}{:>400}", number);
        let ann = NewEvent::new("Moved").tag("person:ann").data(padded.as_bytes());
        let ben = NewEvent::new("Moved").tag("person:ben").data([b'b'; 400]);
        database.events("people").append([ann, ben]).expect("accepted");
    }
    // The following events are in the active segment.
    for _ in 0..60 {
        database.events("other").append([NewEvent::new("Filled").data([b'o'; 1_000])]).expect("accepted");
    }
    settle(database);
}

fn settle(database: &Database) {
    database.sync().expect("synced");
    while database.carry_out(Duty::Seal).expect("sealed") {}
    // Two checkpoints are kept, and records after the older one stay as they are.
    for _ in 0..2 {
        database.events("other").append([NewEvent::new("Passed")]).expect("accepted");
        database.checkpoint().expect("saved");
    }
}

fn positions(database: &Database, tag: &str) -> Vec<u64> {
    let query = Query::default().or(QueryItem::new().tag(tag));
    let read = database.events("people").read(&query, ReadOptions::default()).expect("readable");
    read.events.iter().map(|event| event.position.get()).collect()
}

/// Number of files of the shard that hold the secret.
fn told_by(place: &Place) -> usize {
    let tells = |bytes: &[u8]| bytes.windows(SECRET.len()).any(|window| window == SECRET.as_bytes());
    let all = files(&place.shard(), "");
    all.iter().filter(|path| fs::read(path).is_ok_and(|bytes| tells(&bytes))).count()
}

#[test]
fn forgotten_events_are_unreadable_at_once_and_erased_by_a_compaction() {
    let place = Place::new();
    let clock = Arc::new(ManualClock::new(Timestamp::from_millis(0)));
    let database = builder(&place, &clock).open().expect("opened");
    fill(&database, &clock);
    assert_eq!((positions(&database, "person:ann").len(), positions(&database, "person:ben").len()), (100, 100));
    assert!(told_by(&place) > 1);

    database.events("people").forget("person:ann").expect("accepted");
    let expect = |database: &Database| {
        assert!(positions(database, "person:ann").is_empty());
        assert_eq!(positions(database, "person:ben"), (1..=100).map(|number| 2 * number).collect::<Vec<_>>());
        assert!(database.events("people").event_at(EventPosition::new(1)).expect("readable").is_none());
    };
    expect(&database);
    drop(database);
    let database = builder(&place, &clock).open().expect("opened");
    expect(&database);
    assert!(told_by(&place) > 1, "nothing was compacted yet");

    settle(&database);
    let done = database.compact().expect("compacted");
    assert_eq!(done.entries_dropped, 100);
    expect(&database);
    assert_eq!(told_by(&place), 0);
    drop(database);
    let database = builder(&place, &clock).open().expect("opened");
    expect(&database);

    // The same person may return: new events with a forgotten tag stay.
    let unless = Condition::fail_if_matches(Query::default().or(QueryItem::new().tag("person:ann")));
    let back = NewEvent::new("Moved").tag("person:ann");
    database.events("people").append_if([back.clone()], [unless.clone()]).expect("accepted");
    assert_eq!(positions(&database, "person:ann"), [201]);
    assert!(database.events("people").append_if([back], [unless]).is_err());
}

/// Advances the clock by an interval, and carries out the duties that are due then.
fn compact_in_time(database: &Database, clock: &ManualClock) {
    clock.set(Timestamp::from_millis(database.now().as_millis() + 60_000));
    assert!(database.carry_out(Duty::Compact).expect("carried out"));
}

#[test]
fn forgotten_events_are_erased_from_disk_in_the_background_however_few() {
    for (looks_for_all, reopens) in [(false, false), (true, false), (false, true)] {
        let place = Place::new();
        let clock = Arc::new(ManualClock::new(Timestamp::from_millis(0)));
        let open = || builder(&place, &clock).compact_percent_min(50).open().expect("opened");
        let database = open();
        let ann = NewEvent::new("Moved").tag("person:ann").data(SECRET.as_bytes());
        database.events("people").append([ann]).expect("accepted");
        for number in 0..400_u64 {
            let number = format!("n:{number}");
            let ben = NewEvent::new("Moved").tag("person:ben").tag(&number).data([b'b'; 400]);
            database.events("people").append([ben]).expect("accepted");
        }
        settle(&database);
        let mut database = database;
        if !looks_for_all {
            // The search that opening requested found nothing, and is not repeated.
            compact_in_time(&database, &clock);
        }
        database.events("people").forget("person:ann").expect("accepted");
        database.events("people").forget("nobody").expect("accepted");
        if reopens {
            drop(database);
            database = open();
        }
        assert_eq!(told_by(&place), 1);
        let names = |place: &Place| files(&place.shard(), ".log").len();
        let before = names(&place);
        compact_in_time(&database, &clock);
        assert_eq!(told_by(&place), 0, "it is one of 401 events, and half of a segment is rewritten otherwise");
        assert_eq!(names(&place), before, "its segment is rewritten, and no other");
        assert_eq!(positions(&database, "person:ben"), (2..=401).collect::<Vec<_>>());
        // There is no tag left to search for, and no segment is rewritten for it again.
        let bytes =
            || files(&place.shard(), ".log").iter().map(|path| fs::read(path).expect("readable")).collect::<Vec<_>>();
        let settled = bytes();
        compact_in_time(&database, &clock);
        assert_eq!(bytes(), settled);
    }
}

#[test]
fn an_event_forgotten_before_its_publication_is_still_erased() {
    let place = Place::new();
    let clock = Arc::new(ManualClock::new(Timestamp::from_millis(0)));
    let builder = place.builder(Durability::Sync).clock(clock.clone()).background(Background::Caller);
    let database = builder.open().expect("opened");
    compact_in_time(&database, &clock);
    let ann = NewEvent::new("Moved").tag("person:ann").data(SECRET.as_bytes());
    let appended = database.submit(&Commit::new().append("people", [ann])).expect("appended");
    let forget = events::Command::Forget { store: "people", tag: b"person:ann" };
    let forgotten = database.submit(&Commit::new().part(Part::Events(forget))).expect("appended");
    // The commit is not synced, so no reader sees the event yet.
    assert_eq!(database.published().get(), 0);
    compact_in_time(&database, &clock);
    for ticket in [appended, forgotten] {
        ticket.wait().expect("durable").committed().expect("accepted");
    }
    for number in 0..200 {
        let data = format!("{number:>1000}");
        database.events("other").append([NewEvent::new("Filled").data(data.as_bytes())]).expect("accepted");
    }
    settle(&database);
    assert_eq!(told_by(&place), 1);
    compact_in_time(&database, &clock);
    assert_eq!(told_by(&place), 0);
}

#[test]
fn forgotten_events_of_the_last_segment_are_erased_once_others_follow() {
    let place = Place::new();
    let clock = Arc::new(ManualClock::new(Timestamp::from_millis(0)));
    let database = builder(&place, &clock).open().expect("opened");
    compact_in_time(&database, &clock);
    let ann = NewEvent::new("Moved").tag("person:ann").data(SECRET.as_bytes());
    database.events("people").append([ann]).expect("accepted");
    database.events("people").forget("person:ann").expect("accepted");
    compact_in_time(&database, &clock);
    assert_eq!(told_by(&place), 1, "records are appended to it still");
    for number in 0..200 {
        let data = format!("{number:>1000}");
        database.events("other").append([NewEvent::new("Filled").data(data.as_bytes())]).expect("accepted");
    }
    settle(&database);
    compact_in_time(&database, &clock);
    assert_eq!(told_by(&place), 0);
}

#[test]
fn a_store_keeps_its_events_for_its_retention() {
    let place = Place::new();
    let clock = Arc::new(ManualClock::new(Timestamp::from_millis(0)));
    let database = builder(&place, &clock).open().expect("opened");
    fill(&database, &clock);
    let now = clock.clone();
    let retain = |database: &Database, after_ms: u64| {
        now.set(Timestamp::from_millis(200_000 + after_ms));
        database.carry_out(Duty::Retain).expect("looked");
    };
    retain(&database, 0);
    assert_eq!(positions(&database, "person:ben").len(), 100, "for ever, when nothing is said");
    database.events("people").set_retention(Some(Duration::from_secs(150))).expect("accepted");
    retain(&database, 1);
    // The event of second 50 is a millisecond too old.
    assert_eq!(positions(&database, "person:ben"), (51..=100).map(|number| 2 * number).collect::<Vec<_>>());
    drop(database);
    let database = builder(&place, &clock).open().expect("opened");
    assert_eq!(positions(&database, "person:ben").len(), 50);
    assert_eq!(database.events("other").head().expect("readable").get(), 62, "another store keeps what it has");
    settle(&database);
    assert_eq!(database.compact().expect("compacted").entries_dropped, 100);
    let told = database.events("people").statistics().expect("it is there");
    assert_eq!((told.retention_ms, told.trimmed.get(), told.head.get()), (Some(150_000), 100, 200));
    database.events("people").set_retention(None).expect("accepted");
    retain(&database, 1_000_000);
    assert_eq!(positions(&database, "person:ben").len(), 50);
    database.events("people").trim(EventPosition::new(198)).expect("accepted");
    assert_eq!(positions(&database, "person:ben"), [200]);
    assert_eq!(database.events("people").statistics().expect("it is there").retention_ms, None);
    assert!(database.events("people").trim(EventPosition::new(999)).is_err(), "there are no such events");
}

#[test]
fn the_retention_of_a_store_survives_a_replay_a_checkpoint_a_seal_and_a_compaction() {
    let place = Place::new();
    let clock = Arc::new(ManualClock::new(Timestamp::from_millis(0)));
    let open = || builder(&place, &clock).open().expect("opened");
    let kept = |database: &Database| database.events("people").statistics().expect("it is there").retention_ms;
    let database = open();
    database.events("people").set_retention(Some(Duration::from_secs(150))).expect("accepted");
    drop(database);
    place.remove_checkpoints();
    let database = open();
    assert_eq!(kept(&database), Some(150_000), "from the log");
    fill(&database, &clock);
    drop(database);
    let database = open();
    assert_eq!(kept(&database), Some(150_000), "from a checkpoint");
    clock.set(Timestamp::from_millis(200_001));
    assert!(database.carry_out(Duty::Retain).expect("looked"));
    settle(&database);
    assert_eq!(database.compact().expect("compacted").entries_dropped, 101, "the events, and that it was set");
    drop(database);
    let database = open();
    assert_eq!(kept(&database), Some(150_000), "though the log tells it no more");
    clock.set(Timestamp::from_millis(250_001));
    database.carry_out(Duty::Retain).expect("looked");
    assert!(positions(&database, "person:ben").is_empty(), "it is carried out all the same");
}

#[test]
fn a_store_without_remaining_events_keeps_its_head_and_continues_numbering() {
    let place = Place::new();
    let clock = Arc::new(ManualClock::new(Timestamp::from_millis(0)));
    let database = builder(&place, &clock).open().expect("opened");
    fill(&database, &clock);
    let people = database.events("people");
    let mut follower = people.subscribe(Query::all(), EventPosition::new(150)).expect("a subscription");
    people.trim(EventPosition::new(200)).expect("accepted");
    settle(&database);
    assert_eq!(database.compact().expect("compacted").entries_dropped, 200);
    let expect = |database: &Database| {
        let read = database.events("people").read(&Query::all(), ReadOptions::default()).expect("readable");
        assert_eq!((read.events.len(), read.head.get()), (0, 200));
        assert_eq!(database.events("people").head().expect("readable").get(), 200);
    };
    expect(&database);
    assert!(follower.next(Duration::ZERO).expect("readable").is_empty());
    assert_eq!(follower.after().get(), 200, "it is at the end, not before it");
    drop((follower, database));
    let database = builder(&place, &clock).open().expect("opened");
    expect(&database);
    let unless = Condition::fail_if_matches_after(Query::all(), EventPosition::new(200));
    let appended = database.events("people").append_if([NewEvent::new("Moved")], [unless]).expect("accepted");
    assert_eq!(appended.first.map(EventPosition::get), Some(201));
}

#[test]
fn an_erasure_is_visible_only_once_it_is_durable() {
    let place = Place::new();
    let database = place.builder(Durability::Sync).background(Background::Caller).open().expect("opened");
    database.events("people").append([NewEvent::new("Moved").tag("person:ann")]).expect("accepted");
    let forget = events::Command::Forget { store: "people", tag: b"person:ann" };
    let ticket = database.submit(&Commit::new().part(Part::Events(forget))).expect("accepted");
    let before = database.published();
    assert!(positions(&database, "person:ann").is_empty());
    assert!(database.published() > before, "who reads waits until a crash can't bring back what it does not see");
    assert!(ticket.wait().expect("kept").committed().is_ok());
}
