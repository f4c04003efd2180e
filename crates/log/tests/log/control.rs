//! The control file: its loss loses no record, and its lock excludes other processes.

use std::fs;

use quire_log::{Durability, Error};

use crate::shard::{BOTH, Snapshot, assert_samples, extend, filled};

/// Checks that no record is missing, and that the log accepts records and reopens.
fn assert_whole(snapshot: &Snapshot, records: u64) {
    let shard = snapshot.shard();
    let mut opened = shard.open();
    assert_eq!(opened.recovery.cut, None);
    assert_samples(&opened.log.reader(), records);
    extend(&mut opened, records + 3);
    drop(opened);
    let opened = shard.open();
    assert_eq!(opened.recovery.cut, None);
    assert_samples(&opened.log.reader(), records + 3);
}

fn both_ways(durability: Durability) -> [Snapshot; 2] {
    let (shard, opened) = filled(durability, 30);
    let crashed = shard.snapshot();
    drop(opened);
    [crashed, shard.snapshot()]
}

#[test]
fn a_lost_or_shortened_control_file_is_rebuilt() {
    for durability in BOTH {
        for snapshot in both_ways(durability) {
            assert_whole(&snapshot.without("control"), 30);
            for length in [0, 1, 8, 70, 130, 4095] {
                assert_whole(&snapshot.with("control", |file| file.truncate(length)), 30);
            }
            assert_whole(&snapshot.with("control", |file| file.resize(9000, 0xEE)), 30);
        }
    }
}

#[test]
fn a_flipped_bit_in_any_word_of_the_control_file_changes_nothing() {
    for snapshot in both_ways(Durability::Os) {
        for word in 0..32 {
            for bit in [0, 1, 13, 40, 50, 63] {
                assert_whole(&snapshot.with("control", |file| file[word * 8 + bit / 8] ^= 1 << (bit % 8)), 30);
            }
        }
        assert_whole(&snapshot.with("control", |file| file.fill(0xFF)), 30);
    }
}

#[test]
fn the_control_file_of_another_log_is_not_trusted() {
    let (_other, opened) = filled(Durability::Os, 50);
    opened.log.sync().unwrap();
    let [crashed, _] = both_ways(Durability::Os);
    let mut foreign = _other.snapshot().files["control"].clone();
    foreign[16] ^= 1;
    assert_whole(&crashed.with_file("control", &foreign), 30);
}

#[test]
fn a_directory_stays_locked_when_its_control_file_is_removed() {
    let (shard, _opened) = filled(Durability::Sync, 3);
    fs::remove_file(shard.path().join("control")).unwrap();
    assert!(matches!(shard.try_open(), Err(Error::InUse { process: None, .. })));
    assert!(!shard.path().join("control").exists());
}

#[test]
fn a_missing_directory_is_an_error_and_is_not_created() {
    let (shard, opened) = filled(Durability::Os, 1);
    drop(opened);
    let path = shard.path().join("none");
    let clock = shard.clock.clone();
    let opened = quire_log::Log::open(&path, crate::shard::IDENTITY, shard.settings.clone(), clock);
    assert!(matches!(opened, Err(Error::Io { .. })));
    assert!(!fs::exists(&path).unwrap());
}
