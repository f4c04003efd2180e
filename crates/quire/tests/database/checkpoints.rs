//! The state in memory is rebuilt from a checkpoint and the log after it, and equally from the log
//! alone.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};
use std::time::Duration;

use quire::events::NewEvent;
use quire::jobs::{JobSpec, Retry};
use quire::{
    Commit, Database, Durability, ErrorKind, ManualClock, Message, NewBlock, NewEdge, Position, Sequence, Timestamp,
};

use crate::support::{BLOCKS, Place, everything};

/// A commit over all models, a lease, a refusal, and an end of a job, by number.
pub(crate) fn step(database: &Database, number: usize) {
    let (name, other) = (BLOCKS[number % 6], BLOCKS[number / 6 % 6]);
    let text = number.to_string();
    let commit = Commit::new()
        .append("store", [NewEvent::new("Made").tag(&text).data(&text)])
        .produce("topic", Message::new(&text).key(&text))
        .commit_offset("group", "topic", 0, Sequence::new(number as u64))
        .enqueue("queue", JobSpec { attempts_max: 2, ..JobSpec::new(text.as_bytes()) })
        .put_block("graph", NewBlock::new(name, "thing").content(text.as_bytes()))
        .put_block("graph", NewBlock::new(other, "thing"))
        .put_edge("graph", NewEdge::new(name, "follows", other));
    database.commit(&commit).expect("durable").committed().expect("accepted");
    for job in database.queue("queue").fetch("worker", 1).expect("accepted") {
        match number % 4 {
            0 => database.queue("queue").ack(job.job, job.token, text.as_bytes()).expect("accepted"),
            1 => database.queue("queue").fail(job.job, job.token, "no", Retry::Backoff).expect("accepted"),
            2 => database.queue("queue").fail(job.job, job.token, "never", Retry::Never).expect("accepted"),
            _ => {}
        }
    }
    if number % 5 == 4 {
        let deletion = Commit::new().delete_block("graph", name);
        database.commit(&deletion).expect("durable").committed().expect("accepted");
    }
}

/// Copies a database as a death of its process would leave it now.
fn copy(place: &Place) -> Place {
    let target = Place::new();
    fs::create_dir_all(target.shard()).expect("made");
    let copy = |from: &Path, to: &Path| fs::copy(from, to).map(|_| ());
    copy(&place.path().join("quire.meta"), &target.path().join("quire.meta")).expect("copied");
    for entry in fs::read_dir(place.shard()).expect("listed").map(|entry| entry.expect("an entry")) {
        // The database may rename a file after writing it, and removes a checkpoint when there are
        // two newer ones. The copy is complete without these files.
        let copied = copy(&entry.path(), &target.shard().join(entry.file_name()));
        let is_segment = entry.path().extension().is_some_and(|extension| extension == "log");
        assert!(copied.is_ok() || !is_segment, "{} is copied", entry.path().display());
    }
    target
}

#[test]
fn everything_is_the_same_with_the_newest_checkpoint_an_older_one_and_none() {
    let place = Place::new();
    let database = place.open(Durability::Os);
    (0..40).for_each(|number| step(&database, number));
    database.checkpoint().expect("saved");
    (40..80).for_each(|number| step(&database, number));
    database.checkpoint().expect("saved");
    (80..90).for_each(|number| step(&database, number));
    let live = everything(&database);
    assert_eq!(database.statistics().checkpoints, 2);
    let killed = copy(&place);
    drop(database);
    for _ in 0..3 {
        let place = copy(&killed);
        assert_eq!(live, everything(&place.open(Durability::Os)));
        if let Some(newest) = killed.checkpoints().pop() {
            fs::remove_file(newest).expect("removed");
        }
    }
    assert!(killed.checkpoints().is_empty());
}

#[test]
fn a_damaged_checkpoint_is_passed_over() {
    let place = Place::new();
    let database = place.open(Durability::Os);
    (0..30).for_each(|number| step(&database, number));
    let live = everything(&database);
    drop(database);
    let [checkpoint] = &place.checkpoints()[..] else { panic!("closing saves a checkpoint") };
    let bytes = fs::read(checkpoint).expect("readable");
    let flip = |at: usize| {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x10;
        damaged
    };
    let damages = [flip(0), flip(13), flip(17), flip(25), flip(41), flip(bytes.len() - 1)];
    for damaged in damages.into_iter().chain([0, 1, 39, 40, bytes.len() - 1].map(|length| bytes[..length].to_vec())) {
        fs::write(checkpoint, damaged).expect("written");
        assert_eq!(live, everything(&copy(&place).open(Durability::Os)));
    }
}

#[test]
fn checkpoints_are_taken_while_threads_commit_and_any_of_them_restores_everything() {
    [0, u64::MAX].into_iter().for_each(checkpoints_are_taken_while_threads_commit);
}

fn checkpoints_are_taken_while_threads_commit(pause_bytes: u64) {
    let place = Place::new();
    let small = |place: &Place| {
        let builder = place.builder(Durability::Os).checkpoint_bytes(4096).checkpoint_pause_bytes(pause_bytes);
        builder.open().expect("opened")
    };
    let database = small(&place);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|thread| {
                let database = &database;
                // Until another checkpoint was saved.
                let goes_on = move |number: &usize| *number < 50 || database.statistics().checkpoints == 0;
                scope.spawn(move || (0..).take_while(goes_on).for_each(|number| step(database, number * 4 + thread)))
            })
            .collect();
        // Requested by users at the same time, over and over.
        for _ in 0..2 {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    database.checkpoint().expect("saved");
                }
            });
        }
        threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
        done.store(true, Ordering::Relaxed);
    });
    let live = everything(&database);
    for killed in [copy(&place), copy(&place)] {
        assert_eq!(live, everything(&small(&killed)));
    }
    drop(database);
    assert_eq!(live, everything(&small(&place)));
}

#[test]
fn a_checkpoint_that_several_ask_for_at_once_is_saved_once_for_all_of_them() {
    let place = Place::new();
    let database = place.open(Durability::Os);
    for round in 1..=30 {
        step(&database, round);
        let start = Barrier::new(4);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    start.wait();
                    database.checkpoint().expect("saved");
                });
            }
        });
        assert_eq!(database.statistics().checkpoints, round as u64);
    }
}

#[test]
fn a_checkpoint_is_saved_in_the_background_after_enough_log() {
    let place = Place::new();
    let open =
        |place: &Place, bytes: u64| place.builder(Durability::Os).checkpoint_bytes(bytes).open().expect("opened");
    let database = open(&place, 1 << 30);
    (0..40).for_each(|number| step(&database, number));
    assert_eq!(database.statistics().checkpoints, 0, "there is not enough log for one");
    let bytes = database.statistics().bytes;

    // The bytes that a restart replayed count, so that restarts do not get longer from crash to
    // crash.
    let killed = copy(&place);
    let restarted = open(&killed, bytes / 2);
    step(&restarted, 41);
    while restarted.statistics().checkpoints == 0 {
        std::thread::yield_now();
    }
}

#[test]
fn closing_saves_a_checkpoint_only_when_there_is_something_new() {
    let place = Place::new();
    drop(place.open(Durability::Os));
    assert!(place.checkpoints().is_empty(), "there is nothing to save yet");
    step(&place.open(Durability::Os), 1);
    let saved = place.checkpoints();
    assert_eq!(saved.len(), 1);
    let database = place.open(Durability::Os);
    database.checkpoint().expect("answered");
    assert_eq!(database.statistics().checkpoints, 0, "it is saved already");
    drop(database);
    assert_eq!(place.checkpoints(), saved);
}

#[test]
fn a_lease_survives_a_restart_and_a_token_that_was_worth_nothing_still_is() {
    let clock = Arc::new(ManualClock::new(Timestamp::from_millis(1_000)));
    let open = |place: &Place| place.builder(Durability::Os).clock(clock.clone()).open().expect("opened");
    for with_checkpoint in [true, false] {
        clock.set(Timestamp::from_millis(1_000));
        let place = Place::new();
        let database = open(&place);
        for payload in [b"held", b"late"] {
            database.queue("queue").enqueue(JobSpec::new(payload)).expect("accepted");
        }
        let lease = |lease| database.queue("queue").lease(lease);
        let held = lease(Duration::from_secs(60)).fetch("worker", 1).expect("accepted").remove(0);
        let late = lease(Duration::from_secs(1)).fetch("worker", 1).expect("accepted").remove(0);
        assert_eq!((&held.payload[..], &late.payload[..]), (&b"held"[..], &b"late"[..]));
        clock.set(Timestamp::from_millis(3_000));
        let again = lease(Duration::from_secs(60)).fetch("other", 1).expect("accepted").remove(0);
        assert_eq!((again.job, again.attempt), (late.job, 2));
        drop(database);
        if !with_checkpoint {
            place.remove_checkpoints();
        }
        let database = open(&place);
        let queue = database.queue("queue");
        assert!(queue.fetch("third", 2).expect("accepted").is_empty(), "both are still held");
        let stale = queue.ack(late.job, late.token, b"").expect_err("it is stale");
        assert_eq!(stale.kind(), ErrorKind::Refused, "{stale}");
        queue.ack(held.job, held.token, b"").expect("accepted");
        queue.ack(again.job, again.token, b"").expect("accepted");
        assert_eq!(queue.stats().expect("readable").expect("there").completed, 2);
        assert_eq!(database.published(), Position::new(7));
    }
}
