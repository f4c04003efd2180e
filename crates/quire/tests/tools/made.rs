//! A database for the tools, and its files, for tests to damage. It has all four models, several
//! segments and two checkpoints.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::{fs, io};

use std::time::Duration;

use quire::events::NewEvent;
use quire::jobs::JobSpec;
use quire::{Commit, Database, Durability, Message, NewBlock, NewEdge, Sequence};
use tempfile::TempDir;

/// A directory for a database, removed at the end of the test.
pub(crate) struct Place {
    directory: TempDir,
    segment_bytes: u64,
}

impl Place {
    pub(crate) fn new() -> Self {
        Place::with_segments(16 << 10)
    }

    /// Returns a place whose database has segments of this length.
    pub(crate) fn with_segments(segment_bytes: u64) -> Self {
        let memory = Path::new("/dev/shm");
        let directory = if memory.is_dir() { TempDir::new_in(memory) } else { TempDir::new() };
        Place { directory: directory.expect("a temporary directory"), segment_bytes }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    /// Returns another path beside the database.
    pub(crate) fn beside(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn open(&self) -> Database {
        Database::builder(self.path())
            .durability(Durability::Os)
            .segment_bytes(self.segment_bytes)
            .open()
            .expect("it opens")
    }

    /// Returns the current files of the database.
    pub(crate) fn files(&self) -> Files {
        files_of(&self.path())
    }

    /// Returns two compacted places: the first unpacked, the second packed.
    pub(crate) fn compacted_and_packed() -> [Self; 2] {
        [false, true].map(Place::compacted)
    }

    /// Returns a place whose database was closed after a compaction and some later steps.
    fn compacted(packs: bool) -> Self {
        let place = Place::new();
        // History of finished jobs is not kept, so that compaction can drop records.
        let builder = Database::builder(place.path())
            .durability(Durability::Os)
            .segment_bytes(16 << 10)
            .history(Duration::from_millis(0));
        let database = builder.pack_segments(packs).open().expect("it opens");
        for number in 0..120 {
            step(&database, number);
            for job in database.queue("queue").fetch("worker", 1).expect("accepted") {
                database.queue("queue").ack(job.job, job.token, b"").expect("accepted");
            }
        }
        database.checkpoint().expect("saved");
        let last = JobSpec::new(b"the last one");
        database.queue("queue").enqueue(last).expect("accepted");
        database.sync().expect("synced");
        let mut waited = 0;
        // Segments are sealed in the background; each try saves a checkpoint.
        while !named(&place.files(), ".log").iter().any(|name| place.files()[name].starts_with(b"QUIRECMP")) {
            step(&database, 200 + waited);
            database.compact().expect("compacted");
            waited += 1;
            assert!(waited < 1000, "something is compacted");
        }
        step(&database, 5000);
        drop(database);
        let files = place.files();
        let is_packed = |name: &String| files[name].starts_with(b"QUIRECMP") && files[name][8] == 2;
        assert_eq!(named(&files, ".log").iter().any(is_packed), packs);
        place
    }

    /// Returns a place with a closed database: `steps` steps, one checkpoint in between and one at
    /// the end.
    pub(crate) fn made(steps: usize) -> Self {
        let place = Place::new();
        let database = place.open();
        (0..steps).for_each(|number| step(&database, number));
        database.checkpoint().expect("saved");
        (steps..2 * steps).for_each(|number| step(&database, number));
        drop(database);
        place
    }
}

/// Files by their path within the database.
pub(crate) type Files = BTreeMap<String, Vec<u8>>;

/// Returns the files of the database in a directory, except the spare and files removed meanwhile.
/// An open database renames and removes files in the background.
pub(crate) fn files_of(directory: &Path) -> Files {
    let mut files = Files::new();
    for folder in ["", "shard-0000"] {
        for entry in fs::read_dir(directory.join(folder)).expect("listed") {
            let path = entry.expect("an entry").path();
            let name = path.strip_prefix(directory).expect("within").to_str().expect("text").to_owned();
            if path.is_file() && !name.contains("spare") {
                match fs::read(&path) {
                    Ok(bytes) => drop(files.insert(name, bytes)),
                    Err(error) => assert_eq!(error.kind(), io::ErrorKind::NotFound, "{name}: {error}"),
                }
            }
        }
    }
    files
}

/// Returns a place with these files.
pub(crate) fn place_of(files: &Files) -> Place {
    let place = Place::new();
    fs::create_dir_all(place.path().join("shard-0000")).expect("made");
    for (name, bytes) in files {
        fs::write(place.path().join(name), bytes).expect("written");
    }
    place
}

/// Returns the names of the files of a kind, in order.
pub(crate) fn named(files: &Files, suffix: &str) -> Vec<String> {
    files.keys().filter(|name| name.ends_with(suffix)).cloned().collect()
}

/// Returns the byte range of every record in a segment, following the format page.
pub(crate) fn records(segment: &[u8]) -> Vec<Range<usize>> {
    let mut records = Vec::new();
    let mut at = 64;
    while at + 8 <= segment.len() && segment[at..at + 8] != [0; 8] {
        let length = u32::from_le_bytes(segment[at + 4..at + 8].try_into().expect("four bytes")) as usize;
        records.push(at..at + length);
        at += length;
    }
    records
}

/// A commit over all models, and a lease, by number.
pub(crate) fn step(database: &Database, number: usize) {
    let text = number.to_string();
    let (name, other) = (["a", "b", "c"][number % 3], ["c", "d"][number % 2]);
    let commit = Commit::new()
        .append("store", [NewEvent::new("Made").tag(&text).data(&text)])
        .produce("topic", Message::new(&text).key(&text))
        .commit_offset("group", "topic", 0, Sequence::new(number as u64))
        .enqueue("queue", JobSpec::new(text.as_bytes()))
        .put_block("graph", NewBlock::new(name, "thing").content(text.as_bytes()))
        .put_block("graph", NewBlock::new(other, "thing"))
        .put_edge("graph", NewEdge::new(name, "follows", other));
    database.commit(&commit).expect("durable").committed().expect("accepted");
    if number % 2 == 1 {
        database.queue("queue").fetch("worker", 1).expect("accepted");
    }
}
