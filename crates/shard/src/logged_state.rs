//! The log of a shard and the models' state that follows from it, behind one lock.
//!
//! It is the only path to the state, for commits and for reads. The order of locks is: the newest
//! checkpoint, the state, the schedule of duties, the log's own. Except for the closure of a read,
//! no code outside of the shard runs under one of them.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use quire_log::{Clock, Durability, Log, Mark, WaitDeadline, WaitOutcome, Woken};
use quire_model::{Position, StepBudget, Timestamp};
use quire_threads::{FairRwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::checkpoint::Checkpoints;
use crate::commands::{Commands, Replies};
use crate::creators::CreatorRules;
use crate::decide::{CommitLimits, DecidedCommit, WriterState, is_too_costly};
use crate::delivery::DeliveryRequests;
use crate::denial::Denial;
use crate::duties::{Failures, Schedule};
use crate::error::{Error, ErrorKind, Result};
use crate::office::OfficeStatus;
use crate::permitted::{Authority, PermittedCommands};
use crate::retention::LogBound;
use crate::{events, graph, streams, yielding};

/// A waiting commit is passed by other commits and reads for this long: a loop of commits without a
/// pause yields the turn then. Shorter patience would make the threads of a busy `os` database
/// alternate, at several microseconds for each change of threads.
const PATIENCE_MICROS: u64 = 1_000;

/// The most steps of a bounded request's decision under the turn, which take about a millisecond.
/// Everything that was published before the turn was scanned without it.
const TURN_STEPS_MAX: u64 = 32_768;

/// How often a decision that exceeds [`TURN_STEPS_MAX`] is prepared again.
const PREPARED_AGAIN_MAX: u32 = 3;

/// See the module.
#[derive(Debug)]
pub(crate) struct LoggedState {
    pub(crate) log: Log,
    /// Whether commits and checkpoints are refused.
    read_only: bool,
    /// The state after the last appended record, and the only way to append.
    state: FairRwLock<WriterState>,
    checkpoints: Checkpoints,
    /// The duties that a commit may make due.
    pub(crate) schedule: Schedule,
    pub(crate) delivery_requests: DeliveryRequests,
    pub(crate) log_bound: LogBound,
    pub(crate) failures: Failures,
    refusals: AtomicU64,
    topic_flags: TopicFlags,
    pub(crate) office: OfficeStatus,
    /// The position of the last applied change of access. Written under the lock of the state.
    access_changed_at: AtomicU64,
}

/// Settings of topics that producers in this process act on. While no topic has one, producers look
/// up no topic for it.
#[derive(Debug, Default)]
struct TopicFlags {
    any_compresses: AtomicBool,
    any_compacts: AtomicBool,
}

impl TopicFlags {
    fn refresh(&self, streams: &streams::Streams) {
        self.any_compresses.store(streams.compresses(), Ordering::Relaxed);
        self.any_compacts.store(streams.compacts(), Ordering::Relaxed);
    }
}

impl LoggedState {
    pub(crate) fn new(
        log: Log,
        state: WriterState,
        checkpoints: Checkpoints,
        log_bound: LogBound,
        read_only: bool,
    ) -> Self {
        let schedule = Schedule::default();
        let office = OfficeStatus::of(state.office);
        schedule.set_job_due(state.models.jobs.next_due().filter(|_| office.decides()));
        // Even if no topic has a limit today: another process may set one and end.
        schedule.retain_at(log.clock().now());
        let access_changed_at = AtomicU64::new(state.models.system.changed_at().get());
        let topic_flags = TopicFlags::default();
        topic_flags.refresh(&state.models.streams);
        let delivery_requests = DeliveryRequests::default();
        // Published events may not have been delivered before the last process closed the shard.
        delivery_requests.request(log.published());
        LoggedState {
            log,
            read_only,
            state: FairRwLock::new(state, PATIENCE_MICROS),
            checkpoints,
            schedule,
            delivery_requests,
            log_bound,
            failures: Failures::default(),
            refusals: AtomicU64::new(0),
            topic_flags,
            office,
            access_changed_at,
        }
    }

    /// The state as this process has applied it. A decision that panicked changed nothing.
    ///
    /// # Errors
    /// [`ErrorKind::Failed`] when a commit panicked after its decision.
    pub(crate) fn read(&self) -> Result<RwLockReadGuard<'_, WriterState>> {
        let state = self.state.read(|| self.micros());
        if state.is_torn { Err(torn()) } else { Ok(state) }
    }

    /// The state after everything that other processes have published.
    ///
    /// # Errors
    /// As [`LoggedState::read`], and when a record can't be read.
    pub(crate) fn read_latest(&self) -> Result<RwLockReadGuard<'_, WriterState>> {
        self.catch_up()?;
        self.read()
    }

    #[inline(always)]
    pub(crate) fn write(&self) -> Result<RwLockWriteGuard<'_, WriterState>> {
        let state = match self.log.durability() {
            Durability::Sync => yielding::write(&self.state, || self.micros()),
            Durability::Os => self.state.write(|| self.micros()),
        };
        if state.is_torn { Err(torn()) } else { Ok(state) }
    }

    fn micros(&self) -> u64 {
        self.log.clock().now().as_micros()
    }

    /// Applies the records that other processes have published.
    pub(crate) fn catch_up(&self) -> Result<()> {
        if !self.log.is_behind() {
            return Ok(());
        }
        let (caught_up, woken) = {
            let mut state = self.write()?;
            let caught_up = state.follow();
            (caught_up, self.after_following(&mut state))
        };
        drop(woken);
        self.request_checkpoint_if_due();
        caught_up
    }

    /// Waits until `position` is published by any process, at most for `timeout`. Returns whether
    /// it is published.
    pub(crate) fn wait(&self, position: Position, timeout: Duration) -> Result<bool> {
        let until = WaitDeadline::after(timeout);
        loop {
            match self.log.sleep(position, until)? {
                WaitOutcome::Published => return Ok(true),
                WaitOutcome::Behind => self.catch_up()?,
                WaitOutcome::TimedOut => return Ok(false),
            }
        }
    }

    /// Requests the duties that followed records make due. The caller drops the returned wake-ups
    /// after the lock: they wake the threads that wait for the followed records and for the
    /// commit's own.
    #[inline]
    pub(crate) fn after_following(&self, state: &mut WriterState) -> Woken {
        if std::mem::take(&mut state.has_followed) {
            self.schedule.set_job_due(state.models.jobs.next_due().filter(|_| self.office.decides()));
            self.topic_flags.refresh(&state.models.streams);
            self.note_access(state);
            self.request_delivery(state);
        }
        std::mem::take(&mut state.woken)
    }

    /// The mark of the record at `position`, published or not, also of one that another process
    /// appended; `None` when there is no such record.
    pub(crate) fn mark_at(&self, position: Position) -> Result<Option<Mark>> {
        let (followed, woken) = {
            let mut state = self.write()?;
            let followed = state.follow();
            (followed, self.after_following(&mut state))
        };
        drop(woken);
        followed?;
        Ok(self.log.mark_at(position)?)
    }

    /// Truncates the log after the record of `mark`, and restores the state to that record.
    pub(crate) fn truncate_after(&self, mark: Mark) -> Result<()> {
        self.check_writable()?;
        // Before the state: a compaction that holds this lock reads the state.
        let alone = self.log.lock_openings()?;
        let (restored, woken) = {
            let mut state = self.write()?;
            let mut woken = state.writer.truncate_after(&alone, mark)?;
            // Until it is restored, the state contains truncated commits.
            state.is_torn = true;
            let restored = self.checkpoints.restore(&self.log, mark, &state.writer.reader()).map(|models| {
                state.models = models;
                state.lookups = graph::SlotLookups::default();
                state.creators = CreatorRules::default();
                (state.is_torn, state.has_followed) = (false, true);
            });
            let restored = restored.map_err(|error| {
                let message = format!("the log was truncated, and the state could not be restored: {error}");
                Error::new(ErrorKind::Failed, message)
            });
            woken.join(self.after_following(&mut state));
            (restored, woken)
        };
        drop(woken);
        restored
    }

    /// Commits the permitted commands, all or none. See [`WriterState::decide_and_append`].
    #[inline]
    pub(crate) fn commit(
        &self,
        now: Timestamp,
        permitted: &PermittedCommands<'_, '_, '_>,
        replies: &mut Replies,
    ) -> Result<DecidedCommit> {
        let decided = self.commit_within(CommitLimits::NONE, now, permitted, replies)?;
        Ok(decided.expect("no decision scans more than u64::MAX entries"))
    }

    /// Commits `commands`, all or none, in the background: the log makes the record durable soon,
    /// and no thread waits for it.
    pub(crate) fn commit_in_background(&self, now: Timestamp, commands: &Commands<'_, '_>) -> Result<DecidedCommit> {
        self.commit_permitted_in_background(now, &PermittedCommands::by_owner(*commands))
    }

    /// As [`LoggedState::commit_in_background`], for permitted commands.
    pub(crate) fn commit_permitted_in_background(
        &self,
        now: Timestamp,
        permitted: &PermittedCommands<'_, '_, '_>,
    ) -> Result<DecidedCommit> {
        let decided = self.commit(now, permitted, &mut Replies::default())?;
        self.log.request(decided.rests_on);
        Ok(decided)
    }

    /// As [`LoggedState::commit_in_background`]. Fails with [`ErrorKind::TooCostly`], having done
    /// nothing, if the decision exceeds the budget.
    pub(crate) fn commit_in_background_within(
        &self,
        budget: &StepBudget,
        now: Timestamp,
        commands: &Commands<'_, '_>,
    ) -> Result<DecidedCommit> {
        self.check_writable()?;
        let (prepared, mut replies) = (events::AppendLookups::default(), Replies::default());
        let permitted = PermittedCommands::by_owner(*commands);
        let decided = self.decide_prepared(Some(budget.clone()), now, &permitted, &prepared, &mut replies)?;
        let decided = self.settle_commit(now, commands, decided)?;
        self.log.request(decided.rests_on);
        Ok(decided)
    }

    /// Commits the permitted commands, all or none, within `limits`. Returns `None`, having done
    /// nothing, if the decision could scan more than `brief_steps_max` entries of the history.
    pub(crate) fn commit_within(
        &self,
        limits: CommitLimits<'_>,
        now: Timestamp,
        permitted: &PermittedCommands<'_, '_, '_>,
        replies: &mut Replies,
    ) -> Result<Option<DecidedCommit>> {
        self.check_writable()?;
        let commands = permitted.commands();
        if let Some(refused) = self.refuse_early(permitted)? {
            return self.settle_commit(now, commands, Ok(refused)).map(Some);
        }
        let mut attempts = 0;
        let decided = loop {
            let Some(prepared) = self.prepare(limits, commands)? else { return Ok(None) };
            let budget = self.budget_of_turn(limits, commands, attempts);
            let decided = self.decide_prepared(budget, now, permitted, &prepared, replies)?;
            attempts += 1;
            // Much was appended or trimmed since the preparation: prepare again, without the turn.
            if prepared.exceeds_budget() || !is_too_costly(&decided) || attempts > PREPARED_AGAIN_MAX {
                break decided;
            }
        };
        self.settle_commit(now, commands, decided).map(Some)
    }

    /// Counts a decided commit, and requests the duties that it makes due.
    // Inlined: a decided commit is large, and copying it through memory takes longer than the
    // counts.
    #[inline(always)]
    fn settle_commit(
        &self,
        now: Timestamp,
        commands: &Commands<'_, '_>,
        decided: Result<DecidedCommit>,
    ) -> Result<DecidedCommit> {
        if commands.is_dry_run {
            return decided.map_err(|error| self.office.explain(error));
        }
        self.note_space(now, commands, &decided);
        let decided = match decided {
            Ok(decided) => decided,
            Err(error) => return Err(self.office.explain(error)),
        };
        // The response asks the producer to send the commit again with keys read. It is no refusal
        // of the commit.
        if decided.verdict.as_ref().is_err_and(|refused| refused.asks_for_keys().is_none()) {
            self.refusals.fetch_add(1, Ordering::Relaxed);
            self.log.note_refusal();
        }
        self.request_checkpoint_if_due();
        if self.log_bound.is_check_due(self.log.appended_bytes()) {
            self.schedule.retain_at(now);
        }
        Ok(decided)
    }

    /// The steps that a decision may take while it holds the turn. A request without a budget has
    /// no bound. After several attempts, the rest of the request's own budget applies.
    fn budget_of_turn(
        &self,
        limits: CommitLimits<'_>,
        commands: &Commands<'_, '_>,
        attempts: u32,
    ) -> Option<StepBudget> {
        let budget = limits.budget.filter(|_| events::Events::is_worth_preparing(commands.events))?;
        if attempts < PREPARED_AGAIN_MAX { Some(StepBudget::new(TURN_STEPS_MAX)) } else { Some(budget.clone()) }
    }

    /// Checks the permissions of a commit that would scan the log for its conditions, before the
    /// scan. The decision checks them again, against the state on which it is decided.
    fn refuse_early(&self, permitted: &PermittedCommands<'_, '_, '_>) -> Result<Option<DecidedCommit>> {
        let Authority::Client(guard) = permitted.authority() else { return Ok(None) };
        if !events::Events::is_worth_preparing(permitted.commands().events) {
            return Ok(None);
        }
        let state = self.read_latest()?;
        match permitted.check(Some(guard), &state.models, &state.writer.reader()) {
            Ok(()) => Ok(None),
            Err(Denial::Refused(refused)) => {
                let rests_on = state.writer.basis();
                Ok(Some(DecidedCommit::of_state(rests_on, Err(refused))))
            }
            Err(Denial::Unreadable(error)) => Err(error),
        }
    }

    /// Decides the permitted commands under the lock, and requests the duties that the commit makes
    /// due.
    #[inline(always)]
    fn decide_prepared(
        &self,
        budget: Option<StepBudget>,
        now: Timestamp,
        permitted: &PermittedCommands<'_, '_, '_>,
        prepared: &events::AppendLookups,
        replies: &mut Replies,
    ) -> Result<Result<DecidedCommit>> {
        let commands = permitted.commands();
        let decided;
        let woken = {
            let mut state = self.write()?;
            decided = state.decide_and_append(budget, now, permitted, prepared, replies);
            if !commands.is_dry_run {
                self.request_duties(now, commands, &state);
            }
            self.after_following(&mut state)
        };
        drop(woken);
        Ok(decided)
    }

    /// Requests the duties that a commit of these commands makes due. Called under the lock, so
    /// that the times arrive in the order of the commits.
    #[inline(always)]
    fn request_duties(&self, now: Timestamp, commands: &Commands<'_, '_>, state: &WriterState) {
        if !commands.jobs.is_empty() {
            self.schedule.set_job_due(state.models.jobs.next_due());
        }
        if !commands.events.is_empty() || !commands.jobs.is_empty() || !commands.system.is_empty() {
            self.request_delivery(state);
        }
        if !commands.system.is_empty() {
            self.note_access(state);
        }
        if changes_retention(commands) {
            // At once: a topic, an event store or a graph may keep less than before.
            self.schedule.retain_at(now);
            self.topic_flags.refresh(&state.models.streams);
        }
    }

    /// Scans the published log for the conditions of these commands before the decision, so that
    /// other writers do not wait for the scan. Returns `None` if it could scan more than
    /// `brief_steps_max` entries.
    fn prepare(&self, limits: CommitLimits<'_>, commands: &Commands<'_, '_>) -> Result<Option<events::AppendLookups>> {
        if !events::Events::is_worth_preparing(commands.events) {
            return Ok(Some(events::AppendLookups::default()));
        }
        let state = self.read()?;
        if commands.idempotency_key.is_some_and(|key| state.models.keys.may_know(&key, self.log.clock().now())) {
            // The first answer is ready. No condition is checked for it.
            return Ok(Some(events::AppendLookups::default()));
        }
        let preparation = state.models.events.prepare(commands.events);
        drop(state);
        if preparation.is_empty() {
            return Ok(Some(events::AppendLookups::default()));
        }
        if preparation.steps() > limits.brief_steps_max {
            return Ok(None);
        }
        Ok(Some(preparation.look(&self.log.reader().within(limits.budget.cloned()))?))
    }

    /// Notes whether the disk has space for commits.
    fn note_space(&self, now: Timestamp, commands: &Commands<'_, '_>, decided: &Result<DecidedCommit>) {
        match decided {
            Err(error) => {
                let lacks_segment = error.kind() == ErrorKind::Io && self.log.lacks_segment();
                if lacks_segment || error.kind() == ErrorKind::NoSpace {
                    self.failures.add_no_space(now, error);
                }
            }
            // Commits that free space may use the reserve, and a refusal takes no space: neither
            // shows that there is space.
            Ok(decided) if self.failures.lacks_space() && decided.verdict.is_ok() && !commands.free_space() => {
                self.failures.remove_no_space();
            }
            Ok(_) => {}
        }
    }

    /// Requests a delivery once the last record is published: it may hold events for subscriptions,
    /// or free a queue.
    fn request_delivery(&self, state: &WriterState) {
        if state.models.events.subscriptions().len() > 0 {
            self.delivery_requests.request(state.writer.mark().position);
        }
    }

    fn note_access(&self, state: &WriterState) {
        self.access_changed_at.store(state.models.system.changed_at().get(), Ordering::Release);
    }

    /// The position of the last change of access that this process has applied.
    #[inline]
    pub(crate) fn access_changed_at(&self) -> Position {
        Position::new(self.access_changed_at.load(Ordering::Acquire))
    }

    pub(crate) fn request_checkpoint_if_due(&self) {
        if self.checkpoints.are_due(self.log.appended_bytes()) {
            self.schedule.request_checkpoint();
        }
    }

    /// Saves the state, unless the newest checkpoint holds it already.
    pub(crate) fn checkpoint(&self) -> Result<()> {
        self.check_writable()?;
        self.checkpoints.save(&self.log, || self.read_latest())
    }

    /// # Errors
    /// [`ErrorKind::ReadOnly`] when the shard was opened read-only.
    pub(crate) fn check_writable(&self) -> Result<()> {
        if self.read_only { Err(read_only()) } else { Ok(()) }
    }

    /// Whether any topic compresses batches of producers in this process, as far as this process
    /// has applied the log.
    pub(crate) fn any_topic_compresses(&self) -> bool {
        self.topic_flags.any_compresses.load(Ordering::Relaxed)
    }

    /// Whether any topic is compacted by key, as far as this process has applied the log.
    pub(crate) fn any_topic_compacts(&self) -> bool {
        self.topic_flags.any_compacts.load(Ordering::Relaxed)
    }

    /// Commits refused, and checkpoints saved.
    pub(crate) fn counts(&self) -> (u64, u64) {
        (self.refusals.load(Ordering::Relaxed), self.checkpoints.saved())
    }
}

/// Whether a topic, an event store or a graph may keep less after these commands.
fn changes_retention(commands: &Commands<'_, '_>) -> bool {
    let of_store = |command: &events::Command<'_>| matches!(command, events::Command::SetRetention { .. });
    let of_graph = |command: &graph::Command<'_>| matches!(command, graph::Command::SetRetention(_));
    commands.streams.iter().any(streams::Command::changes_limits)
        || commands.events.iter().any(of_store)
        || commands.graph.iter().any(of_graph)
}

#[cold]
fn read_only() -> Error {
    Error::new(ErrorKind::ReadOnly, "the database was opened read-only; open it for writing to commit")
}

#[cold]
fn torn() -> Error {
    let message = "a commit panicked, so the state in memory may be wrong; open the database again";
    Error::new(ErrorKind::Failed, message)
}
