//! Compaction: surviving entries keep their places, numbers continue, disk space is freed, and no
//! crash loses data.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use quire_log::{
    Background, Compaction, CompactionPlan, Components, Durability, Error, Log, LogDuty, OpenedLog, SegmentRun,
    Settings, Storage, Survival,
};
use quire_model::{Entry, History, Place, Position, Sequence, Tag};

use crate::shard::{BOTH, IDENTITY, Read, Shard, Snapshot, append, contents, extend, filled, sample, settings};
use crate::storage::DyingDisk;

/// Saves a checkpoint, so that all records so far may be compacted.
pub(crate) fn checkpoint(opened: &OpenedLog) {
    opened.log.save_checkpoint(opened.writer.basis(), b"state").unwrap();
}

/// Drops the entries for which `survives` is false, in one run of all sealed segments that may be
/// compacted.
pub(crate) fn compact(opened: &OpenedLog, survives: impl Fn(&Entry<'_>) -> bool) -> Result<Compaction, Error> {
    opened.log.sync()?;
    while opened.log.carry_out(LogDuty::Seal)? {}
    let mut answer = |entries: &[Entry<'_>], answers: &mut Vec<Survival>| {
        answers.extend(entries.iter().map(|entry| survives(entry).into()));
    };
    let mut compactor = opened.log.begin_compaction(|| Ok::<_, Error>(()))?.expect("no other compactor runs");
    let shares = compactor.shares(u32::MAX, &mut answer)?;
    let (Some(first), Some(last)) = (shares.first(), shares.last()) else { return Ok(Compaction::default()) };
    compactor.compact(SegmentRun { first: first.first, end: last.end }, &mut answer)
}

pub(crate) fn is_even(entry: &Entry<'_>) -> bool {
    entry.place.position.get().is_multiple_of(2)
}

/// 60 sample records and a checkpoint after them, not compacted.
fn ready(durability: Durability) -> (Shard, OpenedLog) {
    ready_with(settings(durability))
}

fn ready_with(settings: Settings) -> (Shard, OpenedLog) {
    let shard = Shard::new(settings);
    let mut opened = shard.open();
    extend(&mut opened, 60);
    checkpoint(&opened);
    (shard, opened)
}

/// Settings with packing and without.
fn packed_and_not(durability: Durability) -> [Settings; 2] {
    [false, true].map(|pack_segments| Settings { pack_segments, ..settings(durability) })
}

/// Asserts that a log lost exactly the entries of odd positions before `end`, and takes appends.
fn assert_halved(opened: &mut OpenedLog, whole: &[Read], end: Position) {
    let expected: Vec<&Read> =
        whole.iter().filter(|read| read.place.position >= end || read.place.position.get().is_multiple_of(2)).collect();
    let reader = opened.log.reader();
    assert_eq!(contents(&reader).iter().collect::<Vec<_>>(), expected);
    for read in whole {
        let found = reader.entry(read.place).unwrap().map(Read::from);
        assert_eq!(found.as_ref(), expected.contains(&read).then_some(read));
    }
    for number in 0..=120_u64 {
        let expected = expected.iter().find(|read| read.sequence.is_some_and(|first| first.get() + 1 >= number));
        let found = reader.seek(Tag::new(b"numbers"), Sequence::new(number)).unwrap().map(Read::from);
        assert_eq!(found.as_ref(), expected.copied(), "number {number}");
    }
    let next = whole.len() as u64 / 3 + 1;
    assert_eq!(append(&mut opened.writer, &sample(next)), Position::new(next));
    opened.log.reach(Position::new(next)).unwrap();
    let found = opened.log.reader().entry(Place::new(Position::new(next), 0)).unwrap().map(Read::from).unwrap();
    assert_eq!(found.sequence, Some(Sequence::new(2 * next - 1)), "numbers go on");
}

#[test]
fn surviving_entries_keep_their_places_and_numbers_continue() {
    for settings in BOTH.into_iter().flat_map(packed_and_not) {
        let (shard, mut opened) = ready_with(settings);
        let whole = contents(&opened.log.reader());
        let done = compact(&opened, is_even).unwrap();
        assert!(
            done.segments > 4 && done.entries_dropped > 60 && 3 * done.bytes_after < 2 * done.bytes_before,
            "{done:?}"
        );
        let end = opened.log.compacted_end();
        assert!(end > Position::new(40));
        assert_halved(&mut opened, &whole, end);
        drop(opened);
        let whole = [whole, sample_reads(61)].concat();
        assert_eq!(shard.open().log.compacted_end(), end);
        assert_halved(&mut shard.open(), &whole, end);
        // Without any index.
        let bare = shard.snapshot().without_indexes().shard();
        assert_halved(&mut bare.open(), &[whole, sample_reads(62)].concat(), end);
    }
}

#[test]
fn the_surviving_entry_of_each_record_is_read() {
    for (left, settings) in (0..3).flat_map(|left| packed_and_not(Durability::Os).map(|settings| (left, settings))) {
        let (shard, opened) = ready_with(settings);
        let whole = contents(&opened.log.reader());
        compact(&opened, |entry| entry.place.index == left).unwrap();
        let end = opened.log.compacted_end();
        assert!(end > Position::new(40));
        let stays = |read: &&Read| read.place.position >= end || read.place.index == left;
        let expected: Vec<&Read> = whole.iter().filter(stays).collect();
        let assert_left = |opened: &OpenedLog| {
            let reader = opened.log.reader();
            assert_eq!(contents(&reader).iter().collect::<Vec<_>>(), expected);
            for read in &expected {
                assert_eq!(reader.entry(read.place).unwrap().map(Read::from).as_ref(), Some(*read));
            }
            for number in 0..=120 {
                let expected =
                    expected.iter().find(|read| read.sequence.is_some_and(|first| first.get() + 1 >= number));
                let found = reader.seek(Tag::new(b"numbers"), Sequence::new(number)).unwrap().map(Read::from);
                assert_eq!(found.as_ref(), expected.copied(), "number {number}");
            }
        };
        assert_left(&opened);
        drop(opened);
        assert_left(&shard.snapshot().without_indexes().shard().open());
    }
}

#[test]
fn a_process_that_joins_finds_the_compacted_log_whole() {
    for settings in BOTH.into_iter().flat_map(packed_and_not) {
        let (shard, opened) = ready_with(settings);
        let before = shard.snapshot();
        compact(&opened, is_even).unwrap();
        let (whole, end) = (contents(&opened.log.reader()), opened.log.compacted_end());
        assert_eq!(contents(&shard.open().log.reader()), whole);
        // The index of the compacted segment could not be written, and the old segments could not
        // be removed.
        let first = shard.snapshot().segments()[0].replace(".log", ".idx");
        fs::remove_file(shard.path().join(first)).unwrap();
        let replaced = before.segments().into_iter().skip(1);
        let replaced = replaced.filter(|name| *name < format!("{:020}.log", end.get()));
        for name in replaced.filter(|name| !shard.path().join(name).exists()) {
            fs::write(shard.path().join(&name), &before.files[&name]).unwrap();
        }
        let beside = shard.open();
        assert_eq!((contents(&beside.log.reader()), beside.log.compacted_end()), (whole, end));
    }
}

fn sample_reads(number: u64) -> Vec<Read> {
    let (_shard, opened) = filled(Durability::Os, number);
    contents(&opened.log.reader()).into_iter().filter(|read| read.place.position.get() == number).collect()
}

#[test]
fn a_tag_without_surviving_entries_continues_its_numbers() {
    for lose_indexes in [false, true] {
        let (shard, opened) = ready(Durability::Os);
        compact(&opened, |_| false).unwrap();
        // Two rounds: the second must keep the numbers of entries that the first dropped.
        compact(&opened, |_| false).unwrap();
        let first = contents(&opened.log.reader())[0].place.position;
        assert!(first > Position::new(40));
        drop(opened);
        let snapshot = shard.snapshot();
        let shard = if lose_indexes { snapshot.without_indexes().shard() } else { snapshot.shard() };
        // Remove the segments after the compacted one, as if they had never been synced.
        let mut only = shard.snapshot().without("control");
        let goes = |name: &str| name.ends_with(".log") || name.ends_with(".checkpoint");
        only.files.retain(|name, _| !goes(name) || name == &snapshot.segments()[0]);
        let only = only.shard();
        let mut opened = only.open();
        assert_eq!(contents(&opened.log.reader()), []);
        assert_eq!(append(&mut opened.writer, &sample(first.get())), first);
        let found = contents(&opened.log.reader()).remove(0);
        assert_eq!(found.sequence, Some(Sequence::new(2 * first.get() - 1)));
    }
}

#[test]
fn compaction_frees_disk_space() {
    let (shard, opened) = ready(Durability::Os);
    let bytes = |snapshot: &Snapshot| snapshot.segments().iter().map(|name| snapshot.files[name].len()).sum::<usize>();
    let before = shard.snapshot();
    let reader = opened.log.reader();
    let seen = contents(&reader);
    let done = compact(&opened, |entry| entry.place.position.get() % 10 == 0).unwrap();
    let after = shard.snapshot();
    assert!(bytes(&after) < bytes(&before) / 2, "{} of {}", bytes(&after), bytes(&before));
    assert!(after.segments().len() < before.segments().len() / 2);
    // No file has the bytes.
    let gone = b"body of 11 ";
    let holds =
        |snapshot: &Snapshot| snapshot.files.values().any(|file| file.windows(gone.len()).any(|bytes| bytes == gone));
    assert!(holds(&before) && !holds(&after));
    assert!(done.bytes_after < done.bytes_before);
    // An existing reader still reads them.
    assert_eq!(contents(&reader), seen);
    assert_eq!(contents(&reader.clone()), seen);
}

#[test]
fn records_after_the_oldest_checkpoint_are_not_compacted() {
    let (_shard, mut opened) = filled(Durability::Os, 30);
    assert_eq!(compact(&opened, |_| false).unwrap(), Compaction::default());
    checkpoint(&opened);
    extend(&mut opened, 60);
    checkpoint(&opened);
    compact(&opened, |_| false).unwrap();
    assert!(opened.log.compacted_end() <= Position::new(30));
    assert!(contents(&opened.log.reader()).len() >= 90);
}

#[test]
fn a_damaged_run_stays_unchanged() {
    let (shard, opened) = ready(Durability::Os);
    drop(opened);
    let snapshot = shard.snapshot();
    let (name, bytes) = snapshot.records()[5].clone();
    let shard = snapshot.with(&name, |file| file[bytes.start + 60] ^= 1).shard();
    let opened = shard.open();
    let before = shard.snapshot();
    assert!(matches!(compact(&opened, is_even), Err(Error::Unreadable(_))));
    before.assert_unchanged(&shard);
    // A plan leaves the run out.
    let mut compactor = opened.log.begin_compaction(|| Ok::<_, Error>(())).unwrap().unwrap();
    let shares = compactor
        .shares(u32::MAX, &mut |entries, answers| answers.extend(entries.iter().map(|entry| is_even(entry).into())))
        .unwrap();
    assert_eq!(shares.iter().filter(|share| share.surviving.is_none()).count(), 1);
    let plan = CompactionPlan::of(&shares, 4096, 10);
    assert!(!plan.runs.is_empty());
    for run in plan.runs {
        assert!(run.end <= Position::new(6) || run.first > Position::new(6));
        compactor
            .compact(run, &mut |entries, answers| answers.extend(entries.iter().map(|entry| is_even(entry).into())))
            .unwrap();
    }
    assert!(opened.log.reader().record(Position::new(6)).is_err());
    assert!(opened.log.reader().record(Position::new(25)).unwrap().is_none());
}

#[test]
fn every_flipped_or_missing_byte_of_a_compacted_segment_is_detected() {
    let (shard, opened) = ready(Durability::Sync);
    compact(&opened, |entry| entry.place.position.get() % 8 == 0).unwrap();
    let whole = contents(&opened.log.reader());
    drop(opened);
    let snapshot = shard.snapshot();
    let name = snapshot.segments().remove(0);
    let length = snapshot.files[&name].len();
    for at in (0..length).step_by(13) {
        let flipped = snapshot.with(&name, |file| file[at] ^= 4);
        // The index is trusted until the segment is read.
        let shard = flipped.shard();
        let opened = shard.open();
        let reader = opened.log.reader();
        for expected in &whole {
            if let Ok(found) = reader.entry(expected.place) {
                assert_eq!(found.map(Read::from).as_ref(), Some(expected));
            }
        }
        drop(reader);
        let [damage, ..] = &opened.log.scrub()[..] else { panic!("byte {at} is flipped") };
        assert!(damage.path.ends_with(&name), "{damage}");
        assert!(matches!(flipped.without_indexes().shard().try_open(), Err(Error::Damaged { .. })), "byte {at}");
    }
    for cut in [0, 63, 64, 95, 96, 120, length - 8, length - 1] {
        let cut = snapshot.with(&name, |file| file.truncate(cut));
        let opened = cut.shard().open();
        let [damage] = &opened.log.damage()[..] else { panic!("one is cut: {:?}", opened.log.damage()) };
        assert!(damage.path.ends_with(&name), "{damage}");
        assert!(matches!(cut.without_indexes().shard().try_open(), Err(Error::Damaged { .. })));
    }
}

#[test]
fn a_compacted_log_is_refused_without_a_record_that_the_compaction_depends_on() {
    for durability in BOTH {
        let (shard, opened) = ready(durability);
        opened.log.sync().unwrap();
        while opened.log.carry_out(LogDuty::Seal).unwrap() {}
        drop(opened);
        let storage = DyingDisk::after(Arc::new(AtomicI64::new(i64::MAX)));
        let control = Arc::clone(&storage.control);
        let components =
            Components { storage: Arc::new(storage), clock: shard.clock.clone(), background: Background::Caller };
        let mut opened = Log::open_with(shard.path(), IDENTITY, shard.settings.clone(), components).unwrap();
        extend(&mut opened, 61);
        let whole = shard.snapshot();
        assert!(compact(&opened, is_even).unwrap().entries_dropped > 0);
        let mut compacted = shard.snapshot();
        assert_eq!(
            whole.segments().last(),
            compacted.segments().last(),
            "the last record is in the segment that it was in"
        );
        drop(opened);
        // After a power failure, the control file has its synced content.
        compacted = compacted.with_file("control", &control.lock().unwrap());
        let (name, bytes) = whole.records().pop().unwrap();
        for at in bytes {
            let flipped = compacted.with(&name, |file| file[at] ^= 1 << (at % 8));
            let zeroed = compacted.with(&name, |file| file[at..].fill(0));
            for torn in [flipped, zeroed].into_iter().filter(|torn| torn.files[&name] != compacted.files[&name]) {
                let shard = torn.shard();
                let found = shard.try_open().map(|opened| opened.recovery);
                let Err(Error::Damaged { position: Some(position), .. }) = found else {
                    panic!("byte {at}: {found:?}")
                };
                assert_eq!(position.get(), 61);
                assert!(matches!(shard.try_open(), Err(Error::Damaged { .. })), "byte {at}: refused again");
                torn.assert_unchanged(&shard);
            }
        }
        assert_eq!(compacted.shard().open().recovery.cut, None);
    }
}

/// Opens a log on a disk that fails permanently after `left` changes.
pub(crate) fn open_dying(path: &Path, shard: &Shard, left: Arc<AtomicI64>) -> OpenedLog {
    let storage: Arc<dyn Storage> = Arc::new(DyingDisk::after(left));
    let components = Components { storage, clock: shard.clock.clone(), background: Background::Caller };
    Log::open_with(path, IDENTITY, shard.settings.clone(), components).unwrap()
}

#[test]
fn a_crash_at_any_step_of_a_compaction_keeps_all_surviving_entries() {
    packed_and_not(Durability::Sync).into_iter().for_each(crash_at_any_step);
}

fn crash_at_any_step(settings: Settings) {
    let (shard, opened) = ready_with(settings);
    let whole = contents(&opened.log.reader());
    drop(opened);
    let snapshot = shard.snapshot();
    let (mut before, mut after) = (0, 0);
    for step in 0.. {
        let shard = snapshot.shard();
        let left = Arc::new(AtomicI64::new(i64::MAX));
        let opened = open_dying(shard.path(), &shard, Arc::clone(&left));
        left.store(step, Ordering::SeqCst);
        let outcome = compact(&opened, is_even);
        let done = left.load(Ordering::SeqCst) >= 0;
        assert_eq!(done, outcome.is_ok(), "step {step}: {outcome:?}");
        // Whatever the outcome, the open log reads all surviving entries.
        let still: Vec<Read> = contents(&opened.log.reader());
        assert!(whole.iter().filter(|read| read.place.position.get() % 2 == 0).all(|read| still.contains(read)));
        drop(opened);
        let mut opened = shard.open();
        let end = opened.log.compacted_end();
        if end == Position::ZERO {
            before += 1
        } else {
            after += 1
        }
        assert_halved(&mut opened, &whole, end);
        drop(opened);
        let names = shard.names();
        assert!(names.iter().all(|name| !name.ends_with(".new")), "{names:?}");
        if end > Position::ZERO {
            assert_eq!(
                names.iter().filter(|name| name.ends_with(".log")).count(),
                2,
                "what was rewritten is gone: {names:?}"
            );
        }
        if done {
            assert!(before > 3 && after > 3, "{before} steps before the commit point, {after} behind it");
            return;
        }
    }
}
