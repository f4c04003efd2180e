//! Dry runs: each one has the outcome of the commit that follows it, and changes nothing.

use std::sync::Arc;
use std::time::Duration;

use quire::events::{Condition, NewEvent, QueryItem};
use quire::jobs::{self, JobSpec};
use quire::{
    Background, Commit, Database, DraftedEntry, DryRun, Durability, ErrorKind, ManualClock, Message, ModelId, NewBlock,
    NewEdge, NewJob, Outcome, Part, Position, Sequence, Statistics, Timestamp, system,
};

use crate::support::{Place, everything};

/// A database whose time stands still, and whose background duties run when a test says so.
fn open(place: &Place, durability: Durability) -> Database {
    let clock = Arc::new(ManualClock::new(Timestamp::from_millis(1_000)));
    place.builder(durability).clock(clock).background(Background::Caller).open().expect("the database opens")
}

#[track_caller]
fn dry_run(database: &Database, commit: &Commit<'_>) -> DryRun {
    database.dry_run(commit).expect("decided").wait().expect("published")
}

/// Everything that a commit changes, also by a refusal.
fn state(database: &Database) -> (Vec<String>, Statistics, u64) {
    let keys = database.read(|view| view.idempotency_keys().keys).expect("readable").wait().expect("published");
    (everything(database), database.statistics(), keys)
}

/// Checks that the dry run of a commit changes nothing, and has the outcome and the entries of the
/// commit. Returns the outcome.
#[track_caller]
fn check(database: &Database, commit: &Commit<'_>) -> Outcome {
    let before = state(database);
    let DryRun { outcome, entries } = dry_run(database, commit);
    assert_eq!(state(database), before, "a dry run changes nothing");
    let published = database.published();
    let real = database.commit(commit).expect("decided");
    assert_eq!(outcome, real);
    let appended = match &real {
        Outcome::Committed(committed) if committed.at.position > published => {
            let logged = database.commit_log().commit(committed.at.position, 0, usize::MAX).expect("readable");
            let logged = logged.expect("it is in the log").entries;
            logged.iter().map(|entry| DraftedEntry { kind: entry.kind, bytes: entry.bytes }).collect()
        }
        _ => Vec::new(),
    };
    assert_eq!(entries, appended);
    real
}

fn placed() -> NewEvent<'static> {
    NewEvent::new("OrderPlaced").tag("order:17").data("{}")
}

fn fetch(queues: &'static [&'static str]) -> Commit<'static> {
    Commit::new().part(jobs::Command::Fetch {
        queues,
        order: jobs::Order::Strict,
        count: 1,
        lease_micros: 30_000_000,
        worker: "worker-1",
    })
}

fn of_all_models() -> Commit<'static> {
    Commit::new()
        .append("orders", [placed()])
        .produce("placed", Message::new("order 17").key("17").header("h", "v"))
        .enqueue("mails", NewJob::new("order 17").run_at(Duration::from_secs(60)))
        .enqueue("bills", NewJob::new("order 17"))
        .commit_offset("billing", "placed", 0, Sequence::new(1))
        .put_block("shop", NewBlock::new("order:17", "order").tag("open"))
        .put_block("shop", NewBlock::new("customer:ann", "customer"))
        .put_edge("shop", NewEdge::new("order:17", "of", "customer:ann"))
}

#[test]
fn a_dry_run_has_the_outcome_of_the_commit_and_changes_nothing() {
    for durability in [Durability::Os, Durability::Sync] {
        let place = Place::new();
        let database = open(&place, durability);
        let accepted = |commit: &Commit<'_>| check(&database, commit).committed().expect("accepted");
        let refused = |commit: &Commit<'_>| check(&database, commit).refused().expect("refused");
        // The first commit creates each object; the second one finds them.
        assert_eq!(accepted(&of_all_models()).at.position, Position::new(1));
        accepted(&of_all_models());
        // Conditions.
        let taken = Condition::fail_if_matches(QueryItem::new().tag("order:17"));
        let reason = refused(&Commit::new().enqueue("bills", NewJob::new("")).append_if("orders", [placed()], [taken]));
        assert_eq!(reason.part, 1);
        let free = Condition::fail_if_matches(QueryItem::new().tag("order:18"));
        accepted(&Commit::new().append_if("orders", [placed()], [free.clone()]));
        // A condition without events takes no position.
        accepted(&Commit::new().append_if("orders", [], [free]));
        // Leases, and jobs that each have a reply.
        let fetched = accepted(&fetch(&["bills"]));
        let [quire::Reply::Jobs(jobs::Reply::Fetched(jobs))] = &fetched.replies[..] else { panic!("{fetched:?}") };
        let (job, token) = (jobs[0].job, jobs[0].token);
        accepted(&fetch(&["none"]));
        let job_of = |queue| jobs::Command::Enqueue { queue, job: JobSpec::new(b"") };
        let each = [job_of("no queue\n"), job_of("bills")];
        accepted(&Commit::new().part(jobs::Command::Each(&each)));
        accepted(&Commit::new().ack(job, token, "done"));
        refused(&Commit::new().append("orders", [placed()]).ack(job, token, "done"));
        // Access, with its audit event.
        accepted(&Commit::new().part(Part::System(system::Command::CreateUser { user: "ann", roles: &[] })));
        refused(&Commit::new().part(Part::System(system::Command::DropUser { user: "nobody" })));
    }
}

#[test]
fn a_dry_run_looks_an_idempotency_key_up_and_stores_none() {
    let place = Place::new();
    let database = open(&place, Durability::Os);
    let keyed = |payload: &'static str| Commit::new().enqueue("mails", NewJob::new(payload)).idempotency_key("a");
    // The entry of the key is one of the commit.
    let entries = dry_run(&database, &keyed("order 17")).entries;
    assert!(entries.iter().any(|entry| entry.kind.model == ModelId::IDEMPOTENCY), "{entries:?}");
    let first = check(&database, &keyed("order 17")).committed().expect("accepted");
    assert!(!first.is_replay, "the dry run stored no key");
    let copy = check(&database, &keyed("order 17")).committed().expect("accepted");
    assert!(copy.is_replay && copy.at == first.at);
    assert!(check(&database, &keyed("order 18")).refused().expect("refused").is_of_key());
}

#[test]
fn a_dry_run_fails_like_its_commit() {
    let place = Place::new();
    let database = open(&place, Durability::Os);
    let large = "x".repeat(usize::try_from(database.commit_bytes_max()).expect("small"));
    let commit = Commit::new().enqueue("mails", NewJob::new(large));
    let before = state(&database);
    let error = database.dry_run(&commit).expect_err("too large");
    assert_eq!(error.kind(), ErrorKind::TooLarge);
    assert_eq!(error.to_string(), database.commit(&commit).expect_err("too large").to_string());
    assert_eq!(state(&database), before);
    drop(database);
    let read_only = place.builder(Durability::Os).read_only(true).open().expect("the database opens");
    assert_eq!(read_only.dry_run(&of_all_models()).expect_err("read-only").kind(), ErrorKind::ReadOnly);
}

#[test]
fn a_commit_after_a_dry_run_is_that_of_a_database_without_dry_runs() {
    let (place, twin_place) = (Place::new(), Place::new());
    let (database, twin) = (open(&place, Durability::Os), open(&twin_place, Durability::Os));
    for database in [&database, &twin] {
        let _ = database.commit(&of_all_models()).expect("decided").committed().expect("accepted");
    }
    // Blocks and jobs of dry runs leave no trace in the decisions after them.
    for _ in 0..3 {
        dry_run(&database, &of_all_models());
        dry_run(&database, &Commit::new().put_block("shop", NewBlock::new("order:18", "order")));
    }
    let next = Commit::new()
        .put_block("shop", NewBlock::new("order:18", "order"))
        .put_edge("shop", NewEdge::new("order:18", "of", "customer:ann"))
        .enqueue("bills", NewJob::new("order 18"));
    assert_eq!(database.commit(&next).expect("decided"), twin.commit(&next).expect("decided"));
    let contents = |database: &Database| everything(database);
    assert_eq!(contents(&database), contents(&twin));
    drop((database, twin));
    let (database, twin) = (open(&place, Durability::Os), open(&twin_place, Durability::Os));
    assert_eq!(contents(&database), contents(&twin), "also after a restart");
}
