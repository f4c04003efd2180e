//! Commits that are sent again with their idempotency key: of every form, by several processes,
//! and by clients that are killed before they get an answer.

mod kills;

use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use quire::events::{Condition, NewEvent, QueryItem};
use quire::jobs::{self, FetchedJob, JobSpec};
use quire::{
    AcceptedCommit, Builder, Commit, Database, Durability, IdempotencyRefusal, JobOutcome, Message, NewBlock, NewEdge,
    NewJob, Part, Reason, Sequence, graph, streams,
};

fn builder(path: &Path, durability: Durability) -> Builder {
    Database::builder(path).durability(durability).segment_bytes(64 << 10).checkpoint_bytes(16 << 10)
}

fn open(path: &Path) -> Database {
    builder(path, Durability::Os).open().expect("opened")
}

#[track_caller]
fn accepted(database: &Database, commit: &Commit<'_>) -> AcceptedCommit {
    database.commit(commit).expect("answered").committed().expect("accepted")
}

#[track_caller]
fn refusal(database: &Database, commit: &Commit<'_>) -> Reason {
    database.commit(commit).expect("answered").refused().expect("refused").reason
}

/// A commit with parts of all models, each of which has an effect whenever it is decided.
fn of_all_models<'c>(key: &'c str) -> Commit<'c> {
    Commit::new()
        .append("orders", [NewEvent::new("OrderPlaced").tag("order:17").data("{}")])
        .produce("placed", Message::new("order 17").key("17").header("h", "v"))
        .enqueue("mails", NewJob::new("order 17").run_at(Duration::from_secs(60)).tag("order:17"))
        .commit_offset("billing", "placed", 0, Sequence::new(1))
        .put_block("shop", NewBlock::new("order:17", "order").tag("open"))
        .put_block("shop", NewBlock::new("customer:ann", "customer"))
        .put_edge("shop", NewEdge::new("order:17", "of", "customer:ann"))
        .part(streams::Command::InitProducer)
        .idempotency_key(key)
}

#[test]
fn a_copy_of_a_commit_over_all_models_gets_the_first_replies_and_changes_nothing() {
    let directory = tempfile::tempdir().expect("a directory");
    let database = open(directory.path());
    let first = accepted(&database, &of_all_models("a"));
    assert!(!first.is_replay);
    let expected = AcceptedCommit { is_replay: true, ..first.clone() };
    let begun = database.now();
    while database.now() <= begun {
        std::hint::spin_loop();
    }
    assert_eq!(accepted(&database, &of_all_models("a")), expected, "delays are the same request later");
    let brief = database.submit_briefly(&of_all_models("a")).expect("decided").expect("brief");
    assert_eq!(brief.wait().expect("published").committed().expect("accepted"), expected);
    drop(database);

    let database = open(directory.path());
    assert_eq!(accepted(&database, &of_all_models("a")), expected);
    assert_eq!(database.published(), first.at.position, "no copy took a position");
    let another = accepted(&database, &of_all_models("b"));
    assert!(!another.is_replay && another.at.position > first.at.position);
    assert_eq!(database.events("orders").head().expect("read").get(), 2);
}

/// The fingerprint of a produce is that of its encoded batch. It must not change between releases.
#[test]
fn the_fingerprint_of_a_produce_stays_the_same() {
    let directory = tempfile::tempdir().expect("a directory");
    let message = Message::new("order 17").key("17").header("h", "v");
    let found = open(directory.path()).fingerprint(&Commit::new().produce("orders", message)).expect("encoded");
    assert_eq!(format!("{found:?}"), "Fingerprint(150897688607893931691488436807969121151)");
}

#[test]
fn a_copy_gets_the_same_leases_and_the_same_answer_to_each_command() {
    let directory = tempfile::tempdir().expect("a directory");
    let database = open(directory.path());
    database.queue("mails").enqueue(NewJob::new("payload").group("g").kind("k")).expect("accepted");
    let commands = [
        jobs::Command::Enqueue { queue: "mails", job: JobSpec::new(b"second") },
        jobs::Command::Enqueue { queue: "//", job: JobSpec::new(b"third") },
    ];
    let fetch = jobs::Command::Fetch {
        queues: &["mails"],
        order: jobs::Order::Strict,
        count: 1,
        lease_micros: 60_000_000,
        worker: "worker-1",
    };
    let commit = || Commit::new().part(jobs::Command::Each(&commands)).part(fetch).idempotency_key("a");
    let first = accepted(&database, &commit());
    let quire::Reply::Jobs(jobs::Reply::Each(answers)) = &first.replies[0] else { panic!("{first:?}") };
    assert!(answers[0].is_ok() && answers[1].is_err());
    let again = accepted(&database, &commit());
    assert_eq!(again, AcceptedCommit { is_replay: true, ..first });
    let quire::Reply::Jobs(jobs::Reply::Fetched(fetched)) = &again.replies[1] else { panic!("{again:?}") };
    database.queue("mails").ack(fetched[0].job, fetched[0].token, b"").expect("the lease holds");
}

#[test]
fn another_commit_with_the_key_is_refused_whichever_part_differs() {
    let directory = tempfile::tempdir().expect("a directory");
    let database = open(directory.path());
    let first = accepted(&database, &of_all_models("a"));
    let expected = IdempotencyRefusal::KeyReused { key: "a".into(), position: first.at.position };
    let others = [
        of_all_models("a").produce("placed", Message::new("order 18")),
        Commit::new().append("orders", [NewEvent::new("OrderPlaced")]).idempotency_key("a"),
        Commit::new().enqueue("mails", NewJob::new("order 17")).idempotency_key("a"),
        Commit::new().put_block("shop", NewBlock::new("order:17", "order")).idempotency_key("a"),
        Commit::new().idempotency_key("a"),
    ];
    for other in &others {
        assert_eq!(refusal(&database, other), Reason::Idempotency(expected.clone()));
    }
    assert_eq!(database.published(), first.at.position);
    let error = database.commit(&others[1]).expect("answered").committed().expect_err("refused").to_string();
    assert!(error.contains("idempotency key \"a\" already exists") && !error.contains("part"), "{error}");
}

#[test]
fn a_command_has_one_fingerprint_whether_its_part_owns_borrows_or_is_built() {
    let directory = tempfile::tempdir().expect("a directory");
    let database = open(directory.path());
    let same = |left: Commit<'_>, right: Commit<'_>| {
        let prints = [&left, &right].map(|commit| database.fingerprint(commit).expect("a fingerprint"));
        assert_eq!(prints[0], prints[1], "{left:?} and {right:?}");
    };
    let (queue, text) = (String::from("mails"), String::from("order 17"));
    let tags = ["a", "b"];
    let built = NewJob::new(text.clone()).tag("a").tag(String::from("b")).unique(text.clone());
    let spec = JobSpec { unique: Some(jobs::Unique::new(b"order 17")), tags: &tags, ..JobSpec::new(b"order 17") };
    same(
        Commit::new().enqueue(queue.clone(), built),
        Commit::new().part(jobs::Command::Enqueue { queue: "mails", job: spec }),
    );
    same(
        Commit::new().append("orders", [NewEvent::new(text.clone()).tag(text.clone())]),
        Commit::new().append("orders", [NewEvent::new("order 17").tag("order 17")]),
    );
    same(
        Commit::new().produce("orders", Message::new(text.clone()).header("h", text.clone()).header("i", "")),
        Commit::new().produce("orders", Message::new("order 17").header("h", "order 17").header("i", "")),
    );
    let put = graph::PutBlock::new("shop", "order", "kind");
    same(
        Commit::new().put_block(String::from("shop"), NewBlock::new(String::from("order"), "kind")),
        Commit::new().part(Part::Graph(graph::Command::PutBlock(put))),
    );
    same(of_all_models("a"), of_all_models("b"));
}

#[test]
fn one_of_many_equal_commits_of_threads_and_openings_is_applied() {
    for durability in [Durability::Os, Durability::Sync] {
        let directory = tempfile::tempdir().expect("a directory");
        let openings = [(); 3].map(|()| builder(directory.path(), durability).open().expect("opened"));
        for round in 0..30 {
            let key = format!("round-{round}");
            let answers: Vec<AcceptedCommit> = std::thread::scope(|scope| {
                let senders = openings.iter().flat_map(|database| [database, database]);
                let sent: Vec<_> =
                    senders.map(|database| scope.spawn(|| accepted(database, &of_all_models(&key)))).collect();
                sent.into_iter().map(|answer| answer.join().expect("answered")).collect()
            });
            assert_eq!(answers.iter().filter(|answer| !answer.is_replay).count(), 1);
            assert!(answers.iter().all(|answer| (answer.at, &answer.replies) == (answers[0].at, &answers[0].replies)));
        }
        assert_eq!(openings[0].events("orders").head().expect("read").get(), 30);
        assert_eq!(openings[1].topic("placed").offsets(0).expect("read").next.get(), 30);
    }
}

#[test]
fn a_condition_is_not_checked_again_for_a_copy() {
    let directory = tempfile::tempdir().expect("a directory");
    let database = open(directory.path());
    let taken = QueryItem::new().event_type("Registered").tag("name:ada");
    let register = Commit::new()
        .append_if("accounts", [NewEvent::new("Registered").tag("name:ada")], [Condition::fail_if_matches(taken)])
        .idempotency_key("register-ada");
    let first = accepted(&database, &register);
    assert_eq!(accepted(&database, &register), AcceptedCommit { is_replay: true, ..first });
    let without_key = register.clone().idempotency_key("another");
    assert!(matches!(refusal(&database, &without_key), Reason::Events(_)), "decided, and the condition fails");
}

#[test]
fn a_handler_commits_with_a_key_and_another_job_with_that_key_fails() {
    let directory = tempfile::tempdir().expect("a directory");
    let database = open(directory.path());
    for order in ["order 17", "order 17 again"] {
        database.queue("charges").enqueue(NewJob::new(order).attempts_max(1)).expect("accepted");
    }
    let (worker, seen) = (database.queue("charges").worker("worker-1"), AtomicU32::new(0));
    let stopper = worker.stopper();
    worker
        .run(|job: &FetchedJob| {
            if seen.fetch_add(1, Ordering::Relaxed) == 1 {
                stopper.stop();
            }
            let charge = Commit::new().produce("charged", Message::new(job.payload.clone()));
            JobOutcome::Commit(charge.idempotency_key("charge-17"))
        })
        .expect("worked");
    let stats = database.queue("charges").stats().expect("read").expect("a queue");
    assert_eq!((stats.completed, stats.dead), (1, 1));
    assert_eq!(database.topic("charged").offsets(0).expect("read").next.get(), 1);
}
