//! Compaction while other processes have the log open. No segment is removed before each process
//! holds it. A reader from before continues to read its segments. The disk space comes back. A
//! death at any step costs the other processes nothing.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::thread;

use quire_log::{
    Background, Compaction, Components, Durability, Error, Log, LogDuty, OpenedLog, ProcessEvent, SegmentRun, Survival,
};
use quire_model::{Entry, Position};

use crate::compaction::{checkpoint, open_dying};
use crate::shard::{BOTH, IDENTITY, Read, Shard, append, contents, extend, filled, sample};

/// Opens the log so that the test carries out its background duties.
fn open_alone(shard: &Shard) -> OpenedLog {
    let components = Components { clock: shard.clock.clone(), background: Background::Caller, ..Components::default() };
    Log::open_with(shard.path(), IDENTITY, shard.settings.clone(), components).unwrap()
}

fn follow(opened: &mut OpenedLog) {
    while opened.writer.follow().unwrap().is_some() {}
    drop(opened.writer.publish_followed());
}

/// Applies the published records and answers the open round. Returns whether there was a round.
fn attend(opened: &mut OpenedLog) -> bool {
    let Some(round) = opened.log.round_to_attend() else { return false };
    follow(opened);
    opened.log.attend(round).unwrap();
    true
}

fn is_left(entry: &Entry<'_>) -> bool {
    entry.place.position.get().is_multiple_of(2)
}

fn survives(entries: &[Entry<'_>], answers: &mut Vec<Survival>) {
    answers.extend(entries.iter().map(|entry| is_left(entry).into()));
}

/// Asks the other processes to hold one run of all sealed segments that may be compacted. If they
/// hold the run, drops its entries that do not survive.
fn compact(opened: &OpenedLog) -> Result<Compaction, Error> {
    opened.log.sync()?;
    while opened.log.carry_out(LogDuty::Seal)? {}
    let Some(mut compactor) = opened.log.begin_compaction(|| Ok::<_, Error>(()))? else {
        return Ok(Compaction::default());
    };
    let shares = compactor.shares(u32::MAX, &mut survives)?;
    let (Some(first), Some(last)) = (shares.first(), shares.last()) else { return Ok(Compaction::default()) };
    let run = SegmentRun { first: first.first, end: last.end };
    compactor.held_by_others(&[run])?;
    compactor.compact(run, &mut survives)
}

/// Returns the remaining records once a compaction has dropped the other entries before `end`.
fn halved(whole: &[Read], end: Position) -> Vec<Read> {
    let is_left = |read: &&Read| read.place.position >= end || read.place.position.get().is_multiple_of(2);
    whole.iter().filter(is_left).cloned().collect()
}

/// Makes a log of 60 records with a checkpoint after them, which no process has open. Compaction
/// packs the segments of an `os` log.
fn ready(durability: Durability) -> Shard {
    let (mut shard, opened) = filled(durability, 60);
    checkpoint(&opened);
    shard.settings.pack_segments = durability == Durability::Os;
    shard
}

#[test]
fn no_file_is_removed_before_every_process_holds_its_successor_and_earlier_readers_continue() {
    for durability in BOTH {
        let shard = ready(durability);
        let mut first = open_alone(&shard);
        let (mut second, mut third) = (open_alone(&shard), open_alone(&shard));
        let before = shard.snapshot().segments();
        let whole = contents(&second.log.reader());
        let readers = [second.log.reader(), third.log.reader()];
        assert_eq!(compact(&first).unwrap(), Compaction::default(), "they are only asked");
        assert!(attend(&mut second) && !attend(&mut second), "once a round");
        assert_eq!(compact(&first).unwrap(), Compaction::default(), "the third has not answered");
        assert_eq!(shard.snapshot().segments(), before);
        assert!(attend(&mut third));
        let done = compact(&first).unwrap();
        assert!(done.segments > 4 && done.entries_dropped > 60, "{done:?}");
        let end = first.log.compacted_end();
        assert!(end > Position::new(40) && shard.snapshot().segments().len() < before.len());
        // Both processes read the segments that they hold, until they attend the next round.
        for opened in [&second, &third] {
            assert_eq!(contents(&opened.log.reader()), whole);
            assert_eq!(opened.log.compacted_end(), Position::ZERO);
        }
        for opened in [&mut second, &mut third] {
            assert!(attend(opened));
            assert_eq!(contents(&opened.log.reader()), halved(&whole, end));
            assert_eq!(opened.log.compacted_end(), end);
        }
        for reader in &readers {
            assert_eq!(contents(reader), whole);
        }
        // Appends continue at the next position. A process that opens the log later reads the same
        // records.
        assert_eq!(append(&mut third.writer, &sample(61)), Position::new(61));
        follow(&mut first);
        assert_eq!(append(&mut first.writer, &sample(62)), Position::new(62));
        first.log.reach(Position::new(62)).unwrap();
        follow(&mut second);
        let all = contents(&first.log.reader());
        assert_eq!(all.len(), halved(&whole, end).len() + 6);
        assert_eq!(contents(&second.log.reader()), all);
        drop((readers, first, second, third));
        assert_eq!(contents(&shard.open().log.reader()), all);
    }
}

#[test]
fn a_lost_segment_does_not_prevent_rewriting_its_neighbours() {
    let spoil: [fn(&std::path::Path); 2] = [
        |segment| fs::remove_file(segment).unwrap(),
        |segment| File::options().write(true).open(segment).unwrap().write_all_at(&[0; 64], 0).unwrap(),
    ];
    for spoil in spoil {
        let shard = ready(Durability::Sync);
        // Opening the log seals the full segments.
        drop(shard.open());
        let segments = shard.snapshot().segments();
        let first_of = |number: usize| Position::new(segments[number].trim_end_matches(".log").parse().unwrap());
        let lost = 2;
        assert_eq!(segments.len(), 6, "the last takes records");
        spoil(&shard.path().join(&segments[lost]));
        let first = open_alone(&shard);
        let mut second = open_alone(&shard);
        // In two rounds, because the second process maps the files as they are when the first round
        // ends.
        let run = |number| SegmentRun { first: first_of(number), end: first_of(number + 1) };
        let runs = [[run(lost - 1), run(lost + 1)], [run(lost - 2), run(lost + 2)]];
        for runs in runs {
            let asked =
                first.log.begin_compaction(|| Ok::<_, Error>(())).unwrap().unwrap().held_by_others(&runs).unwrap();
            assert_eq!(asked, 0, "they are only asked");
            assert!(attend(&mut second));
            let mut compactor = first.log.begin_compaction(|| Ok::<_, Error>(())).unwrap().unwrap();
            assert_eq!(compactor.held_by_others(&runs).unwrap(), 2);
            for run in runs {
                assert!(compactor.compact(run, &mut survives).unwrap().entries_dropped > 0);
            }
            drop(compactor);
            assert!(attend(&mut second));
        }
        let read = |opened: &OpenedLog| {
            let reader = opened.log.reader();
            let record =
                |number| reader.record(Position::new(number)).map(|found| found.map(|all| all.map(Read::from).count()));
            (1..=60).map(|number| record(number).map_err(|error| error.kind)).collect::<Vec<_>>()
        };
        assert_eq!(read(&second), read(&first));
        drop((first, second));
        assert!(shard.open().log.damage().len() == 1);
    }
}

#[test]
fn disk_space_is_freed_when_its_last_reader_closes() {
    let shard = ready(Durability::Os);
    let (mut first, mut second) = (open_alone(&shard), open_alone(&shard));
    let reader = second.log.reader();
    let mapped = |opened: &OpenedLog| opened.log.statistics().segments;
    let before = mapped(&second);
    assert_eq!(compact(&first).unwrap(), Compaction::default());
    assert!(attend(&mut second));
    assert!(compact(&first).unwrap().bytes_after > 0);
    assert!(attend(&mut second));
    assert!(mapped(&second) < before);
    let gone = format!("({})", "deleted");
    let mapped_and_gone = || {
        let maps = fs::read_to_string("/proc/self/maps").unwrap();
        let of_shard = |line: &&str| line.contains(shard.path().to_str().unwrap()) && line.ends_with(&gone);
        maps.lines().filter(of_shard).count()
    };
    first.writer.refresh();
    second.writer.refresh();
    assert!(mapped_and_gone() > 0, "the reader has them");
    drop(reader);
    assert_eq!(mapped_and_gone(), 0);
}

#[test]
fn a_process_that_opens_the_log_in_a_round_is_asked_and_one_that_closes_it_is_not_awaited() {
    let shard = ready(Durability::Sync);
    let (first, mut second) = (open_alone(&shard), open_alone(&shard));
    assert_eq!(compact(&first).unwrap(), Compaction::default());
    assert!(attend(&mut second));
    // The third process takes the next seat and has not answered. An answer of the seat's earlier
    // owner does not count.
    let mut third = open_alone(&shard);
    assert_eq!(compact(&first).unwrap(), Compaction::default());
    assert!(attend(&mut third));
    drop(third);
    let mut third = open_alone(&shard);
    assert_eq!(compact(&first).unwrap(), Compaction::default());
    drop(second);
    assert_eq!(compact(&first).unwrap(), Compaction::default());
    let whole = contents(&third.log.reader());
    assert!(attend(&mut third));
    assert!(compact(&first).unwrap().segments > 4);
    assert!(attend(&mut third));
    assert_eq!(contents(&third.log.reader()), halved(&whole, first.log.compacted_end()));
    // A process that is alone asks no other process.
    drop(third);
    let mut first = first;
    extend(&mut first, 120);
    checkpoint(&first);
    extend(&mut first, 121);
    checkpoint(&first);
    let end = first.log.compacted_end();
    compact(&first).unwrap();
    assert!(first.log.compacted_end() > end);
}

#[test]
fn one_at_a_time_compacts() {
    let shard = ready(Durability::Os);
    let (first, second) = (open_alone(&shard), open_alone(&shard));
    let turn = second.log.begin_compaction(|| Ok::<_, Error>(())).unwrap();
    assert!(turn.is_some());
    assert_eq!(compact(&first).unwrap(), Compaction::default());
    assert_eq!(second.log.round_to_attend(), None, "nobody was asked");
    drop(turn);
    compact(&first).unwrap();
    assert!(second.log.round_to_attend().is_some());
}

/// Leaves the last round open, as if the process that began it had died before its end.
fn take_back_the_end(shard: &Shard) {
    const ROUND: u64 = 28 * 8;
    let control = File::options().read(true).write(true).open(shard.path().join("control")).unwrap();
    let mut round = [0; 8];
    control.read_exact_at(&mut round, ROUND).unwrap();
    let round = u64::from_le_bytes(round);
    assert!(round > 0);
    control.write_all_at(&(round - u64::from(round.is_multiple_of(2))).to_le_bytes(), ROUND).unwrap();
}

/// The disk of one process fails at each step of a compaction, as if the process died. Another
/// process, which held the segments for it, continues.
#[test]
fn a_death_at_any_step_costs_the_others_nothing_and_one_of_them_compacts_on() {
    let origin = ready(Durability::Sync);
    let whole = contents(&origin.open().log.reader());
    let longer = contents(&filled(Durability::Os, 90).1.log.reader());
    let snapshot = origin.snapshot();
    let (mut before, mut after) = (0, 0);
    for step in 0.. {
        let shard = snapshot.shard();
        let left = Arc::new(AtomicI64::new(i64::MAX));
        let dying = open_dying(shard.path(), &shard, Arc::clone(&left));
        let (mut second, mut third) = (open_alone(&shard), open_alone(&shard));
        assert_eq!(compact(&dying).unwrap(), Compaction::default());
        assert!(attend(&mut second) && attend(&mut third));
        left.store(step, Ordering::SeqCst);
        let done = compact(&dying).is_ok_and(|done| done.segments > 0);
        drop(dying);
        take_back_the_end(&shard);
        let rewritten = shard.open().log.compacted_end();
        if rewritten == Position::ZERO {
            before += 1
        } else {
            after += 1
        }
        for opened in [&second, &third] {
            assert!(contents(&opened.log.reader()) == whole, "step {step}");
        }
        // The next process to compact uses the files as they are now. It asks the other process
        // again.
        extend(&mut second, 89);
        checkpoint(&second);
        extend(&mut second, 90);
        checkpoint(&second);
        assert_eq!(compact(&second).unwrap(), Compaction::default());
        assert_eq!(second.log.compacted_end(), rewritten, "step {step}");
        assert!(attend(&mut third));
        assert_eq!(third.log.compacted_end(), rewritten, "step {step}");
        assert!(compact(&second).unwrap().entries_dropped > 0, "step {step}");
        let end = second.log.compacted_end();
        assert!(end > Position::new(60), "step {step}");
        assert!(attend(&mut third));
        let all = contents(&second.log.reader());
        assert!(all == halved(&longer, end), "step {step}");
        assert!(contents(&third.log.reader()) == all, "step {step}");
        drop((second, third));
        assert!(contents(&shard.open().log.reader()) == all, "step {step}");
        let names = shard.names();
        assert!(names.iter().all(|name| !name.ends_with(".new")), "{names:?}");
        if done {
            assert!(before > 3 && after > 3, "{before} steps before the commit point, {after} behind it");
            return;
        }
    }
}

/// A process that compacts checks which processes have the log open. It still receives the
/// publications of other processes.
#[test]
fn a_process_continues_to_listen_while_it_compacts() {
    const LISTENING: u64 = 32 * 8;
    let shard = ready(Durability::Os);
    let (mut first, mut second) = (open_alone(&shard), open_alone(&shard));
    let log = first.log.clone();
    let control = File::open(shard.path().join("control")).unwrap();
    let listens = || {
        let mut bits = [0; 8];
        control.read_exact_at(&mut bits, LISTENING).unwrap();
        u64::from_le_bytes(bits) != 0
    };
    let next = Position::new(61);
    thread::scope(|scope| {
        scope.spawn(|| drop(log.reach(next)));
        let listener = scope.spawn(|| {
            let mut heard = log.listen(false);
            while heard == ProcessEvent::OthersChanged {
                heard = log.listen(true);
            }
            heard
        });
        while !listens() {
            thread::yield_now();
        }
        let mut compactor = log.begin_compaction(|| Ok::<_, Error>(())).unwrap().unwrap();
        let nothing = SegmentRun { first: next, end: next };
        assert_eq!(compactor.compact(nothing, &mut survives).unwrap(), Compaction::default());
        let goes_on = listens();
        append(&mut second.writer, &sample(61));
        follow(&mut first);
        log.stop_listening();
        listener.join().unwrap();
        assert!(goes_on);
    });
}
