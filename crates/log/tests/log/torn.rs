//! Torn tails: after a crash within the last record, all earlier records are read, and appends
//! continue.

use std::ops::Range;

use quire_log::{Durability, OpenedLog};
use quire_model::{History, Place, Position, Tag};

use crate::shard::{BOTH, COVERED, Item, Shard, Snapshot, append, assert_samples, extend, filled, sample, settings};

/// How the last record was lost.
#[derive(Debug, Clone, Copy)]
enum Tear {
    /// The file ends here.
    Truncated,
    /// One byte is different.
    Flipped,
    /// All later bytes are zero.
    Zeroed,
}

/// The files besides the segments.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Crash {
    /// The files of the open log, before any sync.
    Unsynced,
    /// The files after the log was closed.
    Closed,
    /// The files after the log was closed, without the control file.
    ControlLost,
}

const RECORDS: u64 = 23;

/// Tears the last record of a log at each of its bytes.
fn check(durability: Durability, crash: Crash, tear: Tear) {
    let (shard, opened) = filled(durability, RECORDS);
    let snapshot = match crash {
        Crash::Unsynced => shard.snapshot(),
        Crash::Closed => {
            drop(opened);
            shard.snapshot()
        }
        Crash::ControlLost => {
            drop(opened);
            shard.snapshot().without("control")
        }
    };
    let (name, bytes) = snapshot.records().pop().unwrap();
    assert_eq!(snapshot.records().len() as u64, RECORDS);
    assert!(bytes.start > 64, "a record stands before it in the same segment");
    for at in bytes.clone() {
        let torn = snapshot.with(&name, |file| match tear {
            Tear::Truncated => file.truncate(at),
            Tear::Flipped => file[at] ^= 1 << (at % 8),
            Tear::Zeroed => file[at..bytes.end].fill(0),
        });
        let mut left = torn.files[&name].clone();
        left.resize(4096, 0);
        let whole = left == snapshot.files[&name];
        let something_to_tell = crash != Crash::ControlLost || left[bytes.clone()].iter().any(|byte| *byte != 0);
        if whole {
            assert_goes_on(&torn, None, RECORDS + 1);
        } else {
            let cut = something_to_tell.then_some((name.as_str(), bytes.clone()));
            assert_goes_on(&torn, cut, RECORDS);
        }
    }
}

/// Asserts that the log opens, reports `cut`, holds the records before `next`, and appends from
/// there.
fn assert_goes_on(torn: &Snapshot, cut: Option<(&str, Range<usize>)>, next: u64) {
    let shard = torn.shard();
    let mut opened = shard.open();
    match (&opened.recovery.cut, cut) {
        (None, None) => {}
        (Some(found), Some((name, bytes))) => {
            assert_eq!(found.path, shard.path().join(name));
            assert_eq!(found.offset, bytes.start as u64);
            assert_eq!(found.position, Position::new(next));
            assert!(found.bytes <= bytes.len() as u64, "{} bytes of {bytes:?} were cut", found.bytes);
            if let Some(kept) = &found.kept {
                assert_eq!(std::fs::read(kept).unwrap().len() as u64, found.bytes);
            }
        }
        (found, expected) => panic!("cut {found:?}, and expected {expected:?}"),
    }
    assert_eq!(opened.recovery.records, next - 1);
    assert_samples(&opened.log.reader(), next - 1);
    extend(&mut opened, next);
    assert_samples(&opened.log.reader(), next);
    drop(opened);
    let OpenedLog { log, recovery, .. } = shard.open();
    assert_eq!(recovery.cut, None);
    assert_samples(&log.reader(), next);
}

#[test]
fn a_log_truncated_at_any_byte_of_its_last_record_opens_without_it() {
    check(Durability::Os, Crash::Unsynced, Tear::Truncated);
    check(Durability::Os, Crash::Closed, Tear::Truncated);
    check(Durability::Os, Crash::ControlLost, Tear::Truncated);
    check(Durability::Sync, Crash::Unsynced, Tear::Truncated);
    check(Durability::Sync, Crash::Closed, Tear::Truncated);
}

#[test]
fn a_log_with_any_byte_of_its_last_record_flipped_opens_without_it() {
    check(Durability::Os, Crash::Unsynced, Tear::Flipped);
    check(Durability::Os, Crash::Closed, Tear::Flipped);
    check(Durability::Os, Crash::ControlLost, Tear::Flipped);
    check(Durability::Sync, Crash::Unsynced, Tear::Flipped);
    check(Durability::Sync, Crash::Closed, Tear::Flipped);
}

#[test]
fn a_log_zeroed_from_any_byte_of_its_last_record_opens_without_it() {
    check(Durability::Os, Crash::Unsynced, Tear::Zeroed);
    check(Durability::Os, Crash::Closed, Tear::Zeroed);
    check(Durability::Os, Crash::ControlLost, Tear::Zeroed);
    check(Durability::Sync, Crash::Unsynced, Tear::Zeroed);
    check(Durability::Sync, Crash::Closed, Tear::Zeroed);
}

#[test]
fn the_synced_bytes_of_a_torn_record_are_kept() {
    let (shard, opened) = filled(Durability::Sync, 3);
    drop(opened);
    let snapshot = shard.snapshot();
    let (name, bytes) = snapshot.records().pop().unwrap();
    let torn = snapshot.with(&name, |file| file[bytes.start + 50] ^= 1).shard();
    let cut = torn.open().recovery.cut.expect("a record was cut");
    assert_eq!((cut.records, cut.synced), (Some(1), true));
    let kept = std::fs::read(cut.kept.expect("its bytes are kept")).unwrap();
    assert_eq!(kept.len(), cut.bytes as usize);
    assert_eq!(kept[..50], snapshot.files[&name][bytes.start..bytes.start + 50]);
}

#[test]
fn a_torn_record_discards_the_unsynced_records_after_it() {
    let (shard, mut opened) = filled(Durability::Os, 5);
    opened.log.sync().unwrap();
    extend(&mut opened, 40);
    let snapshot = shard.snapshot();
    assert!(snapshot.segments().len() > 3);
    let records = snapshot.records();
    for number in 6..=40 {
        let (name, bytes) = &records[number - 1];
        let torn = snapshot.with(name, |file| file[bytes.start + 45] ^= 1).shard();
        let opened = torn.open();
        let cut = opened.recovery.cut.as_ref().expect("records were cut");
        assert_eq!((cut.offset, cut.position), (bytes.start as u64, Position::new(number as u64)));
        assert_eq!((cut.records, cut.synced), (Some(41 - number as u64), false));
        drop(opened);
        let mut opened = torn.open();
        assert_eq!(opened.recovery.cut, None);
        assert_samples(&opened.log.reader(), number as u64 - 1);
        extend(&mut opened, 60);
        drop(opened);
        assert_samples(&torn.open().log.reader(), 60);
    }
}

#[test]
fn a_lost_segment_of_unsynced_records_is_reported() {
    let (shard, mut opened) = filled(Durability::Os, 5);
    opened.log.sync().unwrap();
    extend(&mut opened, 40);
    let snapshot = shard.snapshot();
    let segments = snapshot.segments();
    let last = segments.last().unwrap();
    let first: u64 = last[..20].parse().unwrap();
    let zeroed = |bytes: &mut Vec<u8>| bytes.fill(0);
    let torn_header = |bytes: &mut Vec<u8>| bytes[..64].fill(0);
    for lost in [snapshot.without(last), snapshot.with(last, zeroed), snapshot.with(last, torn_header)] {
        let torn = lost.shard();
        let mut opened = torn.open();
        let cut = opened.recovery.cut.clone().expect("a segment was lost");
        assert_eq!((cut.position, cut.records), (Position::new(first), Some(41 - first)));
        assert_samples(&opened.log.reader(), first - 1);
        extend(&mut opened, 50);
        drop(opened);
        let opened = torn.open();
        assert_eq!(opened.recovery.cut, None);
        assert_samples(&opened.log.reader(), 50);
    }
}

#[test]
fn a_dropped_draft_changes_nothing() {
    for durability in BOTH {
        let (shard, mut opened) = filled(durability, 3);
        for bytes in [0, 10, 1000, 3000, 3800, 9000] {
            let (_, mut draft) = opened.writer.begin().unwrap();
            Item::plain(&["dropped"], vec![0xAB; bytes]).push(&mut draft);
            Item::numbered("numbers", 5, vec![0xCD; 30]).push(&mut draft);
            drop(draft);
        }
        extend(&mut opened, 4);
        let crashed = shard.snapshot().shard();
        drop(opened);
        for shard in [crashed, shard] {
            let opened = shard.open();
            assert_eq!(opened.recovery.cut, None);
            assert_samples(&opened.log.reader(), 4);
        }
    }
}

/// The places of the entries with a tag.
fn walk(reader: &impl History, tag: &str) -> impl Iterator<Item = Place> {
    let mut from = Place::START;
    std::iter::from_fn(move || {
        let found = reader.next(&[Tag::new(tag.as_bytes())], from).unwrap()?.place;
        from = found.after();
        Some(found)
    })
}

#[test]
fn a_leaked_draft_changes_nothing() {
    for durability in BOTH {
        let (shard, mut opened) = filled(durability, 3);
        let (_, mut draft) = opened.writer.begin().unwrap();
        Item { kind: COVERED, ..Item::numbered("numbers", 9, vec![0xAB; 2000]) }.push(&mut draft);
        // A leak, or a panic in a model that aborts, leaves the draft like this.
        std::mem::forget(draft);
        extend(&mut opened, 4);
        let numbered = (0..4).map(|record| Place::new(Position::new(record + 1), 0));
        let reader = opened.writer.reader();
        assert!(numbered.eq(walk(&reader, "numbers")), "as its index says");
        let crashed = shard.snapshot().shard();
        drop(opened);
        for shard in [crashed, shard] {
            let opened = shard.open();
            assert_eq!(opened.recovery.cut, None);
            assert_samples(&opened.log.reader(), 4);
        }
    }
}

#[test]
fn records_in_the_body_of_a_dropped_draft_are_not_read() {
    let (source, opened) = filled(Durability::Os, 6);
    let source = source.snapshot();
    drop(opened);
    let (name, fourth) = source.records()[3].clone();
    let (_, sixth) = source.records()[5].clone();
    let (shard, mut opened) = filled(Durability::Os, 1);
    let (_, mut draft) = opened.writer.begin().unwrap();
    // The records are aligned to 8 bytes (the body begins at byte 52) and follow the next record.
    let body = [&vec![0; 604], &source.files[&name][fourth.start..sixth.end]].concat();
    Item::plain(&[], body).push(&mut draft);
    drop(draft);
    append(&mut opened.writer, &sample(2));
    let crashed = shard.snapshot().without("control").shard();
    let opened = crashed.open();
    assert_eq!(opened.recovery.cut, None);
    assert_samples(&opened.log.reader(), 2);
}

#[test]
fn a_sound_record_of_another_history_is_not_read() {
    let (shard, opened) = filled(Durability::Os, 3);
    drop(opened);
    let snapshot = shard.snapshot();
    let other = Shard::new(settings(Durability::Os));
    let mut opened = other.open();
    for number in [1, 4, 3] {
        append(&mut opened.writer, &sample(number));
    }
    drop(opened);
    let other = other.snapshot();
    let (name, bytes) = snapshot.records().pop().unwrap();
    assert_eq!(other.records().pop().unwrap(), (name.clone(), bytes.clone()));
    let mixed = snapshot.without("control").with(&name, |file| {
        file[bytes.clone()].copy_from_slice(&other.files[&name][bytes.clone()]);
    });
    assert_goes_on(&mixed, Some((name.as_str(), bytes)), 3);
}
