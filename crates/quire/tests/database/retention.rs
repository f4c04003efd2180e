//! Retention of topics: by time, by bytes, and not too early.

use std::sync::Arc;

use quire::events::{Query, ReadOptions};
use quire::streams::{self, Command, TopicChanges, TopicRef, TopicSettings};
use quire::{
    Background, Clock, Commit, ConsumerSettings, Database, Duty, ManualClock, Message, Part, Reply, Sequence, Timestamp,
};

use crate::support::{Place, files};

const NOW_MS: u64 = 1_700_000_000_000;
const HOUR_MS: u64 = 3_600_000;

fn open(place: &Place, clock: &Arc<ManualClock>) -> Database {
    let builder =
        Database::builder(place.path()).clock(Arc::<ManualClock>::clone(clock)).background(Background::Caller);
    builder.open().expect("a database")
}

fn commit(database: &Database, command: Command<'_>) {
    database.commit(&Commit::new().part(Part::Streams(command))).expect("no error").committed().expect("accepted");
}

fn start(database: &Database) -> u64 {
    database.topic("t").offsets(0).expect("a partition").start.get()
}

#[test]
fn records_are_deleted_after_their_retention_and_stay_deleted() {
    let place = Place::new();
    let clock = Arc::new(ManualClock::new(Timestamp::from_millis(NOW_MS)));
    let database = open(&place, &clock);
    let settings = TopicSettings { retention_ms: Some(HOUR_MS), ..TopicSettings::default() };
    commit(&database, Command::CreateTopic { name: "t", partitions: 1, settings });
    database.topic("t").produce(Message::new("old")).expect("produced");
    clock.set(Timestamp::from_millis(NOW_MS + HOUR_MS / 2));
    database.topic("t").produce(Message::new("young")).expect("produced");
    assert!(database.carry_out(Duty::Retain).expect("no error"), "a topic that keeps less is looked at at once");
    assert_eq!(start(&database), 0);
    assert!(!database.carry_out(Duty::Retain).expect("no error"), "and then from time to time");
    clock.set(Timestamp::from_millis(NOW_MS + HOUR_MS + 1));
    assert!(database.carry_out(Duty::Retain).expect("no error"));
    assert_eq!(start(&database), 1);
    let read = database.topic("t").fetch(0, Sequence::new(1), 1000).expect("records");
    assert_eq!(read.records.len(), 1);
    database.topic("t").fetch(0, Sequence::new(0), 1000).expect_err("it is gone");

    drop(database);
    let database = open(&place, &clock);
    assert_eq!(start(&database), 1);
    clock.set(Timestamp::from_millis(NOW_MS + 2 * HOUR_MS));
    assert!(database.carry_out(Duty::Retain).expect("no error"), "an opened database looks, too");
    assert_eq!(start(&database), 2);
    assert_eq!(database.topic("t").produce(Message::new("next")).expect("produced").base_offset.get(), 2);
}

#[test]
fn a_partition_over_the_retention_of_its_topic_begins_later() {
    let place = Place::new();
    let clock = Arc::new(ManualClock::new(Timestamp::from_millis(NOW_MS)));
    let database = open(&place, &clock);
    for _ in 0..100 {
        database.topic("t").produce(Message::new([0; 1000])).expect("produced");
    }
    assert!(!database.carry_out(Duty::Retain).expect("no error"), "no topic lets anything go");
    let changes = TopicChanges { retention_bytes: Some(Some(10_000)), ..TopicChanges::default() };
    commit(&database, Command::AlterTopic { topic: TopicRef::Name("t"), changes });
    assert!(database.carry_out(Duty::Retain).expect("no error"));
    // At least 10,000 bytes stay, in batches of a little more than 1,000 bytes. At most 1/32 of the
    // topic stays in addition.
    assert!((86..=91).contains(&start(&database)), "{}", start(&database));
    let changes = TopicChanges { retention_bytes: Some(None), ..TopicChanges::default() };
    commit(&database, Command::AlterTopic { topic: TopicRef::Name("t"), changes });
    clock.set(Timestamp::from_millis(NOW_MS + HOUR_MS));
    assert!(!database.carry_out(Duty::Retain).expect("no error"));
}

#[test]
fn a_change_of_a_topic_by_a_closed_process_is_carried_out() {
    let place = Place::new();
    let clock = Arc::new(ManualClock::new(Timestamp::from_millis(NOW_MS)));
    let (stays, goes) = (open(&place, &clock), open(&place, &clock));
    assert!(!stays.carry_out(Duty::Retain).expect("no error"), "there is no topic");
    let settings = TopicSettings { retention_ms: Some(HOUR_MS), ..TopicSettings::default() };
    commit(&goes, Command::CreateTopic { name: "t", partitions: 1, settings });
    goes.topic("t").produce(Message::new("old")).expect("produced");
    drop(goes);
    clock.set(Timestamp::from_millis(NOW_MS + 2 * HOUR_MS));
    assert!(stays.carry_out(Duty::Retain).expect("no error"));
    assert_eq!(start(&stays), 1);
}

#[test]
fn retention_checks_topics_when_they_change_and_every_minute() {
    let place = Place::new();
    let clock = Arc::new(ManualClock::new(Timestamp::from_millis(NOW_MS)));
    let database = open(&place, &clock);
    let settings = TopicSettings { retention_ms: Some(HOUR_MS), ..TopicSettings::default() };
    commit(&database, Command::CreateTopic { name: "t", partitions: 1, settings });
    database.topic("t").produce(Message::new("young")).expect("produced");
    assert!(database.carry_out(Duty::Retain).expect("no error"));
    // When both limits are set, the earlier one applies, in any order.
    commit(&database, Command::DeleteTopic { topic: TopicRef::Name("t") });
    assert!(!database.carry_out(Duty::Retain).expect("no error"), "it looked, and found no topic");
    clock.set(Timestamp::from_millis(NOW_MS + 30_000));
    commit(&database, Command::CreateTopic { name: "u", partitions: 1, settings });
    database.topic("u").produce(Message::new("young")).expect("produced");
    assert!(database.carry_out(Duty::Retain).expect("no error"), "at once, not after a minute");
    clock.set(Timestamp::from_millis(NOW_MS + 40_000));
    assert!(!database.carry_out(Duty::Retain).expect("no error"));
    clock.set(Timestamp::from_millis(NOW_MS + 91_000));
    assert!(database.carry_out(Duty::Retain).expect("no error"), "and then after a minute");
}

#[test]
fn unread_records_of_a_protecting_group_stay_and_a_consumer_learns_of_their_deletion() {
    let place = Place::new();
    let clock = Arc::new(ManualClock::new(Timestamp::from_millis(NOW_MS)));
    let database = open(&place, &clock);
    let settings = TopicSettings { retention_ms: Some(HOUR_MS), ..TopicSettings::default() };
    database.topic("t").create_with(1, settings).expect("created");
    for value in ["a", "b", "c"] {
        database.topic("t").produce(Message::new(value)).expect("produced");
    }
    database.topic("t").protect_unread("g", true).expect("protected");
    database.topic("t").commit_offset("g", 0, Sequence::new(1)).expect("noted");
    clock.set(Timestamp::from_millis(NOW_MS + 2 * HOUR_MS));
    assert!(database.carry_out(Duty::Retain).expect("no error"));
    assert_eq!(start(&database), 1);
    drop(database);
    let database = open(&place, &clock);
    assert_eq!(database.topic("t").statistics().expect("a topic").protected_for, ["g"]);
    let mut consumer = database.topic("t").consumer("g", ConsumerSettings::default()).expect("a consumer");
    let before = Some(Sequence::new(2));
    commit(&database, Command::DeleteRecords { topic: TopicRef::Name("t"), partition: 0, before, keep_unread: false });
    let delivery = consumer.poll().expect("no error").expect("a delivery");
    assert_eq!((delivery.len(), delivery.lost), (1, 1));
    database.topic("t").protect_unread("g", false).expect("no longer");
    clock.set(Timestamp::from_millis(NOW_MS + 3 * HOUR_MS));
    assert!(database.carry_out(Duty::Retain).expect("no error"));
    assert_eq!(start(&database), 3);
}

#[test]
fn a_second_deletion_of_records_in_one_commit_returns_the_start_of_the_first() {
    let place = Place::new();
    let clock = Arc::new(ManualClock::new(Timestamp::from_millis(NOW_MS)));
    let database = open(&place, &clock);
    for value in ["a", "b", "c"] {
        database.topic("t").produce(Message::new(value)).expect("produced");
    }
    let before = |offset| {
        let before = Some(Sequence::new(offset));
        let topic = TopicRef::Name("t");
        Part::Streams(Command::DeleteRecords { topic, partition: 0, before, keep_unread: false })
    };
    let twice = Commit::new().part(before(2)).part(before(1));
    let replies = database.commit(&twice).expect("durable").committed().expect("accepted").replies;
    let starts: Vec<_> = replies
        .iter()
        .map(|reply| match reply {
            Reply::Streams(streams::Reply::RecordsDeleted(deleted)) => deleted.start.get(),
            other => panic!("a deletion is not answered by {other:?}"),
        })
        .collect();
    assert_eq!(starts, [2, 2]);
    assert_eq!(start(&database), 2);
}

/// The bytes of the segments and their indexes.
fn log_bytes(place: &Place) -> u64 {
    let all = [".log", ".idx"].map(|suffix| files(&place.shard(), suffix));
    all.iter().flatten().map(|path| path.metadata().expect("there").len()).sum()
}

#[test]
fn a_log_over_its_size_limit_trims_the_oldest_records_of_topics_and_nothing_else() {
    const SEGMENT: u64 = 64 << 10;
    const MAX: u64 = 6 * SEGMENT;
    let place = Place::new();
    let clock = Arc::new(ManualClock::new(Timestamp::from_millis(NOW_MS)));
    let open = |bounded: bool| {
        let builder = Database::builder(place.path()).segment_bytes(SEGMENT).clock(clock.clone());
        let builder = if bounded { builder.log_bytes_max(MAX) } else { builder };
        builder.background(Background::Caller).open().expect("a database")
    };
    // Everything that may be trimmed and compacted is.
    let settle = |database: &Database| {
        database.sync().expect("synced");
        while database.carry_out(Duty::Seal).expect("sealed") {}
        for _ in 0..4 {
            clock.set(Timestamp::from_millis(clock.now().as_millis() + HOUR_MS));
            database.carry_out(Duty::Retain).expect("no error");
            database
                .topic("kept")
                .produce(Message::new("so that a checkpoint is behind it").key("key"))
                .expect("produced");
            database.checkpoint().expect("saved");
            database.carry_out(Duty::Compact).expect("no error");
        }
    };
    let fill = |database: &Database, from: u64| {
        let payload = [b'x'; 1000];
        for number in from..from + 600 {
            let mut commit = Commit::new().produce("t", Message::new(payload)).produce("read", Message::new(payload));
            if number % 10 == 0 {
                commit = commit.append("store", [quire::events::NewEvent::new("Kept").data(payload)]);
            }
            database.commit(&commit).expect("durable").committed().expect("accepted");
        }
    };
    let cleanup = streams::Cleanup::Compact;
    let database = open(false);
    commit(
        &database,
        Command::CreateTopic {
            name: "kept",
            partitions: 1,
            settings: TopicSettings { cleanup, ..TopicSettings::default() },
        },
    );
    database.topic("kept").produce(Message::new("other").key("other")).expect("produced");
    fill(&database, 0);
    settle(&database);
    assert_eq!(start(&database), 0, "without a bound everything stays");
    drop(database);

    let database = open(true);
    commit(&database, Command::ProtectUnread { group: "slow", topic: TopicRef::Name("read"), protects: true });
    settle(&database);
    assert_eq!(database.topic("read").offsets(0).expect("a partition").start.get(), 0, "a group has not read it");
    let unread = log_bytes(&place);
    let read = database.commit(&Commit::new().commit_offset("slow", "read", 0, Sequence::new(600)));
    read.expect("durable").committed().expect("accepted");
    settle(&database);
    assert_eq!(database.topic("read").offsets(0).expect("a partition").start, Sequence::new(start(&database)));
    commit(&database, Command::ProtectUnread { group: "slow", topic: TopicRef::Name("read"), protects: false });
    fill(&database, 600);
    settle(&database);
    assert!(log_bytes(&place) <= MAX + SEGMENT, "{} bytes, and {unread} before", log_bytes(&place));
    let expect = |database: &Database| {
        let first = start(database);
        assert!(first > 600 && first < 1200, "{first}");
        let read = database.topic("t").fetch(0, Sequence::new(first), usize::MAX).expect("records");
        assert_eq!(read.records.len() as u64, 1200 - first);
        let offsets = database.topic("read").offsets(0).expect("a partition");
        assert!(offsets.start.get() >= 600 && offsets.next.get() == 1200, "{offsets:?}");
        assert_eq!(database.events("store").head().expect("readable").get(), 120);
        let all = database.events("store").read(&Query::all(), ReadOptions::default());
        assert_eq!(all.expect("readable").events.len(), 120);
        let keys = database.topic("kept").fetch(0, Sequence::new(0), usize::MAX).expect("records");
        assert!(keys.records.iter().any(|record| record.value.as_deref() == Some(b"other")));
    };
    expect(&database);
    drop(database);
    expect(&open(true));
}
