//! A topic that becomes compacted while batches are on their way: records appended after that have
//! keys, whatever their producer knew.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use quire::streams::wire::{Batch, BatchBuilder, Codec, HEADER_BYTES};
use quire::streams::{Cleanup, Command, Refusal, TopicChanges, TopicRef, TopicSettings};
use quire::{Commit, Database, Durability, ErrorKind, Message, Outcome, Part, Reason};

use crate::support::Place;

/// A batch of one record with this key, compressed with Snappy: its length, and one literal.
fn compressed(key: Option<&[u8]>) -> Vec<u8> {
    let mut builder = BatchBuilder::new();
    builder.add(key, Some(b"value"), &[], 1000).expect("room");
    let mut bytes = builder.finish().expect("a record").bytes().to_vec();
    let length = (bytes.len() - HEADER_BYTES) as u8;
    bytes[22] = 2;
    bytes.splice(HEADER_BYTES..HEADER_BYTES, [length, (length - 1) << 2]);
    bytes
}

fn produce(batch: &[u8]) -> Part<'_> {
    let batch = Batch::stored(batch);
    Part::Streams(Command::Produce { topic: TopicRef::Name("t"), partition: 0, batch, create_partitions: None })
}

fn alter(cleanup: Cleanup) -> Part<'static> {
    let changes = TopicChanges { cleanup: Some(cleanup), ..TopicChanges::default() };
    Part::Streams(Command::AlterTopic { topic: TopicRef::Name("t"), changes })
}

fn create(cleanup: Cleanup) -> Part<'static> {
    let settings = TopicSettings { cleanup, ..TopicSettings::default() };
    Part::Streams(Command::CreateTopic { name: "t", partitions: 1, settings })
}

fn is_missing_key(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Refused(refused) if matches!(refused.reason, Reason::Streams(Refusal::MissingKey { .. })))
}

#[test]
fn a_commit_that_has_a_topic_compacted_is_held_to_it() {
    let (keyless, keyed) = (compressed(None), compressed(Some(b"k")));
    let mut garbage = keyed.clone();
    garbage.truncate(HEADER_BYTES + 2);
    for is_there in [false, true] {
        let place = Place::new();
        let database = place.open(Durability::Os);
        let before = if is_there { alter } else { create };
        if is_there {
            database.commit(&Commit::new().part(create(Cleanup::Delete))).expect("no error").committed().expect("made");
        }
        let refused = database.commit(&Commit::new().part(before(Cleanup::Compact)).part(produce(&keyless)));
        let refused = refused.expect("no error");
        assert!(is_missing_key(&refused) && refused.refused().expect("refused").part == 1);
        let unreadable = database.commit(&Commit::new().part(before(Cleanup::Compact)).part(produce(&garbage)));
        assert_eq!(unreadable.expect_err("no keys can be read").kind(), ErrorKind::Invalid);
        assert_eq!(database.statistics().refusals, 1, "what is decided once more is not refused");
        let taken = [before(Cleanup::Compact), produce(&keyed), produce(&keyed)];
        let taken = taken.into_iter().fold(Commit::new(), Commit::part);
        database.commit(&taken).expect("no error").committed().expect("taken");
        drop(database);
        let database = place.open(Durability::Os);
        assert_eq!(database.topic("t").offsets(0).expect("a topic").next.get(), 2);
    }
}

#[test]
fn submit_briefly_declines_batches_that_must_be_decompressed() {
    let place = Place::new();
    let database = place.open(Durability::Os);
    let (keyless, keyed) = (compressed(None), compressed(Some(b"k")));
    let submitted = |commit: Commit<'_>| {
        let ticket = database.submit_briefly(&commit).expect("no error");
        ticket.map(|ticket| ticket.wait().expect("no error"))
    };
    submitted(Commit::new().part(create(Cleanup::Delete))).expect("nothing to unpack").committed().expect("created");
    let is_taken = |outcome: Option<Outcome>| matches!(outcome, Some(Outcome::Committed(_)));
    assert!(is_taken(submitted(Commit::new().part(produce(&keyless)))));
    // Also if the topic becomes compacted in the same commit as the batch.
    assert!(submitted(Commit::new().part(alter(Cleanup::Compact)).part(produce(&keyed))).is_none());
    assert!(is_taken(submitted(Commit::new().part(produce(&keyless)))), "nothing was done");
    assert!(is_taken(submitted(Commit::new().part(alter(Cleanup::Compact)))));
    for batch in [&keyless, &keyed] {
        assert!(submitted(Commit::new().part(produce(batch))).is_none());
    }
    let mut builder = BatchBuilder::new();
    builder.add(None, Some(b"value"), &[], 1000).expect("room");
    let refused = submitted(Commit::new().part(produce(builder.finish().expect("a record").bytes())));
    assert!(is_missing_key(&refused.expect("it is as it is")));
    assert_eq!(database.statistics().refusals, 1, "what is not decided is not refused");
    assert_eq!(database.topic("t").offsets(0).expect("a topic").next.get(), 2);
}

/// Turns compaction of the topic on and off in turns. Returns the positions between which it was
/// on.
fn take_turns(database: &Database, turns: usize) -> Vec<Range<u64>> {
    let alter = |cleanup| {
        let committed = database.commit(&Commit::new().part(alter(cleanup))).expect("no error").committed();
        committed.expect("altered").at.position.get()
    };
    (0..turns).map(|_| alter(Cleanup::Compact)..alter(Cleanup::Delete)).collect()
}

#[test]
fn no_batch_without_a_key_is_committed_while_its_topic_compacts() {
    let place = Place::new();
    let database = place.open(Durability::Os);
    database.commit(&Commit::new().part(create(Cleanup::Delete))).expect("no error").committed().expect("created");
    let is_over = AtomicBool::new(false);
    let keyless = compressed(None);
    let (compacted, taken) = thread::scope(|scope| {
        let producer = scope.spawn(|| {
            let mut taken = Vec::new();
            while !is_over.load(Ordering::Relaxed) {
                match database.commit(&Commit::new().part(produce(&keyless))).expect("no error") {
                    Outcome::Committed(committed) => taken.push(committed.at.position.get()),
                    refused => assert!(is_missing_key(&refused), "{refused:?}"),
                }
            }
            taken
        });
        let compacted = take_turns(&database, 2_000);
        is_over.store(true, Ordering::Relaxed);
        (compacted, producer.join().expect("it ends"))
    });
    for position in taken {
        let at = compacted.partition_point(|range| range.end <= position);
        assert!(compacted.get(at).is_none_or(|range| !range.contains(&position)), "at position {position}");
    }
}

#[test]
fn a_producer_that_has_not_seen_yet_that_its_topic_compacts_is_held_to_it() {
    let place = Place::new();
    let (here, there) = (place.open(Durability::Os), place.open(Durability::Os));
    let long = "again and ".repeat(100);
    let settings = TopicSettings { compression: Codec::Zstd, ..TopicSettings::default() };
    here.topic("t").create_with(1, settings).expect("created");
    let mut producer = there.topic("t").producer();
    for turn in 0..100 {
        producer.produce(&[Message::new(&long)]).expect("it may be without a key");
        let changes = |cleanup| TopicChanges { cleanup: Some(cleanup), ..TopicChanges::default() };
        here.topic("t").alter(changes(Cleanup::Compact)).expect("altered");
        let refused = producer.produce(&[Message::new(&long)]).expect_err("a refusal");
        assert_eq!(refused.kind(), ErrorKind::Refused, "in turn {turn}: {refused}");
        assert!(refused.to_string().contains("record 0 has no key"), "{refused}");
        producer.produce(&[Message::new(&long).key("k")]).expect("it has a key");
        here.topic("t").alter(changes(Cleanup::Delete)).expect("altered");
    }
}
