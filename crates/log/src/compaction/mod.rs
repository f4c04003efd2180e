//! Compaction: rewrites a run of sealed segments into one segment of the surviving entries.
//!
//! Surviving entries keep their places.
//!
//! ```text
//! facts about each segment ─▶ CompactionPlan
//!        ─▶ for each run: read, verify, ask which entries survive
//!        ─▶ sync ─▶ <first>.log.new, whole and durable ─▶ rename
//!        ─▶ index ─▶ new list ─▶ remove the old files
//! ```
//!
//! With [`Settings::pack_segments`](crate::Settings::pack_segments) the new segment is packed, and
//! packing alone is a reason to rewrite a segment.
//!
//! The log knows no model: the caller decides which entries survive. Only records before the oldest
//! checkpoint are rewritten, so that a restart never replays a gap. An existing reader keeps the
//! old segments mapped and reads them to its end. Other openings of the log are first asked to map
//! them too.

mod plan;
mod remains;
mod round;

use std::sync::{Arc, PoisonError};

use quire_model::{Entry, Position};

pub use plan::{CompactionPlan, SegmentRun, SegmentShare};
pub(crate) use remains::RemainsWriter;
pub(crate) use round::HoldRounds;

use crate::components::Background;
use crate::durable::checkpoint;
use crate::error::{Error, Result};
use crate::log::{Log, LogCore};
use crate::packed::{self, pack};
use crate::sealed::{Flaw, OpenSegment, SealedSegment, index_name};
use crate::segment::{CompactedRange, SegmentHeader, segment_name};
use crate::storage::directory::LockedFile;

/// Decides what is left of entries: one answer for each entry, in their order. A dropped entry must
/// never count again, whatever is committed later.
pub type Survives<'s> = dyn FnMut(&[Entry<'_>], &mut Vec<Survival>) + 's;

/// The part of an entry that a compaction keeps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Survival {
    /// The whole entry.
    Whole,
    /// Nothing: the entry is dropped.
    Nothing,
    /// Another body, under the same tags and numbers.
    Body(Vec<u8>),
}

/// A surviving entry is kept whole.
impl From<bool> for Survival {
    fn from(survives: bool) -> Self {
        if survives { Survival::Whole } else { Survival::Nothing }
    }
}

/// Entries that are passed to [`Survives`] at once, unless one record has more.
const ASKED_AT_ONCE: usize = 1024;

/// Neighbouring entries that are sampled together in a packed segment, because one unpacked frame
/// holds them all.
const SAMPLED_TOGETHER: u32 = 8;

/// The result of a compaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Compaction {
    /// Segments that were rewritten.
    pub segments: u64,
    /// Entries that were dropped.
    pub entries_dropped: u64,
    /// The bytes of the old files.
    pub bytes_before: u64,
    /// The bytes of the new file.
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

/// The exclusive right to compact a log, held until this value is dropped.
#[derive(Debug)]
pub struct Compactor<'l> {
    shared: &'l LogCore,
    /// Whether the open request to hold segments outlives this value, because the answers are read
    /// later.
    keeps_request: bool,
    _turn: LockedFile,
}

impl Log {
    /// Takes the right to compact. Returns `None` while another process or thread has it.
    /// `catch_up` applies the records published so far, with
    /// [`Writer::follow`](crate::Writer::follow): the previous compactor may have dropped entries
    /// that these records made obsolete.
    ///
    /// # Errors
    /// The errors of `catch_up`. [`Error::Io`] and [`Error::Damaged`] when the files that the
    /// previous compactor left cannot be read.
    pub fn begin_compaction<E: From<Error>>(
        &self,
        catch_up: impl FnOnce() -> std::result::Result<(), E>,
    ) -> std::result::Result<Option<Compactor<'_>>, E> {
        let shared = &**self.shared();
        let Some(turn) = shared.compaction_turn()? else { return Ok(None) };
        catch_up()?;
        shared.settle(&shared.sealing().lock().unwrap_or_else(PoisonError::into_inner))?;
        Ok(Some(Compactor { shared, keeps_request: false, _turn: turn }))
    }
}

impl Compactor<'_> {
    /// Returns the facts about the sealed segments that may be compacted, from at most
    /// `samples_max` entries of each. A [`CompactionPlan`] is made from them. The segments end
    /// before the oldest checkpoint.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn shares(&self, samples_max: u32, survives: &mut Survives<'_>) -> Result<Vec<SegmentShare>> {
        self.shared.shares(samples_max, survives)
    }

    /// Returns how many of `runs`, from the first on, every other opening of the log allows to
    /// rewrite. Without other openings these are all runs. The other openings are asked to hold the
    /// segments, and this call waits up to two seconds for their answers. With
    /// [`Background::Caller`](crate::Background::Caller) it does not wait: a later call reads the
    /// answers.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn held_by_others(&mut self, runs: &[SegmentRun]) -> Result<usize> {
        let held = self.shared.held_by_others(runs)?;
        self.keeps_request = held == 0 && self.shared.background() == Background::Caller;
        Ok(held)
    }

    /// The processes that did not answer in time, after [`Compactor::held_by_others`] returned 0.
    pub fn unanswered(&self) -> Vec<u32> {
        if self.shared.background() == Background::Threads { self.shared.unanswered() } else { Vec::new() }
    }

    /// Rewrites a run of sealed segments into one without the dropped entries. Surviving entries
    /// keep their places, and every tag its numbers. A run stays unchanged in two cases: it does
    /// not consist of whole segments that may be compacted, or another opening of the log does not
    /// hold it. A node of a cluster also leaves it unchanged when the last records are not
    /// published within two seconds. No process opens the log meanwhile.
    ///
    /// Commits that `survives` depends on are synced first. After this call, no file contains the
    /// dropped entries. Existing readers see them until these readers are dropped.
    ///
    /// # Errors
    /// [`Error::Unreadable`] when a record is damaged: the run stays unchanged. [`Error::NoSpace`],
    /// [`Error::Io`] and [`Error::Failed`].
    pub fn compact(&mut self, run: SegmentRun, survives: &mut Survives<'_>) -> Result<Compaction> {
        self.shared.compact(run, survives)
    }
}

impl Drop for Compactor<'_> {
    fn drop(&mut self) {
        if !self.keeps_request {
            self.shared.end_round();
        }
    }
}

impl LogCore {
    /// Returns the facts about the segments that may be compacted; see [`Compactor::shares`].
    fn shares(&self, samples_max: u32, survives: &mut Survives<'_>) -> Result<Vec<SegmentShare>> {
        let oldest = checkpoint::oldest(self.directory())?;
        let segments = self.segments();
        let within = segments.sealed.iter().take_while(|sealed| sealed.header.end <= oldest);
        let shares = within.map(|sealed| self.share(sealed, samples_max, survives)).collect();
        self.store().archive.settle_unpacked();
        shares
    }

    /// The position after the last segment that may be compacted.
    pub(crate) fn compactable_end(&self) -> Result<Position> {
        let oldest = checkpoint::oldest(self.directory())?;
        let segments = self.segments();
        let last = segments.sealed.iter().take_while(|sealed| sealed.header.end <= oldest).last();
        Ok(last.map_or(Position::ZERO, |sealed| sealed.header.end))
    }

    fn share(&self, sealed: &SealedSegment, samples_max: u32, survives: &mut Survives<'_>) -> Result<SegmentShare> {
        let archive = &self.store().archive;
        let (first, end) = (sealed.first(), sealed.header.end);
        let Ok(open) = archive.open(sealed) else {
            // The segment stays unchanged; its file may be missing.
            let bytes = self.directory().bytes_of(&segment_name(first)).unwrap_or(0);
            return Ok(SegmentShare { first, end, bytes, surviving: None, saved: 0, erases: false });
        };
        let bytes = open.image_bytes();
        let mut share = SegmentShare { first, end, bytes, surviving: None, saved: 0, erases: false };
        if let Ok(surviving) = surviving(&open, samples_max, survives) {
            // The other content of a file is no reason to rewrite it.
            share.surviving = Some(surviving.unwrap_or(bytes).min(bytes));
        }
        if self.settings().pack_segments {
            share.saved = sealed.saved_by_packing(|| saved(&open));
        }
        Ok(share)
    }

    /// Rewrites a run if its segments exist and may be compacted; see [`Compactor::compact`].
    fn compact(&self, run: SegmentRun, survives: &mut Survives<'_>) -> Result<Compaction> {
        // Other openings would look for the removed files: all of them hold these, and no process
        // opens the log meanwhile.
        let _opening_lock = self.control().lock_opening(self.directory())?;
        let _sealing = self.sealing().lock().unwrap_or_else(PoisonError::into_inner);
        if !self.may_replace(run) || run.end > checkpoint::oldest(self.directory())? {
            return Ok(Compaction::default());
        }
        let (segments, archive) = (self.segments(), &self.store().archive);
        let Some(range) = segments.whole(run) else { return Ok(Compaction::default()) };
        let all = &segments.sealed[range.clone()];
        assert!(!all.is_empty() && all[0].first() == run.first, "the run begins with segment {}", run.first);
        assert!(all.windows(2).all(|pair| pair[0].header.end == pair[1].first()), "segments of a run are consecutive");
        let last = all[all.len() - 1].header;
        let mut done = Compaction { segments: all.len() as u64, ..Compaction::default() };
        let of = self.segment_header(&all[0])?;
        // A packed segment stays packed under any settings: unpacked, it may exceed the disk.
        let mut packs = self.settings().pack_segments;
        let mut remains = RemainsWriter::new(of.previous);
        for sealed in all {
            let open = archive.open(sealed)?;
            packs |= open.is_packed();
            archive.numbered(sealed, |all| remains.count(all))?;
            done.bytes_before += self.directory().bytes_of(&segment_name(sealed.first()))?;
            let dropped = rewrite(&open, &mut remains, survives).map_err(|flaw| archive.read_error(sealed, flaw))?;
            done.entries_dropped += dropped;
            if remains.bytes() as u64 > u64::from(u32::MAX) / 2 {
                return Ok(Compaction::default());
            }
        }
        let stays = all.len() == 1 && !remains.changed();
        let compacted =
            CompactedRange { end: last.end, chain: last.chain, last_time: last.time, records: 0, packed: None };
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
        // The commits that decided the drops must be durable, or a dropped entry could count again.
        // A node of a cluster may still truncate them, unless they are published. The durable mark
        // must be durable too.
        if !self.settle_decisions()? {
            return Ok(Compaction::default());
        }
        self.control().sync().map_err(|error| Error::io("sync", self.directory().path(), error))?;
        done.bytes_after = file.len() as u64;
        let name = segment_name(run.first);
        // The old segments stay mapped for later reads, because their files are about to be
        // removed.
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

    /// Removes the files of segments that the first segment's file now stands for.
    fn remove_replaced(&self, all: &[Arc<SealedSegment>]) -> Result<()> {
        assert!(all.windows(2).all(|pair| pair[0].first() < pair[1].first()), "the first file is the new one");
        for old in &all[1..] {
            self.directory().remove(&segment_name(old.first()))?;
            self.directory().remove(&index_name(old.first()))?;
        }
        self.directory().sync()
    }

    fn segment_header(&self, sealed: &SealedSegment) -> Result<SegmentHeader> {
        let name = segment_name(sealed.first());
        let head = self.directory().read_head(&name, crate::segment::COMPACTED_HEADER_BYTES)?;
        SegmentHeader::decode(&head, &self.directory().path_of(&name), self.identity())
    }

    /// The position after the last record that may have lost entries.
    pub(crate) fn compacted_end(&self) -> Position {
        let segments = self.segments();
        let last = segments.sealed.iter().rev().find(|sealed| sealed.header.compacted);
        last.map_or(Position::ZERO, |sealed| sealed.header.end)
    }
}

/// Estimates the bytes that packing a segment saves; 0 when packing saves too little, or the
/// segment is packed already.
fn saved(open: &OpenSegment) -> Option<u64> {
    let Some(records) = open.as_plain() else { return Some(0) };
    let (bytes, packed) = (records.len() as u64, packed::estimate(records));
    Some(if packed::is_worth(bytes, packed) { bytes - packed } else { 0 })
}

/// Estimates the bytes of the surviving entries, from at most `samples_max` samples, evenly spread.
/// Returns `None` when every sample survives whole.
fn surviving(open: &OpenSegment, samples_max: u32, survives: &mut Survives<'_>) -> Result<Option<u64>, Flaw> {
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
            assert_eq!(answers.len(), asked.len(), "one answer for each entry");
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

/// Copies the surviving entries of a segment to `remains`. Returns the count of dropped entries.
fn rewrite(open: &OpenSegment, remains: &mut RemainsWriter, survives: &mut Survives<'_>) -> Result<u64, Flaw> {
    let (mut asked, mut answers, mut records) = (Vec::new(), Vec::new(), Vec::new());
    let mut dropped = 0;
    let detached = open.detached();
    let mut all = open.records(&detached).peekable();
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
                dropped += remains.add(record, &answers[from..to]);
                from = to;
            }
            assert_eq!(from, answers.len(), "each answer belongs to a record");
            asked.clear();
        }
    }
    debug_assert!(dropped <= u64::from(open.entries()), "{dropped} of {} entries dropped", open.entries());
    Ok(dropped)
}
