//! The states after a crash at each step of creating a log, of beginning a segment, and of writing
//! a whole file.

use quire_log::Durability;
use quire_model::Position;

use crate::shard::{BOTH, Shard, Snapshot, assert_samples, extend, filled, segment_name, settings};

/// Checks that the log opens with `records` records and without a report, and continues over a few
/// segments.
fn assert_opens(snapshot: &Snapshot, records: u64) {
    let shard = snapshot.shard();
    let mut opened = shard.open();
    assert_eq!(opened.recovery.cut, None);
    assert_eq!(opened.recovery.records, records);
    assert_samples(&opened.log.reader(), records);
    extend(&mut opened, records + 40);
    drop(opened);
    let opened = shard.open();
    assert_eq!(opened.recovery.cut, None);
    assert_samples(&opened.log.reader(), records + 40);
}

#[test]
fn an_interrupted_creation_is_repeated() {
    for durability in BOTH {
        let empty = Shard::new(settings(durability)).snapshot();
        let zeros = vec![0; 4096];
        let (shard, opened) = filled(durability, 0);
        let created = shard.snapshot();
        drop(opened);
        let header = created.files[&segment_name(1)].clone();
        assert_opens(&empty, 0);
        assert_opens(&empty.with_file("control", &[]), 0);
        assert_opens(&empty.with_file("control", &zeros), 0);
        let controlled = empty.with_file("control", &created.files["control"]);
        assert_opens(&controlled, 0);
        assert_opens(&controlled.with_file("spare", &[]), 0);
        assert_opens(&controlled.with_file("spare", &zeros[..1000]), 0);
        assert_opens(&controlled.with_file("spare", &zeros), 0);
        assert_opens(&controlled.with_file("spare", &header), 0);
        // The name became durable, but the bytes did not, or only a part of them.
        assert_opens(&controlled.with_file(&segment_name(1), &zeros), 0);
        assert_opens(&controlled.with_file(&segment_name(1), &zeros[..100]), 0);
        assert_opens(&controlled.with_file(&segment_name(1), &[]), 0);
        assert_opens(&controlled.with_file(&segment_name(1), &[&header[..20], &zeros[20..]].concat()), 0);
        assert_opens(&empty.with_file(&segment_name(1), &zeros), 0);
        assert_opens(&created, 0);
    }
}

#[test]
fn a_segment_that_was_never_begun_is_not_part_of_the_log() {
    for durability in BOTH {
        let (shard, opened) = filled(durability, 30);
        let crashed = shard.snapshot();
        drop(opened);
        let zeros = vec![0; 4096];
        let mut header = crashed.files[&crashed.segments()[1]][..64].to_vec();
        header.resize(4096, 0);
        for snapshot in [crashed, shard.snapshot()] {
            assert_opens(&snapshot.with_file("spare", &zeros), 30);
            assert_opens(&snapshot.with_file("spare", &header), 30);
            let next = segment_name(31);
            assert_opens(&snapshot.with_file(&next, &zeros), 30);
            assert_opens(&snapshot.with_file(&next, &[]), 30);
            assert_opens(&snapshot.with_file(&next, &zeros).without("control"), 30);
            assert_opens(&snapshot.with_file(&next, &[&header[..20], &zeros[20..]].concat()), 30);
        }
    }
}

#[test]
fn a_begun_and_empty_segment_gets_the_next_record() {
    for durability in BOTH {
        let (shard, mut opened) = filled(durability, 1);
        let mut before = shard.snapshot();
        // Without its first record, the segment is begun and empty.
        let (crashed, records) = loop {
            let records = opened.writer.mark().position.get() + 1;
            extend(&mut opened, records);
            let after = shard.snapshot();
            if after.segments().len() > before.segments().len() {
                before.files.insert(segment_name(records), after.files[&segment_name(records)].clone());
                break (before.with(&segment_name(records), |file| file[64..].fill(0)), records - 1);
            }
            before = after;
        };
        assert_opens(&crashed, records);
        assert_opens(&crashed.without("control"), records);
    }
}

#[test]
fn unfinished_files_are_removed() {
    let (shard, mut opened) = filled(Durability::Os, 5);
    opened.log.save_checkpoint(opened.writer.basis(), b"state").unwrap();
    extend(&mut opened, 8);
    let snapshot = shard.snapshot();
    let left = snapshot.with_file("00000000000000000008.checkpoint.new", b"half a che");
    let left = left.with_file("00000000000000000003.cut.new", b"half").shard();
    let opened = left.open();
    assert_eq!(opened.checkpoint.map(|checkpoint| checkpoint.mark.position), Some(Position::new(5)));
    assert!(left.names().iter().all(|name| !name.ends_with(".new")), "{:?}", left.names());
}

#[test]
fn a_closed_log_leaves_no_spare_segment() {
    let (shard, opened) = filled(Durability::Os, 30);
    drop(opened);
    assert!(!shard.snapshot().files.contains_key("spare"));
}
