//! The speed of statements over a million events and a million jobs, and of the scans below them:
//! prints the best of five runs of each.
//!
//! `cargo run --release -p quire-sql --example speed`

use std::hint::black_box;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use quire::events::{NewEvent, Query, ReadOptions};
use quire::jobs::Retry;
use quire::{Commit, Database, Durability, History, NewJob, Place, Sequence};
use quire_sql::{Sql, SqlLimits};

const EVENTS: u64 = 1_000_000;
const EVENTS_AT_ONCE: u64 = 10;
const JOBS: u64 = 1_000_000;
const JOBS_AT_ONCE: u64 = 1_000;
const RUNS: u32 = 5;

/// A question with its statement.
type Question = (&'static str, &'static str);

const QUESTIONS: &[Question] = &[
    ("group by type", "SELECT type, count(*) FROM events WHERE store = 's' GROUP BY type"),
    ("count of one type of 20", "SELECT count(*) FROM events WHERE store = 's' AND type = 'T7'"),
    ("average of a JSON field", "SELECT avg(data ->> '$.n') FROM events WHERE store = 's'"),
    ("average of a JSON field by type", "SELECT type, avg(data ->> '$.n') FROM events WHERE store = 's' GROUP BY type"),
    ("one tag of 50 events", "SELECT * FROM events WHERE store = 's' AND tags MATCH 'order:17'"),
    ("the last 10 events", "SELECT * FROM events WHERE store = 's' ORDER BY position DESC LIMIT 10"),
    (
        "the last 1 % of the commits",
        "SELECT count(*) FROM commits WHERE position > (SELECT max(position) * 99 / 100 FROM (SELECT position FROM commits ORDER BY position DESC LIMIT 1))",
    ),
    (
        "100,000 events by position",
        "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 10 FROM n WHERE x < 999990) SELECT count(e.type) FROM n CROSS JOIN events e ON e.store = 's' AND e.position = n.x",
    ),
    (
        "dead jobs by kind",
        "SELECT kind, count(*) FROM jobs WHERE state = 'dead' AND finished_at_ms >= ago_ms('1 hour') GROUP BY kind",
    ),
    ("lag of 100 groups", "SELECT consumer_group, lag FROM lag"),
];

#[expect(clippy::disallowed_methods, reason = "it measures")]
fn now() -> Instant {
    Instant::now()
}

fn fill(database: &Database) -> quire::Result<()> {
    let store = database.events("s");
    for first in (0..EVENTS).step_by(EVENTS_AT_ONCE as usize) {
        let event = |number: u64| {
            let data = format!(r#"{{"n":{number},"name":"an event of the measurement","rest":"{:040}"}}"#, number);
            NewEvent::new(format!("T{}", number % 20)).tag(format!("order:{}", number % 20_000)).data(data)
        };
        store.append((first..first + EVENTS_AT_ONCE).map(event))?;
    }
    for first in (0..JOBS).step_by(JOBS_AT_ONCE as usize) {
        let job = |commit: Commit<'static>, number: u64| {
            commit.enqueue("q", NewJob::new(format!("job {number}")).kind(format!("k{}", number % 5)))
        };
        database.commit(&(first..first + JOBS_AT_ONCE).fold(Commit::new(), job))?.committed()?;
    }
    for job in database.queue("q").fetch("worker", 1_000)? {
        database.queue("q").fail(job.job, job.token, "no route", Retry::Never)?;
    }
    database.topic("t").create(1)?;
    for number in 0..100 {
        database.topic("t").commit_offset(&format!("group-{number}"), 0, Sequence::new(0))?;
    }
    Ok(())
}

/// Returns the duration of the fastest run, and its result.
fn best<T>(mut run: impl FnMut() -> quire::Result<T>) -> quire::Result<(Duration, T)> {
    let mut best: Option<(Duration, T)> = None;
    for _ in 0..RUNS {
        let begin = now();
        let found = run()?;
        let took = now().duration_since(begin);
        if best.as_ref().is_none_or(|(least, _)| took < *least) {
            best = Some((took, found));
        }
    }
    Ok(best.expect("it ran"))
}

/// Measures reads of each event and of each entry: one by one, and by a scan.
fn scans(database: &Database) -> quire::Result<()> {
    let store = database.events("s");
    let selection = database.read_published(|view| view.events.select("s", &Query::all()))?.expect("a valid query");
    let (one_by_one, _) = best(|| {
        let history = database.history();
        for event in selection.read(&history, ReadOptions::default())? {
            black_box(event?.data);
        }
        Ok(())
    })?;
    let (visited, _) = best(|| {
        store.visit(&Query::all(), ReadOptions::default(), |event| {
            black_box(event.data);
        })
    })?;
    let (next, entries) = best(|| {
        let (history, mut from, mut entries) = (database.history(), Place::START, 0);
        while let Some(entry) = history.next(&[], from)? {
            (from, entries) = (black_box(entry.place).after(), entries + 1);
        }
        Ok(entries)
    })?;
    let (scanned, _) = best(|| {
        let history = database.history();
        history.scan(&[], Place::START, Place::END, &mut |entry| {
            black_box(entry.place);
            ControlFlow::Continue(())
        })?;
        Ok(())
    })?;
    println!("{:<34} {:>15} {:>15}", "read", "one by one", "by a scan");
    for (name, before, after, count) in
        [("each event of the store", one_by_one, visited, EVENTS), ("each entry of the log", next, scanned, entries)]
    {
        let each = |took: Duration| took.as_nanos() as f64 / count as f64;
        println!("{name:<34} {:>12.1} ns {:>12.1} ns", each(before), each(after));
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let directory = std::env::temp_dir().join(format!("quire-sql-speed-{}", std::process::id()));
    let database = Database::builder(&directory).durability(Durability::Os).open()?;
    fill(&database)?;
    scans(&database)?;
    let sql = Sql::over(&database).limits(SqlLimits { time: Duration::from_secs(600), ..SqlLimits::default() });
    println!("{:<34} {:>12} {:>8} {:>10}", "question", "best", "rows", "scanned");
    for (name, text) in QUESTIONS {
        let (took, summary) = best(|| Ok(sql.query(text, &[])?.summary))?;
        println!("{name:<34} {:>9.3} ms {:>8} {:>10}", took.as_secs_f64() * 1e3, summary.rows, summary.scanned);
    }
    drop(database);
    std::fs::remove_dir_all(&directory)?;
    Ok(())
}
