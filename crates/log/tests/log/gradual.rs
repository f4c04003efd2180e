//! Background writes reach the disk in small pieces: the sync of a commit waits for all earlier
//! writes.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use quire_log::{Background, Components, Durability, Error, Log, LogDuty, OpenedLog, Settings};

use crate::shard::{IDENTITY, Item, Shard, contents, settings, try_append};
use crate::storage::DyingDisk;

const SEGMENT_BYTES: u64 = 2 << 20;
const CHECKPOINT_BYTES: usize = 1 << 20;

/// The limit of bytes not yet written to the disk: two pieces, one of which is being written.
const BEHIND_MAX: u64 = 512 << 10;

fn open(shard: &Shard, disk: DyingDisk) -> OpenedLog {
    let components = Components { storage: Arc::new(disk), clock: shard.clock.clone(), background: Background::Caller };
    Log::open_with(shard.path(), IDENTITY, shard.settings.clone(), components).unwrap()
}

fn shard() -> Shard {
    Shard::new(Settings { segment_bytes: SEGMENT_BYTES, record_bytes_max: 60_000, ..settings(Durability::Sync) })
}

/// Appends records, each synced, until the log begins another segment.
fn fill_a_segment(shard: &Shard, opened: &mut OpenedLog) -> Result<(), Error> {
    let segments = segments(shard);
    while self::segments(shard) == segments {
        let appended = try_append(&mut opened.writer, &[Item::plain(&["all"], vec![7; 50_000])])?;
        opened.log.reach(appended)?;
    }
    Ok(())
}

/// Whether the directory has unneeded files, other than the spare of the open log.
fn is_littered(shard: &Shard) -> bool {
    shard.names().iter().any(|name| name.ends_with(".new") || name.starts_with("spare"))
}

fn segments(shard: &Shard) -> usize {
    let names = fs::read_dir(shard.path()).unwrap().map(|entry| entry.unwrap().file_name());
    names.filter(|name| name.to_string_lossy().ends_with(".log")).count()
}

#[test]
fn a_spare_and_a_checkpoint_are_written_in_small_pieces() {
    let shard = shard();
    let disk = DyingDisk::after(Arc::new(AtomicI64::new(i64::MAX)));
    let most_behind = Arc::clone(&disk.most_behind);
    let mut opened = open(&shard, disk);
    // No commits wait yet when the first spare is made.
    assert_eq!(most_behind.swap(0, Ordering::SeqCst), SEGMENT_BYTES);
    fill_a_segment(&shard, &mut opened).unwrap();
    let spare = most_behind.swap(0, Ordering::SeqCst);
    assert!((1..=BEHIND_MAX).contains(&spare), "{spare} bytes of a spare");
    opened.log.save_checkpoint(opened.writer.basis(), &vec![7; CHECKPOINT_BYTES]).unwrap();
    let checkpoint = most_behind.swap(0, Ordering::SeqCst);
    assert!((1..=BEHIND_MAX).contains(&checkpoint), "{checkpoint} bytes of a checkpoint");
}

#[test]
fn a_file_that_cannot_be_written_out_is_not_used() {
    let shard = shard();
    let disk = DyingDisk::after(Arc::new(AtomicI64::new(i64::MAX)));
    let stuck = Arc::clone(&disk.stuck);
    let mut opened = open(&shard, disk);
    stuck.store(true, Ordering::SeqCst);
    assert!(matches!(fill_a_segment(&shard, &mut opened), Err(Error::Io { .. })), "there is no next segment");
    let basis = opened.writer.basis();
    assert!(opened.log.save_checkpoint(basis, &vec![7; CHECKPOINT_BYTES]).is_err());
    assert!(opened.log.lacks_segment());
    assert!(!is_littered(&shard), "nothing is left");
    // The failure was not in the active segment, so the log continues when the disk does.
    stuck.store(false, Ordering::SeqCst);
    fill_a_segment(&shard, &mut opened).unwrap();
    assert!(!opened.log.lacks_segment());
    opened.log.save_checkpoint(basis, &vec![7; CHECKPOINT_BYTES]).unwrap();
    let before = contents(&opened.log.reader());
    drop(opened);
    let again = shard.open();
    assert_eq!(contents(&again.log.reader()), before);
    assert_eq!(again.checkpoint.map(|checkpoint| checkpoint.mark), Some(basis.mark));
}

#[test]
fn a_crash_between_any_two_pieces_loses_no_durable_record() {
    for step in 0.. {
        let shard = shard();
        let left = Arc::new(AtomicI64::new(i64::MAX));
        let mut opened = open(&shard, DyingDisk::after(Arc::clone(&left)));
        fill_a_segment(&shard, &mut opened).unwrap();
        let kept = contents(&opened.log.reader());
        let basis = opened.writer.basis();
        left.store(step, Ordering::SeqCst);
        // The next spare, and a checkpoint.
        let made = opened.log.carry_out(LogDuty::Prepare);
        let saved = opened.log.save_checkpoint(basis, &vec![7; CHECKPOINT_BYTES]);
        // The disk fails when the process dies, so no file is removed.
        let is_done = left.load(Ordering::SeqCst) > 0;
        drop(opened);
        let again = shard.open();
        assert_eq!(contents(&again.log.reader()), kept, "step {step}");
        // An unacknowledged checkpoint may also be present.
        assert!(
            again.checkpoint.as_ref().is_some_and(|there| there.mark == basis.mark) || saved.is_err(),
            "step {step}"
        );
        drop(again);
        assert!(!is_littered(&shard), "step {step}");
        if is_done {
            assert!(made.unwrap(), "it was called for");
            assert!(
                step > 2 * (SEGMENT_BYTES + CHECKPOINT_BYTES as u64) as i64 / (256 << 10),
                "more steps than pieces"
            );
            break;
        }
    }
}
