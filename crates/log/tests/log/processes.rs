//! Several openings of one log: every process sees the records of the others, and no process blocks
//! another.
//!
//! Two openings in one process behave like two processes, except that they die together.
//! `tests/kill.rs` has processes that die alone.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::mem;
use std::os::unix::fs::FileExt;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use quire_log::{
    Background, Components, Durability, Error, Log, LogDuty, ProcessEvent, Settings, WaitDeadline, WaitOutcome, Writer,
};
use quire_model::{Effects, Position};

use crate::shard::{BOTH, IDENTITY, Shard, append, assert_samples, extend, filled, sample, settings};

#[test]
fn every_opening_sees_the_records_of_the_others_across_segments() {
    for durability in BOTH {
        let shard = Shard::new(settings(durability));
        let mut openings = [shard.open(), shard.open(), shard.open()];
        for number in 1..=90 {
            let opened = &mut openings[(number * number % 3) as usize];
            assert_eq!(append(&mut opened.writer, &sample(number)), Position::new(number));
        }
        for opened in &mut openings {
            while opened.writer.follow().unwrap().is_some() {}
            drop(opened.writer.publish_followed());
            assert_eq!(opened.writer.mark().position, Position::new(90));
            opened.log.reach(Position::new(90)).unwrap();
            assert_samples(&opened.log.reader(), 90);
        }
        assert!(openings[0].log.statistics().segments > 5);
        drop(openings);
        assert_samples(&shard.open().log.reader(), 90);
    }
}

#[test]
fn concurrent_writers_take_turns() {
    for durability in BOTH {
        let shard = Shard::new(settings(durability));
        let openings: Vec<_> = (0..4).map(|_| shard.open()).collect();
        thread::scope(|scope| {
            for mut opened in openings {
                scope.spawn(move || {
                    for _ in 0..200 {
                        let (_, mut draft) = opened.writer.begin().unwrap();
                        let number = draft.at().position.get();
                        for item in sample(number) {
                            item.push(&mut draft);
                        }
                        let appended = draft.append().unwrap();
                        drop(appended.woken);
                        opened.log.reach(Position::new(number)).unwrap();
                    }
                });
            }
        });
        assert_samples(&shard.open().log.reader(), 800);
    }
}

#[test]
fn a_panic_during_a_turn_does_not_affect_other_openings() {
    let (shard, mut opened) = filled(Durability::Os, 5);
    let mut other = shard.open();
    thread::scope(|scope| {
        let panicked = scope.spawn(|| {
            let (_, mut draft) = opened.writer.begin().unwrap();
            for item in sample(99) {
                item.push(&mut draft);
            }
            panic!("on purpose");
        });
        assert!(panicked.join().is_err());
    });
    extend(&mut other, 30);
    assert_samples(&other.log.reader(), 30);
    extend_behind(&mut opened, 60);
    drop((opened, other));
    assert_samples(&shard.open().log.reader(), 60);
}

/// Takes the turn, begins a record, and dies.
fn die_in_turn(mut opened: quire_log::OpenedLog) {
    let (_, mut draft) = opened.writer.begin().unwrap();
    sample(99)[0].push(&mut draft);
    mem::forget(draft);
}

/// A log whose next record begins a segment.
struct LogBeforeSegment {
    records: u64,
    /// The segment of the last record.
    before: String,
    /// The segment that the next record begins.
    begun: String,
    /// The files of another log with the same records and the next record.
    files: BTreeMap<String, Vec<u8>>,
}

fn begun(durability: Durability) -> LogBeforeSegment {
    let (twin, mut opened) = filled(durability, 1);
    let mut records = 1;
    while twin.snapshot().segments().len() < 3 {
        records += 1;
        extend(&mut opened, records);
    }
    drop(opened);
    let twin = twin.snapshot();
    let [_, before, begun] = &twin.segments()[..] else { panic!("three segments") };
    LogBeforeSegment { records: records - 1, before: before.clone(), begun: begun.clone(), files: twin.files }
}

/// Makes a log whose second-to-last segment is sealed. A process began the last segment and died
/// before it acknowledged a record. `left` edits the bytes that this process left in the segment.
///
/// Returns two openings and the number of records. For the first opening, the sealed segment is the
/// last one. The second opening has opened the begun segment.
fn with_a_segment_begun(
    durability: Durability,
    left: impl FnOnce(&mut Vec<u8>),
) -> (Shard, quire_log::OpenedLog, quire_log::OpenedLog, u64) {
    let LogBeforeSegment { records, before, begun, files } = begun(durability);
    let mut bytes = files[&begun].clone();
    left(&mut bytes);
    let index = before.replace(".log", ".idx");
    let (shard, behind) = filled(durability, records);
    fs::write(shard.path().join(&begun), &bytes).unwrap();
    fs::write(shard.path().join(&index), &files[&index]).unwrap();
    let ahead = shard.open();
    die_in_turn(shard.open());
    (shard, behind, ahead, records)
}

/// No bytes, and a complete unacknowledged record.
const LEFT: [fn(&mut Vec<u8>); 2] = [|bytes| bytes[64..].fill(0), |_| ()];

#[test]
fn a_segment_begun_by_a_dead_process_is_continued_by_every_opening() {
    for (durability, left) in BOTH.into_iter().flat_map(|durability| LEFT.map(|left| (durability, left))) {
        for ahead_is_first in [false, true] {
            let (shard, behind, ahead, records) = with_a_segment_begun(durability, left);
            let (mut first, mut second) = if ahead_is_first { (ahead, behind) } else { (behind, ahead) };
            // The record may be one that would fit the previous segment.
            extend(&mut first, records + 1);
            extend_behind(&mut second, records + 2);
            extend_behind(&mut first, records + 40);
            extend_behind(&mut second, records + 60);
            assert_samples(&second.log.reader(), records + 60);
            drop((first, second));
            assert_samples(&shard.open().log.reader(), records + 60);
        }
    }
}

#[test]
fn a_segment_begun_by_a_dead_process_is_continued_after_further_deaths() {
    for (durability, left) in BOTH.into_iter().flat_map(|durability| LEFT.map(|left| (durability, left))) {
        let (shard, mut behind, mut ahead, records) = with_a_segment_begun(durability, left);
        drop(behind.writer.begin().unwrap());
        die_in_turn(shard.open());
        extend(&mut ahead, records + 20);
        extend_behind(&mut behind, records + 40);
        drop((ahead, behind));
        assert_samples(&shard.open().log.reader(), records + 40);
    }
}

#[test]
fn a_segment_is_not_sealed_while_it_may_take_records_again() {
    for durability in BOTH {
        let LogBeforeSegment { records, before, begun, files } = begun(durability);
        let (shard, mut opened) = filled(durability, records);
        let mut bytes = files[&begun].clone();
        bytes[64..].fill(0);
        fs::write(shard.path().join(&begun), &bytes).unwrap();
        // The word of the active segment, by its offset in the format page. Every opening has it
        // mapped.
        let control = File::options().write(true).open(shard.path().join("control")).unwrap();
        control.write_all_at(&files["control"][25 * 8..26 * 8], 25 * 8).unwrap();
        drop(opened.writer.begin().unwrap());
        assert_eq!(opened.log.statistics().segments, 3, "the one that was begun was entered");
        let index = shard.path().join(before.replace(".log", ".idx"));
        let settle = |opened: &quire_log::OpenedLog| {
            opened.log.sync().unwrap();
            while opened.log.carry_out(LogDuty::Seal).unwrap() {}
        };
        settle(&opened);
        assert!(!index.exists(), "{begun} may be lost with the power, and records go on in {before}");
        extend(&mut opened, records + 1);
        settle(&opened);
        assert!(index.exists(), "{begun} holds a record");
    }
}

/// Appends to a log that other processes have extended.
fn extend_behind(opened: &mut quire_log::OpenedLog, records: u64) {
    while opened.writer.follow().unwrap().is_some() {}
    extend(opened, records);
}

/// The part of the database: applies the records of other processes.
fn take_in(writer: &mut Writer) {
    while writer.follow().unwrap().is_some() {}
    drop(writer.publish_followed());
}

#[test]
fn a_waiter_is_woken_by_every_publication_of_another_opening() {
    const RECORDS: u64 = 500;
    for durability in BOTH {
        let shard = Shard::new(settings(durability));
        let (mut opened, mut other) = (shard.open(), shard.open());
        let (log, writer) = (opened.log.clone(), &mut opened.writer);
        let (waits, next) = mpsc::channel();
        thread::scope(|scope| {
            let listener = scope.spawn(|| {
                let mut has_others = false;
                loop {
                    match log.listen(has_others) {
                        ProcessEvent::Published => take_in(writer),
                        ProcessEvent::OthersChanged => has_others = !has_others,
                        ProcessEvent::Compaction => panic!("nobody compacts"),
                        ProcessEvent::Stop => return,
                    }
                }
            });
            let waiter = scope.spawn(|| {
                let waits = waits;
                for number in 1..=RECORDS {
                    waits.send(number).unwrap();
                    log.reach(Position::new(number)).unwrap();
                }
            });
            for number in next {
                append(&mut other.writer, &sample(number));
                other.log.reach(Position::new(number)).unwrap();
            }
            waiter.join().unwrap();
            log.stop_listening();
            listener.join().unwrap();
        });
    }
}

#[test]
fn a_thread_that_applies_records_itself_is_woken_without_a_listener() {
    const RECORDS: u64 = 500;
    for durability in BOTH {
        let shard = Shard::new(settings(durability));
        let openings = [shard.open(), shard.open()];
        thread::scope(|scope| {
            for (own, mut opened) in openings.into_iter().enumerate() {
                scope.spawn(move || {
                    for number in 1..=RECORDS {
                        let position = Position::new(number);
                        if number % 2 == own as u64 {
                            assert_eq!(append(&mut opened.writer, &sample(number)), position);
                            opened.log.reach(position).unwrap();
                            continue;
                        }
                        loop {
                            match opened.log.sleep(position, WaitDeadline::after(Duration::MAX)).unwrap() {
                                WaitOutcome::Published => break,
                                WaitOutcome::Behind => take_in(&mut opened.writer),
                                WaitOutcome::TimedOut => panic!("there is time"),
                            }
                        }
                    }
                });
            }
        });
        assert_samples(&shard.open().log.reader(), RECORDS);
    }
}

#[test]
fn a_sleeping_thread_is_woken_by_a_publication_in_its_own_opening() {
    for durability in BOTH {
        let shard = Shard::new(settings(durability));
        let mut opened = shard.open();
        let (log, (sleeps, next)) = (opened.log.clone(), mpsc::channel());
        thread::scope(|scope| {
            let sleepers = [sleeps.clone(), sleeps].map(|sleeps| {
                scope.spawn(|| {
                    let sleeps = sleeps;
                    for number in 1..=200 {
                        sleeps.send(number).unwrap();
                        assert_eq!(
                            log.sleep(Position::new(number), WaitDeadline::after(Duration::MAX)).unwrap(),
                            WaitOutcome::Published
                        );
                    }
                })
            });
            let mut appended = 0;
            for number in next {
                if number > appended {
                    append(&mut opened.writer, &sample(number));
                    log.reach(Position::new(number)).unwrap();
                    appended = number;
                }
            }
            sleepers.into_iter().for_each(|sleeper| sleeper.join().unwrap());
        });
    }
}

#[test]
fn every_opening_has_the_same_durability() {
    let (shard, _opened) = filled(Durability::Os, 3);
    let sync = Settings { durability: Durability::Sync, ..shard.settings.clone() };
    let second = quire_log::Log::open(shard.path(), crate::shard::IDENTITY, sync, shard.clock.clone());
    match second {
        Err(Error::Settings { problems }) => assert!(problems[0].contains("durability"), "{problems:?}"),
        other => panic!("it is open with another durability: {other:?}"),
    }
}

#[test]
fn a_log_without_its_control_file_cannot_be_joined() {
    let (shard, opened) = filled(Durability::Sync, 3);
    let control = shard.path().join("control");
    let bytes = fs::read(&control).unwrap();
    fs::remove_file(&control).unwrap();
    assert!(matches!(shard.try_open(), Err(Error::InUse { .. })));
    assert!(!control.exists());
    fs::write(&control, vec![0; bytes.len()]).unwrap();
    assert!(matches!(shard.try_open(), Err(Error::InUse { .. })));
    drop(opened);
    assert_samples(&shard.open().log.reader(), 3);
}

#[test]
fn a_log_has_at_most_64_openings() {
    let (shard, _opened) = filled(Durability::Os, 1);
    let all: Vec<_> = (1..64).map(|_| shard.open()).collect();
    assert!(matches!(shard.try_open(), Err(Error::InUse { .. })));
    drop(all);
    shard.open();
}

/// Returns the spare segments.
fn spares(shard: &Shard) -> Vec<String> {
    let names = fs::read_dir(shard.path()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut spares: Vec<_> = names.filter(|name| name.starts_with("spare")).collect();
    spares.sort_unstable();
    spares
}

#[test]
fn the_spares_of_dead_processes_are_removed() {
    // No background thread makes a spare.
    let open = |shard: &Shard| {
        let components =
            Components { clock: shard.clock.clone(), background: Background::Caller, ..Components::default() };
        Log::open_with(shard.path(), IDENTITY, shard.settings.clone(), components).unwrap()
    };
    for durability in BOTH {
        let shard = Shard::new(settings(durability));
        let mut first = open(&shard);
        let mut second = open(&shard);
        extend(&mut second, 1);
        assert!(second.log.carry_out(LogDuty::Prepare).unwrap());
        assert_eq!(spares(&shard), ["spare-01"]);
        // As if other processes had used these seats and been killed.
        let die = |seats: &[u32]| {
            seats.iter().for_each(|seat| fs::write(shard.path().join(format!("spare-{seat:02}")), [0; 100]).unwrap());
        };
        die(&[2, 5, 63]);
        while first.writer.follow().unwrap().is_some() {}
        drop(first.writer.publish_followed());
        assert_eq!(append(&mut first.writer, &sample(2)), Position::new(2));
        assert!(first.log.carry_out(LogDuty::Prepare).unwrap());
        assert_eq!(spares(&shard), ["spare-00", "spare-01"], "who makes one removes those");
        die(&[2]);
        let third = open(&shard);
        assert_eq!(spares(&shard), ["spare-00", "spare-01"], "and who opens the log");
        die(&[3, 64]);
        drop(third);
        assert_eq!(
            spares(&shard),
            ["spare-00", "spare-01", "spare-64"],
            "and who closes it; there is no such seat as 64"
        );
        drop(first);
        drop(second);
        assert_eq!(spares(&shard), ["spare-64"]);
    }
}
