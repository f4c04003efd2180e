//! A database with parts of every model, one of whose files gets other bytes.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::{Arc, LazyLock};

use quire::events::{Condition, NewEvent, Query, QueryItem};
use quire::jobs::{JobSpec, Retry};
use quire::{Background, Commit, Database, Durability, ManualClock, Message, NewBlock, NewEdge, Sequence};

/// The files, by their paths in the directory.
pub(crate) static FILES: LazyLock<BTreeMap<String, Vec<u8>>> = LazyLock::new(made);

/// A directory, in memory if the system supports that.
pub(crate) fn folder() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { tempfile::TempDir::new_in(memory) } else { tempfile::TempDir::new() }.expect("a folder")
}

pub(crate) fn open(path: &Path) -> quire::Result<quire::OpenedDatabase> {
    let builder = Database::builder(path).durability(Durability::Os).segment_bytes(64 << 10).id(0x5eed);
    let builder = builder.background(Background::Caller).scrub_bytes_per_second(0);
    builder.clock(Arc::new(ManualClock::default())).open_and_report()
}

/// The files of a closed database with parts of every model.
fn made() -> BTreeMap<String, Vec<u8>> {
    let folder = folder();
    let path = folder.path().join("data");
    let database = open(&path).expect("opened").database;
    for number in 0..12 {
        let (text, name) = (number.to_string(), ["a", "b", "c", "d"][number % 4]);
        let commit = Commit::new()
            .append("store", [NewEvent::new("Made").tag(&text).data(&text)])
            .produce("topic", Message::new(&text).key(&text))
            .commit_offset("group", "topic", 0, Sequence::new(number as u64))
            .enqueue("queue", JobSpec { attempts_max: 2, ..JobSpec::new(text.as_bytes()) })
            .put_block("graph", NewBlock::new(name, "thing").content(text.as_bytes()))
            .put_block("graph", NewBlock::new("e", "thing"))
            .put_edge("graph", NewEdge::new(name, "follows", "e"));
        database.commit(&commit).expect("durable").committed().expect("accepted");
        for job in database.queue("queue").fetch("worker", 1).expect("accepted") {
            match number % 4 {
                0 => database.queue("queue").ack(job.job, job.token, b"").expect("accepted"),
                1 => database.queue("queue").fail(job.job, job.token, "no", Retry::Backoff).expect("accepted"),
                2 => database.queue("queue").fail(job.job, job.token, "never", Retry::Never).expect("accepted"),
                _ => {}
            }
        }
    }
    database.checkpoint().expect("saved");
    drop(database);
    let mut files = BTreeMap::new();
    for at in ["", "shard-0000"] {
        for entry in fs::read_dir(path.join(at)).expect("listed").map(|entry| entry.expect("an entry")) {
            let name = entry.file_name().into_string().expect("a name");
            if [".log", ".checkpoint", ".meta"].iter().any(|kind| name.ends_with(kind)) || name == "control" {
                files.insert(
                    Path::new(at).join(name).to_str().expect("text").to_owned(),
                    fs::read(entry.path()).expect("read"),
                );
            }
        }
    }
    files
}

/// Creates a directory of these files, one of which has these bytes.
pub(crate) fn put(path: &Path, name: &str, bytes: &[u8]) {
    fs::create_dir_all(path.join("shard-0000")).expect("made");
    for (other, own) in FILES.iter() {
        fs::write(path.join(other), if other == name { bytes } else { own }).expect("written");
    }
}

/// Checks that the database works as before.
pub(crate) fn goes_on(database: &Database) {
    let seen = Query::from(QueryItem::new().event_type("Made").tag("3"));
    let again = Commit::new().append_if("store", [NewEvent::new("Made")], [Condition::fail_if_matches(seen)]);
    assert!(database.commit(&again).expect("durable").refused().is_some(), "it is known what was appended");
    let commit = Commit::new().append("store", [NewEvent::new("Made")]).produce("topic", Message::new("more"));
    database.commit(&commit).expect("durable").committed().expect("accepted");
}
