//! `quire consume` on a topic with unreadable messages: it reports where it stopped and how to
//! continue.

use std::path::Path;

use quire::streams::wire::{Batch, BatchBuilder, HEADER_BYTES};
use quire::streams::{Command, TopicRef};
use quire::{Commit, Database, Durability, Message, Part};

use crate::support::run_on;

/// Three batches. The middle one has three records and claims to be compressed with gzip, but its
/// bytes are not gzip.
fn written(data: &Path) {
    let database = Database::builder(data).durability(Durability::Os).open().expect("a new database");
    let produce = |value| database.topic("t").produce(Message::new(value)).expect("produced");
    produce("before");
    let mut builder = BatchBuilder::new();
    (0..3).for_each(|_| builder.add(None, Some(b"lost"), &[], 1000).expect("room"));
    let mut garbage = builder.finish().expect("records").bytes().to_vec();
    garbage[22] = 1;
    garbage.truncate(HEADER_BYTES);
    garbage.extend_from_slice(b"gzip never wrote this");
    let batch = Batch::stored(&garbage);
    let command = Command::Produce { topic: TopicRef::Name("t"), partition: 0, batch, create_partitions: None };
    database.commit(&Commit::new().part(Part::Streams(command))).expect("no error").committed().expect("taken");
    produce("behind");
}

#[test]
fn an_unreadable_batch_is_reported_with_the_way_to_skip_it() {
    let folder = tempfile::tempdir().expect("a folder");
    written(folder.path());
    let stopped = run_on(folder.path(), &["consume", "t", "--values"]);
    assert_eq!((stopped.status, &*stopped.stdout), (Some(1), "before\n"), "{stopped:?}");
    for part in [
        "stopped in partition 0 of t at offset 1: batch at offset 1: the records can't be decompressed with gzip",
        "skip it with --partition 0 --offset 4, or skip all such batches with --skip-unreadable",
    ] {
        assert!(stopped.stderr.contains(part), "{stopped:?}");
    }
    let behind = run_on(folder.path(), &["consume", "t", "--values", "--partition", "0", "--offset", "4"]);
    assert_eq!(behind.succeeded(), "behind\n");
    for (offset, expected) in [("0", "before\nbehind\n"), ("2", "behind\n")] {
        let from = ["consume", "t", "--values", "--skip-unreadable", "--partition", "0", "--offset", offset];
        let all = run_on(folder.path(), &from);
        let warning = "quire: warning: partition 0: skipped to offset 4: batch at offset 1: ";
        assert!(all.stderr.contains(warning), "{all:?}");
        assert_eq!(all.succeeded(), expected);
    }
}
