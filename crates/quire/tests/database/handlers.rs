//! Commits that own their data, handles that move into threads, and handlers whose commit includes
//! the acknowledgement.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use quire::events::{Condition, NewEvent, Query, QueryItem};
use quire::graph::{BlockId, Version};
use quire::jobs::{JobState, Refusal, Retry};
use quire::{
    BlockKey, Commit, Database, Durability, ErrorKind, JobOutcome, Message, NewBlock, NewEdge, NewJob, Outcome, Reason,
    UniqueKey,
};

use crate::support::Place;

/// Every kind of part, with computed values in all places.
fn computed(order: u32) -> Commit<'static> {
    let name = |what: &str| format!("{what}{order}");
    let unseen = Query::from(QueryItem::new().event_type(name("Placed")).tag(name("order:")));
    Commit::new()
        .append_if(
            name("store"),
            [NewEvent::new(name("Placed"))
                .tag(name("order:"))
                .data(name("data"))
                .metadata(order.to_be_bytes().to_vec())],
            [Condition::fail_if_matches(unseen)],
        )
        .upstream(name("store"), name("source"), 1)
        .produce(
            name("topic"),
            Message::new(name("value"))
                .key(name("key"))
                .header("borrowed", "first")
                .header(name("header"), name("owned")),
        )
        .commit_offset(name("group"), name("topic"), 0, quire::Sequence::new(1))
        .enqueue(
            name("queue"),
            NewJob::new(name("payload"))
                .kind(name("kind"))
                .group(name("group"))
                .tag(name("tag"))
                .unique(name("unique")),
        )
        .put_block(
            name("graph"),
            NewBlock::new(name("block"), name("kind")).tag(name("tag")).source(name("source")).content(name("content")),
        )
        .put_block(name("graph"), NewBlock::new("other", "kind").tag("x").expect_version(Version::ABSENT))
        .put_edge(name("graph"), NewEdge::new(name("block"), name("type"), String::from("other")).properties("{}"))
}

#[test]
fn a_commit_of_computed_values_holds_what_a_borrowed_one_would() {
    let place = Place::new();
    let database = place.open(Durability::Os);
    database.commit(&computed(7)).expect("no error").committed().expect("accepted");

    let event = &database.events("store7").read(&Query::all(), Default::default()).expect("read").events[0];
    assert_eq!(
        (event.event_type.as_str(), event.data.as_slice(), event.tags[0].as_slice()),
        ("Placed7", &b"data7"[..], &b"order:7"[..])
    );
    assert_eq!(event.metadata, [0, 0, 0, 7]);
    assert_eq!(database.events("store7").upstream("source7").expect("read"), Some(1));
    let record = &database.topic("topic7").fetch(0, quire::Sequence::new(0), 1 << 20).expect("read").records[0];
    assert_eq!((record.key.as_deref(), record.value.as_deref()), (Some(&b"key7"[..]), Some(&b"value7"[..])));
    let header = |key: &str, value: &str| (key.as_bytes().to_vec(), Some(value.as_bytes().to_vec()));
    assert_eq!(record.headers, [header("borrowed", "first"), header("header7", "owned7")]);
    let job = database.queue("queue7").fetch("worker", 1).expect("fetched").remove(0);
    assert_eq!((job.payload.as_slice(), job.kind.as_str(), job.group.as_str()), (&b"payload7"[..], "kind7", "group7"));
    let snapshot = database.graph("graph7").snapshot().expect("read").expect("there");
    let block = snapshot.block(BlockId::of_name("block7"), |block| {
        (block.content.to_vec(), block.tags().map(str::to_owned).collect::<Vec<_>>())
    });
    assert_eq!(block.expect("read"), Some((b"content7".to_vec(), vec!["tag7".to_owned()])));
    assert_eq!(BlockKey::from(String::from("block7")).id(), BlockId::of_name("block7"));

    let again = database.commit(&computed(7)).expect("no error").committed().expect_err("placed before");
    let refusal = again.refusal().expect("a refusal");
    assert_eq!((again.kind(), refusal.part), (ErrorKind::Refused, 0));
    assert!(matches!(refusal.reason, Reason::Events(_)));
}

#[test]
fn a_unique_key_is_held_as_its_settings_define() {
    let place = Place::new();
    let database = place.open(Durability::Os);
    let queue = database.queue("q");
    let first = queue.enqueue(NewJob::new("1").unique("k")).expect("enqueued");
    assert_eq!(queue.enqueue(NewJob::new("2").unique(UniqueKey::new(b"k"))).expect("the first"), first);
    let reject = UniqueKey::new(String::from("k")).clash(quire::jobs::Clash::Reject);
    assert_eq!(queue.enqueue(NewJob::new("3").unique(reject)).expect_err("refused").kind(), ErrorKind::Refused);
}

#[test]
fn replies_are_found_by_the_handles_of_their_parts() {
    let place = Place::new();
    let database = place.open(Durability::Os);
    let mut commit = Commit::new().enqueue("q", NewJob::new("first"));
    let message = commit.add_message("t", Message::new("value"));
    let job = commit.add_job("q", NewJob::new("second"));
    let events = commit.add_events("s", [NewEvent::new("E"), NewEvent::new("E")], []);
    let committed = database.commit(&commit).expect("no error").committed().expect("accepted");
    assert_eq!(committed.reply(message).base_offset.get(), 0);
    assert_eq!(committed.reply(events).last.expect("two events").get(), 2);
    let enqueued = committed.reply(job);
    assert_eq!((enqueued.state, enqueued.duplicate), (JobState::Pending, false));
    assert_eq!(database.queue("q").fetch("w", 2).expect("fetched")[1].job, enqueued.job);
}

#[test]
fn handles_fit_in_a_struct_and_move_into_a_thread() {
    struct Shop {
        queue: quire::Queue,
        store: quire::EventStore,
        topic: quire::Topic,
        graph: quire::Graph,
        group: quire::Group,
        worker: quire::Worker,
        consumer: quire::Consumer,
    }
    let place = Place::new();
    let database = place.open(Durability::Os);
    database.topic("t").create(1).expect("created");
    let shop = Shop {
        queue: database.queue("q"),
        store: database.events("s"),
        topic: database.topic("t"),
        graph: database.graph("g"),
        group: database.group("c"),
        worker: database.queue("q").worker("w"),
        consumer: database.topic("t").consumer("c", Default::default()).expect("a consumer"),
    };
    drop(database);
    let worked = std::thread::spawn(move || {
        let Shop { queue, store, topic, graph, group, worker, mut consumer } = shop;
        queue.clone().enqueue(NewJob::new("x")).expect("enqueued");
        topic.clone().produce(Message::new("m")).expect("produced");
        graph.put_block(NewBlock::new("b", "kind")).expect("put");
        let delivery = consumer.poll().expect("read").expect("a record");
        consumer.ack(&delivery).expect("noted");
        assert!(group.describe().expect("read").is_some());
        let stop = worker.stopper();
        let summary = worker.run(move |_| {
            stop.stop();
            Commit::new().append("s", [NewEvent::new("Worked")])
        });
        (summary.expect("worked"), store.head().expect("read"))
    });
    let (summary, head) = worked.join().expect("no panic");
    assert_eq!((summary.completed, head.get()), (1, 1));
}

/// Works the jobs of a queue until `jobs` handlers have returned. Returns the summary and the
/// reported errors.
fn work(
    database: &Database,
    jobs: usize,
    handler: impl Fn(&quire::jobs::FetchedJob) -> Result<JobOutcome, String> + Sync,
) -> (quire::WorkSummary, Vec<(ErrorKind, String)>) {
    let errors = Arc::new(Mutex::new(Vec::new()));
    let reported = Arc::clone(&errors);
    let worker = database.queue("q").worker("w").on_error(move |_, error| {
        reported.lock().expect("no panic").push((error.kind(), error.to_string()));
    });
    let (stop, returned) = (worker.stopper(), AtomicUsize::new(0));
    let summary = worker.run(|job| {
        if returned.fetch_add(1, Ordering::Relaxed) + 1 == jobs {
            stop.stop();
        }
        Ok(handler(job)?)
    });
    let errors = errors.lock().expect("no panic").clone();
    (summary.expect("worked"), errors)
}

#[test]
fn a_worker_commits_the_acknowledgement_with_the_handlers_commit() {
    let place = Place::new();
    let database = place.open(Durability::Os);
    database.queue("q").enqueue(NewJob::new("17")).expect("enqueued");
    let before = database.published();
    let (summary, errors) = work(&database, 1, |job| {
        let order = String::from_utf8_lossy(&job.payload).into_owned();
        Ok(Commit::new().append("s", [NewEvent::new("Charged").tag(format!("order:{order}"))]).into())
    });
    assert_eq!((summary.completed, summary.refused, errors.len()), (1, 0, 0));
    // The records of the fetch and the commit. No third record acknowledges the job.
    assert_eq!(database.published().get(), before.get() + 2);
    assert_eq!(database.queue("q").stats().expect("read").expect("there").completed, 1);
    drop(database);
    let database = place.open(Durability::Os);
    assert_eq!(database.events("s").head().expect("read").get(), 1);
    assert_eq!(database.queue("q").stats().expect("read").expect("there").completed, 1);
}

#[test]
fn a_refused_commit_fails_the_attempt_and_is_reported() {
    let place = Place::new();
    let database = place.open(Durability::Os);
    database.events("s").append([NewEvent::new("Taken")]).expect("appended");
    database.queue("q").enqueue(NewJob::new("").attempts_max(1)).expect("enqueued");
    let (summary, errors) = work(&database, 1, |_| {
        let free = Condition::fail_if_matches(QueryItem::new().event_type("Taken"));
        Ok(Commit::new().append_if("s", [NewEvent::new("Taken")], [free]).into())
    });
    assert_eq!((summary.completed, summary.failed, summary.refused), (0, 1, 0));
    assert_eq!(errors.len(), 1);
    assert_eq!(errors[0].0, ErrorKind::Refused);
    assert_eq!(database.events("s").head().expect("read").get(), 1);
    assert_eq!(database.queue("q").stats().expect("read").expect("there").dead, 1);
}

#[test]
fn an_error_of_the_handler_fails_the_attempt_and_is_reported() {
    let place = Place::new();
    let database = place.open(Durability::Os);
    for payload in ["error", "panic", "later"] {
        database.queue("q").enqueue(NewJob::new(payload).attempts_max(1)).expect("enqueued");
    }
    let (summary, errors) = work(&database, 3, |job| match &job.payload[..] {
        b"error" => Err("no card".to_owned()),
        b"panic" => panic!("at work"),
        _ => Ok(JobOutcome::snooze(std::time::UNIX_EPOCH + Duration::from_secs(4_000_000_000))),
    });
    assert_eq!((summary.failed, summary.snoozed), (2, 1));
    assert_eq!(
        errors,
        [(ErrorKind::Handler, "no card".to_owned()), (ErrorKind::Handler, "panicked: at work".to_owned())]
    );
}

#[test]
fn a_lost_lease_refuses_the_whole_commit_and_is_reported() {
    let place = Place::new();
    let database = place.open(Durability::Os);
    database.queue("q").enqueue(NewJob::new("")).expect("enqueued");
    let (summary, errors) = work(&database, 1, |job| {
        // Another client ends the attempt meanwhile.
        database.queue("q").fail(job.job, job.token, "taken away", Retry::Never).expect("failed");
        Ok(Commit::new().append("s", [NewEvent::new("Charged")]).into())
    });
    assert_eq!((summary.completed, summary.failed, summary.refused), (0, 0, 1));
    assert_eq!(errors.len(), 1);
    assert_eq!(errors[0].0, ErrorKind::Refused);
    assert_eq!(database.events("s").head().expect("read").get(), 0, "nothing of the commit happened");
}

#[test]
fn an_overload_keeps_its_facts() {
    let place = Place::new();
    let database = place.open(Durability::Os);
    let queue = database.queue("q");
    queue.set(quire::jobs::QueueChange::JobsMax(Some(1))).expect("set");
    queue.enqueue(NewJob::new("")).expect("enqueued");
    let error = queue.enqueue(NewJob::new("")).expect_err("full");
    assert_eq!(error.kind(), ErrorKind::Overloaded);
    let refusal = error.refusal().expect("a refusal");
    assert!(matches!(refusal.reason, Reason::Jobs(Refusal::Overloaded { .. })), "{refusal:?}");
    let outcome = database.commit(&Commit::new().enqueue("q", NewJob::new(""))).expect("no error");
    assert!(matches!(outcome, Outcome::Refused(_)));
}
