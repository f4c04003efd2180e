//! `verify` names every damage, changes nothing, and reports no damage in an intact or open
//! database.

use std::fs;

use quire::tools::{LogPart, Severity, Verification, verify};
use quire::{Database, ErrorKind};

use crate::made::{Files, Place, named, place_of, records, step};

fn verified(place: &Place) -> Verification {
    let before = place.files();
    let verification = verify(&place.path(), None, &mut |_, _| ()).expect("there is something to verify");
    assert!(before == place.files(), "verifying changes nothing");
    verification
}

/// The findings in these files after a change to one of them.
fn found(files: &Files, name: &str, change: impl FnOnce(&mut Vec<u8>)) -> Verification {
    let mut files = files.clone();
    change(files.get_mut(name).expect("there is such a file"));
    verified(&place_of(&files))
}

#[track_caller]
fn assert_found(verification: &Verification, severity: Severity, part: LogPart, name: &str) {
    let found = verification.findings.iter().any(|finding| {
        finding.severity == severity && finding.part == part && finding.path.to_string_lossy().ends_with(name)
    });
    assert!(found, "{severity} {part:?} of {name} in {:#?}", verification.findings);
}

#[test]
fn a_database_that_was_closed_is_whole_and_its_checkpoints_agree_with_a_replay() {
    let place = Place::made(60);
    let verification = verified(&place);
    assert_eq!(verification.findings, []);
    let files = place.files();
    let segments = named(&files, ".log");
    let count: usize = segments.iter().map(|name| records(&files[name]).len()).sum();
    assert!(segments.len() > 3);
    assert_eq!((verification.totals.segments, verification.totals.records), (segments.len() as u64, count as u64));
    assert_eq!(verification.checkpoints, 2);
}

#[test]
fn a_database_in_use_verifies_as_whole_at_every_moment() {
    let place = Place::new();
    let database = place.open();
    step(&database, 0);
    std::thread::scope(|scope| {
        let verifier = scope.spawn(|| {
            for round in 0..30 {
                let verification = verify(&place.path(), None, &mut |_, _| ()).expect("there is something to verify");
                let worst = verification.worst();
                assert!(worst.is_none_or(|worst| worst == Severity::Note), "round {round}: {verification:#?}");
            }
        });
        let mut number = 1;
        // Also when it ends because of a problem.
        while !verifier.is_finished() {
            step(&database, number);
            number += 1;
        }
    });
}

#[test]
fn a_record_that_was_not_whole_yet_when_it_was_read_is_not_lost_though_later_ones_are_whole() {
    let place = Place::new();
    let database = place.open();
    step(&database, 0);
    let before = place.files();
    (1..4).for_each(|number| step(&database, number));
    let after = place.files();
    let (name, control) = (named(&after, ".log").pop().expect("a segment"), "shard-0000/control");
    let next = records(&before[&name]).len();
    let of_it = records(&after[&name])[next..].to_vec();
    assert!(of_it.len() > 1, "records stand behind it in the same segment");
    let at = of_it[0].start + 50;
    // The view of a process that reads the control file, and then the segment while commits are
    // appended.
    let mut read = after.clone();
    read.insert(control.to_owned(), before[control].clone());
    let verification = found(&read, &name, |bytes| bytes[at] ^= 1);
    assert!(verification.worst().is_none_or(|worst| worst == Severity::Note), "{verification:#?}");
    assert_found(&found(&after, &name, |bytes| bytes[at] ^= 1), Severity::Lost, LogPart::Log, &name);
}

#[test]
fn any_flipped_byte_of_a_record_is_named_with_file_byte_and_position() {
    let files = Place::made(30).files();
    let mut position = 0;
    for name in named(&files, ".log") {
        for record in records(&files[&name]) {
            position += 1;
            // Every byte of a few records, one of each of the others.
            let step = if position % 29 == 0 { 1 } else { record.len() };
            for at in record.clone().step_by(step) {
                let verification = found(&files, &name, |bytes| bytes[at] ^= 0x40);
                let lost = verification.findings.iter().find(|finding| finding.severity == Severity::Lost);
                let lost = lost.unwrap_or_else(|| panic!("byte {at} of {name} goes unnoticed"));
                assert!(lost.path.ends_with(&name), "{lost}");
                assert_eq!(
                    (lost.offset, lost.position.expect("known").get()),
                    (record.start as u64, position),
                    "{lost}"
                );
            }
        }
    }
}

#[test]
fn damage_in_two_places_is_named_twice_and_the_rest_is_still_checked() {
    let place = Place::made(60);
    let whole = verified(&place).totals;
    let mut files = place.files();
    let segments = named(&files, ".log");
    for name in [&segments[0], &segments[1]] {
        let record = records(&files[name])[3].clone();
        files.get_mut(name).expect("there")[record.start + 44] ^= 1;
    }
    let verification = verified(&place_of(&files));
    let lost: Vec<_> = verification.findings.iter().filter(|finding| finding.severity == Severity::Lost).collect();
    assert_eq!(lost.len(), 2, "{lost:#?}");
    assert!(lost.iter().zip([&segments[0], &segments[1]]).all(|(finding, name)| finding.path.ends_with(name)));
    assert_eq!((verification.totals.records, verification.totals.last), (whole.records - 2, whole.last));
    // Both checkpoints are after the damage: the older one gives the state from which a replay
    // reaches the newer.
    assert_eq!(verification.checkpoints, 1);
}

#[test]
fn a_segment_that_is_cut_lost_or_has_a_damaged_header_is_named() {
    let files = Place::made(60).files();
    let segments = named(&files, ".log");
    let middle = &segments[1];
    for at in (0..64).chain([100]) {
        assert_found(&found(&files, middle, |bytes| bytes[at] ^= 1), Severity::Lost, LogPart::Log, middle);
    }
    assert_found(&found(&files, middle, |bytes| bytes.truncate(3000)), Severity::Lost, LogPart::Log, middle);
    assert_found(&found(&files, middle, |bytes| bytes.truncate(10)), Severity::Lost, LogPart::Log, middle);
    // After its records there is nothing to lose.
    let end = records(&files[middle]).last().expect("it has records").end;
    let cut = found(&files, middle, |bytes| bytes.truncate(end));
    assert_found(&cut, Severity::Note, LogPart::Log, middle);
    assert_eq!(cut.worst(), Some(Severity::Note));
    let mut without = files.clone();
    without.remove(middle);
    assert_found(&verified(&place_of(&without)), Severity::Lost, LogPart::Log, &segments[2]);
    let mut without = files.clone();
    without.remove(segments.last().expect("segments"));
    assert_found(&verified(&place_of(&without)), Severity::Lost, LogPart::Tail, &segments[segments.len() - 2]);
}

#[test]
fn files_that_can_be_rebuilt_do_not_count_as_lost() {
    let files = Place::made(30).files();
    for name in named(&files, ".checkpoint") {
        for at in (0..files[&name].len()).step_by(7) {
            assert_found(
                &found(&files, &name, |bytes| bytes[at] ^= 1),
                Severity::Derivable,
                LogPart::Checkpoint,
                &name,
            );
        }
        assert_found(
            &found(&files, &name, |bytes| bytes.truncate(39)),
            Severity::Derivable,
            LogPart::Checkpoint,
            &name,
        );
    }
    for word in [0, 1, 2, 4, 8, 16] {
        let control = "shard-0000/control";
        let verification = found(&files, control, |bytes| bytes[word * 8] ^= 1);
        assert_found(&verification, Severity::Derivable, LogPart::Control, control);
        assert_eq!(verification.worst(), Some(Severity::Derivable), "{verification:#?}");
    }
    let statistics = "shard-0000/statistics";
    let verification = found(&files, statistics, |bytes| bytes[0] ^= 1);
    assert_found(&verification, Severity::Derivable, LogPart::Statistics, statistics);
    for at in (0..files["quire.meta"].len()).filter(|at| !(8..12).contains(at)) {
        let damaged = found(&files, "quire.meta", |bytes| bytes[at] ^= 1);
        assert_found(&damaged, Severity::Derivable, LogPart::Meta, "quire.meta");
        assert!(damaged.totals.records > 0);
    }
}

#[test]
fn a_checkpoint_of_another_state_does_not_agree() {
    let files = Place::made(30).files();
    let other = Place::made(31).files();
    // Another database: its checkpoints are whole, and belong to no record of this log.
    let (name, foreign) = (&named(&files, ".checkpoint")[1], &named(&other, ".checkpoint")[1]);
    let verification = found(&files, name, |bytes| bytes.clone_from(&other[foreign]));
    assert_found(&verification, Severity::Derivable, LogPart::Checkpoint, name);
}

#[test]
fn damage_does_not_hide_later_damage() {
    let mut files = Place::made(60).files();
    let segments = named(&files, ".log");
    let record = records(&files[&segments[0]])[1].clone();
    files.get_mut(&segments[0]).expect("there")[record.start + 50] ^= 1;
    files.remove(&segments[2]).expect("there");
    let verification = verified(&place_of(&files));
    assert_found(&verification, Severity::Lost, LogPart::Log, &segments[0]);
    assert_found(&verification, Severity::Lost, LogPart::Log, &segments[3]);
    let gone = segments[2].rsplit('/').next().expect("a name");
    let says = |finding: &quire::tools::Finding| finding.message.contains(&format!("{gone} is missing"));
    assert!(verification.findings.iter().any(says), "{verification:#?}");
}

#[test]
fn an_index_of_before_a_compaction_is_a_leftover_and_no_damage() {
    for place in Place::compacted_and_packed() {
        let mut files = place.files();
        let compacted = named(&files, ".log").into_iter().find(|name| files[name].starts_with(b"QUIRECMP"));
        let index = compacted.expect("something was compacted").replace(".log", ".idx");
        // As if it had been written for a file with another header: whole in itself.
        let bytes = files.get_mut(&index).expect("there");
        bytes[36] ^= 1;
        let head = 128 + bytes_of_checksums(bytes);
        let crc = quire_log::crc32c(&[&bytes[..12], &bytes[16..head]].concat());
        bytes[12..16].copy_from_slice(&crc.to_le_bytes());
        let verification = verified(&place_of(&files));
        assert_found(&verification, Severity::Note, LogPart::Index, &index);
        assert_eq!(verification.worst(), Some(Severity::Note), "{verification:#?}");
        assert_found(&found(&files, &index, |bytes| bytes[head] ^= 1), Severity::Derivable, LogPart::Index, &index);
    }
}

/// Returns the bytes of an index's checksums, following the format page: four for each block of its
/// body.
fn bytes_of_checksums(index: &[u8]) -> usize {
    let blocks = (1..).find(|blocks| (index.len() - 128 - 4 * blocks).div_ceil(4096) == *blocks);
    4 * blocks.expect("a body")
}

#[test]
fn a_torn_tail_that_was_never_synced_is_derivable() {
    let place = Place::new();
    let database = place.open();
    step(&database, 0);
    database.sync().expect("synced");
    // No sync comes in between: the interval is long for one step.
    step(&database, 1);
    let mut files = place.files();
    drop(database);
    let name = named(&files, ".log").remove(0);
    let last = records(&files[&name]).pop().expect("records");
    files.get_mut(&name).expect("there")[last.start + 50] ^= 1;
    let verification = verified(&place_of(&files));
    let synced = u64::from_le_bytes(files["shard-0000/control"][16 * 8..17 * 8].try_into().expect("eight bytes"))
        & ((1 << 48) - 1);
    let expected = if synced >= 3 { Severity::Lost } else { Severity::Derivable };
    assert_eq!(verification.worst(), Some(expected), "{verification:#?}");
}

#[test]
fn leftovers_are_reported_and_a_directory_without_a_database_is_refused() {
    let place = Place::made(5);
    fs::write(place.path().join("shard-0000/notes.txt"), "mine").expect("written");
    fs::write(place.path().join("shard-0000/00000000000000000003.checkpoint.new"), "half").expect("written");
    let verification = verified(&place);
    assert_eq!((verification.worst(), verification.findings.len()), (Some(Severity::Note), 2));
    let nothing = Place::new();
    let error = verify(&nothing.path(), None, &mut |_, _| ()).expect_err("there is nothing");
    assert_eq!(error.kind(), ErrorKind::NotADatabase);
}

#[test]
fn a_compacted_database_is_whole_and_damage_in_it_is_named() {
    Place::compacted_and_packed().iter().for_each(assert_named);
}

fn assert_named(place: &Place) {
    let verification = verified(place);
    assert_eq!(verification.findings, []);
    assert!(verification.checkpoints >= 1, "{verification:?}");
    let files = place.files();
    let compacted = named(&files, ".log").into_iter().find(|name| files[name].starts_with(b"QUIRECMP"));
    let compacted = compacted.expect("something was compacted");
    for at in (0..files[&compacted].len()).step_by(11) {
        let verification = found(&files, &compacted, |bytes| bytes[at] ^= 1);
        assert_found(&verification, Severity::Lost, LogPart::Log, &compacted);
    }
    assert_found(&found(&files, &compacted, |bytes| bytes.truncate(200)), Severity::Lost, LogPart::Log, &compacted);
}

#[test]
fn lost_records_that_a_checkpoint_proves_are_reported_without_segments_and_control_file() {
    let whole = Place::made(40).files();
    let mut files = whole.clone();
    let last = named(&files, ".log").pop().expect("there are segments");
    files.retain(|name, _| *name != last && !name.ends_with("control"));
    let place = place_of(&files);
    let verification = verified(&place);
    assert_eq!(verification.worst(), Some(Severity::Lost), "{:#?}", verification.findings);
    assert_found(&verification, Severity::Lost, LogPart::Checkpoint, ".checkpoint");
    let error = Database::builder(place.path()).create(false).open().expect_err("records are missing");
    assert_eq!(error.kind(), ErrorKind::Damaged);
    assert!(error.to_string().contains("had been synced"), "{error}");
    let left = place.files();
    let told_by = |name: &&String| name.ends_with(".log") || name.ends_with(".checkpoint");
    assert!(
        files.keys().filter(told_by).all(|name| left.get(name) == files.get(name)),
        "what is refused is left as it was"
    );
    // Without the checkpoint that proves the loss, the rest of the log is all there is.
    files.retain(|name, _| !name.ends_with(".checkpoint"));
    assert!(verified(&place_of(&files)).worst() < Some(Severity::Lost));
    step(&place_of(&files).open(), 1000);
}
