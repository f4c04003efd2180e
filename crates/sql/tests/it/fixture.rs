//! Databases with something in every table.

use std::time::Duration;

use quire::events::{EventId, NewEvent};
use quire::jobs::Retry;
use quire::{Commit, Database, Durability, Message, NewBlock, NewEdge, NewJob};
use quire_sql::{Sql, SqlRows, SqlValue, TableDescription, TextIndexes};

/// A directory with its database.
pub(crate) struct Filled {
    pub(crate) database: Database,
    _directory: tempfile::TempDir,
}

/// Returns an empty database.
pub(crate) fn empty() -> Filled {
    let directory = tempfile::tempdir().expect("a directory");
    let database = Database::builder(directory.path()).durability(Durability::Os).open().expect("a database");
    Filled { database, _directory: directory }
}

/// Returns a database with two of everything, and awkward values.
pub(crate) fn filled() -> Filled {
    let filled = empty();
    let database = &filled.database;
    database.topic("t").create(3).expect("created");
    let types = ["Placed", "Paid", "placed", "5"];
    for number in 0..60u32 {
        let store = ["a", "B", "5", "05"][number as usize % 4];
        let tags = [format!("order:{}", number % 7), format!("region:{}", number % 3)];
        let mut event = NewEvent::new(types[number as usize % types.len()]);
        for tag in tags.iter().take(number as usize % 3) {
            event = event.tag(tag.clone());
        }
        event = match number % 5 {
            0 => event.data(vec![0xff, number as u8]),
            1 => event.data(format!(r#"{{"delay":{number}}}"#)).metadata("m"),
            2 => event.id(EventId::from_bytes([number as u8 + 1; 16])),
            _ => event,
        };
        let queue = ["q", "r"][number as usize % 2];
        let job = NewJob::new(format!("job {number}")).kind(["send", "call"][number as usize % 2]);
        let job = if number % 3 == 0 { job.tag("urgent").tag(format!("n:{}", number % 4)) } else { job };
        let message = Message::new(format!("message {number}")).partition(number % 3).header("h", "v");
        let message = if number % 4 == 0 { message.key(format!("{number}")) } else { message };
        let name = format!("b{}", number % 20);
        let block = NewBlock::new(name.clone(), ["airport", "City"][number as usize % 2]);
        let block = if number % 2 == 0 { block.tag("big").metadata(format!("{number}")) } else { block };
        let edge = NewEdge::new(name, ["flies_to", "near"][number as usize % 2], format!("b{}", (number + 1) % 20));
        let graph = if number % 10 == 9 { "h" } else { "g" };
        let commit = Commit::new()
            .append(store, [event])
            .enqueue(queue, job)
            .produce("t", message)
            .put_block(graph, block)
            .put_edge(graph, edge.allow_missing(true));
        database.commit(&commit).expect("decided").committed().expect("accepted");
    }
    for (number, job) in database.queue("q").fetch("w", 9).expect("fetched").into_iter().enumerate() {
        match number % 3 {
            0 => database.queue("q").ack(job.job, job.token, b"done").expect("acknowledged"),
            1 => database.queue("q").fail(job.job, job.token, "no route", Retry::Never).expect("failed"),
            _ => {}
        }
    }
    database.topic("t").commit_offset("readers", 1, quire::Sequence::new(4)).expect("committed");
    database.group("readers").commit_position("a", quire::events::EventPosition::new(3)).expect("committed");
    database.topic("u").create(1).expect("created");
    database.events("a").set_retention(Some(Duration::from_secs(86_400))).expect("set");
    TextIndexes::over(database).create("a", None, &["$.delay"]).expect("created");
    filled
}

/// Returns the table as a `FROM` names it: `walk` and `search` with their arguments.
pub(crate) fn from(table: &TableDescription) -> &'static str {
    match table.name {
        "walk" => "walk('g', 'b1')",
        "search" => "search('a', '16 OR 36')",
        name => name,
    }
}

/// Runs a statement without parameters.
#[track_caller]
pub(crate) fn rows(database: &Database, text: &str) -> SqlRows {
    Sql::over(database).query(text, &[]).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// Returns the rows of a statement as text, one row a line, values joined by `|`.
#[track_caller]
pub(crate) fn shown(database: &Database, text: &str) -> String {
    let lines = rows(database, text).rows.into_iter().map(|row| {
        let values = row.into_iter().map(|value| match value {
            SqlValue::Null => "NULL".to_owned(),
            SqlValue::Integer(number) => number.to_string(),
            SqlValue::Real(number) => format!("{number:?}"),
            SqlValue::Text(text) => text,
            SqlValue::Blob(bytes) => format!("{bytes:02x?}"),
        });
        values.collect::<Vec<_>>().join("|")
    });
    lines.collect::<Vec<_>>().join("\n")
}
