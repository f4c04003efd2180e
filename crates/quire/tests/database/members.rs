//! Members of a group that share a topic by leases, in one process or several. Two handles on one
//! directory behave like two processes.

use std::collections::BTreeMap;
use std::time::Duration;

use quire::streams::{Despite, MemberId};
use quire::{
    Commit, Consumer, ConsumerSettings, Database, Delivery, Durability, ErrorKind, Lease, Message, PartitionSharing,
    Sequence, Source,
};

use crate::support::Place;

/// Bounds how long a broken member can hang a test; nothing depends on how long it is.
const PATIENCE: Duration = Duration::from_secs(30);

/// Long enough to outlive every test.
const LEASE: Lease =
    Lease { name: String::new(), duration: Duration::from_secs(600), handling_max: Duration::from_secs(600) };

fn settings(lease: Lease) -> ConsumerSettings {
    ConsumerSettings { sharing: PartitionSharing::Lease(lease), ..ConsumerSettings::default() }
}

fn join(database: &Database, lease: Lease) -> Consumer {
    database.topic("t").consumer("g", settings(lease)).expect("a member")
}

fn produce(database: &Database, partitions: u32, values: &[&str]) {
    for (number, value) in values.iter().enumerate() {
        let partition = u32::try_from(number).expect("few") % partitions;
        database.topic("t").produce(Message::new(value).partition(partition)).expect("produced");
    }
}

fn values(delivery: &Delivery) -> Vec<String> {
    delivery.records().map(|record| String::from_utf8(record.value.expect("a value").to_vec()).expect("text")).collect()
}

/// Reads and acknowledges all available records. Returns them sorted.
fn take(consumer: &mut Consumer) -> Vec<String> {
    let mut read = Vec::new();
    while let Some(delivery) = consumer.poll().expect("no error") {
        consumer.ack(&delivery).expect("noted");
        read.extend(values(&delivery));
    }
    read.sort();
    read
}

#[test]
fn a_joining_member_gets_partitions_of_the_others_and_a_leaving_one_returns_them() {
    let place = Place::new();
    let (here, there) = (place.open(Durability::Os), place.open(Durability::Os));
    here.topic("t").create(4).expect("created");
    produce(&here, 4, &["0", "1", "2", "3"]);
    let mut first = join(&here, LEASE);
    assert_eq!(first.partitions(), [0, 1, 2, 3]);
    assert_eq!(take(&mut first), ["0", "1", "2", "3"]);
    let mut second = join(&there, LEASE);
    produce(&here, 4, &["4", "5", "6", "7"]);
    let (one, two) = (take(&mut first), take(&mut second));
    assert_eq!((first.partitions(), second.partitions()), (vec![0, 1], vec![2, 3]));
    assert_eq!((one, two), (vec!["4".into(), "5".into()], vec!["6".into(), "7".into()]));
    drop(second);
    produce(&there, 4, &["8", "9", "a", "b"]);
    assert_eq!(take(&mut first), ["8", "9", "a", "b"]);
    drop(first);
    drop((here, there));
    let database = place.open(Durability::Os);
    let group = database.group("g").describe().expect("no error").expect("a group");
    assert_eq!(group.members, []);
    let offsets: Vec<_> =
        group.offsets.iter().map(|at| (at.source.clone(), at.partition, at.offset, at.lag())).collect();
    let at = |partition| (Source::Topic("t".into()), partition, Sequence::new(3), 0);
    assert_eq!(offsets, [at(0), at(1), at(2), at(3)]);
}

#[test]
fn a_member_that_waits_is_woken_by_its_new_share() {
    let place = Place::new();
    let database = place.open(Durability::Os);
    database.topic("t").create(2).expect("created");
    let first = join(&database, LEASE);
    let mut second = join(&database, LEASE);
    assert_eq!((first.partitions(), second.partitions()), (vec![0, 1], vec![1]));
    produce(&database, 1, &["x"]);
    let seen = std::thread::scope(|scope| {
        let reader = scope.spawn(|| second.wait(PATIENCE).expect("no error").map(|delivery| values(&delivery)));
        drop(first);
        reader.join().expect("no panic")
    });
    assert_eq!(seen, Some(vec![String::from("x")]));
}

#[test]
fn uncommitted_records_of_a_moved_partition_go_to_the_new_reader() {
    let place = Place::new();
    let database = place.open(Durability::Os);
    database.topic("t").create(2).expect("created");
    produce(&database, 2, &["0", "1"]);
    let mut first = join(&database, LEASE);
    let mut held = [first.poll().expect("no error").expect("one"), first.poll().expect("no error").expect("another")];
    held.sort_by_key(|delivery| delivery.partition);
    let mut second = join(&database, LEASE);
    let commit = Commit::new().produce("out", Message::new("of the old reader"));
    let refused = first.ack_in(commit, &held[1]).expect_err("it is another's");
    assert_eq!(refused.kind(), ErrorKind::Refused);
    assert!(refused.to_string().contains("member 0 is fenced: another member owns partition 1"), "{refused}");
    database.topic("out").offsets(0).expect_err("nothing of the commit happened");
    first.ack(&held[0]).expect("the other partition stayed");
    assert_eq!(take(&mut second), ["1"]);
    assert_eq!(take(&mut first), Vec::<String>::new());
}

#[test]
fn a_partition_that_returns_to_a_member_continues_where_the_other_reader_stopped() {
    let place = Place::new();
    let database = place.open(Durability::Os);
    database.topic("t").create(2).expect("created");
    produce(&database, 2, &["0", "1"]);
    let mut first = join(&database, LEASE);
    let mut held = [first.poll().expect("no error").expect("one"), first.poll().expect("no error").expect("another")];
    held.sort_by_key(|delivery| delivery.partition);
    let mut second = join(&database, LEASE);
    assert_eq!(take(&mut second), ["1"]);
    produce(&database, 2, &["2", "3"]);
    assert_eq!(take(&mut second), ["3"]);
    drop(second);
    // The first member has not noticed the change, and has the partition again.
    let commit = Commit::new().produce("out", Message::new("of what another has taken"));
    let refused = first.ack_in(commit, &held[1]).expect_err("it was another's in between");
    assert_eq!(refused.kind(), ErrorKind::Refused);
    database.topic("out").offsets(0).expect_err("nothing of the commit happened");
    first.ack(&held[0]).expect("the other partition stayed");
    produce(&database, 2, &["4", "5"]);
    assert_eq!(take(&mut first), ["2", "4", "5"]);
    assert_eq!(first.partitions(), [0, 1]);
    drop(first);
    drop(database);
    let database = place.open(Durability::Os);
    let committed = |partition| database.topic("t").committed_offset("g", partition).expect("readable");
    assert_eq!([committed(0), committed(1)], [Some(Sequence::new(3)), Some(Sequence::new(3))]);
}

#[test]
fn a_member_whose_handler_hangs_loses_its_share_when_its_lease_has_run_out() {
    let place = Place::new();
    let database = place.open(Durability::Os);
    database.topic("t").create(2).expect("created");
    produce(&database, 2, &["0", "1"]);
    let hangs = Lease { duration: Duration::from_millis(60), handling_max: Duration::ZERO, ..LEASE };
    let mut first = join(&database, hangs);
    let held = first.poll().expect("no error").expect("a delivery");
    let mut second = join(&database, Lease { duration: Duration::from_millis(90), ..LEASE });
    let mut seen = Vec::new();
    while seen.len() < 2 {
        let delivery = second.wait(PATIENCE).expect("no error").expect("the other's records, too");
        second.ack(&delivery).expect("noted");
        seen.extend(values(&delivery));
    }
    first.ack(&held).expect_err("it is a member no more");
    // The member joins again with its next call, and continues at the group's offset.
    drop(second);
    assert_eq!(take(&mut first), Vec::<String>::new());
    assert_eq!(first.partitions(), [0, 1]);
}

#[test]
fn a_member_that_is_there_keeps_its_share_however_long_it_handles_a_delivery() {
    let place = Place::new();
    let database = place.open(Durability::Os);
    database.topic("t").create(1).expect("created");
    let first = join(&database, Lease { duration: Duration::from_millis(30), ..LEASE });
    let id = |database: &Database| {
        let members = database.group("g").describe().expect("no error").expect("a group").members;
        members.iter().map(|member| (member.member, member.until)).collect::<Vec<_>>()
    };
    let before = id(&database);
    // The member's thread renews the lease repeatedly.
    let seen = std::cell::Cell::new(database.published());
    while id(&database)[0].1.as_micros() < before[0].1.as_micros() + 100_000 {
        assert!(database.wait_after(seen.get(), PATIENCE).expect("no error"), "it says nothing");
        seen.set(database.published());
    }
    assert_eq!(id(&database)[0].0, MemberId::new(0));
    assert_eq!(first.partitions(), [0]);
}

#[test]
fn a_place_with_a_name_is_taken_over_and_not_taken_back() {
    let place = Place::new();
    let database = place.open(Durability::Os);
    database.topic("t").create(2).expect("created");
    let named = Lease { name: "one".to_owned(), ..LEASE };
    let mut first = join(&database, named.clone());
    let mut second = join(&database, named);
    assert_eq!(second.partitions(), [0, 1]);
    let error = first.poll().expect_err("its place is another's");
    assert_eq!(error.kind(), ErrorKind::Refused);
    assert!(error.to_string().contains("\"one\""), "{error}");
    assert_eq!(take(&mut second), Vec::<String>::new());
    drop(first);
    assert_eq!(second.poll().expect("no error"), None);
    assert_eq!(second.partitions(), [0, 1]);
}

#[test]
fn a_consumer_from_the_end_skips_nothing_when_the_partition_moves() {
    let place = Place::new();
    let database = place.open(Durability::Os);
    database.topic("t").create(1).expect("created");
    produce(&database, 1, &["before"]);
    let late = ConsumerSettings { from_start: false, ..settings(LEASE) };
    let first = database.topic("t").consumer("g", late.clone()).expect("a member");
    produce(&database, 1, &["after"]);
    drop(first);
    let mut second = database.topic("t").consumer("g", late).expect("a member");
    assert_eq!(take(&mut second), ["after"]);
}

#[test]
fn members_that_come_and_go_take_each_record_once() {
    const PARTITIONS: u32 = 6;
    const RECORDS: u64 = 300;
    let place = Place::new();
    let databases = [place.open(Durability::Os), place.open(Durability::Os), place.open(Durability::Os)];
    databases[0].topic("t").create(PARTITIONS).expect("created");
    for number in 0..RECORDS {
        let (value, partition) = (number.to_string(), (number % u64::from(PARTITIONS)) as u32);
        databases[0].topic("t").produce(Message::new(&value).partition(partition)).expect("produced");
    }
    let taken = |database: &Database| match database.topic("out").offsets(0) {
        Ok(offsets) => offsets.next.get(),
        Err(_) => 0,
    };
    std::thread::scope(|scope| {
        for database in &databases {
            scope.spawn(move || {
                while taken(database) < RECORDS {
                    let settings = ConsumerSettings { records_max: 3, ..settings(LEASE) };
                    let mut consumer = database.topic("t").consumer("g", settings).expect("a member");
                    let mut left = 5;
                    let stop = || {
                        left -= 1;
                        left == 0 || taken(database) >= RECORDS
                    };
                    let processed = consumer.process(Duration::from_millis(1), stop, |delivery: &Delivery| {
                        let mut commit = Commit::new();
                        for record in delivery.records() {
                            commit = commit.produce("out", Message::new(record.value.expect("a value")));
                        }
                        Ok(commit)
                    });
                    processed.expect("no error");
                }
            });
        }
    });
    drop(databases);
    let database = place.open(Durability::Os);
    let mut seen = BTreeMap::new();
    let mut next = Sequence::new(0);
    while next.get() < RECORDS {
        let found = database.topic("out").fetch(0, next, 1 << 20).expect("records");
        for record in found.records {
            *seen.entry(record.value.expect("a value")).or_insert(0) += 1;
        }
        next = found.next_offset;
    }
    assert_eq!(seen.len() as u64, RECORDS);
    assert!(seen.values().all(|times| *times == 1));
}

#[test]
fn a_group_with_members_is_deleted_only_despite_them() {
    let place = Place::new();
    let database = place.open(Durability::Os);
    database.topic("t").create(1).expect("created");
    let first = join(&database, LEASE);
    let refused = database.group("g").delete(Despite::Generation).expect_err("it has a member");
    assert!(refused.to_string().contains("1 members"), "{refused}");
    drop(first);
    database.group("g").delete(Despite::Nobody).expect("it has none");
    assert_eq!(database.group("g").describe().expect("no error"), None);
}

#[test]
fn a_group_of_an_event_store_is_seen_and_set() {
    use quire::events::{EventPosition, NewEvent};
    let place = Place::new();
    let database = place.open(Durability::Os);
    let commit = Commit::new().append("air/flights", [NewEvent::new("A"), NewEvent::new("B"), NewEvent::new("C")]);
    database.commit(&commit).expect("no error").committed().expect("accepted");
    database.group("g").commit_position("air/flights", EventPosition::new(2)).expect("noted");
    let nowhere = database.group("g").commit_position("nowhere", EventPosition::new(2));
    assert_eq!(nowhere.expect_err("no store").kind(), ErrorKind::NotFound);
    drop(database);
    let database = place.open(Durability::Os);
    let group = database.group("g").describe().expect("no error").expect("a group");
    let at = &group.offsets[0];
    assert_eq!((at.source.clone(), at.offset.get(), at.lag()), (Source::Store("air/flights".into()), 2, 2));
}
