//! `quire export`: its files are read back, also by another engine, and its process is killed.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use parquet::basic::Compression;
use parquet::file::reader::FileReader;
use parquet::file::serialized_reader::SerializedFileReader;
use parquet::record::Field;

use crate::support::{Ran, Running, Server, quire, run_on};

/// The values of a row, by the names of their columns.
type FileRow = BTreeMap<String, Field>;

/// The files below a directory, in the order of their names.
fn files(root: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(root).into_iter().flatten() {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            found.extend(files(&path));
        } else if path.extension().is_some_and(|extension| extension == "parquet") {
            found.push(path);
        }
    }
    found.sort_by_key(|path| path.file_name().map(ToOwned::to_owned));
    found
}

fn rows_of(file: &Path) -> Vec<FileRow> {
    let reader = SerializedFileReader::new(File::open(file).expect("a file")).expect("a whole file");
    let rows = reader.get_row_iter(None).expect("rows").map(|row| row.expect("a row"));
    rows.map(|row| row.into_columns().into_iter().collect()).collect()
}

fn rows(root: &Path) -> Vec<FileRow> {
    files(root).iter().flat_map(|file| rows_of(file)).collect()
}

fn number(row: &FileRow, column: &str) -> i64 {
    match &row[column] {
        Field::Long(number) => *number,
        other => panic!("{column} is {other:?}"),
    }
}

fn text<'r>(row: &'r FileRow, column: &str) -> &'r str {
    match &row[column] {
        Field::Str(text) => text,
        other => panic!("{column} is {other:?}"),
    }
}

/// The value of a name in the metadata of a file.
fn note(file: &Path, name: &str) -> String {
    let reader = SerializedFileReader::new(File::open(file).expect("a file")).expect("a whole file");
    let metadata = reader.metadata().file_metadata().key_value_metadata().expect("metadata");
    metadata.iter().find(|pair| pair.key == name).and_then(|pair| pair.value.clone()).expect(name)
}

fn events(count: usize) -> String {
    let events = vec![r#"{"type": "A", "tags": ["x:1"], "data_text": "{\"n\": 1}"}"#; count].join(",");
    format!(r#"{{"parts": [{{"append": {{"store": "s", "events": [{events}]}}}}]}}"#)
}

/// A directory with a database, and a place for an export.
struct Fixture {
    folder: tempfile::TempDir,
    data: PathBuf,
}

impl Fixture {
    /// A database after these commits.
    fn new(commits: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let data = folder.path().join("data");
        let server = Server::start(&data);
        for commit in commits {
            let (status, answer) = server.ask("POST", "/v1/commit", commit);
            assert_eq!(status, 200, "{answer}");
        }
        Fixture { folder, data }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn export(&self, root: &Path, arguments: &[&str]) -> Ran {
        let root = root.to_str().expect("text");
        run_on(&self.data, &[&["export", "--parquet", root][..], arguments].concat())
    }
}

#[test]
fn events_are_exported_by_day_and_an_export_continues() {
    let fixture = Fixture::new(&[&events(3)]);
    let root = fixture.at("lake/events");
    fixture.export(&root, &["--events", "s"]).succeeded();
    let found = files(&root);
    assert_eq!(found.len(), 1, "{found:?}");
    let name = found[0].file_name().and_then(|name| name.to_str());
    assert_eq!(name, Some("00000000000000000001-00000000000000000003.parquet"));
    let row = &rows(&root)[0];
    let day = found[0].parent().and_then(Path::file_name).and_then(|name| name.to_str()).expect("a day");
    let date = run_on(&fixture.data, &["sql", "SELECT substr(iso(time_ms), 1, 10) FROM events LIMIT 1", "--csv"]);
    assert_eq!(Some(day), date.succeeded().lines().nth(1).map(|date| format!("day={date}")).as_deref());
    assert_eq!((text(row, "type"), text(row, "tags"), text(row, "data")), ("A", r#"["x:1"]"#, r#"{"n": 1}"#));
    assert_eq!((number(row, "position"), text(row, "metadata")), (1, ""));
    assert_eq!(note(&found[0], "quire.position"), "3");
    let reader = SerializedFileReader::new(File::open(&found[0]).expect("a file")).expect("a whole file");
    assert!(matches!(reader.metadata().row_group(0).column(0).compression(), Compression::ZSTD(_)));

    let server = Server::start(&fixture.data);
    for count in [0, 2, 1] {
        if count > 0 {
            assert_eq!(server.ask("POST", "/v1/commit", &events(count)).0, 200);
        }
        let shown = fixture.export(&root, &["--events", "s"]).succeeded();
        assert_eq!(shown.lines().count(), usize::from(count > 0), "{shown}");
    }
    let positions: Vec<i64> = rows(&root).iter().map(|row| number(row, "position")).collect();
    assert_eq!(positions, [1, 2, 3, 4, 5, 6]);
    assert_eq!(files(&root).len(), 3);
    fixture.export(&root, &["--events", "other"]).failed_with("event store other not found");
    let statement = "SELECT position FROM events WHERE position > :after ORDER BY position";
    fixture.export(&root, &[statement]).failed_with("has an export of another statement");
    fs::write(&files(&root)[2], "torn").expect("written");
    fixture.export(&root, &["--events", "s"]).failed_with("the newest file");
}

#[test]
fn each_model_is_exported() {
    let fixture = Fixture::new(&[r#"{"parts": [
        {"create_topic": {"name": "t", "partitions": 2}},
        {"produce": {"topic": "t", "partition": 0, "key": "k", "value_text": "one"}},
        {"produce": {"topic": "t", "partition": 1, "value_text": "two"}},
        {"produce": {"topic": "t", "partition": 1, "value_text": "three"}},
        {"enqueue": {"queue": "q", "payload_text": "work"}},
        {"put_block": {"graph": "g", "block": "a", "kind": "letter"}},
        {"put_block": {"graph": "g", "block": "b", "kind": "letter"}},
        {"put_edge": {"graph": "g", "source": "a", "type": "next", "target": "b"}}
    ]}"#]);
    let records = fixture.at("records");
    for _ in 0..2 {
        fixture.export(&records, &["--records", "t"]).succeeded();
        let found = rows(&records.join("partition-1"));
        let values: Vec<_> = found.iter().map(|row| (number(row, "offset"), text(row, "value"))).collect();
        assert_eq!(values, [(0, "two"), (1, "three")]);
        assert_eq!(text(&rows(&records.join("partition-0"))[0], "key"), "k");
    }
    let jobs = fixture.at("jobs");
    fixture.export(&jobs, &["--jobs", "q"]).succeeded();
    assert_eq!(text(&rows(&jobs)[0], "payload"), "work");
    fixture.export(&jobs, &["--jobs", "q"]).failed_with("is not empty: a snapshot needs a new directory");
    let graph = fixture.at("graph");
    fixture.export(&graph, &["--graph", "g"]).succeeded();
    let names: Vec<String> = rows(&graph.join("blocks")).iter().map(|row| text(row, "name").to_owned()).collect();
    assert_eq!(names.len(), 2, "{names:?}");
    assert_eq!(text(&rows(&graph.join("edges"))[0], "type"), "next");
    for kind in ["--events", "--records", "--jobs", "--graph"] {
        fixture.export(&fixture.at("nothing"), &[kind, "missing"]).failed_with("missing");
    }
    assert!(!fixture.at("nothing").exists());
}

#[test]
fn a_statement_is_a_snapshot_with_the_types_of_its_values() {
    let fixture = Fixture::new(&[&events(2)]);
    let root = fixture.at("statement");
    let statement = "SELECT 1 AS whole, 1.5 AS real, 'a' AS word, x'ff' AS raw, NULL AS none, CAST(n AS TEXT) AS mixed \
                     FROM (SELECT 7 AS n UNION ALL SELECT 8)";
    fixture.export(&root, &[statement, "--type", "whole=real"]).succeeded();
    let found = rows(&root);
    assert_eq!(found.len(), 2);
    assert_eq!((&found[0]["whole"], &found[0]["real"]), (&Field::Double(1.0), &Field::Double(1.5)));
    assert_eq!((text(&found[0], "word"), &found[0]["none"]), ("a", &Field::Null));
    assert!(matches!(&found[0]["raw"], Field::Bytes(bytes) if bytes.data() == [255]));
    assert_eq!(note(&files(&root)[0], "quire.position"), "1");
    let empty = fixture.at("empty");
    fixture.export(&empty, &["SELECT name FROM queues"]).succeeded();
    assert_eq!((files(&empty).len(), rows(&empty).len()), (1, 0));
    let failed = fixture.at("failed");
    for (arguments, message) in [
        (&["SELECT 1 AS a, 2 AS a"][..], "two columns are named a"),
        (&["SELECT x'ff' AS a", "--type", "a=text"], "column a is text, and a row has bytes that are not UTF-8"),
        (&["SELECT 1 AS a", "--type", "b=text"], "--type names column b"),
        (&["SELECT 1 AS a", "--day-of", "b"], "--day-of names column b"),
        (&["SELECT FROM"], "invalid SQL"),
    ] {
        fixture.export(&failed, arguments).failed_with(message);
        assert!(!failed.exists() && !fixture.at(".failed.partial").exists());
    }
    let unordered = ["SELECT position FROM events WHERE position > :after ORDER BY position DESC"];
    fixture.export(&failed, &unordered).failed_with("the rows are not ordered: position 1 follows 2");
}

#[test]
fn a_killed_export_that_follows_continues_exactly_once() {
    const KILLS: usize = 12;
    let fixture = Fixture::new(&[&events(1)]);
    let server = Server::start(&fixture.data);
    let (root, url) = (fixture.at("followed"), format!("http://{}", server.http));
    let root_text = root.to_str().expect("text");
    let arguments =
        ["export", "--parquet", root_text, "--events", "s", "--http", &url, "--follow", "--interval-ms", "1"];
    for kill in 0..KILLS {
        let following = Running::start(&arguments);
        for round in 0..3 {
            assert_eq!(server.ask("POST", "/v1/commit", &events(1 + kill + round)).0, 200);
        }
        // A kill comes after a file, while the next ones are written.
        assert!(following.line().contains(" row"));
        drop(following);
        for file in files(&root) {
            rows_of(&file);
        }
    }
    let last = Running::start(&arguments);
    assert_eq!(server.ask("POST", "/v1/commit", &events(1)).0, 200);
    last.line();
    drop(last);
    let end = quire().args(&arguments[..7]).output().expect("it runs");
    assert!(end.status.success(), "{end:?}");
    let (_, stores) = server.ask("POST", "/v1/sql", r#"{"sql": "SELECT head FROM stores WHERE name = 's'"}"#);
    let head = stores["rows"][0][0].as_i64().expect("a position");
    let positions: Vec<i64> = rows(&root).iter().map(|row| number(row, "position")).collect();
    assert_eq!(positions, (1..=head).collect::<Vec<_>>());
}

#[test]
fn one_export_at_a_time_writes_to_a_directory() {
    let fixture = Fixture::new(&[&events(1)]);
    let root = fixture.at("locked");
    let (root_text, data) = (root.to_str().expect("text"), fixture.data.to_str().expect("text"));
    let following = Running::start(&["export", "--parquet", root_text, "--events", "s", "--data", data, "--follow"]);
    following.line();
    fixture.export(&root, &["--events", "s"]).failed_with("another export writes to ");
    let unordered = fixture.export(&fixture.at("other"), &["SELECT 1 AS a", "--follow"]);
    assert_eq!(unordered.status, Some(2), "{unordered:?}");
}

/// The interpreter of `QUIRE_TEST_PYTHON`, or else `python3`, if it has DuckDB.
fn python_with_duckdb() -> Option<String> {
    let python = std::env::var("QUIRE_TEST_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let probe = Command::new(&python).args(["-c", "import duckdb"]).stderr(Stdio::null()).status();
    probe.is_ok_and(|status| status.success()).then_some(python)
}

#[test]
fn duckdb_reads_an_export() {
    let Some(python) = python_with_duckdb() else {
        eprintln!(
            "skipped: python3 has no duckdb; `pip install duckdb`, and name the interpreter in QUIRE_TEST_PYTHON"
        );
        return;
    };
    let fixture = Fixture::new(&[&events(5), &events(4)]);
    let root = fixture.at("lake");
    fixture.export(&root, &["--events", "s"]).succeeded();
    let script = "import duckdb, sys\n\
        rows = duckdb.sql(f\"SELECT type, count(*), max(position), sum((data ->> '$.n')::int), count(DISTINCT day) \
        FROM read_parquet('{sys.argv[1]}/**/*.parquet', hive_partitioning = true) GROUP BY type\").fetchall()\n\
        print(rows[0][0], int(rows[0][1]), int(rows[0][2]), int(rows[0][3]), int(rows[0][4]) >= 1)";
    let output = Command::new(python).args(["-c", script]).arg(&root).output().expect("it runs");
    assert!(output.status.success(), "{output:?}");
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "A 9 9 9 True");
}
