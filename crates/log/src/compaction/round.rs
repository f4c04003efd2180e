//! Compaction with other openings of the log: each agrees to keep the files mapped before they go.
//!
//! ```text
//! compactor                              every other opening
//! request: round n, odd, and a range  ─▶  follows the log, seals,
//!                                        maps the segments of the range, answers n
//! all have answered n: rename, remove
//! end: round n + 1                    ─▶  follows the log, reads the new files,
//!                                        releases the old segments
//! ```
//!
//! Only the compactor waits, and only for a short time. A run stays unchanged until a later request
//! when another opening does not answer: its process may be stopped, or its list of segments may
//! differ. The compactor does not wait for dead processes. A new opening reads the files as they
//! are, and has not answered yet. No process opens the log while a run is rewritten.
//!
//! A compactor can die within a round. The other openings then keep segments mapped whose files may
//! be the old or the new ones. The next compactor begins another round, and each opening reads the
//! files again before it answers.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use quire_model::{Position, ReadErrorKind};
use quire_threads::{AtomicU64, Ordering};

use super::SegmentRun;
use crate::components::Background;
use crate::error::{Error, Result};
use crate::log::{LogCore, SEALING};
use crate::processes::control::{COMPACTION_FIRST, COMPACTION_ROUND, Control, HELD, PROCESSES};
use crate::segment::{COMPACTED_HEADER_BYTES, SegmentHeader, segment_name};
use crate::storage::directory::LockedFile;

/// Locked by the compactor.
const COMPACTING: &str = "compacting";

/// Most segments that a round asks other openings to keep mapped, unless one run has more.
const SEGMENTS_AT_ONCE: usize = 16;

/// The interval at which the compactor checks for answers, in case it misses a wake-up, and the
/// count of checks. An opening answers within about a millisecond, unless its process is stopped or
/// has much to apply first.
const LOOKED_EVERY: Duration = Duration::from_millis(5);
const LOOKS: u32 = 400;

const _: () = assert!(LOOKED_EVERY.as_millis() * LOOKS as u128 == 2_000, "`Compactor::held_by_others` documents it");

/// The state of this opening in rounds, its own and those of others.
#[derive(Debug, Default)]
pub(crate) struct HoldRounds {
    /// The last round that this opening answered or saw end.
    attended: AtomicU64,
    /// The last round that the listener was notified of.
    notified: AtomicU64,
    /// The range that is held for another opening, and the round that requested it.
    held: Mutex<Option<(u64, SegmentRun)>>,
    /// The range that this opening requested, and its round, until the round ends.
    requested: Mutex<Option<(u64, SegmentRun)>>,
}

impl HoldRounds {
    fn requested(&self) -> MutexGuard<'_, Option<(u64, SegmentRun)>> {
        self.requested.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn held(&self) -> MutexGuard<'_, Option<(u64, SegmentRun)>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether a round is a request; an even number means that the last request has ended.
fn is_open(round: u64) -> bool {
    round % 2 == 1
}

impl Control {
    pub(crate) fn round(&self) -> u64 {
        self.word(COMPACTION_ROUND).load(Ordering::Acquire)
    }

    /// Begins a round and returns its number.
    pub(crate) fn begin_round(&self, run: SegmentRun) -> u64 {
        assert!(run.first <= run.end, "a round requests a range of positions");
        self.end_round();
        self.word(COMPACTION_FIRST).store(run.first.get(), Ordering::Relaxed);
        self.word(COMPACTION_FIRST + 1).store(run.end.get(), Ordering::Relaxed);
        let round = self.word(COMPACTION_ROUND).fetch_add(1, Ordering::AcqRel) + 1;
        debug_assert!(is_open(round), "round {round} is open, because only the compactor begins rounds");
        self.wake_listeners();
        round
    }

    /// Ends the open round, if there is one.
    fn end_round(&self) {
        if is_open(self.round()) {
            self.word(COMPACTION_ROUND).fetch_add(1, Ordering::AcqRel);
            self.wake_listeners();
        }
    }

    /// The range that a round requests; `None` when the round is over.
    pub(crate) fn requested_in(&self, round: u64) -> Option<SegmentRun> {
        let number = |index| Position::new(self.word(COMPACTION_FIRST + index).load(Ordering::Acquire));
        let run = SegmentRun { first: number(0), end: number(1) };
        (is_open(round) && self.round() == round).then_some(run)
    }

    /// Publishes that this opening holds the range of `round`; 0 withdraws an earlier answer.
    pub(crate) fn report_held(&self, round: u64) {
        debug_assert!(round == 0 || is_open(round), "round {round} requests nothing");
        self.word(HELD + self.seat() as usize).store(round, Ordering::Release);
        self.wake(COMPACTION_ROUND, u32::MAX);
    }

    /// The processes of the other openings that have not answered `round` with
    /// [`Control::report_held`].
    fn without_answer(&self, round: u64) -> Vec<u32> {
        let word = |first: usize, seat: u32| self.word(first + seat as usize).load(Ordering::Acquire);
        self.others().filter(|seat| word(HELD, *seat) != round).map(|seat| word(PROCESSES, seat) as u32).collect()
    }

    pub(crate) fn all_others_hold(&self, round: u64) -> bool {
        self.others().all(|seat| self.word(HELD + seat as usize).load(Ordering::Acquire) == round)
    }
}

impl LogCore {
    /// The round that this opening has not attended to yet.
    pub(crate) fn round_to_attend(&self) -> Option<u64> {
        let round = self.control().round();
        (round != self.rounds().attended.load(Ordering::Acquire)).then_some(round)
    }

    /// Whether there is a new round that the listener was not notified of.
    pub(crate) fn has_news_of_round(&self) -> bool {
        let to_attend = self.round_to_attend();
        to_attend.is_some_and(|round| self.rounds().notified.swap(round, Ordering::Relaxed) != round)
    }

    /// Answers a round. The caller has applied the records published when the round was read, so
    /// that it no longer needs entries that the new files lack.
    pub(crate) fn attend(&self, round: u64) -> Result<()> {
        if let Some(run) = self.control().requested_in(round) {
            // The range must be sealed here too. Otherwise this opening would later seal a removed
            // file.
            if self.has_taken_in(Position::new(run.end.get() - 1)) {
                self.settle_all()?;
                self.seal_all()?;
            }
        }
        let sealing = self.sealing().lock().unwrap_or_else(PoisonError::into_inner);
        if self.rounds().held().is_some_and(|(of, _)| of != round) {
            self.settle(&sealing)?;
        }
        if let Some(run) = self.control().requested_in(round) {
            let segments = self.segments();
            if let Some(range) = segments.whole(run) {
                for sealed in &segments.sealed[range] {
                    match self.store().archive.hold(sealed) {
                        // A lost segment cannot be read here either: there is nothing to hold.
                        Err(error) if error.kind == ReadErrorKind::Damaged => {}
                        held => held?,
                    }
                }
                *self.rounds().held() = Some((round, run));
                self.control().report_held(round);
            }
        }
        self.rounds().attended.store(round, Ordering::Release);
        Ok(())
    }

    /// Reads the files of a range again, and releases the held segments.
    fn refresh(&self, run: SegmentRun) -> Result<()> {
        let (segments, archive) = (self.segments(), &self.store().archive);
        let mut at = segments.sealed.partition_point(|sealed| sealed.first() < run.first);
        while let Some(sealed) = segments.sealed.get(at).filter(|sealed| sealed.first() < run.end) {
            at += 1;
            let name = segment_name(sealed.first());
            let path = self.directory().path_of(&name);
            let Some(head) = self.directory().try_read_head(&name, COMPACTED_HEADER_BYTES)? else { continue };
            let of = match SegmentHeader::decode(&head, &path, self.identity()) {
                Ok(of) => of,
                // The part of a lost segment that is held stays as it is.
                Err(Error::Damaged { .. }) => continue,
                Err(error) => return Err(error),
            };
            if SegmentHeader::crc_of(&head) == sealed.header.segment {
                archive.release(sealed);
                continue;
            }
            let end = of.compacted.map(|compacted| compacted.end);
            let range = end.and_then(|end| segments.whole(SegmentRun { first: sealed.first(), end }));
            let Some(range) = range else {
                let message =
                    "the segment differs from the one that the log was opened with; reopen the log".to_owned();
                return Err(Error::Damaged { path, offset: 0, position: Some(sealed.first()), message });
            };
            at = range.end;
            let _one_at_a_time = self.directory().lock_file_in_turn(SEALING)?;
            let new = match archive.find(&of, SegmentHeader::crc_of(&head))? {
                Some(new) => new,
                // The compactor died before it wrote the index.
                None => archive.adopt(sealed.first())?,
            };
            let run = SegmentRun { first: sealed.first(), end: new.header.end };
            self.change_segments(|newest| {
                let range = newest.whole(run).expect("segments that are held stay in the list");
                newest.with_compacted(range, new)
            });
            // No opening reads the old files by name: all of them held the segments.
            self.remove_replaced(&segments.sealed[range])?;
        }
        Ok(())
    }

    /// Takes the exclusive right to compact; `None` when another compactor has it.
    pub(super) fn compaction_turn(&self) -> Result<Option<LockedFile>> {
        self.directory().lock_file(COMPACTING)
    }

    /// Refreshes and releases the segments held for a round that is over or whose compactor died.
    pub(super) fn settle(&self, _sealing: &MutexGuard<'_, ()>) -> Result<()> {
        let mut held = self.rounds().held();
        if let Some((_, run)) = *held {
            // Withdraw the answer first, because a compactor may otherwise rely on it.
            self.control().report_held(0);
            self.refresh(run)?;
            *held = None;
        }
        Ok(())
    }

    /// Returns how many of `runs`, from the first on, every other opening holds; see
    /// [`Compactor::held_by_others`](super::Compactor::held_by_others).
    pub(super) fn held_by_others(&self, runs: &[SegmentRun]) -> Result<usize> {
        debug_assert!(runs.windows(2).all(|pair| pair[0].end <= pair[1].first), "runs are in the order of the log");
        // Remove the seats of dead processes, which do not answer.
        drop(self.control().lock_opening(self.directory())?);
        let Some(first) = runs.first().filter(|_| self.control().has_other_processes()) else { return Ok(runs.len()) };
        let held = runs.iter().take_while(|run| self.may_replace(**run)).count();
        if held > 0 {
            return Ok(held);
        }
        let segments = self.segments();
        let count = |run: &SegmentRun| {
            segments.whole(SegmentRun { first: first.first, end: run.end }).map_or(usize::MAX, |all| all.len())
        };
        let some = runs.iter().take_while(|run| count(run) <= SEGMENTS_AT_ONCE).count().max(1);
        let round = self.request_hold(SegmentRun { first: first.first, end: runs[some - 1].end });
        let looks = if self.background() == Background::Threads { LOOKS } else { 0 };
        for _ in 0..looks {
            if self.control().all_others_hold(round) {
                return Ok(some);
            }
            self.control().sleep_on(COMPACTION_ROUND, round, LOOKED_EVERY);
        }
        Ok(0)
    }

    /// The processes that have not answered this opening's request.
    pub(super) fn unanswered(&self) -> Vec<u32> {
        let Some((round, _)) = *self.rounds().requested() else { return Vec::new() };
        self.control().without_answer(round)
    }

    /// Asks every other opening to hold the segments of a range, and returns the round. An open
    /// request for the same range is reused.
    fn request_hold(&self, range: SegmentRun) -> u64 {
        let mut asked = self.rounds().requested();
        if let Some((round, _)) = asked.filter(|(round, run)| *run == range && *round == self.control().round()) {
            return round;
        }
        let round = self.control().begin_round(range);
        self.rounds().attended.store(round, Ordering::Release);
        *asked = Some((round, range));
        round
    }

    /// Returns whether no other opening would look for the files of a run. The caller holds the
    /// opening lock.
    pub(super) fn may_replace(&self, run: SegmentRun) -> bool {
        let holds = |(round, range): (u64, SegmentRun)| {
            range.first <= run.first && run.end <= range.end && self.control().all_others_hold(round)
        };
        !self.control().has_other_processes() || self.rounds().requested().is_some_and(holds)
    }

    /// Ends this opening's request: the others read the files again.
    pub(super) fn end_round(&self) {
        if self.rounds().requested().take().is_some() {
            self.control().end_round();
            self.rounds().attended.store(self.control().round(), Ordering::Release);
        }
    }
}
