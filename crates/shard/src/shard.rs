//! What the handles of a database share with its background thread: the log, the models behind one lock, and the duties.
//!
//! Locks are taken in this order, and never the other way round: the newest checkpoint, the state, the duties, the log's
//! own. Nobody outside is called under one of them, but for what a read looks up.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use quire_log::{Clock, Deadline, Durability, Heard, Log, Slept, Woken};
use quire_model::{Position, Timestamp};

use crate::checkpoint::Checkpoints;
use crate::compressor::Compressor;
use crate::decide::{Commands, Decided, Replies, State};
use crate::delivery::Deliveries;
use crate::duties::{Duties, Next};
use crate::duty::Duty;
use crate::error::{Error, ErrorKind, Result};
use crate::failing::{Failing, Failures};
use crate::gauging::Gauging;
use crate::giving_way;
use crate::keys::KeyLooks;
use crate::models::seed_of;
use crate::pressure::Pressure;
use crate::{events, graph, jobs, streams};

/// How long it is between two looks for records that topics keep no longer. Kafka looks every five minutes.
const RETENTION_INTERVAL_MICROS: u64 = 60 * 1_000_000;

/// See the module.
#[derive(Debug)]
pub struct Shard {
    id: u128,
    pub(crate) log: Log,
    /// Whether nothing is to be committed, nor saved.
    read_only: bool,
    /// The state after the last appended record, and the only way to append.
    state: RwLock<State>,
    pub(crate) duties: Duties,
    pub(crate) deliveries: Deliveries,
    checkpoints: Checkpoints,
    pub(crate) retention: Retention,
    pub(crate) keys: KeyLooks,
    pub(crate) compressor: Compressor,
    pub(crate) pressure: Pressure,
    refusals: AtomicU64,
    failures: Failures,
    /// What any topic asks of its producers.
    asked: Asked,
    pub(crate) gauging: Gauging,
}

/// How long what no longer counts is kept, and when it is looked for.
#[derive(Debug, Clone, Copy)]
pub struct Retention {
    /// How long what only tells how things came to be counts still.
    pub history_ms: u64,
    /// How often segments are checked for records that no longer count.
    pub compact_interval_ms: u64,
    /// How much of a segment has to be of no use before it is rewritten.
    pub compact_percent_min: u8,
    /// How many keys of compacted topics are known at a time.
    pub compact_keys_max: usize,
    /// How many bytes the log is to take, as far as topics can let go of theirs.
    pub log_bytes_max: Option<u64>,
}

/// What any topic asks of those who produce: they need not ask about theirs otherwise.
#[derive(Debug, Default)]
pub struct Asked {
    compresses: AtomicBool,
    compacts: AtomicBool,
}

impl Asked {
    fn note(&self, streams: &streams::Streams) {
        self.compresses.store(streams.compresses(), Ordering::Relaxed);
        self.compacts.store(streams.compacts(), Ordering::Relaxed);
    }

    /// Whether a topic has embedded producers compress.
    pub fn compresses(&self) -> bool {
        self.compresses.load(Ordering::Relaxed)
    }

    /// Whether a topic has every record have a key.
    pub fn compacts(&self) -> bool {
        self.compacts.load(Ordering::Relaxed)
    }
}

/// A state that was opened, and how it came about.
#[derive(Debug)]
pub(crate) struct Restored {
    pub(crate) state: State,
    pub(crate) checkpoints: Checkpoints,
}

impl Shard {
    pub(crate) fn new(
        id: u128,
        log: Log,
        restored: Restored,
        retention: Retention,
        compressor: Compressor,
        read_only: bool,
    ) -> Self {
        let duties = Duties::default();
        duties.next_due(restored.state.models.jobs.next_due());
        // Whether or not a topic lets anything go today: another process may tell one to, and be gone.
        duties.retain_at(log.clock().now());
        let asked = Asked::default();
        asked.note(&restored.state.models.streams);
        let shard = Shard {
            retention,
            keys: KeyLooks::new(seed_of(id), retention.compact_keys_max),
            compressor,
            pressure: Pressure::default(),
            id,
            log,
            read_only,
            state: RwLock::new(restored.state),
            duties,
            deliveries: Deliveries::default(),
            checkpoints: restored.checkpoints,
            refusals: AtomicU64::new(0),
            failures: Failures::default(),
            asked,
            gauging: Gauging::default(),
        };
        shard.schedule_compaction();
        // What was appended may not have been delivered before the last one closed.
        shard.deliveries.ask(shard.log.published());
        shard
    }

    /// The number that the database is known by.
    pub fn id(&self) -> u128 {
        self.id
    }

    /// The log, for reads, waiting and counts. Only the shard appends to it.
    #[inline]
    pub fn log(&self) -> &Log {
        &self.log
    }

    /// What compresses batches that are produced in this process.
    #[inline]
    pub fn compressor(&self) -> &Compressor {
        &self.compressor
    }

    /// The state, to look at. A decision that panicked has changed nothing, and concerns nobody but its caller.
    ///
    /// # Errors
    /// [`ErrorKind::Failed`] when a commit panicked later than that.
    pub(crate) fn state(&self) -> Result<RwLockReadGuard<'_, State>> {
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        if state.behind { Err(broken()) } else { Ok(state) }
    }

    /// As [`Shard::state`], with all that others have published.
    pub(crate) fn state_now(&self) -> Result<RwLockReadGuard<'_, State>> {
        self.catch_up()?;
        self.state()
    }

    /// Takes in what others have published.
    pub fn catch_up(&self) -> Result<()> {
        if !self.log.is_behind() {
            return Ok(());
        }
        let (caught_up, owed) = {
            let mut state = self.state_mut()?;
            let caught_up = state.follow();
            (caught_up, self.followed(&mut state))
        };
        drop(owed);
        self.ask_for_checkpoint();
        caught_up
    }

    /// Waits, at most so long, until a record is published by anyone; says whether it is.
    pub fn wait(&self, position: Position, at_most: Duration) -> Result<bool> {
        let until = Deadline::after(at_most);
        loop {
            match self.log.sleep(position, until)? {
                Slept::Published => return Ok(true),
                Slept::Behind => self.catch_up()?,
                Slept::TimedOut => return Ok(false),
            }
        }
    }

    /// What follows from records that were followed. Whoever waited for those and for one's own is to be woken behind the lock.
    #[inline]
    fn followed(&self, state: &mut State) -> Woken {
        if std::mem::take(&mut state.followed) {
            self.duties.next_due(state.models.jobs.next_due());
            self.asked.note(&state.models.streams);
            self.ask_for_delivery(state);
        }
        std::mem::take(&mut state.owed)
    }

    #[inline]
    pub(crate) fn state_mut(&self) -> Result<RwLockWriteGuard<'_, State>> {
        let state = match self.log.durability() {
            Durability::Sync => giving_way::write(&self.state),
            Durability::Os => self.state.write().unwrap_or_else(PoisonError::into_inner),
        };
        if state.behind { Err(broken()) } else { Ok(state) }
    }

    /// See [`State::commit`].
    #[inline]
    pub fn commit(&self, now: Timestamp, commands: &Commands<'_, '_>, replies: &mut Replies) -> Result<Decided> {
        let decided = self.commit_within(u64::MAX, now, commands, replies)?;
        Ok(decided.expect("nothing takes more steps"))
    }

    /// The same, unless it may have to go through more than so many entries of the history: then nothing was done.
    pub fn commit_within(
        &self,
        steps_max: u64,
        now: Timestamp,
        commands: &Commands<'_, '_>,
        replies: &mut Replies,
    ) -> Result<Option<Decided>> {
        self.check_writable()?;
        let Some(prepared) = self.prepare(steps_max, commands)? else { return Ok(None) };
        let decided;
        let owed = {
            let mut state = self.state_mut()?;
            decided = state.commit(now, commands, &prepared, replies);
            if !commands.jobs.is_empty() {
                // Under the lock: told in the order of the commits, the last word is the newest.
                self.duties.next_due(state.models.jobs.next_due());
            }
            if !commands.events.is_empty() || !commands.jobs.is_empty() {
                self.ask_for_delivery(&state);
            }
            let keeps_less = |command: &events::Command<'_>| matches!(command, events::Command::SetRetention { .. });
            let forgets = |command: &graph::Command<'_>| matches!(command, graph::Command::SetRetention(_));
            if commands.streams.iter().any(streams::Command::changes_limits)
                || commands.events.iter().any(keeps_less)
                || commands.graph.iter().any(forgets)
            {
                // Looked at at once, for something may keep less than before.
                self.duties.retain_at(now);
                self.asked.note(&state.models.streams);
            }
            self.followed(&mut state)
        };
        drop(owed);
        self.note_room(now, commands, &decided);
        let decided = decided?;
        // Whoever is asked for keys comes again with them.
        if decided.verdict.as_ref().is_err_and(|refused| refused.asks_for_keys().is_none()) {
            self.refusals.fetch_add(1, Ordering::Relaxed);
            self.log.note_refusal();
        }
        self.ask_for_checkpoint();
        self.ask_for_retention(now);
        Ok(Some(decided))
    }

    /// Notes whether there is room for what is committed.
    fn note_room(&self, now: Timestamp, commands: &Commands<'_, '_>, decided: &Result<Decided>) {
        match decided {
            Err(error) => {
                let lacks_segment = error.kind() == ErrorKind::Io && self.log.lacks_segment();
                if lacks_segment || error.kind() == ErrorKind::NoSpace {
                    self.failures.no_room(now, error);
                }
            }
            // What frees room is taken as long as there is any, and a refusal takes none.
            Ok(decided) if self.failures.lacks_room() && decided.verdict.is_ok() && !commands.free_space() => {
                self.failures.has_room();
            }
            Ok(_) => {}
        }
    }

    /// That the database was not opened to be read only.
    pub(crate) fn check_writable(&self) -> Result<()> {
        if self.read_only { Err(read_only()) } else { Ok(()) }
    }

    /// Has subscriptions looked at when the last record is published: there may be events for them, or room.
    fn ask_for_delivery(&self, state: &State) {
        if state.models.events.subscriptions().len() > 0 {
            self.deliveries.ask(state.writer.mark().position);
        }
    }

    /// Looks up in the published log what a decision on these commands can be told before its turn, so that nobody waits
    /// while it goes through old events. `None` when it may have to go through more than so many entries.
    fn prepare(&self, steps_max: u64, commands: &Commands<'_, '_>) -> Result<Option<events::Prepared>> {
        if !events::Events::is_worth_preparing(commands.events) {
            return Ok(Some(events::Prepared::default()));
        }
        let preparation = self.state()?.models.events.prepare(commands.events);
        if preparation.is_empty() {
            return Ok(Some(events::Prepared::default()));
        }
        if preparation.steps() > steps_max {
            return Ok(None);
        }
        Ok(Some(preparation.look(&self.log.reader())?))
    }

    /// Has a checkpoint taken when there is enough log behind the last one.
    fn ask_for_checkpoint(&self) {
        if self.checkpoints.are_due(self.log.appended_bytes()) {
            self.duties.ask_for_checkpoint();
        }
    }

    /// Has topics looked at when the log has grown by much of what it is to take: it may take more by now.
    fn ask_for_retention(&self, now: Timestamp) {
        if let Some(bytes_max) = self.retention.log_bytes_max
            && self.pressure.is_to_look(self.log.appended_bytes(), bytes_max)
        {
            self.duties.retain_at(now);
        }
    }

    /// Saves the state, unless the newest checkpoint holds it already.
    pub fn checkpoint(&self) -> Result<()> {
        self.check_writable()?;
        self.checkpoints.save(&self.log, || self.state_now())
    }

    /// What any topic asks of its producers, as far as this process has seen.
    pub fn asked(&self) -> &Asked {
        &self.asked
    }

    /// How many commits were refused, and how many checkpoints saved.
    pub fn counts(&self) -> (u64, u64) {
        (self.refusals.load(Ordering::Relaxed), self.checkpoints.saved())
    }

    pub(crate) fn carry_out_prompt_duties(&self) {
        self.carry_out_duties(|| self.duties.next_prompt(|| self.log.clock().now(), || self.log.has_company()));
    }

    pub(crate) fn carry_out_long_duties(&self) {
        self.carry_out_duties(|| self.duties.next_long(|| self.log.clock().now(), || self.is_gauged()));
    }

    fn carry_out_duties(&self, next: impl Fn() -> Next) {
        loop {
            let done = match next() {
                Next::Stop => return,
                Next::Checkpoint => self.noted(Duty::Checkpoint, self.for_all(Shard::checkpoint)).map(drop),
                // Who reads or commits is told.
                Next::Follow => self.catch_up(),
                Next::Tick => self.noted(Duty::Tick, self.tick()),
                Next::Compact => {
                    self.schedule_compaction();
                    self.noted(Duty::Compact, self.for_all(Shard::compact_in_time)).map(drop)
                }
                Next::Retain => {
                    self.schedule_retention();
                    self.noted(Duty::Retain, self.for_all(Shard::retain)).map(drop)
                }
                // What can't be read is no reason for anything else to wait.
                Next::Gauge => match self.noted(Duty::Gauge, self.gauge()) {
                    Err(error) if error.kind() == ErrorKind::Failed => Err(error),
                    _ => Ok(()),
                },
            };
            match done {
                Ok(()) => {}
                // Who commits is told by the commit.
                Err(error) if error.kind() == ErrorKind::Failed => return,
                Err(_) => self.duties.rest(),
            }
        }
    }

    /// Notes how a duty of the background went, for nobody waits for it.
    pub(crate) fn noted<T>(&self, duty: Duty, done: Result<T>) -> Result<T> {
        self.failures.note(duty, self.log.clock().now(), done)
    }

    /// The duties that failed when they were last tried.
    pub fn failing(&self) -> Vec<Failing> {
        self.failures.all()
    }

    /// Carries out what one of those who have the database open does for all, if it is this one.
    fn for_all<T>(&self, duty: impl FnOnce(&Self) -> Result<T>) -> Result<Option<T>> {
        if self.log.takes_duties()? { duty(self).map(Some) } else { Ok(None) }
    }

    /// Takes in what others publish, whenever somebody here waits for it.
    pub(crate) fn listen(&self) {
        let mut company = false;
        loop {
            match self.log.listen(company) {
                Heard::Published => {
                    if self.catch_up().is_err() {
                        // Who reads or commits is told.
                        return;
                    }
                }
                Heard::Company => {
                    company = !company;
                    self.duties.look();
                }
                // What is not attended to is left as it is by whoever asks; those who read are told what is damaged.
                Heard::Compaction => drop(self.attend()),
                Heard::Stop => return,
            }
        }
    }

    /// Does what there is to do of one duty; says whether there was anything.
    pub fn carry_out(&self, duty: Duty) -> Result<bool> {
        let now = self.log.clock().now();
        match duty {
            Duty::Sync => Ok(self.log.carry_out(quire_log::Duty::Sync)?),
            Duty::Prepare => Ok(self.log.carry_out(quire_log::Duty::Prepare)?),
            Duty::Seal => Ok(self.log.carry_out(quire_log::Duty::Seal)?),
            Duty::Checkpoint if self.duties.take(Next::Checkpoint, now) => {
                self.noted(duty, self.checkpoint()).map(|()| true)
            }
            Duty::Tick if self.duties.take(Next::Tick, now) => self.noted(duty, self.tick()).map(|()| true),
            Duty::Compact if self.attend()? => Ok(true),
            Duty::Compact if self.duties.take(Next::Compact, now) => {
                self.schedule_compaction();
                Ok(self.noted(duty, self.for_all(Shard::compact_in_time))?.is_some())
            }
            Duty::Retain if self.duties.take(Next::Retain, now) => {
                self.schedule_retention();
                self.noted(duty, self.retain())
            }
            Duty::Deliver if self.deliveries.take().is_some() => self.noted(duty, self.deliver()),
            Duty::Gauge if self.is_to_gauge()? && self.duties.take(Next::Gauge, now) => self.noted(duty, self.gauge()),
            Duty::Checkpoint | Duty::Tick | Duty::Compact | Duty::Retain | Duty::Deliver | Duty::Gauge => Ok(false),
        }
    }

    /// Takes in what time has brought to the queues, a bounded number of jobs at a time.
    fn tick(&self) -> Result<()> {
        let commands = Commands { jobs: &[jobs::Command::Tick], ..Commands::default() };
        let decided = self.commit(self.log.clock().now(), &commands, &mut Replies::default())?;
        // Nobody waits for it; those who wait for jobs see it once it is published.
        self.log.request(decided.rests_on);
        Ok(())
    }

    /// Lets go of what topics, event stores and graphs keep no longer. What goes is looked up in the published log, while writers
    /// go on; only moving the partitions' starts takes their turn. Says whether a topic keeps less than everything.
    fn retain(&self) -> Result<bool> {
        let now = self.log.clock().now();
        let kept_from = self.pressure.kept_from();
        let keep_from = match self.retention.log_bytes_max {
            Some(bytes_max) => self.pressure.keep_from(&self.log.segment_sizes()?, bytes_max),
            None => None,
        };
        let (retained, stores, graphs) = {
            let state = self.state_now()?;
            let graphs: Vec<_> =
                state.models.graphs.retained(now).map(|it| (it.name.to_owned(), it.nameless())).collect();
            (state.models.streams.retained(now, keep_from), self.retained_stores(&state, now), graphs)
        };
        // A reader for each, so that none holds much of packed segments unpacked.
        for retained in &retained {
            if let Some(command) = retained.plan(&self.log.reader())? {
                // One by one: a topic that was deleted meanwhile refuses its own, and no other.
                let commands = Commands { streams: &[command], ..Commands::default() };
                let decided = self.commit(now, &commands, &mut Replies::default())?;
                self.log.request(decided.rests_on);
            }
        }
        for (name, store) in &stores {
            if let Some(up_to) = store.plan(&self.log.reader())? {
                let commands = [events::Command::Trim { store: name, up_to }];
                let commands = Commands { events: &commands, ..Commands::default() };
                let decided = self.commit(now, &commands, &mut Replies::default())?;
                self.log.request(decided.rests_on);
            }
        }
        for (name, retained) in &graphs {
            if let Some(from) = retained.plan(&self.log.reader())? {
                let commands = [graph::Command::TrimHistory(graph::TrimHistory { graph: name, from })];
                let commands = Commands { graph: &commands, ..Commands::default() };
                let decided = self.commit(now, &commands, &mut Replies::default())?;
                self.log.request(decided.rests_on);
            }
        }
        if self.pressure.kept_from() > kept_from {
            // What topics let go of for want of room is to give it.
            self.duties.compact_at(now);
        }
        Ok(!retained.is_empty() || !stores.is_empty() || !graphs.is_empty())
    }

    /// The event stores that keep their events for a time only.
    fn retained_stores(&self, state: &State, now: Timestamp) -> Vec<(String, events::RetainedStore)> {
        let events = &state.models.events;
        let name = |store| events.store_name(store).expect("a store has a name").to_owned();
        events.retained(now).map(|retained| (name(retained.store), retained)).collect()
    }

    /// Has them looked at again after an interval. To be called before a look, so that one that fails is made again in time, and
    /// whoever asks meanwhile for a look at once gets it.
    fn schedule_retention(&self) {
        self.duties.retain_at(self.log.clock().now().plus_micros(RETENTION_INTERVAL_MICROS));
    }
}

#[cold]
fn read_only() -> Error {
    Error::new(ErrorKind::ReadOnly, "the database was opened to be read only; open it to be written")
}

fn broken() -> Error {
    let message = "a commit panicked, and the state in memory may be wrong; open the database anew";
    Error::new(ErrorKind::Failed, message)
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::Arc;

    use quire_log::SystemClock;

    use super::*;
    use crate::jobs::NewJob;
    use crate::testing;

    /// Opens a shard, has a commit panic under the lock, and says what the next one is answered.
    fn after_a_panic(within: impl FnOnce(&mut State)) -> Result<()> {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let shard = testing::open(directory.path(), 50, Arc::new(SystemClock));
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let mut state = shard.state_mut().expect("not broken");
            within(&mut state);
            panic!("of a commit");
        }));
        assert!(panicked.is_err());
        let commands = [jobs::Command::Enqueue { queue: "queue", job: NewJob::new(b"") }];
        let commands = Commands { jobs: &commands, ..Commands::default() };
        let next = shard.commit(shard.log.clock().now(), &commands, &mut Replies::default());
        let next = next.map(|decided| _ = decided.verdict.expect("accepted"));
        assert_eq!(next.is_ok(), shard.read(|view| view.jobs.queue_stats("queue")).is_ok());
        next
    }

    #[test]
    fn a_decision_that_panics_harms_nobody_else() {
        after_a_panic(|_| ()).expect("accepted");
    }

    #[test]
    fn a_commit_that_panics_when_it_may_be_in_the_log_ends_the_database() {
        assert_eq!(after_a_panic(|state| state.behind = true).expect_err("broken").kind(), ErrorKind::Failed);
    }
}
