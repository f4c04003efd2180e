//! The statistics page: the view of another process of a running log, and the recovery from damage.

use quire_log::{Durability, Error, Gauge, Page};
use quire_model::{Position, Timestamp};

use crate::shard::{BOTH, Shard, append, assert_samples, extend, filled, sample, settings};

#[test]
fn the_page_counts_appends_of_an_open_log_and_continues_after_a_restart() {
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
    let basis = opened.writer.basis();
    opened.log.save_checkpoint(basis, b"state").unwrap();
    // A directory of the same name blocks the write of the file.
    let in_the_way = shard.path().join(format!("{:020}.checkpoint.new", basis.position()));
    std::fs::create_dir(&in_the_way).unwrap();
    opened.log.save_checkpoint(basis, b"state").unwrap_err();
    let page = Page::read(shard.path()).unwrap();
    assert_eq!((page.syncs, page.sync_ns.count()), (before.syncs + 1, before.sync_ns.count() + 1));
    assert_eq!((page.checkpoints, page.checkpoint_ns.count(), page.checkpoint_position), (1, 1, basis.position()));
    assert_eq!((page.refusals, page.errors), (1, 1));
}

#[test]
fn an_append_is_timed_unless_another_was_timed_just_before() {
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
fn a_lost_or_damaged_page_restarts_and_the_log_has_every_record() {
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
fn reading_an_invalid_page_is_an_error() {
    let (shard, opened) = filled(Durability::Os, 1);
    drop(opened);
    let whole = shard.snapshot();
    let read = |snapshot: &crate::shard::Snapshot| Page::read(snapshot.shard().path()).unwrap_err();
    assert!(matches!(read(&whole.without("statistics")), Error::Io { .. }));
    for bytes in [0, 7, 100, 4000] {
        assert!(matches!(read(&whole.with("statistics", |file| file.truncate(bytes))), Error::Io { .. }), "{bytes}");
    }
    assert!(matches!(read(&whole.with("statistics", |file| file[8] = 9)), Error::NewerFormat { version: 9, .. }));
}

/// Gauges to write.
fn gauges<'a>(named: impl IntoIterator<Item = (&'a str, u64)>) -> Vec<(String, u64)> {
    named.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

fn whole(name: &str, value: u64) -> Gauge {
    Gauge { name: name.to_owned(), is_cut: false, value }
}

#[test]
fn the_latest_gauges_are_read_also_after_a_restart() {
    let (shard, opened) = filled(Durability::Os, 3);
    assert_eq!((Page::read(shard.path()).unwrap().gauges, opened.log.gauges_told()), (None, None));
    opened.log.tell_gauges(Position::new(2), &gauges([("billing", 7), ("Versand \u{fc}ber Nacht", 0)]));
    let counts = Page::read(shard.path()).unwrap();
    let told = counts.gauges.clone().unwrap();
    assert_eq!((told.position, told.count), (Position::new(2), 2));
    assert_eq!(told.first, [whole("billing", 7), whole("Versand \u{fc}ber Nacht", 0)]);
    opened.log.tell_gauges(Position::new(3), &gauges([("x", u64::MAX)]));
    drop(opened);
    let told = Page::read(shard.path()).unwrap().gauges.unwrap();
    assert_eq!((told.position, told.count, told.first), (Position::new(3), 1, vec![whole("x", u64::MAX)]));
    let opened = shard.open();
    assert_eq!(opened.log.gauges_told().map(|(position, _)| position), Some(Position::new(3)));
    opened.log.tell_gauges(Position::new(3), &[]);
    let page = Page::read(shard.path()).unwrap();
    assert_eq!(page.gauges.map(|told| (told.count, told.first)), Some((0, Vec::new())));
    assert_eq!(page.appends, counts.appends);
}

#[test]
fn many_gauges_and_long_names_are_truncated() {
    let (shard, opened) = filled(Durability::Os, 1);
    let many: Vec<_> = (0..1_000).map(|number| (format!("group {number}"), 1_000 - number)).collect();
    opened.log.tell_gauges(Position::new(1), &many);
    let told = Page::read(shard.path()).unwrap().gauges.unwrap();
    assert_eq!((told.count, told.first.len()), (1_000, 95));
    assert!(told.first.iter().zip(&many).all(|(told, (name, value))| *told == whole(name, *value)));
    // The limit falls inside the last character of the second name.
    let (exact, odd) = ("e".repeat(112), format!("{}\u{fc}", "o".repeat(111)));
    opened.log.tell_gauges(Position::new(1), &gauges([(&*exact, 1), (&*odd, 2)]));
    let told = Page::read(shard.path()).unwrap().gauges.unwrap().first;
    assert_eq!(told, [whole(&exact, 1), Gauge { name: "o".repeat(111), is_cut: true, value: 2 }]);
}

#[test]
fn damaged_or_incomplete_gauges_are_not_read_and_the_counts_are() {
    let (shard, opened) = filled(Durability::Os, 3);
    opened.log.tell_gauges(Position::new(2), &gauges([("billing", 7)]));
    let before = shard.snapshot();
    opened.log.tell_gauges(Position::new(3), &gauges([("billing", 9), ("shipping", 1)]));
    drop(opened);
    let after = shard.snapshot();
    let read = |snapshot: &crate::shard::Snapshot| Page::read(snapshot.shard().path()).unwrap();
    let [old, new] = [&before, &after].map(|snapshot| snapshot.files["statistics"].clone());
    let told = [&before, &after].map(|snapshot| read(snapshot).gauges);
    let (table, mut halves) = (512 * 8..old.len(), 0);
    // The writer may die after each of its words, and a power failure may keep only a part.
    for at in table.clone().step_by(8).skip(1) {
        for [first, rest] in [[&new, &old], [&old, &new]] {
            let half = after.with("statistics", |file| *file = [&first[..at], &rest[at..]].concat());
            let page = read(&half);
            assert_eq!(page.appends, 3);
            halves += usize::from(page.gauges.is_none());
            assert!(page.gauges.is_none() || told.contains(&page.gauges), "at {at}: {page:?}");
        }
    }
    assert!(halves > 20, "{halves}");
    for at in table.step_by(3).take_while(|at| *at < (528 + 2 * 16) * 8) {
        let page = read(&after.with("statistics", |file| file[at] ^= 1));
        assert!(page.gauges.is_none(), "at {at}");
    }
    // The next write of gauges makes the table valid.
    let shard = after.with("statistics", |file| file[512 * 8..513 * 8].fill(0)).shard();
    let opened = shard.open();
    assert_eq!(opened.log.gauges_told(), None);
    opened.log.tell_gauges(Position::new(3), &gauges([("billing", 9)]));
    assert_eq!(Page::read(shard.path()).unwrap().gauges.unwrap().first, [whole("billing", 9)]);
}

#[test]
fn a_page_without_gauges_is_extended_and_continues() {
    let (shard, opened) = filled(Durability::Os, 30);
    opened.log.tell_gauges(Position::new(30), &gauges([("billing", 7)]));
    drop(opened);
    let short = shard.snapshot().with("statistics", |file| file.truncate(512 * 8)).shard();
    let page = Page::read(short.path()).unwrap();
    assert_eq!((page.appends, page.gauges), (30, None));
    let mut opened = short.open();
    extend(&mut opened, 31);
    opened.log.tell_gauges(Position::new(31), &gauges([("billing", 8)]));
    let page = Page::read(short.path()).unwrap();
    assert_eq!((page.appends, page.gauges.unwrap().first), (31, vec![whole("billing", 8)]));
}
