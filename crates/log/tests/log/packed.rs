//! Packed segments: they are smaller, use limited memory, and report damage.
//!
//! [`crate::oracle`] and [`crate::compaction`] test that packed segments are read like other
//! segments.

use quire_log::{CompactionPlan, Damage, Durability, Error, OpenedLog, SegmentRun, Settings, Survival};
use quire_model::{Entry, History, Place, Position, Sequence, Tag};

use crate::compaction::{checkpoint, compact, is_even};
use crate::shard::{IDENTITY, Item, Read, Shard, Snapshot, append, contents, extend, settings};

/// Settings with segments of a few frames, which a compaction packs.
fn packing() -> Settings {
    Settings { segment_bytes: 64 << 10, record_bytes_max: 60_000, pack_segments: true, ..settings(Durability::Os) }
}

/// `records` sample records, and a checkpoint after them.
fn ready(settings: Settings, records: u64) -> (Shard, OpenedLog) {
    let shard = Shard::new(settings);
    let mut opened = shard.open();
    extend(&mut opened, records);
    checkpoint(&opened);
    opened.log.sync().unwrap();
    while opened.log.carry_out(quire_log::LogDuty::Seal).unwrap() {}
    (shard, opened)
}

/// Rewrites the runs of a plan, and drops the entries for which `survives` is false. Returns the
/// count of runs.
fn carry_out_plan(opened: &OpenedLog, survives: impl Fn(&Entry<'_>) -> bool) -> usize {
    let mut answer = |entries: &[Entry<'_>], answers: &mut Vec<Survival>| {
        answers.extend(entries.iter().map(|entry| survives(entry).into()));
    };
    let mut compactor = opened.log.begin_compaction(|| Ok::<_, Error>(())).unwrap().unwrap();
    let shares = compactor.shares(64, &mut answer).unwrap();
    let plan = CompactionPlan::of(&shares, opened.log.settings().segment_bytes, 50);
    for run in &plan.runs {
        compactor.compact(*run, &mut answer).unwrap();
    }
    plan.runs.len()
}

/// The files of compacted segments: the packed ones, by their version, and the others.
fn compacted(snapshot: &Snapshot) -> (Vec<String>, Vec<String>) {
    let segments = snapshot.segments().into_iter();
    segments.filter(|name| snapshot.files[name].starts_with(b"QUIRECMP")).partition(|name| snapshot.files[name][8] == 2)
}

fn bytes(snapshot: &Snapshot) -> usize {
    let (packed, plain) = compacted(snapshot);
    packed.iter().chain(&plain).map(|name| snapshot.files[name].len()).sum()
}

/// The offset of each frame in the file of a packed segment, as the format page defines it.
fn frames(file: &[u8]) -> Vec<usize> {
    let u32_at = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().unwrap()) as usize;
    let (count, dictionary) = (u32_at(96), u32_at(100));
    let ends = (0..count).map(|frame| u32_at(112 + frame * 12 + 4));
    std::iter::once(112 + count * 12 + dictionary).chain(ends).take(count).collect()
}

#[test]
fn packing_is_a_setting_and_saves_space() {
    let left = [true, false].map(|pack_segments| {
        let (shard, opened) = ready(Settings { pack_segments, ..packing() }, 600);
        let done = compact(&opened, is_even).unwrap();
        let snapshot = shard.snapshot();
        assert_eq!(done.bytes_after, bytes(&snapshot) as u64);
        let (packed, plain) = compacted(&snapshot);
        assert_eq!((packed.len(), plain.len()), if pack_segments { (1, 0) } else { (0, 1) });
        let whole = contents(&opened.log.reader());
        drop(opened);
        for shard in [snapshot.shard(), snapshot.without_indexes().shard()] {
            assert_eq!(contents(&shard.open().log.reader()), whole);
            assert_eq!(shard.snapshot().files[&snapshot.segments()[0]], snapshot.files[&snapshot.segments()[0]]);
        }
        (bytes(&snapshot), whole)
    });
    let [(packed, with), (plain, without)] = left;
    assert_eq!(with, without);
    assert!(packed * 3 < plain, "{packed} of {plain} bytes");
}

/// Incompressible bytes, different for each number.
fn noise(number: u64, bytes: usize) -> Vec<u8> {
    let mut state = number;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as u8
    };
    (0..bytes).map(|_| next()).collect()
}

#[test]
fn a_segment_with_a_wrong_estimate_is_tried_once() {
    const RECORDS: u64 = 130;
    let settings = Settings { segment_bytes: 2 << 20, ..packing() };
    let (shard, mut opened) = ready(settings, 0);
    // A record takes 16,056 bytes. Exactly the 8 evenly spread records that an estimate samples are
    // compressible.
    for number in 0..RECORDS {
        let is_looked_at = (0..8).any(|piece| piece * RECORDS / 8 == number);
        let body = if is_looked_at { vec![7; 16_000] } else { noise(number, 16_000) };
        append(&mut opened.writer, &[Item::plain(&["n"], body)]);
    }
    append(&mut opened.writer, &[Item::plain(&["n"], vec![7; 16_000])]);
    checkpoint(&opened);
    append(&mut opened.writer, &[Item::plain(&["n"], "")]);
    checkpoint(&opened);
    opened.log.sync().unwrap();
    while opened.log.carry_out(quire_log::LogDuty::Seal).unwrap() {}
    let before = shard.snapshot();
    assert_eq!(before.segments().len(), 2);
    assert_eq!(carry_out_plan(&opened, |_| true), 1, "it is tried");
    assert_eq!(carry_out_plan(&opened, |_| true), 0, "and not again");
    before.assert_unchanged(&shard);
    // A rewrite for another reason does not pack the segment either.
    compact(&opened, is_even).unwrap();
    assert_eq!(compacted(&shard.snapshot()).0.len(), 0);
}

#[test]
fn a_compressible_segment_is_packed_once_and_others_never() {
    let (mut shard, mut opened) = ready(Settings { pack_segments: false, ..packing() }, 400);
    // Incompressible segments follow, and then more compressible ones.
    for number in 0..100 {
        append(&mut opened.writer, &[Item::plain(&["noise"], noise(number, 3000))]);
    }
    for number in 1..=400 {
        append(&mut opened.writer, &[Item::plain(&["even"], format!("body of {number} ").repeat(30))]);
    }
    for _ in 0..2 {
        append(&mut opened.writer, &[Item::plain(&["even"], "of no size")]);
        checkpoint(&opened);
    }
    opened.log.sync().unwrap();
    while opened.log.carry_out(quire_log::LogDuty::Seal).unwrap() {}
    let whole = contents(&opened.log.reader());
    // Some segments are compacted before packing is enabled.
    let run = {
        let mut all =
            |entries: &[Entry<'_>], answers: &mut Vec<Survival>| answers.resize(entries.len(), Survival::Whole);
        let mut compactor = opened.log.begin_compaction(|| Ok::<_, Error>(())).unwrap().unwrap();
        let first = compactor.shares(1, &mut all).unwrap()[0];
        compactor.compact(quire_log::SegmentRun { first: first.first, end: first.end }, &mut all).unwrap()
    };
    assert_eq!((run.segments, compacted(&shard.snapshot()).1.len()), (1, 1));
    assert_eq!(carry_out_plan(&opened, |_| true), 0, "it is off");
    drop(opened);
    shard.settings.pack_segments = true;
    for round in 0..3 {
        let opened = shard.open();
        let before = shard.snapshot();
        let runs = carry_out_plan(&opened, |_| true);
        assert_eq!(runs > 0, round == 0, "opening {round}");
        assert_eq!(carry_out_plan(&opened, |_| true), 0, "opening {round}, again");
        assert_eq!(contents(&opened.log.reader()), whole);
        let (packed, plain) = compacted(&shard.snapshot());
        assert!(packed.len() > 4 && plain.is_empty(), "{packed:?}, {plain:?}");
        let sealed = before.segments().len() - 1;
        assert!(packed.len() < sealed - 3, "noise stays as it is: {} of {sealed}", packed.len());
        if round > 0 {
            before.assert_unchanged(&shard);
        }
    }
    // With packing disabled, packed segments stay packed, also when they are rewritten.
    shard.settings.pack_segments = false;
    let opened = shard.open();
    assert_eq!(carry_out_plan(&opened, |_| true), 0);
    let (before, _) = compacted(&shard.snapshot());
    let bytes_of = |shard: &Shard, names: &[String]| {
        let files = shard.snapshot().files;
        names.iter().map(|name| files[name].len()).sum::<usize>()
    };
    let before_bytes = bytes_of(&shard, &before);
    assert!(carry_out_plan(&opened, |entry| entry.place.position > Position::new(150) || is_even(entry)) > 0);
    let (packed, plain) = compacted(&shard.snapshot());
    assert!(plain.is_empty() && packed.len() <= before.len(), "{packed:?}, {plain:?}");
    assert!(bytes_of(&shard, &packed) < before_bytes, "what was dropped is gone");
    let half = |read: &&Read| read.place.position > Position::new(150) || read.place.position.get().is_multiple_of(2);
    let found = contents(&opened.log.reader());
    assert!(whole.iter().filter(half).all(|read| found.contains(read)));
}

#[test]
fn every_flipped_or_missing_byte_of_a_packed_segment_is_detected() {
    let (shard, opened) = ready(packing(), 500);
    compact(&opened, |entry| entry.place.position.get() % 3 == 0).unwrap();
    let whole = contents(&opened.log.reader());
    drop(opened);
    let snapshot = shard.snapshot();
    let name = snapshot.segments().remove(0);
    let length = snapshot.files[&name].len();
    let behind_table = frames(&snapshot.files[&name])[0];
    assert!(frames(&snapshot.files[&name]).len() > 2, "some frames");
    // Every byte of header and table, and a sample of the compressed bytes.
    for at in (0..behind_table).chain((behind_table..length).step_by(11)) {
        let flipped = snapshot.with(&name, |file| file[at] ^= 1 << (at % 8));
        let shard = flipped.shard();
        let opened = shard.open();
        let (reader, mut refused) = (opened.log.reader(), 0);
        for expected in &whole {
            match reader.entry(expected.place) {
                Ok(found) => assert_eq!(found.map(Read::from).as_ref(), Some(expected)),
                Err(error) => {
                    assert!(error.to_string().contains(&name), "{error}");
                    refused += 1;
                }
            }
        }
        // The last frame may hold only the numbers.
        let is_last = at >= *frames(&snapshot.files[&name]).last().unwrap();
        assert!((refused > 0 || is_last) && refused < whole.len(), "byte {at}: {refused}");
        assert!(at >= behind_table || opened.log.damage().iter().any(|damage| damage.path.ends_with(&name)));
        assert!(matches!(flipped.without_indexes().shard().try_open(), Err(Error::Damaged { .. })), "byte {at}");
    }
    for cut in (0..length).step_by(97).chain([63, 64, 95, 96, 111, 112, length - 1]) {
        let cut = snapshot.with(&name, |file| file.truncate(cut));
        let opened = cut.shard().open();
        let [damage] = &opened.log.damage()[..] else { panic!("one is cut: {:?}", opened.log.damage()) };
        assert!(damage.path.ends_with(&name), "{damage}");
        assert!(matches!(cut.without_indexes().shard().try_open(), Err(Error::Damaged { .. })));
    }
}

#[test]
fn damage_in_one_frame_is_named_and_everything_else_is_read_and_compacted() {
    let (shard, opened) = ready(packing(), 900);
    // Two packed segments, so that one can be rewritten.
    assert!(carry_out_plan(&opened, is_even) > 1);
    let whole = contents(&opened.log.reader());
    drop(opened);
    let snapshot = shard.snapshot();
    let (packed, _) = compacted(&snapshot);
    assert!(packed.len() > 1);
    let begin = frames(&snapshot.files[&packed[0]])[1];
    let flipped = snapshot.with(&packed[0], |file| file[begin + 40] ^= 16);
    let shard = flipped.shard();
    let opened = shard.open();
    let reader = opened.log.reader();
    let refused: Vec<_> = whole.iter().filter(|read| reader.entry(read.place).is_err()).collect();
    assert!(!refused.is_empty() && refused.len() < whole.len() / 4);
    assert!(refused.windows(2).all(|pair| pair[0].place < pair[1].place));
    let damage = opened.log.damage();
    assert!(
        damage.iter().all(|damage| damage.path.ends_with(&packed[0]) && damage.offset == begin as u64),
        "{damage:?}"
    );
    assert_eq!(damage[0].position, Some(refused[0].place.position));
    drop((reader, opened));
    // The scrub finds the damage, too.
    let shard = flipped.shard();
    let opened = shard.open();
    assert_eq!(opened.log.damage(), []);
    let offsets = |all: &[Damage]| all.iter().map(|it| (it.offset, it.position)).collect::<Vec<_>>();
    assert_eq!(offsets(&opened.log.scrub()), offsets(&damage));
    // The unreadable run stays unchanged, and the other runs are rewritten.
    let before = shard.snapshot();
    assert!(matches!(compact(&opened, |_| false), Err(Error::Unreadable(_))));
    before.assert_unchanged(&shard);
    assert!(carry_out_plan(&opened, |_| false) > 0);
    let reader = opened.log.reader();
    assert!(reader.entry(refused[0].place).is_err());
    assert!(reader.next(&[], Place::START).unwrap().is_some());
}

#[test]
fn a_table_that_is_damaged_while_its_segment_is_closed_is_named() {
    let (mut shard, opened) = ready(packing(), 900);
    assert!(carry_out_plan(&opened, |_| true) > 1);
    drop(opened);
    let (packed, _) = compacted(&shard.snapshot());
    shard.settings.segments_open_max = 1;
    let opened = shard.open();
    // The limit keeps another segment than the first open.
    assert!(opened.log.reader().entry(Place::new(Position::new(400), 0)).unwrap().is_some());
    let path = shard.path().join(&packed[0]);
    let mut file = std::fs::read(&path).unwrap();
    file[120] ^= 1;
    std::fs::write(&path, file).unwrap();
    let error = opened.log.reader().entry(Place::new(Position::new(2), 0)).unwrap_err();
    assert!(error.to_string().contains(&packed[0]) && error.to_string().contains("table of frames"), "{error}");
    let [damage] = &opened.log.scrub()[..] else { panic!("one table is damaged: {:?}", opened.log.damage()) };
    assert!(damage.path.ends_with(&packed[0]) && damage.offset == 96);
}

#[test]
fn a_packed_segment_of_a_newer_version_is_named_and_not_touched() {
    let (shard, opened) = ready(packing(), 300);
    compact(&opened, is_even).unwrap();
    drop(opened);
    let (packed, _) = compacted(&shard.snapshot());
    let newer = shard.snapshot().with(&packed[0], |file| {
        file[8] = 3;
        let crc = quire_log::crc32c(&[&file[..12], &file[16..96]].concat());
        file[12..16].copy_from_slice(&crc.to_le_bytes());
    });
    let shard = newer.shard();
    match shard.try_open() {
        Err(Error::NewerFormat { path, version: 3, supported: 2 }) => assert!(path.ends_with(&packed[0])),
        other => panic!("it is of a newer version: {other:?}"),
    }
    newer.assert_unchanged(&shard);
}

#[test]
fn payloads_that_resemble_packed_segments_are_payloads() {
    // A packed segment, and a Zstandard frame of it.
    let (shard, opened) = ready(packing(), 300);
    compact(&opened, is_even).unwrap();
    drop(opened);
    let snapshot = shard.snapshot();
    let (packed, _) = compacted(&snapshot);
    let file = snapshot.files[&packed[0]].clone();
    let frame = file[frames(&file)[0]..].to_vec();
    assert!(frame.starts_with(&0xFD2F_B528_u32.to_le_bytes()));
    let bodies: Vec<Vec<u8>> = vec![
        file.clone(),
        frame,
        Vec::new(),
        b"QUIRECMP".to_vec(),
        file[..112].to_vec(),
        file[96..].to_vec(),
        // More than one frame.
        b"a long one ".repeat(5000),
        vec![0; 50_000],
        vec![0xFF; 8],
    ];
    let shard = Shard::new(packing());
    let mut opened = shard.open();
    for round in 0..40_usize {
        append(&mut opened.writer, &[Item::plain(&["all"], bodies[round % bodies.len()].clone())]);
    }
    checkpoint(&opened);
    let whole = contents(&opened.log.reader());
    let done = compact(&opened, is_even).unwrap();
    assert!(done.bytes_after * 4 < done.bytes_before, "{done:?}");
    let end = opened.log.compacted_end();
    assert!(end > Position::new(20));
    let expected: Vec<_> = whole
        .into_iter()
        .filter(|read| read.place.position >= end || read.place.position.get().is_multiple_of(2))
        .collect();
    drop(opened);
    for shard in [shard.snapshot().shard(), shard.snapshot().without_indexes().shard()] {
        let opened = shard.open();
        assert_eq!(contents(&opened.log.reader()), expected);
        let reader = opened.log.reader();
        let (mut before, mut backward) = (Place::END, Vec::new());
        while let Some(entry) = reader.previous(&[Tag::new(b"all")], before).unwrap() {
            before = entry.place;
            backward.push(Read::from(entry));
        }
        backward.reverse();
        assert_eq!(backward, expected);
    }
}

#[test]
fn unpacked_bytes_stay_within_their_limit() {
    const BOUND: u64 = 100_000;
    let (mut shard, opened) = ready(packing(), 3000);
    assert!(carry_out_plan(&opened, |_| true) > 10);
    assert!(compacted(&shard.snapshot()).0.len() > 10);
    let whole = contents(&opened.log.reader());
    drop(opened);
    for (bound, within) in [(BOUND, true), (u64::MAX, false)] {
        shard.settings.unpacked_bytes_max = bound;
        let mut opened = shard.open();
        for read in whole.iter().step_by(7) {
            let reader = opened.log.reader();
            assert_eq!(reader.entry(read.place).unwrap().map(Read::from).as_ref(), Some(read));
            drop(reader);
            assert!(!within || opened.log.statistics().unpacked_bytes <= BOUND);
        }
        assert_eq!(opened.log.statistics().unpacked_bytes <= BOUND, within);
        // A reader keeps its unpacked frames, here all of them, and releases them at the end.
        let reader = opened.log.reader();
        assert_eq!(contents(&reader), whole);
        assert!(opened.log.statistics().unpacked_bytes > 1_000_000);
        drop(reader);
        assert_eq!(opened.log.statistics().unpacked_bytes <= BOUND, within);
        // The writer's own reader does not live as long as the writer.
        assert_eq!(contents(opened.writer.begin().unwrap().0), whole);
        assert!(opened.log.statistics().unpacked_bytes > 1_000_000);
        drop(opened.writer.begin().unwrap());
        assert_eq!(opened.log.statistics().unpacked_bytes <= BOUND, within);
        // A scrub, a compaction and a plan leave no unpacked frames.
        assert_eq!(opened.log.scrub(), []);
        carry_out_plan(&opened, |_| true);
        assert!(!within || opened.log.statistics().unpacked_bytes <= BOUND);
        compact(&opened, |_| true).unwrap();
        assert!(!within || opened.log.statistics().unpacked_bytes <= BOUND);
    }
}

#[test]
fn a_search_for_a_number_unpacks_no_segment_that_ends_before_it() {
    skips_segments_that_end_before(0);
}

#[test]
fn a_search_with_many_numbered_tags_unpacks_no_segment_that_ends_before_it() {
    skips_segments_that_end_before(200);
}

/// Searches for numbers of a tag in segments in which `others` other tags have numbers, too.
fn skips_segments_that_end_before(others: usize) {
    const RECORDS: u64 = 300;
    const BYTES: usize = 45_000;
    let shard = Shard::new(packing());
    let mut opened = shard.open();
    // One segment for each record, too many for a complete list of each tag's first numbers.
    for number in 0..RECORDS {
        let mut entries = vec![Item::numbered("large", 1, format!("{number:05}").repeat(BYTES / 5))];
        entries.extend((0..others).map(|other| Item::numbered(&format!("another one {other}"), 1, b"o")));
        append(&mut opened.writer, &entries);
    }
    checkpoint(&opened);
    opened.log.sync().unwrap();
    while opened.log.carry_out(quire_log::LogDuty::Seal).unwrap() {}
    let mut all = |entries: &[Entry<'_>], answers: &mut Vec<Survival>| {
        answers.extend(entries.iter().map(|_| Survival::Whole));
    };
    let mut compactor = opened.log.begin_compaction(|| Ok::<_, Error>(())).unwrap().unwrap();
    for share in compactor.shares(u32::MAX, &mut all).unwrap() {
        compactor.compact(SegmentRun { first: share.first, end: share.end }, &mut all).unwrap();
    }
    drop(compactor);
    let (packed, _) = compacted(&shard.snapshot());
    assert!(packed.len() as u64 >= RECORDS - 5, "{}", packed.len());
    drop(opened);
    let opened = shard.open();
    for number in (1..RECORDS - 5).step_by(7) {
        let before = opened.log.statistics().unpacked_bytes;
        let reader = opened.log.reader();
        let found = reader.seek(Tag::new(b"large"), Sequence::new(number)).unwrap().unwrap();
        assert_eq!(found.sequence, Some(Sequence::new(number)));
        let unpacked = opened.log.statistics().unpacked_bytes - before;
        assert!(unpacked < 2 * BYTES as u64, "{unpacked} bytes for number {number}");
    }
}

#[test]
fn unpacked_bytes_are_released_under_a_steady_flow_of_readers() {
    const BOUND: u64 = 256 << 10;
    let settings = Settings { segment_bytes: 4 << 20, unpacked_bytes_max: BOUND, ..packing() };
    let shard = Shard::new(settings);
    let mut opened = shard.open();
    for number in 0..9000 {
        append(&mut opened.writer, &[Item::numbered("all", 1, format!("body of {number} ").repeat(50))]);
    }
    for _ in 0..2 {
        append(&mut opened.writer, &[Item::plain(&["even"], "of no size")]);
        checkpoint(&opened);
    }
    opened.log.sync().unwrap();
    while opened.log.carry_out(quire_log::LogDuty::Seal).unwrap() {}
    assert!(carry_out_plan(&opened, |_| true) > 0);
    // Each reader begins before the previous one has ended.
    let mut reader = opened.log.reader();
    let mut most = 0;
    for number in 1..4000 {
        let next = opened.log.reader();
        let found = next.seek(Tag::new(b"all"), Sequence::new(number)).unwrap().unwrap();
        assert_eq!(found.body, format!("body of {} ", number - 1).repeat(50).as_bytes());
        most = most.max(opened.log.statistics().unpacked_bytes);
        reader = next;
    }
    drop(reader);
    assert!(most > BOUND && most < 3 * BOUND, "{most} bytes");
}

#[test]
fn a_lost_index_of_a_packed_segment_is_rebuilt_and_its_memory_released() {
    let (shard, opened) = ready(packing(), 900);
    carry_out_plan(&opened, is_even);
    let whole = contents(&opened.log.reader());
    drop(opened);
    let snapshot = shard.snapshot();
    let mut lost = snapshot.without_indexes().shard();
    lost.settings.unpacked_bytes_max = 0;
    let opened = lost.open();
    assert_eq!(opened.log.statistics().unpacked_bytes, 0);
    let reader = opened.log.reader();
    assert_eq!(contents(&reader), whole);
    for number in (0..900_u64).step_by(31) {
        let found = reader.seek(Tag::new(b"numbers"), Sequence::new(number)).unwrap().map(Read::from);
        let expected = whole.iter().find(|read| read.sequence.is_some_and(|first| first.get() + 1 >= number));
        assert_eq!(found.as_ref(), expected, "number {number}");
    }
    drop(reader);
    assert_eq!(opened.log.statistics().unpacked_bytes, 0);
    for (name, bytes) in snapshot.files.iter().filter(|(name, _)| name.ends_with(".idx")) {
        assert!(lost.snapshot().files[name] == *bytes, "{name}");
    }
}

#[test]
fn inspecting_a_packed_segment_shows_its_records_and_continues_after_damage() {
    use quire_log::inspect::{InspectedSegment, Stretch};
    let (shard, opened) = ready(packing(), 600);
    compact(&opened, is_even).unwrap();
    let whole = contents(&opened.log.reader());
    drop(opened);
    let snapshot = shard.snapshot();
    let (packed, _) = compacted(&snapshot);
    let look = |shard: &Shard| {
        let segment = InspectedSegment::read(
            &(std::sync::Arc::new(quire_log::Disk) as _),
            &shard.path().join(&packed[0]),
            Some(IDENTITY),
        )
        .unwrap();
        let (mut entries, mut damage, mut ended) = (Vec::new(), Vec::new(), false);
        segment.stretches(|stretch| {
            match stretch {
                Stretch::Record(record) => entries.extend(record.entries().map(Read::from)),
                Stretch::Damaged { offset, position, message, next, .. } => {
                    damage.push((offset as usize, position, message, next));
                }
                Stretch::End { .. } => ended = true,
            }
            true
        });
        assert!(segment.unpacked_bytes().unwrap() > segment.bytes().len() as u64);
        (entries, damage, ended)
    };
    let (entries, damage, ended) = look(&shard);
    assert!(entries.len() > 100 && damage.is_empty() && ended);
    assert_eq!(entries, whole[..entries.len()]);
    let begin = frames(&snapshot.files[&packed[0]]);
    let flipped = snapshot.with(&packed[0], |file| file[begin[1] + 30] ^= 1).shard();
    let (rest, damage, ended) = look(&flipped);
    let [(offset, position, message, Some((next, from)))] = &damage[..] else { panic!("one frame: {damage:?}") };
    assert_eq!((*offset, *next), (begin[1], begin[2] as u64));
    assert!(ended && message.contains("frame"), "{message}");
    let left: Vec<_> = entries
        .iter()
        .filter(|read| read.place.position < *position || read.place.position >= *from)
        .cloned()
        .collect();
    assert!(left.len() < entries.len() && left.len() > entries.len() / 2);
    assert_eq!(rest, left);
}
