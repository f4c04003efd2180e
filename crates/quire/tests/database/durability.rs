//! Replies and reads of a `sync` database, and their time: none shows anything that a crash could
//! undo.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use quire::events::{Condition, EventPosition, NewEvent, Query, QueryItem};
use quire::jobs::JobSpec;
use quire::{Background, Commit, Database, Durability, Message, NewBlock, Position, Sequence};

use crate::support::{Place, block_on, everything};

/// One commit over all models.
fn commit(database: &Database) -> quire::Ticket<quire::Outcome> {
    let commit = Commit::new()
        .append("store", [NewEvent::new("Made").tag("id:1")])
        .produce("topic", Message::new("m"))
        .enqueue("queue", JobSpec::new(b"j"))
        .put_block("graph", NewBlock::new("a", "thing"));
    database.submit(&commit).expect("submitted")
}

/// The view of readers of the published log: the tail, the record, the store's head, the topic's
/// end.
fn published(database: &Database) -> (Position, bool, EventPosition, Option<Sequence>) {
    let record = database.history().record(Position::new(1)).unwrap().is_some();
    let next = database.topic("topic").offsets(0).ok().map(|offsets| offsets.next);
    (database.published(), record, database.events("store").head().expect("readable"), next)
}

#[test]
fn a_submitted_commit_is_visible_only_once_it_is_durable() {
    let place = Place::new();
    let database = place.open(Durability::Sync);
    let ticket = commit(&database);
    let hidden = (Position::ZERO, false, EventPosition::ZERO, Some(Sequence::new(0)));
    assert_eq!(published(&database), hidden);
    assert!(!database.wait_after(Position::ZERO, Duration::ZERO).expect("answered"));
    let shown = (Position::new(1), true, EventPosition::new(1), Some(Sequence::new(1)));
    let committed = ticket.wait().expect("durable").committed().expect("accepted");
    assert_eq!(committed.at.position, Position::new(1));
    assert_eq!(published(&database), shown);
    drop(database);
    assert_eq!(published(&place.open(Durability::Sync)), shown);
}

#[test]
fn submitted_messages_are_stored_in_order_and_one_sync_answers_all() {
    let place = Place::new();
    // Only a waiting thread syncs.
    let database = place.builder(Durability::Sync).background(Background::Caller).open().expect("opened");
    let topic = database.topic("topic");
    let mut producer = topic.producer();
    let payloads: Vec<Vec<u8>> = (0..100).map(|number: u8| vec![number; number.into()]).collect();
    let tickets: Vec<_> = payloads.iter().map(|payload| producer.submit(&[Message::new(payload)])).collect();
    assert_eq!(database.published(), Position::ZERO, "nothing is shown before it is durable");
    let elsewhere = producer.submit(&[Message::new(b"m").partition(1)]).expect("submitted");
    let syncs = database.statistics().syncs;
    // Waits from the last ticket to the first: the sync for the last one covers the others.
    for (number, ticket) in tickets.into_iter().enumerate().rev() {
        let produced = ticket.expect("submitted").wait().expect("durable").expect("accepted");
        assert_eq!((produced.base_offset.get(), produced.partition), (number as u64, 0));
    }
    assert_eq!(database.statistics().syncs, syncs + 1);
    let refused = elsewhere.wait().expect("answered").expect_err("there is one partition");
    assert!(refused.to_string().contains("unknown partition 1"), "{refused}");
    // A refusal leaves nothing in the log: the next message gets the next offset.
    assert_eq!(producer.produce(&[Message::new(b"m")]).expect("accepted").base_offset.get(), 100);
    let fetched = topic.fetch(0, Sequence::new(0), usize::MAX).expect("readable");
    let values: Vec<_> = fetched.records.iter().take(100).map(|record| record.value.clone().unwrap()).collect();
    assert_eq!(values, payloads);
}

#[test]
fn a_record_that_another_process_made_durable_is_visible_despite_an_earlier_decision_on_it() {
    let place = Place::new();
    let open = || place.builder(Durability::Sync).background(Background::Caller).open().expect("opened");
    let (database, other) = (open(), open());
    let ticket = commit(&database);
    let claim = Condition::fail_if_matches(Query::from(QueryItem::new().tag("id:1")));
    let claim = Commit::new().append_if("store", [NewEvent::new("Made").tag("id:1")], [claim]);
    let refused = other.submit(&claim).expect("submitted");
    assert_eq!(published(&other).0, Position::ZERO, "what it was decided on is not durable");
    ticket.wait().expect("durable").committed().expect("accepted");
    let shown = (Position::new(1), true, EventPosition::new(1), Some(Sequence::new(1)));
    assert_eq!(published(&other), shown);
    assert!(refused.wait().expect("durable").committed().is_err());
}

#[test]
fn in_an_os_database_what_was_submitted_is_there_at_once() {
    let place = Place::new();
    let database = place.open(Durability::Os);
    let _unwaited = commit(&database);
    assert_eq!(published(&database), (Position::new(1), true, EventPosition::new(1), Some(Sequence::new(1))));
}

#[test]
fn a_read_of_the_state_is_answered_when_all_it_may_rest_on_is_durable() {
    let place = Place::new();
    let database = place.open(Durability::Sync);
    let _unwaited = commit(&database);
    let ticket = database.read(|view| view.jobs.queue_stats("queue").map(|stats| stats.pending)).expect("readable");
    assert_eq!(database.published(), Position::ZERO);
    assert_eq!(ticket.wait().expect("durable"), Some(1));
    assert_eq!(database.published(), Position::new(1));
}

#[test]
fn a_refusal_is_returned_once_the_conflicting_commit_is_durable() {
    let place = Place::new();
    let database = place.open(Durability::Sync);
    let _unwaited = commit(&database);
    let taken = Condition::fail_if_matches(Query::from(QueryItem::new().tag("id:1")));
    let refused = database.submit(&Commit::new().append_if("store", [], [taken])).expect("submitted");
    assert_eq!(database.published(), Position::ZERO);
    refused.wait().expect("durable").refused().expect("refused");
    assert_eq!(database.published(), Position::new(1));
}

#[test]
fn a_ticket_can_be_awaited_without_a_runtime() {
    for durability in [Durability::Os, Durability::Sync] {
        let place = Place::new();
        let database = place.open(durability);
        let publication = database.publication_after(Position::ZERO);
        let committed = block_on(commit(&database)).expect("durable").committed().expect("accepted");
        assert_eq!(committed.at.position, Position::new(1));
        block_on(publication).expect("published");
        assert_eq!(block_on(database.read(|view| view.jobs.next_due()).expect("readable")).expect("durable"), None);
        drop(database);
        assert_eq!(place.open(durability).published(), Position::new(1));
    }
}

#[test]
fn one_sync_answers_every_commit_before_it() {
    let place = Place::new();
    let database = place.open(Durability::Sync);
    let before = database.statistics().syncs;
    let mut tickets: Vec<_> = (0..100).map(|_| commit(&database)).collect();
    tickets.pop().expect("a hundred").wait().expect("durable").committed().expect("accepted");
    for ticket in tickets {
        ticket.wait().expect("durable").committed().expect("accepted");
    }
    assert_eq!(database.statistics().syncs - before, 1);
    drop(database);
    assert_eq!(place.open(Durability::Sync).published(), Position::new(100));
}

#[test]
fn a_commit_becomes_durable_also_without_a_waiter() {
    let place = Place::new();
    let database = place.open(Durability::Sync);
    drop(commit(&database));
    block_on(database.publication_after(Position::ZERO)).expect("published");
    // The same holds for a ticket that was polled and then dropped.
    drop(commit(&database).into_future());
    block_on(database.publication_after(Position::new(1))).expect("published");
}

#[test]
fn every_commit_of_many_threads_is_durable_when_it_is_answered() {
    let place = Place::new();
    let database = place.open(Durability::Sync);
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let database = &database;
            scope.spawn(move || {
                for _ in 0..50 {
                    let ticket = commit(database);
                    let outcome = if thread % 2 == 0 { ticket.wait() } else { block_on(ticket) };
                    let committed = outcome.expect("durable").committed().expect("accepted");
                    assert!(database.published() >= committed.at.position);
                    assert!(database.history().record(committed.at.position).unwrap().is_some());
                }
            });
        }
    });
    assert_eq!(database.published(), Position::new(400));
    let live = everything(&database);
    drop(database);
    assert_eq!(live, everything(&place.open(Durability::Sync)));
}

/// Counts its wake-ups.
#[derive(Default)]
struct WakeCounter(AtomicUsize);

impl Wake for WakeCounter {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn whoever_waits_for_an_arrival_is_woken_by_the_commit_and_not_before() {
    let place = Place::new();
    let database = place.open(Durability::Os);
    let wakes = Arc::new(WakeCounter::default());
    let waker = Waker::from(Arc::clone(&wakes));
    let mut publication = Box::pin(database.publication_after(Position::ZERO));
    assert!(publication.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    assert_eq!(wakes.0.load(Ordering::SeqCst), 0);
    let _os = commit(&database);
    assert_eq!(wakes.0.load(Ordering::SeqCst), 1);
    assert!(matches!(publication.as_mut().poll(&mut Context::from_waker(&waker)), Poll::Ready(Ok(()))));
}

#[test]
fn nothing_ever_comes_after_the_last_position_there_can_be() {
    let place = Place::new();
    let database = place.open(Durability::Os);
    let _os = commit(&database);
    assert!(!database.wait_after(Position::MAX, Duration::ZERO).expect("answered"));
    let mut publication = Box::pin(database.publication_after(Position::MAX));
    assert!(publication.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
}
