//! Records that another node appended: a log takes them byte for byte, and only the next one.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use quire_log::{Durability, Error, LogWatcher, OpenedLog, Publisher, RecordCopy, Settings};
use quire_model::Position;

use crate::shard::{BOTH, Shard, append, assert_samples, sample, settings};

const RECORDS: u64 = 24;

fn owned(durability: Durability) -> Settings {
    Settings { publisher: Publisher::Owner, exclusive: true, ..settings(durability) }
}

/// The bytes of records 1 to `records`, as a leader reads them from its log to send them.
fn sent(records: u64) -> Vec<Vec<u8>> {
    let shard = Shard::new(owned(Durability::Sync));
    let mut opened = shard.open();
    (1..=records).for_each(|number| {
        append(&mut opened.writer, &sample(number));
    });
    let reader = opened.log.reader_of_appended();
    let bytes = |number| reader.whole_record(Position::new(number)).unwrap().expect("it is there").1.to_vec();
    (1..=records).map(bytes).collect()
}

fn take(opened: &mut OpenedLog, bytes: &[u8]) -> quire_log::Result<()> {
    opened.writer.append_copy(&RecordCopy::verify(bytes)?).map(drop)
}

#[test]
fn a_log_of_copied_records_answers_as_the_log_that_they_come_from() {
    let records = sent(RECORDS);
    for durability in BOTH {
        let shard = Shard::new(owned(durability));
        let mut opened = shard.open();
        for bytes in &records {
            take(&mut opened, bytes).unwrap();
        }
        assert_eq!(opened.log.appended(), Position::new(RECORDS));
        assert_samples(&opened.writer.reader(), RECORDS);
        // Its numbers continue those of the copied records.
        append(&mut opened.writer, &sample(RECORDS + 1));
        assert_samples(&opened.writer.reader(), RECORDS + 1);
        drop(opened);
        let opened = shard.open();
        assert_samples(&opened.writer.reader(), RECORDS + 1);
        for (number, bytes) in (1..).zip(&records) {
            let reader = opened.log.reader_of_appended();
            assert_eq!(reader.whole_record(Position::new(number)).unwrap().expect("copied").1, bytes);
        }
    }
}

#[test]
fn a_record_that_does_not_follow_is_refused_and_changes_nothing() {
    let records = sent(4);
    let shard = Shard::new(owned(Durability::Sync));
    let mut opened = shard.open();
    take(&mut opened, &records[0]).unwrap();
    let refused = |opened: &mut OpenedLog, bytes: &[u8]| match take(opened, bytes) {
        Err(Error::InvalidCopy { message }) => message,
        taken => panic!("{taken:?}"),
    };
    assert!(refused(&mut opened, &records[0]).contains("found record 1, expected record 2"));
    assert!(refused(&mut opened, &records[2]).contains("found record 3, expected record 2"));
    // A record of another past.
    let other = Shard::new(owned(Durability::Sync));
    let mut elsewhere = other.open();
    append(&mut elsewhere.writer, &sample(7));
    append(&mut elsewhere.writer, &sample(8));
    let reader = elsewhere.log.reader_of_appended();
    let foreign = reader.whole_record(Position::new(2)).unwrap().expect("it is there").1.to_vec();
    assert!(refused(&mut opened, &foreign).contains("the previous record has"));
    for at in 0..records[1].len() {
        let mut damaged = records[1].clone();
        damaged[at] ^= 1;
        refused(&mut opened, &damaged);
    }
    for length in 0..records[1].len() {
        refused(&mut opened, &records[1][..length]);
    }
    assert_eq!(opened.log.appended(), Position::new(1));
    records[1..].iter().for_each(|bytes| take(&mut opened, bytes).unwrap());
    assert_samples(&opened.writer.reader(), 4);
}

#[test]
fn waiters_that_are_ended_are_unsettled_also_when_the_record_is_published_later() {
    let shard = Shard::new(owned(Durability::Sync));
    let mut opened = shard.open();
    append(&mut opened.writer, &sample(1));
    let published = opened.writer.basis();
    opened.log.publish(published.mark).unwrap();
    append(&mut opened.writer, &sample(2));
    let unpublished = opened.writer.basis();
    thread::scope(|scope| {
        let log = opened.log.clone();
        let waits = scope.spawn(move || log.wait(unpublished));
        drop(opened.writer.end_waiters().unwrap());
        assert!(matches!(waits.join().unwrap(), Err(Error::Unsettled { .. })));
    });
    opened.log.wait(published).unwrap();
    append(&mut opened.writer, &sample(3));
    let later = opened.writer.basis();
    opened.log.publish(later.mark).unwrap();
    opened.log.wait(later).unwrap();
    assert!(matches!(opened.log.wait(unpublished), Err(Error::Unsettled { .. })));
    assert_samples(&opened.log.reader(), 3);
}

#[derive(Debug, Default)]
struct Moves(AtomicU64);

impl LogWatcher for Moves {
    fn moved(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn the_watcher_learns_of_each_append_and_sync() {
    let shard = Shard::new(owned(Durability::Sync));
    let mut opened = shard.open();
    let moves = Arc::new(Moves::default());
    opened.log.watch(Arc::clone(&moves) as _);
    append(&mut opened.writer, &sample(1));
    assert_eq!((moves.0.load(Ordering::SeqCst), opened.log.durable()), (1, Position::ZERO));
    opened.log.sync().unwrap();
    assert_eq!((moves.0.load(Ordering::SeqCst), opened.log.durable()), (2, Position::new(1)));
}

#[test]
fn a_log_that_stopped_publishing_keeps_no_waiter() {
    let shard = Shard::new(owned(Durability::Sync));
    let mut opened = shard.open();
    append(&mut opened.writer, &sample(1));
    opened.log.stop_publishing("the node has stopped");
    assert!(matches!(opened.log.wait(opened.writer.basis()), Err(Error::Failed { .. })));
    assert!(matches!(opened.log.reach(Position::new(2)), Err(Error::Failed { .. })));
    drop(opened);
    assert_samples(&shard.open().writer.reader(), 1);
}
