//! Group commit without a timer, and the background sync of an `os` log.
//!
//! The first caller that needs a position synced makes the sync for every caller. It notes the
//! appended tail, syncs, and moves the durable mark to that tail. Callers that come during the sync
//! wait, and the first of them makes the next sync for all of them. The sync is the batching
//! window. (The scheme is DeWitt et al., "Implementation techniques for main memory database
//! systems", 1984.)
//!
//! Callers that one sync answered tend to append again at once. The next sync lets them append
//! first ([`sync_delay`](crate::durable::sync_delay)).
//!
//! A failed sync is final. The kernel may have dropped the pages, so a second try could succeed
//! without them ("fsyncgate").

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use quire_model::Position;
use quire_threads::{AtomicU64, Condvar, Mutex, MutexGuard, Ordering, yield_now};

use crate::durable::gate::{Gate, Woken};
use crate::durable::rounds::{Cohorts, RoundOutcome, Rounds};
use crate::durable::sync_delay::{Next, SyncDelay};
use crate::error::{Error, Result};
use crate::processes::control::Control;
use crate::sealed::sealer::Sealer;
use crate::segment::Segment;
use crate::settings::Durability;
use crate::statistics::Counters;
use crate::storage::directory::Directory;

/// The kind of caller that asks for a sync.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Caller {
    /// A caller that waits for the sync.
    Waits,
    /// The log's own thread, for callers that wait without a thread.
    Thread,
}

/// The most checks for more records that the log's own thread makes, in case the clock stands
/// still. `YIELDS` is the number of times it yields its processor before each check.
const LOOKS_MAX: u32 = 100;
const YIELDS: u32 = 16;

/// See the module.
#[derive(Debug)]
pub(crate) struct Syncer {
    durability: Durability,
    /// The last record appended. A segment is in `unsynced` before a record of the segment is
    /// counted here.
    appended: AtomicU64,
    /// The last record synced, by any process. In a `sync` log, a record is published before it is
    /// counted here. So a caller that sees its record here has its answer.
    durable: AtomicU64,
    /// The last record that a sync of this process covers. A record is counted here before any
    /// other thread or process learns of the sync. Its publication follows soon.
    synced: AtomicU64,
    syncs: AtomicU64,
    counters: Arc<Counters>,
    state: Mutex<SyncState>,
    cohorts: Cohorts,
    /// Notified when the background thread has work.
    work: Condvar,
    /// Notified when a pause may begin, because no round runs any more, and when a pause ends.
    resumed: Condvar,
    /// Notified when a full segment is synced.
    sealer: Arc<Sealer>,
}

#[derive(Debug, Default)]
struct SyncState {
    rounds: Rounds,
    /// Segments with records after the durable mark, oldest first. The last one is the active
    /// segment.
    unsynced: Vec<Arc<Segment>>,
    /// Whether a file was created since the last sync of the directory.
    directory_changed: bool,
    /// The callers that the next sync lets append first.
    delay: SyncDelay,
    /// The last position that the background thread was asked to sync.
    asked: Position,
    /// Whether rounds are prevented from beginning.
    is_paused: bool,
    stopping: bool,
    failed: Option<Arc<str>>,
}

/// A pause: no sync runs or begins while this value lives.
#[derive(Debug)]
#[must_use]
pub(crate) struct Pause<'s>(&'s Syncer);

impl Pause<'_> {
    /// Forgets the records above `kept`, none of which is published. `active` takes the next
    /// record. The segments after `active` in the list of unsynced segments are deleted.
    pub(crate) fn truncate(&self, kept: Position, active: &Arc<Segment>) {
        let syncer = self.0;
        let mut state = syncer.lock();
        assert!(state.is_paused && !state.rounds.running(), "a truncation begins when no sync runs");
        for position in [&syncer.appended, &syncer.durable, &syncer.synced] {
            // No other thread moves them: the caller has the turn, and no sync runs.
            position.store(position.load(Ordering::Acquire).min(kept.get()), Ordering::Release);
        }
        assert!(active.first <= kept.next(), "the active segment takes the next record");
        state.asked = state.asked.min(kept);
        state.delay = SyncDelay::default();
        state.unsynced.retain(|segment| segment.first < active.first);
        state.unsynced.push(Arc::clone(active));
        state.directory_changed = true;
    }
}

impl Drop for Pause<'_> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        debug_assert!(state.is_paused, "a pause lasts until it is dropped");
        state.is_paused = false;
        self.0.resumed.notify_all();
        // Waiters for truncated records sleep for a round that may never come.
        self.0.cohorts.wake_all();
    }
}

impl Syncer {
    pub(crate) fn new(durability: Durability, durable: Position, counters: Arc<Counters>, sealer: Arc<Sealer>) -> Self {
        Syncer {
            sealer,
            durability,
            appended: AtomicU64::new(durable.get()),
            durable: AtomicU64::new(durable.get()),
            synced: AtomicU64::new(durable.get()),
            syncs: AtomicU64::new(0),
            counters,
            state: Mutex::default(),
            cohorts: Cohorts::default(),
            work: Condvar::new(),
            resumed: Condvar::new(),
        }
    }

    /// Notes that a new segment takes records from now on.
    pub(crate) fn begin_segment(&self, segment: Arc<Segment>) {
        let mut state = self.lock();
        assert!(
            state.unsynced.last().is_none_or(|last| last.first < segment.first),
            "segment {} begins after all others",
            segment.first
        );
        state.unsynced.push(segment);
        state.directory_changed = true;
    }

    /// Waits until no round runs, and prevents rounds until the pause is dropped. Only one caller
    /// pauses at a time, because it has the turn.
    pub(crate) fn pause(&self) -> Pause<'_> {
        let mut state = self.lock();
        assert!(!state.is_paused, "one pause at a time");
        state.is_paused = true;
        let state = self.resumed.wait_while(state, |state| state.rounds.running());
        drop(state.unwrap_or_else(PoisonError::into_inner));
        Pause(self)
    }

    /// Notes that a record was appended.
    pub(crate) fn appended(&self, position: Position) {
        debug_assert!(cfg!(loom) || self.last_appended() <= position, "only a truncation lowers the last position");
        self.appended.store(position.get(), Ordering::Release);
    }

    pub(crate) fn last_appended(&self) -> Position {
        Position::new(self.appended.load(Ordering::Acquire))
    }

    pub(crate) fn durable(&self) -> Position {
        Position::new(self.durable.load(Ordering::Acquire))
    }

    /// Returns whether other processes have published records that this process has not applied.
    pub(crate) fn is_behind(&self, control: &Control, gate: &Gate) -> bool {
        match self.durability {
            Durability::Os => control.tail() > self.last_appended(),
            Durability::Sync => control.durable().is_some_and(|durable| {
                // Records that a sync of this process covers are about to be published.
                durable > gate.position() && durable.get() > self.synced.load(Ordering::Acquire)
            }),
        }
    }

    /// Returns the number of syncs.
    pub(crate) fn syncs(&self) -> u64 {
        self.syncs.load(Ordering::Relaxed)
    }

    /// Adopts the durable position of other processes, up to the last record applied here. In a
    /// `sync` log, also publishes these records.
    pub(crate) fn adopt(&self, control: &Control, gate: &Gate) -> Woken {
        let known = || control.durable().unwrap_or_default().min(self.last_appended());
        let others = known();
        if others <= self.durable() {
            return Woken::default();
        }
        let woken = gate.synced_elsewhere(others);
        let mut state = self.lock();
        // Checked again under the lock: a truncation may have lowered both positions meanwhile.
        let others = others.min(known());
        self.durable.fetch_max(others.get(), Ordering::AcqRel);
        // Of the segments whose records are all synced, only the last is still needed.
        let synced = state.unsynced.iter().skip(1).take_while(|next| next.first <= others.next()).count();
        if !state.rounds.running() {
            state.unsynced.drain(..synced);
        }
        woken
    }

    /// Returns once every record up to `position` is on the disk. This caller or another one made
    /// the sync.
    ///
    /// # Errors
    /// [`Error::Failed`] when a sync failed, now or earlier. [`Error::Unsettled`] when no record
    /// has this position any more.
    pub(crate) fn sync_to(
        &self,
        position: Position,
        directory: &Directory,
        control: &Control,
        gate: &Gate,
    ) -> Result<()> {
        self.sync_for(Caller::Waits, position, directory, control, gate)
    }

    fn sync_for(
        &self,
        caller: Caller,
        position: Position,
        directory: &Directory,
        control: &Control,
        gate: &Gate,
    ) -> Result<()> {
        drop(self.adopt(control, gate));
        let mut state = self.lock();
        let mut is_to_lead = false;
        let mut looks = 0;
        loop {
            if self.durable() >= position {
                if is_to_lead {
                    state.rounds.pass_on(&self.cohorts);
                }
                return Ok(());
            }
            if control.has_failed() && state.failed.is_none() {
                state.failed = Some("another process could not write or sync".into());
            }
            if let Some(message) = &state.failed {
                self.cohorts.wake_all();
                return Err(Error::Failed { message: message.to_string() });
            }
            if position > self.last_appended() {
                if is_to_lead {
                    state.rounds.pass_on(&self.cohorts);
                }
                return Err(Error::Unsettled { position });
            }
            if state.is_paused {
                let resumed = self.resumed.wait_while(state, |state| state.is_paused);
                state = resumed.unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            let next = match state.rounds.running() {
                true => Next::Sleep,
                false => state.delay.next(self.last_appended(), || self.counters.now_ns()),
            };
            if let (Next::Watch(left), Caller::Thread) = (next, caller) {
                // The callers of this thread submit their requests through queues, without waking a
                // thread. So this thread yields its processor to them and checks again.
                looks += 1;
                let seen = self.last_appended();
                let is_over = looks >= LOOKS_MAX || state.delay.is_nearly_over(left);
                state.delay.watched(is_over, seen);
                drop(state);
                for _ in 0..if is_over { 0 } else { YIELDS } {
                    yield_now();
                    if self.last_appended() > seen {
                        break;
                    }
                }
                state = self.lock();
                continue;
            }
            if next != Next::Begin {
                let sleeper = state.rounds.join(position, &self.cohorts);
                drop(state);
                let watch = if let Next::Watch(time) = next { Some(time) } else { None };
                let slept = self.cohorts.sleep(&sleeper, watch);
                if slept == RoundOutcome::Ended && self.durable() >= position {
                    return Ok(());
                }
                is_to_lead = slept != RoundOutcome::Ended;
                state = self.lock();
                let is_still_to_begin = state.rounds.leave(&sleeper);
                if watch.is_some() && is_still_to_begin {
                    state.delay.watched(slept == RoundOutcome::TimedOut, self.last_appended());
                }
                continue;
            }
            let target = self.last_appended();
            state.rounds.begin(target);
            let segments = state.unsynced.clone();
            assert!(!segments.is_empty(), "the active segment is in the list of unsynced segments");
            let sync_directory = std::mem::take(&mut state.directory_changed);
            drop(state);

            let begun = self.counters.now_ns();
            // A sync here does not report an error again that another process has seen. So the
            // control file is checked, too.
            let outcome = if sync_directory { directory.sync() } else { Ok(()) }
                .and_then(|()| segments.iter().try_for_each(|segment| self.sync_segment(segment)))
                .and_then(|()| control.check());

            state = self.lock();
            let ended = state.rounds.end(&self.cohorts);
            if state.is_paused {
                self.resumed.notify_all();
            }
            self.syncs.fetch_add(1, Ordering::Relaxed);
            let woken;
            match outcome {
                Ok(()) => {
                    let took_ns = self.counters.sync(begun);
                    // The last segment may take more records. The others are full.
                    state.unsynced.drain(..segments.len() - 1);
                    // Commit point of a `sync` log: everything up to the target is on the disk.
                    self.synced.fetch_max(target.get(), Ordering::Release);
                    control.raise_durable(target);
                    woken = gate.synced(target);
                    let before = self.durable.fetch_max(target.get(), Ordering::AcqRel);
                    gate.durable_moved();
                    debug_assert!(cfg!(loom) || self.durable() <= self.last_appended(), "durable records are appended");
                    let records = target.get().saturating_sub(before);
                    // The callers that slept, and this caller. A caller that waits without a thread
                    // returns through a queue. A sync does not wait for such a caller.
                    state.delay.answered(records, ended.answered, self.last_appended(), begun + took_ns, took_ns);
                }
                Err(error) => {
                    self.counters.error();
                    let message = error.final_message();
                    state.failed = Some(message.as_str().into());
                    control.set_failed();
                    woken = gate.published().fail(&message);
                    self.cohorts.wake_all();
                }
            }
            drop(state);
            self.cohorts.tell(&ended);
            drop(woken);
            if segments.len() > 1 {
                // After this sync, a restart knows that the sealed records were synced, whenever
                // the power fails. So recovery distinguishes damage to them from a torn tail. If
                // this sync failed, a restart would only know less.
                let _ = control.sync();
                self.sealer.begin();
            }
            state = self.lock();
        }
    }

    /// Syncs a segment up to its last record at this moment.
    fn sync_segment(&self, segment: &Segment) -> Result<()> {
        match self.durability {
            Durability::Sync => segment.file.sync(),
            // The pages made ready after the tail stay ready. A sync of the whole file would
            // protect them again.
            Durability::Os => segment.sync_settled(),
        }
    }

    /// Asks the background thread to sync an appended record, without waiting.
    pub(crate) fn request(&self, position: Position) {
        let mut state = self.lock();
        debug_assert!(cfg!(loom) || state.asked <= self.last_appended(), "only appended records are requested");
        state.asked = state.asked.max(position.min(self.last_appended()));
        self.work.notify_one();
    }

    /// Runs the background thread. It carries out requests. In an `os` log, it also syncs the
    /// appended records every `interval`.
    pub(crate) fn run(&self, interval: Duration, directory: &Directory, control: &Control, gate: &Gate) {
        let mut state = self.lock();
        loop {
            let idle = |state: &mut SyncState| !state.stopping && state.failed.is_none();
            state = match self.durability {
                Durability::Sync => self
                    .work
                    .wait_while(state, |state| idle(state) && state.asked <= self.durable())
                    .unwrap_or_else(PoisonError::into_inner),
                Durability::Os => {
                    let waited = self.work.wait_timeout_while(state, interval, |state| idle(state));
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
            };
            if !idle(&mut state) {
                return;
            }
            drop(state);
            // The state keeps a failure, which ends the loop.
            let _ = self.step(directory, control, gate);
            state = self.lock();
        }
    }

    /// Carries out requests, and in an `os` log syncs the appended records. Returns whether there
    /// was any work.
    pub(crate) fn step(&self, directory: &Directory, control: &Control, gate: &Gate) -> Result<bool> {
        let wanted = match self.durability {
            Durability::Sync => self.lock().asked,
            Durability::Os => self.last_appended(),
        };
        let behind = self.durable() < wanted;
        let last = self.lock().unsynced.last().cloned();
        let settled = last.as_ref().map_or(0, |segment| segment.settled_bytes());
        self.sync_for(Caller::Thread, wanted, directory, control, gate)?;
        if let (true, Durability::Os, Some(segment)) = (behind, self.durability, last) {
            // The sync has protected the pages at the tail. The kernel's own write-back may have
            // protected the pages after it. These pages are made ready again, as far as appends may
            // reach until the next time.
            let settled_now = segment.settled_bytes();
            assert!(settled_now >= settled, "settled bytes of a segment stay settled");
            segment.make_ready(settled_now - settled);
        }
        Ok(behind)
    }

    /// Stops the background thread.
    pub(crate) fn stop(&self) {
        self.lock().stopping = true;
        self.work.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, SyncState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
