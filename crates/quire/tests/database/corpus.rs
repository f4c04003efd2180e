//! Record batches of a client that we did not write (`tests/kafka/corpus.py` wrote them), as
//! received and damaged. Each is refused, or stored and returned. A reader of its records gets them
//! or an error.

use std::path::Path;

use quire::streams::wire::{Batch, BatchError, HEADER_BYTES};
use quire::streams::{Command, TopicRef};
use quire::{Commit, Database, Durability, ErrorKind, Part, Sequence};

use crate::support::Place;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/corpus/batches");

/// Number of damaged copies of each batch.
const DAMAGED: usize = 400;

fn corpus() -> Vec<(String, Vec<u8>)> {
    let entries = std::fs::read_dir(Path::new(FOLDER)).expect("the corpus").map(|entry| entry.expect("an entry"));
    let read = |path: std::path::PathBuf| std::fs::read(path).expect("a file");
    let mut files: Vec<_> =
        entries.map(|entry| (entry.file_name().to_string_lossy().into_owned(), read(entry.path()))).collect();
    files.sort();
    files
}

/// Sets the length and checksum that these bytes need, so that the bytes after them are read.
fn resealed(mut batch: Vec<u8>) -> Vec<u8> {
    let length = u32::try_from(batch.len() - 12).expect("short");
    batch[8..12].copy_from_slice(&length.to_be_bytes());
    let crc = crc32c::crc32c(&batch[21..]);
    batch[17..21].copy_from_slice(&crc.to_be_bytes());
    batch
}

/// Changes bytes, cuts, and appends a piece of another batch, as random numbers of this seed
/// choose.
fn damaged(batch: &[u8], other: &[u8], random: &mut fastrand::Rng) -> Vec<u8> {
    let mut batch = batch.to_vec();
    // The header, after the fields that would only be refused, is changed as often as the records.
    let from = if random.bool() { 21 } else { HEADER_BYTES };
    for _ in 0..random.usize(0..4) {
        let at = random.usize(from..batch.len());
        batch[at] = if random.bool() { random.u8(..) } else { batch[at] ^ (1 << random.u8(0..8)) };
    }
    if random.u8(0..4) == 0 {
        batch.truncate(random.usize(HEADER_BYTES..batch.len()));
        batch.extend_from_slice(&other[random.usize(HEADER_BYTES..other.len())..]);
    }
    if random.u8(0..8) == 0 { batch } else { resealed(batch) }
}

/// Stores a batch if it is valid. Returns whether it is.
fn produce(database: &Database, bytes: &[u8]) -> bool {
    let Ok(batch) = Batch::parse(bytes) else { return false };
    let (topic, partition, create_partitions) = (TopicRef::Name("t"), 0, Some(1));
    let command = Command::Produce { topic, partition, batch, create_partitions };
    database.commit(&Commit::new().part(Part::Streams(command))).expect("durable").committed().is_ok()
}

/// Reads everything. Returns the number of records, and of unreadable batches.
fn read_all(database: &Database) -> (u64, u64) {
    let topic = database.topic("t");
    let end = topic.offsets(0).expect("readable").next;
    let (mut next, mut records, mut unreadable) = (Sequence::new(0), 0, 0);
    while next < end {
        match topic.fetch(0, next, 1) {
            Ok(found) => {
                records += found.records.len() as u64;
                assert!(found.next_offset > next);
                next = found.next_offset;
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
                unreadable += 1;
                next = behind(database, next);
            }
        }
    }
    (records, unreadable)
}

/// The offset after the batch that begins here.
fn behind(database: &Database, offset: Sequence) -> Sequence {
    let found = database.read_published(|view| {
        let topic = view.streams.topic_named("t").expect("it is there").id;
        view.streams.fetch(view.history, topic, 0, offset, 1, &mut |_| std::ops::ControlFlow::Break(()))
    });
    found.expect("not failed").expect("it is in range").next_offset
}

#[test]
fn batches_of_another_client_are_taken_whatever_their_codec_and_old_formats_are_refused() {
    let place = Place::new();
    let database = place.open(Durability::Os);
    let corpus = corpus();
    for (name, bytes) in &corpus {
        let is_old = matches!(Batch::parse(bytes), Err(BatchError::Magic { .. }));
        assert_eq!(is_old, name.starts_with("old-"), "{name}");
        // Of a transaction, and of a producer that was never given an id.
        let is_refused = is_old || name == "transactional" || name == "idempotent";
        assert_eq!(produce(&database, bytes), !is_refused, "{name}");
    }
    drop(database);
    assert_eq!(read_all(&place.open(Durability::Os)), (5 * 12, 0));
}

#[test]
fn a_damaged_batch_is_refused_read_or_reported_and_harms_no_other() {
    let place = Place::new();
    let database = place.open(Durability::Os);
    let corpus = corpus();
    let mut random = fastrand::Rng::with_seed(1);
    let (mut taken, mut refused) = (0, 0);
    for (_, bytes) in &corpus {
        for _ in 0..DAMAGED {
            let (_, other) = &corpus[random.usize(..corpus.len())];
            match produce(&database, &damaged(bytes, other, &mut random)) {
                true => taken += 1,
                false => refused += 1,
            }
        }
        assert!(produce(&database, &corpus.iter().find(|(name, _)| name == "none").expect("one without a codec").1));
    }
    let before = read_all(&database);
    assert!(taken > 500 && refused > 500, "{taken} taken, {refused} refused");
    assert!(before.1 > 100, "{} could not be read", before.1);
    drop(database);
    assert_eq!(read_all(&place.open(Durability::Os)), before);
}
