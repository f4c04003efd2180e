//! Closing a database: its remaining files, and the handles that may outlive it. The directory is
//! free right afterwards.

use std::future::Future;
use std::pin::pin;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake, Waker};

use quire::events::NewEvent;
use quire::jobs::JobSpec;
use quire::{Commit, Database, Durability, ManualClock, NextPublication, Position, Timestamp};

use crate::support::{Place, block_on};

fn append(database: &Database) -> quire::Ticket<quire::Outcome> {
    database.submit(&Commit::new().append("store", [NewEvent::new("Made")])).expect("submitted")
}

/// Ends the other thread of a test, even if this thread panics.
struct Done<'t>(&'t AtomicBool);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_database_can_be_opened_again_as_soon_as_its_last_handle_is_dropped() {
    let place = Place::new();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // A process that is starting has every file of this process open for a moment.
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                Command::new("true").status().expect("a process is started");
            }
        });
        let _done = Done(&done);
        for number in 1..=100 {
            let database = place.open(Durability::Os);
            let _os = append(&database);
            assert_eq!(database.published(), Position::new(number));
        }
    });
}

#[test]
fn every_clone_is_the_same_database_and_the_last_one_closes_it() {
    let place = Place::new();
    let database = place.open(Durability::Sync);
    let clones: Vec<_> = (0..4).map(|_| database.clone()).collect();
    let threads: Vec<_> = clones
        .into_iter()
        .map(|database| std::thread::spawn(move || append(&database).wait().expect("durable").committed().map(|_| ())))
        .collect();
    drop(database);
    threads.into_iter().for_each(|thread| thread.join().expect("no panic").expect("accepted"));
    assert_eq!(place.open(Durability::Sync).published(), Position::new(4));
}

#[test]
fn closing_makes_commits_without_a_waiter_durable() {
    let place = Place::new();
    let database = place.open(Durability::Sync);
    std::mem::drop(append(&database));
    drop(database);
    assert_eq!(place.open(Durability::Sync).published(), Position::new(1));
}

#[test]
fn a_ticket_outlives_its_database() {
    let place = Place::new();
    let database = place.open(Durability::Sync);
    let (waited, awaited) = (append(&database), append(&database));
    drop(database);
    let other = place.open(Durability::Sync);
    let of_other = append(&other);
    drop(other);
    block_on(awaited).expect("durable").committed().expect("accepted");
    waited.wait().expect("durable").committed().expect("accepted");
    of_other.wait().expect("durable").committed().expect("accepted");
    assert_eq!(place.open(Durability::Sync).published(), Position::new(3));
}

#[test]
fn a_history_outlives_its_database_and_shows_what_it_showed() {
    let place = Place::new();
    let database = place.open(Durability::Os);
    let _first = append(&database);
    let history = database.history();
    drop((database, _first));
    let database = place.open(Durability::Os);
    let _second = append(&database);
    let kinds = |position| history.record(Position::new(position)).unwrap().map(Iterator::count);
    assert_eq!((kinds(1), kinds(2)), (Some(2), None), "the store and its event, and nothing later");
    assert!(database.history().record(Position::new(2)).unwrap().is_some());
}

/// A task of an executor that has ended. Waking the task drops its data: the last handle of a
/// database.
struct Abandoned {
    database: Mutex<Option<Database>>,
    dropped: Sender<()>,
}

impl Wake for Abandoned {
    fn wake(self: Arc<Self>) {
        drop(self.database.lock().expect("not poisoned").take());
        self.dropped.send(()).expect("the test waits for it");
    }
}

/// Leaves the last handle of a database to a task that waits for the next record.
fn abandon(database: Database) -> (NextPublication, Receiver<()>) {
    let (dropped, is_dropped) = channel();
    let mut publication = database.publication_after(database.published());
    let waker = Waker::from(Arc::new(Abandoned { database: Mutex::new(Some(database)), dropped }));
    assert!(pin!(&mut publication).poll(&mut Context::from_waker(&waker)).is_pending());
    (publication, is_dropped)
}

#[test]
fn the_thread_that_syncs_may_be_the_one_to_close_the_database() {
    let place = Place::new();
    let database = place.open(Durability::Sync);
    let ticket = append(&database);
    let (publication, is_dropped) = abandon(database);
    block_on(ticket).expect("durable").committed().expect("accepted");
    is_dropped.recv().expect("it was woken");
    drop(publication);
    assert_eq!(place.open(Durability::Sync).published(), Position::new(1));
}

#[test]
fn the_thread_that_watches_the_time_may_be_the_one_to_close_the_database() {
    let place = Place::new();
    let clock = Arc::new(ManualClock::new(Timestamp::from_millis(1_000)));
    let database = place.builder(Durability::Os).clock(clock.clone()).open().expect("the database opens");
    let later = JobSpec { run_at: Some(Timestamp::from_millis(2_000)), ..JobSpec::new(b"job") };
    database.queue("queue").enqueue(later).expect("accepted");
    let (publication, is_dropped) = abandon(database);
    clock.set(Timestamp::from_millis(2_000));
    is_dropped.recv().expect("it was woken");
    drop(publication);
    let reopened = place.open(Durability::Os);
    let stats = reopened.queue("queue").stats().expect("readable").expect("there");
    assert_eq!((stats.scheduled, stats.pending), (0, 1));
}
