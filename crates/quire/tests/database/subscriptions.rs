//! Named subscriptions: every match becomes exactly one job, with several delivering processes and
//! after crashes.

use std::collections::BTreeMap;
use std::time::Duration;

use quire::events::{Attempts, EventPosition, NewEvent, Query, QueryItem};
use quire::jobs::{JobState, QueueChange, Retry};
use quire::{Background, Database, Durability, Duty, ErrorKind, SubscriptionJob};

use crate::support::Place;

const LONG: Duration = Duration::from_secs(60);

fn open(place: &Place) -> Database {
    place.builder(Durability::Os).background(Background::Caller).open().expect("the database opens")
}

fn append(database: &Database, events: &[&str]) {
    // A commit fits into a segment, which is small here.
    for events in events.chunks(500) {
        let events = events.iter().map(|text| {
            let mut words = text.split(' ');
            let event = NewEvent::new(words.next().expect("a type"));
            words.fold(event, |event, tag| event.tag(tag))
        });
        database.events("school").append(events).expect("appended");
    }
}

fn put(database: &Database, query: Query<'_>, attempts: Attempts<'_>) {
    database.events("school").put_subscription("mailer", query, None, attempts).expect("put");
}

fn fetched(database: &Database, count: u32) -> Vec<SubscriptionJob> {
    database.queue("mailer").fetch_events("w", count).expect("fetched")
}

fn positions(delivered: &[SubscriptionJob]) -> Vec<u64> {
    delivered.iter().map(|delivered| delivered.event.as_ref().expect("an event").position.get()).collect()
}

fn ack(database: &Database, delivered: &SubscriptionJob) {
    database.queue("mailer").ack(delivered.job.job, delivered.job.token, b"").expect("acked");
}

fn position(database: &Database) -> u64 {
    let subscriptions = database.events("school").subscriptions().expect("readable");
    subscriptions.iter().find(|(name, _)| name == "mailer").expect("there").1.position.get()
}

#[test]
fn every_old_and_new_match_is_delivered_once_across_restarts() {
    let place = Place::new();
    let database = open(&place);
    append(&database, &["Joined x:1", "Left x:1", "Joined x:2"]);
    put(&database, QueryItem::new().event_type("Joined").into(), Attempts::default());
    assert!(database.carry_out(Duty::Deliver).expect("no error"));
    append(&database, &["Joined x:3"]);
    drop(database);

    let database = open(&place);
    assert!(database.carry_out(Duty::Deliver).expect("no error"), "what was not delivered is, when it is opened again");
    let delivered = fetched(&database, 10);
    assert_eq!(positions(&delivered), [1, 3, 4]);
    assert_eq!(delivered[0].job.kind, "Joined");
    assert_eq!(String::from_utf8_lossy(&delivered[1].job.payload), r#"{"store":"school","position":3}"#);
    ack(&database, &delivered[0]);
    drop(database);

    let database = open(&place);
    while database.carry_out(Duty::Deliver).expect("no error") {}
    assert_eq!(position(&database), 4);
    let stats = database.queue("mailer").stats().expect("readable").expect("there");
    assert_eq!((stats.active, stats.completed, stats.pending), (2, 1, 0), "two are held, one is done, none came twice");
    ack(&database, &delivered[1]);
}

#[test]
fn members_compete_and_what_fails_is_tried_again_until_it_is_a_dead_letter() {
    let place = Place::new();
    let database = open(&place);
    put(&database, Query::all(), Attempts { attempts_max: 2, backoff_micros: 0, ..Attempts::default() });
    append(&database, &["A", "A"]);
    assert!(database.carry_out(Duty::Deliver).expect("no error"));
    let queue = database.queue("mailer");
    let (mut one, mut other) = (fetched(&database, 1), fetched(&database, 1));
    let (one, other) = (one.remove(0), other.remove(0));
    assert_eq!([&one, &other].map(|delivered| positions(std::slice::from_ref(delivered))[0]), [1, 2]);
    ack(&database, &other);
    queue.fail(one.job.job, one.job.token, "no mail", Retry::Backoff).expect("failed");
    let again = fetched(&database, 10).remove(0);
    assert_eq!((again.job.job, again.job.attempt), (one.job.job, 2));
    let stale = queue.ack(one.job.job, one.job.token, b"").expect_err("the lease is over");
    assert_eq!(stale.kind(), ErrorKind::Refused);
    queue.fail(again.job.job, again.job.token, "no mail", Retry::Backoff).expect("failed");
    assert!(fetched(&database, 10).is_empty());
    let dead = queue.list(JobState::Dead, None, 10).expect("readable");
    assert_eq!(dead.jobs, [one.job.job], "a dead letter");
}

#[test]
fn a_slow_subscriber_has_a_bounded_queue_and_gets_the_rest_as_it_continues() {
    const EVENTS: usize = 5_000;
    let place = Place::new();
    let database = open(&place);
    put(&database, Query::all(), Attempts::default());
    append(&database, &vec!["A"; EVENTS]);
    while database.carry_out(Duty::Deliver).expect("no error") {}
    let queue = database.queue("mailer");
    let waiting = queue.stats().expect("readable").expect("there").pending;
    assert!(waiting <= 1_024, "{waiting} jobs wait");
    let mut seen = Vec::new();
    while seen.len() < EVENTS {
        let delivered = fetched(&database, 1_000);
        assert!(!delivered.is_empty(), "after {} of {EVENTS}", seen.len());
        seen.extend(positions(&delivered));
        delivered.iter().for_each(|delivered| ack(&database, delivered));
        while database.carry_out(Duty::Deliver).expect("no error") {}
    }
    assert_eq!(seen, (1..=EVENTS as u64).collect::<Vec<_>>(), "each once, in order");
}

#[test]
fn a_subscription_delivers_a_few_jobs_at_a_time_to_a_bounded_queue() {
    let place = Place::new();
    let database = open(&place);
    put(&database, Query::all(), Attempts::default());
    database.queue("mailer").set(QueueChange::JobsMax(Some(3))).expect("set");
    append(&database, &["A"; 8]);
    let mut seen = Vec::new();
    while seen.len() < 8 {
        while database.carry_out(Duty::Deliver).expect("no error") {}
        let delivered = fetched(&database, 10);
        assert!((1..=3).contains(&delivered.len()), "{} behind {seen:?}", delivered.len());
        seen.extend(positions(&delivered));
        delivered.iter().for_each(|delivered| ack(&database, delivered));
    }
    assert_eq!(seen, [1, 2, 3, 4, 5, 6, 7, 8]);
}

#[test]
fn a_paused_or_draining_queue_delays_no_other_and_continues_later() {
    let place = Place::new();
    let database = open(&place);
    put(&database, Query::all(), Attempts::default());
    let queue = database.queue("mailer");
    queue.set(QueueChange::Draining(true)).expect("set");
    append(&database, &["A", "A"]);
    assert!(!database.carry_out(Duty::Deliver).expect("no error"));
    queue.set(QueueChange::Draining(false)).expect("set");
    assert!(database.carry_out(Duty::Deliver).expect("no error"));
    queue.set(QueueChange::Paused(true)).expect("set");
    assert!(fetched(&database, 10).is_empty());
    append(&database, &["A"]);
    queue.set(QueueChange::Paused(false)).expect("set");
    assert!(database.carry_out(Duty::Deliver).expect("no error"));
    assert_eq!(positions(&fetched(&database, 10)), [1, 2, 3]);
}

#[test]
fn groups_are_named_by_a_tag_and_their_limit_holds() {
    let place = Place::new();
    let database = open(&place);
    put(&database, Query::all(), Attempts { group_by: "student:".into(), ..Attempts::default() });
    database.queue("mailer").set(QueueChange::GroupActiveMax(Some(1))).expect("set");
    append(&database, &["A student:1 course:1", "A course:1 student:1", "A student:2"]);
    assert!(database.carry_out(Duty::Deliver).expect("no error"));
    let delivered = fetched(&database, 10);
    let groups: BTreeMap<_, _> =
        positions(&delivered).into_iter().zip(delivered.iter().map(|one| &*one.job.group)).collect();
    assert_eq!(groups, BTreeMap::from([(1, "student:1"), (3, "student:2")]));
}

#[test]
fn a_subscription_without_matches_advances_too_and_restarts_at_a_given_position() {
    let place = Place::new();
    let database = open(&place);
    let only = |event_type: &'static str| Query::from(QueryItem::new().event_type(event_type));
    put(&database, only("B"), Attempts::default());
    append(&database, &vec!["A"; 9_999]);
    assert!(!database.carry_out(Duty::Deliver).expect("no error"));
    assert_eq!(position(&database), 0, "a look that found nothing is not worth a record");
    append(&database, &["A"]);
    assert!(database.carry_out(Duty::Deliver).expect("no error"));
    assert_eq!(position(&database), 10_000, "but not all of it is looked at again after a restart");
    append(&database, &["B"]);
    assert!(database.carry_out(Duty::Deliver).expect("no error"));
    assert_eq!(positions(&fetched(&database, 10)), [10_001]);

    // The read position of one query does not apply to another query.
    append(&database, &["A", "C"]);
    assert!(!database.carry_out(Duty::Deliver).expect("no error"));
    put(&database, only("C"), Attempts::default());
    assert!(database.carry_out(Duty::Deliver).expect("no error"));
    assert_eq!(positions(&fetched(&database, 10)), [10_003]);
    let store = database.events("school");
    store.put_subscription("mailer", only("B"), Some(EventPosition::ZERO), Attempts::default()).expect("put");
    assert!(database.carry_out(Duty::Deliver).expect("no error"));
    assert_eq!(positions(&fetched(&database, 10)), [10_001], "delivered again");
    store.drop_subscription("mailer").expect("dropped");
    append(&database, &["B"]);
    assert!(!database.carry_out(Duty::Deliver).expect("no error"));
    assert!(fetched(&database, 10).is_empty());
}

#[test]
fn delivered_jobs_wake_waiters_of_every_handle_on_the_database() {
    let place = Place::new();
    let writer = place.builder(Durability::Sync).open().expect("the database opens");
    let reader = place.builder(Durability::Sync).open().expect("it is shared");
    put(&writer, Query::all(), Attempts::default());
    append(&writer, &["A", "A"]);
    let mut seen = Vec::new();
    while seen.len() < 2 {
        let published = reader.published();
        let delivered = fetched(&reader, 1);
        if delivered.is_empty() {
            assert!(reader.wait_after(published, LONG).expect("no error"), "nothing came");
        }
        seen.extend(positions(&delivered));
        delivered.iter().for_each(|delivered| ack(&reader, delivered));
    }
    assert_eq!(seen, [1, 2]);
}

#[test]
fn one_delivery_fits_into_the_smallest_commits() {
    let place = Place::new();
    let small = place.builder(Durability::Os).segment_bytes(4 << 10).background(Background::Caller);
    let database = small.open().expect("the database opens");
    put(&database, Query::all(), Attempts::default());
    (0..200).for_each(|_| append(&database, &["A"]));
    while database.carry_out(Duty::Deliver).expect("no error") {}
    assert_eq!(database.queue("mailer").stats().expect("readable").expect("there").pending, 200);
}
