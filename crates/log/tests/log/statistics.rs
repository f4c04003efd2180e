//! The statistics page: what another process reads of a log that is at work, and what becomes of it when it is damaged.

use quire_log::{Durability, Error, Page};
use quire_model::Timestamp;

use crate::shard::{BOTH, Shard, append, assert_samples, extend, filled, sample, settings};

#[test]
fn the_page_shows_what_was_appended_while_the_log_is_open_and_goes_on_after_a_restart() {
    for durability in BOTH {
        let (shard, mut opened) = filled(durability, 30);
        let page = Page::read(shard.path()).unwrap();
        assert_eq!((page.appends, page.entries), (30, 90));
        assert_eq!(page.bytes, opened.log.appended_bytes());
        assert_eq!(page.rolls, shard.snapshot().segments().len() as u64);
        extend(&mut opened, 31);
        assert_eq!(Page::read(shard.path()).unwrap().appends, 31);
        drop(opened);
        let mut opened = shard.open();
        assert_eq!((opened.log.statistics().records, opened.log.appended_bytes()), (0, 0));
        extend(&mut opened, 33);
        assert_eq!((opened.log.statistics().records, Page::read(shard.path()).unwrap().appends), (2, 33));
    }
}

#[test]
fn syncs_checkpoints_refusals_and_failures_are_counted() {
    let (shard, opened) = filled(Durability::Os, 5);
    let before = Page::read(shard.path()).unwrap();
    opened.log.sync().unwrap();
    opened.log.note_refusal();
    let mark = opened.writer.mark();
    opened.log.save_checkpoint(mark, b"state").unwrap();
    // What is in the way can't be written as a file is.
    let in_the_way = shard.path().join(format!("{:020}.checkpoint.new", mark.position));
    std::fs::create_dir(&in_the_way).unwrap();
    opened.log.save_checkpoint(mark, b"state").unwrap_err();
    let page = Page::read(shard.path()).unwrap();
    assert_eq!((page.syncs, page.sync_ns.count()), (before.syncs + 1, before.sync_ns.count() + 1));
    assert_eq!((page.checkpoints, page.checkpoint_ns.count(), page.checkpoint_position), (1, 1, mark.position));
    assert_eq!((page.refusals, page.errors), (1, 1));
}

#[test]
fn an_append_is_timed_unless_another_was_a_moment_ago() {
    let shard = Shard::new(settings(Durability::Os));
    shard.clock.set(Timestamp::from_micros(1_000));
    let mut opened = shard.open();
    let (_, mut draft) = opened.writer.begin().unwrap();
    sample(1)[0].push(&mut draft);
    shard.clock.set(Timestamp::from_micros(1_003));
    draft.append().unwrap();
    let timed = Page::read(shard.path()).unwrap().append_ns;
    assert_eq!((timed.count(), timed.total_ns, timed.quantile_ns(1.0)), (1, 3_000, 4_095));
    for (micros, count) in [(1_063, 1), (1_064, 2), (1_064, 2)] {
        shard.clock.set(Timestamp::from_micros(micros));
        append(&mut opened.writer, &sample(2));
        assert_eq!(Page::read(shard.path()).unwrap().append_ns.count(), count, "at {micros}");
    }
}

#[test]
fn a_page_that_is_lost_or_damaged_begins_anew_and_the_log_has_everything() {
    for durability in BOTH {
        let (shard, opened) = filled(durability, 30);
        drop(opened);
        let whole = shard.snapshot();
        let foreign = |file: &mut Vec<u8>| file[16] ^= 1;
        let newer = |file: &mut Vec<u8>| file[8] = 9;
        let damaged = [
            whole.without("statistics"),
            whole.with("statistics", |file| file.truncate(100)),
            whole.with("statistics", |file| file.fill(0xFF)),
            whole.with("statistics", foreign),
            whole.with("statistics", newer),
        ];
        for snapshot in damaged {
            let shard = snapshot.shard();
            let mut opened = shard.open();
            assert_samples(&opened.log.reader(), 30);
            assert_eq!(Page::read(shard.path()).unwrap().appends, 0);
            extend(&mut opened, 32);
            assert_eq!((Page::read(shard.path()).unwrap().appends, opened.log.statistics().records), (2, 2));
        }
    }
}

#[test]
fn reading_a_page_that_is_none_says_so() {
    let (shard, opened) = filled(Durability::Os, 1);
    drop(opened);
    let whole = shard.snapshot();
    let read = |snapshot: &crate::shard::Snapshot| Page::read(snapshot.shard().path()).unwrap_err();
    assert!(matches!(read(&whole.without("statistics")), Error::Io { .. }));
    assert!(matches!(read(&whole.with("statistics", |file| file.truncate(7))), Error::Damaged { .. }));
    assert!(matches!(read(&whole.with("statistics", |file| file[8] = 9)), Error::NewerFormat { version: 9, .. }));
}
