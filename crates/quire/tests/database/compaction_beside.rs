//! Compaction while several processes have the database open. One process compacts; the others
//! continue, and read all live records.

use std::sync::Arc;
use std::time::Duration;

use quire::jobs::{JobId, JobSpec, JobState};
use quire::{Background, Builder, Compaction, Database, Durability, Duty, ManualClock, Message, Timestamp};

use crate::support::{Place, files};

const HOUR_MS: u64 = 3_600_000;

fn builder(place: &Place, durability: Durability, clock: &Arc<ManualClock>) -> Builder {
    place
        .builder(durability)
        .clock(clock.clone())
        .history(Duration::from_millis(HOUR_MS))
        .compact_interval(Duration::from_millis(10 * HOUR_MS))
}

/// Fills several segments with finished jobs and some unfinished ones. Returns the first finished
/// job.
fn fill(database: &Database, from: u64) -> JobId {
    let mut first = None;
    let payload = [7; 2500];
    for round in from..from + 45 {
        let job = database.queue("done").enqueue(JobSpec::new(&payload)).expect("accepted");
        let fetched = database.queue("done").fetch("worker", 1).expect("accepted").remove(0);
        database.queue("done").ack(job, fetched.token, b"result").expect("accepted");
        first.get_or_insert(job);
        if round % 15 == 0 {
            database.queue("live").enqueue(JobSpec::new(format!("live {round}").as_bytes())).expect("accepted");
        }
        database.topic("topic").produce(Message::new(b"kept")).expect("accepted");
    }
    database.sync().expect("synced");
    first.expect("there were some")
}

/// Checks the live records of a database that was filled `fills` times.
fn expect(database: &Database, fills: u64) {
    let live = database.queue("live").list(JobState::Pending, None, 100).expect("readable");
    let payload = |job| database.queue("live").job(job).expect("readable").expect("there").payload;
    let payloads: Vec<_> = live.jobs.iter().map(|job| String::from_utf8(payload(*job)).expect("text")).collect();
    let expected: Vec<_> = (0..3 * fills).map(|number| format!("live {}", number * 15)).collect();
    assert_eq!(payloads, expected);
    let fetched = database.topic("topic").fetch(0, quire::Sequence::new(0), usize::MAX).expect("readable");
    assert_eq!(fetched.records.len() as u64, 45 * fills);
}

fn segments(place: &Place) -> usize {
    files(&place.shard(), ".log").len()
}

#[test]
fn processes_with_the_database_open_are_asked_and_answer_in_the_background() {
    for durability in [Durability::Os, Durability::Sync] {
        let place = Place::new();
        let clock = Arc::new(ManualClock::new(Timestamp::from_millis(1_000)));
        let [first, second, third] =
            [0; 3].map(|_| builder(&place, durability, &clock).open().expect("opened beside the others"));
        let [done, ..] = [(0, &first), (45, &second), (90, &third)].map(|(from, database)| fill(database, from));
        // Two checkpoints, so that the older one is after the obsolete records.
        first.checkpoint().expect("saved");
        clock.set(Timestamp::from_millis(2_000 + HOUR_MS));
        first.queue("more").enqueue(JobSpec::new(b"more")).expect("accepted");
        first.sync().expect("synced");
        while first.carry_out(Duty::Seal).expect("sealed") {}
        let before = segments(&place);
        let compacted = compact(&first);
        assert!(compacted.entries_dropped > 100, "{compacted:?}");
        assert!(segments(&place) < before / 2);
        for database in [&first, &second, &third] {
            expect(database, 3);
        }
        // The other processes learn of the compaction, and each releases the files without readers.
        while place.mapped_and_gone() > 0 {
            first.wait_after(first.published(), Duration::from_millis(5)).expect("not failed");
        }
        for database in [&first, &second, &third] {
            assert!(database.queue("done").job(done).expect("readable").is_none());
        }
        // The other processes continue.
        fill(&second, 135);
        for database in [&first, &second, &third] {
            expect(database, 4);
        }
        drop((first, second, third));
        expect(&builder(&place, durability, &clock).open().expect("opened"), 4);
    }
}

/// Compacts until no entry can be dropped, in the process that runs the duties.
fn compact(database: &Database) -> Compaction {
    let mut all = Compaction::default();
    loop {
        let done = database.compact().expect("compacted");
        all += done;
        if done.segments == 0 {
            return all;
        }
    }
}

#[test]
fn without_threads_they_answer_when_they_look_for_their_duties() {
    let place = Place::new();
    let clock = Arc::new(ManualClock::new(Timestamp::from_millis(1_000)));
    let open = || builder(&place, Durability::Os, &clock).background(Background::Caller).open().expect("opened");
    let (first, second) = (open(), open());
    fill(&second, 0);
    first.checkpoint().expect("saved");
    clock.set(Timestamp::from_millis(2_000 + HOUR_MS));
    first.queue("more").enqueue(JobSpec::new(b"more")).expect("accepted");
    first.sync().expect("synced");
    while first.carry_out(Duty::Seal).expect("sealed") {}
    let before = segments(&place);
    assert_eq!(first.compact().expect("asked"), Compaction::default());
    assert_eq!(first.compact().expect("asked"), Compaction::default(), "it has not answered");
    assert!(second.carry_out(Duty::Compact).expect("answered"));
    assert!(!second.carry_out(Duty::Compact).expect("nothing to do"));
    assert!(first.compact().expect("compacted").entries_dropped > 30);
    assert!(segments(&place) < before);
    expect(&second, 1);
    assert!(second.carry_out(Duty::Compact).expect("taken in"));
    expect(&second, 1);
    assert_eq!(second.compact().expect("not its duty"), Compaction::default());
}

#[test]
fn a_compaction_names_the_process_that_it_waits_for_while_it_waits() {
    let place = Place::new();
    let clock = Arc::new(ManualClock::new(Timestamp::from_millis(1_000)));
    // This process does not answer by itself, like a stopped process.
    let stopped = builder(&place, Durability::Os, &clock).background(Background::Caller).open().expect("opened");
    fill(&stopped, 0);
    // A compaction runs once in each interval, and finds the segments sealed by then.
    while stopped.carry_out(Duty::Seal).expect("sealed") {}
    drop(stopped);
    let database = builder(&place, Durability::Os, &clock).open().expect("opened");
    let stopped = builder(&place, Durability::Os, &clock).background(Background::Caller).open().expect("opened");
    (0..2).for_each(|_| database.checkpoint().expect("saved"));
    let before = segments(&place);
    clock.set(Timestamp::from_millis(2_000 + 11 * HOUR_MS));
    let told = loop {
        if let Some(failing) = database.failing().into_iter().find(|failing| failing.duty == Duty::Compact) {
            break failing;
        }
        std::thread::yield_now();
    };
    assert!(told.message.contains(&std::process::id().to_string()), "{}", told.message);
    assert_eq!(segments(&place), before);
    database.compact().expect("it is tried");
    let is_told = || database.failing().iter().any(|failing| failing.duty == Duty::Compact);
    assert!(is_told(), "who compacts by hand hides nothing");
    // The compaction continues once it waits for no process.
    drop(stopped);
    clock.set(Timestamp::from_millis(2_000 + 22 * HOUR_MS));
    while !database.failing().is_empty() || segments(&place) == before {
        std::thread::yield_now();
    }
    expect(&database, 1);
}
