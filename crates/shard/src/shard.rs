//! The shard: it owns the components, and wires them.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use quire_log::{Basis, Compaction, Components, Identity, Log, Mark, Recovery};
use quire_model::{Position, StepBudget, Timestamp};

use crate::commands::Replies;
use crate::compaction::{CompactionDuty, CompactionSettings};
use crate::compressor::Compressor;
use crate::decide::{CommitLimits, DecidedCommit};
use crate::delivery::DeliveryDuty;
use crate::duties::{Duty, DutyFailure, DutyRunner};
use crate::error::{Error, Result};
use crate::gauges::GaugeDuty;
use crate::graph;
use crate::logged_state::LoggedState;
use crate::models::seed_of;
use crate::opening::{self, RestoredShard};
use crate::permitted::PermittedCommands;
use crate::retention::LogBound;
use crate::settings::ShardSettings;
use crate::system;
use crate::view::ReadView;

/// One log and its models. See the [crate](crate).
#[derive(Debug)]
pub struct Shard {
    /// The id of the database.
    id: u128,
    logged: LoggedState,
    compressor: Arc<Compressor>,
    compaction: CompactionDuty,
    delivery: DeliveryDuty,
    gauges: GaugeDuty,
    /// The number of records that opening applied after the newest checkpoint.
    replayed: u64,
}

impl Shard {
    /// Opens the shard in `directory`, and creates its log when there is none. `graph_memory` is
    /// called once the log is open.
    ///
    /// # Errors
    /// [`ErrorKind::InUse`](crate::ErrorKind::InUse),
    /// [`ErrorKind::NewerFormat`](crate::ErrorKind::NewerFormat),
    /// [`ErrorKind::Damaged`](crate::ErrorKind::Damaged),
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) for settings,
    /// [`ErrorKind::NoSpace`](crate::ErrorKind::NoSpace) and
    /// [`ErrorKind::Io`](crate::ErrorKind::Io).
    pub fn open(
        directory: &Path,
        identity: Identity,
        settings: ShardSettings,
        components: Components,
        graph_memory: impl FnOnce() -> graph::Memory,
    ) -> Result<(Self, Recovery)> {
        let RestoredShard { log, state, checkpoints, recovery, replayed } =
            opening::restore(directory, identity, &settings, components, graph_memory)?;
        let ShardSettings { retention, compress_bytes_min, read_only, .. } = settings;
        let compressor = Arc::new(Compressor::new(compress_bytes_min));
        let compaction = CompactionSettings {
            history_ms: retention.history_ms,
            interval_ms: retention.compact_interval_ms,
            percent_min: retention.compact_percent_min,
            keys_max: retention.compact_keys_max,
        };
        let shard = Shard {
            id: identity.database,
            logged: LoggedState::new(log, state, checkpoints, LogBound::new(retention.log_bytes_max), read_only),
            compaction: CompactionDuty::new(compaction, seed_of(identity.database), Arc::clone(&compressor)),
            compressor,
            delivery: DeliveryDuty::default(),
            gauges: GaugeDuty::default(),
            replayed,
        };
        shard.compaction.schedule(&shard.logged);
        Ok((shard, recovery))
    }

    /// The id of the database.
    pub fn id(&self) -> u128 {
        self.id
    }

    /// The number of records that opening applied again, after the newest checkpoint.
    pub fn replayed(&self) -> u64 {
        self.replayed
    }

    /// The log, for reads, waits and counts. Only the shard appends to it.
    #[inline]
    pub fn log(&self) -> &Log {
        &self.logged.log
    }

    /// The position of the last change of users, keys, roles or rules that this process has
    /// applied. It may not be published yet.
    #[inline]
    pub fn access_changed_at(&self) -> Position {
        self.logged.access_changed_at()
    }

    /// Whether the shard was opened read-only.
    pub fn is_read_only(&self) -> bool {
        self.logged.check_writable().is_err()
    }

    /// Compresses batches that are produced in this process.
    #[inline]
    pub fn compressor(&self) -> &Compressor {
        &self.compressor
    }

    /// Decides the permitted commands against everything appended so far, and appends and applies
    /// their effects: all or none. `now` is the time of the commit. After an acceptance `replies`
    /// holds the replies; earlier ones are cleared in any case.
    ///
    /// # Errors
    /// [`ErrorKind::TooLarge`](crate::ErrorKind::TooLarge),
    /// [`ErrorKind::NoSpace`](crate::ErrorKind::NoSpace),
    /// [`ErrorKind::ReadOnly`](crate::ErrorKind::ReadOnly): nothing was done.
    /// [`ErrorKind::Damaged`](crate::ErrorKind::Damaged) and
    /// [`ErrorKind::Io`](crate::ErrorKind::Io) when the decision needs history that can't be read.
    /// [`ErrorKind::Failed`](crate::ErrorKind::Failed).
    #[inline]
    pub fn commit(
        &self,
        now: Timestamp,
        permitted: &PermittedCommands<'_, '_, '_>,
        replies: &mut Replies,
    ) -> Result<DecidedCommit> {
        self.logged.commit(now, permitted, replies)
    }

    /// Like [`Shard::commit`], within `limits`. Returns `None`, having done nothing, if the
    /// decision could scan more than `brief_steps_max` entries of the history.
    ///
    /// # Errors
    /// As [`Shard::commit`], and [`ErrorKind::Cancelled`](crate::ErrorKind::Cancelled).
    pub fn commit_within(
        &self,
        limits: CommitLimits<'_>,
        now: Timestamp,
        permitted: &PermittedCommands<'_, '_, '_>,
        replies: &mut Replies,
    ) -> Result<Option<DecidedCommit>> {
        self.logged.commit_within(limits, now, permitted, replies)
    }

    /// Reads the state after the last commit. Returns the answer with the record that it rests on:
    /// the answer may leave the database once that record is published. Reads of the view's history
    /// claim their steps from `budget`.
    ///
    /// # Errors
    /// [`ErrorKind::Failed`](crate::ErrorKind::Failed).
    /// [`ErrorKind::NotLeader`](crate::ErrorKind::NotLeader) as [`Shard::check_serves`].
    pub fn read<T>(&self, budget: Option<&StepBudget>, look: impl FnOnce(&ReadView<'_>) -> T) -> Result<(Basis, T)> {
        self.check_serves()?;
        self.read_here(budget, look)
    }

    /// Reads like [`Shard::read`], also where this node does not lead. The last commits of the
    /// cluster may be missing here.
    ///
    /// # Errors
    /// [`ErrorKind::Failed`](crate::ErrorKind::Failed).
    pub fn read_here<T>(
        &self,
        budget: Option<&StepBudget>,
        look: impl FnOnce(&ReadView<'_>) -> T,
    ) -> Result<(Basis, T)> {
        let state = self.logged.read_latest()?;
        let history = state.writer.reader().within(budget.cloned());
        let view = ReadView::of(&state, &history);
        Ok((state.writer.basis(), look(&view)))
    }

    /// Reads the published log. The view's state of queues, graphs and groups may be ahead of it by
    /// commits that are not durable yet.
    ///
    /// Trims of event stores and graphs are part of that state, and a read must not leave out
    /// records that could come back. So it waits until the last trim is published.
    ///
    /// # Errors
    /// [`ErrorKind::Failed`](crate::ErrorKind::Failed).
    /// [`ErrorKind::NotLeader`](crate::ErrorKind::NotLeader) as [`Shard::check_serves`].
    pub fn read_published<T>(&self, budget: Option<&StepBudget>, look: impl FnOnce(&ReadView<'_>) -> T) -> Result<T> {
        self.check_serves()?;
        self.read_published_after(budget, look, |trimmed_at| Ok(self.log().reach(trimmed_at)?))
    }

    /// Reads like [`Shard::read_published`], also where this node does not lead. It waits at most
    /// `at_most` for the publication of a trim.
    ///
    /// # Errors
    /// [`ErrorKind::Failed`](crate::ErrorKind::Failed).
    /// [`ErrorKind::NotLeader`](crate::ErrorKind::NotLeader) after `at_most`.
    pub fn read_published_here<T>(
        &self,
        budget: Option<&StepBudget>,
        at_most: Duration,
        look: impl FnOnce(&ReadView<'_>) -> T,
    ) -> Result<T> {
        self.read_published_after(budget, look, |trimmed_at| match self.wait(trimmed_at, at_most)? {
            true => Ok(()),
            false => Err(Error::unconfirmed_here()),
        })
    }

    fn read_published_after<T>(
        &self,
        budget: Option<&StepBudget>,
        look: impl FnOnce(&ReadView<'_>) -> T,
        mut reach: impl FnMut(Position) -> Result<()>,
    ) -> Result<T> {
        let log = self.log();
        let mut state = self.logged.read_latest()?;
        loop {
            let trimmed_at = state.models.events.gone_since().max(state.models.graphs.trimmed_at());
            if trimmed_at <= log.published() {
                return Ok(look(&ReadView::of(&state, &log.reader().within(budget.cloned()))));
            }
            drop(state);
            reach(trimmed_at)?;
            state = self.logged.read()?;
        }
    }

    /// Reads the state that this node has applied, also where it does not lead.
    ///
    /// # Errors
    /// [`ErrorKind::Failed`](crate::ErrorKind::Failed).
    pub fn read_local<T>(&self, look: impl FnOnce(&ReadView<'_>) -> T) -> Result<T> {
        let state = self.logged.read_latest()?;
        Ok(look(&ReadView::of(&state, &state.writer.reader())))
    }

    /// Returns users, keys, roles and rules as this node has applied them, also where it does not
    /// lead, and the record that they rest on.
    ///
    /// # Errors
    /// [`ErrorKind::Failed`](crate::ErrorKind::Failed).
    pub fn access_state(&self) -> Result<(Basis, system::System)> {
        let state = self.logged.read_latest()?;
        Ok((state.writer.basis(), state.models.system.clone()))
    }

    /// The mark of the record at `position`, published or not, also of one that another process
    /// appended; `None` when there is no such record.
    ///
    /// # Errors
    /// Those of [`Shard::catch_up`].
    pub fn mark_at(&self, position: Position) -> Result<Option<Mark>> {
        self.logged.mark_at(position)
    }

    /// Truncates the log after the record of `mark`, and restores the state to that record: from
    /// the newest checkpoint and the log after it. Later commits never happened here. Each of their
    /// tickets ends with [`ErrorKind::Unsettled`](crate::ErrorKind::Unsettled).
    ///
    /// # Errors
    /// Those of [`Writer::truncate_after`](quire_log::Writer::truncate_after): nothing has changed,
    /// except after [`ErrorKind::Failed`](crate::ErrorKind::Failed). Where the log was truncated
    /// and the state could not be restored, every later call fails with that kind.
    pub fn truncate_after(&self, mark: Mark) -> Result<()> {
        self.logged.truncate_after(mark)
    }

    /// Applies the records that other processes have published.
    ///
    /// # Errors
    /// When a record can't be read, or holds entries of a model that this program does not know.
    pub fn catch_up(&self) -> Result<()> {
        self.logged.catch_up()
    }

    /// Waits until `position` is published by any process, at most for `timeout`. Returns whether
    /// it is published.
    ///
    /// # Errors
    /// [`ErrorKind::Failed`](crate::ErrorKind::Failed).
    pub fn wait(&self, position: Position, timeout: Duration) -> Result<bool> {
        self.logged.wait(position, timeout)
    }

    /// Saves the state, unless the newest checkpoint holds it already.
    ///
    /// # Errors
    /// [`ErrorKind::NoSpace`](crate::ErrorKind::NoSpace), [`ErrorKind::Io`](crate::ErrorKind::Io),
    /// [`ErrorKind::Failed`](crate::ErrorKind::Failed): commits and reads continue without it.
    pub fn checkpoint(&self) -> Result<()> {
        self.logged.checkpoint()
    }

    /// Rewrites every segment with anything that no longer counts.
    ///
    /// # Errors
    /// [`ErrorKind::Damaged`](crate::ErrorKind::Damaged),
    /// [`ErrorKind::NoSpace`](crate::ErrorKind::NoSpace), [`ErrorKind::Io`](crate::ErrorKind::Io),
    /// [`ErrorKind::Failed`](crate::ErrorKind::Failed).
    pub fn compact_whole(&self) -> Result<Compaction> {
        self.compaction.run_whole(&self.logged)
    }

    /// Carries out `duty` if it is due. Returns whether there was anything to do.
    ///
    /// # Errors
    /// Those of the duty, which is due again later.
    pub fn carry_out(&self, duty: Duty) -> Result<bool> {
        self.duty_runner().carry_out(duty)
    }

    /// The duties that failed when they last ran.
    pub fn failing(&self) -> Vec<DutyFailure> {
        let sealing = self.logged.log.sealing_failure().map(DutyFailure::of_sealing);
        self.logged.failures.all().into_iter().chain(sealing).collect()
    }

    /// The compactions of this process that a schedule began.
    pub fn background_compactions(&self) -> Compaction {
        self.compaction.in_background()
    }

    /// Whether any topic compresses batches of producers in this process, as far as this process
    /// has applied the log.
    pub fn any_topic_compresses(&self) -> bool {
        self.logged.any_topic_compresses()
    }

    /// Whether any topic is compacted by key, as far as this process has applied the log.
    pub fn any_topic_compacts(&self) -> bool {
        self.logged.any_topic_compacts()
    }

    /// Commits refused, and checkpoints saved.
    pub fn counts(&self) -> (u64, u64) {
        self.logged.counts()
    }

    pub(crate) fn logged(&self) -> &LoggedState {
        &self.logged
    }

    pub(crate) fn duty_runner(&self) -> DutyRunner<'_> {
        let Shard { logged, compaction, delivery, gauges, .. } = self;
        DutyRunner { shard: logged, compaction, delivery, gauges }
    }

    /// Makes the threads that carry out duties end.
    pub(crate) fn stop_duties(&self) {
        self.logged.schedule.stop();
        self.logged.delivery_requests.stop();
        self.log().stop_listening();
        // The threads may wait for records that only other nodes publish.
        self.retire();
    }

    /// Writes what the next opening profits from. Nothing depends on it, so failures are ignored.
    pub(crate) fn close(&self) {
        // The gauges then stay right while no process has the shard open.
        let _ = self.gauges.run_at_close(&self.logged);
        // A checkpoint shortens the next opening. The last process to close saves it for all.
        if !self.log().has_other_processes() {
            let _ = self.checkpoint();
        }
    }

    #[cfg(test)]
    pub(crate) fn last_key_scan(&self) -> u64 {
        self.compaction.last_scan()
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::Arc;

    use quire_log::{Clock, Durability, Mark, SystemClock};

    use super::*;
    use crate::commands::Commands;
    use crate::decide::WriterState;
    use crate::error::ErrorKind;
    use crate::jobs::{self, JobSpec};
    use crate::testing;

    /// Opens a shard, panics under the lock as a commit could, and returns the result of the next
    /// commit.
    fn after_a_panic(within: impl FnOnce(&mut WriterState)) -> Result<()> {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let shard = testing::open(directory.path(), 50, Arc::new(SystemClock));
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let mut state = shard.logged.write().expect("not broken");
            within(&mut state);
            panic!("of a commit");
        }));
        assert!(panicked.is_err());
        let commands = [jobs::Command::Enqueue { queue: "queue", job: JobSpec::new(b"") }];
        let commands = PermittedCommands::by_owner(Commands { jobs: &commands, ..Commands::default() });
        let next = shard.commit(shard.log().clock().now(), &commands, &mut Replies::default());
        let next = next.map(|decided| _ = decided.verdict.expect("accepted"));
        assert_eq!(next.is_ok(), shard.read(None, |view| view.jobs.queue_stats("queue")).is_ok());
        next
    }

    /// Enqueues a job, without waiting until the commit is published.
    fn enqueue(shard: &Shard, queue: &str) -> DecidedCommit {
        let commands = [jobs::Command::Enqueue { queue, job: JobSpec::new(b"") }];
        let commands = PermittedCommands::by_owner(Commands { jobs: &commands, ..Commands::default() });
        shard.commit(shard.log().clock().now(), &commands, &mut Replies::default()).expect("written")
    }

    #[test]
    fn a_truncation_takes_back_unpublished_commits_and_their_state() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let shard = testing::open_with(directory.path(), 50, Arc::new(SystemClock), Durability::Sync);
        let has_queue = |name| shard.read(None, |view| view.jobs.queue_stats(name).is_some()).expect("read").1;
        let kept = enqueue(&shard, "kept").rests_on;
        shard.log().wait(kept).expect("published");
        let removed = enqueue(&shard, "removed").rests_on;
        assert!(has_queue("removed"));

        let not_there = Mark { chain: removed.mark.chain ^ 1, ..removed.mark };
        let refused = shard.truncate_after(not_there).expect_err("no such record");
        assert!(has_queue("removed"), "a refused truncation changes nothing: {refused}");

        shard.truncate_after(kept.mark).expect("truncated");
        assert!(has_queue("kept") && !has_queue("removed"));
        let unsettled = shard.log().wait(removed).map_err(crate::Error::from).expect_err("removed");
        assert_eq!(unsettled.kind(), ErrorKind::Unsettled);

        let again = enqueue(&shard, "again").rests_on;
        assert_eq!(again.position(), removed.position(), "the position is given again");
        shard.log().wait(again).expect("published");
        assert!(has_queue("kept") && has_queue("again") && !has_queue("removed"));
        assert_eq!(shard.truncate_after(kept.mark).expect_err("published").kind(), ErrorKind::Failed);
    }

    #[test]
    fn a_decision_that_panics_does_not_affect_later_commits() {
        after_a_panic(|_| ()).expect("accepted");
    }

    #[test]
    fn after_a_commit_that_panics_during_its_append_the_shard_refuses_commits_and_reads() {
        assert_eq!(after_a_panic(|state| state.is_torn = true).expect_err("broken").kind(), ErrorKind::Failed);
    }
}
