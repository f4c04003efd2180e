//! Background duties: time passes in the queues without a worker that fetches.

use std::sync::{Arc, Barrier};
use std::time::Duration;

use quire::jobs::{Backoff, JobSpec, QueueStats};
use quire::{Commit, Database, Durability, ManualClock, Message, Timestamp};

use crate::support::{Place, Telling, block_on};

fn stats(database: &Database) -> QueueStats {
    database.queue("queue").stats().expect("readable").expect("there")
}

/// Waits from record to record, as a worker does that waits for jobs, until the queue is as wanted.
fn wait_until(database: &Database, is_wanted: impl Fn(QueueStats) -> bool) {
    loop {
        let seen = database.published();
        let read = database.read_published(|view| view.jobs.queue_stats("queue")).expect("readable");
        if read.is_some_and(&is_wanted) {
            return;
        }
        block_on(database.publication_after(seen)).expect("published");
    }
}

#[test]
fn a_job_with_an_expired_lease_is_pending_again_without_a_fetch() {
    for durability in [Durability::Os, Durability::Sync] {
        let place = Place::new();
        let clock = Arc::new(ManualClock::new(Timestamp::from_millis(1_000)));
        let open = || place.builder(durability).clock(clock.clone()).open().expect("opened");
        let database = open();
        database.queue("queue").enqueue(JobSpec::new(b"job")).expect("accepted");
        let queue = database.queue("queue").lease(Duration::from_secs(3600));
        assert_eq!(queue.fetch("worker", 1).expect("accepted").len(), 1);
        assert_eq!(stats(&database).active, 1);
        clock.set(Timestamp::from_millis(1_000 + 3_600_000));
        wait_until(&database, |stats| stats.pending == 1);
        drop(database);
        let stats = stats(&open());
        assert_eq!((stats.pending, stats.active), (1, 0));
    }
}

#[test]
fn a_lease_that_expired_while_the_database_was_closed_ends_when_it_opens() {
    let place = Place::new();
    let clock = Arc::new(ManualClock::new(Timestamp::from_millis(1_000)));
    let open = || place.builder(Durability::Sync).clock(clock.clone()).open().expect("opened");
    let database = open();
    database.queue("queue").enqueue(JobSpec::new(b"job")).expect("accepted");
    assert_eq!(database.queue("queue").fetch("worker", 1).expect("accepted").len(), 1);
    drop(database);
    clock.set(Timestamp::from_millis(100_000));
    wait_until(&open(), |stats| stats.pending == 1);
}

#[test]
fn a_lease_ends_after_its_time_though_the_clock_steps_back() {
    for durability in [Durability::Os, Durability::Sync] {
        let place = Place::new();
        let clock = Arc::new(ManualClock::new(Timestamp::from_millis(10_000_000)));
        let open = || place.builder(durability).clock(clock.clone()).open().expect("opened");
        let database = open();
        database
            .queue("queue")
            .enqueue(JobSpec { attempts_max: 9, backoff: Backoff::None, ..JobSpec::new(b"job") })
            .expect("accepted");
        let fetch = |database: &Database| {
            let fetched = database.queue("queue").lease(Duration::from_secs(60)).fetch("worker", 1).expect("accepted");
            assert_eq!(fetched.len(), 1);
        };
        fetch(&database);
        clock.step(Timestamp::from_millis(1_000_000));
        assert_eq!(database.now(), Timestamp::from_millis(10_000_000));
        clock.set(Timestamp::from_millis(1_060_000));
        wait_until(&database, |stats| stats.pending == 1);
        fetch(&database);
        drop(database);
        // Also in a database that was opened while the clock is behind the last record.
        let database = open();
        assert_eq!(stats(&database).active, 1);
        clock.set(Timestamp::from_millis(1_120_000));
        wait_until(&database, |stats| stats.pending == 1);
    }
}

#[test]
fn a_job_that_is_due_sooner_than_the_one_before_it_is_not_late() {
    let place = Place::new();
    let database = place.open(Durability::Os);
    let at = |seconds: u64| Some(database.now().plus_micros(seconds * 1_000_000));
    for seconds in [100_000, 10_000, 0] {
        let job = JobSpec { run_at: at(seconds).map(|time| time.plus_micros(1_000)), ..JobSpec::new(b"job") };
        database.queue("queue").enqueue(job).expect("accepted");
    }
    wait_until(&database, |stats| stats.pending == 1 && stats.scheduled == 2);
}

#[test]
fn more_jobs_than_one_record_takes_are_all_noticed() {
    let place = Place::new();
    let clock = Arc::new(ManualClock::new(Timestamp::from_millis(1_000)));
    let database = place.builder(Durability::Os).clock(clock.clone()).open().expect("opened");
    let later = JobSpec { run_at: Some(Timestamp::from_millis(2_000)), ..JobSpec::new(b"job") };
    for _ in 0..5 {
        let commit = (0..500).fold(Commit::new(), |commit, _| commit.enqueue("queue", later));
        database.commit(&commit).expect("durable").committed().expect("accepted");
    }
    clock.set(Timestamp::from_millis(2_000));
    wait_until(&database, |stats| stats.pending == 2_500);
}

#[test]
fn no_lease_is_forgotten_when_another_commit_reports_nothing_due_soon() {
    let place = Place::new();
    let database = place.open(Durability::Os);
    let job = JobSpec { attempts_max: u16::MAX, backoff: Backoff::None, ..JobSpec::new(b"job") };
    database.queue("queue").enqueue(job).expect("accepted");
    let far = JobSpec { run_at: Some(Timestamp::from_micros(253_402_300_799_999_999)), ..JobSpec::new(b"far") };
    for _ in 0..200 {
        let start = Barrier::new(2);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                start.wait();
                database.queue("queue").enqueue(far).expect("accepted");
            });
            start.wait();
            let queue = database.queue("queue").lease(Duration::from_micros(200));
            assert_eq!(queue.fetch("worker", 1).expect("accepted").len(), 1);
        });
        wait_until(&database, |stats| stats.active == 0);
    }
}

#[test]
fn no_lease_is_forgotten_when_many_threads_lease_at_once() {
    for durability in [Durability::Os, Durability::Sync] {
        let place = Place::new();
        let database = place.open(durability);
        let job = JobSpec { attempts_max: u16::MAX, backoff: Backoff::None, ..JobSpec::new(b"job") };
        let commit = (0..400).fold(Commit::new(), |commit, _| commit.enqueue("queue", job));
        database.commit(&commit).expect("durable").committed().expect("accepted");
        std::thread::scope(|scope| {
            for thread in 0..4u64 {
                let database = &database;
                scope.spawn(move || {
                    for number in 0..50u64 {
                        // Later and sooner in turns.
                        let lease = Duration::from_micros(1 + (number * 7 + thread * 13) % 20 * 500);
                        database.queue("queue").lease(lease).fetch("worker", 1).expect("accepted");
                    }
                });
            }
        });
        wait_until(&database, |stats| stats.active == 0 && stats.pending == 400);
    }
}

#[test]
fn a_job_whose_time_has_come_waits_for_no_checkpoint() {
    let place = Place::new();
    let clock = Arc::new(ManualClock::new(Timestamp::from_millis(1_000)));
    let storage = Arc::new(Telling::default());
    let builder = place.builder(Durability::Os).clock(clock.clone()).storage(storage.storage());
    // A checkpoint that is replayed starts from the one before.
    let database = builder.checkpoint_bytes(1 << 16).checkpoint_pause_bytes(0).open().expect("opened");
    let later = JobSpec { run_at: Some(Timestamp::from_millis(5_000)), ..JobSpec::new(b"job") };
    database.queue("queue").enqueue(later).expect("accepted");
    database.checkpoint().expect("saved");
    let (told, go_on) = storage.hold();
    while told.try_recv().is_err() {
        database.topic("topic").produce(Message::new([b'm'; 10_000])).expect("accepted");
    }
    clock.set(Timestamp::from_millis(5_000));
    wait_until(&database, |stats| stats.pending == 1);
    go_on.send(()).expect("awaited");
    storage.let_go();
}
