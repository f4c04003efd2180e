//! `backup` copies a running database as it was after one record. `restore` creates a database only
//! from a complete backup.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use std::time::Duration;

use quire::tools::{Backup, RepairPlan, RepairStep, backup, repair, restore, verify};
use quire::{Background, Database, Durability, Duty, ErrorKind, Position};

use crate::made::{Place, named, records, step};

fn take(place: &Place, name: &str, before: Option<&Path>) -> Backup {
    backup(&place.path(), &place.beside(name), before, &mut |_, _| ()).expect("taken")
}

/// Returns every record's bytes, in order.
fn log(path: &Path) -> Vec<Vec<u8>> {
    let files = crate::made::files_of(path);
    let segments = named(&files, ".log");
    let records =
        segments.iter().flat_map(|name| records(&files[name]).into_iter().map(|record| files[name][record].to_vec()));
    records.collect()
}

#[test]
fn a_database_that_was_restored_elsewhere_has_every_record_and_accepts_commits() {
    let place = Place::made(40);
    let taken = take(&place, "backup", None);
    let restored = place.beside("restored");
    let verification = restore(&place.beside("backup"), &restored, None, &mut |_, _| ()).expect("restored");
    assert_eq!((verification.worst(), verification.totals.last), (None, taken.position));
    assert!(log(&restored) == log(&place.path()));
    // A backup is independent: it may be moved, and the database may be deleted.
    fs::rename(place.beside("backup"), place.beside("moved")).expect("moved");
    fs::remove_dir_all(place.path()).expect("removed");
    let database = Database::builder(&restored).create(false).open().expect("it opens");
    assert_eq!(database.published(), taken.position);
    step(&database, 1000);
    drop(database);
    restore(&place.beside("moved"), &place.beside("again"), None, &mut |_, _| ()).expect("restored");
    assert!(log(&place.beside("again")).len() < log(&restored).len());
}

#[test]
fn each_backup_of_a_database_in_use_is_a_prefix_of_it() {
    let place = Place::new();
    let database = place.open();
    step(&database, 0);
    database.sync().expect("synced");
    let done = AtomicBool::new(false);
    let taken = std::thread::scope(|scope| {
        let backups = scope.spawn(|| {
            let mut taken: Vec<(String, Position)> = Vec::new();
            for number in 0..8 {
                let name = format!("backup-{number}");
                let before = taken.last().map(|(name, _)| place.beside(name));
                taken.push((name.clone(), take(&place, &name, before.as_deref()).position));
            }
            done.store(true, Ordering::Relaxed);
            taken
        });
        let mut number = 1;
        while !done.load(Ordering::Relaxed) {
            step(&database, number);
            number += 1;
            if number % 10 == 0 {
                database.sync().expect("synced");
            }
        }
        backups.join().expect("taken")
    });
    drop(database);
    let all = log(&place.path());
    for (name, position) in &taken {
        let restored = place.beside(&format!("{name}-restored"));
        let verification = restore(&place.beside(name), &restored, None, &mut |_, _| ()).expect("restored");
        assert_eq!(verification.worst(), None, "{verification:#?}");
        assert!(log(&restored) == all[..position.get() as usize], "{name} up to {position}");
    }
    assert!(taken.windows(2).all(|pair| pair[0].1 <= pair[1].1));
}

#[test]
fn a_second_backup_shares_unchanged_segments_with_the_first_only() {
    let place = Place::made(70);
    take(&place, "first", None);
    let database = place.open();
    step(&database, 1000);
    drop(database);
    let second = take(&place, "second", Some(&place.beside("first")));
    let inode = |path: std::path::PathBuf| fs::metadata(path).expect("there").ino();
    let shared = |file: &&quire::tools::BackupFile| {
        let within = Path::new("shard-0000").join(&file.name);
        let own = inode(place.path().join(&within));
        let copy = inode(place.beside("second").join(&within));
        assert_ne!(own, copy, "nothing is shared with the database");
        let first = place.beside("first").join(&within);
        first.exists() && inode(first) == copy
    };
    let segments: Vec<_> = second.files.iter().filter(|file| file.name.ends_with(".log")).collect();
    let (last, sealed) = segments.split_last().expect("segments");
    assert!(sealed.len() > 2 && sealed.iter().all(shared) && !shared(last), "{segments:#?}");
    // The first backup can be deleted.
    fs::remove_dir_all(place.beside("first")).expect("removed");
    restore(&place.beside("second"), &place.beside("restored"), None, &mut |_, _| ()).expect("restored");
    assert!(log(&place.beside("restored")) == log(&place.path()));
}

#[test]
fn a_backup_whose_manifest_has_another_end_is_not_restored() {
    let place = Place::made(20);
    let taken = take(&place, "backup", None);
    let path = place.beside("backup").join("quire.backup");
    let mut list = fs::read(&path).expect("there");
    list[36..44].copy_from_slice(&(taken.position.get() + 1).to_le_bytes());
    let crc = crc32c::crc32c(&list[16..]);
    list[12..16].copy_from_slice(&crc.to_le_bytes());
    fs::write(&path, list).expect("written");
    let into = place.beside("restored");
    let error = restore(&place.beside("backup"), &into, None, &mut |_, _| ()).expect_err("it ends elsewhere");
    assert_eq!(error.kind(), ErrorKind::Damaged, "{error}");
    let error = Database::open(&into).expect_err("it is half of something");
    assert_eq!(error.kind(), ErrorKind::NotADatabase, "{error}");
}

#[test]
fn no_file_of_a_backup_can_be_missing_cut_or_changed_unnoticed() {
    let place = Place::made(20);
    let taken = take(&place, "backup", None);
    let folder = place.beside("backup");
    let into = place.beside("restored");
    let mut paths: Vec<_> = taken.files.iter().map(|file| folder.join("shard-0000").join(&file.name)).collect();
    paths.push(folder.join("quire.backup"));
    for path in paths {
        let whole = fs::read(&path).expect("there");
        let check = |bytes: Option<&[u8]>| {
            match bytes {
                Some(bytes) => fs::write(&path, bytes).expect("written"),
                None => fs::remove_file(&path).expect("removed"),
            }
            restore(&folder, &into, None, &mut |_, _| ()).expect_err("it is not whole");
            assert!(!into.join("quire.meta").exists(), "half a database is none");
            let _ = fs::remove_dir_all(&into);
        };
        for at in (0..whole.len()).step_by((whole.len() / 20).max(1)) {
            let mut flipped = whole.clone();
            flipped[at] ^= 4;
            check(Some(&flipped));
        }
        check(Some(&whole[..whole.len() - 1]));
        check(Some(&[]));
        check(None);
        fs::write(&path, &whole).expect("written");
    }
    restore(&folder, &into, None, &mut |_, _| ()).expect("whole again");
}

#[test]
fn a_backup_that_was_not_finished_and_one_of_another_database_are_refused() {
    let place = Place::made(10);
    take(&place, "backup", None);
    fs::rename(place.beside("backup/quire.backup"), place.beside("backup/quire.backup.new")).expect("renamed");
    let error = restore(&place.beside("backup"), &place.beside("restored"), None, &mut |_, _| ()).expect_err("half");
    assert_eq!(error.kind(), ErrorKind::NotADatabase);
    assert!(Database::builder(place.beside("backup")).create(false).open().is_err(), "it is not opened by mistake");
    let other = Place::made(10);
    take(&other, "backup", None);
    let error = backup(&place.path(), &place.beside("next"), Some(&other.beside("backup")), &mut |_, _| ());
    assert_eq!(error.expect_err("of another database").kind(), ErrorKind::Invalid);
    let error = backup(&place.path(), &place.beside("backup"), None, &mut |_, _| ());
    assert_eq!(error.expect_err("not empty").kind(), ErrorKind::Invalid);
}

/// Checks that no command accepts the directory as a database. Each must report `said`, and change
/// nothing.
#[track_caller]
pub(crate) fn assert_no_database(place: &Place, name: &str, said: &str) {
    let folder = place.beside(name);
    let before = crate::made::files_of(&folder);
    let plan = RepairPlan { steps: vec![RepairStep::WriteMeta, RepairStep::Reopen], stays: Vec::new() };
    let none = |result: quire::Result<()>| {
        let error = result.expect_err("it is no database");
        assert_eq!(error.kind(), ErrorKind::NotADatabase, "{error}");
        assert!(error.to_string().contains(said), "{error}");
    };
    none(verify(&folder, None, &mut |_, _| ()).map(drop));
    none(repair(&folder, &plan));
    none(backup(&folder, &place.beside("of-a-backup"), None, &mut |_, _| ()).map(drop));
    none(Database::builder(&folder).create(false).open().map(drop));
    none(Database::open(&folder).map(drop));
    assert!(before == crate::made::files_of(&folder));
}

#[test]
fn a_backup_is_never_taken_for_a_damaged_database() {
    let place = Place::made(20);
    take(&place, "backup", None);
    assert_no_database(&place, "backup", "`quire restore` makes a database of it");
    fs::write(place.beside("backup/quire.backup"), "no manifest").expect("written");
    assert_no_database(&place, "backup", "`quire restore` makes a database of it");
}

#[test]
fn a_backup_that_was_killed_at_any_file_is_refused() {
    let place = Place::made(70);
    for at in 0.. {
        let name = format!("half-{at}");
        let mut calls = 0;
        let killed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let mut kill = |_, _| {
                assert!(calls < at, "killed");
                calls += 1;
            };
            backup(&place.path(), &place.beside(&name), None, &mut kill)
        }));
        if killed.is_ok() {
            assert!(at > 3, "it went through several files");
            restore(&place.beside(&name), &place.beside("restored"), None, &mut |_, _| ()).expect("whole");
            break;
        }
        assert_no_database(&place, &name, "unfinished");
        let error = restore(&place.beside(&name), &place.beside("restored"), None, &mut |_, _| ()).expect_err("half");
        assert_eq!(error.kind(), ErrorKind::NotADatabase);
        assert!(!place.beside("restored").exists());
    }
}

#[test]
fn a_backup_is_whole_only_once_its_mark_of_an_unfinished_one_is_removed() {
    let place = Place::made(20);
    take(&place, "backup", None);
    fs::write(place.beside("backup/quire.unfinished"), "").expect("written");
    assert_no_database(&place, "backup", "unfinished");
    let error = restore(&place.beside("backup"), &place.beside("restored"), None, &mut |_, _| ()).expect_err("half");
    assert!(error.to_string().contains("unfinished"), "{error}");
    let error = backup(&place.path(), &place.beside("next"), Some(&place.beside("backup")), &mut |_, _| ());
    assert!(error.expect_err("half").to_string().contains("unfinished"));
}

#[test]
fn an_unfinished_restore_is_not_a_database() {
    let place = Place::made(40);
    let taken = take(&place, "backup", None);
    let last = taken.files.iter().rfind(|file| file.name.ends_with(".log")).expect("a segment");
    let path = place.beside("backup/shard-0000").join(&last.name);
    let mut bytes = fs::read(&path).expect("read");
    bytes[100] ^= 1;
    fs::write(&path, bytes).expect("written");
    restore(&place.beside("backup"), &place.beside("restored"), None, &mut |_, _| ()).expect_err("damaged");
    assert!(!log(&place.beside("restored")).is_empty(), "some of it was there");
    assert_no_database(&place, "restored", "unfinished");
}

#[test]
fn a_restore_after_one_that_was_killed_at_its_start_succeeds() {
    let place = Place::made(40);
    take(&place, "backup", None);
    let restored = place.beside("restored");
    // A directory whose purpose is not yet recorded.
    fs::create_dir_all(restored.join("shard-0000")).expect("made");
    restore(&place.beside("backup"), &restored, None, &mut |_, _| ()).expect("restored");
    assert!(log(&restored) == log(&place.path()));
    // `restore` writes nothing into a directory with files.
    fs::create_dir_all(place.beside("other/shard-0000/more")).expect("made");
    let refused = restore(&place.beside("backup"), &place.beside("other"), None, &mut |_, _| ());
    assert_eq!(refused.expect_err("it is not empty").kind(), ErrorKind::Invalid);
}

#[test]
fn a_restored_database_shares_no_file_with_its_backups() {
    let place = Place::made(40);
    take(&place, "first", None);
    // No record was appended since, so the backups also share the last segment.
    let second = take(&place, "second", Some(&place.beside("first")));
    let file = |folder: &str, name: &str| place.beside(folder).join("shard-0000").join(name);
    let inode = |path: std::path::PathBuf| fs::metadata(path).expect("there").ino();
    assert!(second.files.iter().all(|of| inode(file("first", &of.name)) == inode(file("second", &of.name))));
    let restored = place.beside("restored");
    restore(&place.beside("second"), &restored, None, &mut |_, _| ()).expect("restored");
    for of in &second.files {
        assert_ne!(inode(file("restored", &of.name)), inode(file("second", &of.name)), "{}", of.name);
    }
    step(&Database::open(&restored).expect("it opens"), 1000);
    for name in ["first", "second"] {
        let again = place.beside(&format!("{name}-again"));
        restore(&place.beside(name), &again, None, &mut |_, _| ()).expect("not changed");
    }
}

#[test]
fn damage_is_not_backed_up() {
    let place = Place::made(20);
    let name = named(&place.files(), ".log").remove(0);
    let path = place.path().join(&name);
    let mut bytes = fs::read(&path).expect("read");
    bytes[64 + 45] ^= 1;
    fs::write(&path, bytes).expect("written");
    let error = backup(&place.path(), &place.beside("backup"), None, &mut |_, _| ()).expect_err("damaged");
    assert_eq!(error.kind(), ErrorKind::Damaged);
    assert!(error.to_string().contains("record 1") && !place.beside("backup/quire.backup").exists(), "{error}");
    assert!(verify(&place.path(), None, &mut |_, _| ()).expect("verified").worst().is_some());
}

#[test]
fn records_that_a_compaction_drops_during_a_backup_are_in_the_backup() {
    let place = Place::new();
    let builder = Database::builder(place.path())
        .durability(Durability::Os)
        .segment_bytes(16 << 10)
        .history(Duration::from_millis(0));
    let database = builder.background(Background::Caller).open().expect("it opens");
    for number in 0..120 {
        step(&database, number);
        for job in database.queue("queue").fetch("worker", 1).expect("accepted") {
            database.queue("queue").ack(job.job, job.token, b"").expect("accepted");
        }
    }
    database.sync().expect("synced");
    while database.carry_out(Duty::Seal).expect("sealed") {}
    let before = log(&place.path());
    let mut compacted = 0;
    // Each compaction saves a checkpoint and removes older ones.
    let mut compact = |_, _| compacted += database.compact().expect("compacted").segments;
    let taken = backup(&place.path(), &place.beside("backup"), None, &mut compact).expect("taken");
    assert!(compacted > 1, "{compacted} segments");
    let files = place.files();
    assert!(named(&files, ".log").iter().any(|name| files[name].starts_with(b"QUIRECMP")), "some were rewritten");
    let restored = place.beside("restored");
    let verification = restore(&place.beside("backup"), &restored, None, &mut |_, _| ()).expect("restored");
    assert_eq!((verification.worst(), verification.totals.last), (None, taken.position));
    assert!(log(&restored) == before);
}

#[test]
fn a_backup_of_a_compacted_database_has_the_remaining_records() {
    Place::compacted_and_packed().iter().for_each(assert_backed_up);
}

fn assert_backed_up(place: &Place) {
    let taken = take(place, "backup", None);
    // The next backup has the same files.
    assert_eq!(take(place, "again", Some(&place.beside("backup"))).files, taken.files);
    let restored = place.beside("restored");
    let verification = restore(&place.beside("backup"), &restored, None, &mut |_, _| ()).expect("restored");
    assert_eq!((verification.worst(), verification.totals.last), (None, taken.position));
    let stats = |path: &Path| {
        let database = Database::builder(path).create(false).open().expect("it opens");
        (database.queue("queue").stats().expect("readable"), database.events("store").head().expect("readable"))
    };
    assert_eq!(stats(&restored), stats(&place.path()));
}

#[test]
fn a_backup_leaves_out_unsynced_records_and_counts_them() {
    let place = Place::new();
    let builder = Database::builder(place.path())
        .durability(quire::Durability::Os)
        .sync_interval(Duration::from_millis(3_600_000));
    let database = builder.open().expect("it opens");
    step(&database, 0);
    database.sync().expect("synced");
    let synced = database.published();
    step(&database, 2);
    step(&database, 4);
    let taken = take(&place, "backup", None);
    assert_eq!((taken.position, taken.left_out), (synced, 2));
    assert_eq!(Backup::read(&place.beside("backup")).expect("read"), taken);
    database.sync().expect("synced");
    assert_eq!(take(&place, "all", None).left_out, 0);
}

#[test]
fn a_backup_into_the_directory_of_the_database_is_refused() {
    let place = Place::made(5);
    let before = place.files();
    std::os::unix::fs::symlink(place.path(), place.beside("link")).expect("linked");
    for to in ["data", "data/backup", "data/new/backup", "data/shard-0000/backup", "link/backup"] {
        let error = backup(&place.path(), &place.beside(to), None, &mut |_, _| ()).expect_err(to);
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.to_string().contains("lies in the folder of the database"), "{error}");
    }
    assert!(before == place.files() && !place.path().join("new").exists());
    take(&place, "data-beside", None);
    // No database is created in a backup.
    for to in ["data-beside", "data-beside/new", "data-beside/shard-0000"] {
        let error = restore(&place.beside("data-beside"), &place.beside(to), None, &mut |_, _| ()).expect_err(to);
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.to_string().contains("lies in the folder of the backup"), "{error}");
    }
}
