//! Scans: the entries of single reads, also beside damage and while segments are replaced.
//!
//! [`crate::oracle`] compares scans with the naive log over random histories.

use std::ops::{ControlFlow, Range};

use quire_log::{Durability, LogDuty, Settings};
use quire_model::{Entry, History, Place, Position, StepBudget, Tag};

use crate::compaction::{checkpoint, compact, is_even};
use crate::shard::{BOTH, Item, Read, Shard, append, contents, extend, filled, settings};

/// Returns the entries that a scan of these places passes, at most `most` of them.
pub(crate) fn scanned(history: &dyn History, tags: &[Tag<'_>], places: Range<Place>, most: usize) -> Vec<Read> {
    let mut found = Vec::new();
    history
        .scan(tags, places.start, places.end, &mut |entry| {
            found.push(Read::from(*entry));
            if found.len() < most { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })
        .unwrap();
    found
}

fn has_tag(read: &Read, tag: &[u8]) -> bool {
    read.tags.iter().any(|own| own == tag)
}

#[test]
fn a_scan_continues_while_segments_are_sealed_compacted_and_packed() {
    for durability in BOTH {
        let shard = Shard::new(Settings { pack_segments: true, ..settings(durability) });
        let mut opened = shard.open();
        extend(&mut opened, 60);
        // One reader stays as it is. Another one begins for each part.
        let (reader, whole) = (opened.log.reader(), contents(&opened.log.reader()));
        let (mut pinned, mut from) = (Vec::new(), Place::START);
        for step in 0..6 {
            let part = scanned(&reader, &[], from..Place::END, 30);
            let left = contents(&opened.log.reader()).into_iter().filter(|read| read.place >= from);
            let left: Vec<Read> = left.take(30).collect();
            assert_eq!(left == part, step < 3, "step {step}: a new reader shows no dropped entry");
            assert_eq!(scanned(&opened.log.reader(), &[], from..Place::END, 30), left);
            from = part.last().unwrap().place.after();
            pinned.extend(part);
            match step {
                0 => {
                    opened.log.sync().unwrap();
                    while opened.log.carry_out(LogDuty::Seal).unwrap() {}
                }
                1 => checkpoint(&opened),
                // The files that the reader has not opened yet are removed.
                2 => assert!(compact(&opened, is_even).unwrap().segments > 0),
                _ => {}
            }
        }
        assert_eq!(pinned, whole, "the reader shows what it showed when it began");
    }
}

#[test]
fn a_scan_in_each_opening_has_the_entries_of_its_single_reads() {
    for durability in BOTH {
        let (shard, mut opened) = filled(durability, 60);
        let whole = contents(&opened.log.reader());
        let other = shard.open();
        assert_eq!(scanned(&other.log.reader(), &[], Place::START..Place::END, 999), whole);
        append(&mut opened.writer, &[Item::plain(&["all"], "a late one")]);
        opened.log.reach(Position::new(61)).unwrap();
        drop(opened);
        for tags in [&[][..], &[Tag::new(b"all")], &[Tag::new(b"even"), Tag::new(b"all")], &[Tag::new(b"none")]] {
            let (first, last) = (Place::new(Position::new(7), 1), Place::new(Position::new(61), 1));
            let carries = |read: &Read| tags.iter().all(|tag| has_tag(read, tag.as_bytes()));
            let expected = contents(&shard.open().log.reader()).into_iter();
            let expected: Vec<Read> = expected.filter(|read| read.place >= first && carries(read)).collect();
            assert_eq!(scanned(&shard.open().log.reader(), tags, first..last, 999), expected);
        }
    }
}

#[test]
fn a_scan_along_a_tag_passes_damage_of_other_entries_and_no_scan_skips_its_own() {
    let shard = Shard::new(settings(Durability::Os));
    let mut opened = shard.open();
    for number in 1..=400 {
        let tag = if number % 3 == 1 { "rare" } else { "often" };
        append(&mut opened.writer, &[Item::plain(&[tag], format!("body of {number}"))]);
    }
    let whole = contents(&opened.log.reader());
    drop(opened);
    let snapshot = shard.snapshot();
    // Both modes of a scan find the damage: at first, it reads along the index.
    for number in [4, 40, 151] {
        let (name, bytes) = &snapshot.records()[number as usize - 1];
        let damaged = Position::new(number);
        let shard = snapshot.with(name, |file| file[bytes.end - 9] ^= 1).shard();
        let opened = shard.open();
        let reader = opened.log.reader();
        let of_tag = |tag: &[u8]| whole.iter().filter(|read| has_tag(read, tag)).cloned().collect::<Vec<_>>();
        assert_eq!(scanned(&reader, &[Tag::new(b"often")], Place::START..Place::END, 999), of_tag(b"often"));
        for (tags, all) in [(&[][..], &whole), (&[Tag::new(b"rare")], &of_tag(b"rare"))] {
            let mut found = Vec::new();
            let mut visit = |entry: &Entry<'_>| {
                found.push(Read::from(*entry));
                ControlFlow::Continue(())
            };
            let error = reader.scan(tags, Place::START, Place::END, &mut visit).unwrap_err();
            assert_eq!(error.place, Some(Place::new(damaged, 0)));
            let at = all.iter().position(|read| read.place.position == damaged).unwrap();
            assert_eq!(found, all[..at]);
            // The damage is outside of these ranges.
            assert_eq!(scanned(&reader, tags, Place::START..Place::new(damaged, 0), 999), all[..at]);
            assert_eq!(scanned(&reader, tags, Place::new(damaged, 1)..Place::END, 999), all[at + 1..]);
        }
    }
}

#[test]
fn a_scan_claims_its_steps_and_names_the_place_where_it_continues() {
    let (_shard, opened) = filled(Durability::Os, 400);
    let whole = contents(&opened.log.reader());
    for tags in [&[][..], &[Tag::new(b"all")]] {
        let (mut found, mut from, mut parts) = (Vec::new(), Place::START, 0);
        loop {
            let reader = opened.log.reader().within(Some(StepBudget::new(300)));
            let mut visit = |entry: &Entry<'_>| {
                found.push(Read::from(*entry));
                ControlFlow::Continue(())
            };
            let Err(error) = reader.scan(tags, from, Place::END, &mut visit) else { break };
            let reached = error.reached_place().expect("the budget is exceeded");
            assert!(reached > from, "a scan within a budget makes progress");
            found.retain(|read| read.place < reached);
            (from, parts) = (reached, parts + 1);
        }
        let expected: Vec<Read> =
            whole.iter().filter(|read| tags.iter().all(|tag| has_tag(read, tag.as_bytes()))).cloned().collect();
        assert_eq!(found, expected);
        assert!(parts > 0, "{parts} parts");
    }
}
