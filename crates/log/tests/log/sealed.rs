//! Sealed segments: they are read like live segments, whatever happens to their indexes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use quire_log::{Background, Components, Durability, Error, Log, LogDuty, OpenedLog, Settings};
use quire_model::{History, Place, Position, ReadErrorKind, Sequence, Tag};

use crate::shard::{
    BOTH, IDENTITY, Item, Read, Shard, Snapshot, append, assert_samples, contents, extend, filled, sample,
    segment_name, settings,
};
use crate::storage::DyingDisk;

/// A closed log of several segments, each but the last with its index.
fn closed(durability: Durability) -> Snapshot {
    let (shard, opened) = filled(durability, 60);
    drop(opened);
    let snapshot = shard.snapshot();
    assert!(snapshot.segments().len() > 5);
    assert_eq!(indexes(&snapshot).len(), snapshot.segments().len() - 1, "closing seals what is full");
    snapshot
}

fn indexes(snapshot: &Snapshot) -> Vec<String> {
    snapshot.files.keys().filter(|name| name.ends_with(".idx")).cloned().collect()
}

fn index_files(snapshot: &Snapshot) -> BTreeMap<String, Vec<u8>> {
    indexes(snapshot).into_iter().map(|name| (name.clone(), snapshot.files[&name].clone())).collect()
}

/// Asserts that a log has every sample record, by place, along each tag in both directions, and by
/// number.
fn assert_answers(opened: &mut OpenedLog, records: u64) {
    let reader = opened.log.reader();
    assert_samples(&reader, records);
    let all = contents(&reader);
    for tag in ["numbers", "even", "all", "never"] {
        let tags = [Tag::new(tag.as_bytes())];
        let expected: Vec<&Read> =
            all.iter().filter(|read| read.tags.iter().any(|own| own == tag.as_bytes())).collect();
        let (mut forward, mut from) = (Vec::new(), Place::START);
        while let Some(entry) = reader.next(&tags, from).unwrap() {
            from = entry.place.after();
            forward.push(Read::from(entry));
        }
        assert_eq!(forward.iter().collect::<Vec<_>>(), expected);
        let (mut backward, mut before) = (Vec::new(), Place::END);
        while let Some(entry) = reader.previous(&tags, before).unwrap() {
            before = entry.place;
            backward.push(Read::from(entry));
        }
        backward.reverse();
        assert_eq!(backward.iter().collect::<Vec<_>>(), expected);
    }
    for read in &all {
        assert_eq!(reader.entry(read.place).unwrap().map(Read::from).as_ref(), Some(read));
    }
    for sequence in 0..=2 * records + 2 {
        let found =
            reader.seek(Tag::new(b"numbers"), Sequence::new(sequence)).unwrap().map(|entry| entry.place.position.get());
        assert_eq!(
            found,
            Some(sequence.max(1).div_ceil(2)).filter(|position| *position <= records),
            "number {sequence}"
        );
    }
    let next = append(&mut opened.writer, &sample(records + 1));
    opened.log.reach(next).unwrap();
    assert_samples(&opened.log.reader(), records + 1);
}

#[test]
fn numbers_are_found_in_many_segments_with_short_and_long_tags() {
    const RECORDS: u64 = 600;
    const TAGS: usize = 20;
    for tag_bytes in [8, 250] {
        let shard =
            Shard::new(Settings { segment_bytes: 64 << 10, record_bytes_max: 60_000, ..settings(Durability::Os) });
        let mut opened = shard.open();
        let tag = |number: usize| format!("{number:0tag_bytes$}");
        for _ in 0..RECORDS {
            let entries: Vec<_> = (0..TAGS).map(|number| Item::numbered(&tag(number), 1, [b'b'; 1500])).collect();
            append(&mut opened.writer, &entries);
        }
        opened.log.sync().unwrap();
        while opened.log.carry_out(LogDuty::Seal).unwrap() {}
        assert!(opened.log.statistics().sealed > 200, "too many for a complete list of each tag's first numbers");
        let reader = opened.log.reader();
        for sequence in (1..=RECORDS).step_by(11) {
            for number in [0, 7, TAGS - 1] {
                let found = reader.seek(Tag::new(tag(number).as_bytes()), Sequence::new(sequence)).unwrap().unwrap();
                assert_eq!((found.sequence, found.place.index), (Some(Sequence::new(sequence)), number as u32));
            }
        }
        let behind = Sequence::new(RECORDS + 1);
        assert!(reader.seek(Tag::new(tag(3).as_bytes()), behind).unwrap().is_none());
    }
}

#[test]
fn sealed_segments_answer_as_live_ones_do() {
    for durability in BOTH {
        let (_shard, mut opened) = filled(durability, 60);
        opened.log.sync().unwrap();
        while opened.log.statistics().sealed + 1 < opened.log.statistics().segments {
            std::thread::yield_now();
        }
        assert_answers(&mut opened, 60);
        let shard = closed(durability).shard();
        let mut opened = shard.open();
        assert_eq!(opened.log.statistics().sealed + 1, opened.log.statistics().segments);
        assert_answers(&mut opened, 60);
    }
}

#[test]
fn the_same_records_give_the_same_index() {
    let snapshot = closed(Durability::Os);
    let shard = snapshot.without_indexes().shard();
    drop(shard.open());
    assert!(index_files(&shard.snapshot()) == index_files(&snapshot));
}

#[test]
fn a_lost_truncated_or_flipped_index_is_rebuilt_with_unchanged_numbers() {
    let snapshot = closed(Durability::Sync);
    let indexes = indexes(&snapshot);
    for (number, name) in indexes.iter().enumerate() {
        let length = snapshot.files[name].len();
        let mut damaged = vec![snapshot.without(name), snapshot.with_file(name, b"")];
        for cut in [1, 100, 127, 128, 130, length - 1] {
            damaged.push(snapshot.with(name, |file| file.truncate(cut)));
        }
        damaged.push(snapshot.with(name, |file| file.push(0)));
        damaged.push(snapshot.with_file(name, &snapshot.files[&indexes[(number + 1) % indexes.len()]]));
        for at in (number..length).step_by(17) {
            damaged.push(snapshot.with(name, |file| file[at] ^= 0x24));
        }
        for damaged in damaged {
            let shard = damaged.shard();
            let mut opened = shard.open();
            assert_eq!(opened.recovery.cut, None);
            assert_answers(&mut opened, 60);
            assert_eq!(opened.log.damage(), []);
            drop(opened);
            assert!(shard.snapshot().files[name] == snapshot.files[name], "it is as it was made the first time");
        }
    }
}

#[test]
fn a_log_opens_without_its_indexes_and_with_foreign_ones() {
    let snapshot = closed(Durability::Os);
    let mut lost = snapshot.without_indexes();
    let first = indexes(&snapshot).remove(0);
    let last = snapshot.segments().pop().unwrap().replace(".log", ".idx");
    // An index of the active segment, and an index without a segment, as a crash can leave them.
    for name in [&last, &segment_name(999).replace(".log", ".idx")] {
        lost = lost.with_file(name, &snapshot.files[&first]);
    }
    let shard = lost.shard();
    let mut opened = shard.open();
    assert!(!shard.names().contains(&last));
    assert_answers(&mut opened, 60);
    drop(opened);
    assert_answers(&mut shard.open(), 61);
}

#[test]
fn an_index_of_a_newer_version_is_named_and_not_touched() {
    let snapshot = closed(Durability::Os);
    let name = indexes(&snapshot).remove(1);
    let newer = snapshot.with(&name, |file| {
        file[8..12].copy_from_slice(&2_u32.to_le_bytes());
        let body = file.len() - body_bytes(file);
        let covered = [&file[..12], &file[16..body]].concat();
        file[12..16].copy_from_slice(&quire_log::crc32c(&covered).to_le_bytes());
    });
    let shard = newer.shard();
    match shard.try_open() {
        Err(Error::NewerFormat { path, version: 2, supported: 1 }) => assert!(path.ends_with(&name)),
        other => panic!("it is of a newer version: {other:?}"),
    }
    newer.assert_unchanged(&shard);
}

/// The bytes after header and checksums. The format page defines one checksum for each 4,096 bytes.
fn body_bytes(file: &[u8]) -> usize {
    (0..file.len()).rfind(|body| 128 + body.div_ceil(4096) * 4 + body == file.len()).unwrap()
}

#[test]
fn a_log_does_not_read_sealed_records_to_open() {
    let snapshot = closed(Durability::Sync);
    let records = snapshot.records();
    // One byte in the body of record 2 is flipped. Opening does not read it, and only reads of it
    // report it.
    let (name, bytes) = &records[1];
    let flipped = snapshot.with(name, |file| file[bytes.end - 20] ^= 1);
    let shard = flipped.shard();
    let opened = shard.open();
    assert_eq!(opened.log.damage(), []);
    let reader = opened.log.reader();
    for index in 0..3 {
        let error = reader.entry(Place::new(Position::new(2), index)).unwrap_err();
        let said = error.to_string();
        assert!(said.contains(name.as_str()) && said.contains(&format!("byte {}", bytes.start)), "{said}");
    }
    assert!(reader.record(Position::new(2)).is_err());
    assert!(reader.next(&[], Place::new(Position::new(1), 3)).is_err(), "it is not passed over in silence");
    assert!(reader.next(&[Tag::new(b"numbers")], Place::new(Position::new(1), 1)).is_err());
    assert!(reader.previous(&[], Place::new(Position::new(3), 0)).is_err());
    assert!(reader.seek(Tag::new(b"numbers"), Sequence::new(3)).is_err());
    let [damage] = &opened.log.damage()[..] else { panic!("one record is damaged") };
    assert!(damage.path.ends_with(name));
    assert_eq!((damage.offset, damage.position), (bytes.start as u64, Some(Position::new(2))));
    for number in (1..=60).filter(|number| *number != 2) {
        let found = reader.record(Position::new(number)).unwrap().unwrap().map(Read::from);
        assert_eq!(
            found.map(|read| read.body).collect::<Vec<_>>(),
            sample(number).into_iter().map(|item| item.body).collect::<Vec<_>>()
        );
    }
}

#[test]
fn no_flipped_byte_of_a_sealed_segment_is_returned() {
    let snapshot = closed(Durability::Os);
    let (shard, _opened) = filled(Durability::Os, 60);
    let whole = contents(&_opened.log.reader());
    drop((shard, _opened));
    for (name, bytes) in snapshot.records().iter().take(6) {
        for at in bytes.clone().step_by(37) {
            let shard = snapshot.with(name, |file| file[at] ^= 0x80).shard();
            let opened = shard.open();
            let reader = opened.log.reader();
            let mut refused = 0;
            for expected in &whole {
                match reader.entry(expected.place) {
                    Ok(found) => assert_eq!(found.map(Read::from).as_ref(), Some(expected)),
                    Err(_) => refused += 1,
                }
            }
            assert_eq!(refused, 3, "the entries of one record");
        }
    }
}

#[test]
fn few_segments_stay_open_however_many_there_are() {
    let mut shard = Shard::new(settings(Durability::Os));
    shard.settings.segments_open_max = 3;
    let mut opened = shard.open();
    extend(&mut opened, 200);
    drop(opened);
    let mut opened = shard.open();
    assert!(opened.log.statistics().sealed > 10);
    for _ in 0..3 {
        for number in [1, 100, 7, 190, 55, 56, 3] {
            let place = Place::new(Position::new(number), 1);
            assert!(opened.log.reader().entry(place).unwrap().is_some());
            assert!(opened.log.statistics().open <= 3);
        }
    }
    // A reader keeps its segments open, and closes them when it is dropped.
    let reader = opened.log.reader();
    let held = contents(&reader);
    assert_eq!(contents(&opened.log.reader()), held);
    drop(reader);
    assert!(opened.log.statistics().open <= 3);
    assert_answers(&mut opened, 200);
}

#[test]
fn a_segment_with_many_readers_is_mapped_once() {
    let (shard, opened) = filled(Durability::Os, 200);
    drop(opened);
    for _ in 0..20 {
        let opened = shard.open();
        let log = &opened.log;
        let sealed = log.statistics().sealed;
        assert!(sealed > 10);
        let begin = std::sync::Barrier::new(4);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    begin.wait();
                    assert!(contents(&log.reader()).len() > 200);
                });
            }
        });
        assert!(log.statistics().open <= sealed, "{} of {sealed}", log.statistics().open);
    }
}

#[test]
fn entries_stay_readable_while_segments_are_sealed() {
    let (_shard, mut opened) = filled(Durability::Os, 20);
    let reader = opened.log.reader();
    let first = reader.entry(Place::new(Position::new(1), 1)).unwrap().unwrap();
    let before = Read::from(first);
    extend(&mut opened, 120);
    opened.log.sync().unwrap();
    while opened.log.statistics().sealed + 1 < opened.log.statistics().segments {
        std::thread::yield_now();
    }
    assert_eq!(Read::from(first), before);
    assert_samples(&reader, 20);
}

#[test]
fn a_scrub_finds_unread_damage_and_rebuilds_damaged_indexes() {
    let snapshot = closed(Durability::Os);
    let records = snapshot.records();
    let (name, bytes) = &records[20];
    let index = indexes(&snapshot).remove(0);
    let flipped = snapshot.with(name, |file| file[bytes.start + 45] ^= 1).with(&index, |file| {
        let last = file.len() - 1;
        file[last] ^= 1;
    });
    for background in [false, true] {
        let mut shard = flipped.shard();
        shard.settings.scrub_bytes_per_second = if background { u64::MAX } else { 0 };
        let opened = shard.open();
        if background {
            while opened.log.damage().is_empty() {
                std::thread::yield_now();
            }
            assert!(opened.log.statistics().scrubbed_bytes > 0);
        } else {
            assert_eq!(opened.log.damage(), []);
            opened.log.scrub();
            assert_eq!(opened.log.statistics().scrubbed_bytes, 0, "nothing is done in the background");
        }
        let [damage] = &opened.log.damage()[..] else { panic!("one record is damaged") };
        assert!(damage.path.ends_with(name));
        assert_eq!((damage.offset, damage.position), (bytes.start as u64, Some(Position::new(21))));
        assert_eq!(opened.log.scrub().len(), 1, "it is known already");
        assert!(shard.snapshot().files[&index] == snapshot.files[&index], "the index is as it was");
    }
}

#[test]
fn a_segment_whose_header_is_damaged_while_it_is_closed_is_named_by_reads_and_by_a_scrub() {
    for scrubs in [false, true] {
        let mut shard = closed(Durability::Sync).shard();
        // With this limit, opening the log closes the first segment again.
        shard.settings.segments_open_max = 1;
        let opened = shard.open();
        let first = Place::new(Position::new(1), 0);
        let path = shard.path().join("00000000000000000001.log");
        let whole = std::fs::read(&path).unwrap();
        let mut damaged = whole.clone();
        damaged[20] ^= 1;
        std::fs::write(&path, damaged).unwrap();
        if scrubs {
            opened.log.scrub();
        } else {
            // The records themselves are sound.
            assert!(opened.log.reader().entry(first).unwrap().is_some());
        }
        let [damage] = &opened.log.damage()[..] else { panic!("one segment is damaged: {:?}", opened.log.damage()) };
        assert!(damage.path.ends_with("00000000000000000001.log"), "{damage}");
        std::fs::write(&path, whole).unwrap();
        opened.log.reader().entry(first).unwrap();
    }
}

#[test]
fn an_unreadable_file_is_an_io_error_until_it_can_be_read() {
    let mut shard = closed(Durability::Sync).shard();
    // With this limit, opening the log closes the first segment again.
    shard.settings.segments_open_max = 1;
    let disk = DyingDisk::after(Arc::new(AtomicI64::new(i64::MAX)));
    let blind = Arc::clone(&disk.blind);
    let components = Components { storage: Arc::new(disk), clock: shard.clock.clone(), background: Background::Caller };
    let opened = Log::open_with(shard.path(), IDENTITY, shard.settings.clone(), components).unwrap();
    let reader = opened.log.reader();
    let first = Place::new(Position::new(1), 0);
    blind.store(true, Ordering::SeqCst);
    let error = reader.entry(first).unwrap_err();
    assert_eq!(error.kind, ReadErrorKind::Io, "{error}");
    let message = error.to_string();
    let directory = shard.path().file_name().expect("a name").to_string_lossy();
    assert!(message.contains(&*directory) && message.contains("os error 5"), "{message}");
    assert!(!message.contains(&format!("{}", shard.path().display())), "clients see it: {message}");
    assert!(opened.log.damage().is_empty(), "nothing is known to be damaged");
    blind.store(false, Ordering::SeqCst);
    assert!(reader.entry(first).unwrap().is_some());
    drop((reader, opened));
    // Damaged bytes are reported as damage.
    let shard = closed(Durability::Sync).with(&segment_name(1), |file| file[100] ^= 1).shard();
    let error = shard.open().log.reader().entry(first).unwrap_err();
    assert_eq!(error.kind, ReadErrorKind::Damaged, "{error}");
}
