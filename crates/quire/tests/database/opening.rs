//! Opening an intact database, a directory without one, and a damaged one. Each failure is a clear
//! error, and loses nothing.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use std::time::Duration;

use quire::events::NewEvent;
use quire::jobs::JobSpec;
use quire::{Background, Builder, Commit, Database, Durability, Error, ErrorKind, Position, Profile};

use crate::support::{Place, everything, files};

/// Returns every file under a path, with its bytes. The control file may change, because it records
/// its readers.
fn contents(path: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(path).into_iter().flatten().map(|entry| entry.expect("an entry")) {
        if entry.path().is_dir() {
            found.insert(entry.path(), Vec::new());
            found.extend(contents(&entry.path()));
        } else if entry.file_name() != "control" {
            found.insert(entry.path(), fs::read(entry.path()).expect("readable"));
        }
    }
    found
}

/// Opens an invalid database. Checks that nothing was changed and that the message names the
/// problem.
#[track_caller]
fn refuse(place: &Place, kind: ErrorKind, says: &str) -> Error {
    let before = contents(&place.path());
    let error = place.builder(Durability::Os).open().expect_err("it can't be opened");
    assert_eq!(error.kind(), kind, "{error}");
    assert!(error.to_string().contains(says), "\"{error}\" says \"{says}\"");
    assert!(before == contents(&place.path()), "nothing was touched: {error}");
    error
}

/// Returns a closed database with one commit.
fn written() -> Place {
    let place = Place::new();
    append(&place.open(Durability::Os));
    place
}

fn append(database: &Database) {
    let commit = Commit::new().append("store", [NewEvent::new("Made")]).enqueue("queue", JobSpec::new(b"job"));
    database.commit(&commit).expect("durable").committed().expect("accepted");
}

#[test]
fn a_directory_with_other_files_is_no_database() {
    let place = Place::new();
    fs::create_dir(place.path()).expect("made");
    fs::write(place.path().join("thesis.txt"), "years of work").expect("written");
    refuse(&place, ErrorKind::NotADatabase, "thesis.txt");
    // Files of an interrupted creation make no difference to the error.
    fs::write(place.path().join("quire.meta.new"), "").expect("written");
    refuse(&place, ErrorKind::NotADatabase, "thesis.txt");
}

#[test]
fn a_file_is_no_database() {
    let place = Place::new();
    fs::write(place.path(), "a file").expect("written");
    refuse(&place, ErrorKind::NotADatabase, "it is a file");
    assert_eq!(fs::read(place.path()).expect("readable"), b"a file");
}

#[test]
fn a_database_is_only_created_when_it_may_be() {
    let place = Place::new();
    let open = || place.builder(Durability::Os).create(false).open();
    let refused = |told: &str| {
        let error = open().expect_err("there is none");
        assert_eq!(error.kind(), ErrorKind::NotADatabase);
        assert!(error.to_string().contains(told), "{error}");
    };
    refused("directory not found");
    assert!(!place.path().exists(), "no directory was made");
    fs::create_dir(place.path()).expect("made");
    refused("it holds no quire.meta");
    assert!(contents(&place.path()).is_empty());
    drop(place.open(Durability::Os));
    open().expect("now there is one");
}

#[test]
fn a_database_is_created_in_a_directory_whose_parents_are_not_there() {
    let place = Place::new();
    let path = place.path().join("a/b/c");
    append(&Database::open(&path).expect("created"));
    assert_eq!(Database::open(&path).expect("opened").published(), Position::new(1));
}

/// Returns `quire.meta` with other bytes at an offset, and a matching checksum.
fn with_bytes(meta: &[u8], at: usize, bytes: &[u8]) -> Vec<u8> {
    let mut changed = meta.to_vec();
    changed[at..at + bytes.len()].copy_from_slice(bytes);
    let crc = quire_log::crc32c(&[&changed[..12], &changed[16..]].concat());
    changed[12..16].copy_from_slice(&crc.to_le_bytes());
    changed
}

#[test]
fn a_newer_format_is_named_and_not_touched() {
    let place = written();
    let path = place.path().join("quire.meta");
    let meta = fs::read(&path).expect("readable");
    fs::write(&path, with_bytes(&meta, 8, &2u32.to_le_bytes())).expect("written");
    refuse(&place, ErrorKind::NewerFormat, "format version 2");
    fs::write(&path, with_bytes(&meta, 32, &2u32.to_le_bytes())).expect("written");
    refuse(&place, ErrorKind::NewerFormat, "2 shards");
    fs::write(&path, meta).expect("written");
    assert_eq!(place.open(Durability::Os).published(), Position::new(1));
}

#[test]
fn no_flipped_bit_of_quire_meta_goes_unnoticed() {
    let place = written();
    let path = place.path().join("quire.meta");
    let meta = fs::read(&path).expect("readable");
    for bit in 0..meta.len() * 8 {
        let mut damaged = meta.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        fs::write(&path, damaged).expect("written");
        refuse(&place, ErrorKind::Damaged, "quire.meta");
    }
    for length in 0..meta.len() {
        fs::write(&path, &meta[..length]).expect("written");
        refuse(&place, ErrorKind::Damaged, "quire.meta");
    }
    fs::write(&path, meta).expect("written");
    assert_eq!(place.open(Durability::Os).published(), Position::new(1));
}

#[test]
fn a_database_of_another_directory_can_not_be_mixed_in() {
    let (place, other) = (written(), written());
    fs::copy(other.path().join("quire.meta"), place.path().join("quire.meta")).expect("copied");
    refuse(&place, ErrorKind::Damaged, "belongs to");
}

#[test]
fn an_interrupted_creation_is_done_again() {
    let sample = written();
    let meta = fs::read(sample.path().join("quire.meta")).expect("readable");
    let unfinished: [(&str, Option<&[u8]>, bool); 5] = [
        ("an empty directory", None, false),
        ("a file without bytes", Some(b""), false),
        ("half a file", Some(&meta[..20]), false),
        ("a whole file", Some(&meta), false),
        ("a whole file and the shard's directory", Some(&meta), true),
    ];
    for (what, bytes, shard) in unfinished {
        let place = Place::new();
        fs::create_dir(place.path()).expect("made");
        if let Some(bytes) = bytes {
            fs::write(place.path().join("quire.meta.new"), bytes).expect("written");
        }
        if shard {
            fs::create_dir(place.shard()).expect("made");
        }
        append(&place.open(Durability::Sync));
        assert_eq!(place.open(Durability::Sync).published(), Position::new(1), "after {what}");
        assert!(!place.path().join("quire.meta.new").exists(), "after {what}");
    }
}

#[test]
fn a_database_that_lost_its_quire_meta_is_not_taken_for_an_interrupted_creation() {
    let place = written();
    let meta = place.path().join("quire.meta");
    let kept = fs::read(&meta).expect("readable");
    fs::remove_file(&meta).expect("removed");
    refuse(&place, ErrorKind::NotADatabase, "shard-0000");
    fs::write(place.path().join("quire.meta.new"), &kept).expect("written");
    refuse(&place, ErrorKind::Damaged, "restore quire.meta");
    fs::write(&meta, kept).expect("written");
    assert_eq!(place.open(Durability::Os).published(), Position::new(1));
}

#[test]
fn a_database_is_shared_by_processes_that_open_it_unless_one_wants_it_alone() {
    let place = Place::new();
    let database = place.open(Durability::Os);
    append(&database);
    let alone = || place.builder(Durability::Os).exclusive(true).open();
    let error = alone().expect_err("it is open");
    assert_eq!(error.kind(), ErrorKind::InUse);
    assert!(error.to_string().contains(&std::process::id().to_string()), "{error}");

    let second = || {
        let mut second = Command::new(std::env::current_exe().expect("the test knows itself"));
        second.args(["--exact", "opening::second_process", "--nocapture"]).env("QUIRE_SECOND_PROCESS", place.path());
        let output = second.output().expect("the process runs");
        assert!(output.status.success());
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let told = second();
    assert!(told.contains("appended: 2 (os)"), "{told}");
    let error = place.builder(Durability::Sync).open().expect_err("it promises more than the others keep");
    assert_eq!(error.kind(), ErrorKind::Invalid);
    append(&database);
    assert_eq!(database.published(), Position::new(3));
    drop(database);

    let database = alone().expect("nobody has it open");
    let told = second();
    assert!(told.contains("refused: InUse"), "{told}");
    assert_eq!(database.published(), Position::new(3));
}

/// The second process of the test above; does nothing in an ordinary run.
#[test]
fn second_process() {
    if let Some(path) = std::env::var_os("QUIRE_SECOND_PROCESS") {
        match Database::open(path) {
            Ok(database) => {
                append(&database);
                println!("appended: {} ({})", database.published(), database.durability());
            }
            Err(error) => println!("refused: {:?}", error.kind()),
        }
    }
}

#[test]
fn all_problems_with_the_settings_are_reported_at_once() {
    let place = Place::new();
    let builder =
        place.builder(Durability::Os).segment_bytes(17).checkpoint_bytes(18).sync_interval(Duration::from_millis(0));
    let error = builder.commit_bytes_max(19).compact_keys_max(0).open().expect_err("they can't be used");
    assert_eq!(error.kind(), ErrorKind::Invalid);
    let problems = [
        "segment_bytes must be between 4096 and 4294967295, got 17",
        "checkpoint_bytes must be at least 4096, got 18",
        "sync_interval_ms must be at least 1, got 0",
        "commit_bytes_max must be between",
    ];
    for says in problems.into_iter().chain(["compact_keys_max must be at least 1, got 0"]) {
        assert!(error.to_string().contains(says), "\"{error}\" says \"{says}\"");
    }
    assert!(!error.to_string().contains("record_bytes_max"), "no setting of a database has this name: {error}");
    assert!(!place.path().exists(), "nothing was made");
    let larger = place.builder(Durability::Os).segment_bytes(8192).commit_bytes_max(8192).open();
    assert_eq!(larger.expect_err("no segment holds it").kind(), ErrorKind::Invalid);
}

#[test]
fn the_largest_commit_is_as_large_as_was_set() {
    let place = Place::new();
    let database = place.builder(Durability::Os).commit_bytes_max(1024).open().expect("opened");
    assert_eq!(database.commit_bytes_max(), 1024);
    let append = |bytes: usize| {
        let data = vec![b'x'; bytes];
        database.commit(&Commit::new().append("store", [NewEvent::new("Made").data(&data)])).map(|_| ())
    };
    append(512).expect("it fits");
    assert_eq!(append(1024).expect_err("too large").kind(), ErrorKind::TooLarge);
}

#[test]
fn segments_are_as_long_as_was_set() {
    let place = Place::new();
    let database = place.builder(Durability::Os).segment_bytes(8192).open().expect("opened");
    (0..200).for_each(|_| append(&database));
    let segments = files(&place.shard(), ".log");
    assert!(segments.len() > 2, "{segments:?}");
    assert_eq!(database.statistics().segments, segments.len() as u64);
    for segment in segments {
        assert_eq!(fs::metadata(segment).expect("there").len(), 8192);
    }
}

#[test]
fn an_os_database_syncs_in_the_background() {
    let place = Place::new();
    let database = place.builder(Durability::Os).sync_interval(Duration::from_millis(1)).open().expect("opened");
    let before = database.statistics().syncs;
    append(&database);
    while database.statistics().syncs == before {
        std::thread::yield_now();
    }
}

#[test]
fn a_torn_tail_is_cut_and_named_in_the_recovery() {
    let place = Place::new();
    let database = place.open(Durability::Os);
    (0..3).for_each(|_| append(&database));
    let kept = everything(&database);
    append(&database);
    drop(database);
    place.remove_checkpoints();
    let segment = files(&place.shard(), ".log").pop().expect("a segment");
    let mut bytes = fs::read(&segment).expect("readable");
    let last = bytes.iter().rposition(|byte| *byte != 0).expect("records");
    bytes[last] ^= 1;
    fs::write(&segment, bytes).expect("written");
    let opening = place.builder(Durability::Os).open_and_report().expect("opened");
    let cut = opening.recovery.cut.expect("something was cut");
    assert_eq!((opening.recovery.records, cut.position), (3, Position::new(4)));
    assert!(cut.synced && cut.kept.is_some(), "closing had synced it, so its bytes are kept: {cut}");
    assert_eq!(kept, everything(&opening.database));
}

#[test]
fn a_profile_sets_the_size_of_an_empty_database_and_single_settings_override_it() {
    let bytes = |profile: Profile, change: fn(Builder) -> Builder| {
        let place = Place::new();
        // The first commit creates the next segment.
        let builder = Database::builder(place.path()).background(Background::Caller).profile(profile);
        let database = change(builder).open().expect("the database opens");
        database.events("store").append([NewEvent::new("Made")]).expect("accepted");
        let segments = files(&place.shard(), ".log");
        segments.iter().map(|path| fs::metadata(path).expect("there").len()).sum::<u64>()
    };
    let of = |profile| bytes(profile, |builder| builder);
    assert_eq!(of(Profile::SmallDisk), 4 << 20);
    assert_eq!(of(Profile::Balanced), 64 << 20);
    assert_eq!(of(Profile::LowLatency), 256 << 20);
    assert_eq!(of(Profile::Throughput), 256 << 20);
    assert_eq!(bytes(Profile::Throughput, |builder| builder.segment_bytes(1 << 20)), 1 << 20);
}
