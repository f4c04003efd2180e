//! Compacted topics: the newest record of each key always stays, at its offset. Older records are
//! removed, and so are deleted keys, in time. A naive map says which records must exist, through
//! restarts, kills, seals and compactions at any moment.

use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;

use quire::streams::wire::Codec;
use quire::streams::{Cleanup, SettingSet, TimestampType, TopicChanges, TopicSettings};
use quire::{
    Background, Builder, ConsumerSettings, Database, Durability, Duty, ErrorKind, ManualClock, Message, Record,
    Sequence, Timestamp,
};

use crate::support::{Place, files};

const BEGIN_MS: u64 = 1_000_000;
/// How long a record that deletes its key stays.
const TOLD_MS: u64 = 60_000;
const SETTINGS: TopicSettings = TopicSettings {
    retention_ms: None,
    retention_bytes: None,
    batch_bytes_max: 1 << 20,
    compression: Codec::None,
    cleanup: Cleanup::Compact,
    delete_retention_ms: TOLD_MS,
    timestamp_after_max_ms: 3_600_000,
    timestamp_before_max_ms: i64::MAX as u64,
    timestamp_type: TimestampType::CreateTime,
    said_as_default: SettingSet::NONE,
};

fn clock() -> Arc<ManualClock> {
    Arc::new(ManualClock::new(Timestamp::from_millis(BEGIN_MS)))
}

fn builder(place: &Place, clock: &Arc<ManualClock>) -> Builder {
    place.builder(Durability::Os).clock(clock.clone()).background(Background::Caller)
}

fn seal(database: &Database) {
    database.sync().expect("synced");
    while database.carry_out(Duty::Seal).expect("sealed") {}
}

/// Enough messages of another topic for earlier records to lie in segments that can be sealed.
fn fill(database: &Database) {
    for _ in 0..40 {
        database.topic("other").produce(Message::new([7; 4000])).expect("accepted");
    }
    seal(database);
}

/// Everything that a reader from the start gets.
fn read(database: &Database, topic: &str) -> Vec<Record> {
    let (mut records, mut from) = (Vec::new(), Sequence::new(0));
    let end = database.topic(topic).offsets(0).expect("readable").next;
    while from < end {
        let fetched = database.topic(topic).fetch(0, from, 2000).expect("readable");
        assert!(fetched.next_offset > from, "a fetch comes on");
        records.extend(fetched.records);
        from = fetched.next_offset;
    }
    records
}

fn log_bytes(place: &Place) -> u64 {
    files(&place.shard(), ".log").iter().map(|path| path.metadata().expect("there").len()).sum()
}

fn keys(records: &[Record]) -> Vec<(u64, &str, Option<&str>)> {
    let text = |bytes: &[u8]| std::str::from_utf8(bytes).expect("text").to_owned().leak() as &str;
    let of = |record: &Record| {
        (record.offset.get(), text(record.key.as_deref().expect("a key")), record.value.as_deref().map(text))
    };
    records.iter().map(of).collect()
}

#[test]
fn the_newest_of_each_key_stays_at_its_offset_and_disk_space_comes_back() {
    let place = Place::new();
    let clock = clock();
    let database = builder(&place, &clock).open().expect("opened");
    let topic = database.topic("t");
    topic.create_with(1, SETTINGS).expect("created");
    let value = [b'v'; 1000];
    // Batches of ten keys, one of which is written once.
    for round in 0..100 {
        let names: Vec<_> =
            (0..10).map(|key| if key == 0 { format!("only {round}") } else { format!("{key}") }).collect();
        let messages: Vec<_> = names.iter().map(|name| Message::new(value).key(name)).collect();
        topic.producer().produce(&messages).expect("accepted");
    }
    fill(&database);
    let before = log_bytes(&place);
    database.checkpoint().expect("saved");
    fill(&database);
    assert_eq!(read(&database, "t").len(), 1000);
    let done = database.compact().expect("compacted");
    // Of the thousand records, 109 remain, besides those of the other topic.
    assert!(done.bytes_before - done.bytes_after > 850_000, "{done:?}");
    assert!(log_bytes(&place) < before, "{} of {before}", log_bytes(&place));
    let check = |database: &Database| {
        let records = read(database, "t");
        let expected = (0..99).map(|round| round * 10).chain(990..1000);
        assert_eq!(records.iter().map(|record| record.offset.get()).collect::<Vec<_>>(), expected.collect::<Vec<_>>());
        assert!(records.iter().all(|record| record.value.as_deref() == Some(&value[..])));
        let offsets = database.topic("t").offsets(0).expect("readable");
        assert_eq!((offsets.start, offsets.next), (Sequence::new(0), Sequence::new(1000)));
    };
    check(&database);
    drop((topic, database));
    let database = builder(&place, &clock).open().expect("opened");
    check(&database);
    let produced = database.topic("t").produce(Message::new("x").key("y")).expect("accepted");
    assert_eq!(produced.base_offset, Sequence::new(1000));
}

#[test]
fn unread_records_of_a_protecting_group_survive_compaction_by_key() {
    let (place, clock) = (Place::new(), clock());
    let mut database = builder(&place, &clock).open().expect("opened");
    let topic = database.topic("t");
    topic.create_with(1, SETTINGS).expect("created");
    topic.protect_unread("slow", true).expect("accepted");
    // In batches of three, all of two keys, and every seventh without a value.
    let message = |number: usize| {
        let message = if number % 7 == 6 { Message::tombstone() } else { Message::new("v") };
        message.key(if number.is_multiple_of(2) { "even" } else { "odd" })
    };
    for batch in 0..20 {
        topic.producer().produce(&[0, 1, 2].map(|at| message(batch * 3 + at))).expect("accepted");
    }
    drop(topic);
    for _ in 0..2 {
        fill(&database);
        database.checkpoint().expect("saved");
    }
    // The group has read nothing, some records, part of a batch, has moved back, and has read
    // everything.
    for (committed, first) in [(None, 0), (Some(30), 30), (Some(40), 40), (Some(35), 40), (Some(60), 57)] {
        if let Some(offset) = committed {
            database.topic("t").commit_offset("slow", 0, Sequence::new(offset)).expect("accepted");
        }
        database.compact().expect("compacted");
        let offsets: Vec<_> = read(&database, "t").iter().map(|record| record.offset.get()).collect();
        assert_eq!(offsets, (first..60).collect::<Vec<_>>(), "read up to {committed:?}");
        drop(database);
        database = builder(&place, &clock).open().expect("opened");
    }
}

#[test]
fn a_consumer_passes_over_holes_and_has_lost_nothing() {
    let place = Place::new();
    let clock = clock();
    let database = builder(&place, &clock).open().expect("opened");
    let topic = database.topic("t");
    topic.create_with(1, SETTINGS).expect("created");
    for round in 0..50 {
        let text = format!("{round}");
        topic.produce(Message::new(&text).key("same")).expect("accepted");
        topic
            .producer()
            .produce(&[Message::new(&text).key(&text), Message::new(&text).key("other")])
            .expect("accepted");
    }
    fill(&database);
    database.checkpoint().expect("saved");
    database.compact().expect("compacted");
    let settings = ConsumerSettings { records_max: 7, bytes_max: 1, ..ConsumerSettings::default() };
    let mut consumer = topic.consumer("group", settings).expect("a consumer");
    let (mut count, mut last) = (0, None);
    while let Some(delivery) = consumer.poll().expect("readable") {
        assert_eq!(delivery.lost, 0);
        count += delivery.len();
        last = delivery.records().last().map(|record| record.offset.get());
        consumer.ack(&delivery).expect("noted");
    }
    // One of each round, and the last batch, which stays as it is.
    assert_eq!((count, last), (52, Some(149)));
    assert_eq!(topic.committed_offset("group", 0).expect("readable"), Some(Sequence::new(150)));
    // A reader that starts in a hole continues after it.
    consumer.seek(0, Sequence::new(2));
    let delivery = consumer.poll().expect("readable").expect("there is more");
    assert_eq!((delivery.lost, delivery.records().next().map(|record| record.offset.get())), (0, Some(4)));
}

#[test]
fn a_tombstone_stays_for_the_time_that_the_topic_sets() {
    let place = Place::new();
    let clock = clock();
    let database = builder(&place, &clock).open().expect("opened");
    let topic = database.topic("t");
    topic.create_with(1, SETTINGS).expect("created");
    topic.produce(Message::new("a").key("gone")).expect("accepted");
    topic.produce(Message::new("b").key("there")).expect("accepted");
    fill(&database);
    database.checkpoint().expect("saved");
    fill(&database);
    database.checkpoint().expect("saved");
    // The older record is removed only when the newer one lies after the compacted part. By then
    // the newer one is old, too.
    topic.produce(Message::tombstone().key("gone")).expect("accepted");
    topic.produce(Message::new("c").key("last")).expect("accepted");
    drop(topic);
    clock.set(Timestamp::from_millis(BEGIN_MS + 10 * TOLD_MS));
    database.compact().expect("compacted");
    let told = [(1, "there", Some("b")), (2, "gone", None), (3, "last", Some("c"))];
    assert_eq!(keys(&read(&database, "t")), told);
    fill(&database);
    database.checkpoint().expect("saved");
    fill(&database);
    database.checkpoint().expect("saved");
    // Now it gets the time from which it may be removed.
    database.compact().expect("compacted");
    assert_eq!(keys(&read(&database, "t")), told);
    clock.set(Timestamp::from_millis(BEGIN_MS + 11 * TOLD_MS - 1));
    database.compact().expect("compacted");
    assert_eq!(keys(&read(&database, "t")), told);
    drop(database);
    let database = builder(&place, &clock).open().expect("opened");
    clock.set(Timestamp::from_millis(BEGIN_MS + 11 * TOLD_MS));
    database.compact().expect("compacted");
    assert_eq!(keys(&read(&database, "t")), [(1, "there", Some("b")), (3, "last", Some("c"))]);
    drop(database);
    let database = builder(&place, &clock).open().expect("opened");
    assert_eq!(keys(&read(&database, "t")), [(1, "there", Some("b")), (3, "last", Some("c"))]);
}

#[test]
fn a_record_without_a_key_is_refused_or_kept() {
    let place = Place::new();
    let clock = clock();
    let database = builder(&place, &clock).open().expect("opened");
    let topic = database.topic("t");
    topic.produce(Message::new("before the topic compacted")).expect("accepted");
    topic.alter(TopicChanges { cleanup: Some(Cleanup::Compact), ..TopicChanges::default() }).expect("altered");
    let refused = topic.produce(Message::new("no key")).expect_err("it would never go");
    assert_eq!(refused.kind(), ErrorKind::Refused);
    topic.alter(TopicChanges { compression: Some(Codec::Zstd), ..TopicChanges::default() }).expect("altered");
    let refused = topic.produce(Message::new([0; 500])).expect_err("compressed or not");
    assert_eq!(refused.kind(), ErrorKind::Refused);
    for value in ["old", "new"] {
        topic.produce(Message::new(value).key("key")).expect("accepted");
    }
    fill(&database);
    database.checkpoint().expect("saved");
    database.compact().expect("compacted");
    let offsets: Vec<_> = read(&database, "t").iter().map(|record| record.offset.get()).collect();
    assert_eq!(offsets, [0, 2]);
}

#[test]
fn by_both_a_topic_keeps_the_newest_of_each_key_as_far_as_retention_lets_it() {
    let place = Place::new();
    let clock = clock();
    let database = builder(&place, &clock).open().expect("opened");
    let topic = database.topic("t");
    let settings = TopicSettings {
        cleanup: Cleanup::CompactAndDelete,
        retention_ms: Some(10_000),
        retention_bytes: Some(3_000),
        ..SETTINGS
    };
    topic.create_with(1, settings).expect("created");
    let value = [b'v'; 900];
    for key in ["old", "a", "b", "a", "b", "a", "b"] {
        clock.set(Timestamp::from_millis(if key == "old" { BEGIN_MS } else { BEGIN_MS + 8_000 }));
        topic.produce(Message::new(value).key(key)).expect("accepted");
    }
    fill(&database);
    database.checkpoint().expect("saved");
    let offsets = |database: &Database| -> Vec<u64> {
        let start = database.topic("t").offsets(0).expect("readable").start;
        let fetched = database.topic("t").fetch(0, start, usize::MAX).expect("readable");
        fetched.records.iter().map(|record| record.offset.get()).collect()
    };
    // Before any removal there are more than 3,000 bytes; compaction removes the excess.
    database.compact().expect("compacted");
    assert_eq!(offsets(&database), [5, 6]);
    clock.set(Timestamp::from_millis(BEGIN_MS + 100_000));
    database.carry_out(Duty::Retain).expect("carried out");
    assert_eq!(offsets(&database), [0; 0]);
    // Compaction alone keeps old records.
    topic.alter(TopicChanges { cleanup: Some(Cleanup::Compact), ..TopicChanges::default() }).expect("altered");
    topic.produce(Message::new(value).key("a").timestamp_ms(5)).expect("accepted");
    database.carry_out(Duty::Retain).expect("carried out");
    drop((topic, database));
    assert_eq!(offsets(&builder(&place, &clock).open().expect("opened")), [7]);
}

/// The records written, and those that must exist.
#[derive(Debug, Default)]
struct Naive {
    written: Vec<(String, Option<String>)>,
    /// When the last older record of each deleted key was seen.
    older_seen_ms: BTreeMap<String, u64>,
}

impl Naive {
    fn newest(&self) -> BTreeMap<&str, usize> {
        self.written.iter().enumerate().map(|(offset, (key, _))| (key.as_str(), offset)).collect()
    }

    /// Compares the existing records with those that must exist.
    fn check(&mut self, database: &Database, now_ms: u64) {
        let offsets = database.topic("t").offsets(0).expect("readable");
        assert_eq!((offsets.start.get(), offsets.next.get()), (0, self.written.len() as u64));
        let records = read(database, "t");
        let mut there = BTreeMap::new();
        for (offset, key, value) in keys(&records) {
            assert_eq!((key, value), (&*self.written[offset as usize].0, self.written[offset as usize].1.as_deref()));
            there.entry(key).or_insert_with(Vec::new).push(offset as usize);
        }
        let mut seen = Vec::new();
        for (key, newest) in self.newest() {
            let found = there.get(key).map_or(&[][..], |found| found);
            let has_older = found.iter().any(|offset| *offset < newest);
            if self.written[newest].1.is_some() || has_older {
                assert_eq!(found.last(), Some(&newest), "of {key}");
            } else if now_ms < self.older_seen_ms.get(key).map_or(0, |seen| seen + TOLD_MS) {
                assert_eq!(found, [newest], "of {key}, which is to be told still");
            }
            if has_older {
                seen.push(key.to_owned());
            }
        }
        self.older_seen_ms.extend(seen.into_iter().map(|key| (key, now_ms)));
        // From any offset the next existing record is read.
        for from in 0..self.written.len() as u64 {
            let fetched = database.topic("t").fetch(0, Sequence::new(from), 1).expect("readable");
            let first = fetched.records.first().map(|record| record.offset.get());
            let next = records.iter().map(|record| record.offset.get()).find(|offset| *offset >= from);
            assert!(first == next || (first.is_none() && fetched.next_offset.get() > from), "from {from}");
        }
    }
}

#[test]
fn a_compacted_topic_has_the_newest_record_of_each_key_after_restarts_and_kills() {
    for seed in 0..6 {
        history(seed, usize::MAX);
    }
}

#[test]
fn the_newest_of_each_key_is_there_when_a_look_holds_only_some_keys() {
    for seed in 100..108 {
        // Of nine keys.
        history(seed, 2 + seed as usize % 4);
    }
}

#[test]
fn superseded_records_are_deleted_step_by_step_when_a_pass_holds_only_some_keys() {
    let place = Place::new();
    let clock = clock();
    let database = builder(&place, &clock).compact_keys_max(10).compact_percent_min(1).open().expect("opened");
    let topic = database.topic("t");
    topic.create_with(1, SETTINGS).expect("created");
    let names: Vec<_> = (0..100).map(|key| format!("key {key}")).collect();
    for round in 0..20 {
        let text = format!("{round}");
        // Another key is written last each time, so that no batch is removed whole.
        let messages: Vec<_> =
            (0..100).map(|index| Message::new(&text).key(&names[(index * 7 + round * 13) % 100])).collect();
        topic.producer().produce(&messages).expect("accepted");
    }
    fill(&database);
    database.checkpoint().expect("saved");
    fill(&database);
    database.checkpoint().expect("saved");
    let count = |database: &Database| read(database, "t").len();
    // An interval compacts the next share, until each had its turn. A share has at least one key,
    // which bounds their number.
    let mut left = 2000;
    for interval in 1..=128 {
        clock.set(Timestamp::from_millis(BEGIN_MS + interval * 60_000));
        database.carry_out(Duty::Compact).expect("carried out");
        let now = count(&database);
        assert!(interval > 1 || now > 1500, "{now} are left, though the keys of a few can have been known only");
        assert!(now <= left, "{now} after {left}");
        left = now;
    }
    assert!(left < 150, "{left} are left");
    // Less than a percent of a segment may stay for now, but not after a compaction on request.
    database.compact().expect("compacted");
    assert_eq!(count(&database), 100);
    drop((topic, database));
    let database = builder(&place, &clock).open().expect("opened");
    let there = read(&database, "t");
    let mut keys: Vec<_> = there.iter().map(|record| record.key.clone().expect("a key")).collect();
    keys.sort_unstable();
    keys.dedup();
    assert_eq!((keys.len(), there.iter().all(|record| record.value.as_deref() == Some(b"19"))), (100, true));
}

#[test]
fn a_requested_compaction_covers_all_keys_however_few_one_pass_holds() {
    let place = Place::new();
    let clock = clock();
    let database = builder(&place, &clock).compact_keys_max(4).open().expect("opened");
    let topic = database.topic("t");
    topic.create_with(1, SETTINGS).expect("created");
    let names: Vec<_> = (0..40).map(|key| format!("key {key}")).collect();
    for round in 0..5 {
        for name in &names {
            topic.produce(Message::new(format!("{round}")).key(name)).expect("accepted");
        }
    }
    for name in &names[..10] {
        topic.produce(Message::tombstone().key(name)).expect("accepted");
    }
    topic.produce(Message::new("the last batch stays as it is").key("last")).expect("accepted");
    for _ in 0..2 {
        fill(&database);
        database.checkpoint().expect("saved");
    }
    database.compact().expect("compacted");
    assert_eq!(read(&database, "t").len(), 30 + 10 + 1, "the ends of keys are told for their time");
    clock.set(Timestamp::from_millis(BEGIN_MS + TOLD_MS));
    database.compact().expect("compacted");
    assert_eq!(read(&database, "t").len(), 30 + 1, "which the same compaction set, once they were alone");
}

#[test]
fn a_requested_compaction_covers_each_partition_even_if_one_fills_a_pass_with_its_keys() {
    let place = Place::new();
    let clock = clock();
    let database = builder(&place, &clock).compact_keys_max(4).open().expect("opened");
    for name in ["t", "u"] {
        database.topic(name).create_with(1, SETTINGS).expect("created");
        for key in ["a", "b", "c", "d", "last"] {
            database.topic(name).produce(Message::new("first").key(key)).expect("accepted");
        }
    }
    // Each time less is written than what makes a partition due.
    for key in ["a", "b", "last"] {
        for name in ["t", "u"] {
            database.topic(name).produce(Message::new("newer").key(key)).expect("accepted");
            database.topic(name).produce(Message::new("stays as it is").key("last")).expect("accepted");
        }
        for _ in 0..2 {
            fill(&database);
            database.checkpoint().expect("saved");
        }
        database.compact().expect("compacted");
        assert_eq!(["t", "u"].map(|name| read(&database, name).len()), [5; 2], "after {key}");
    }
}

#[test]
fn a_compaction_that_another_process_delayed_is_carried_out_the_next_time() {
    let place = Place::new();
    let clock = clock();
    let open = || builder(&place, &clock).compact_percent_min(1).open().expect("opened");
    let (first, second) = (open(), open());
    let topic = first.topic("t");
    topic.create_with(1, SETTINGS).expect("created");
    for value in 0..20 {
        topic.produce(Message::new(format!("{value}")).key("same")).expect("accepted");
    }
    for _ in 0..2 {
        fill(&first);
        first.checkpoint().expect("saved");
    }
    for interval in 1..10 {
        clock.set(Timestamp::from_millis(BEGIN_MS + interval * 60_000));
        first.carry_out(Duty::Compact).expect("carried out");
        assert_eq!(read(&first, "t").len(), if interval < 5 { 20 } else { 1 }, "interval {interval}");
        if interval >= 4 {
            // A database without threads answers when its caller runs the duty.
            second.carry_out(Duty::Compact).expect("answered");
        }
    }
    assert_eq!(keys(&read(&second, "t")), [(19, "same", Some("19"))]);
    drop((first, second));
    assert_eq!(keys(&read(&open(), "t")), [(19, "same", Some("19"))]);
}

fn history(seed: u64, keys_max: usize) {
    let mut random = fastrand::Rng::with_seed(seed);
    let place = Place::new();
    let copies = tempfile::tempdir().expect("a temporary directory");
    let clock = clock();
    let mut now_ms = BEGIN_MS;
    let mut naive = Naive::default();
    let mut database = builder(&place, &clock).compact_keys_max(keys_max).open().expect("opened");
    database.topic("t").create_with(1, SETTINGS).expect("created");
    for step in 0..120 {
        match random.u32(0..12) {
            0..=4 => produce(&database, &mut random, &mut naive),
            5 => {
                now_ms += random.u64(0..TOLD_MS);
                clock.set(Timestamp::from_millis(now_ms));
            }
            6 => fill(&database),
            7 => database.checkpoint().expect("saved"),
            8 | 9 => {
                // Records that exist before the removal exist until now.
                naive.check(&database, now_ms);
                database.compact().expect("compacted");
            }
            10 => {
                drop(database);
                database = builder(&place, &clock).compact_keys_max(keys_max).open().expect("opened");
            }
            _ => {
                // The state after a kill, in another place.
                let copy = copies.path().join(step.to_string());
                copy_folder(&place.path(), &copy);
                let builder = Database::builder(&copy).segment_bytes(64 << 10).durability(Durability::Os);
                let killed = builder.clock(clock.clone()).background(Background::Caller).open().expect("opened");
                naive.check(&killed, now_ms);
                fs::remove_dir_all(&copy).expect("removed");
            }
        }
        naive.check(&database, now_ms);
    }
    settle(&database, &clock, now_ms, &naive, keys_max);
}

fn produce(database: &Database, random: &mut fastrand::Rng, naive: &mut Naive) {
    let codec = Codec::ALL[random.usize(0..5)];
    let changes = TopicChanges { compression: Some(codec), ..TopicChanges::default() };
    database.topic("t").alter(changes).expect("altered");
    let records: Vec<_> = (0..random.usize(1..6))
        .map(|_| {
            let value = format!("{}-{}", naive.written.len(), "v".repeat(random.usize(0..300)));
            (format!("key {}", random.u32(0..8)), random.bool().then_some(value))
        })
        .collect();
    let messages: Vec<_> = records
        .iter()
        .map(|(key, value)| value.as_ref().map_or_else(Message::tombstone, Message::new).key(key))
        .collect();
    let produced = database.topic("t").producer().produce(&messages).expect("accepted");
    assert_eq!(produced.base_offset.get(), naive.written.len() as u64);
    naive.written.extend(records);
}

/// Compacts until nothing changes. Then only the newest record of each existing key remains. If the
/// keys do not fit into one pass, records that delete keys remain, too.
fn settle(database: &Database, clock: &ManualClock, now_ms: u64, naive: &Naive, keys_max: usize) {
    database.topic("t").produce(Message::new("the last batch stays as it is").key("last")).expect("accepted");
    fill(database);
    database.checkpoint().expect("saved");
    fill(database);
    database.checkpoint().expect("saved");
    for round in 1..=3 {
        database.compact().expect("compacted");
        clock.set(Timestamp::from_millis(now_ms + round * TOLD_MS));
    }
    let newest = naive.newest();
    let mut expected: Vec<_> = newest.values().copied().filter(|offset| naive.written[*offset].1.is_some()).collect();
    expected.sort_unstable();
    expected.push(naive.written.len());
    let tells_of_an_end = |offset: usize| {
        naive.written.get(offset).is_some_and(|(key, value)| value.is_none() && newest[&**key] == offset)
    };
    database.compact().expect("compacted");
    let mut there: Vec<_> = read(database, "t").iter().map(|record| record.offset.get() as usize).collect();
    there.retain(|offset| keys_max == usize::MAX || !tells_of_an_end(*offset));
    assert_eq!(there, expected);
}

fn copy_folder(from: &std::path::Path, to: &std::path::Path) {
    fs::create_dir_all(to).expect("made");
    for entry in fs::read_dir(from).expect("there") {
        let path = entry.expect("an entry").path();
        let to = to.join(path.file_name().expect("a name"));
        match path.is_dir() {
            true => copy_folder(&path, &to),
            false => drop(fs::copy(&path, &to).expect("copied")),
        }
    }
}
