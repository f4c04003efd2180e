//! Compaction: sealed segments are rewritten without records that no longer count, which frees disk
//! space.
//!
//! ```text
//! compacted topics: scan due partitions ─▶ the newest record of each key (keys.rs)
//! each segment, by samples ─▶ CompactionPlan ─▶ each run, entry by entry: models, graph histories
//!                                               and keys say what survives
//! ```
//! Commits continue meanwhile. They wait only while the models judge a batch of entries.

mod erasing;
mod keys;
mod rewriting;

use std::sync::{Arc, Mutex, PoisonError};

use quire_log::{Clock, Compaction, CompactionPlan, Reader, Survival};
use quire_model::{Entry, ModelId, Position, Timestamp};

use crate::commands::Commands;
use crate::compressor::Compressor;
use crate::duties::Duty;
use crate::error::{Error, ErrorKind, Result};
use crate::graph::SupersededEntry;
use crate::logged_state::LoggedState;
pub(crate) use erasing::ForgottenTags;
pub use keys::KEYS_MAX;
use keys::{KeyScans, NewestKeys, Purpose};
use rewriting::{Extent, RunRewriter};

/// Entries of each segment that a periodic compaction samples: enough to distinguish a half from a
/// quarter.
const SAMPLES: u32 = 64;

/// Smallest percentage of a segment that is worth rewriting while the log exceeds its bound.
const OVER_BOUND_PERCENT_MIN: u8 = 10;

/// The newest sealed segments that a node of a cluster leaves as they are. A node that was away for
/// a short time continues from their records.
const MEMBER_SEGMENTS: usize = 4;

/// When segments are compacted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CompactionSettings {
    /// How long history entries (such as steps of finished jobs) are kept.
    pub(crate) history_ms: u64,
    /// The interval between two periodic compactions.
    pub(crate) interval_ms: u64,
    /// Smallest percentage of a segment's bytes that no longer counts for the segment to be
    /// rewritten.
    pub(crate) percent_min: u8,
    /// Largest number of keys of compacted topics in memory.
    pub(crate) keys_max: usize,
}

/// The duty that compacts the log of a shard.
#[derive(Debug)]
pub(crate) struct CompactionDuty {
    settings: CompactionSettings,
    scans: KeyScans,
    compressor: Arc<Compressor>,
    /// The work of scheduled compactions, for operators.
    in_background: Mutex<Compaction>,
}

/// How thorough a compaction is.
#[derive(Debug, Clone, Copy)]
struct Thoroughness {
    /// Entries of a segment that the plan samples.
    samples_max: u32,
    /// Smallest percentage of a segment that is worth rewriting.
    percent_min: u8,
}

impl Thoroughness {
    /// Rewrites every segment with anything that no longer counts.
    const FULL: Self = Thoroughness { samples_max: u32::MAX, percent_min: 0 };
}

/// The bounds of one compaction. They are fixed, so that it ends although commits continue.
#[derive(Debug, Clone, Copy)]
struct Scope {
    now: Timestamp,
    /// Segments beyond this position stay.
    end: Position,
}

impl Scope {
    /// The scope of a compaction that begins now. A node of a cluster leaves records that another
    /// node may still need, which would otherwise get all files.
    fn of(shard: &LoggedState) -> Result<Self> {
        let (now, mut end) = (shard.log.clock().now(), shard.log.compactable_end()?);
        if shard.office.is_member() {
            end = end.min(shard.office.needed_from()).min(shard.log.newest_sealed_from(MEMBER_SEGMENTS));
        }
        Ok(Scope { now, end })
    }
}

impl CompactionDuty {
    pub(crate) fn new(settings: CompactionSettings, seed: u64, compressor: Arc<Compressor>) -> Self {
        let scans = KeyScans::new(seed, settings.keys_max);
        CompactionDuty { settings, scans, compressor, in_background: Mutex::default() }
    }

    /// The work of scheduled compactions since the opening.
    pub(crate) fn in_background(&self) -> Compaction {
        *self.in_background.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Schedules the next periodic compaction after an interval.
    pub(crate) fn schedule(&self, shard: &LoggedState) {
        let interval_micros = self.settings.interval_ms.saturating_mul(1000);
        let now_micros = shard.log.clock().now().as_micros();
        shard.schedule.compact_at(Timestamp::from_micros(now_micros.saturating_add(interval_micros)));
    }

    /// Rewrites the segments of which enough no longer counts. Does nothing while another thread
    /// compacts.
    pub(crate) fn run(&self, shard: &LoggedState) -> Result<()> {
        let Some(_turn) = self.scans.try_turn() else { return Ok(()) };
        let mut percent_min = self.settings.percent_min;
        if shard.log_bound.is_exceeded() {
            // The wanted space may be in segments of which topics hold only a part.
            percent_min = percent_min.min(OVER_BOUND_PERCENT_MIN);
        }
        let scope = Scope::of(shard)?;
        let (done, extent) = self.compact(shard, Thoroughness { samples_max: SAMPLES, percent_min }, scope)?;
        *self.in_background.lock().unwrap_or_else(PoisonError::into_inner) += done;
        match extent {
            Extent::Part { unanswered } if !unanswered.is_empty() => Err(waits_for(&unanswered)),
            _ => Ok(()),
        }
    }

    /// Rewrites every segment with anything that no longer counts as of now.
    ///
    /// If the keys do not fit in memory, it compacts one share of the keys after another. After
    /// records were removed, records without a value may be the only ones of their key. So it
    /// compacts once more, to set the time of their removal.
    pub(crate) fn run_whole(&self, shard: &LoggedState) -> Result<Compaction> {
        let _turn = self.scans.turn();
        // Later records are left to the next compaction, so this one ends.
        let scope = Scope::of(shard)?;
        self.scans.clear();
        let mut done = Compaction::default();
        loop {
            let (more, extent) = match self.compact(shard, Thoroughness::FULL, scope) {
                // A process that did not answer is not a failure of this duty.
                Ok(part @ (_, Extent::Part { .. })) => part,
                ended => shard.failures.note(Duty::Compact, shard.log.clock().now(), ended)?,
            };
            done += more;
            let compacted = shard.read_latest()?.models.streams.compacted();
            if extent != Extent::Whole || !self.scans.are_due(&compacted, scope.end, scope.now) {
                return Ok(done);
            }
        }
    }

    /// Answers the compaction of another process. Returns whether there was one to answer.
    pub(crate) fn attend(&self, shard: &LoggedState) -> Result<bool> {
        let Some(round) = shard.log.round_to_attend() else { return Ok(false) };
        // Entries that the new segments lack did not count in the other process's state; this state
        // must have applied the same records.
        shard.catch_up()?;
        shard.log.attend(round)?;
        shard.write()?.writer.refresh();
        Ok(true)
    }

    fn compact(&self, shard: &LoggedState, thoroughness: Thoroughness, scope: Scope) -> Result<(Compaction, Extent)> {
        shard.check_writable()?;
        let compacted = shard.read_latest()?.models.streams.compacted();
        let scanned = self.scans.scan(&shard.log, &compacted, scope.end, scope.now);
        // In a cluster, only the leader may commit.
        let beyond_limits = scanned.beyond_limits.into_iter().filter(|_| shard.office.decides());
        for command in beyond_limits {
            shard.commit_in_background(scope.now, &Commands { streams: &[command], ..Commands::default() })?;
        }
        let (mut keys, mut failed) = (scanned.keys, scanned.failed);
        let rewritten = self.rewrite(shard, thoroughness, scope, &mut keys, &mut failed);
        match rewritten {
            Ok((_, Extent::Whole)) => self.scans.done(&keys),
            Ok((_, Extent::Part { .. })) | Err(_) => self.scans.not_done(&keys),
        }
        let done = rewritten?;
        failed.map_or(Ok(done), Err)
    }

    /// Rewrites the segments that are worth it, as far as other processes let it. Damage is
    /// reported in `failed`.
    ///
    /// The log asks which entries survive while no other thread or process seals or compacts.
    fn rewrite(
        &self,
        shard: &LoggedState,
        thoroughness: Thoroughness,
        scope: Scope,
        keys: &mut NewestKeys,
        failed: &mut Option<Error>,
    ) -> Result<(Compaction, Extent)> {
        let Some(mut compactor) = shard.log.begin_compaction(|| shard.catch_up())? else {
            // Another process is compacting.
            return Ok((Compaction::default(), Extent::Part { unanswered: Vec::new() }));
        };
        let history_micros = self.settings.history_ms.saturating_mul(1000);
        let history_from = Timestamp::from_micros(scope.now.as_micros().saturating_sub(history_micros));
        let mut shares = {
            let mut survives = survives(shard, keys, history_from, Purpose::Plan);
            compactor.shares(thoroughness.samples_max, &mut survives)?
        };
        shares.retain(|share| share.end <= scope.end);
        erasing::mark(shard, &mut shares)?;
        let plan = CompactionPlan::of(&shares, shard.log.settings().segment_bytes, thoroughness.percent_min);
        let mut survives = survives(shard, keys, history_from, Purpose::Rewrite(&self.compressor));
        // The disk gets the space of a run back once no process maps the old segments.
        let mut release = || {
            shard.write()?.writer.refresh();
            Ok(!shard.schedule.is_stopping())
        };
        RunRewriter {
            compactor: &mut compactor,
            shares: &shares,
            survives: &mut survives,
            release_and_continue: &mut release,
        }
        .rewrite_all(&plan.runs, failed)
    }

    #[cfg(test)]
    pub(crate) fn last_scan(&self) -> u64 {
        self.scans.last_scan()
    }
}

/// Says what survives of entries: the models judge first, by their state as it is now, then graph
/// histories, then the keys.
fn survives<'s>(
    shard: &'s LoggedState,
    keys: &'s mut NewestKeys,
    history_from: Timestamp,
    purpose: Purpose<'s>,
) -> impl FnMut(&[Entry<'_>], &mut Vec<Survival>) + 's {
    move |entries, answers| {
        let mut superseded = Vec::new();
        match shard.read() {
            Ok(state) => {
                let graphs = &state.models.graphs;
                let of_graph = |entry: &Entry<'_>| entry.kind.model == ModelId::GRAPH;
                let graph_entries = entries.iter().enumerate().filter(|(_, entry)| of_graph(entry));
                superseded.extend(graph_entries.filter_map(|(at, entry)| Some((at, graphs.superseded(entry)?))));
                answers.extend(entries.iter().map(|entry| state.models.survives(entry, history_from).into()));
                keys.keep_unread(&state.models.streams);
            }
            // Records that groups have not read are unknown too, so everything survives.
            Err(_) => return answers.resize(entries.len(), Survival::Whole),
        }
        drop_unneeded(&shard.log.reader(), &superseded, entries, answers);
        keys.leave(entries, answers, purpose);
        assert_eq!(answers.len(), entries.len(), "each entry has one answer");
    }
}

/// Drops superseded graph entries that no history needs. An entry that can't be judged survives.
fn drop_unneeded(
    history: &Reader,
    superseded: &[(usize, SupersededEntry)],
    entries: &[Entry<'_>],
    answers: &mut [Survival],
) {
    for (at, superseded) in superseded {
        if let Ok(false) = superseded.is_needed(history, &entries[*at]) {
            answers[*at] = Survival::Nothing;
        }
    }
}

/// The error that names the processes which keep disk space from being freed.
fn waits_for(processes: &[u32]) -> Error {
    let processes: Vec<_> = processes.iter().map(u32::to_string).collect();
    let message = format!(
        "compaction can't free disk space: these processes have the database open and did not answer within about two seconds, \
         because they are stopped or busy: {}; it is retried, and succeeds when they answer or end",
        processes.join(", ")
    );
    Error::new(ErrorKind::InUse, message)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use quire_log::SystemClock;

    use crate::commands::Commands;
    use crate::events::{Append, Command, EventPosition, NewEvent};
    use crate::shard::Shard;
    use crate::testing;

    fn append(shard: &Shard, store: &str) {
        let events = vec![NewEvent::new("T").data([7; 1000])];
        let append = Command::Append(Append { store, events, conditions: Vec::new() });
        testing::commit(shard, &Commands { events: &[append], ..Commands::default() });
    }

    #[test]
    fn closing_waits_for_the_run_that_is_being_rewritten_and_for_no_other() {
        let directory = tempfile::tempdir().expect("a directory");
        let shard = testing::open(directory.path(), 50, Arc::new(SystemClock));
        for _ in 0..300 {
            for store in ["kept", "trimmed"] {
                append(&shard, store);
            }
        }
        let trim = Command::Trim { store: "trimmed", up_to: EventPosition::new(300) };
        testing::commit(&shard, &Commands { events: &[trim], ..Commands::default() });
        testing::seal(&shard);
        for _ in 0..2 {
            append(&shard, "kept");
            shard.checkpoint().expect("saved");
        }
        shard.stop_duties();
        let one = shard.compact_whole().expect("compacted");
        assert!((1..4).contains(&one.segments), "{one:?}");
        // The next compaction continues with the other runs.
        let another = shard.compact_whole().expect("compacted");
        assert!((1..4).contains(&another.segments), "{another:?}");
    }
}
