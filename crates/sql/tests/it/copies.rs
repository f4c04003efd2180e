//! Random statements over each table and over a copy of it in SQLite have the same answers.
//!
//! The copy is compared by SQLite alone, so a filter that narrows a scan too much is found. The
//! variable `QUIRE_SQL_CASES` gives the number of statements for each table.

use fastrand::Rng;
use quire_sql::{Sql, SqlRows, SqlValue, TableDescription, tables};
use rusqlite::Connection;

use crate::fixture::{filled, rows};

const CASES: usize = 400;

/// Returns the tables that have rows without arguments and do not change while they are read.
fn copyable() -> impl Iterator<Item = TableDescription> {
    tables().filter(|table| !["walk", "search", "damage", "statistics"].contains(&table.name))
}

/// Returns a database of SQLite with a copy of each table.
fn copied(database: &quire::Database) -> Connection {
    let copy = Connection::open_in_memory().expect("opened");
    for table in copyable() {
        let column = |column: &quire_sql::TableColumn| format!("\"{}\" {}", column.name, column.kind.declaration());
        let columns: Vec<_> = table.columns.iter().map(column).collect();
        copy.execute(&format!("CREATE TABLE {} ({})", table.name, columns.join(", ")), []).expect("created");
        let places = vec!["?"; columns.len()].join(", ");
        let mut insert = copy.prepare(&format!("INSERT INTO {} VALUES ({places})", table.name)).expect("prepared");
        for row in rows(database, &format!("SELECT * FROM {}", table.name)).rows {
            insert.execute(rusqlite::params_from_iter(row)).expect("inserted");
        }
    }
    copy
}

fn answer(copy: &Connection, text: &str) -> Vec<Vec<SqlValue>> {
    let mut statement = copy.prepare(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    let count = statement.column_count();
    let row = |row: &rusqlite::Row<'_>| {
        (0..count).map(|column| row.get_ref(column).map(SqlValue::from)).collect::<rusqlite::Result<Vec<_>>>()
    };
    let found = statement.query_map([], row).unwrap_or_else(|error| panic!("{text}: {error}"));
    found.collect::<Result<_, _>>().unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// Values that occur in the columns of a table, and others of each type.
struct Literals {
    columns: Vec<Vec<String>>,
}

impl Literals {
    fn of(found: &SqlRows) -> Self {
        let literal = |value: &SqlValue| match value {
            SqlValue::Null => "NULL".to_owned(),
            SqlValue::Integer(number) => number.to_string(),
            SqlValue::Real(number) => format!("{number:?}"),
            SqlValue::Text(text) => format!("'{}'", text.replace('\'', "''")),
            SqlValue::Blob(bytes) => {
                format!("x'{}'", bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>())
            }
        };
        let column = |column: usize| found.rows.iter().map(|row| literal(&row[column])).collect();
        Literals { columns: (0..found.columns.len()).map(column).collect() }
    }

    fn one(&self, rng: &mut Rng, column: usize) -> String {
        const ODD: &[&str] = &[
            "NULL",
            "0",
            "1",
            "-1",
            "2.0",
            "1.5",
            "'1'",
            "'05'",
            "5",
            "5.0",
            "'5'",
            "' 5'",
            "'abc'",
            "''",
            "x'61'",
            "x''",
            "9223372036854775807",
            "-9223372036854775808",
            "9223372036854775808.0",
            "1e300",
            "-1e300",
            "9007199254740993",
            "'placed'",
            "CAST('5' AS BLOB)",
            "(1 = 1)",
        ];
        match rng.u8(0..10) {
            0..3 => ODD[rng.usize(0..ODD.len())].to_owned(),
            3 => {
                let other = rng.usize(0..self.columns.len());
                self.columns[other][rng.usize(0..self.columns[other].len())].clone()
            }
            4 => format!("{} + {}", self.value(rng, column), ["1", "-1", "0.5"][rng.usize(0..3)]),
            _ => self.value(rng, column),
        }
    }

    fn value(&self, rng: &mut Rng, column: usize) -> String {
        self.columns[column][rng.usize(0..self.columns[column].len())].clone()
    }
}

/// Returns a random condition on columns of a table that has the alias `t`.
fn condition(rng: &mut Rng, table: &TableDescription, literals: &Literals, depth: usize) -> String {
    if depth > 0 && rng.u8(0..3) > 0 {
        let both = [0, 1].map(|_| condition(rng, table, literals, depth - 1));
        return match rng.u8(0..5) {
            0..3 => format!("({} AND {})", both[0], both[1]),
            3 => format!("({} OR {})", both[0], both[1]),
            _ => format!("NOT ({})", both[0]),
        };
    }
    // Columns that narrow scans come more often.
    let narrowing: Vec<usize> =
        (0..table.columns.len()).filter(|column| !table.columns[*column].filters.is_empty()).collect();
    let column = match narrowing.is_empty() || rng.u8(0..4) == 0 {
        true => rng.usize(0..table.columns.len()),
        false => narrowing[rng.usize(0..narrowing.len())],
    };
    let name = format!("t.\"{}\"", table.columns[column].name);
    let value = literals.one(rng, column);
    match rng.u8(0..16) {
        0..6 => format!("{name} = {value}"),
        6..10 => format!("{name} {} {value}", ["<", "<=", ">", ">="][rng.usize(0..4)]),
        10 | 11 => {
            let more = [0; 3].map(|_| literals.one(rng, column));
            let not = if rng.u8(0..5) == 0 { "NOT " } else { "" };
            format!("{name} {not}IN ({value}, {})", more.join(", "))
        }
        12 => format!("{name} BETWEEN {value} AND {}", literals.one(rng, column)),
        13 => format!("{name} IS {value}"),
        14 => format!("{name} = {value} COLLATE NOCASE"),
        _ => {
            let other = table.columns[rng.usize(0..table.columns.len())].name;
            format!("{name} = t.\"{other}\"")
        }
    }
}

fn sorted(mut rows: Vec<Vec<SqlValue>>) -> Vec<String> {
    let mut shown: Vec<_> = rows.drain(..).map(|row| format!("{row:?}")).collect();
    shown.sort_unstable();
    shown
}

fn cases() -> usize {
    std::env::var("QUIRE_SQL_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(CASES)
}

#[test]
fn a_statement_has_the_answer_of_a_copied_table() {
    let filled = filled();
    let sql = Sql::over(&filled.database);
    let copy = copied(&filled.database);
    for (number, table) in copyable().enumerate() {
        let literals = Literals::of(&rows(&filled.database, &format!("SELECT * FROM {}", table.name)));
        for case in 0..cases() {
            let rng = &mut Rng::with_seed((number * 1_000_000 + case) as u64);
            let filter = condition(rng, &table, &literals, 3);
            let column = table.columns[rng.usize(0..table.columns.len())].name;
            let direction = ["", " DESC"][rng.usize(0..2)];
            let mut text = format!("FROM {} t WHERE {filter}", table.name);
            let is_limited = rng.bool();
            text = if is_limited {
                // Rows that are equal in the column may come in any order.
                let (limit, offset) = (rng.u8(0..20), rng.u8(0..5));
                format!("SELECT t.\"{column}\" {text} ORDER BY t.\"{column}\"{direction} LIMIT {limit} OFFSET {offset}")
            } else {
                let distinct = ["", "DISTINCT "][usize::from(rng.u8(0..4) == 0)];
                format!("SELECT {distinct}* {text}")
            };
            let found = sql.query(&text, &[]).unwrap_or_else(|error| panic!("case {case}: {text}: {error}")).rows;
            let expect = answer(&copy, &text);
            if is_limited {
                assert_eq!(found, expect, "case {case}: {text}");
            } else {
                assert_eq!(sorted(found), sorted(expect), "case {case}: {text}");
            }
        }
    }
}

#[test]
fn ordered_statements_have_the_order_of_a_copied_table() {
    let filled = filled();
    let copy = copied(&filled.database);
    for text in [
        "SELECT * FROM events WHERE store = 'a' ORDER BY position",
        "SELECT * FROM events WHERE store = 'a' ORDER BY position DESC",
        "SELECT * FROM events WHERE store = 'a' AND position IN (9, 2, 5) ORDER BY position DESC",
        "SELECT * FROM events WHERE store IN ('a', 'B') ORDER BY position, store",
        "SELECT position FROM events WHERE store IN ('a', 'B') ORDER BY position DESC",
        "SELECT * FROM events WHERE store = 5 ORDER BY position DESC",
        "SELECT * FROM events WHERE store = 5.0 ORDER BY position",
        "SELECT * FROM events WHERE store = 'a' AND type IN ('Paid', 'Placed') ORDER BY position DESC LIMIT 3",
        "SELECT position FROM event_tags WHERE store = 'a' ORDER BY position DESC",
        "SELECT * FROM commits WHERE position > 20 ORDER BY position DESC LIMIT 5",
        "SELECT * FROM commits ORDER BY position LIMIT 5 OFFSET 7",
        "SELECT store, max(position) FROM events GROUP BY store ORDER BY 1",
    ] {
        assert_eq!(rows(&filled.database, text).rows, answer(&copy, text), "{text}");
    }
}

#[test]
fn joins_have_the_answer_of_copied_tables() {
    let filled = filled();
    let copy = copied(&filled.database);
    for text in [
        "SELECT a.*, b.id FROM events a JOIN events b ON a.position = b.position AND a.store < b.store",
        "SELECT e.*, t.tag FROM events e JOIN event_tags t USING (store, position) WHERE t.tag = 'order:1'",
        "SELECT e.position, s.head FROM stores s JOIN events e ON e.store = s.name WHERE s.head > 3",
        "SELECT e.id, r.value FROM events e LEFT JOIN records r ON r.offset = e.position AND r.partition = 1",
        "SELECT e.*, s.* FROM events e JOIN stores s ON e.position = s.name",
        "SELECT e.*, s.name FROM stores s JOIN events e ON e.store = e.position",
        "SELECT j.id, q.pending FROM jobs j JOIN queues q ON q.name = j.queue WHERE j.state IN ('dead', 'active')",
        "SELECT * FROM jobs WHERE queue IN (SELECT name FROM queues WHERE dead > 0)",
        "SELECT * FROM events WHERE store IN (SELECT name FROM stores) AND type IN (SELECT 'Paid')",
        "SELECT e.*, b.kind FROM edges e JOIN blocks b ON b.graph = e.graph AND b.id = e.target",
        "SELECT b.name, (SELECT count(*) FROM edges e WHERE e.graph = b.graph AND e.source = b.id) FROM blocks b",
        "SELECT c.position, e.store FROM commits c JOIN events e ON e.commit_position = c.position",
        "SELECT p.topic, p.next_offset, count(r.offset) FROM partitions p LEFT JOIN records r USING (topic, partition)
         GROUP BY 1, 2, p.partition",
        "SELECT l.source, l.lag, t.partitions FROM lag l LEFT JOIN topics t ON t.name = l.source",
        "SELECT * FROM events e WHERE EXISTS (SELECT 1 FROM events f WHERE f.store = e.store AND f.position = e.position + 1)",
        "SELECT * FROM events WHERE position = (SELECT max(position) FROM events) OR type = 'Paid'",
    ] {
        assert_eq!(sorted(rows(&filled.database, text).rows), sorted(answer(&copy, text)), "{text}");
    }
}

#[test]
fn a_match_has_the_answer_of_the_tags_in_json() {
    let filled = filled();
    let copy = copied(&filled.database);
    let lists: [&[&str]; 5] = [&["order:1"], &["region:2", "order:1"], &["none"], &["urgent"], &["urgent", "n:0"]];
    for table in ["events", "jobs", "blocks"] {
        for tags in lists {
            let matched = format!("SELECT * FROM {table} WHERE tags MATCH '{}'", tags.join(" "));
            let has = |tag: &&str| format!("EXISTS (SELECT 1 FROM json_each(tags) j WHERE j.value = '{tag}')");
            let expect = tags.iter().map(has).collect::<Vec<_>>().join(" AND ");
            let expect = format!("SELECT * FROM {table} WHERE {expect}");
            assert_eq!(sorted(rows(&filled.database, &matched).rows), sorted(answer(&copy, &expect)), "{matched}");
        }
    }
}
