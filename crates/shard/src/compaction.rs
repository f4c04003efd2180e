//! Compaction of a database: what no longer counts goes from the sealed segments, and its disk space comes back.
//!
//! ```text
//! compacted topics: look through what is due ─▶ per partition the newest record of each key (keys.rs)
//! each segment, by samples ─▶ CompactionPlan ─▶ each run, entry by entry: the models, the pasts of graphs, the keys say what is left
//! ```

use quire_log::{Clock, Compaction, CompactionPlan, Compactor, Reader, Run, Share, Survival, Survives};
use quire_model::{Entry, ModelId, Position, Timestamp};

use crate::decide::{Commands, Replies};
use crate::duty::Duty;
use crate::error::{Error, ErrorKind, Result};
use crate::graph::Superseded;
use crate::keys::{Keys, Purpose};
use crate::shard::Shard;

/// How much an interval's compaction looks at of each segment: enough to tell a half from a quarter.
const SAMPLES: u32 = 64;

/// How much of a segment has to be of no use at most, in percent, while the log is to take less of the disk than it would.
const PRESSED_PERCENT_MIN: u8 = 10;

/// How many segments are tried that the disk has no room to rewrite, before the rest is left to the next time.
const NO_ROOM_MAX: u32 = 4;

/// How thorough a compaction is.
#[derive(Debug, Clone, Copy)]
struct Thoroughness {
    /// How many entries of a segment it goes by when it plans.
    samples_max: u32,
    /// How much of a segment has to be of no use before it is rewritten.
    percent_min: u8,
}

impl Thoroughness {
    /// Whatever is of no use goes, however little it is.
    const FULL: Self = Thoroughness { samples_max: u32::MAX, percent_min: 0 };
}

/// How much of what is worth rewriting was.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Extent {
    Whole,
    /// Another process is at it, or these have not said that they keep the segments which would go.
    Part(Vec<u32>),
}

impl Shard {
    /// Rewrites the segments of which enough no longer counts, unless that is being done.
    pub(crate) fn compact_in_time(&self) -> Result<()> {
        let Some(_turn) = self.keys.try_turn() else { return Ok(()) };
        let mut percent_min = self.retention.compact_percent_min;
        if self.pressure.is_on() {
            // The space that is asked for is in segments of which perhaps only a part are records of topics.
            percent_min = percent_min.min(PRESSED_PERCENT_MIN);
        }
        let scope = (self.log.clock().now(), self.log.compactable_end()?);
        match self.compact(Thoroughness { samples_max: SAMPLES, percent_min }, scope)? {
            (_, Extent::Part(unanswered)) if !unanswered.is_empty() => Err(waits_for(&unanswered)),
            _ => Ok(()),
        }
    }

    /// Rewrites every segment of which anything no longer counts, as of now: partition by partition and share by share, where there are
    /// more keys than are known at a time, and once more where records went, for then others may be told when they may go.
    pub fn compact_whole(&self) -> Result<Compaction> {
        let _turn = self.keys.turn();
        // What is written meanwhile is left to the next time, so this comes to an end.
        let (now, end) = (self.log.clock().now(), self.log.compactable_end()?);
        self.keys.forget();
        let mut done = Compaction::default();
        loop {
            let (more, extent) = match self.compact(Thoroughness::FULL, (now, end)) {
                // It says nothing of what kept others from answering.
                Ok(part @ (_, Extent::Part(_))) => part,
                ended => self.noted(Duty::Compact, ended)?,
            };
            done += more;
            let compacted = self.state_now()?.models.streams.compacted();
            if extent != Extent::Whole || !self.keys.are_due(&compacted, end, now) {
                return Ok(done);
            }
        }
    }

    /// Has it looked at what no longer counts after an interval.
    pub(crate) fn schedule_compaction(&self) {
        let interval = self.retention.compact_interval_ms.saturating_mul(1000);
        let now = self.log.clock().now().as_micros();
        self.duties.compact_at(Timestamp::from_micros(now.saturating_add(interval)));
    }

    /// Rewrites the segments of which enough no longer counts.
    ///
    /// The log asks what survives while it keeps others from sealing and compacting; writers go on, but for the moments in
    /// which some entries are looked at.
    fn compact(&self, thoroughness: Thoroughness, (now, end): (Timestamp, Position)) -> Result<(Compaction, Extent)> {
        self.check_writable()?;
        let kept = self.retention.history_ms.saturating_mul(1000);
        let history_from = Timestamp::from_micros(now.as_micros().saturating_sub(kept));
        let compacted = self.state_now()?.models.streams.compacted();
        let looked = self.keys.look(&self.log, &compacted, end, now);
        for command in looked.too_much {
            let commands = Commands { streams: &[command], ..Commands::default() };
            let decided = self.commit(now, &commands, &mut Replies::default())?;
            self.log.request(decided.rests_on);
        }
        let (mut keys, mut failed) = (looked.keys, looked.failed);
        let rewritten = self.rewrite(thoroughness, (history_from, end), &mut keys, &mut failed);
        match rewritten {
            Ok((_, Extent::Whole)) => self.keys.done(&keys),
            Ok((_, Extent::Part(_))) | Err(_) => self.keys.not_done(&keys),
        }
        let done = rewritten?;
        failed.map_or(Ok(done), Err)
    }

    /// Rewrites as much as others let it; says whether that is all that is worth it. What is damaged is told in `failed`.
    fn rewrite(
        &self,
        thoroughness: Thoroughness,
        (history_from, end): (Timestamp, Position),
        keys: &mut Keys,
        failed: &mut Option<Error>,
    ) -> Result<(Compaction, Extent)> {
        let Some(mut compactor) = self.log.begin_compaction(|| self.catch_up())? else {
            // Another process is at it.
            return Ok((Compaction::default(), Extent::Part(Vec::new())));
        };
        let mut shares = {
            let mut survives = self.survives(keys, history_from, Purpose::Plan);
            compactor.shares(thoroughness.samples_max, &mut survives)?
        };
        shares.retain(|share| share.end <= end);
        self.mark_what_is_erased(&mut shares)?;
        let plan = CompactionPlan::of(&shares, self.log.settings().segment_bytes, thoroughness.percent_min);
        let mut survives = self.survives(keys, history_from, Purpose::Rewrite(&self.compressor));
        // The disk has the space of a run back once nobody has the old segments mapped, however far it comes.
        let mut let_go = || {
            self.state_mut()?.writer.refresh();
            Ok(!self.duties.are_stopping())
        };
        Rewriting { compactor: &mut compactor, shares: &shares, survives: &mut survives, let_go: &mut let_go }
            .all(&plan.runs, failed)
    }

    /// Does what a compaction by another process asks for; says whether there was anything.
    pub(crate) fn attend(&self) -> Result<bool> {
        let Some(round) = self.log.round_to_attend() else { return Ok(false) };
        // What the new segments do not hold did not count in the state that another had by then; nor must it in this one.
        self.catch_up()?;
        self.log.attend(round)?;
        self.state_mut()?.writer.refresh();
        Ok(true)
    }

    /// What is left of entries: first the models say, by their state as it is now, then the log, of the pasts of graphs, then the keys.
    fn survives<'s>(
        &'s self,
        keys: &'s mut Keys,
        history_from: Timestamp,
        purpose: Purpose<'s>,
    ) -> impl FnMut(&[Entry<'_>], &mut Vec<Survival>) + 's {
        move |entries, answers| {
            let mut superseded = Vec::new();
            match self.state() {
                Ok(state) => {
                    let graphs = &state.models.graphs;
                    let of_graph = |entry: &Entry<'_>| entry.kind.model == ModelId::GRAPH;
                    let graph_entries = entries.iter().enumerate().filter(|(_, entry)| of_graph(entry));
                    superseded.extend(graph_entries.filter_map(|(at, entry)| Some((at, graphs.superseded(entry)?))));
                    answers.extend(entries.iter().map(|entry| state.models.survives(entry, history_from).into()));
                    keys.keep_unread(&state.models.streams);
                }
                // Nor is it known what groups have not read.
                Err(_) => return answers.resize(entries.len(), Survival::Whole),
            }
            leave_pasts(&self.log.reader(), &superseded, entries, answers);
            keys.leave(entries, answers, purpose);
        }
    }
}

/// What runs are rewritten with.
struct Rewriting<'r, 'l> {
    compactor: &'r mut Compactor<'l>,
    shares: &'r [Share],
    survives: &'r mut Survives<'r>,
    /// Lets go of the old segments, and says whether to go on.
    let_go: &'r mut dyn FnMut() -> Result<bool>,
}

impl Rewriting<'_, '_> {
    /// Rewrites runs as far as others let it; says whether it came to the end. Damage in one run keeps no other from being rewritten, nor
    /// does it when the disk has no room for what is left of one: another may give it. What kept one from it is told in `failed`.
    fn all(&mut self, runs: &[Run], failed: &mut Option<Error>) -> Result<(Compaction, Extent)> {
        let (mut done, mut runs, mut no_room) = (Compaction::default(), runs, 0);
        while !runs.is_empty() {
            let (now, later) = runs.split_at(self.compactor.held_by_others(runs)?);
            if now.is_empty() {
                // Others have not answered: what they have open stays until the next time.
                return Ok((done, Extent::Part(self.compactor.unanswered())));
            }
            let mut left: Vec<Run> = now.iter().rev().copied().collect();
            while let Some(run) = left.pop() {
                let rewritten = self.compactor.compact(run, self.survives);
                let goes_on = (self.let_go)()?;
                match rewritten {
                    Ok(more) => done += more,
                    Err(error @ quire_log::Error::NoSpace { .. }) => match halves(run, self.shares) {
                        // Of fewer segments at a time less is left.
                        Some((one, other)) => left.extend([other, one]),
                        None => {
                            no_room += 1;
                            *failed = failed.take().or(Some(error.into()));
                        }
                    },
                    Err(error) if is_lost(&error) => *failed = failed.take().or(Some(error.into())),
                    Err(error) => return Err(error.into()),
                }
                if !goes_on || no_room == NO_ROOM_MAX {
                    return Ok((done, Extent::Part(Vec::new())));
                }
            }
            runs = later;
        }
        Ok((done, if no_room == 0 { Extent::Whole } else { Extent::Part(Vec::new()) }))
    }
}

/// A run of several segments as two of half as many.
fn halves(run: Run, shares: &[Share]) -> Option<(Run, Run)> {
    let begin = shares.partition_point(|share| share.first < run.first);
    let end = shares.partition_point(|share| share.end <= run.end);
    let all = shares.get(begin..end).filter(|all| all.len() > 1)?;
    let middle = all[all.len() / 2].first;
    Some((Run { end: middle, ..run }, Run { first: middle, ..run }))
}

/// Whether it is one segment that can't be rewritten, and no other's reason: it is damaged, or gone.
fn is_lost(error: &quire_log::Error) -> bool {
    match error {
        quire_log::Error::Unreadable(_) | quire_log::Error::Damaged { .. } => true,
        quire_log::Error::Io { source, .. } => source.kind() == std::io::ErrorKind::NotFound,
        _ => false,
    }
}

/// Why disk space does not come back, for whoever looks after the database.
fn waits_for(processes: &[u32]) -> Error {
    let processes: Vec<_> = processes.iter().map(u32::to_string).collect();
    let message = format!(
        "what no longer counts stays on the disk: these processes have the database open and did not answer within about two seconds, \
         stopped or with much to take in: {}; it is tried again, and goes on when they answer or end",
        processes.join(", ")
    );
    Error::new(ErrorKind::InUse, message)
}

/// Says of those entries of graphs that may no longer count what is left of them. What can't be told stays.
fn leave_pasts(history: &Reader, superseded: &[(usize, Superseded)], entries: &[Entry<'_>], answers: &mut [Survival]) {
    for (at, superseded) in superseded {
        if let Ok(false) = superseded.is_needed(history, &entries[*at]) {
            answers[*at] = Survival::Nothing;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use quire_log::SystemClock;

    use crate::decide::Commands;
    use crate::events::{Append, Command, EventPosition, NewEvent};
    use crate::shard::Shard;
    use crate::testing;

    fn append(shard: &Shard, store: &str) {
        let events = vec![NewEvent::new("T").data(&[7; 1000])];
        let append = Command::Append(Append { store, events, conditions: Vec::new() });
        testing::commit(shard, &Commands { events: &[append], ..Commands::default() });
    }

    #[test]
    fn who_closes_a_database_waits_for_the_run_that_is_rewritten_and_for_no_other() {
        let directory = tempfile::tempdir().expect("a directory");
        let shard = testing::open(directory.path(), 50, Arc::new(SystemClock));
        for _ in 0..300 {
            for store in ["kept", "gone"] {
                append(&shard, store);
            }
        }
        let trim = Command::Trim { store: "gone", up_to: EventPosition::new(300) };
        testing::commit(&shard, &Commands { events: &[trim], ..Commands::default() });
        testing::seal(&shard);
        for _ in 0..2 {
            append(&shard, "kept");
            shard.checkpoint().expect("saved");
        }
        shard.duties.stop();
        let one = shard.compact_whole().expect("compacted");
        assert!((1..4).contains(&one.segments), "{one:?}");
        // What is left is left for the next time.
        assert!(shard.duties.are_stopping());
        let another = shard.compact_whole().expect("compacted");
        assert!((1..4).contains(&another.segments), "{another:?}");
    }
}
