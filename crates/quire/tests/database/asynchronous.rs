//! The asynchronous forms on a runtime: workers, consumers, and streams.

use std::future::pending;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use quire::events::{EventPosition, NewEvent, Query, QueryItem};
use quire::{
    Commit, ConsumerSettings, Database, Delivery, Durability, ErrorKind, HandlerError, JobOutcome, Message, NewJob,
    Sequence,
};
use tokio::runtime::{Builder, Runtime};
use tokio_stream::StreamExt;

use crate::support::Place;

/// A runtime of this thread.
fn runtime() -> Runtime {
    Builder::new_current_thread().enable_time().build().expect("a runtime")
}

/// A runtime of several threads.
fn threads() -> Runtime {
    Builder::new_multi_thread().worker_threads(2).enable_time().build().expect("a runtime")
}

fn texts(delivery: &Delivery) -> Vec<String> {
    let text = |value: Option<&[u8]>| String::from_utf8_lossy(value.unwrap_or_default()).into_owned();
    delivery.records().map(|record| text(record.value)).collect()
}

fn produce(database: &Database, values: &[&str]) {
    for value in values {
        database.topic("t").produce(Message::new(*value)).expect("produced");
    }
}

fn consumer(database: &Database, settings: ConsumerSettings) -> quire::Consumer {
    database.topic("t").consumer("g", settings).expect("a consumer")
}

fn committed(database: &Database) -> Option<u64> {
    database.topic("t").committed_offset("g", 0).expect("a topic").map(Sequence::get)
}

#[test]
fn a_consumer_commits_the_offset_with_the_commit_of_an_asynchronous_handler() {
    let place = Place::new();
    let database = place.open(Durability::Os);
    produce(&database, &["17", "18"]);
    let mut consumer = consumer(&database, ConsumerSettings { records_max: 1, ..ConsumerSettings::default() });
    let (stop, handled) = (consumer.stopper(), AtomicU32::new(0));
    let done = runtime().block_on(consumer.run_async(|delivery| {
        if handled.fetch_add(1, Ordering::Relaxed) == 1 {
            stop.stop();
        }
        async move {
            tokio::task::yield_now().await;
            let order: u32 = texts(&delivery)[0].parse()?;
            Ok(Commit::new().append("s", [NewEvent::new("Mailed").tag(format!("order:{order}"))]))
        }
    }));
    done.expect("stopped");
    drop(consumer);
    drop(database);
    let database = place.open(Durability::Os);
    assert_eq!(committed(&database), Some(2));
    let orders = Query::from(QueryItem::new().event_type("Mailed"));
    let events = database.events("s").read(&orders, Default::default()).expect("read").events;
    let tags: Vec<_> = events.iter().map(|event| event.tags[0].clone()).collect();
    assert_eq!(tags, [b"order:17".to_vec(), b"order:18".to_vec()]);
}

#[test]
fn an_asynchronous_handler_that_fails_is_retried_and_then_put_into_the_dead_letters() {
    let place = Place::new();
    let database = place.open(Durability::Os);
    produce(&database, &["good", "bad"]);
    let settings = ConsumerSettings {
        records_max: 1,
        retries: 2,
        backoff: Duration::from_millis(1),
        dead_letter: Some("dead".to_owned()),
        ..ConsumerSettings::default()
    };
    let mut consumer = consumer(&database, settings);
    let reported = Arc::new(Mutex::new(Vec::new()));
    let (reports, stop) = (Arc::clone(&reported), consumer.stopper());
    consumer.on_error(move |_, error, failures| {
        reports.lock().expect("no panic").push((error.to_owned(), failures));
        if failures == 3 {
            stop.stop();
        }
    });
    let tries = Mutex::new(Vec::new());
    let done = runtime().block_on(consumer.run_async(|delivery| {
        tries.lock().expect("no panic").push(texts(&delivery)[0].clone());
        async move { if texts(&delivery) == ["bad"] { Err("it can't be read".into()) } else { Ok(Commit::new()) } }
    }));
    done.expect("stopped");
    assert_eq!(committed(&database), Some(2));
    assert_eq!(*tries.lock().expect("no panic"), ["good", "bad", "bad", "bad"]);
    let failures = |count| ("it can't be read".to_owned(), count);
    assert_eq!(*reported.lock().expect("no panic"), [failures(1), failures(2), failures(3)]);
    let dead = database.topic("dead").fetch(0, Sequence::new(0), 1 << 20).expect("read").records;
    assert_eq!(dead[0].value.as_deref(), Some(&b"bad"[..]));
}

#[test]
fn a_refused_commit_of_an_asynchronous_handler_is_decided_again() {
    let place = Place::new();
    let database = place.open(Durability::Os);
    produce(&database, &["17"]);
    let mut consumer = consumer(&database, ConsumerSettings::default());
    let (stop, handled) = (consumer.stopper(), AtomicU32::new(0));
    let done = runtime().block_on(consumer.run_async(|_| {
        let earlier = handled.fetch_add(1, Ordering::Relaxed);
        if earlier == 1 {
            stop.stop();
        }
        // A job that does not exist refuses the first commit.
        let commit = Commit::new().append("s", [NewEvent::new("Decided")]);
        let missing = "7-0".parse().expect("an id");
        let token = "7-1".parse().expect("a token");
        async move { Ok(if earlier == 0 { commit.ack(missing, token, "") } else { commit }) }
    }));
    done.expect("stopped");
    assert_eq!((handled.into_inner(), committed(&database)), (2, Some(1)));
    assert_eq!(database.events("s").head().expect("read"), EventPosition::new(1));
}

#[test]
fn a_failure_without_dead_letters_ends_the_asynchronous_reading() {
    let place = Place::new();
    let database = place.open(Durability::Os);
    produce(&database, &["bad"]);
    let mut consumer = consumer(&database, ConsumerSettings { retries: 0, ..ConsumerSettings::default() });
    let failed = runtime()
        .block_on(consumer.process_async(pending(), |_| async { Err::<Commit<'static>, HandlerError>("no".into()) }));
    assert_eq!(failed.expect_err("failed").kind(), ErrorKind::Handler);
    assert_eq!(committed(&database), None);
    assert_eq!(texts(&consumer.poll().expect("read").expect("the same records")), ["bad"]);
}

#[test]
fn an_idle_consumer_and_an_idle_worker_stop_at_once() {
    let place = Place::new();
    let database = place.open(Durability::Os);
    database.topic("t").create(1).expect("created");
    let mut consumer = consumer(&database, ConsumerSettings::default());
    let worker = database.queue("q").worker("w");
    let stops = [consumer.stopper(), worker.stopper()];
    threads().block_on(async move {
        let reading = tokio::spawn(async move { consumer.run_async(|_| async { Ok(Commit::new()) }).await });
        let working = tokio::spawn(worker.run_async(|_| async {}));
        tokio::task::yield_now().await;
        stops.iter().for_each(quire::Stopper::stop);
        reading.await.expect("no panic").expect("stopped");
        assert_eq!(working.await.expect("no panic").expect("stopped").completed, 0);
    });
}

#[test]
fn an_asynchronous_worker_finishes_jobs_by_every_outcome() {
    let place = Place::new();
    let database = place.open(Durability::Os);
    for payload in ["commit", "fail", "error", "panic", "snooze"] {
        database.queue("q").enqueue(NewJob::new(payload).attempts_max(1)).expect("enqueued");
    }
    let worker = database.queue("q").worker("w").concurrency(2);
    let (stop, left) = (worker.stopper(), Arc::new(AtomicU32::new(5)));
    let summary = threads().block_on(worker.run_async(move |job| {
        let (stop, left) = (stop.clone(), Arc::clone(&left));
        async move {
            if left.fetch_sub(1, Ordering::Relaxed) == 1 {
                stop.stop();
            }
            Ok(match &job.payload[..] {
                b"commit" => Commit::new().append("s", [NewEvent::new("Worked")]).into(),
                b"fail" => JobOutcome::fail("no", quire::jobs::Retry::Never),
                b"error" => return Err(String::from_utf8(vec![0xff]).expect_err("not text").into()),
                b"panic" => panic!("at work"),
                _ => JobOutcome::snooze(Duration::from_secs(60)),
            })
        }
    }));
    let summary = summary.expect("worked");
    assert_eq!((summary.completed, summary.failed, summary.snoozed, summary.refused), (1, 3, 1, 0));
    assert_eq!(database.events("s").head().expect("read"), EventPosition::new(1));
    let stats = database.queue("q").stats().expect("read").expect("a queue");
    assert_eq!((stats.completed, stats.dead, stats.scheduled), (1, 3, 1));
}

#[test]
fn streams_return_what_was_there_and_what_comes() {
    let place = Place::new();
    let database = place.open(Durability::Os);
    database.events("s").append([NewEvent::new("First")]).expect("appended");
    produce(&database, &["first"]);
    let mut events =
        database.events("s").subscribe(Query::all(), EventPosition::ZERO).expect("subscribed").into_stream();
    let mut records = consumer(&database, ConsumerSettings::default()).into_stream();
    threads().block_on(async {
        let event = |next: Option<quire::Result<quire::Event>>| next.expect("no end").expect("read").event_type;
        assert_eq!(event(events.next().await), "First");
        let delivery = records.next().await.expect("no end").expect("read");
        assert_eq!(texts(&delivery), ["first"]);
        records.consumer().ack(&delivery).expect("acknowledged");

        let writer = database.clone();
        let later = tokio::task::spawn_blocking(move || {
            writer.events("s").append([NewEvent::new("Second")]).expect("appended");
            produce(&writer, &["second"]);
        });
        assert_eq!(event(events.next().await), "Second");
        assert_eq!(texts(&records.next().await.expect("no end").expect("read")), ["second"]);
        later.await.expect("no panic");
    });
    assert_eq!(committed(&database), Some(1), "only the first delivery was acknowledged");
}
