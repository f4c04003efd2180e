//! Entries whose bodies a compaction replaces keep their places, tags and numbers, and are verified
//! like all other entries.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use quire_log::{Compaction, Error, LogDuty, OpenedLog, SegmentRun, Settings, Survival};
use quire_model::{Entry, History, Place, Position, Sequence, Tag};

use crate::compaction::{checkpoint, open_dying};
use crate::shard::{BOTH, Item, Read, Shard, append, contents, filled, settings};

/// Replaces the bodies for which `other` returns another, in one run of all compactable segments.
fn replace(opened: &OpenedLog, other: impl Fn(&Entry<'_>) -> Survival) -> Result<Compaction, Error> {
    opened.log.sync()?;
    while opened.log.carry_out(LogDuty::Seal)? {}
    let mut answer = |entries: &[Entry<'_>], answers: &mut Vec<Survival>| answers.extend(entries.iter().map(&other));
    let mut compactor = opened.log.begin_compaction(|| Ok::<_, Error>(()))?.expect("nobody else compacts");
    let shares = compactor.shares(u32::MAX, &mut answer)?;
    let (Some(first), Some(last)) = (shares.first(), shares.last()) else { return Ok(Compaction::default()) };
    compactor.compact(SegmentRun { first: first.first, end: last.end }, &mut answer)
}

/// Removes half of the first body of each sample record, and the last entry of every second record.
fn shorter(entry: &Entry<'_>) -> Survival {
    match (entry.place.index, entry.place.position.get() % 2) {
        (0 | 1, _) => Survival::Body(entry.body[..entry.body.len() / 2].to_vec()),
        (_, 0) => Survival::Nothing,
        _ => Survival::Whole,
    }
}

/// Returns the expected entries after such a compaction of the records before `end`.
fn shortened(whole: &[Read], end: Position) -> Vec<Read> {
    let is_left =
        |read: &&Read| read.place.position >= end || read.place.index < 2 || read.place.position.get() % 2 == 1;
    let left = whole.iter().filter(is_left).cloned();
    left.map(|mut read| {
        if read.place.position < end && read.place.index < 2 {
            read.body.truncate(read.body.len() / 2);
        }
        read
    })
    .collect()
}

#[test]
fn a_crash_at_any_step_leaves_the_old_bodies_or_the_new_ones() {
    for durability in BOTH {
        let (shard, opened) = filled(durability, 60);
        checkpoint(&opened);
        let whole = contents(&opened.log.reader());
        drop(opened);
        let snapshot = shard.snapshot();
        for step in 0.. {
            let shard = snapshot.shard();
            let left = Arc::new(AtomicI64::new(i64::MAX));
            let opened = open_dying(shard.path(), &shard, Arc::clone(&left));
            left.store(step, Ordering::SeqCst);
            let done = replace(&opened, shorter).is_ok();
            drop(opened);
            let opened = shard.open();
            let end = opened.log.compacted_end();
            let expected = shortened(&whole, end);
            assert_eq!(contents(&opened.log.reader()), expected, "step {step}");
            drop(opened);
            // The result is the same without the index.
            let opened = shard.snapshot().without_indexes().shard();
            let opened = opened.open();
            assert_eq!(contents(&opened.log.reader()), expected, "step {step}");
            let found = opened.log.reader().seek(Tag::new(b"numbers"), Sequence::new(20)).unwrap().map(Read::from);
            assert_eq!(
                found.as_ref(),
                expected.iter().find(|read| read.sequence.is_some_and(|first| first.get() + 1 >= 20))
            );
            if done {
                assert!(end > Position::ZERO && step > 6);
                break;
            }
        }
    }
}

#[test]
fn a_large_body_that_is_replaced_carries_a_checksum_of_its_own_and_no_flip_goes_unnoticed() {
    let large = Settings { segment_bytes: 1 << 20, record_bytes_max: 1 << 19, ..settings(quire_log::Durability::Os) };
    let shard = Shard::new(large);
    let mut opened = shard.open();
    let body: Vec<u8> = (0..200_000_u32).map(|at| (at ^ at >> 8) as u8).collect();
    for _ in 0..12 {
        append(&mut opened.writer, &[Item::covered(&["large"], body.clone())]);
    }
    checkpoint(&opened);
    let done = replace(&opened, |entry| Survival::Body(entry.body[..100_000].to_vec())).unwrap();
    assert!(done.bytes_after * 3 < done.bytes_before * 2, "{done:?}");
    let first = Place::new(Position::new(1), 0);
    assert_eq!(opened.log.reader().entry(first).unwrap().unwrap().body, &body[..100_000]);
    drop(opened);
    let opened = shard.open();
    assert_eq!(opened.log.reader().entry(first).unwrap().unwrap().body, &body[..100_000]);
    drop(opened);
    let snapshot = shard.snapshot();
    let name = snapshot.segments().remove(0);
    for at in [200, 5_000, 99_000] {
        let flipped = snapshot.with(&name, |file| file[at] ^= 4).without_indexes().shard();
        let is_noticed = match flipped.try_open() {
            Err(Error::Damaged { path, .. }) => path.ends_with(&name),
            Err(error) => panic!("{error}"),
            Ok(opened) => opened.log.reader().entry(first).is_err(),
        };
        assert!(is_noticed, "at byte {at}");
    }
}
