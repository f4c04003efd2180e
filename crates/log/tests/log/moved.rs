//! A directory that is moved, removed or copied with holes: no process writes into its replacement,
//! and no store ends the process.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use quire_log::{Background, Components, Durability, Error, Log, Settings};
use quire_model::Position;

use crate::shard::{
    BOTH, IDENTITY, Shard, append, assert_samples, extend, filled, sample, segment_name, settings, try_append,
};
use crate::storage::DyingDisk;

#[test]
fn an_opening_of_a_moved_directory_writes_nothing_into_its_replacement() {
    for (durability, is_removed) in BOTH.into_iter().flat_map(|durability| [(durability, false), (durability, true)]) {
        let shard = Shard::new(settings(durability));
        // No background threads, which would conflict with the removal.
        let components = Components { background: Background::Caller, ..Components::default() };
        let mut first = Log::open_with(shard.path(), IDENTITY, settings(durability), components).unwrap();
        extend(&mut first, 3);
        let moved = shard.path().with_extension("moved");
        if is_removed { fs::remove_dir_all(shard.path()) } else { fs::rename(shard.path(), &moved) }.unwrap();
        fs::create_dir(shard.path()).unwrap();
        // The same database, as after a restore of a backup. Only the directory distinguishes the
        // files.
        let mut second = shard.open();
        let mut taken = 3;
        let refused = loop {
            match try_append(&mut first.writer, &sample(taken + 1)) {
                Ok(position) => taken = position.get(),
                Err(error) => break error,
            }
            assert!(taken < 100, "a segment takes all of it");
        };
        assert!(matches!(refused, Error::Io { .. }), "{refused}");
        assert!(matches!(first.log.check(), Err(Error::Io { .. })));
        second.log.check().unwrap();
        extend(&mut second, 60);
        drop(first);
        extend(&mut second, 90);
        drop(second);
        assert_samples(&shard.open().log.reader(), 90);
        if !is_removed {
            fs::remove_dir_all(shard.path()).unwrap();
            fs::rename(&moved, shard.path()).unwrap();
            assert_samples(&shard.open().log.reader(), taken);
        }
    }
}

#[test]
fn the_holes_of_a_copy_are_filled_before_anything_is_stored_in_them() {
    let shard = Shard::new(Settings { segment_bytes: 1 << 16, ..settings(Durability::Os) });
    let mut opened = shard.open();
    extend(&mut opened, 3);
    drop(opened);
    let path = shard.path().join(segment_name(1));
    let bytes = fs::read(&path).unwrap();
    let used = bytes.iter().rposition(|byte| *byte != 0).unwrap() + 1;
    fs::remove_file(&path).unwrap();
    fs::write(&path, &bytes[..used]).unwrap();
    fs::File::options().write(true).open(&path).unwrap().set_len(bytes.len() as u64).unwrap();
    let has_holes = || fs::metadata(&path).unwrap().blocks() * 512 < bytes.len() as u64;
    assert!(has_holes());
    let opened = shard.open();
    assert!(!has_holes());
    assert_samples(&opened.log.reader(), 3);
}

#[test]
fn a_copy_with_holes_on_a_full_disk_is_readable_and_accepts_records_when_there_is_space() {
    for durability in BOTH {
        let (shard, opened) = filled(durability, 3);
        drop(opened);
        let disk = DyingDisk::after(Arc::new(AtomicI64::new(i64::MAX)));
        let is_full = Arc::clone(&disk.full);
        is_full.store(true, Ordering::SeqCst);
        let components = Components { storage: Arc::new(disk), ..Components::default() };
        let mut opened = Log::open_with(shard.path(), IDENTITY, settings(durability), components).unwrap();
        for _ in 0..3 {
            let refused = try_append(&mut opened.writer, &sample(4));
            assert!(matches!(refused, Err(Error::NoSpace { .. })), "{refused:?}");
        }
        assert_samples(&opened.log.reader(), 3);
        is_full.store(false, Ordering::SeqCst);
        assert_eq!(append(&mut opened.writer, &sample(4)), Position::new(4));
        opened.log.reach(Position::new(4)).unwrap();
        drop(opened);
        assert!(shard.path().join(segment_name(4)).exists(), "nothing was stored in the one with holes");
        assert_samples(&shard.open().log.reader(), 4);
    }
}
