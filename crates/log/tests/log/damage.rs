//! Damage to durable records without a sealed index: the log refuses to open, reports the byte, and
//! changes nothing. [`crate::sealed`] tests damage in sealed segments.

use quire_log::{Durability, Error};
use quire_model::Position;

use crate::shard::{BOTH, Shard, Snapshot, extend, filled, settings};

/// Asserts that the log refuses to open, names the file, and changes nothing. Returns byte and
/// position.
fn refused(snapshot: &Snapshot, name: &str) -> (u64, Option<Position>) {
    let shard = snapshot.shard();
    let attempt = || match shard.try_open() {
        Err(Error::Damaged { path, offset, position, message }) => {
            assert_eq!(path, shard.path().join(name), "{message}");
            snapshot.assert_unchanged(&shard);
            (offset, position)
        }
        Err(error) => panic!("it is damaged, and not: {error}"),
        Ok(opened) => panic!("it is damaged, and opened: {:?}", opened.recovery),
    };
    let first = attempt();
    assert_eq!(attempt(), first, "the first attempt changes nothing for the second");
    first
}

/// A closed log of several segments.
fn closed(durability: Durability) -> Snapshot {
    let (shard, opened) = filled(durability, 40);
    drop(opened);
    let snapshot = shard.snapshot().without_indexes();
    assert!(snapshot.segments().len() > 3);
    snapshot
}

#[test]
fn a_flipped_byte_in_any_but_the_last_record_is_refused() {
    for durability in BOTH {
        let snapshot = closed(durability);
        let records = snapshot.records();
        for (index, (name, bytes)) in records.iter().enumerate().take(records.len() - 1) {
            for at in [0, 3, 4, 5, 9, 20, 25, 33, 36, 38, 41, 60, bytes.len() - 1] {
                let flipped = snapshot.with(name, |file| file[bytes.start + at] ^= 0x41);
                let position = Some(Position::new(index as u64 + 1));
                assert_eq!(
                    refused(&flipped, name),
                    (bytes.start as u64, position),
                    "byte {at} of record {}",
                    index + 1
                );
            }
        }
    }
}

#[test]
fn damage_is_refused_also_when_the_control_file_is_lost() {
    let snapshot = closed(Durability::Sync).without("control");
    let records = snapshot.records();
    for (index, (name, bytes)) in records.iter().enumerate().take(records.len() - 1) {
        let flipped = snapshot.with(name, |file| file[bytes.start + 50] ^= 1);
        assert_eq!(refused(&flipped, name), (bytes.start as u64, Some(Position::new(index as u64 + 1))));
    }
}

#[test]
fn zeros_over_synced_records_are_refused_when_records_follow() {
    let snapshot = closed(Durability::Sync);
    let (name, bytes) = snapshot.records()[1].clone();
    let zeroed = snapshot.with(&name, |file| file[bytes.clone()].fill(0));
    assert_eq!(refused(&zeroed, &name), (bytes.start as u64, Some(Position::new(2))));
}

#[test]
fn a_segment_that_was_truncated_is_refused_and_keeps_its_length() {
    let snapshot = closed(Durability::Sync);
    let segments = snapshot.segments();
    let records = snapshot.records();
    // A sealed segment that lost a record, and a segment that lost part of its header.
    let (index, (name, bytes)) = records.iter().enumerate().rfind(|(_, (name, _))| *name == segments[1]).unwrap();
    let truncated = snapshot.with(name, |file| file.truncate(bytes.start + 20));
    assert_eq!(refused(&truncated, name), (bytes.start as u64, Some(Position::new(index as u64 + 1))));
    let headless = snapshot.with(name, |file| file.truncate(30));
    refused(&headless, name);
    // The last segment, damaged in its middle and truncated.
    let last = segments.last().unwrap();
    let (index, (_, bytes)) = records.iter().enumerate().find(|(_, (name, _))| name == last).unwrap();
    let both = snapshot.with(last, |file| {
        file[bytes.start + 50] ^= 1;
        file.truncate(4000);
    });
    assert_eq!(refused(&both, last), (bytes.start as u64, Some(Position::new(index as u64 + 1))));
}

#[test]
fn damage_below_the_durable_mark_of_a_crashed_log_is_refused() {
    let (shard, mut opened) = filled(Durability::Os, 20);
    opened.log.sync().unwrap();
    extend(&mut opened, 40);
    let snapshot = shard.snapshot().without_indexes();
    let records = snapshot.records();
    for number in 1..20 {
        let (name, bytes) = &records[number - 1];
        let flipped = snapshot.with(name, |file| file[bytes.end - 1] ^= 1);
        assert_eq!(refused(&flipped, name), (bytes.start as u64, Some(Position::new(number as u64))));
    }
}

#[test]
fn a_flipped_byte_in_the_header_of_a_segment_is_refused() {
    let snapshot = closed(Durability::Os);
    for name in snapshot.segments() {
        for at in 0..64 {
            let flipped = snapshot.with(&name, |file| file[at] ^= 0x10);
            refused(&flipped, &name);
        }
    }
}

#[test]
fn a_whole_header_with_an_impossible_length_or_position_is_refused() {
    let lengths = [0, 1, 63, 1 << 32, u64::MAX].map(|bytes| (56, bytes));
    let positions = [1 << 48, u64::MAX].map(|first| (40, first));
    let snapshot = closed(Durability::Os);
    for name in snapshot.segments() {
        for (at, number) in lengths.into_iter().chain(positions) {
            let told = snapshot.with(&name, |file| {
                file[at..at + 8].copy_from_slice(&u64::to_le_bytes(number));
                let covered = [&file[..12], &file[16..64]].concat();
                file[12..16].copy_from_slice(&quire_log::crc32c(&covered).to_le_bytes());
            });
            assert_eq!(refused(&told, &name).0, at as u64, "{number}");
        }
    }
}

#[test]
fn a_missing_segment_is_refused_wherever_records_follow() {
    let snapshot = closed(Durability::Os);
    let segments = snapshot.segments();
    refused(&snapshot.without(&segments[0]), &segments[1]);
    for pair in segments.windows(2).take(segments.len() - 2) {
        let missing = &pair[1];
        let first: u64 = missing[..20].parse().unwrap();
        assert_eq!(refused(&snapshot.without(missing), &pair[0]).1, Some(Position::new(first)));
    }
    let mut none = snapshot.clone();
    none.files.retain(|name, _| name == "control");
    assert!(matches!(none.shard().try_open(), Err(Error::Damaged { .. })));
}

#[test]
fn a_segment_of_another_database_is_refused_and_not_touched() {
    let snapshot = closed(Durability::Os);
    let other = Shard::new(settings(Durability::Os));
    let identity = quire_log::Identity { database: 77, ..crate::shard::IDENTITY };
    let opened = quire_log::Log::open(other.path(), identity, other.settings.clone(), other.clock.clone()).unwrap();
    drop(opened);
    let foreign = other.snapshot().files[&crate::shard::segment_name(1)].clone();
    let segments = snapshot.segments();
    let following = crate::shard::segment_name(41);
    let far = crate::shard::segment_name(99);
    for name in [&segments[0], &segments[1], segments.last().unwrap(), &following, &far] {
        refused(&snapshot.with_file(name, &foreign), name);
    }
}

#[test]
fn the_same_segment_under_a_second_name_is_refused() {
    let snapshot = closed(Durability::Os);
    let segments = snapshot.segments();
    let copy = snapshot.files[&segments[1]].clone();
    let following = crate::shard::segment_name(41);
    refused(&snapshot.with_file(&following, &copy), &following);
}

#[test]
fn a_segment_under_a_name_that_is_not_its_own_is_refused() {
    let (shard, opened) = filled(Durability::Os, 5);
    drop(opened);
    let snapshot = shard.snapshot();
    let first = crate::shard::segment_name(1);
    let name = crate::shard::segment_name(7);
    refused(&snapshot.with_file(&name, &snapshot.files[&first]).without(&first), &name);
}

#[test]
fn unrelated_files_are_left_alone() {
    let snapshot = closed(Durability::Os).with_file("debug.log", b"notes").with_file("zzz", b"more");
    let shard = snapshot.shard();
    let opened = shard.open();
    assert_eq!(opened.recovery.cut, None);
    assert_eq!(opened.recovery.records, 40);
    assert!(shard.names().contains(&"debug.log".to_owned()) && shard.names().contains(&"zzz".to_owned()));
}

#[test]
fn a_segment_of_a_newer_version_is_named_as_such() {
    let snapshot = closed(Durability::Os);
    for name in snapshot.segments() {
        let newer = snapshot.with(&name, |file| {
            file[8..12].copy_from_slice(&2_u32.to_le_bytes());
            let covered = [&file[..12], &file[16..64]].concat();
            file[12..16].copy_from_slice(&quire_log::crc32c(&covered).to_le_bytes());
        });
        match newer.shard().try_open() {
            Err(Error::NewerFormat { path, version: 2, supported: 1 }) => assert!(path.ends_with(&name)),
            other => panic!("it is of a newer version: {other:?}"),
        }
    }
}

#[test]
fn a_sound_record_of_an_unknown_kind_is_refused_and_not_cut() {
    let snapshot = closed(Durability::Os);
    let (name, bytes) = snapshot.records().pop().unwrap();
    let unknown = snapshot.with(&name, |file| {
        file[bytes.start + 36] = 9;
        let crc = quire_log::crc32c(&file[bytes.start + 4..bytes.end]);
        file[bytes.start..bytes.start + 4].copy_from_slice(&crc.to_le_bytes());
    });
    assert_eq!(refused(&unknown, &name), (bytes.start as u64, Some(Position::new(40))));
}

#[test]
fn a_log_that_lost_more_than_its_last_synced_record_is_refused() {
    for durability in BOTH {
        let snapshot = closed(durability);
        let records = snapshot.records();
        for (lost, (name, bytes)) in records.iter().rev().enumerate().skip(1).take(2) {
            let (offset, position) = refused(&snapshot.with(name, |file| file[bytes.start..].fill(0)), name);
            assert_eq!(offset, bytes.start as u64);
            assert_eq!(position, Some(Position::new((records.len() - lost) as u64)));
        }
    }
}
