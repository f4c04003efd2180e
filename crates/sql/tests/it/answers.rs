//! Answers of statements: values, order, the position, and the traps of `MATCH`.

use std::ops::ControlFlow;

use quire::events::NewEvent;
use quire::{Commit, ErrorKind, Message, NewBlock, NewEdge, NewJob, Position};
use quire_sql::{Sql, SqlStatement, SqlValue, SqlValueRef, tables};

use crate::fixture::{empty, filled, from, rows, shown};

#[test]
fn every_table_has_rows_and_its_columns() {
    let filled = filled();
    for table in tables() {
        let from = from(&table);
        let found = rows(&filled.database, &format!("SELECT * FROM {from}"));
        // Nothing is damaged here.
        assert_eq!(found.rows.is_empty(), table.name == "damage", "rows of {from}");
        let names: Vec<_> =
            table.columns.iter().filter(|column| !column.is_argument).map(|column| column.name).collect();
        assert_eq!(found.columns, names);
        assert_eq!(found.summary.scanned, found.rows.len() as u64, "{from}");
        let count = shown(&filled.database, &format!("SELECT count(*) FROM {from}"));
        assert_eq!(count, found.rows.len().to_string());
    }
}

#[test]
fn one_commit_is_joined_over_all_models() {
    let filled = empty();
    let commit = Commit::new()
        .append("flights", [NewEvent::new("Departed").tag("flight:UA1545").data(r#"{"delay":42}"#)])
        .produce("departures", Message::new("UA1545").key("EWR"))
        .enqueue("delays", NewJob::new("tell").kind("mail"));
    filled.database.commit(&commit).expect("decided").committed().expect("accepted");
    let found = shown(
        &filled.database,
        "SELECT e.data ->> '$.delay', r.value, j.kind, j.state, c.events, c.jobs
         FROM commits c JOIN events e ON e.commit_position = c.position
         JOIN records r ON r.commit_position = c.position JOIN jobs j ON j.commit_position = c.position",
    );
    assert_eq!(found, "42|UA1545|mail|pending|2|2");
}

#[test]
fn matches_can_be_joined_and_a_value_of_match_fails() {
    let filled = filled();
    let database = &filled.database;
    let all = shown(
        database,
        "SELECT store, position FROM events, json_each(tags) WHERE value = 'order:1' INTERSECT
        SELECT store, position FROM events, json_each(tags) WHERE value = 'region:2'",
    );
    assert!(!all.is_empty());
    let both = "SELECT store, position FROM events WHERE tags MATCH 'order:1' AND tags MATCH 'region:2' ORDER BY 1, 2";
    assert_eq!(shown(database, both), all);
    let both = "SELECT store, position FROM events WHERE tags MATCH 'order:1 region:2' ORDER BY 1, 2";
    assert_eq!(shown(database, both), all);
    let either = "SELECT count(*) FROM events WHERE tags MATCH 'order:1 OR order:2'";
    let expect = "SELECT count(DISTINCT store || position) FROM event_tags WHERE tag IN ('order:1', 'order:2')";
    assert_eq!(shown(database, either), shown(database, expect));
    let paid = "SELECT store, position FROM events WHERE tags MATCH 'order:1' OR type = 'Paid' ORDER BY 1, 2";
    let expect = "SELECT store, position FROM event_tags WHERE tag = 'order:1'
        UNION SELECT store, position FROM events WHERE type = 'Paid' ORDER BY 1, 2";
    assert_eq!(shown(database, paid), shown(database, expect));
    for refused in [
        "SELECT * FROM events WHERE NOT tags MATCH 'order:1'",
        "SELECT tags MATCH 'order:1' FROM events",
        "SELECT * FROM events WHERE tags MATCH ''",
        "SELECT * FROM events WHERE tags MATCH 5",
    ] {
        let error = Sql::over(database).query(refused, &[]).expect_err(refused);
        assert_eq!(error.kind(), ErrorKind::Invalid, "{refused}: {error}");
    }
}

#[test]
fn a_row_that_two_alternatives_find_is_returned_once() {
    let filled = filled();
    let twice = "SELECT count(*) FROM events WHERE store = 'a' AND (type = 'Placed' OR position = 1)";
    let once = "SELECT count(*) FROM (SELECT * FROM events WHERE store = 'a') WHERE type = 'Placed' OR position = 1";
    assert_eq!(shown(&filled.database, twice), shown(&filled.database, once));
    let jobs = "SELECT count(*) FROM jobs WHERE state = 'pending' OR queue = 'q' OR kind = 'send'";
    let expect = "SELECT count(*) FROM (SELECT id FROM jobs WHERE state = 'pending' UNION
        SELECT id FROM jobs WHERE queue = 'q' UNION SELECT id FROM jobs WHERE kind = 'send')";
    assert_eq!(shown(&filled.database, jobs), shown(&filled.database, expect));
}

#[test]
fn a_plan_names_the_filters_that_narrow_the_scan() {
    let filled = filled();
    let plan = |text: &str| shown(&filled.database, &format!("EXPLAIN QUERY PLAN {text}"));
    let one = plan(
        "SELECT data FROM events WHERE store = 'a' AND type IN ('x', 'y') AND position > 3 ORDER BY position DESC",
    );
    assert!(one.contains("store= type IN position> ORDER BY position DESC"), "{one}");
    assert!(!one.contains("TEMP B-TREE"), "{one}");
    for (text, is_in_order) in [
        ("SELECT type FROM events", true),
        ("SELECT type FROM events WHERE store = 'a' AND position > 3 AND time_ms < 9", true),
        ("SELECT type FROM events WHERE store = 'a' ORDER BY position", true),
        ("SELECT type FROM events WHERE store = 'a' ORDER BY position DESC", false),
        ("SELECT type FROM events WHERE store = 'a' AND position = 3", false),
        ("SELECT type FROM events WHERE type = 'x'", false),
        ("SELECT tag FROM event_tags", true),
        ("SELECT tag FROM event_tags WHERE tag = 'x'", false),
        ("SELECT value FROM records WHERE topic = 't'", true),
        ("SELECT position FROM commits WHERE position > 3", true),
        ("SELECT kind FROM entries", true),
        ("SELECT name FROM queues", false),
    ] {
        let one = plan(text);
        assert_eq!(one.contains("SEGMENTS IN ORDER"), is_in_order, "{text}: {one}");
    }
    let one = plan("SELECT * FROM jobs WHERE state = 'dead' AND finished_at_ms >= ago_ms('1 hour')");
    assert!(one.contains("state IN finished_at_ms>=") || one.contains("state= finished_at_ms>="), "{one}");
}

#[test]
fn a_narrow_scan_reads_little() {
    let filled = filled();
    let scanned = |text: &str| rows(&filled.database, text).summary.scanned;
    assert_eq!(scanned("SELECT * FROM events WHERE store = 'a' AND position = 3"), 1);
    assert_eq!(scanned("SELECT * FROM events WHERE store = 'a' AND position BETWEEN 3 AND 5"), 3);
    assert_eq!(scanned("SELECT * FROM events WHERE store = 'a' AND type = 'none'"), 0);
    assert_eq!(scanned("SELECT * FROM events WHERE store = 'a' AND time_ms > ago_ms('0 s') + 1000"), 0);
    assert_eq!(scanned("SELECT * FROM records WHERE topic = 't' AND partition = 1 AND offset = 7"), 1);
    assert_eq!(scanned("SELECT * FROM jobs WHERE state = 'dead'"), 3);
    assert_eq!(scanned("SELECT * FROM blocks WHERE graph = 'g' AND name = 'b1'"), 1);
    assert_eq!(scanned("SELECT * FROM commits WHERE position = 9"), 1);
    assert_eq!(scanned("SELECT * FROM events WHERE store = 'a' ORDER BY position DESC LIMIT 1"), 15);
    assert!(scanned("SELECT * FROM edges WHERE graph = 'g' AND source = block_id('b1')") <= 4);
}

#[test]
fn a_statement_reads_one_position() {
    let filled = filled();
    let database = &filled.database;
    let sql = Sql::over(database);
    let texts = [
        "SELECT count(*), max(commit_position) FROM events",
        "SELECT count(*), max(commit_position) FROM records",
        "SELECT count(*), max(position) FROM commits",
        "SELECT count(*), max(commit_position) FROM blocks",
        "SELECT count(*), max(commit_position) FROM edges",
    ];
    let at = database.published();
    let as_of = |text, as_of| {
        sql.rows(&SqlStatement { text, as_of: Some(as_of), ..SqlStatement::default() }).expect("answered")
    };
    let before: Vec<_> = texts.iter().map(|text| as_of(text, at)).collect();
    let commit = Commit::new().append("a", [NewEvent::new("Late")]).produce("t", Message::new("late"));
    database.commit(&commit).expect("decided").committed().expect("accepted");
    database.graph("g").delete_block("b1").expect("deleted");
    for (text, before) in texts.iter().zip(before) {
        assert_eq!(as_of(text, at).rows, before.rows, "{text}");
        assert_ne!(rows(database, text).rows, before.rows, "{text}");
        assert_eq!(as_of(text, at).summary.as_of, at);
    }
    let tenth = as_of("SELECT max(position) FROM commits", Position::new(10));
    assert_eq!(tenth.rows, [[SqlValue::Integer(10)]]);
    for table in ["jobs", "queues", "stores", "lag", "groups", "topics", "partitions", "graphs"] {
        let text = format!("SELECT * FROM {table}");
        let refused = sql.rows(&SqlStatement { text: &text, as_of: Some(at), ..SqlStatement::default() });
        assert_eq!(refused.expect_err("a state").kind(), ErrorKind::Invalid, "{table}");
    }
    let ahead = SqlStatement { text: "SELECT 1", as_of: Some(Position::new(1 << 40)), ..SqlStatement::default() };
    assert_eq!(sql.rows(&ahead).expect_err("not there yet").kind(), ErrorKind::NotFound);
}

#[test]
fn each_acknowledged_write_is_found_at_once() {
    let filled = empty();
    for number in 1..=200 {
        let commit = Commit::new().append("s", [NewEvent::new("E")]).enqueue("q", NewJob::new("j"));
        filled.database.commit(&commit).expect("decided").committed().expect("accepted");
        let text =
            "SELECT (SELECT count(*) FROM events), (SELECT sum(pending) FROM queues), (SELECT count(*) FROM jobs)";
        assert_eq!(shown(&filled.database, text), format!("{number}|{number}|{number}"));
    }
}

#[test]
fn forgotten_and_trimmed_events_have_no_rows_at_once() {
    let filled = filled();
    filled.database.events("a").forget("order:1").expect("forgotten");
    assert_eq!(shown(&filled.database, "SELECT count(*) FROM events WHERE store = 'a' AND tags MATCH 'order:1'"), "0");
    filled.database.events("B").trim(quire::events::EventPosition::new(5)).expect("trimmed");
    assert_eq!(shown(&filled.database, "SELECT min(position) FROM events WHERE store = 'B'"), "6");
}

#[test]
fn a_scan_shows_no_event_that_was_forgotten_while_it_ran() {
    let filled = empty();
    let (database, store) = (&filled.database, filled.database.events("s"));
    for first in (0..8_000).step_by(500) {
        let event = |number: u32| NewEvent::new("E").tag(format!("person:{}", number % 2)).data(format!("{number}"));
        store.append((first..first + 500).map(event)).expect("appended");
    }
    let (mut rows, mut forgotten_at) = (Vec::new(), None);
    let text = "SELECT position, tags FROM events WHERE store = 's'";
    let statement = SqlStatement { text, ..SqlStatement::default() };
    let visit = |row: &[SqlValueRef<'_>]| {
        if let ([SqlValueRef::Integer(position), SqlValueRef::Text(tags)], None) = (row, forgotten_at)
            && *position > 2_000
        {
            assert_eq!(*tags, b"[\"person:0\"]");
            store.forget("person:1").expect("forgotten");
            database.compact().expect("compacted");
            forgotten_at = Some(*position);
        }
        rows.push(row[0].as_i64().expect("a position"));
        ControlFlow::Continue(())
    };
    Sql::over(database).visit(&statement, |_| (), visit).expect("the scan continues");
    let forgotten_at = forgotten_at.expect("the scan met the event");
    // A page that was read before is shown.
    let (before, after): (Vec<i64>, Vec<i64>) = rows.iter().partition(|position| **position < forgotten_at + 1_024);
    assert!(before.iter().any(|position| position % 2 == 0) && !after.is_empty());
    assert!(after.iter().all(|position| position % 2 == 1), "positions of the other person are odd");
    assert_eq!(after.last(), Some(&7_999));
}

#[test]
fn a_reader_of_the_directory_has_the_answers_of_the_writer() {
    let directory = tempfile::tempdir().expect("a directory");
    let builder = || quire::Database::builder(directory.path()).durability(quire::Durability::Os);
    let database = builder().open().expect("open");
    for number in 0..3_000 {
        let commit = Commit::new()
            .append(["a", "b"][number % 2], [NewEvent::new("E").data(vec![b'x'; number % 50])])
            .produce("t", Message::new(format!("{number}")));
        database.commit(&commit).expect("decided").committed().expect("accepted");
    }
    let reader = builder().read_only(true).open().expect("opened for reading");
    for table in ["events", "records", "event_tags", "commits", "entries"] {
        let text = format!("SELECT * FROM {table}");
        assert_eq!(rows(&reader, &text).rows, rows(&database, &text).rows, "{table}");
    }
}

#[test]
fn answers_are_the_same_after_a_reopening() {
    let directory = tempfile::tempdir().expect("a directory");
    let open = || quire::Database::builder(directory.path()).durability(quire::Durability::Os).open().expect("open");
    let database = open();
    for number in 0..50 {
        let commit = Commit::new()
            .append("s", [NewEvent::new("E").tag(format!("n:{}", number % 5)).data(format!("{number}"))])
            .produce("t", Message::new(format!("{number}")));
        database.commit(&commit).expect("decided").committed().expect("accepted");
    }
    let texts = ["SELECT * FROM events", "SELECT * FROM records", "SELECT * FROM event_tags", "SELECT * FROM commits"];
    let before = texts.map(|text| rows(&database, text).rows);
    drop(database);
    let database = open();
    assert_eq!(texts.map(|text| rows(&database, text).rows), before);
    database.compact().expect("compacted");
    assert_eq!(texts.map(|text| rows(&database, text).rows), before);
}

#[test]
fn parameters_are_bound_by_number_and_by_name() {
    let filled = filled();
    let sql = Sql::over(&filled.database);
    let hostile = "a' OR '1'='1";
    let none = sql.query("SELECT count(*) FROM events WHERE store = ?1", &[hostile.into()]).expect("answered");
    assert_eq!(none.rows, [[SqlValue::Integer(0)]]);
    let named = [("store", "a".into()), ("from", SqlValue::Integer(3))];
    let text = "SELECT min(position) FROM events WHERE store = :store AND position >= $from";
    let found = sql.rows(&SqlStatement { text, named: &named, ..SqlStatement::default() }).expect("answered");
    assert_eq!(found.rows, [[SqlValue::Integer(3)]]);
    let message = |text, values: &[SqlValue]| sql.query(text, values).expect_err(text).to_string();
    assert_eq!(message("SELECT ?1", &[]), "parameter ?1 has no value");
    assert_eq!(message("SELECT :a", &[]), "parameter :a has no value");
    assert_eq!(message("SELECT 1", &[SqlValue::Null]), "the statement has 0 parameters, and 1 values were given");
}

#[test]
fn a_walk_takes_arguments_and_joins_other_tables() {
    let filled = empty();
    let mut commit = Commit::new();
    for name in ["EWR", "IAH", "SFO", "HNL"] {
        commit = commit.put_block("air", NewBlock::new(name, "airport"));
    }
    for (source, edge_type, target) in
        [("EWR", "flies_to", "IAH"), ("IAH", "flies_to", "SFO"), ("SFO", "near", "HNL"), ("HNL", "flies_to", "nowhere")]
    {
        commit = commit.put_edge("air", NewEdge::new(source, edge_type, target).allow_missing(true));
    }
    filled.database.commit(&commit).expect("decided").committed().expect("accepted");
    let shown = |text: &str| shown(&filled.database, text);
    assert_eq!(
        shown("SELECT name, depth, via FROM walk('air', 'EWR') ORDER BY depth"),
        "EWR|0|NULL\nIAH|1|flies_to\nSFO|2|flies_to\nHNL|3|near\nNULL|4|flies_to"
    );
    let names = |arguments: &str| shown(&format!("SELECT group_concat(name) FROM walk({arguments})"));
    assert_eq!(names("'air', 'EWR', 'outgoing', 'flies_to'"), "EWR,IAH,SFO");
    assert_eq!(names("'air', 'HNL', 'incoming', 'near, flies_to', 2"), "HNL,SFO,IAH");
    assert_eq!(names("'air', 'SFO', 'both', '', 1"), "SFO,HNL,IAH");
    for none in ["'air', 'absent'", "'absent', 'EWR'", "'air', NULL", "'air', 'EWR', NULL"] {
        assert_eq!(shown(&format!("SELECT count(*) FROM walk({none})")), "0", "{none}");
    }
    // A walk for each row of another table, whichever is named first.
    let joined = "SELECT b.name, count(*) FROM walk('air', b.name) w, blocks b WHERE b.graph = 'air' \
        GROUP BY b.name ORDER BY 1";
    assert_eq!(shown(joined), "EWR|5\nHNL|2\nIAH|4\nSFO|3");
    assert_eq!(
        shown(
            "SELECT p.name FROM walk('air', 'EWR') w JOIN blocks p ON p.graph = 'air' AND p.id = w.previous \
        WHERE w.name = 'SFO'"
        ),
        "IAH"
    );
    for (arguments, message) in [
        ("", "a graph and the name of a block"),
        ("('air')", "a graph and the name of a block"),
        ("('air', 'EWR', 'sideways')", "outgoing, incoming or both"),
        ("('air', 'EWR', 'both', '', -1)", "from 0, not -1"),
    ] {
        let text = format!("SELECT * FROM walk{arguments}");
        let error = Sql::over(&filled.database).query(&text, &[]).expect_err(&text);
        assert!(error.kind() == ErrorKind::Invalid && error.to_string().contains(message), "{text}: {error}");
    }
}

#[test]
fn a_job_has_its_steps() {
    let filled = empty();
    let queue = filled.database.queue("q");
    queue.enqueue(NewJob::new("job")).expect("enqueued");
    let job = queue.fetch("w", 1).expect("fetched").remove(0);
    queue.fail(job.job, job.token, "no route", quire::jobs::Retry::Never).expect("failed");
    assert_eq!(
        shown(&filled.database, "SELECT what, state, attempt, worker, error FROM job_steps ORDER BY commit_position"),
        "enqueued|pending|NULL|NULL|NULL\nleased|active|1|w|NULL\nfailed|dead|1|NULL|no route"
    );
    let joined = "SELECT count(*) FROM jobs j JOIN job_steps s ON s.job = j.id WHERE j.state = 'dead'";
    assert_eq!(shown(&filled.database, joined), "3");
}

#[test]
fn segments_have_their_commits_and_stages() {
    let filled = empty();
    let (database, store) = (&filled.database, filled.database.events("s"));
    store.append((0..500).map(|number| NewEvent::new("E").tag(format!("n:{number}")))).expect("appended");
    let counted = "SELECT (SELECT sum(commits) FROM segments) = (SELECT count(*) FROM commits),
        (SELECT sum(entries) FROM segments) = (SELECT count(*) FROM entries),
        (SELECT min(bytes) FROM segments) > 0, (SELECT max(end_position) FROM segments)";
    let end = database.published().get() + 1;
    assert_eq!(shown(database, counted), format!("1|1|1|{end}"));
    assert_eq!(shown(database, "SELECT stage, index_bytes FROM segments"), "active|0");
    // A compaction begins another segment, and rewrites the full one.
    store.trim(quire::events::EventPosition::new(499)).expect("trimmed");
    database.compact().expect("compacted");
    let end = database.published().get() + 1;
    assert_eq!(shown(database, counted), format!("1|1|1|{end}"));
    let stages = shown(database, "SELECT stage FROM segments ORDER BY first_position");
    assert!(stages.ends_with("active"), "{stages}");
}

#[test]
fn the_tables_and_columns_are_tables() {
    let filled = empty();
    let names: Vec<_> = tables().map(|table| table.name).collect();
    assert_eq!(shown(&filled.database, "SELECT name FROM quire_tables"), names.join("\n"));
    let of_lag = "SELECT name, type FROM quire_columns WHERE table_name = 'lag' AND number < 2 ORDER BY number";
    assert_eq!(shown(&filled.database, of_lag), "consumer_group|text\nkind|text");
    let arguments = "SELECT group_concat(name) FROM quire_columns WHERE is_argument";
    assert_eq!(shown(&filled.database, arguments), "text_index,words,graph,start,direction,types,depth_max");
}
