//! Appends: limits, empty values, time, and settings.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use quire_log::{Background, Components, Durability, Error, Log, OpenedLog, Settings};
use quire_model::{Effects, History, Place, Position, Sequence, Tag, Timestamp};

use crate::shard::{
    BOTH, IDENTITY, Item, Shard, append, assert_samples, contents, extend, filled, sample, settings, try_append,
};
use crate::storage::DyingDisk;

/// Appends a record of exactly `bytes` bytes: header 40, entry header 12, one tag of 3.
fn record_of(bytes: usize) -> Vec<Item> {
    vec![Item::plain(&["t"], vec![b'x'; bytes - 40 - 10 - 2])]
}

#[test]
fn a_record_has_at_most_record_bytes_max_and_a_larger_one_changes_nothing() {
    for durability in BOTH {
        for (segment_bytes, record_bytes_max) in [(4096, 64), (4096, 1000), (4096, 3976), (4100, 3976)] {
            let shard = Shard::new(Settings { segment_bytes, record_bytes_max, ..settings(durability) });
            let mut opened = shard.open();
            let most = record_bytes_max as usize;
            for _ in 0..5 {
                append(&mut opened.writer, &record_of(most));
                let before = opened.writer.mark();
                for items in [
                    record_of(most + 1),
                    record_of(most + 100_000),
                    [record_of(most + 1), record_of(60)].concat(),
                    [record_of(60), record_of(most - 5), record_of(60)].concat(),
                ] {
                    match try_append(&mut opened.writer, &items) {
                        Err(Error::TooLarge { bytes, bytes_max }) => {
                            assert_eq!(bytes_max, record_bytes_max);
                            assert!(bytes > bytes_max);
                        }
                        other => panic!("it is too large: {other:?}"),
                    }
                }
                assert_eq!(opened.writer.mark(), before);
                append(&mut opened.writer, &record_of(61));
            }
            let written = contents(&opened.writer.reader());
            assert_eq!(written.len(), 10);
            drop(opened);
            let opened = shard.open();
            assert_eq!(opened.recovery.cut, None);
            assert_eq!(contents(&opened.log.reader()), written);
        }
    }
}

#[test]
fn a_large_record_is_written_to_the_file_and_read_back() {
    for durability in BOTH {
        let segment_bytes = 4 << 20;
        let shard = Shard::new(Settings { segment_bytes, record_bytes_max: 3 << 20, ..settings(durability) });
        let mut opened = shard.open();
        let mut items = sample(1);
        for bytes in [60_000, 10_000, 1_200_000, 0, 1_000_000] {
            items.push(Item::numbered("numbers", 3, (0..bytes).map(|byte| byte as u8).collect::<Vec<_>>()));
        }
        for _ in 0..4 {
            append(&mut opened.writer, &items);
            append(&mut opened.writer, &sample(2));
        }
        let written = contents(&opened.writer.reader());
        assert_eq!(written.len(), 44);
        drop(opened);
        let opened = shard.open();
        assert_eq!(opened.recovery.cut, None);
        assert_eq!(contents(&opened.log.reader()), written);
    }
}

#[test]
fn records_fill_a_segment_to_its_last_byte() {
    // Every possible remainder after the last record of a segment, in both ways of writing.
    for durability in BOTH {
        for body in (0..200).step_by(8) {
            let shard = Shard::new(settings(durability));
            let mut opened = shard.open();
            for length in [1000, 1000, 1000, 900 - body, 1, 2, 3, 4] {
                append(&mut opened.writer, &[Item::plain(&["t"], vec![7; length])]);
            }
            let written = contents(&opened.writer.reader());
            let crashed = shard.snapshot().shard();
            drop(opened);
            for shard in [crashed, shard] {
                let opened = shard.open();
                assert_eq!(opened.recovery.cut, None);
                assert_eq!(contents(&opened.log.reader()), written);
            }
        }
    }
}

#[test]
fn records_that_each_need_a_segment_of_their_own_are_kept() {
    for durability in BOTH {
        let shard = Shard::new(settings(durability));
        let mut opened = shard.open();
        for _ in 0..300 {
            append(&mut opened.writer, &record_of(3896));
        }
        let crashed = shard.snapshot().shard();
        drop(opened);
        for shard in [crashed, shard] {
            let opened = shard.open();
            assert_eq!((opened.recovery.records, opened.recovery.segments), (300, 300));
            assert_eq!(opened.recovery.cut, None);
        }
    }
}

#[test]
fn bodies_and_tags_may_be_empty_and_tags_as_long_as_allowed() {
    for durability in BOTH {
        let shard = Shard::new(settings(durability));
        let mut opened = shard.open();
        append(&mut opened.writer, &[Item::plain(&[], Vec::new())]);
        let long = "t".repeat(512);
        let many: Vec<String> = (0..255).map(|tag| tag.to_string()).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        append(&mut opened.writer, &[Item::numbered(&long, 1, Vec::new()), Item::plain(&many, Vec::new())]);
        opened.log.reach(Position::new(2)).unwrap();
        drop(opened);
        let reader = shard.open().log.reader();
        let found = contents(&reader);
        assert_eq!(found.len(), 3);
        assert_eq!((found[0].tags.len(), found[1].tags.len(), found[2].tags.len()), (0, 1, 255));
        let tags: Vec<Tag<'_>> = many.iter().map(|tag| Tag::new(tag.as_bytes())).collect();
        let place = Place::new(Position::new(2), 1);
        assert_eq!(reader.next(&tags, Place::START).unwrap().map(|entry| entry.place), Some(place));
        assert_eq!(reader.previous(&tags, Place::END).unwrap().map(|entry| entry.place), Some(place));
    }
}

#[test]
fn time_never_runs_backwards_though_the_clock_does() {
    for durability in BOTH {
        let shard = Shard::new(settings(durability));
        let mut opened = shard.open();
        let mut times = Vec::new();
        for now in [100, 90, 200, 0, 150, 201] {
            shard.clock.set(Timestamp::from_micros(now));
            times.push(opened.writer.begin().unwrap().1.at().time.as_micros());
            append(&mut opened.writer, &sample(1));
        }
        assert_eq!(times, [100, 100, 200, 200, 200, 201]);
        drop(opened);
        shard.clock.set(Timestamp::from_micros(5));
        let mut opened = shard.open();
        assert_eq!(opened.writer.begin().unwrap().1.at().time.as_micros(), 201);
        let stored: Vec<u64> = contents(&opened.log.reader()).iter().step_by(3).map(|read| read.time).collect();
        assert_eq!(stored, times);
    }
}

#[test]
fn segments_have_the_length_that_was_set_when_they_were_begun() {
    let (mut shard, opened) = filled(Durability::Os, 30);
    drop(opened);
    shard.settings.segment_bytes = 8192;
    let mut opened = shard.open();
    extend(&mut opened, 90);
    drop(opened);
    let lengths: Vec<usize> =
        shard.snapshot().files.iter().filter(|file| file.0.ends_with("log")).map(|file| file.1.len()).collect();
    assert!(lengths.is_sorted());
    assert_eq!((lengths[0], lengths.last()), (4096, Some(&8192)));
    shard.settings.segment_bytes = 4096;
    let mut opened = shard.open();
    assert_samples(&opened.log.reader(), 90);
    extend(&mut opened, 120);
    drop(opened);
    assert_samples(&shard.open().log.reader(), 120);
}

#[test]
fn all_problems_of_invalid_settings_are_reported() {
    let shard =
        Shard::new(Settings { segment_bytes: 4095, record_bytes_max: 63, sync_interval_ms: 0, ..Settings::default() });
    match shard.try_open() {
        Err(Error::Settings { problems }) => assert_eq!(problems.len(), 3, "{problems:?}"),
        other => panic!("they can't be used: {other:?}"),
    }
    assert!(shard.try_open().is_err() && Settings::default().problems().is_empty());
    let shard = Shard::new(Settings { segment_bytes: 4096, record_bytes_max: 3977, ..Settings::default() });
    assert!(matches!(shard.try_open(), Err(Error::Settings { problems }) if problems.len() == 1));
}

#[test]
fn an_append_counts_in_the_statistics() {
    let (_shard, opened) = filled(Durability::Sync, 30);
    let statistics = opened.log.statistics();
    assert_eq!((statistics.records, statistics.entries), (30, 90));
    assert!(statistics.segments > 1 && statistics.syncs >= 1);
    assert_eq!(statistics.bytes, opened.log.appended_bytes());
    let on_disk: usize = _shard.snapshot().records().iter().map(|(_, bytes)| bytes.len()).sum();
    assert_eq!(statistics.bytes, on_disk as u64);
}

#[test]
fn a_read_finds_every_record_appended_since_the_last_read() {
    for segment_bytes in [8 << 10, 1 << 20] {
        let shard = Shard::new(Settings { segment_bytes, ..settings(Durability::Os) });
        let (mut here, mut elsewhere) = (shard.open(), shard.open());
        let mut last = 0;
        // Fewer and more records than the limit of unindexed records, in the appending and in the
        // following process.
        for more in [1, 2, 100, 127, 128, 129, 1, 1, 700, 3, 1500] {
            for number in last + 1..=last + more {
                append(&mut here.writer, &[Item::numbered("t", 1, number.to_string())]);
            }
            while elsewhere.writer.follow().expect("followed").is_some() {}
            last += more;
            for writer in [&here.writer, &elsewhere.writer] {
                let reader = writer.reader();
                let body = |found: Option<quire_model::Entry<'_>>| found.map(|entry| entry.body.to_vec());
                let tag = Tag::new(b"t");
                for number in [last, last - more + 1, 1] {
                    let expected = Some(number.to_string().into_bytes());
                    let place = Place::new(Position::new(number), 0);
                    assert_eq!(body(reader.entry(place).expect("read")), expected, "of {last}");
                    assert_eq!(body(reader.next(&[tag], place).expect("read")), expected, "of {last}");
                    assert_eq!(body(reader.previous(&[tag], place.after()).expect("read")), expected, "of {last}");
                    assert_eq!(body(reader.seek(tag, Sequence::new(number)).expect("read")), expected, "of {last}");
                }
            }
        }
    }
}

#[test]
fn without_space_for_a_segment_records_that_free_space_still_fit() {
    let left = Arc::new(AtomicI64::new(i64::MAX));
    let shard = Shard::new(Settings { segment_bytes: 1 << 16, ..settings(Durability::Os) });
    let components = Components {
        storage: Arc::new(DyingDisk::after(Arc::clone(&left))),
        clock: shard.clock.clone(),
        background: Background::Caller,
    };
    let OpenedLog { log, mut writer, .. } =
        Log::open_with(shard.path(), IDENTITY, shard.settings.clone(), components).unwrap();
    let mut append = |frees: bool| {
        let (_, mut draft) = writer.begin().unwrap();
        Item::plain(&["a"], vec![7; 100]).push(&mut draft);
        let appended = if frees { draft.append_to_free() } else { draft.append() };
        appended.map(|appended| appended.at.position)
    };
    left.store(0, Ordering::SeqCst);
    let kept = (1..).take_while(|position| append(false).ok() == Some(Position::new(*position))).count() as u64;
    assert!(kept > 200, "only {kept} records of a segment of 64 KiB are kept");
    let freeing =
        (kept + 1..).take_while(|position| append(true).ok() == Some(Position::new(*position))).count() as u64;
    assert!(freeing >= 16, "only {freeing} records found room that free some");
    assert!(append(false).is_err());
    left.store(i64::MAX, Ordering::SeqCst);
    assert_eq!(append(false).unwrap(), Position::new(kept + freeing + 1));
    assert_eq!(log.published(), Position::new(kept + freeing + 1));
}
