//! Sealed segments that lost their header, their end, their table of frames, or the whole file.
//!
//! The log opens and reports the loss. All other records are read, and appends continue.

use quire_log::{Durability, Error, OpenedLog, Settings};
use quire_model::{History, Place, Position, ReadErrorKind, Tag};

use crate::compaction::{checkpoint, compact, is_even};
use crate::shard::{Read, Shard, Snapshot, append, contents, filled, sample, settings};

/// A closed log of several segments, each but the last with its index, and its content.
fn closed() -> (Snapshot, Vec<Read>) {
    let (shard, opened) = filled(Durability::Os, 60);
    let whole = contents(&opened.log.reader());
    drop(opened);
    (shard.snapshot(), whole)
}

/// The position of the first record of a segment.
fn first_of(name: &str) -> u64 {
    name.trim_end_matches(".log").parse().unwrap()
}

/// Reads every entry: it equals the written entry, or the read fails and names a file of `lost`.
/// Returns the places that could not be read.
fn refused(opened: &OpenedLog, whole: &[Read], lost: &[&str]) -> Vec<Place> {
    let reader = opened.log.reader();
    let mut refused = Vec::new();
    for expected in whole {
        match reader.entry(expected.place) {
            Ok(found) => assert_eq!(found.map(Read::from).as_ref(), Some(expected)),
            Err(error) => {
                let said = error.to_string();
                assert!(lost.iter().any(|name| said.contains(name)), "{lost:?}: {said}");
                refused.push(expected.place);
            }
        }
    }
    refused
}

/// Opens a log with damage in the segments `lost`, reads all of it, appends, and opens it again.
/// Returns the places that could not be read, which are the same each time.
fn survivors(snapshot: &Snapshot, whole: &[Read], lost: &[&str]) -> Vec<Place> {
    let shard = snapshot.shard();
    let mut opened = shard.open();
    let places = refused(&opened, whole, lost);
    let named: Vec<_> = opened.log.damage().iter().map(|damage| damage.path.clone()).collect();
    for name in lost {
        assert_eq!(named.iter().any(|path| path.ends_with(name)), !places.is_empty(), "{name}: {named:?}");
    }
    // A search for an absent tag does not need the lost files.
    assert!(opened.log.reader().next(&[Tag::new(b"never")], Place::START).unwrap().is_none());
    let (next, number) = (opened.writer.mark().position.next(), whole.len() as u64 / 3 + 1);
    assert_eq!(append(&mut opened.writer, &sample(number)), next);
    opened.log.reach(next).unwrap();
    // A process that joins meanwhile finds the same.
    let joined = shard.open();
    assert_eq!(refused(&joined, whole, lost), places);
    assert!(joined.log.reader().record(next).unwrap().is_some());
    drop((joined, opened));
    let opened = shard.open();
    assert_eq!(refused(&opened, whole, lost), places);
    assert!(opened.log.reader().record(next).unwrap().is_some());
    places
}

/// The positions of the records of these places.
fn records(places: &[Place]) -> Vec<u64> {
    let mut positions: Vec<_> = places.iter().map(|place| place.position.get()).collect();
    positions.dedup();
    positions
}

#[test]
fn a_segment_without_its_header_is_named_and_its_records_are_read() {
    let (snapshot, whole) = closed();
    for name in &snapshot.segments()[..snapshot.segments().len() - 1] {
        let shard = snapshot.with(name, |file| file[..64].fill(0xFF)).shard();
        let mut opened = shard.open();
        assert_eq!(refused(&opened, &whole, &[]), []);
        let [damage] = &opened.log.damage()[..] else { panic!("one is damaged: {:?}", opened.log.damage()) };
        assert!(damage.path.ends_with(name), "{damage}");
        let next = opened.writer.mark().position.next();
        assert_eq!(append(&mut opened.writer, &sample(61)), next);
        // Every reader gets the error. Without its index, the file alone is refused.
        assert_eq!(opened.log.scrub().len(), 1);
        drop(opened);
        let without_index = shard.snapshot().without(&name.replace(".log", ".idx")).shard();
        assert!(matches!(without_index.try_open(), Err(Error::Damaged { .. })));
    }
}

#[test]
fn a_segment_that_lost_its_end_has_the_records_before() {
    let (snapshot, whole) = closed();
    let segments = snapshot.segments();
    for name in [&segments[0], &segments[3], &segments[segments.len() - 2]] {
        let of: Vec<_> = snapshot.records().into_iter().filter(|(of, _)| of == name).map(|(_, bytes)| bytes).collect();
        let (first, count) = (first_of(name), of.len() as u64);
        for end in [0, 10, 64, 80, of[0].end - 1, of[0].end, of[1].start + 40, of[of.len() - 1].end - 1] {
            let lost = survivors(&snapshot.with(name, |file| file.truncate(end)), &whole, &[name]);
            let kept = of.iter().take_while(|bytes| bytes.end <= end).count() as u64;
            assert_eq!(records(&lost), (first + kept..first + count).collect::<Vec<_>>(), "cut at byte {end}");
        }
        // Zeros follow the last record.
        let cut = snapshot.with(name, |file| file.truncate(of[of.len() - 1].end));
        assert_eq!(survivors(&cut, &whole, &[name]), []);
    }
}

#[test]
fn missing_segments_are_reported_and_the_others_are_read() {
    let (snapshot, whole) = closed();
    let segments = snapshot.segments();
    let last = segments.len() - 1;
    for gone in [0..1, 2..3, 1..4, 0..3, last - 1..last, last - 2..last, 0..last] {
        let names: Vec<&str> = segments[gone.clone()].iter().map(String::as_str).collect();
        let mut without = snapshot.clone();
        names.iter().for_each(|name| without = without.without(name));
        let lost = survivors(&without, &whole, &names);
        assert_eq!(records(&lost), (first_of(names[0])..first_of(&segments[gone.end])).collect::<Vec<_>>());
        let shard = without.shard();
        let opened = shard.open();
        let error = opened.log.reader().entry(lost[0]).unwrap_err();
        assert!(error.to_string().contains(names[0]), "{error}");
        // The error names the beginning of the segment, because the place of the entry in it is
        // unknown.
        assert_eq!((error.place, error.begins), (None, Some(Place::new(Position::new(first_of(names[0])), 0))));
        drop(opened);
        // Without its index, the content of the segment is unknown.
        let unknown = without.without(&names[0].replace(".log", ".idx")).shard();
        assert!(matches!(unknown.try_open(), Err(Error::Damaged { .. })));
    }
}

#[test]
fn a_file_removed_while_the_log_is_open_is_reported_by_reads_and_by_a_scrub() {
    let (snapshot, whole) = closed();
    let segments = snapshot.segments();
    for reads in [true, false] {
        let shard = snapshot.shard();
        let opened = shard.open();
        std::fs::remove_file(shard.path().join(&segments[1])).unwrap();
        match reads {
            true => assert_eq!(
                records(&refused(&opened, &whole, &[&segments[1]])).len() as u64,
                first_of(&segments[2]) - first_of(&segments[1])
            ),
            false => drop(opened.log.scrub()),
        }
        let damage = opened.log.damage();
        assert_eq!(damage.len(), 1, "{damage:?}");
        assert!(
            damage[0].path.ends_with(&segments[1]) && damage[0].message.contains("the file is missing"),
            "{damage:?}"
        );
    }
}

#[test]
fn another_segment_under_the_name_is_refused() {
    let (snapshot, _) = closed();
    let segments = snapshot.segments();
    // Another segment of the same log under its name.
    let other = snapshot.files[&segments[2]].clone();
    assert!(matches!(snapshot.with_file(&segments[1], &other).shard().try_open(), Err(Error::Damaged { .. })));
    // A similar segment of another log.
    let mut foreign = snapshot.files[&segments[1]].clone();
    foreign[16] ^= 1;
    let crc = quire_log::crc32c(&[&foreign[..12], &foreign[16..64]].concat());
    foreign[12..16].copy_from_slice(&crc.to_le_bytes());
    assert!(matches!(snapshot.with_file(&segments[1], &foreign).shard().try_open(), Err(Error::Damaged { .. })));
    // An index is not trusted unless it leads to the next segment: one of another segment, or of
    // another history.
    let index_of = |name: &str| name.replace(".log", ".idx");
    let shard = Shard::new(settings(Durability::Os));
    let mut opened = shard.open();
    for number in 1..=60 {
        let mut items = sample(number);
        items.iter_mut().flat_map(|item| &mut item.body).for_each(|byte| *byte ^= 1);
        append(&mut opened.writer, &items);
    }
    drop(opened);
    let past = shard.snapshot();
    assert_eq!(past.segments(), segments);
    for index in [&snapshot.files[&index_of(&segments[2])], &past.files[&index_of(&segments[1])]] {
        let without = snapshot.without(&segments[1]).with_file(&index_of(&segments[1]), index);
        assert!(matches!(without.shard().try_open(), Err(Error::Damaged { .. })));
    }
}

#[test]
fn damage_outside_the_records_of_a_compacted_segment_loses_it_alone_and_keeps_its_numbers() {
    for pack_segments in [false, true] {
        let shard = Shard::new(Settings {
            segment_bytes: 64 << 10,
            record_bytes_max: 60_000,
            pack_segments,
            ..settings(Durability::Os)
        });
        let mut opened = shard.open();
        crate::shard::extend(&mut opened, 300);
        checkpoint(&opened);
        opened.log.sync().unwrap();
        while opened.log.carry_out(quire_log::LogDuty::Seal).unwrap() {}
        compact(&opened, is_even).unwrap();
        let compacted_end = opened.log.reader().next(&[Tag::new(b"numbers")], Place::START).unwrap().unwrap().place;
        crate::shard::extend(&mut opened, 400);
        let whole = contents(&opened.log.reader());
        drop(opened);
        let snapshot = shard.snapshot();
        let name = snapshot.segments().into_iter().find(|name| snapshot.files[name].starts_with(b"QUIRECMP")).unwrap();
        let bytes = snapshot.files[&name].len();
        let end = first_of(&snapshot.segments()[1]);
        let within: Vec<Place> = whole.iter().map(|read| read.place).filter(|at| at.position.get() < end).collect();
        assert!(compacted_end.position.get() < end && !within.is_empty());
        let mut damaged = vec![
            snapshot.without(&name),
            snapshot.with(&name, |file| file[20] ^= 1),
            snapshot.with(&name, |file| file.truncate(bytes - 1)),
            snapshot.with(&name, |file| file.truncate(50)),
            snapshot.with(&name, |file| file.truncate(0)),
        ];
        if pack_segments {
            damaged.push(snapshot.with(&name, |file| file[113] ^= 1));
        }
        for damaged in damaged {
            let shard = damaged.shard();
            let mut opened = shard.open();
            assert_eq!(refused(&opened, &whole, &[&name]), within);
            let [damage] = &opened.log.damage()[..] else { panic!("one is lost: {:?}", opened.log.damage()) };
            assert!(damage.path.ends_with(&name), "{damage}");
            assert_eq!(opened.log.reader().entry(within[0]).unwrap_err().kind, ReadErrorKind::Damaged);
            // The numbers of a tag continue.
            let next = opened.writer.mark().position.next();
            assert_eq!(append(&mut opened.writer, &sample(next.get())), next);
            opened.log.reach(next).unwrap();
            let found = opened.log.reader().entry(Place::new(next, 0)).unwrap().map(Read::from).unwrap();
            assert_eq!(found.sequence.map(|it| it.get()), Some(2 * next.get() - 1));
            // A compaction skips the segment.
            checkpoint(&opened);
            let compactor = opened.log.begin_compaction(|| Ok::<_, Error>(())).unwrap().unwrap();
            let mut all = |entries: &[quire_model::Entry<'_>], answers: &mut Vec<quire_log::Survival>| {
                answers.extend(entries.iter().map(|_| true.into()));
            };
            let shares = compactor.shares(16, &mut all).unwrap();
            assert_eq!(shares[0].surviving, None);
            drop(compactor);
            drop(opened);
            assert_eq!(refused(&shard.open(), &whole, &[&name]), within);
        }
        // A longer file still has its content.
        let longer = snapshot.with(&name, |file| file.extend([1; 100])).shard();
        assert_eq!(refused(&longer.open(), &whole, &[]), []);
        // Without its index, the content of the segment is unknown.
        let unknown = snapshot.without(&name).without(&name.replace(".log", ".idx")).shard();
        assert!(matches!(unknown.try_open(), Err(Error::Damaged { .. })));
    }
}
