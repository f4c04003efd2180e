//! `salvage` copies every whole record that can be applied, lists the others, and renumbers
//! nothing. Its result opens, verifies and takes new commits.
//!
//! The sweep flips one byte of a small database at a time. By default it flips some of the bytes,
//! from a random one on; with `QUIRE_SALVAGE_STRIDE=1` it flips each.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher, RandomState};
use std::path::Path;

use quire::events::{Query, ReadOptions};
use quire::graph::BlockId;
use quire::tools::{Entry, FileKind, SalvageReport, Severity, Stretch, salvage, survey, verify};
use quire::{Database, ErrorKind, Sequence};

use crate::made::{Files, Place, named, place_of, records, step};

/// The bytes between two flips of the sweep, when nothing else is asked for. A prime number, so
/// that successive runs flip every part of a record.
const STRIDE: usize = 61;

/// An entry of a log, apart from its place.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Written {
    kind: (u8, u8),
    sequence: Option<u64>,
    tags: Vec<Vec<u8>>,
    body: Vec<u8>,
}

impl Written {
    fn of(entry: &Entry<'_>) -> Self {
        Written {
            kind: (entry.kind.model.get(), entry.kind.kind),
            sequence: entry.sequence.map(|sequence| sequence.get()),
            tags: entry.tags.iter().map(|tag| tag.as_bytes().to_vec()).collect(),
            body: entry.body.to_vec(),
        }
    }
}

/// The entries of a database by record and index, read from its files.
fn written(database: &Path) -> BTreeMap<(u64, u32), Written> {
    let (identity, survey) = survey(database).expect("a database");
    let mut all = BTreeMap::new();
    for (file, _) in survey.segments() {
        let segment = quire::tools::segment(&file.path, Some(identity)).expect("whole");
        segment.stretches(|stretch| {
            if let Stretch::Record(record) = stretch {
                for entry in record.entries() {
                    all.insert((entry.place.position.get(), entry.place.index), Written::of(&entry));
                }
            }
            true
        });
    }
    all
}

fn positions(written: &BTreeMap<(u64, u32), Written>) -> BTreeSet<u64> {
    written.keys().map(|(position, _)| *position).collect()
}

/// Salvages these files. Checks what holds after every salvage, and returns the entries, too.
fn salvaged(files: &Files, whole: &BTreeMap<(u64, u32), Written>) -> (SalvageReport, BTreeMap<(u64, u32), Written>) {
    let place = place_of(files);
    let to = place.beside("salvaged");
    let salvage = salvage(&place.path(), &to, None, &mut |_, _| ()).expect("salvaged");
    assert!(place.files() == *files, "the damaged database is only read");
    let verified = verify(&to, None, &mut |_, _| ()).expect("a database");
    assert!(verified.worst().is_none_or(|worst| worst == Severity::Note), "{:#?}", verified.findings);
    let found = written(&to);
    for (place, entry) in &found {
        assert_eq!(Some(entry), whole.get(place), "{place:?} is renumbered or changed");
    }
    let lost = |position: &u64| {
        salvage
            .lost
            .iter()
            .any(|lost| lost.first.get() <= *position && lost.last.is_none_or(|last| *position <= last.get()))
    };
    for position in positions(whole).difference(&positions(&found)) {
        assert!(lost(position), "record {position} is missing and not listed: {:#?}", salvage.lost);
    }
    assert_usable(&to, whole, &salvage);
    (salvage, found)
}

/// Opens the database, reads it, and commits to all models. No number is given twice.
fn assert_usable(path: &Path, whole: &BTreeMap<(u64, u32), Written>, salvage: &SalvageReport) {
    let open = || Database::builder(path).segment_bytes(4 << 10).create(false).open().expect("it opens");
    // A read of lost content may fail. It must not panic.
    let read = |database: &Database| {
        let _ = database.events("store").read(&Query::all(), ReadOptions::default());
        let _ = database.topic("topic").fetch(0, Sequence::new(0), 1 << 20);
        let _ = database.queue("queue").stats();
        if let Ok(Some(graph)) = database.graph("graph").snapshot() {
            for name in ["a", "b", "c", "d"] {
                let _ = graph.block(BlockId::of_name(name), |block| block.content.len());
            }
        }
    };
    let database = open();
    read(&database);
    let highest = |entries: &BTreeMap<(u64, u32), Written>| {
        let mut highest = BTreeMap::new();
        for entry in entries.values() {
            if let (Some(sequence), Some(tag)) = (entry.sequence, entry.tags.first()) {
                let known = highest.entry(tag.clone()).or_insert(sequence);
                *known = sequence.max(*known);
            }
        }
        highest
    };
    let before = highest(whole);
    for number in 0..4 {
        step(&database, 7000 + number);
    }
    if salvage.lost.iter().all(|lost| lost.last.is_some()) {
        let last = whole.keys().next_back().map_or(0, |(position, _)| *position);
        assert!(salvage.position.get() >= last, "position {last} could be given again");
    }
    database.sync().expect("synced");
    drop(database);
    let database = open();
    read(&database);
    drop(database);
    let new: BTreeMap<_, _> =
        written(path).into_iter().filter(|((position, _), _)| *position > salvage.position.get()).collect();
    assert!(!new.is_empty());
    for entry in new.values() {
        if let (Some(sequence), Some(tag)) = (entry.sequence, entry.tags.first())
            && let Some(before) = before.get(tag)
            && knows(salvage, entry)
        {
            assert!(sequence > *before, "{entry:?} takes a number again that record took before");
        }
    }
}

/// Whether the salvage can know the numbers of an entry's tag: from the state, an index, or records
/// after the lost ones. The state has no numbers of queues, and none of what is lost itself.
fn knows(salvage: &SalvageReport, of: &Written) -> bool {
    let is_queue = of.kind.0 == 3;
    salvage.lost.iter().all(|lost| {
        let is_followed = lost.last.is_some_and(|last| last.get() + 1 < salvage.position.get());
        !lost.message.contains("depends on")
            && (is_followed || (!is_queue && lost.last.is_some_and(|last| last <= salvage.state_from)))
    })
}

fn small() -> Files {
    let place = Place::with_segments(4 << 10);
    let database = place.open();
    let mut number = 0;
    for segments in [3, 5] {
        while named(&place.files(), ".log").len() < segments {
            step(&database, number);
            number += 1;
        }
        database.checkpoint().expect("saved");
    }
    step(&database, number);
    drop(database);
    let files = place.files();
    assert!(named(&files, ".log").len() > 3, "several segments");
    files
}

fn without_checkpoints(files: &Files) -> Files {
    files
        .iter()
        .filter(|(name, _)| !name.ends_with(".checkpoint"))
        .map(|(name, bytes)| (name.clone(), bytes.clone()))
        .collect()
}

fn whole_of(files: &Files) -> BTreeMap<(u64, u32), Written> {
    written(&place_of(files).path())
}

fn stride() -> (usize, usize) {
    let stride = std::env::var("QUIRE_SALVAGE_STRIDE").map_or(STRIDE, |stride| stride.parse().expect("a number"));
    (RandomState::new().hash_one(0) as usize % stride, stride)
}

/// Flips bytes of every file except locks, and salvages after each flip.
fn sweep(files: &Files, check: impl Fn(&str, usize, &SalvageReport, &BTreeMap<(u64, u32), Written>)) {
    let whole = whole_of(files);
    let (mut at, stride) = stride();
    for (name, bytes) in files {
        if FileKind::of(name.rsplit('/').next().expect("a name")) == FileKind::Lock {
            continue;
        }
        // Behind the records are zeros: a few of them stand for all.
        let end = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| (last + 16).min(bytes.len()));
        while at < end {
            let mut damaged = files.clone();
            damaged.get_mut(name).expect("there")[at] ^= 0x40;
            println!("byte {at} of {name}");
            let (salvage, found) = salvaged(&damaged, &whole);
            check(name, at, &salvage, &found);
            at += stride;
        }
        at -= end;
    }
}

#[test]
fn a_whole_database_is_salvaged_whole() {
    let files = small();
    let whole = whole_of(&files);
    let (salvage, found) = salvaged(&files, &whole);
    assert_eq!(salvage.lost, []);
    assert!(found == whole);
    assert_eq!(salvage.records as usize, positions(&whole).len());
}

#[test]
fn a_flipped_byte_costs_its_own_record_and_no_other_while_a_checkpoint_verifies() {
    let files = small();
    let whole = whole_of(&files);
    let count = positions(&whole).len();
    sweep(&files, |name, at, salvage, found| {
        let left = positions(found).len();
        assert!(left + 1 >= count, "byte {at} of {name}: {left} of {count} records: {:#?}", salvage.lost);
        if left < count {
            let lost = &salvage.lost[0];
            assert!(lost.path.ends_with(name), "{lost}");
            assert!(
                records(&files[name]).iter().any(|record| record.start as u64 == lost.offset && record.contains(&at))
            );
        }
        if !name.ends_with(".log") {
            assert!(found == &whole, "byte {at} of {name} is in no record");
        }
    });
}

#[test]
fn without_a_checkpoint_records_that_depend_on_a_lost_one_are_dropped_and_listed() {
    let files = without_checkpoints(&small());
    let whole = whole_of(&files);
    sweep(&files, |name, at, salvage, found| {
        for lost in &salvage.lost {
            assert!(!lost.message.contains("a model can't apply"), "byte {at} of {name}: {lost}");
        }
        if salvage.lost.is_empty() {
            assert!(found == &whole, "byte {at} of {name}");
        }
    });
}

#[test]
fn a_flipped_version_of_the_database_is_damage_and_no_newer_format() {
    let files = small();
    let whole = whole_of(&files);
    for at in 8..12 {
        let mut damaged = files.clone();
        damaged.get_mut("quire.meta").expect("there")[at] ^= 0x40;
        assert!(salvaged(&damaged, &whole).1 == whole, "byte {at}");
    }
}

#[test]
fn a_lost_creation_drops_what_was_created_in_it_and_keeps_the_rest() {
    let place = Place::new();
    let database = place.open();
    let enqueue = |queue: &str| {
        database.queue(queue).enqueue(quire::NewJob::new(b"work")).expect("accepted");
    };
    enqueue("first");
    enqueue("lost");
    (0..3).for_each(|_| enqueue("lost"));
    enqueue("later");
    database.sync().expect("synced");
    let files = without_checkpoints(&place.files());
    let whole = whole_of(&files);
    let name = named(&files, ".log").remove(0);
    let second = records(&files[&name])[1].clone();
    let mut damaged = files.clone();
    damaged.get_mut(&name).expect("there")[second.start + 44] ^= 1;
    let (salvage, found) = salvaged(&damaged, &whole);
    assert_eq!(positions(&found), BTreeSet::from([1, 6]));
    let lost: Vec<_> = salvage.lost.iter().map(|lost| (lost.first.get(), lost.last.map(|last| last.get()))).collect();
    assert_eq!(lost, [(2, Some(2)), (3, Some(3)), (4, Some(4)), (5, Some(5))]);
    assert!(salvage.lost[1].message.contains("its queue is unknown"), "{}", salvage.lost[1]);
}

#[test]
fn numbers_that_a_damaged_last_record_states_are_not_given_again() {
    let files = small();
    let whole = whole_of(&files);
    let name = named(&files, ".log").pop().expect("segments");
    let last = records(&files[&name]).pop().expect("records");
    let [with, without] = [files.clone(), without_checkpoints(&files)];
    for mut damaged in [with, without] {
        // The last byte of the last body.
        damaged.get_mut(&name).expect("there")[last.end - 9] ^= 1;
        let place = place_of(&damaged);
        let to = place.beside("salvaged");
        let salvage = salvage(&place.path(), &to, None, &mut |_, _| ()).expect("salvaged");
        assert_eq!(salvage.lost.len(), 1, "{:#?}", salvage.lost);
        let database = Database::builder(&to).create(false).open().expect("it opens");
        step(&database, 1);
        drop(database);
        let numbers = |all: &BTreeMap<(u64, u32), Written>| -> BTreeMap<Vec<u8>, u64> {
            let of = |entry: &Written| Some((entry.tags.first()?.clone(), entry.sequence?));
            all.values().filter_map(of).collect()
        };
        let (before, after) = (numbers(&whole), numbers(&written(&to)));
        assert!(before.len() >= 3, "{before:?}");
        assert!(before.iter().all(|(tag, number)| after[tag] > *number), "{before:?} {after:?}");
    }
}

#[test]
fn lost_segments_are_listed_and_all_others_are_kept() {
    let files = small();
    let whole = whole_of(&files);
    let segments = named(&files, ".log");
    let last = segments.len() - 1;
    for gone in [0..1, 1..2, 1..3, last..last + 1, last - 1..last + 1, 0..last, 0..last + 1] {
        for indexes in [true, false] {
            let mut damaged = files.clone();
            for name in &segments[gone.clone()] {
                damaged.remove(name);
                if !indexes {
                    damaged.remove(&name.replace(".log", ".idx"));
                }
            }
            let (salvage, found) = salvaged(&damaged, &whole);
            let kept = positions(&found);
            let first = |name: &String| name[name.len() - 24..name.len() - 4].parse::<u64>().expect("a position");
            let from = first(&segments[gone.start]);
            let to = segments.get(gone.end).map_or(u64::MAX, first);
            let expected: BTreeSet<_> = positions(&whole).into_iter().filter(|at| !(from..to).contains(at)).collect();
            assert_eq!(kept, expected, "segments {gone:?}: {:#?}", salvage.lost);
            assert!(
                salvage.position.get() >= *positions(&whole).last().expect("records"),
                "no position is given again"
            );
        }
    }
}

#[test]
fn a_torn_tail_and_a_truncated_segment_lose_only_their_end() {
    let files = small();
    let whole = whole_of(&files);
    for name in named(&files, ".log") {
        let all = records(&files[&name]);
        for (index, record) in all.iter().enumerate() {
            for end in [record.start, record.start + 20, record.end - 1] {
                let mut damaged = files.clone();
                damaged.get_mut(&name).expect("there").truncate(end);
                let (_, found) = salvaged(&damaged, &whole);
                assert_eq!(positions(&found).len(), positions(&whole).len() - (all.len() - index), "{name} to {end}");
            }
        }
    }
}

#[test]
fn damaged_headers_indexes_and_control_files_cost_no_record() {
    let files = small();
    let whole = whole_of(&files);
    let mut damaged = files.clone();
    for (name, bytes) in &mut damaged {
        if name.ends_with(".log") {
            bytes[..64].fill(0xff);
        } else if name.ends_with(".idx") || name.ends_with("control") || name.ends_with("statistics") {
            bytes.fill(0x55);
        }
    }
    let (salvage, found) = salvaged(&damaged, &whole);
    assert!(found == whole, "{:#?}", salvage.lost);
}

#[test]
fn compacted_and_packed_segments_lose_only_damaged_records_or_frames() {
    for files in Place::compacted_and_packed().map(|place| place.files()) {
        let whole = whole_of(&files);
        let (salvage, found) = salvaged(&files, &whole);
        assert!(salvage.lost.is_empty() && found == whole, "{:#?}", salvage.lost);
        let compacted: Vec<_> =
            named(&files, ".log").into_iter().filter(|name| files[name].starts_with(b"QUIRECMP")).collect();
        for name in &compacted {
            // Magic, version, checksum, positions, lengths.
            for at in [0, 8, 12, 33, 41, 57, 65, 73, 81, 85, 90] {
                let mut damaged = files.clone();
                damaged.get_mut(name).expect("there")[at] ^= 1;
                let (_, found) = salvaged(&damaged, &whole);
                assert!(found == whole, "byte {at} of the header of {name}");
            }
            let bytes = files[name].len();
            for at in (200..bytes).step_by(bytes / 7 + 1) {
                let mut damaged = files.clone();
                damaged.get_mut(name).expect("there")[at] ^= 1;
                let (salvage, found) = salvaged(&damaged, &whole);
                assert!(positions(&found).len() * 2 > positions(&whole).len(), "byte {at}: {:#?}", salvage.lost);
            }
        }
    }
}

#[test]
fn a_backup_a_full_directory_and_a_directory_inside_are_refused() {
    let place = Place::made(3);
    let path = place.path();
    let refused = |from: &Path, to: &Path| salvage(from, to, None, &mut |_, _| ()).expect_err("refused").kind();
    assert_eq!(refused(&path, &path.join("inside")), ErrorKind::Invalid);
    assert_eq!(refused(&path, &path), ErrorKind::Invalid);
    assert_eq!(refused(&place.beside("nothing"), &place.beside("new")), ErrorKind::NotADatabase);
    let backup = place.beside("backup");
    quire::tools::backup(&path, &backup, None, &mut |_, _| ()).expect("backed up");
    assert_eq!(refused(&backup, &place.beside("new")), ErrorKind::NotADatabase);
    assert_eq!(refused(&path, &backup), ErrorKind::Invalid);
    assert!(!place.beside("new").exists(), "nothing was written");
}

#[test]
fn progress_reaches_its_total() {
    let place = Place::made(10);
    let mut last = (0, 0);
    salvage(&place.path(), &place.beside("new"), None, &mut |done, of| {
        assert!(done >= last.0 && done <= of, "{done} of {of} after {last:?}");
        last = (done, of);
    })
    .expect("salvaged");
    assert!(last.1 > 0 && last.0 == last.1, "{last:?}");
}

#[test]
fn an_opening_that_fails_names_salvage() {
    let mut files = Place::made(10).files();
    let name = named(&files, ".log").pop().expect("segments");
    let record = records(&files[&name])[0].clone();
    files.get_mut(&name).expect("there")[record.start + 44] ^= 1;
    let error = Database::builder(place_of(&files).path()).create(false).open().expect_err("a record is damaged");
    assert_eq!(error.kind(), ErrorKind::Damaged);
    assert!(error.to_string().contains("quire salvage"), "{error}");
}
