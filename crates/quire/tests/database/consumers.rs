//! Consumers commit handled records, and retry failed ones or move them to the dead-letter topic.
//! No record is lost.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use quire::streams::{Command, TopicRef};
use quire::{
    Commit, ConsumerSettings, Database, Delivery, Durability, ErrorKind, Message, Part, PartitionSharing, Sequence,
};

use crate::support::Place;

/// Bounds how long a broken consumer can hang a test; nothing depends on how long it is.
const PATIENCE: Duration = Duration::from_secs(30);

fn with_topic(place: &Place, partitions: u32, values: &[&str]) -> Database {
    let database = place.open(Durability::Os);
    database.topic("t").create(partitions).expect("created");
    for (number, value) in values.iter().enumerate() {
        let partition = u32::try_from(number).expect("few") % partitions;
        database.topic("t").produce(Message::new(value).partition(partition)).expect("produced");
    }
    database
}

fn values(delivery: &Delivery) -> Vec<String> {
    let value =
        |record: quire::DeliveredRecord<'_>| String::from_utf8(record.value.expect("a value").to_vec()).expect("text");
    delivery.records().map(value).collect()
}

/// Reads all available records without committing offsets.
fn drain(consumer: &mut quire::Consumer) -> Vec<String> {
    let mut read = Vec::new();
    while let Some(delivery) = consumer.poll().expect("no error") {
        read.extend(values(&delivery));
    }
    read
}

#[test]
fn the_results_of_a_record_are_committed_with_its_offset_once() {
    let place = Place::new();
    let database = with_topic(&place, 2, &["a", "b", "c", "d"]);
    let taken = Cell::new(0);
    let mut consumer = database.topic("t").consumer("g", ConsumerSettings::default()).expect("a consumer");
    let handled = consumer.process(
        PATIENCE,
        || taken.get() == 2,
        |delivery: &Delivery| {
            let mut commit = Commit::new();
            taken.set(taken.get() + 1);
            for record in delivery.records() {
                commit = commit.produce("out", Message::new(record.value.expect("a value")));
            }
            Ok(commit)
        },
    );
    handled.expect("no error");
    drop(database);
    let database = place.open(Durability::Os);
    assert_eq!(database.topic("out").offsets(0).expect("a partition").next, Sequence::new(4));
    for partition in 0..2 {
        let committed = database.topic("t").committed_offset("g", partition).expect("a topic");
        assert_eq!(committed, Some(Sequence::new(2)));
    }
    let mut consumer = database.topic("t").consumer("g", ConsumerSettings::default()).expect("a consumer");
    assert_eq!(drain(&mut consumer), Vec::<String>::new());
}

#[test]
fn a_commit_that_is_refused_is_tried_again_and_leaves_the_offset_where_it_was() {
    let place = Place::new();
    let database = with_topic(&place, 1, &["a"]);
    let settings = ConsumerSettings { retries: 1, backoff: Duration::from_millis(1), ..ConsumerSettings::default() };
    let mut consumer = database.topic("t").consumer("g", settings).expect("a consumer");
    let mut tries = 0;
    let refused = consumer.process(
        PATIENCE,
        || false,
        |_: &Delivery| {
            let commit = Commit::new();
            tries += 1;
            let nowhere = Command::DeleteTopic { topic: TopicRef::Name("nowhere") };
            Ok(commit.part(Part::Streams(nowhere)))
        },
    );
    let refused = refused.expect_err("refused");
    assert_eq!((refused.kind(), tries), (ErrorKind::Handler, 2));
    assert!(refused.to_string().contains("nowhere"), "{refused}");
    assert_eq!(drain(&mut consumer), ["a"], "the same consumer has it again");
    assert_eq!(database.topic("t").committed_offset("g", 0).expect("a topic"), None);
}

#[test]
fn a_failure_is_tried_again_and_then_put_away_with_why() {
    let place = Place::new();
    let database = with_topic(&place, 1, &["good"]);
    database.topic("t").produce(Message::new("bad").header_without_value("n").header("h", "")).expect("produced");
    let settings = ConsumerSettings {
        bytes_max: 1,
        retries: 2,
        backoff: Duration::from_millis(1),
        dead_letter: Some("dead".to_owned()),
        ..ConsumerSettings::default()
    };
    let mut tries = Vec::new();
    let mut consumer = database.topic("t").consumer("g", settings).expect("a consumer");
    let is_done = || database.topic("t").committed_offset("g", 0).expect("a topic") == Some(Sequence::new(2));
    let handled = consumer.process(PATIENCE, is_done, |delivery: &Delivery| {
        let commit = Commit::new();
        tries.push(values(delivery)[0].clone());
        if values(delivery) == ["bad"] { Err("it can't be read".into()) } else { Ok(commit) }
    });
    handled.expect("no error");
    assert_eq!(tries, ["good", "bad", "bad", "bad"]);
    drop(database);
    let database = place.open(Durability::Os);
    let dead = database.topic("dead").fetch(0, Sequence::new(0), 1 << 20).expect("records").records;
    assert_eq!(dead.len(), 1);
    let header = |name: &str| {
        let found = dead[0].headers.iter().find(|(key, _)| key == name.as_bytes()).expect("a header");
        String::from_utf8(found.1.clone().expect("a value")).expect("text")
    };
    assert_eq!(dead[0].value.as_deref(), Some(&b"bad"[..]));
    assert_eq!([header("error"), header("topic"), header("offset")], ["it can't be read", "t", "1"]);
    assert_eq!(dead[0].headers[..2], [(b"n".to_vec(), None), (b"h".to_vec(), Some(Vec::new()))], "as it came");
}

#[test]
fn without_a_dead_letter_topic_a_failure_ends_the_reading_and_nothing_is_noted() {
    let place = Place::new();
    let database = with_topic(&place, 1, &["bad"]);
    let settings = ConsumerSettings { retries: 0, ..ConsumerSettings::default() };
    let mut consumer = database.topic("t").consumer("g", settings).expect("a consumer");
    let failed = consumer.process(PATIENCE, || false, |_: &Delivery| Err("no".into()));
    let failed = failed.expect_err("a failure");
    assert_eq!(failed.kind(), ErrorKind::Handler);
    assert!(failed.to_string().contains("offsets 0 to 0 of partition 0 of t: no"), "{failed}");
    assert_eq!(drain(&mut consumer), ["bad"], "the same consumer has it again");
    assert_eq!(database.topic("t").committed_offset("g", 0).expect("a topic"), None);
}

#[test]
fn members_share_the_partitions_also_those_that_join_later() {
    let place = Place::new();
    let database = with_topic(&place, 3, &["0", "1", "2"]);
    let fixed = |member| PartitionSharing::Fixed { member, members: 2 };
    let member = |member| ConsumerSettings { sharing: fixed(member), ..ConsumerSettings::default() };
    let mut even = database.topic("t").consumer("g", member(0)).expect("a consumer");
    let mut odd = database.topic("t").consumer("g", member(1)).expect("a consumer");
    assert_eq!(drain(&mut even).into_iter().collect::<BTreeSet<_>>(), BTreeSet::from(["0".into(), "2".into()]));
    assert_eq!(drain(&mut odd), ["1"]);
    let more = Command::AddPartitions { topic: TopicRef::Name("t"), partitions: 4 };
    database.commit(&Commit::new().part(Part::Streams(more))).expect("no error").committed().expect("accepted");
    let seen = std::thread::scope(|scope| {
        let reader = scope.spawn(|| odd.wait(PATIENCE).expect("no error").map(|delivery| values(&delivery)));
        database.topic("t").produce(Message::new("3").partition(3)).expect("produced");
        reader.join().expect("no panic")
    });
    assert_eq!(seen, Some(vec![String::from("3")]));
    assert_eq!(drain(&mut even), Vec::<String>::new());
    let nobody = member(2);
    assert_eq!(database.topic("t").consumer("g", nobody).expect_err("no member").kind(), ErrorKind::Invalid);
    let nowhere = database.topic("nowhere").consumer("g", ConsumerSettings::default());
    assert_eq!(nowhere.expect_err("no topic").kind(), ErrorKind::NotFound);
}

#[test]
fn a_consumer_overtaken_by_retention_learns_how_many_records_it_lost() {
    let place = Place::new();
    let database = with_topic(&place, 1, &["a", "b", "c"]);
    let mut consumer = database.topic("t").consumer("g", ConsumerSettings::default()).expect("a consumer");
    let before = Some(Sequence::new(2));
    let delete = Command::DeleteRecords { topic: TopicRef::Name("t"), partition: 0, before, keep_unread: false };
    database.commit(&Commit::new().part(Part::Streams(delete))).expect("no error").committed().expect("accepted");
    let delivery = consumer.poll().expect("no error").expect("a delivery");
    assert_eq!((values(&delivery), delivery.lost), (vec![String::from("c")], 2));
    consumer.ack(&delivery).expect("noted");
    assert_eq!(database.topic("t").committed_offset("g", 0).expect("a topic"), Some(Sequence::new(3)));
}

#[test]
fn a_consumer_seeks_and_pauses_partitions() {
    let place = Place::new();
    let database = with_topic(&place, 2, &[]);
    for (ms, value) in [(1000, "a"), (2000, "b"), (3000, "c")] {
        let message = Message::new(value).partition(0).timestamp_ms(ms);
        database.topic("t").produce(&message).expect("produced");
    }
    database.topic("t").produce(Message::new("z").partition(1)).expect("produced");
    let late = ConsumerSettings { from_start: false, ..ConsumerSettings::default() };
    let mut consumer = database.topic("t").consumer("g", late).expect("a consumer");
    assert_eq!(drain(&mut consumer), Vec::<String>::new());
    consumer.pause(1, true);
    consumer.seek(1, Sequence::new(0));
    consumer.seek_to_time(SystemTime::UNIX_EPOCH + Duration::from_millis(1500)).expect("no error");
    let lag: Vec<_> = consumer.lag().expect("no error").iter().map(|lag| (lag.partition, lag.records())).collect();
    assert_eq!(lag, [(0, 2), (1, 1)]);
    let delivery = consumer.poll().expect("no error").expect("a delivery");
    assert_eq!(values(&delivery), ["b", "c"]);
    assert_eq!(consumer.poll().expect("no error"), None);
    consumer.ack_up_to(&delivery, Sequence::new(7)).expect_err("not delivered");
    consumer.ack_up_to(&delivery, Sequence::new(1)).expect("noted");
    assert_eq!(drain(&mut consumer), ["c"], "what was not noted is handed out again");
    consumer.pause(1, false);
    assert_eq!(drain(&mut consumer), ["z"]);
    drop(database);
    let database = place.open(Durability::Os);
    let mut consumer = database.topic("t").consumer("g", ConsumerSettings::default()).expect("a consumer");
    let again: BTreeSet<String> = drain(&mut consumer).into_iter().collect();
    assert_eq!(again, BTreeSet::from(["c".into(), "z".into()]));
}

#[test]
fn a_stop_between_two_tries_leaves_the_records_to_the_next_consumer() {
    let place = Place::new();
    let database = with_topic(&place, 1, &["a"]);
    let settings = ConsumerSettings {
        backoff: Duration::from_millis(3_600_000),
        backoff_max: Duration::from_millis(3_600_000),
        ..ConsumerSettings::default()
    };
    let mut consumer = database.topic("t").consumer("g", settings).expect("a consumer");
    let mut asked = 0;
    let stop = || {
        asked += 1;
        asked > 2
    };
    let look = Duration::from_millis(1);
    consumer.process(look, stop, |_: &Delivery| Err("no".into())).expect("a quiet end");
    assert_eq!(drain(&mut consumer), ["a"]);
}

#[test]
fn a_consumer_reads_at_most_records_max_and_reports_every_failure() {
    let place = Place::new();
    let database = place.open(Durability::Os);
    let batch: Vec<Message<'_>> = ["a", "b", "c", "d", "e"].iter().map(Message::new).collect();
    database.topic("t").producer().produce(&batch).expect("produced");
    let settings = ConsumerSettings {
        records_max: 2,
        retries: 1,
        backoff: Duration::from_millis(1),
        ..ConsumerSettings::default()
    };
    let told = Arc::new(Mutex::new(Vec::new()));
    let mut consumer = database.topic("t").consumer("g", settings).expect("a consumer");
    let tell = Arc::clone(&told);
    consumer.on_error(move |delivery, error, times| {
        tell.lock().expect("no panic").push((values(delivery), error.to_owned(), times));
    });
    let mut seen = Vec::new();
    let handled = consumer.process(
        PATIENCE,
        || database.topic("t").committed_offset("g", 0).expect("a topic") == Some(Sequence::new(5)),
        |delivery: &Delivery| {
            let commit = Commit::new();
            seen.push(values(delivery));
            if seen.len() == 2 { Err("once".into()) } else { Ok(commit) }
        },
    );
    handled.expect("no error");
    assert_eq!(seen, [vec!["a", "b"], vec!["c", "d"], vec!["c", "d"], vec!["e"]]);
    assert_eq!(
        *told.lock().expect("no panic"),
        [(vec![String::from("c"), String::from("d")], String::from("once"), 1)]
    );
}

#[test]
fn a_consumer_seeks_to_the_start_and_to_the_end() {
    let place = Place::new();
    let database = with_topic(&place, 2, &["a", "b", "c"]);
    let mut consumer = database.topic("t").consumer("g", ConsumerSettings::default()).expect("a consumer");
    consumer.seek_to_end().expect("no error");
    assert_eq!(drain(&mut consumer), Vec::<String>::new());
    consumer.seek_to_start().expect("no error");
    assert_eq!(drain(&mut consumer).len(), 3);
}

#[test]
fn a_delivery_has_every_field_of_its_records() {
    let place = Place::new();
    let database = place.open(Durability::Os);
    let message = Message::new("v").key("").header("h", "1").header("", "").header_without_value("n").timestamp_ms(7);
    database.topic("t").producer().produce(&[message, Message::tombstone().key("k")]).expect("produced");
    let mut consumer = database.topic("t").consumer("g", ConsumerSettings::default()).expect("a consumer");
    let delivery = consumer.poll().expect("no error").expect("a delivery");
    let records: Vec<_> = delivery.records().collect();
    assert_eq!((records[0].key, records[0].value, records[0].timestamp_ms), (Some(&b""[..]), Some(&b"v"[..]), 7));
    let headers: Vec<_> = records[0].headers.iter().map(|header| (header.key, header.value)).collect();
    assert_eq!(headers, [(&b"h"[..], Some(&b"1"[..])), (&b""[..], Some(&b""[..])), (&b"n"[..], None)]);
    assert_eq!((records[1].key, records[1].value, records[1].headers.len()), (Some(&b"k"[..]), None, 0));
}
