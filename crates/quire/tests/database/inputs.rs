//! Input at its limits and beyond is accepted or refused. It never ends in a panic, after which no
//! commit would be accepted.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use quire::events::{Condition, EventPosition, NewEvent, Query, QueryItem, ReadOptions};
use quire::graph::{BlockId, PutBlock, PutEdge};
use quire::jobs::{Backoff, JobId, JobSpec, JobState, LeaseToken, Retry};
use quire::{
    Commit, Database, Durability, Message, NewBlock, NewEdge, Part, Place, Position, Sequence, Timestamp, jobs, streams,
};

use crate::support::{self, check};

const LAST: Place = Place::END;

/// Commits parts that every database accepts.
fn alive(database: &Database) {
    let commit = Commit::new().append("alive", [NewEvent::new("Alive")]).enqueue("alive", JobSpec::new(b""));
    database.commit(&commit).expect("durable").committed().expect("accepted");
}

/// Commits parts that may be accepted or refused, and checks that the database continues to work.
fn survive(database: &Database, commit: &Commit<'_>) {
    let what = format!("{commit:?}");
    let answered = catch_unwind(AssertUnwindSafe(|| drop(database.commit(commit))));
    assert!(answered.is_ok(), "a panic, of {}", what.chars().take(300).collect::<String>());
    alive(database);
}

fn job_commands(database: &Database) {
    let (job, token) = (JobId::new(LAST), LeaseToken::new(LAST));
    let lease = |queues, count, lease_micros| jobs::Command::Fetch {
        queues,
        order: jobs::Order::Strict,
        count,
        lease_micros,
        worker: "worker",
    };
    let commands = [
        lease(&[], 1, 1),
        lease(&["alive"], 0, 1),
        lease(&["alive"], u32::MAX, u64::MAX),
        lease(&["alive"], 1_024, 0),
        lease(&["alive"; 64], 1_024, 1),
        lease(&["alive"; 65], 1, 1),
        jobs::Command::Each(&[]),
        jobs::Command::Each(&[jobs::Command::Ack { job, token, result: b"" }; 2]),
        jobs::Command::Each(&[jobs::Command::Each(&[])]),
        jobs::Command::Change { job, change: jobs::Change::Delete },
        jobs::Command::Change { job, change: jobs::Change::Retry { payload: None } },
        jobs::Command::Snooze { job, token, until: Timestamp::MAX },
        jobs::Command::Clear { queue: "" },
        jobs::Command::Destroy { queue: "nobody-used-it" },
        jobs::Command::Fail { job, token, error: "", retry: Retry::At(Timestamp::MAX) },
        jobs::Command::Heartbeat { job, token, lease_micros: Some(u64::MAX), progress: None, checkpoint: None },
        jobs::Command::Tick,
    ];
    for command in commands {
        survive(database, &Commit::new().part(Part::Jobs(command)));
    }
    for (micros, attempts_max) in [(0, 0), (0, 1), (u64::MAX, u16::MAX)] {
        let backoff = Backoff::Exponential { base_micros: micros, max_micros: micros };
        let job = JobSpec { backoff, attempts_max, run_at: Some(Timestamp::from_micros(micros)), ..JobSpec::new(b"") };
        survive(database, &Commit::new().enqueue("limits", job));
        let fetched = database.queue("limits").fetch("worker", 1).expect("accepted");
        for job in fetched {
            survive(database, &Commit::new().fail(job.job, job.token, "", Retry::Backoff));
        }
    }
    let tag = "t".repeat(255);
    let tags = [tag.as_str(); 32];
    survive(database, &Commit::new().enqueue("limits", JobSpec { tags: &tags, kind: &tag, ..JobSpec::new(b"") }));
}

fn stream_commands(database: &Database) {
    for (name, partitions) in [("none", 0), ("most", 100_000), ("more", u32::MAX)] {
        let create = streams::Command::CreateTopic { name, partitions, settings: streams::TopicSettings::default() };
        survive(database, &Commit::new().part(Part::Streams(create)));
    }
    for timestamp_ms in [i64::MIN, -1, 0, i64::MAX] {
        let message = Message::new("m").key("").header("", "").timestamp_ms(timestamp_ms);
        survive(database, &Commit::new().produce("topic", message));
    }
    let ends = [Message::new("m").timestamp_ms(i64::MIN), Message::tombstone().timestamp_ms(i64::MAX)];
    let _ = database.topic("topic").producer().produce(&ends);
    alive(database);
    survive(database, &Commit::new().produce("topic", Message::new("m").partition(u32::MAX)));
    survive(database, &Commit::new().commit_offset("group", "topic", 0, Sequence::new(u64::MAX)));
    survive(database, &Commit::new().commit_offset("", "topic", u32::MAX, Sequence::new(0)));
}

fn event_commands(database: &Database) {
    let last = EventPosition::new(u64::MAX);
    for query in [Query::default(), Query::all(), Query::from(QueryItem::new().tag("").event_type(""))] {
        for condition in
            [Condition::fail_if_matches_after(query.clone(), last), Condition::last_is(query.clone(), last)]
        {
            survive(database, &Commit::new().append_if("alive", [NewEvent::new("Made")], [condition.clone()]));
            survive(database, &Commit::new().append_if("nothing", [], [condition]));
        }
    }
    let label = "l".repeat(255);
    let tags: Vec<String> = (0..64).map(|number| format!("{number:0255}")).collect();
    let event = tags.iter().fold(NewEvent::new(&label), |event, tag| event.tag(tag));
    survive(database, &Commit::new().append("limits", [event.clone(), event]));
    survive(database, &Commit::new().append("limits", vec![NewEvent::new("Made"); 65_537]));
    survive(database, &Commit::new().append("limits", vec![NewEvent::new("Made"); 65_536]));
}

fn graph_commands(database: &Database) {
    let tags: Vec<String> = (0..201).map(|number| format!("{number:0255}")).collect();
    let tags: Vec<&str> = tags.iter().map(String::as_str).collect();
    let (name, kind) = ("n".repeat(1_024), "k".repeat(255));
    for count in [200, 201] {
        let block = PutBlock { tags: &tags[..count], ..PutBlock::new("limits", name.as_str(), &kind) };
        survive(database, &Commit::new().part(quire::graph::Command::PutBlock(block)));
    }
    survive(database, &Commit::new().put_edge("limits", NewEdge::new(BlockId::MIN, &kind, BlockId::MAX)));
    let missing = PutEdge { allow_missing: true, ..PutEdge::new("limits", BlockId::MIN, &kind, BlockId::MAX) };
    survive(
        database,
        &Commit::new().part(quire::graph::Command::PutEdge(missing)).delete_block("limits", BlockId::MIN),
    );
}

fn names(database: &Database) {
    let (longest, too_long) = ("n".repeat(255), "n".repeat(256));
    for name in ["", "/", "a//b", "ä", "a\0b", ".", "..", " ", &longest, &too_long] {
        survive(database, &Commit::new().append(name, [NewEvent::new("Made")]));
        survive(database, &Commit::new().append("store", [NewEvent::new(name).tag(name)]));
        survive(database, &Commit::new().produce(name, Message::new("m")));
        survive(database, &Commit::new().commit_offset(name, "topic", 0, Sequence::new(0)));
        survive(database, &Commit::new().enqueue(name, JobSpec { kind: name, tags: &[name], ..JobSpec::new(b"") }));
        survive(database, &Commit::new().put_block(name, NewBlock::new("a", "thing")));
        survive(database, &Commit::new().put_block("graph", NewBlock::new(name, name)));
        survive(database, &Commit::new().put_edge("graph", NewEdge::new("a", name, "a")));
    }
}

fn reads(database: &Database) {
    let last = EventPosition::new(u64::MAX);
    for (after, up_to) in
        [(last, None), (EventPosition::ZERO, Some(last)), (last, Some(last)), (last, Some(EventPosition::ZERO))]
    {
        for backwards in [false, true] {
            let options = ReadOptions { after, up_to, before: up_to, backwards, limit: Some(0) };
            database.events("alive").read(&Query::all(), options).expect("readable");
            let options = ReadOptions { limit: None, ..options };
            let read = database.events("alive").read(&Query::all(), options).expect("readable");
            assert!(read.events.is_empty() || after == EventPosition::ZERO, "nothing comes after the last position");
        }
    }
    for offset in [0, 1_000, u64::MAX] {
        let _ = database.topic("topic").fetch(0, Sequence::new(offset), 0);
        let _ = database.topic("topic").fetch(u32::MAX, Sequence::new(offset), usize::MAX);
    }
    for place in [Place::START, LAST, Place::new(Position::new(1), u32::MAX)] {
        assert_eq!(database.queue("alive").job(JobId::new(place)).expect("readable"), None);
        for state in JobState::ALL {
            for count in [0, usize::MAX] {
                database.queue("alive").list(state, Some(JobId::new(place).into()), count).expect("readable");
            }
        }
    }
    assert!(database.history().record(Position::MAX).unwrap().is_none());
    assert!(database.history().record(Position::ZERO).unwrap().is_none());
    let leased = database.queue("alive").lease(Duration::MAX).fetch("worker", 1);
    assert!(leased.is_err(), "nothing is leased for ever");
}

#[test]
fn no_input_ends_in_a_panic() {
    let scenario = |database: &Database| {
        alive(database);
        job_commands(database);
        stream_commands(database);
        event_commands(database);
        graph_commands(database);
        names(database);
        reads(database);
    };
    check(scenario, |database| assert!(database.published() > Position::ZERO));
}

#[test]
fn a_read_that_panics_harms_no_other() {
    let place = support::Place::new();
    let database = place.open(Durability::Os);
    let panicked = catch_unwind(AssertUnwindSafe(|| database.read(|_| panic!("of the one who looks")).map(|_| ())));
    assert!(panicked.is_err());
    alive(&database);
    drop(database);
    assert_eq!(place.open(Durability::Os).published(), Position::new(1));
}
