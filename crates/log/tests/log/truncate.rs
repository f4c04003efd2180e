//! Truncation: it removes the records after a mark and nothing else, and a crash at any step leaves
//! a log that opens.

use std::os::unix::fs::FileExt;
use std::pin::pin;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::thread;

use quire_log::{
    Background, Basis, Components, Durability, Error, Log, LogDuty, Mark, OpenedLog, Publisher, Settings,
    Snapshot as View, Term, Woken,
};
use quire_model::{Position, Timestamp};

use crate::shard::{BOTH, IDENTITY, Item, Shard, append, assert_samples, sample, settings};
use crate::storage::DyingDisk;

const RECORDS: u64 = 24;

/// Returns settings for a log that its owner publishes, with short segments.
fn owned(durability: Durability) -> Settings {
    Settings { publisher: Publisher::Owner, exclusive: true, ..settings(durability) }
}

/// Creates a log with `records` unpublished sample records. Returns their marks, preceded by the
/// mark of the beginning.
fn unpublished(settings: Settings, records: u64) -> (Shard, OpenedLog, Vec<Mark>) {
    let shard = Shard::new(settings);
    let mut opened = shard.open();
    let mut marks = vec![opened.writer.mark()];
    append_samples(&mut opened, &mut marks, records);
    (shard, opened, marks)
}

fn append_samples(opened: &mut OpenedLog, marks: &mut Vec<Mark>, records: u64) {
    for number in opened.writer.mark().position.get() + 1..=records {
        append(&mut opened.writer, &sample(number));
        marks.push(opened.writer.mark());
    }
}

fn try_truncate(opened: &mut OpenedLog, mark: Mark) -> quire_log::Result<Woken> {
    let alone = opened.log.lock_openings()?;
    opened.writer.truncate_after(&alone, mark)
}

fn truncate(opened: &mut OpenedLog, mark: Mark) {
    drop(try_truncate(opened, mark).unwrap());
}

#[test]
fn a_truncated_log_holds_the_kept_records_and_takes_others() {
    for durability in BOTH {
        for kept in [0, 1, 5, 9, 10, 11, RECORDS - 1] {
            let (shard, mut opened, mut marks) = unpublished(owned(durability), RECORDS);
            let before = opened.writer.reader();
            truncate(&mut opened, marks[kept as usize]);
            marks.truncate(kept as usize + 1);
            assert_eq!(opened.writer.mark(), marks[kept as usize]);
            assert_samples(&opened.writer.reader(), kept);
            assert_samples(&before, RECORDS);

            let other = append(&mut opened.writer, &[Item::plain(&["other"], b"another past".to_vec())]);
            assert_eq!(other, Position::new(kept + 1), "the position is given again");
            truncate(&mut opened, marks[kept as usize]);
            // The numbers of the tags are assigned again.
            append_samples(&mut opened, &mut marks, RECORDS + 9);
            assert_samples(&opened.writer.reader(), RECORDS + 9);
            opened.log.publish(opened.writer.mark()).unwrap();
            opened.log.sync().unwrap();
            drop(opened);
            let opened = shard.open();
            assert_eq!(opened.recovery.cut, None);
            assert_samples(&opened.writer.reader(), RECORDS + 9);
        }
    }
}

#[test]
fn a_log_that_publishes_after_its_sync_is_truncated_above_that() {
    let (shard, mut opened, mut marks) = unpublished(settings(Durability::Sync), 4);
    opened.log.reach(Position::new(4)).unwrap();
    append_samples(&mut opened, &mut marks, RECORDS);
    let refused = try_truncate(&mut opened, marks[3]);
    assert!(matches!(refused, Err(Error::Published { kept, published }) if (kept.get(), published.get()) == (3, 4)));
    assert_samples(&opened.writer.reader(), RECORDS);
    truncate(&mut opened, marks[4]);
    append_samples(&mut opened, &mut marks[..5].to_vec(), 7);
    opened.log.reach(Position::new(7)).unwrap();
    assert_samples(&opened.log.reader(), 7);
    drop(opened);
    assert_samples(&shard.open().log.reader(), 7);
}

#[test]
fn a_mark_of_another_history_is_refused() {
    let (_shard, mut opened, marks) = unpublished(owned(Durability::Os), 6);
    let lost = marks[5];
    truncate(&mut opened, marks[3]);
    append_samples(&mut opened, &mut Vec::new(), 4);
    append(&mut opened.writer, &[Item::plain(&[], b"another fifth".to_vec())]);
    for mark in [lost, Mark { position: Position::new(99), ..lost }, Mark { term: Term::new(7), ..marks[2] }] {
        assert!(matches!(try_truncate(&mut opened, mark), Err(Error::UnknownMark { mark: met }) if met == mark));
        assert!(matches!(opened.log.publish(mark), Err(Error::UnknownMark { .. })));
    }
    assert_eq!((opened.writer.mark().position, opened.log.published()), (Position::new(5), Position::ZERO));
}

#[test]
fn every_waiter_for_a_truncated_record_ends_unsettled() {
    for durability in BOTH {
        let (_shard, mut opened, _) = unpublished(owned(durability), 5);
        let kept = opened.writer.basis();
        append(&mut opened.writer, &sample(6));
        let lost = opened.writer.basis();
        let is_unsettled = |outcome: Result<(), Error>| {
            assert!(
                matches!(outcome, Err(Error::Unsettled { position }) if position == Position::new(6)),
                "{outcome:?}"
            );
        };
        let mut asked = pin!(opened.log.publication(lost));
        let mut context = Context::from_waker(Waker::noop());
        assert!(asked.as_mut().poll(&mut context).is_pending());
        thread::scope(|scope| {
            let waits = [lost, lost, kept].map(|basis: Basis| {
                let log = opened.log.clone();
                scope.spawn(move || log.wait(basis))
            });
            truncate(&mut opened, kept.mark);
            append(&mut opened.writer, &sample(6));
            opened.log.publish(opened.writer.mark()).unwrap();
            let [first, second, of_kept] = waits.map(|waits| waits.join().unwrap());
            is_unsettled(first);
            is_unsettled(second);
            of_kept.unwrap();
        });
        let Poll::Ready(outcome) = asked.as_mut().poll(&mut context) else { panic!("the future is still waiting") };
        is_unsettled(outcome);
        is_unsettled(opened.log.wait(lost));
        opened.log.wait(kept).unwrap();
        opened.log.wait(opened.writer.basis()).unwrap();
    }
}

/// Opens a log in `shard` whose disk fails after the remaining changes.
fn dying(shard: &Shard, left: &Arc<AtomicI64>) -> OpenedLog {
    let components = Components {
        storage: Arc::new(DyingDisk::after(Arc::clone(left))),
        background: Background::Caller,
        clock: shard.clock.clone(),
    };
    Log::open_with(shard.path(), IDENTITY, shard.settings.clone(), components).unwrap()
}

#[test]
fn a_crash_at_any_step_of_a_truncation_leaves_a_log_that_opens() {
    for (durability, kept) in BOTH.into_iter().flat_map(|durability| [0, 3, 8, 10].map(|kept| (durability, kept))) {
        let mut steps = 0;
        loop {
            let left = Arc::new(AtomicI64::new(i64::MAX));
            let shard = Shard::new(owned(durability));
            let mut opened = dying(&shard, &left);
            let mut marks = vec![opened.writer.mark()];
            append_samples(&mut opened, &mut marks, RECORDS);
            opened.log.sync().unwrap();
            left.store(steps, Ordering::SeqCst);
            let truncated = try_truncate(&mut opened, marks[kept as usize]).map(drop);
            let crashed = shard.snapshot();
            let is_done = truncated.is_ok();
            match truncated {
                Ok(()) => assert_samples(&opened.writer.reader(), kept),
                Err(Error::Failed { .. }) => assert!(opened.log.check().is_err()),
                // The log is unchanged and accepts records.
                Err(_) => {
                    left.store(i64::MAX, Ordering::SeqCst);
                    append_samples(&mut opened, &mut Vec::new(), RECORDS + 1);
                    opened.log.publish(opened.writer.mark()).unwrap();
                    assert_samples(&opened.log.reader(), RECORDS + 1);
                }
            }
            drop(opened);

            let crashed = crashed.shard();
            let mut opened = crashed.open();
            let records = opened.recovery.records;
            assert_eq!(opened.recovery.cut, None, "step {steps}");
            assert!((kept..=RECORDS).contains(&records), "step {steps} leaves {records} records");
            assert!(!is_done || records == kept);
            assert_samples(&opened.writer.reader(), records);
            assert!(crashed.names().iter().all(|name| !name.ends_with(".new")), "{:?}", crashed.names());
            truncate(&mut opened, marks[kept as usize]);
            append_samples(&mut opened, &mut Vec::new(), RECORDS);
            opened.log.sync().unwrap();
            drop(opened);
            assert_samples(&crashed.open().writer.reader(), RECORDS);
            steps += 1;
            if is_done {
                break;
            }
        }
        assert!(steps > 6, "a truncation takes several changes of the disk");
    }
}

#[test]
fn a_sealed_segment_is_published_and_stays() {
    for durability in BOTH {
        let (shard, mut opened, mut marks) = unpublished(owned(durability), RECORDS);
        opened.log.sync().unwrap();
        assert!(!opened.log.carry_out(LogDuty::Seal).unwrap(), "nothing is published");
        let first_of_second = shard.snapshot().segments()[1].trim_end_matches(".log").parse::<u64>().unwrap();
        let last = marks[first_of_second as usize - 1];
        opened.log.publish(last).unwrap();
        while opened.log.carry_out(LogDuty::Seal).unwrap() {}
        assert_eq!(opened.log.statistics().sealed, 1, "of what is published, one segment is full");
        assert!(matches!(try_truncate(&mut opened, marks[first_of_second as usize - 2]), Err(Error::Published { .. })));
        truncate(&mut opened, last);
        assert_samples(&opened.writer.reader(), first_of_second - 1);
        drop(opened);
        // The last record is in a segment whose records opening does not read.
        let mut opened = shard.open();
        assert_eq!(opened.writer.mark(), last);
        marks.truncate(first_of_second as usize);
        append_samples(&mut opened, &mut marks, RECORDS);
        assert_samples(&opened.writer.reader(), RECORDS);
    }
}

#[test]
fn an_owned_log_publishes_by_its_owner_and_opens_at_its_checkpoint() {
    for durability in BOTH {
        let (shard, mut opened, mut marks) = unpublished(owned(durability), 10);
        opened.log.sync().unwrap();
        assert_eq!(opened.log.published(), Position::ZERO, "neither append nor sync publishes");
        opened.log.publish(marks[6]).unwrap();
        opened.log.publish(marks[4]).unwrap();
        assert_eq!(opened.log.published(), Position::new(6), "it never falls");
        assert_samples(&opened.log.reader(), 6);
        // A reader of the files sees the published records, whatever its own publisher is.
        let look = Settings { only_published: true, ..settings(durability) };
        let components = || Components {
            storage: Arc::new(View::of(Arc::new(quire_log::Disk))),
            clock: shard.clock.clone(),
            ..Components::default()
        };
        let seen = Log::open_with(shard.path(), IDENTITY, look, components()).unwrap();
        assert_eq!(seen.log.published(), Position::new(6));
        assert_samples(&seen.log.reader(), 6);
        drop(seen);

        truncate(&mut opened, marks[6]);
        marks.truncate(7);
        opened.log.save_checkpoint(opened.writer.basis(), b"state after 6").unwrap();
        append_samples(&mut opened, &mut marks, RECORDS);
        opened.log.publish(marks[9]).unwrap();
        opened.log.sync().unwrap();
        drop(opened);
        let mut opened = shard.open();
        assert_eq!(opened.log.published(), Position::new(6), "of later records it is not known");
        assert_samples(&opened.writer.reader(), RECORDS);
        truncate(&mut opened, marks[6]);
        drop(opened);
        assert_samples(&shard.open().log.reader(), 6);
    }
}

#[test]
fn a_checkpoint_of_a_record_that_is_truncated_is_not_saved() {
    let (shard, mut opened, marks) = unpublished(owned(Durability::Sync), 5);
    let basis = opened.writer.basis();
    thread::scope(|scope| {
        let log = opened.log.clone();
        let saves = scope.spawn(move || log.save_checkpoint(basis, b"of another past"));
        truncate(&mut opened, marks[2]);
        append_samples(&mut opened, &mut Vec::new(), 8);
        opened.log.publish(opened.writer.mark()).unwrap();
        assert!(matches!(saves.join().unwrap(), Err(Error::Unsettled { .. })));
    });
    assert!(shard.names().iter().all(|name| !name.contains("checkpoint.") && !name.ends_with(".checkpoint")));
}

/// Appends a record in a term.
fn append_in(opened: &mut OpenedLog, term: u32) -> Mark {
    let mut turn = opened.writer.turn().unwrap();
    while turn.follow().unwrap().is_some() {}
    let mut draft = turn.begin_at(Timestamp::from_millis(1), Term::new(term));
    Item::plain(&["term"], vec![1; 100]).push(&mut draft);
    draft.append().unwrap().basis.mark
}

#[test]
fn the_term_of_a_record_is_part_of_its_mark_and_never_falls() {
    let shard = Shard::new(owned(Durability::Os));
    let mut opened = shard.open();
    let marks = [0, 3, 3, 7].map(|term| append_in(&mut opened, term));
    assert_eq!(marks.map(|mark| mark.term.get()), [0, 3, 3, 7]);
    drop(opened);
    let mut opened = shard.open();
    assert_eq!(opened.writer.mark(), marks[3]);
    truncate(&mut opened, marks[1]);
    assert_eq!(append_in(&mut opened, 4).term, Term::new(4));
    let fallen = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| append_in(&mut opened, 2)));
    assert!(fallen.is_err(), "an earlier term follows a later one");
}

#[test]
fn a_log_that_others_have_open_is_not_truncated() {
    let shard = Shard::new(settings(Durability::Sync));
    let mut opened = shard.open();
    let kept = opened.writer.mark();
    append(&mut opened.writer, &sample(1));
    let other = shard.open();
    assert!(matches!(try_truncate(&mut opened, kept), Err(Error::InUse { .. })));
    drop(other);
}

/// The byte of the control file that tells which seats are taken; see the format page.
const SEATS_TAKEN_AT: u64 = 48 * 8;

#[test]
fn a_process_that_died_does_not_prevent_a_truncation() {
    let (shard, mut opened, marks) = unpublished(owned(Durability::Sync), 5);
    let control = std::fs::File::options().read(true).write(true).open(shard.path().join("control")).unwrap();
    let mut seats = [0; 8];
    control.read_exact_at(&mut seats, SEATS_TAKEN_AT).unwrap();
    // Seat 5 belongs to a killed process, so its lock is free.
    seats[0] |= 1 << 5;
    control.write_all_at(&seats, SEATS_TAKEN_AT).unwrap();
    assert!(opened.log.has_other_processes());
    truncate(&mut opened, marks[3]);
    assert_samples(&opened.writer.reader(), 3);
}

#[test]
fn no_process_opens_a_log_while_it_is_truncated() {
    let (shard, mut opened, marks) = unpublished(settings(Durability::Sync), 5);
    let steps = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        let alone = opened.log.lock_openings().unwrap();
        let opening = scope.spawn(|| {
            let other = shard.open();
            steps.lock().unwrap().push("opened");
            other
        });
        // If the other process opened the log before the truncation, the truncation would find the
        // log in use.
        drop(opened.writer.truncate_after(&alone, marks[3]).unwrap());
        steps.lock().unwrap().push("truncated");
        drop(alone);
        assert_eq!(opening.join().unwrap().writer.mark(), marks[3]);
    });
    assert_eq!(*steps.lock().unwrap(), ["truncated", "opened"]);
}
