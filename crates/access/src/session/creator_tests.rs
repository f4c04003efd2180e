//! Tests of work that runs later: it is checked by the rights that its creator has then.

use quire::events::{Attempts, NewEvent, Query};
use quire::jobs::{self, BulkId, BulkProgress, Change, Command, Filter};
use quire::system::{AccessRule, KeyText, RulePattern, RuleSubject};
use quire::{Background, Commit, Durability, Duty, NewApiKey, NewJob, Operation, Part, ReadView, Reply, ResourceKind};

use super::*;

use Operation::{Alter, Read, Write};
use ResourceKind::{Queue, Store};

fn open(directory: &tempfile::TempDir) -> Database {
    let builder = Database::builder(directory.path()).durability(Durability::Os).background(Background::Caller);
    builder.open().expect("a database")
}

fn allow(operation: Operation, kind: ResourceKind, name: &str) -> AccessRule {
    AccessRule::allow(operation, kind, RulePattern::Literal(name.to_owned()))
}

fn of(user: &str) -> RuleSubject {
    RuleSubject::Principal(user.to_owned())
}

/// Creates a user with these rules, and returns its key.
fn user(owner: &Database, name: &str, rules: &[AccessRule]) -> KeyText {
    let access = owner.access();
    access.create_user(name, &[]).expect("created");
    for rule in rules {
        access.add_rule(&of(name), rule).expect("added");
    }
    let lifetime = Some(Duration::from_secs(3_600));
    access.create_key(name, NewApiKey { lifetime, ..NewApiKey::default() }).expect("created")
}

fn as_user(served: &ServedDatabase, key: KeyText) -> Database {
    served.of(&served.session(&Credential::Key(key.reveal())).expect("the key is valid"))
}

fn pause(owner: &Database) -> Option<String> {
    let look = |view: &ReadView<'_>| {
        let subscription = view.events.subscription("mails").expect("it exists");
        view.pause_of("mails", subscription).map(|problem| problem.to_string())
    };
    owner.read(look).expect("readable").wait().expect("durable")
}

/// Appends an event, delivers, and returns the number of jobs in the queue.
fn delivered(owner: &Database) -> u64 {
    owner.events("orders").append([NewEvent::new("Placed")]).expect("appended");
    while owner.carry_out(Duty::Deliver).expect("no error") {}
    owner.queue("mails").stats().expect("readable").map_or(0, |stats| stats.pending)
}

#[test]
fn a_subscription_delivers_by_the_rights_of_its_creator_and_pauses_without_them() {
    let directory = tempfile::tempdir().expect("a directory");
    let owner = open(&directory);
    owner.access().init("root").expect("enabled");
    let write = allow(Write, Queue, "mails");
    let rules = [allow(Alter, Store, "orders"), allow(Read, Store, "orders"), write.clone()];
    let key = user(&owner, "ann", &rules);
    let served = ServedDatabase::new(owner.clone());
    let ann = as_user(&served, key);
    ann.events("orders").put_subscription("mails", Query::all(), None, Attempts::default()).expect("permitted");
    assert_eq!((delivered(&owner), pause(&owner)), (1, None));

    // Without the right, events wait, and the reason is visible. With it, they are delivered.
    for (rule, lacking) in [(&write, "write on queue \"mails\""), (&rules[1], "read on store \"orders\"")] {
        let before = delivered(&owner);
        owner.access().remove_rule(&of("ann"), rule).expect("removed");
        assert_eq!(delivered(&owner), before);
        assert_eq!(pause(&owner), Some(format!("its creator \"ann\" is not permitted: {lacking}")));
        owner.access().add_rule(&of("ann"), rule).expect("added");
        assert_eq!((delivered(&owner), pause(&owner)), (before + 2, None), "the events that waited, and the new one");
    }

    // A dropped key is no lost right of its user.
    owner.access().drop_key(key.id()).expect("dropped");
    let before = delivered(&owner);
    assert_eq!(pause(&owner), None);

    let disable = |is_enabled| quire::system::Command::EnableUser { user: "ann", is_enabled };
    owner.access().change(&[disable(false)]).expect("disabled");
    let paused = Some("its creator \"ann\" is not an enabled user".to_owned());
    assert_eq!((delivered(&owner), pause(&owner)), (before, paused.clone()));
    owner.access().change(&[disable(true)]).expect("enabled");
    assert_eq!((delivered(&owner), pause(&owner)), (before + 2, None));

    owner.access().drop_user("ann").expect("dropped");
    assert_eq!((delivered(&owner), pause(&owner)), (before + 2, paused.clone()));
    drop((ann, served, owner));
    // From the log, then from a checkpoint.
    for checkpoint in [true, false] {
        let owner = open(&directory);
        assert_eq!(pause(&owner), paused);
        if checkpoint {
            owner.carry_out(Duty::Checkpoint).expect("saved");
        }
    }
    let owner = open(&directory);
    owner.events("orders").put_subscription("mails", Query::all(), None, Attempts::default()).expect("the owner");
    assert_eq!((delivered(&owner), pause(&owner)), (before + 4, None), "nothing was lost");
}

#[test]
fn a_subscription_from_before_access_control_or_while_it_is_disabled_is_not_checked() {
    let directory = tempfile::tempdir().expect("a directory");
    let owner = open(&directory);
    owner.events("orders").put_subscription("mails", Query::all(), None, Attempts::default()).expect("the owner");
    owner.access().init("root").expect("enabled");
    assert_eq!((delivered(&owner), pause(&owner)), (1, None));
    let key = user(&owner, "ann", &[allow(Alter, Store, "orders"), allow(Read, Store, "orders")]);
    owner.access().add_rule(&of("ann"), &allow(Write, Queue, "mails")).expect("added");
    let ann = as_user(&ServedDatabase::new(owner.clone()), key);
    ann.events("orders").put_subscription("mails", Query::all(), None, Attempts::default()).expect("permitted");
    owner.access().drop_user("ann").expect("dropped");
    assert_eq!(delivered(&owner), 1);
    owner.access().disable().expect("disabled");
    assert_eq!((delivered(&owner), pause(&owner)), (3, None));
}

/// Begins a bulk change that puts jobs on hold.
fn begin(database: &Database, queue: Option<&str>) -> quire::Result<BulkId> {
    begin_change(database, queue, Change::Hold { reason: "" })
}

fn begin_change(database: &Database, queue: Option<&str>, change: Change<'_>) -> quire::Result<BulkId> {
    let command = Command::Bulk { filter: Filter { queue, ..Filter::default() }, change };
    let committed = database.commit(&Commit::new().part(Part::Jobs(command)))?.committed()?;
    match &committed.replies[..] {
        [Reply::Jobs(jobs::Reply::BulkBegun { bulk })] => Ok(*bulk),
        other => panic!("{other:?}"),
    }
}

fn progress(owner: &Database, bulk: BulkId) -> BulkProgress {
    owner.read(|view| view.jobs.bulk(bulk)).expect("readable").wait().expect("durable").expect("known")
}

fn held(owner: &Database, queue: &str) -> u64 {
    owner.queue(queue).stats().expect("readable").expect("known").held
}

fn enqueue(owner: &Database, queue: &str, count: usize) {
    for _ in 0..count {
        owner.queue(queue).enqueue(NewJob::new("job")).expect("enqueued");
    }
}

#[test]
fn a_bulk_change_without_a_queue_changes_the_jobs_that_its_creator_may_change() {
    let directory = tempfile::tempdir().expect("a directory");
    let owner = open(&directory);
    for queue in ["acme/a", "acme/b", "rival/c"] {
        enqueue(&owner, queue, 2);
    }
    owner.access().init("root").expect("enabled");
    let of_acme = AccessRule::allow(Alter, Queue, RulePattern::Prefix("acme/".to_owned()));
    let ann = user(&owner, "ann", &[of_acme, allow(Read, Queue, "rival/c")]);
    let bob = user(&owner, "bob", &[allow(Read, Queue, "rival/c")]);
    let served = ServedDatabase::new(owner.clone());
    let (ann, bob) = (as_user(&served, ann), as_user(&served, bob));

    assert_eq!(begin(&bob, None).expect_err("no right to change anything").kind(), quire::ErrorKind::NotPermitted);
    let bulk = begin(&ann, None).expect("permitted");
    let shows = |database: &Database| {
        let shown = database.read_permitted(|view| view.shows_bulk(bulk).expect("readable"));
        shown.expect("readable").wait().expect("durable")
    };
    assert_eq!((shows(&ann), shows(&bob), shows(&owner)), (true, false, true));
    while !progress(&owner, bulk).done {
        owner.carry_out(Duty::Tick).expect("no error");
    }
    assert_eq!((held(&owner, "acme/a"), held(&owner, "acme/b"), held(&owner, "rival/c")), (2, 2, 0));
    let BulkProgress { changed, refused, stopped, .. } = progress(&owner, bulk);
    assert_eq!((changed, refused, stopped), (4, 2, false), "jobs that the creator sees and may not change are counted");
}

#[test]
fn a_bulk_retry_of_a_job_whose_key_is_unique_everywhere_needs_describe_on_every_queue() {
    let directory = tempfile::tempdir().expect("a directory");
    let owner = open(&directory);
    let unique = jobs::Unique { scope: jobs::UniqueScope::Everywhere, ..jobs::Unique::new(b"key") };
    owner.queue("q").enqueue(NewJob::new("job").unique(unique)).expect("enqueued");
    enqueue(&owner, "q", 1);
    for job in owner.queue("q").fetch("worker", 2).expect("fetched") {
        owner.queue("q").fail(job.job, job.token, "broken", jobs::Retry::Never).expect("failed");
    }
    owner.access().init("root").expect("enabled");
    let ann = user(&owner, "ann", &[allow(Alter, Queue, "q")]);
    let ann = as_user(&ServedDatabase::new(owner.clone()), ann);
    let retry = || {
        let bulk = begin_change(&ann, Some("q"), Change::Retry { payload: None }).expect("permitted");
        while !progress(&owner, bulk).done {
            owner.carry_out(Duty::Tick).expect("no error");
        }
        owner.queue("q").stats().expect("readable").expect("known").dead
    };
    assert_eq!(retry(), 1, "the job without a key is retried");
    let describe = AccessRule::allow(Operation::Describe, Queue, RulePattern::Any);
    owner.access().add_rule(&of("ann"), &describe).expect("added");
    assert_eq!(retry(), 0);
}

#[test]
fn a_bulk_change_stops_when_its_creator_loses_its_rights() {
    let directory = tempfile::tempdir().expect("a directory");
    let owner = open(&directory);
    enqueue(&owner, "q", 600);
    owner.access().init("root").expect("enabled");
    let alter = allow(Alter, Queue, "q");
    let ann = user(&owner, "ann", std::slice::from_ref(&alter));
    let ann = as_user(&ServedDatabase::new(owner.clone()), ann);
    let begun = |queue| {
        let bulk = begin(&ann, queue).expect("permitted");
        let tick = Commit::new().part(Part::Jobs(Command::Tick));
        while progress(&owner, bulk).changed == 0 {
            owner.commit(&tick).expect("decided").committed().expect("a part of it");
        }
        assert!(!progress(&owner, bulk).done, "{:?}", progress(&owner, bulk));
        bulk
    };
    let end = |bulk| {
        while !progress(&owner, bulk).done {
            owner.carry_out(Duty::Tick).expect("no error");
        }
        let BulkProgress { changed, stopped, .. } = progress(&owner, bulk);
        assert!(stopped && changed < 600);
        assert_eq!(held(&owner, "q"), changed);
    };
    let bulk = begun(Some("q"));
    owner.access().remove_rule(&of("ann"), &alter).expect("removed");
    end(bulk);

    owner.access().add_rule(&of("ann"), &alter).expect("added");
    let release = Command::Bulk { filter: Filter::default(), change: Change::Release };
    owner.commit(&Commit::new().part(Part::Jobs(release))).expect("decided").committed().expect("the owner");
    while held(&owner, "q") > 0 {
        owner.carry_out(Duty::Tick).expect("no error");
    }
    let bulk = begun(None);
    owner.access().drop_user("ann").expect("dropped");
    end(bulk);
}
