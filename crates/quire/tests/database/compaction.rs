//! Compaction removes obsolete records and frees their disk space. Everything else reads as before,
//! also after a restart.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::{fs, io};

use std::time::Duration;

use quire::jobs::{JobId, JobSpec, JobState, QueueChange};
use quire::streams::{Command, TopicRef};
use quire::{
    Background, Builder, Commit, Database, Durability, Duty, ErrorKind, ManualClock, Message, Part, Sequence, Timestamp,
};

use crate::support::{Before, Place, files};

const HOUR_MS: u64 = 3_600_000;

fn builder(place: &Place, clock: &Arc<ManualClock>) -> Builder {
    let builder = place.builder(Durability::Os).clock(clock.clone()).background(Background::Caller);
    builder.history(Duration::from_millis(HOUR_MS)).compact_interval(Duration::from_millis(10 * HOUR_MS))
}

/// Fills several segments: finished jobs, a topic and its reader. Returns the first finished job.
fn fill(database: &Database) -> JobId {
    let mut first = None;
    let payload = [7; 500];
    for round in 0..200 {
        let job = database.queue("done").enqueue(JobSpec::new(&payload)).expect("accepted");
        let fetched = database.queue("done").fetch("worker", 1).expect("accepted").remove(0);
        assert_eq!(fetched.job, job);
        first.get_or_insert(job);
        let commit = Commit::new()
            .ack(job, fetched.token, b"result")
            .produce("topic", Message::new(payload))
            .commit_offset("group", "topic", 0, Sequence::new(round));
        database.commit(&commit).expect("durable").committed().expect("accepted");
        if round % 50 == 0 {
            database.queue("live").enqueue(JobSpec::new(format!("live {round}").as_bytes())).expect("accepted");
        }
    }
    database.sync().expect("synced");
    while database.carry_out(Duty::Seal).expect("sealed") {}
    first.expect("there were some")
}

fn bytes(place: &Place) -> u64 {
    files(&place.shard(), ".log").iter().map(|path| path.metadata().expect("there").len()).sum()
}

/// Checks that all live records exist. The first finished job exists only if `finished`.
fn expect(database: &Database, first: JobId, finished: bool) {
    let live = database.queue("live").list(JobState::Pending, None, 10).expect("readable");
    let payload = |job| database.queue("live").job(job).expect("readable").expect("there").payload;
    let payloads: Vec<_> = live.jobs.iter().map(|job| String::from_utf8(payload(*job)).expect("text")).collect();
    assert_eq!(payloads, ["live 0", "live 50", "live 100", "live 150"]);
    let topic = database.topic("topic");
    assert_eq!(topic.committed_offset("group", 0).expect("readable"), Some(Sequence::new(199)));
    assert_eq!(topic.offsets(0).expect("readable").next, Sequence::new(200));
    let fetched = topic.fetch(0, Sequence::new(0), usize::MAX).expect("readable");
    assert_eq!(fetched.records.len(), 200);
    assert_eq!(database.queue("done").job(first).expect("readable").is_some(), finished);
}

#[test]
fn finished_jobs_and_old_offsets_go_when_their_time_has_come() {
    let place = Place::new();
    let clock = Arc::new(ManualClock::new(Timestamp::from_millis(1_000)));
    let database = builder(&place, &clock).open().expect("opened");
    let first = fill(&database);
    let before = bytes(&place);
    expect(&database, first, true);
    // All records are recent.
    assert_eq!(database.compact().expect("compacted").entries_dropped, 0);
    expect(&database, first, true);
    clock.set(Timestamp::from_millis(2_000 + HOUR_MS));
    let done = database.compact().expect("compacted");
    assert!(done.entries_dropped > 500 && done.bytes_after < done.bytes_before, "{done:?}");
    assert!(bytes(&place) < before * 2 / 3, "{} of {before}", bytes(&place));
    expect(&database, first, false);
    drop(database);
    let database = builder(&place, &clock).open().expect("opened");
    expect(&database, first, false);
    // Numbers and ids continue.
    let produced = database.topic("topic").produce(Message::new(b"next")).expect("accepted");
    assert_eq!(produced.base_offset, Sequence::new(200));
}

#[test]
fn the_space_of_a_run_comes_back_before_the_next_is_rewritten() {
    let place = Place::new();
    let clock = Arc::new(ManualClock::new(Timestamp::from_millis(1_000)));
    let database = builder(&place, &clock).open().expect("opened");
    for _ in 0..6 {
        fill(&database);
    }
    clock.set(Timestamp::from_millis(2_000 + HOUR_MS));
    let ended = AtomicBool::new(false);
    let (done, most) = std::thread::scope(|scope| {
        let watch = scope.spawn(|| {
            let mut most = 0;
            while !ended.load(Ordering::Relaxed) {
                most = most.max(place.mapped_and_gone());
            }
            most
        });
        let done = database.compact().expect("compacted");
        ended.store(true, Ordering::Relaxed);
        (done, watch.join().expect("no panic"))
    });
    assert!(done.segments > 20, "{done:?}");
    // Each segment may also have a mapped index.
    assert!(most < 24, "{most} of {} segments", done.segments);
    assert_eq!(place.mapped_and_gone(), 0);
}

#[test]
fn a_segment_without_its_header_keeps_no_other_from_being_compacted() {
    let place = Place::new();
    let clock = Arc::new(ManualClock::new(Timestamp::from_millis(1_000)));
    let open = || builder(&place, &clock).open().expect("opened");
    let database = open();
    for _ in 0..6 {
        fill(&database);
    }
    database.checkpoint().expect("saved");
    drop(database);
    let first = files(&place.shard(), ".log").remove(0);
    change(&first, |bytes| bytes[20] ^= 1);
    let database = open();
    clock.set(Timestamp::from_millis(2_000 + HOUR_MS));
    let before = bytes(&place);
    let error = database.compact().expect_err("one can't be rewritten");
    assert_eq!(error.kind(), ErrorKind::Damaged);
    assert!(error.to_string().contains("00000000000000000001.log"), "{error}");
    assert!(bytes(&place) < before * 2 / 3, "{} of {before}", bytes(&place));
    assert_eq!(database.topic("topic").fetch(0, Sequence::new(0), usize::MAX).expect("readable").records.len(), 1200);
}

#[test]
fn a_compaction_without_space_for_many_segments_rewrites_fewer() {
    let place = Place::new();
    let clock = Arc::new(ManualClock::new(Timestamp::from_millis(1_000)));
    // Number of times that the disk has no space for the rest of segments.
    let times = Arc::new(AtomicU64::new(0));
    let less = |times: &AtomicU64| times.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |times| times.checked_sub(1));
    let disk = {
        let times = Arc::clone(&times);
        Before(move |path: &Path, _| {
            let is_left = path.to_str().is_some_and(|path| path.ends_with(".log.new"));
            if is_left && less(&times).is_ok() { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
        })
    };
    let database = builder(&place, &clock).storage(Arc::new(disk)).open().expect("opened");
    for _ in 0..6 {
        fill(&database);
    }
    clock.set(Timestamp::from_millis(2_000 + HOUR_MS));
    let before = bytes(&place);
    // Compaction tries fewer and fewer segments, down to one, and then a few others.
    times.store(u64::MAX, Ordering::SeqCst);
    let error = database.compact().expect_err("there is no room for any");
    assert_eq!(error.kind(), ErrorKind::NoSpace);
    let tried = u64::MAX - times.load(Ordering::SeqCst);
    assert!((4..40).contains(&tried), "{tried} times");
    assert_eq!(database.failing().iter().map(|failing| failing.duty).collect::<Vec<_>>(), [Duty::Compact]);
    assert_eq!(bytes(&place), before);
    times.store(1, Ordering::SeqCst);
    let done = database.compact().expect("compacted");
    assert!(done.segments > 20, "{done:?}");
    assert!(bytes(&place) < before * 2 / 3, "{} of {before}", bytes(&place));
    assert!(database.failing().is_empty());
    assert_eq!(database.topic("topic").fetch(0, Sequence::new(0), usize::MAX).expect("readable").records.len(), 1200);
}

#[test]
fn a_queue_with_a_retention_keeps_finished_jobs_longer_than_their_history_and_then_deletes_them() {
    let place = Place::new();
    let clock = Arc::new(ManualClock::new(Timestamp::from_millis(1_000)));
    let database = builder(&place, &clock).open().expect("opened");
    let two_hours = QueueChange::Retention(Some(2 * HOUR_MS * 1_000));
    database.queue("done").set(two_hours).expect("accepted");
    let first = fill(&database);
    clock.set(Timestamp::from_millis(2_000 + HOUR_MS));
    database.compact().expect("compacted");
    expect(&database, first, true);
    drop(database);
    let database = builder(&place, &clock).open().expect("opened");
    expect(&database, first, true);
    clock.set(Timestamp::from_millis(4_000 + 2 * HOUR_MS));
    database.queue("done").enqueue(JobSpec::new(b"its time is that of the log")).expect("accepted");
    let done = database.compact().expect("compacted");
    assert!(done.entries_dropped > 500, "{done:?}");
    expect(&database, first, false);
}

#[test]
fn messages_before_the_start_of_their_partition_go() {
    let place = Place::new();
    let clock = Arc::new(ManualClock::new(Timestamp::from_millis(1_000)));
    let database = builder(&place, &clock).open().expect("opened");
    fill(&database);
    let delete = Command::DeleteRecords {
        topic: TopicRef::Name("topic"),
        partition: 0,
        before: Some(Sequence::new(150)),
        keep_unread: false,
    };
    database.commit(&Commit::new().part(Part::Streams(delete))).expect("durable").committed().expect("accepted");
    let before = bytes(&place);
    database.compact().expect("compacted");
    assert!(bytes(&place) < before);
    let check = |database: &Database| {
        let offsets = database.topic("topic").offsets(0).expect("readable");
        assert_eq!((offsets.start, offsets.next), (Sequence::new(150), Sequence::new(200)));
        let fetched = database.topic("topic").fetch(0, Sequence::new(150), usize::MAX).expect("readable");
        assert_eq!(fetched.records.len(), 50);
    };
    check(&database);
    drop(database);
    check(&builder(&place, &clock).open().expect("opened"));
}

#[test]
fn segments_of_which_enough_is_of_no_use_are_rewritten_in_the_background() {
    for (percent, rewritten) in [(100, false), (10, true)] {
        let place = Place::new();
        let clock = Arc::new(ManualClock::new(Timestamp::from_millis(1_000)));
        let database = builder(&place, &clock).compact_percent_min(percent).open().expect("opened");
        fill(&database);
        database.checkpoint().expect("saved");
        let before = bytes(&place);
        assert!(!database.carry_out(Duty::Compact).expect("carried out"), "it is not time yet");
        clock.set(Timestamp::from_millis(1_000 + 10 * HOUR_MS));
        assert!(database.carry_out(Duty::Compact).expect("carried out"));
        assert!(!database.carry_out(Duty::Compact).expect("carried out"), "the next time comes after an interval");
        assert_eq!(bytes(&place) < before, rewritten, "at {percent} percent");
    }
}

#[test]
fn the_background_thread_compacts_when_the_interval_is_over() {
    let place = Place::new();
    let clock = Arc::new(ManualClock::new(Timestamp::from_millis(1_000)));
    let database = builder(&place, &clock).open().expect("opened");
    fill(&database);
    drop(database);
    let builder = builder(&place, &clock)
        .background(Background::Threads)
        .compact_interval(Duration::from_millis(1))
        .history(Duration::from_millis(0));
    let before = bytes(&place);
    let _database = builder.open().expect("opened");
    clock.set(Timestamp::from_millis(5_000));
    while bytes(&place) >= before {
        std::thread::yield_now();
    }
}

/// Changes the file of a checkpoint.
fn change(checkpoint: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = fs::read(checkpoint).expect("readable");
    change(&mut bytes);
    fs::write(checkpoint, bytes).expect("written");
}

/// Replaces a checkpoint's state by one that verifies, following the format page, but that no model
/// can load.
fn make_foreign(file: &mut Vec<u8>) {
    file.truncate(40);
    file.extend([0xFF; 100]);
    file[32..40].copy_from_slice(&100_u64.to_le_bytes());
    let crc = quire_log::crc32c(&[&file[..12], &file[16..]].concat());
    file[12..16].copy_from_slice(&crc.to_le_bytes());
}

#[test]
fn a_compacted_database_opens_from_the_older_checkpoint_when_the_newest_is_unusable() {
    for spoil in [make_foreign, |file: &mut Vec<u8>| file[45] ^= 1] {
        let place = Place::new();
        let clock = Arc::new(ManualClock::new(Timestamp::from_millis(1_000)));
        let database = builder(&place, &clock).history(Duration::from_millis(0)).open().expect("opened");
        fill(&database);
        clock.set(Timestamp::from_millis(5_000));
        database.checkpoint().expect("saved");
        database.topic("topic").produce(Message::new(b"behind it")).expect("accepted");
        assert!(database.compact().expect("compacted").entries_dropped > 0);
        let offsets = database.topic("topic").offsets(0).expect("readable");
        let stats = database.queue("live").stats().expect("readable");
        drop(database);
        let checkpoints = place.checkpoints();
        assert_eq!(checkpoints.len(), 2);
        change(&checkpoints[1], spoil);
        let database = builder(&place, &clock).open().expect("opened");
        assert_eq!(database.topic("topic").offsets(0).expect("readable"), offsets);
        assert_eq!(database.queue("live").stats().expect("readable"), stats);
    }
}

#[test]
fn damaged_checkpoints_of_a_compacted_database_stay_for_a_repair() {
    let place = Place::new();
    let clock = Arc::new(ManualClock::new(Timestamp::from_millis(1_000)));
    let database = builder(&place, &clock).history(Duration::from_millis(0)).open().expect("opened");
    fill(&database);
    clock.set(Timestamp::from_millis(5_000));
    assert!(database.compact().expect("compacted").entries_dropped > 0);
    drop(database);
    let flip = |file: &mut Vec<u8>| file[45] ^= 1;
    let checkpoints = place.checkpoints();
    checkpoints.iter().for_each(|checkpoint| change(checkpoint, flip));
    assert_eq!(builder(&place, &clock).open().expect_err("nothing verifies").kind(), ErrorKind::Damaged);
    assert_eq!(place.checkpoints(), checkpoints);
    checkpoints.iter().for_each(|checkpoint| change(checkpoint, flip));
    builder(&place, &clock).open().expect("opened");
}

#[test]
fn a_compacted_database_without_a_checkpoint_is_refused() {
    let place = Place::new();
    let clock = Arc::new(ManualClock::new(Timestamp::from_millis(1_000)));
    let database = builder(&place, &clock).history(Duration::from_millis(0)).open().expect("opened");
    fill(&database);
    clock.set(Timestamp::from_millis(5_000));
    assert!(database.compact().expect("compacted").entries_dropped > 0);
    drop(database);
    place.remove_checkpoints();
    let error = builder(&place, &clock).open().expect_err("nothing tells what the state was");
    assert_eq!(error.kind(), ErrorKind::Damaged);
    assert!(error.to_string().contains("no checkpoint"), "{error}");
}

#[test]
fn a_topic_of_which_the_log_holds_nothing_any_more_begins_where_it_ends() {
    let place = Place::new();
    let clock = Arc::new(ManualClock::new(Timestamp::from_millis(1_000)));
    let database = builder(&place, &clock).open().expect("opened");
    fill(&database);
    let all = Command::DeleteRecords { topic: TopicRef::Name("topic"), partition: 0, before: None, keep_unread: false };
    database.commit(&Commit::new().part(Part::Streams(all))).expect("durable").committed().expect("accepted");
    // More records, so that the topic's last record is in a full segment.
    for _ in 0..200 {
        database.queue("live").enqueue(JobSpec::new(&[7; 500])).expect("accepted");
    }
    database.sync().expect("synced");
    while database.carry_out(Duty::Seal).expect("sealed") {}
    (0..2).for_each(|_| database.checkpoint().expect("saved"));
    assert!(database.compact().expect("compacted").entries_dropped >= 200);
    let ends = |database: &Database| {
        let offsets = database.topic("topic").offsets(0).expect("readable");
        (offsets.start.get(), offsets.next.get())
    };
    assert_eq!(ends(&database), (200, 200));
    drop(database);
    let database = builder(&place, &clock).open().expect("opened");
    assert_eq!(ends(&database), (200, 200));
    let produced = database.topic("topic").produce(Message::new("next")).expect("durable");
    assert_eq!(produced.base_offset, Sequence::new(200));
    assert_eq!(ends(&database), (200, 201));
}

#[test]
fn a_failing_background_duty_is_reported_until_it_succeeds() {
    let place = Place::new();
    let clock = Arc::new(ManualClock::new(Timestamp::from_millis(1_000_000_000_000)));
    let database = builder(&place, &clock).open().expect("opened");
    database.queue("queue").enqueue(JobSpec::new(b"job")).expect("accepted");
    assert_eq!(database.failing(), []);
    // A directory is in the place of the file that a compaction locks.
    let lock = place.shard().join("compacting");
    let _ = fs::remove_file(&lock);
    fs::create_dir(&lock).expect("made");
    let compact = |round: u64| {
        clock.set(Timestamp::from_millis(1_000_000_000_000 + round * 10 * HOUR_MS));
        database.carry_out(Duty::Compact)
    };
    compact(1).expect_err("it can't be locked");
    let since = database.failing()[0].since;
    compact(2).expect_err("it can't be locked");
    let failing = database.failing();
    assert_eq!((failing.len(), failing[0].duty, failing[0].times, failing[0].since), (1, Duty::Compact, 2, since));
    assert!(failing[0].message.contains("compacting"), "{}", failing[0].message);
    fs::remove_dir(&lock).expect("removed");
    assert!(compact(3).expect("carried out"));
    assert_eq!(database.failing(), []);
}
