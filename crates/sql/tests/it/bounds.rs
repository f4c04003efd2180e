//! Limits: hostile statements end with an error that names the limit.

use std::sync::Arc;
use std::time::Duration;

use quire::events::NewEvent;
use quire::{Database, Durability, ErrorKind, ManualClock, StepBudget, Timestamp};
use quire_sql::{Sql, SqlLimits};

use crate::fixture::{empty, filled};

#[track_caller]
fn refused(sql: &Sql, text: &str, kind: ErrorKind, names: &str) {
    let error = sql.query(text, &[]).expect_err(text);
    assert_eq!(error.kind(), kind, "{text}: {error}");
    assert!(error.to_string().contains(names), "{text}: {error}");
}

#[test]
fn a_statement_changes_nothing_and_reaches_nothing_outside() {
    let filled = filled();
    let sql = Sql::over(&filled.database);
    for text in [
        "INSERT INTO events VALUES (1)",
        "DELETE FROM events",
        "UPDATE events SET type = 'x'",
        "CREATE TABLE t(a)",
        "CREATE TEMP TABLE t AS SELECT 1",
        "CREATE VIRTUAL TABLE f USING fts5(a)",
        "CREATE VIEW v AS SELECT 1",
        "DROP TABLE events",
        "ATTACH '/tmp/x.db' AS x",
        "VACUUM INTO '/tmp/x.db'",
        "PRAGMA hard_heap_limit = 0",
        "PRAGMA writable_schema = 1",
        "SELECT * FROM pragma_database_list",
        "BEGIN",
        "ANALYZE",
        "REINDEX",
        "SELECT load_extension('/tmp/x.so')",
        "SELECT fts3_tokenizer('simple')",
        "SELECT 1; SELECT 2",
        "",
        "-- nothing",
        "SELECT FROM",
        "SELECT \"no such column\" FROM events",
        "SELECT readfile('/etc/passwd')",
        "SELECT json_patch('{}', '{}')",
        "SELECT unhex('61', ' ')",
    ] {
        refused(&sql, text, ErrorKind::Invalid, "");
    }
    assert_eq!(sql.query("SELECT 1;", &[]).expect("one statement").rows.len(), 1);
}

#[test]
fn statements_without_an_end_are_ended() {
    let filled = filled();
    let few = SqlLimits { instructions: 2_000_000, rows: 1_000, bytes: 1 << 20, ..SqlLimits::default() };
    let sql = Sql::over(&filled.database).limits(few);
    let endless = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n)";
    refused(&sql, &format!("{endless} SELECT count(*) FROM n"), ErrorKind::TooCostly, "2000000 instructions");
    refused(&sql, &format!("{endless} SELECT x FROM n"), ErrorKind::TooCostly, "1000 rows");
    refused(&sql, "SELECT hex(zeroblob(1000000))", ErrorKind::TooCostly, "1048576 bytes");
    let cross = "SELECT count(*) FROM events a, events b, events c, events d, events e";
    refused(&sql, cross, ErrorKind::TooCostly, "instructions");
    refused(&sql, "SELECT length(zeroblob(1000000000))", ErrorKind::TooCostly, "67108864 bytes");
    let deep = format!("SELECT {}1{}", "(1 + ".repeat(500), ")".repeat(500));
    refused(&sql, &deep, ErrorKind::Invalid, "");
    let long = format!("SELECT '{}'", "x".repeat(300 << 10));
    refused(&sql, &long, ErrorKind::TooCostly, "the text of the statement has 307209 bytes, more than 262144");
    let compound = vec!["SELECT 1"; 60].join(" UNION ALL ");
    refused(&sql, &compound, ErrorKind::Invalid, "");
}

#[test]
fn one_call_of_a_function_takes_linear_time() {
    let filled = filled();
    let sql = Sql::over(&filled.database);
    let (long, other) = ("printf('%.*c', 12000000, 'a')", "printf('%.*c', 4000000, 'a') || 'b'");
    // Each of these would take minutes with SQLite's own functions.
    for call in [
        format!("instr({long}, {other})"),
        format!("length(replace({long}, {other}, ''))"),
        format!("length(trim({long}, {other}))"),
    ] {
        assert_eq!(sql.query(&format!("SELECT {call}"), &[]).expect("it ends").rows.len(), 1, "{call}");
    }
    let like = format!("SELECT {long} LIKE '{}'", "%a".repeat(51));
    refused(&sql, &like, ErrorKind::Invalid, "LIKE or GLOB pattern too complex");
}

#[test]
fn a_statement_ends_at_its_time_in_a_scan_and_in_sqlite() {
    let directory = tempfile::tempdir().expect("a directory");
    let clock = Arc::new(ManualClock::new(Timestamp::from_millis(1_000_000)));
    let builder = Database::builder(directory.path()).durability(Durability::Os).clock(Arc::clone(&clock) as _);
    let database = builder.open().expect("a database");
    database.events("s").append((0..5_000).map(|_| NewEvent::new("E"))).expect("appended");
    let sql = Sql::over(&database).limits(SqlLimits { time: Duration::from_secs(1), ..SqlLimits::default() });
    sql.query("SELECT count(*) FROM events", &[]).expect("in time");
    let mut seen = 0;
    let statement = quire_sql::SqlStatement { text: "SELECT position FROM events", ..Default::default() };
    let late = sql.visit(
        &statement,
        |_| (),
        |_| {
            seen += 1;
            clock.set(Timestamp::from_millis(1_000_000 + 10 * seen));
            std::ops::ControlFlow::Continue(())
        },
    );
    assert_eq!(late.expect_err("too late").kind(), ErrorKind::TooCostly);
    assert!((100..2_000).contains(&seen), "{seen}");
}

#[test]
fn a_statement_claims_the_steps_of_its_request_and_ends_when_it_is_cancelled() {
    let filled = empty();
    filled.database.events("s").append((0..5_000).map(|_| NewEvent::new("E"))).expect("appended");
    let few = filled.database.within(StepBudget::new(500));
    refused(&Sql::over(&few), "SELECT count(*) FROM events", ErrorKind::TooCostly, "500 steps");
    let endless = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT count(*) FROM n";
    refused(&Sql::over(&few), endless, ErrorKind::TooCostly, "500 steps");
    let budget = StepBudget::unbounded();
    let cancelled = filled.database.within(budget.clone());
    budget.cancel();
    refused(&Sql::over(&cancelled), "SELECT count(*) FROM events", ErrorKind::Cancelled, "cancelled");
    refused(&Sql::over(&cancelled), endless, ErrorKind::Cancelled, "cancelled");
}
