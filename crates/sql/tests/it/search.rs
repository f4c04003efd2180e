//! Text indexes: what searches find, deletions, and files that are lost, damaged or of another log.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use quire::events::{EventPosition, NewEvent};
use quire::{Database, Durability, ErrorKind, StepBudget, TEXT_INDEXES_MAX};
use quire_sql::{Sql, SqlStatement, TextIndexes};

use crate::fixture::shown;

fn open(directory: &Path) -> Database {
    Database::builder(directory).durability(Durability::Os).open().expect("a database")
}

fn note(text: &str) -> String {
    format!(r#"{{"note":"{text}","other":"elsewhere"}}"#)
}

fn append(database: &Database, tag: &str, text: &str) {
    let event = NewEvent::new("Placed").tag(tag.to_owned()).data(note(text));
    database.events("orders").append([event]).expect("appended");
}

/// The positions that a search finds, in order.
#[track_caller]
fn found(database: &Database, words: &str) -> String {
    shown(
        database,
        &format!("SELECT group_concat(position) FROM (SELECT position FROM search('orders', '{words}') ORDER BY 1)"),
    )
}

/// The files of the indexes.
fn files(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory.join("search")).into_iter().flatten();
    entries.map(|entry| entry.expect("an entry").path()).collect()
}

/// Whether a file of the indexes has these bytes, in small letters or not.
fn is_in_files(directory: &Path, word: &str) -> bool {
    files(directory).iter().any(|path| {
        let bytes = fs::read(path).expect("a file").to_ascii_lowercase();
        bytes.windows(word.len()).any(|part| part == word.to_ascii_lowercase().as_bytes())
    })
}

fn created(directory: &Path) -> Database {
    let database = open(directory);
    append(&database, "person:ann", "Fragile glass, leave at the door");
    append(&database, "person:ben", "A door of glass and a window of glass");
    append(&database, "person:cem", "nothing");
    TextIndexes::over(&database).create("orders", None, &["$.note"]).expect("created");
    database
}

#[test]
fn a_search_finds_the_words_of_its_paths_and_joins_events() {
    let directory = tempfile::tempdir().expect("a directory");
    let database = created(directory.path());
    assert_eq!(found(&database, "glass"), "1,2");
    assert_eq!(found(&database, "GLASS door"), "1,2");
    assert_eq!(found(&database, "\"glass leave\""), "1");
    assert_eq!(found(&database, "glass NOT window"), "1");
    assert_eq!(found(&database, "frag*"), "1");
    assert_eq!(found(&database, "elsewhere"), "NULL");
    assert_eq!(found(&database, "person"), "NULL");
    let best = "SELECT position FROM search('orders', 'glass') ORDER BY rank LIMIT 1";
    assert_eq!(shown(&database, best), "2");
    let worst = "SELECT position FROM search('orders', 'glass') ORDER BY rank DESC LIMIT 1";
    assert_eq!(shown(&database, worst), "1");
    let joined = "SELECT e.position, e.tags FROM search('orders', 'glass') s JOIN events e USING (store, position)
        WHERE e.tags MATCH 'person:ann'";
    assert_eq!(shown(&database, joined), r#"1|["person:ann"]"#);
    assert_eq!(shown(&database, "SELECT count(*) FROM search('orders', NULL)"), "0");
    let error = Sql::over(&database).query("SELECT * FROM search('orders')", &[]).expect_err("an argument is missing");
    assert!(error.kind() == ErrorKind::Invalid && error.to_string().contains("search takes"), "{error}");
}

#[test]
fn the_whole_data_and_several_paths_are_text() {
    let directory = tempfile::tempdir().expect("a directory");
    let database = open(directory.path());
    let store = database.events("orders");
    store
        .append([NewEvent::new("T").data("plain words"), NewEvent::new("T").data(vec![0xff, 0xfe])])
        .expect("appended");
    store.append([NewEvent::new("T").data(r#"{"a":"one","b":{"c":"two"},"d":[3]}"#)]).expect("appended");
    let indexes = TextIndexes::over(&database);
    indexes.create("orders", Some("whole"), &["$"]).expect("created");
    let made = indexes.create("orders", Some("parts"), &["$.a", "$.b.c", "$.none"]).expect("created");
    assert_eq!((made.documents, made.covered), (1, EventPosition::new(3)));
    let of = |name: &str, words: &str| shown(&database, &format!("SELECT position FROM search('{name}', '{words}')"));
    assert_eq!(
        (of("whole", "plain"), of("whole", "two"), of("parts", "one two")),
        ("1".into(), "3".into(), "3".into())
    );
    assert_eq!((of("parts", "plain"), of("parts", "3")), (String::new(), String::new()));
    let several = Sql::over(&database).query("SELECT * FROM search('orders', 'one')", &[]).expect_err("ambiguous");
    assert!(several.to_string().contains("name one of whole, parts"), "{several}");
}

#[test]
fn a_search_is_current_after_each_commit_also_from_another_opening() {
    let directory = tempfile::tempdir().expect("a directory");
    let writer = created(directory.path());
    let reader = open(directory.path());
    for number in 4..204 {
        append(&writer, "t", &format!("word{number}"));
        let database = if number % 2 == 0 { &writer } else { &reader };
        assert_eq!(found(database, &format!("word{number}")), number.to_string());
    }
}

#[test]
fn a_search_as_of_a_position_has_the_events_of_that_time() {
    let directory = tempfile::tempdir().expect("a directory");
    let database = created(directory.path());
    let then = database.published();
    append(&database, "person:dan", "more glass");
    let text = "SELECT position FROM search('orders', 'glass') ORDER BY position";
    let at = |as_of| {
        let found = Sql::over(&database).rows(&SqlStatement { text, as_of, ..SqlStatement::default() }).expect("found");
        (found.rows.len(), found.summary.as_of)
    };
    assert_eq!((at(Some(then)), at(None)), ((2, then), (3, database.published())));
}

#[test]
fn a_forgotten_event_leaves_the_answers_and_the_bytes_of_the_file() {
    let directory = tempfile::tempdir().expect("a directory");
    let database = created(directory.path());
    // So many words that a page of the index begins with any of them.
    for number in 0..300 {
        let words: Vec<String> = (0..40).map(|word| format!("w{:05}", number * 40 + word)).collect();
        append(&database, &format!("order:{number}"), &words.join(" "));
    }
    append(&database, "person:eve", "Confidential Zyzzyva");
    assert_eq!(found(&database, "zyzzyva"), "304");
    assert!(is_in_files(directory.path(), "zyzzyva"));
    database.events("orders").forget("person:eve").expect("forgotten");
    assert!(!is_in_files(directory.path(), "zyzzyva") && !is_in_files(directory.path(), "confidential"));
    assert_eq!(found(&database, "zyzzyva"), "NULL");
    for number in (0..300).step_by(7) {
        database.events("orders").forget(format!("order:{number}")).expect("forgotten");
        for word in number * 40..number * 40 + 40 {
            assert!(!is_in_files(directory.path(), &format!("w{word:05}")), "w{word:05}");
        }
    }
    assert_eq!(found(&database, "w00041"), "5");
    let status = TextIndexes::over(&database).list().expect("listed").remove(0);
    assert_eq!(status.documents, 303 - 43);
    database.events("orders").trim(EventPosition::new(2)).expect("trimmed");
    assert!(!is_in_files(directory.path(), "fragile") && !is_in_files(directory.path(), "window"));
    assert_eq!(found(&database, "glass"), "NULL");
}

#[test]
fn a_program_without_sql_removes_the_file_when_it_forgets() {
    let directory = tempfile::tempdir().expect("a directory");
    drop(created(directory.path()));
    let database = open(directory.path());
    database.events("others").append([NewEvent::new("T").tag("person:ann")]).expect("appended");
    database.events("others").forget("person:ann").expect("forgotten");
    assert!(is_in_files(directory.path(), "fragile"), "the file of another store stays");
    database.events("orders").forget("person:ann").expect("forgotten");
    assert_eq!(files(directory.path()), [""; 0].map(PathBuf::from));
    assert_eq!(found(&database, "glass"), "2");
}

#[test]
fn an_opening_erases_what_an_ended_process_did_not() {
    let directory = tempfile::tempdir().expect("a directory");
    let database = created(directory.path());
    drop(database);
    // As a process that is killed between the commit and the change of the file.
    let hidden = directory.path().join("hidden");
    fs::rename(directory.path().join("search"), &hidden).expect("renamed");
    open(directory.path()).events("orders").forget("person:ann").expect("forgotten");
    fs::rename(hidden, directory.path().join("search")).expect("renamed");
    assert!(is_in_files(directory.path(), "fragile"));
    let database = open(directory.path());
    TextIndexes::over(&database);
    assert!(!is_in_files(directory.path(), "fragile"));
    assert_eq!(found(&database, "glass"), "2");
}

#[test]
fn a_file_that_is_missing_damaged_or_of_another_log_is_built_again() {
    let directory = tempfile::tempdir().expect("a directory");
    let database = created(directory.path());
    let file = || {
        let files = files(directory.path());
        assert_eq!(files.len(), 1, "{files:?}");
        files[0].clone()
    };
    assert_eq!(fs::metadata(file()).expect("a file").permissions().mode() & 0o777, 0o600);
    assert_eq!(fs::metadata(directory.path().join("search")).expect("it").permissions().mode() & 0o777, 0o700);
    fs::remove_file(file()).expect("removed");
    assert_eq!(found(&database, "glass"), "1,2");
    let whole = fs::read(file()).expect("a file");
    for damage in 0..6 {
        let mut bytes = whole.clone();
        match damage {
            0 => bytes.clear(),
            1 => bytes[..100].fill(0),
            2 => bytes.truncate(5_000),
            3 => bytes[4_096..].fill(0xa5),
            4 => bytes = b"another file".to_vec(),
            _ => bytes[100..4_096].fill(0),
        }
        fs::write(file(), bytes).expect("written");
        assert_eq!(found(&database, "glass"), "1,2", "damage {damage}");
    }
    // Ahead of the log: the log of an earlier backup, with other events at the same positions.
    let backup = tempfile::tempdir().expect("a directory");
    let earlier = backup.path().join("earlier");
    let other = open(&earlier);
    append(&other, "t", "one thing");
    TextIndexes::over(&other).create("orders", None, &["$.note"]).expect("created");
    drop(other);
    let copied = backup.path().join("copied");
    copy(&earlier, &copied);
    let other = open(&earlier);
    append(&other, "t", "lost words");
    assert_eq!(found(&other, "lost"), "2");
    drop(other);
    fs::remove_dir_all(copied.join("search")).expect("removed");
    copy(&earlier.join("search"), &copied.join("search"));
    let restored = open(&copied);
    assert_eq!(found(&restored, "lost OR one"), "1");
    append(&restored, "t", "new words");
    assert_eq!((found(&restored, "lost"), found(&restored, "words")), ("NULL".into(), "2".into()));
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).expect("created");
    for entry in fs::read_dir(from).expect("a directory") {
        let entry = entry.expect("an entry");
        let target = to.join(entry.file_name());
        match entry.file_type().expect("a type").is_dir() {
            true => copy(&entry.path(), &target),
            false => drop(fs::copy(entry.path(), target).expect("copied")),
        }
    }
}

#[test]
fn a_read_only_database_is_searched_and_not_changed() {
    let directory = tempfile::tempdir().expect("a directory");
    let database = created(directory.path());
    append(&database, "t", "later glass");
    drop(database);
    let read_only = || Database::builder(directory.path()).read_only(true).open().expect("opened");
    let before: Vec<_> = files(directory.path()).iter().map(|path| fs::read(path).expect("a file")).collect();
    assert_eq!(found(&read_only(), "glass"), "1,2,4");
    let after: Vec<_> = files(directory.path()).iter().map(|path| fs::read(path).expect("a file")).collect();
    assert_eq!(before, after);
    assert_eq!(found(&open(directory.path()), "glass"), "1,2,4");
    assert_eq!(found(&read_only(), "glass"), "1,2,4");
}

#[test]
fn hostile_expressions_and_definitions_are_refused_by_name() {
    let directory = tempfile::tempdir().expect("a directory");
    let database = created(directory.path());
    let deep = format!("{}glass{}", "(".repeat(400), ")".repeat(400));
    for (words, kind, names) in [
        ("", ErrorKind::Invalid, "no word"),
        ("\"open", ErrorKind::Invalid, "invalid search expression"),
        ("plane:N1", ErrorKind::Invalid, "no such column: plane"),
        ("glass AND", ErrorKind::Invalid, "syntax error"),
        ("a* b*", ErrorKind::TooCostly, "a prefix of 1 letters"),
        (&"glass ".repeat(65), ErrorKind::TooCostly, "65 words, more than 64"),
        (&"g".repeat(2_000), ErrorKind::TooCostly, "2000 bytes, more than 1024"),
        (&deep, ErrorKind::Invalid, "invalid search expression"),
    ] {
        let text = "SELECT * FROM search('orders', ?1)";
        let error = Sql::over(&database).query(text, &[words.into()]).expect_err(words);
        assert!(error.kind() == kind && error.to_string().contains(names), "{words}: {error}");
    }
    let indexes = TextIndexes::over(&database);
    for (store, name, paths, kind, names) in [
        ("orders", None, &["$.note"][..], ErrorKind::Invalid, "already exists"),
        ("none", None, &["$"], ErrorKind::NotFound, "unknown event store"),
        ("orders", Some("x"), &["note"], ErrorKind::Invalid, "invalid JSON path"),
        ("orders", Some("x"), &[], ErrorKind::Invalid, "1 to 8 paths, not 0"),
        ("orders", Some("x"), &["$"; 9], ErrorKind::Invalid, "1 to 8 paths, not 9"),
        ("orders", Some("a b"), &["$"], ErrorKind::Invalid, "the name of a text index"),
        ("orders", Some(""), &["$"], ErrorKind::Invalid, "the name of a text index"),
    ] {
        let error = indexes.create(store, name, paths).expect_err("refused");
        assert!(error.kind() == kind && error.to_string().contains(names), "{store} {name:?} {paths:?}: {error}");
    }
    for number in 1..TEXT_INDEXES_MAX {
        indexes.create("orders", Some(&format!("i{number}")), &["$"]).expect("created");
    }
    let error = indexes.create("orders", Some("more"), &["$"]).expect_err("too many");
    assert!(error.to_string().contains("32 text indexes, the most"), "{error}");
    assert_eq!(files(directory.path()).len(), TEXT_INDEXES_MAX);
    for status in indexes.list().expect("listed") {
        indexes.delete(&status.index.name).expect("deleted");
    }
    assert_eq!(files(directory.path()).len(), 0);
    assert_eq!(indexes.delete("orders").expect_err("gone").kind(), ErrorKind::NotFound);
}

#[test]
fn a_search_within_few_steps_keeps_its_progress() {
    let directory = tempfile::tempdir().expect("a directory");
    let database = created(directory.path());
    let many = (0..20_000).map(|number| NewEvent::new("T").data(note(&format!("word{number}"))));
    database.events("orders").append(many).expect("appended");
    let mut attempts = 0;
    let answer = loop {
        attempts += 1;
        let few = database.within(StepBudget::new(12_000));
        match Sql::over(&few).query("SELECT position FROM search('orders', 'word19999')", &[]) {
            Ok(found) => break found,
            Err(error) => {
                assert!(
                    error.kind() == ErrorKind::TooCostly && error.to_string().contains("continues there"),
                    "{error}"
                );
                assert!(attempts < 20, "{error}");
            }
        }
    };
    assert_eq!(answer.rows, [[20_003.into()]]);
    assert!(attempts > 1);
}

/// The variable that makes this program the child of the test below: its directory, and the step
/// after which it ends.
const CHILD: &str = "QUIRE_INDEX_CHILD";

#[test]
fn a_process_that_is_killed_at_any_step_of_indexing_continues_exactly_once() {
    if let Ok(child) = std::env::var(CHILD) {
        let (step_last, directory) = child.split_once(' ').expect("two words");
        let (step_last, mut steps): (usize, _) = (step_last.parse().expect("a number"), 0);
        let database = open(Path::new(directory));
        let ended = TextIndexes::over(&database).refresh_by_steps("orders", 3, &mut |_| {
            steps += 1;
            if steps == step_last {
                std::process::abort();
            }
            Ok(())
        });
        ended.expect("indexed");
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let data = directory.path().join("data");
    drop(created(&data));
    let name = "search::a_process_that_is_killed_at_any_step_of_indexing_continues_exactly_once";
    let (mut expected, mut killed) = (3, 0);
    for step in 1.. {
        let database = open(&data);
        for number in 0..7 {
            append(&database, &format!("step:{step}"), &format!("common word{step}x{number}"));
        }
        if step % 3 == 0 {
            // A deletion that the child erases.
            let hidden = directory.path().join("hidden");
            fs::rename(data.join("search"), &hidden).expect("renamed");
            database.events("orders").forget(format!("step:{}", step - 1)).expect("forgotten");
            fs::rename(hidden, data.join("search")).expect("renamed");
            expected -= 7;
        }
        expected += 7;
        drop(database);
        let mut child = Command::new(std::env::current_exe().expect("this program"));
        child.args(["--exact", name, "--nocapture"]).env(CHILD, format!("{step} {}", data.display()));
        let is_whole = child.output().expect("it runs").status.success();
        let database = open(&data);
        assert_eq!(found(&database, &format!("word{step}x6")).split(',').count(), 1);
        let status = TextIndexes::over(&database).list().expect("listed").remove(0);
        assert_eq!((status.documents, status.covered), (expected, status.head), "killed at step {step}");
        let common = "SELECT count(*), count(DISTINCT position) FROM search('orders', 'common')";
        assert_eq!(shown(&database, common), format!("{0}|{0}", expected - 3), "killed at step {step}");
        if is_whole {
            break;
        }
        killed = step;
    }
    assert!(killed >= 8, "only {killed} steps");
}
