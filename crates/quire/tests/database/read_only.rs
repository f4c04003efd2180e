//! Opening read-only changes no file. Processes with the database open continue. A reader sees the
//! state of one moment.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::SystemTime;

use std::time::Duration;

use quire::events::NewEvent;
use quire::jobs::JobSpec;
use quire::{Background, Commit, Database, Durability, Duty, ErrorKind, Message, NewBlock, NewEdge, Sequence};

use crate::support::{Place, everything, files};

const BOTH: [Durability; 2] = [Durability::Os, Durability::Sync];

/// Returns the state of everything below a path: the time of the last change, and the bytes of each
/// file.
fn state_of(path: &Path) -> BTreeMap<PathBuf, (SystemTime, Vec<u8>)> {
    let mut found = BTreeMap::new();
    let changed = |path: &Path| path.metadata().and_then(|metadata| metadata.modified()).expect("it is there");
    found.insert(path.to_owned(), (changed(path), Vec::new()));
    for entry in fs::read_dir(path).expect("a folder").map(|entry| entry.expect("an entry").path()) {
        if entry.is_dir() {
            found.extend(state_of(&entry));
        } else {
            let bytes = fs::read(&entry).expect("readable");
            found.insert(entry.clone(), (changed(&entry), bytes));
        }
    }
    found
}

/// Opens the database read-only, calls `look`, and checks that nothing was changed.
fn look<T>(place: &Place, durability: Durability, look: impl FnOnce(&Database) -> T) -> T {
    let before = state_of(&place.path());
    let database = place.builder(durability).read_only(true).open().expect("opened");
    let seen = look(&database);
    drop(database);
    assert!(before == state_of(&place.path()), "nothing was touched");
    seen
}

/// Makes commit number `number`, with parts of all models.
fn commit(database: &Database, number: u64) {
    let text = format!("{number:0200}");
    let commit = Commit::new()
        .append("store", [NewEvent::new("Counted").data(text.as_bytes())])
        .produce("topic", Message::new(&text).key("key"))
        .enqueue("queue", JobSpec::new(text.as_bytes()))
        .put_block("graph", NewBlock::new("a", "kind").content(text.as_bytes()))
        .put_block("graph", NewBlock::new("b", "kind"))
        .put_edge("graph", NewEdge::new("a", "next", "b"));
    database.commit(&commit).expect("durable").committed().expect("accepted");
}

/// Commits while `look` runs. The argument of `look` returns the number of acknowledged commits.
fn while_committing(database: &Database, look: impl FnOnce(&dyn Fn() -> u64)) {
    struct Done<'a>(&'a AtomicBool);
    impl Drop for Done<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }

    commit(database, 0);
    let (acknowledged, done) = (AtomicU64::new(1), AtomicBool::new(false));
    std::thread::scope(|scope| {
        // The commits also end when `look` fails.
        let _done = Done(&done);
        scope.spawn(|| {
            for number in (1..).take_while(|_| !done.load(Ordering::Relaxed)) {
                commit(database, number);
                acknowledged.store(number + 1, Ordering::SeqCst);
            }
        });
        look(&|| acknowledged.load(Ordering::SeqCst));
    });
}

/// Copies the files of a database as they are.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("made");
    for entry in fs::read_dir(from).expect("a folder").map(|entry| entry.expect("an entry").path()) {
        let to = to.join(entry.file_name().expect("a name"));
        if entry.is_dir() { copy(&entry, &to) } else { _ = fs::copy(&entry, &to).expect("copied") }
    }
}

#[test]
fn everything_is_seen_and_nothing_is_touched() {
    for durability in BOTH {
        let place = Place::new();
        let database = place.builder(durability).background(Background::Caller).open().expect("opened");
        (0..100).for_each(|number| commit(&database, number));
        database.sync().expect("synced");
        while database.carry_out(Duty::Seal).expect("sealed") {}
        (100..150).for_each(|number| commit(&database, number));
        let (segments, sealed) = (files(&place.shard(), ".log").len(), files(&place.shard(), ".idx").len());
        assert!(sealed > 0 && segments > sealed + 1, "{sealed} of {segments} segments are sealed");
        let live = everything(&database);
        // In three states: after a crash, with other processes running, and closed.
        let crashed = Place::new();
        copy(&place.path(), &crashed.path());
        assert_eq!(look(&crashed, durability, everything), live, "{durability}, crashed");
        let seen = place.builder(durability).read_only(true).open().expect("opened");
        assert_eq!(everything(&seen), live, "{durability}, with others at work");
        drop(database);
        assert_eq!(everything(&seen), live, "{durability}, after the others have gone");
        drop(seen);
        assert_eq!(look(&place, durability, everything), live, "{durability}, closed");
        place.remove_checkpoints();
        files(&place.shard(), ".idx").iter().for_each(|path| fs::remove_file(path).expect("removed"));
        assert_eq!(look(&place, durability, everything), live, "{durability}, with nothing but the segments");
    }
}

#[test]
fn nothing_is_written() {
    let place = Place::new();
    commit(&place.open(Durability::Os), 0);
    look(&place, Durability::Os, |database| {
        let before = everything(database);
        let kind = |error: quire::Error| (error.kind(), error.to_string().contains("read-only"));
        let refused = (ErrorKind::ReadOnly, true);
        assert_eq!(
            kind(database.commit(&Commit::new().produce("topic", Message::new("2"))).expect_err("refused")),
            refused
        );
        assert_eq!(kind(database.queue("queue").fetch("worker", 1).expect_err("refused")), refused);
        assert_eq!(kind(database.topic("other").create(1).expect_err("refused")), refused);
        assert_eq!(kind(database.checkpoint().expect_err("refused")), refused);
        assert_eq!(kind(database.compact().expect_err("refused")), refused);
        assert_eq!(everything(database), before);
    });
    let nothing = Place::new();
    let error = nothing.builder(Durability::Os).read_only(true).open().expect_err("there is none");
    assert_eq!(error.kind(), ErrorKind::NotADatabase, "{error}");
    assert!(!nothing.path().exists());
}

#[test]
fn a_torn_tail_is_left_out_and_stays() {
    let place = Place::new();
    let database = place.builder(Durability::Os).background(Background::Caller).open().expect("opened");
    (0..3).for_each(|number| commit(&database, number));
    database.sync().expect("synced");
    let crashed = Place::new();
    commit(&database, 3);
    copy(&place.path(), &crashed.path());
    let segment = files(&crashed.shard(), ".log").remove(0);
    let mut bytes = fs::read(&segment).expect("readable");
    let last = bytes.iter().rposition(|byte| *byte != 0).expect("it holds records");
    bytes[last - 8] ^= 1;
    fs::write(&segment, bytes).expect("written");

    let before = state_of(&crashed.path());
    let opening = crashed.builder(Durability::Os).read_only(true).open_and_report().expect("opened");
    assert!(opening.recovery.cut.is_some(), "it says so");
    assert_eq!(opening.database.topic("topic").offsets(0).expect("readable").next, Sequence::new(3));
    drop(opening);
    assert!(before == state_of(&crashed.path()), "nothing was touched");
}

#[test]
fn each_read_only_opening_of_a_database_in_use_shows_a_state_it_was_in() {
    for durability in BOTH {
        let place = Place::new();
        let database = place.builder(durability).checkpoint_bytes(16 << 10).open().expect("opened");
        while_committing(&database, |acknowledged| {
            for _ in 0..30 {
                let least = acknowledged();
                let seen = place.builder(durability).read_only(true).open().expect("opened");
                let next = seen.topic("topic").offsets(0).expect("readable").next.get();
                assert!(next >= least, "{next} of {least} acknowledged commits are seen");
                let records = seen.topic("topic").fetch(0, Sequence::new(0), usize::MAX).expect("readable").records;
                let numbers = records
                    .iter()
                    .map(|record| String::from_utf8_lossy(record.value.as_deref().unwrap_or_default()).parse());
                assert!(numbers.eq((0..next).map(Ok::<u64, std::num::ParseIntError>)));
                let events = seen.events("store").head().expect("readable");
                assert_eq!(events.get(), next, "of each commit all or nothing");
                assert_eq!(seen.queue("queue").stats().expect("readable").map(|stats| stats.pending), Some(next));
            }
        });
    }
}

#[test]
fn records_that_other_processes_are_appending_are_not_a_torn_tail() {
    // Copying a segment takes longer than appending a commit.
    let place = Place::new();
    let builder = || place.builder(Durability::Os).segment_bytes(8 << 20);
    while_committing(&builder().open().expect("opened"), |acknowledged| {
        for _ in 0..20 {
            let least = acknowledged();
            let opening = builder().read_only(true).open_and_report().expect("opened");
            assert_eq!(opening.recovery.cut, None);
            let next = opening.database.topic("topic").offsets(0).expect("readable").next.get();
            assert!(next >= least, "{next} of {least} acknowledged commits are seen");
        }
    });
}

#[test]
fn records_that_a_later_compaction_drops_stay_readable_for_an_earlier_opening() {
    let place = Place::new();
    let builder = place
        .builder(Durability::Os)
        .history(Duration::from_millis(0))
        .segment_bytes(16 << 10)
        .background(Background::Caller);
    let database = builder.open().expect("opened");
    for number in 0..300 {
        commit(&database, number);
        let job = database.queue("queue").fetch("worker", 1).expect("accepted").remove(0);
        database.queue("queue").ack(job.job, job.token, b"").expect("accepted");
    }
    database.sync().expect("synced");
    while database.carry_out(Duty::Seal).expect("sealed") {}
    let seen = place.builder(Durability::Os).read_only(true).segments_open_max(1).open().expect("opened");
    assert!(database.compact().expect("compacted").entries_dropped > 0);
    assert_eq!(seen.topic("topic").fetch(0, Sequence::new(0), usize::MAX).expect("readable").records.len(), 300);
    assert!(seen.damage().is_empty(), "{:?}", seen.damage());
    let again = place.builder(Durability::Os).read_only(true).open().expect("opened");
    assert_eq!(again.topic("topic").fetch(0, Sequence::new(0), usize::MAX).expect("readable").records.len(), 300);
}
