//! Compaction: a run of sealed segments is rewritten into one that holds the entries that still count, under their old places.
//!
//! ```text
//! what is known of each segment ─▶ CompactionPlan ─▶ for each run: read, verify, ask what survives
//!        ─▶ sync ─▶ <first>.log.new, whole and durable ─▶ renamed ─▶ index ─▶ the list changes ─▶ the other files go
//! ```
//!
//! With [`Settings::pack_segments`](crate::Settings::pack_segments) what is left is packed, and that is a reason of its own to rewrite a segment.
//!
//! The log knows no model: who asks for a compaction says what of each entry survives. Only records before the oldest checkpoint
//! that is kept are touched, so that a restart never replays what has gaps. A reader that was there before keeps the old
//! segments mapped, and reads them to its end; others that have the log open are asked to do so first.

mod plan;
mod remains;
mod round;

use std::sync::{Arc, PoisonError};

use quire_model::{Entry, Position};

pub use plan::{CompactionPlan, Run, Share};
pub(crate) use round::Rounds;

use crate::components::Background;
use crate::durable::checkpoint;
use crate::error::{Error, Result};
use crate::log::{Log, Shared};
use crate::packed::{self, pack};
use crate::sealed::{Flaw, Open, Sealed, index_name};
use crate::segment::{Compacted, SegmentHeader, segment_name};
use crate::storage::directory::LockedFile;
use remains::Remains;

/// Says of entries what is left of them: one answer for each, in their order. What is said not to survive must never count again,
/// whatever is committed later.
pub type Survives<'s> = dyn FnMut(&[Entry<'_>], &mut Vec<Survival>) + 's;

/// What a compaction leaves of an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Survival {
    /// All of it.
    Whole,
    /// Nothing.
    Nothing,
    /// Another body, under its tags and numbers.
    Body(Vec<u8>),
}

/// Whether it survives.
impl From<bool> for Survival {
    fn from(survives: bool) -> Self {
        if survives { Survival::Whole } else { Survival::Nothing }
    }
}

/// How many entries are asked about at a time, unless one record has more.
const ASKED_AT_ONCE: usize = 1024;

/// How many of the entries that are looked at of a packed segment stand next to each other: what is unpacked for one holds others.
const SAMPLED_TOGETHER: u32 = 8;

/// What a compaction did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Compaction {
    /// Segments that were rewritten.
    pub segments: u64,
    /// Entries that were dropped.
    pub entries_dropped: u64,
    /// The bytes of the files before.
    pub bytes_before: u64,
    /// The bytes of the one file after.
    pub bytes_after: u64,
}

impl std::ops::AddAssign for Compaction {
    fn add_assign(&mut self, other: Self) {
        self.segments += other.segments;
        self.entries_dropped += other.entries_dropped;
        self.bytes_before += other.bytes_before;
        self.bytes_after += other.bytes_after;
    }
}

/// The turn to compact: nobody else does while this lives.
#[derive(Debug)]
pub struct Compactor<'l> {
    shared: &'l Shared,
    /// Whether others were asked for what they may answer when nobody waits for it.
    asks: bool,
    _turn: LockedFile,
}

impl Log {
    /// Takes the turn to compact; `None` while another process, or thread, has it. `catch_up` takes in what was published by then, with
    /// [`Writer::follow`](crate::Writer::follow): the last one who had the turn may have dropped what does not count any more by that.
    ///
    /// # Errors
    /// Those of `catch_up`; [`Error::Io`] and [`Error::Damaged`]: it is not known what the last one who had the turn left.
    pub fn begin_compaction<E: From<Error>>(
        &self,
        catch_up: impl FnOnce() -> std::result::Result<(), E>,
    ) -> std::result::Result<Option<Compactor<'_>>, E> {
        let shared = &**self.shared();
        let Some(turn) = shared.compaction_turn()? else { return Ok(None) };
        catch_up()?;
        shared.settle(&shared.sealing().lock().unwrap_or_else(PoisonError::into_inner))?;
        Ok(Some(Compactor { shared, asks: false, _turn: turn }))
    }
}

impl Compactor<'_> {
    /// What is known of the sealed segments that may be compacted, by asking about at most `samples_max` entries of each: what a
    /// [`CompactionPlan`] is made of. They end before the oldest checkpoint that is kept.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn shares(&self, samples_max: u32, survives: &mut Survives<'_>) -> Result<Vec<Share>> {
        self.shared.shares(samples_max, survives)
    }

    /// How many of these runs, from the first on, may be rewritten as far as others that have the log open are concerned: all, when
    /// there are none; otherwise as many as they have said to hold the segments of. They are asked to, and waited for up to about two
    /// seconds; with [`Background::Caller`](crate::Background::Caller) they are asked, and have answered when this is called in a later turn.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn held_by_others(&mut self, runs: &[Run]) -> Result<usize> {
        let held = self.shared.held_by_others(runs)?;
        self.asks = held == 0 && self.shared.background() == Background::Caller;
        Ok(held)
    }

    /// The processes that have the log open and did not answer within the time that [`Compactor::held_by_others`] waits, when it said that
    /// none of the runs may be rewritten.
    pub fn unanswered(&self) -> Vec<u32> {
        if self.shared.background() == Background::Threads { self.shared.unanswered() } else { Vec::new() }
    }

    /// Rewrites a run of sealed segments into one without the entries that don't survive. All others keep their places, and
    /// every tag its numbers. A run that is not, or no longer, one of whole segments that may be compacted is left alone, and so
    /// is one that somebody who has the log open has not said to hold. Nobody opens the log meanwhile.
    ///
    /// What the answers of `survives` rest on is synced first. Once this returns, the bytes of what was dropped are in no file any
    /// more; readers that were there before have them until they are dropped.
    ///
    /// # Errors
    /// [`Error::Unreadable`] when a record is not as it was written: the run stays as it is. [`Error::NoSpace`], [`Error::Io`] and
    /// [`Error::Failed`].
    pub fn compact(&mut self, run: Run, survives: &mut Survives<'_>) -> Result<Compaction> {
        self.shared.compact(run, survives)
    }
}

impl Drop for Compactor<'_> {
    fn drop(&mut self) {
        if !self.asks {
            self.shared.end_round();
        }
    }
}

impl Shared {
    /// What is known of the segments that may be compacted, by asking about at most `samples_max` entries of each.
    fn shares(&self, samples_max: u32, survives: &mut Survives<'_>) -> Result<Vec<Share>> {
        let oldest = checkpoint::oldest(self.directory())?;
        let segments = self.segments();
        let within = segments.sealed.iter().take_while(|sealed| sealed.header.end <= oldest);
        let shares = within.map(|sealed| self.share(sealed, samples_max, survives)).collect();
        self.store().archive.settle_unpacked();
        shares
    }

    /// Behind the last of the segments that may be compacted.
    pub(crate) fn compactable_end(&self) -> Result<Position> {
        let oldest = checkpoint::oldest(self.directory())?;
        let segments = self.segments();
        let last = segments.sealed.iter().take_while(|sealed| sealed.header.end <= oldest).last();
        Ok(last.map_or(Position::ZERO, |sealed| sealed.header.end))
    }

    fn share(&self, sealed: &Sealed, samples_max: u32, survives: &mut Survives<'_>) -> Result<Share> {
        let archive = &self.store().archive;
        let (first, end) = (sealed.first(), sealed.header.end);
        let Ok(open) = archive.open(sealed) else {
            // It stays as it is, and may be gone.
            let bytes = self.directory().bytes_of(&segment_name(first)).unwrap_or(0);
            return Ok(Share { first, end, bytes, surviving: None, saved: 0, erases: false });
        };
        let bytes = open.image_bytes();
        let mut share = Share { first, end, bytes, surviving: None, saved: 0, erases: false };
        if let Ok(surviving) = surviving(&open, samples_max, survives) {
            // What a file has beside its records is no reason to rewrite it.
            share.surviving = Some(surviving.unwrap_or(bytes).min(bytes));
        }
        if self.settings().pack_segments {
            share.saved = sealed.saved_by_packing(|| saved(&open));
        }
        Ok(share)
    }

    /// Rewrites a run, if the segments that begin and end it are there and may be compacted.
    fn compact(&self, run: Run, survives: &mut Survives<'_>) -> Result<Compaction> {
        // Others would look for the files that go: all of them hold these, and nobody opens the log meanwhile.
        let _opening_lock = self.control().lock_opening(self.directory())?;
        let _sealing = self.sealing().lock().unwrap_or_else(PoisonError::into_inner);
        if !self.may_replace(run) || run.end > checkpoint::oldest(self.directory())? {
            return Ok(Compaction::default());
        }
        let (segments, archive) = (self.segments(), &self.store().archive);
        let Some(range) = segments.whole(run) else { return Ok(Compaction::default()) };
        let all = &segments.sealed[range.clone()];
        let last = all[all.len() - 1].header;
        let mut done = Compaction { segments: all.len() as u64, ..Compaction::default() };
        let of = self.segment_header(&all[0])?;
        // What is packed stays packed, whoever rewrites it: unpacked it may take more than the disk has.
        let mut packs = self.settings().pack_segments;
        let mut remains = Remains::new(of.previous);
        for sealed in all {
            let open = archive.open(sealed)?;
            packs |= open.is_packed();
            archive.numbered(sealed, |all| remains.count(all))?;
            done.bytes_before += self.directory().bytes_of(&segment_name(sealed.first()))?;
            let dropped = rewrite(&open, &mut remains, survives).map_err(|flaw| archive.tell(sealed, flaw))?;
            done.entries_dropped += dropped;
            if remains.bytes() as u64 > u64::from(u32::MAX) / 2 {
                return Ok(Compaction::default());
            }
        }
        let stays = all.len() == 1 && !remains.changed();
        let compacted = Compacted { end: last.end, chain: last.chain, last_time: last.time, records: 0, packed: None };
        let file = match (remains.finish(of, compacted), packs) {
            ((image, header), true) => match pack(&image, &header) {
                Some(packed) => packed,
                None if stays => {
                    all[0].is_not_worth_packing();
                    return Ok(Compaction::default());
                }
                None => image,
            },
            ((image, _), false) => image,
        };
        // What the answers rest on has to last, or an entry would be gone that counts again; and it has to be known that it did.
        self.settle_all()?;
        self.control().sync().map_err(|error| Error::io("sync", self.directory().path(), error))?;
        done.bytes_after = file.len() as u64;
        let name = segment_name(run.first);
        // They stay mapped for those who read them from now on: their files are about to go.
        all.iter().try_for_each(|sealed| archive.hold(sealed))?;
        // Commit point: with the rename in it, the one file stands for the whole run.
        if let Err(error) = self.directory().write_whole(&name, &[&file]) {
            all.iter().for_each(|sealed| archive.release(sealed));
            return Err(error);
        }
        drop(file);
        let sealed = archive.adopt(run.first)?;
        self.change_segments(|segments| segments.with_compacted(range, sealed));
        self.remove_replaced(all)?;
        Ok(done)
    }

    /// Removes the files of segments that one stands for now under the name of the first.
    fn remove_replaced(&self, all: &[Arc<Sealed>]) -> Result<()> {
        for old in &all[1..] {
            self.directory().remove(&segment_name(old.first()))?;
            self.directory().remove(&index_name(old.first()))?;
        }
        self.directory().sync()
    }

    fn segment_header(&self, sealed: &Sealed) -> Result<SegmentHeader> {
        let name = segment_name(sealed.first());
        let head = self.directory().read_head(&name, crate::segment::COMPACTED_HEADER_BYTES)?;
        SegmentHeader::decode(&head, &self.directory().path_of(&name), self.identity())
    }

    /// The position behind the last record of which entries may be gone.
    pub(crate) fn compacted_end(&self) -> Position {
        let segments = self.segments();
        let last = segments.sealed.iter().rev().find(|sealed| sealed.header.compacted);
        last.map_or(Position::ZERO, |sealed| sealed.header.end)
    }
}

/// How many bytes packing a segment would save, estimated, when that is worth it; `None` of one that can't be told now. One that is
/// packed saves nothing by it.
fn saved(open: &Open) -> Option<u64> {
    let Some(records) = open.as_plain() else { return Some(0) };
    let (bytes, packed) = (records.len() as u64, packed::estimate(records));
    Some(if packed::is_worth(bytes, packed) { bytes - packed } else { 0 })
}

/// The bytes of the entries that survive, estimated from at most so many, evenly spread; `None` when all of each does.
fn surviving(open: &Open, samples_max: u32, survives: &mut Survives<'_>) -> Result<Option<u64>, Flaw> {
    let entries = open.entries();
    let samples = entries.min(samples_max);
    let together = if open.is_packed() && samples < entries { SAMPLED_TOGETHER } else { 1 };
    let groups = u64::from(samples.div_ceil(together));
    let (mut sampled, mut kept) = (0, 0);
    let mut answers = Vec::new();
    let mut asked = Vec::with_capacity(ASKED_AT_ONCE.min(samples as usize));
    for sample in 0..samples {
        let begin = u64::from(sample / together) * u64::from(entries) / groups;
        asked.push(open.entry((begin as u32 + sample % together).min(entries - 1))?);
        if asked.len() == ASKED_AT_ONCE || sample + 1 == samples {
            answers.clear();
            survives(&asked, &mut answers);
            for (entry, survival) in asked.drain(..).zip(&answers) {
                sampled += entry.body.len() as u64 + 64;
                kept += match survival {
                    Survival::Whole => entry.body.len() as u64 + 64,
                    Survival::Nothing => 0,
                    Survival::Body(body) => body.len() as u64 + 64,
                };
            }
        }
    }
    let bytes = u128::from(open.records_bytes());
    Ok(match sampled {
        0 => Some(0),
        _ if kept == sampled => None,
        _ => Some((bytes * u128::from(kept) / u128::from(sampled)) as u64),
    })
}

/// Takes over what survives of a segment; says how many entries don't.
fn rewrite(open: &Open, remains: &mut Remains, survives: &mut Survives<'_>) -> Result<u64, Flaw> {
    let (mut asked, mut answers, mut records) = (Vec::new(), Vec::new(), Vec::new());
    let mut dropped = 0;
    let apart = open.apart();
    let mut all = open.records(&apart).peekable();
    while let Some(record) = all.next() {
        let record = record?;
        asked.extend(record.entries().map(|(_, entry)| entry));
        records.push(record);
        if asked.len() >= ASKED_AT_ONCE || all.peek().is_none() {
            answers.clear();
            survives(&asked, &mut answers);
            assert_eq!(answers.len(), asked.len(), "one answer for each entry");
            let mut from = 0;
            for record in records.drain(..) {
                let to = from + record.header.entries as usize;
                dropped += remains.take_in(record, &answers[from..to]);
                from = to;
            }
            asked.clear();
        }
    }
    Ok(dropped)
}
