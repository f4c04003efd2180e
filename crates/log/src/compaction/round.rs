//! Compaction beside others: before files go that others have the log open with, each of these says that it keeps them.
//!
//! ```text
//!  who compacts                                     everyone else
//!  asks: round n, odd, and a range          ─▶      takes in what was published, seals, holds the range's segments mapped, says n
//!  all have said n: renames, removes
//!  ends: round n + 1                        ─▶      takes in what was published, looks at the files, lets the old ones go
//! ```
//!
//! Nobody waits for anybody but the one who compacts, and that not for long: what somebody does not answer for, because it is stopped
//! or its list of segments is another, stays as it is until it is asked again. Who died is not waited for. Who opens the log finds the
//! files as they are, and has said nothing yet; openings stand outside of the door while a run is rewritten.
//!
//! A round that its beginner does not live to end leaves the others with segments mapped, and with files that may be the old or
//! the new ones: the next one who asks begins another round, and each looks at the files before it answers.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use quire_model::{Position, ReadErrorKind};
use quire_threads::{AtomicU64, Ordering};

use super::Run;
use crate::components::Background;
use crate::error::{Error, Result};
use crate::log::{SEALING, Shared};
use crate::processes::control::{COMPACTION_FIRST, COMPACTION_ROUND, Control, HELD, PROCESSES};
use crate::segment::{COMPACTED_HEADER_BYTES, SegmentHeader, segment_name};
use crate::storage::directory::LockedFile;

/// Locked by whoever compacts.
const COMPACTING: &str = "compacting";

/// How many segments everyone is asked to keep mapped at a time, unless one run has more.
const SEGMENTS_AT_ONCE: usize = 16;

/// How often it is looked whether everybody has answered, should a wake-up be missed, and how often at most: everybody answers
/// within about a millisecond, unless it is stopped or has much to take in first.
const LOOKED_EVERY: Duration = Duration::from_millis(5);
const LOOKS: u32 = 400;

/// How this opening stands to the rounds of others, and to its own.
#[derive(Debug, Default)]
pub(crate) struct Rounds {
    /// The last round that was attended to.
    attended: AtomicU64,
    /// The last one that a listener was told of.
    told: AtomicU64,
    /// The range of segments that is held for others, and in which round that was asked for.
    held: Mutex<Option<(u64, Run)>>,
    /// What this opening has asked of others, in a round that it has not ended.
    asked: Mutex<Option<(u64, Run)>>,
}

impl Rounds {
    fn asked(&self) -> MutexGuard<'_, Option<(u64, Run)>> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn held(&self) -> MutexGuard<'_, Option<(u64, Run)>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether a round is one in which something is asked.
fn is_open(round: u64) -> bool {
    round % 2 == 1
}

impl Control {
    pub(crate) fn round(&self) -> u64 {
        self.word(COMPACTION_ROUND).load(Ordering::Acquire)
    }

    /// Begins a round; says its number.
    pub(crate) fn begin_round(&self, run: Run) -> u64 {
        self.end_round();
        self.word(COMPACTION_FIRST).store(run.first.get(), Ordering::Relaxed);
        self.word(COMPACTION_FIRST + 1).store(run.end.get(), Ordering::Relaxed);
        let round = self.word(COMPACTION_ROUND).fetch_add(1, Ordering::AcqRel) + 1;
        self.arrive();
        round
    }

    /// Ends the round that is open, if one is.
    fn end_round(&self) {
        if is_open(self.round()) {
            self.word(COMPACTION_ROUND).fetch_add(1, Ordering::AcqRel);
            self.arrive();
        }
    }

    /// What is asked for in a round; `None` when it is over.
    pub(crate) fn asked_in(&self, round: u64) -> Option<Run> {
        let number = |index| Position::new(self.word(COMPACTION_FIRST + index).load(Ordering::Acquire));
        let run = Run { first: number(0), end: number(1) };
        (is_open(round) && self.round() == round).then_some(run)
    }

    /// Says that this opening holds what is asked for in a round.
    pub(crate) fn say_held(&self, round: u64) {
        self.word(HELD + self.seat() as usize).store(round, Ordering::Release);
        self.wake(COMPACTION_ROUND, u32::MAX);
    }

    /// The processes of the others that have not said what [`Control::say_held`] says.
    fn without_answer(&self, round: u64) -> Vec<u32> {
        let word = |first: usize, seat: u32| self.word(first + seat as usize).load(Ordering::Acquire);
        self.others().filter(|seat| word(HELD, *seat) != round).map(|seat| word(PROCESSES, seat) as u32).collect()
    }

    pub(crate) fn all_others_hold(&self, round: u64) -> bool {
        self.others().all(|seat| self.word(HELD + seat as usize).load(Ordering::Acquire) == round)
    }
}

impl Shared {
    /// The round that is to be attended to.
    pub(crate) fn round_to_attend(&self) -> Option<u64> {
        let round = self.control().round();
        (round != self.rounds().attended.load(Ordering::Acquire)).then_some(round)
    }

    /// Whether there is a round to attend to of which the listener was not told yet.
    pub(crate) fn has_news_of_round(&self) -> bool {
        let to_attend = self.round_to_attend();
        to_attend.is_some_and(|round| self.rounds().told.swap(round, Ordering::Relaxed) != round)
    }

    /// Does what a round asks of this opening. What was published when the round was read has been taken in: what the files no
    /// longer hold is nothing that is asked for from now on.
    pub(crate) fn attend(&self, round: u64) -> Result<()> {
        if let Some(run) = self.control().asked_in(round) {
            // What is to be held is to be sealed here, too, or an index would be written of a file that has gone.
            if self.has_taken_in(Position::new(run.end.get() - 1)) {
                self.settle_all()?;
                while self.seal_oldest()? {}
            }
        }
        let sealing = self.sealing().lock().unwrap_or_else(PoisonError::into_inner);
        if self.rounds().held().is_some_and(|(of, _)| of != round) {
            self.settle(&sealing)?;
        }
        if let Some(run) = self.control().asked_in(round) {
            let segments = self.segments();
            if let Some(range) = segments.whole(run) {
                for sealed in &segments.sealed[range] {
                    match self.store().archive.hold(sealed) {
                        // What is lost is not read here either: nothing of it is to be held.
                        Err(error) if error.kind == ReadErrorKind::Damaged => {}
                        held => held?,
                    }
                }
                *self.rounds().held() = Some((round, run));
                self.control().say_held(round);
            }
        }
        self.rounds().attended.store(round, Ordering::Release);
        Ok(())
    }

    /// Takes the segments of a range as they are in their files now, and lets those go that were held.
    fn look_again(&self, run: Run) -> Result<()> {
        let (segments, archive) = (self.segments(), &self.store().archive);
        let mut at = segments.sealed.partition_point(|sealed| sealed.first() < run.first);
        while let Some(sealed) = segments.sealed.get(at).filter(|sealed| sealed.first() < run.end) {
            at += 1;
            let name = segment_name(sealed.first());
            let path = self.directory().path_of(&name);
            let Some(head) = self.directory().try_read_head(&name, COMPACTED_HEADER_BYTES)? else { continue };
            let of = match SegmentHeader::decode(&head, &path, self.identity()) {
                Ok(of) => of,
                // What is held of one that is lost stays as it is.
                Err(Error::Damaged { .. }) => continue,
                Err(error) => return Err(error),
            };
            if SegmentHeader::crc_of(&head) == sealed.header.segment {
                archive.release(sealed);
                continue;
            }
            let end = of.compacted.map(|compacted| compacted.end);
            let range = end.and_then(|end| segments.whole(Run { first: sealed.first(), end }));
            let Some(range) = range else {
                let message = "it is another segment than the log was opened with".to_owned();
                return Err(Error::Damaged { path, offset: 0, position: Some(sealed.first()), message });
            };
            at = range.end;
            let _one_at_a_time = self.directory().lock_file_in_turn(SEALING)?;
            let new = match archive.find(&of, SegmentHeader::crc_of(&head))? {
                Some(new) => new,
                // Who rewrote it died before the index was there.
                None => archive.adopt(sealed.first())?,
            };
            let run = Run { first: sealed.first(), end: new.header.end };
            self.change_segments(|newest| {
                let range = newest.whole(run).expect("segments that are held stay in the list");
                newest.with_compacted(range, new)
            });
            // Nobody reads them by their names: everyone held them.
            self.remove_replaced(&segments.sealed[range])?;
        }
        Ok(())
    }

    /// The turn to compact; `None` when somebody else has it.
    pub(super) fn compaction_turn(&self) -> Result<Option<LockedFile>> {
        self.directory().lock_file(COMPACTING)
    }

    /// Takes the segments as they are that are held for one whose round is over, or who did not live to end it.
    pub(super) fn settle(&self, _sealing: &MutexGuard<'_, ()>) -> Result<()> {
        let mut held = self.rounds().held();
        if let Some((_, run)) = *held {
            // First, for whoever asked may go on later.
            self.control().say_held(0);
            self.look_again(run)?;
            *held = None;
        }
        Ok(())
    }

    /// How many of these runs, from the first on, everyone else keeps the segments of; asks them to, and with threads of their own
    /// waits a little. All of them when nobody else has the log open.
    pub(super) fn held_by_others(&self, runs: &[Run]) -> Result<usize> {
        // Who died is not waited for.
        drop(self.control().lock_opening(self.directory())?);
        let Some(first) = runs.first().filter(|_| self.control().has_company()) else { return Ok(runs.len()) };
        let held = runs.iter().take_while(|run| self.may_replace(**run)).count();
        if held > 0 {
            return Ok(held);
        }
        let segments = self.segments();
        let count =
            |run: &Run| segments.whole(Run { first: first.first, end: run.end }).map_or(usize::MAX, |all| all.len());
        let some = runs.iter().take_while(|run| count(run) <= SEGMENTS_AT_ONCE).count().max(1);
        let round = self.ask(Run { first: first.first, end: runs[some - 1].end });
        let looks = if self.background() == Background::Threads { LOOKS } else { 0 };
        for _ in 0..looks {
            if self.control().all_others_hold(round) {
                return Ok(some);
            }
            self.control().sleep_on(COMPACTION_ROUND, round, LOOKED_EVERY);
        }
        Ok(0)
    }

    /// The processes that have not answered what this opening has asked.
    pub(super) fn unanswered(&self) -> Vec<u32> {
        let Some((round, _)) = *self.rounds().asked() else { return Vec::new() };
        self.control().without_answer(round)
    }

    /// Has everyone else hold the segments of a range; says in which round. What was asked for already is not asked for again.
    fn ask(&self, range: Run) -> u64 {
        let mut asked = self.rounds().asked();
        if let Some((round, _)) = asked.filter(|(round, run)| *run == range && *round == self.control().round()) {
            return round;
        }
        let round = self.control().begin_round(range);
        self.rounds().attended.store(round, Ordering::Release);
        *asked = Some((round, range));
        round
    }

    /// Whether nobody is left that would look for the files of a run. The door is held.
    pub(super) fn may_replace(&self, run: Run) -> bool {
        let holds = |(round, range): (u64, Run)| {
            range.first <= run.first && run.end <= range.end && self.control().all_others_hold(round)
        };
        !self.control().has_company() || self.rounds().asked().is_some_and(holds)
    }

    /// Ends what was asked of others: they take the segments as they are now.
    pub(super) fn end_round(&self) {
        if self.rounds().asked().take().is_some() {
            self.control().end_round();
            self.rounds().attended.store(self.control().round(), Ordering::Release);
        }
    }
}
