//! The published position and its waiters. Only the [gate](super::Gate) moves the position.
//!
//! A publication without waiters costs an exchange and a load. Waiting is exact: the publication
//! that reaches a position wakes its waiters. No timer wakes them.
//!
//! A truncation raises the era and ends every waiter for a record that it removes. Later waiters
//! may come with the basis of such a record. The list of truncations answers them, even when the
//! position is published again for another record.
//!
//! No waker is woken or dropped under a lock. A waker may call anything, even this component, or
//! close the log.

use std::sync::{Arc, PoisonError};
use std::task::{Poll, Waker};

use quire_model::Position;
use quire_threads::{AtomicBool, AtomicU64, Condvar, Mutex, MutexGuard, Ordering, fence};

use crate::error::{Error, Result};
use crate::mark::{Basis, Era};
use crate::processes::control::Control;
use crate::time::deadline::WaitDeadline;

/// See the module.
#[derive(Debug)]
pub(crate) struct PublishedMark {
    /// Only rises. A truncation keeps all records up to this position. So a reader below it never
    /// sees bytes that a truncation removes.
    position: AtomicU64,
    /// The number of truncations. It rises under the lock, before the writer appends a record at a
    /// reused position. So a thread that sees such a record published sees the era, too.
    era: AtomicU64,
    /// The lower half counts waiters, on the condition or with a waker. The upper half counts
    /// threads that sleep until their seat's alarm. A waiter raises its count before it checks the
    /// position again. So either the publisher sees the waiter, or the waiter sees the position.
    waiting: AtomicU64,
    /// Whether `Waiters::failed` is set, to check without the lock.
    has_failed: AtomicBool,
    waiters: Mutex<Waiters>,
    moved: Condvar,
    control: Arc<Control>,
}

/// The amounts by which a sleeper and a waiter raise [`PublishedMark::waiting`].
const SLEEPER: u64 = 1 << 32;
const WAITER: u64 = 1;

/// How a sleep ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitOutcome {
    /// The awaited position is published.
    Published,
    /// Other processes have published records that this process has not applied. After
    /// [`Writer::follow`](crate::Writer::follow) applies them, the awaited position may be
    /// published.
    Behind,
    /// The deadline has passed.
    TimedOut,
}

#[derive(Debug, Default)]
struct Waiters {
    sleepers: usize,
    wakers: Vec<AsyncWaiter>,
    next_key: u64,
    failed: Option<Arc<str>>,
    truncations: Vec<TruncationEra>,
}

/// A truncation: the era that began with it, and the last position that it kept. The list drops an
/// earlier truncation that kept as much as a later one, or more, because it adds nothing.
#[derive(Debug, Clone, Copy)]
struct TruncationEra {
    era: u64,
    kept: u64,
}

impl Waiters {
    /// Returns whether a truncation removed the record.
    fn is_truncated(&self, era: u64, position: u64) -> bool {
        // Of all truncations since that era, the first in the list kept the fewest records.
        self.truncations.iter().find(|truncated| truncated.era > era).is_some_and(|truncated| position > truncated.kept)
    }

    fn note_truncation(&mut self, truncated: TruncationEra) {
        while self.truncations.pop_if(|earlier| earlier.kept >= truncated.kept).is_some() {}
        assert!(
            self.truncations.last().is_none_or(|last| last.era < truncated.era && last.kept < truncated.kept),
            "eras and kept positions rise along the list of truncations"
        );
        self.truncations.push(truncated);
    }
}

#[derive(Debug)]
struct AsyncWaiter {
    key: u64,
    awaited: WaitTarget,
    waker: Waker,
}

/// The position or record that a waiter waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WaitTarget {
    position: u64,
    /// The era of the awaited record. `None` means any record at this position.
    era: Option<u64>,
}

impl From<Basis> for WaitTarget {
    fn from(basis: Basis) -> Self {
        WaitTarget::record(basis.position(), basis.era)
    }
}

impl From<Position> for WaitTarget {
    fn from(position: Position) -> Self {
        WaitTarget { position: position.get(), era: None }
    }
}

impl WaitTarget {
    /// The record that had this position in this era.
    pub(crate) fn record(position: Position, era: Era) -> Self {
        WaitTarget { position: position.get(), era: Some(era.get()) }
    }

    pub(crate) fn position(self) -> Position {
        Position::new(self.position)
    }

    fn unsettled(self) -> Error {
        Error::Unsettled { position: self.position() }
    }
}

/// The waiters with a waker that a publication reached. Dropping this value wakes them. The
/// publisher drops it after it has released its locks.
#[derive(Debug, Default)]
#[must_use = "whoever waited is woken when this is dropped"]
pub struct Woken {
    /// `None` for most publications. Every append returns this value, so it takes only one word.
    all: Option<Box<WokenWaiters>>,
}

#[derive(Debug)]
struct WokenWaiters(Vec<AsyncWaiter>);

impl Woken {
    /// Adds the waiters that `other` would wake.
    #[inline]
    pub fn join(&mut self, mut other: Woken) {
        if let Some(others) = other.all.take() {
            self.take_on(others);
        }
    }

    #[cold]
    fn take_on(&mut self, mut others: Box<WokenWaiters>) {
        match &mut self.all {
            Some(all) => all.0.append(&mut others.0),
            None => self.all = Some(others),
        }
    }
}

#[cold]
fn wake(all: WokenWaiters) {
    for waiting in all.0 {
        waiting.waker.wake();
    }
}

impl Drop for Woken {
    #[inline]
    fn drop(&mut self) {
        if let Some(all) = self.all.take() {
            wake(*all);
        }
    }
}

impl PublishedMark {
    pub(super) fn new(position: Position, control: Arc<Control>) -> Self {
        PublishedMark {
            control,
            position: AtomicU64::new(position.get()),
            era: AtomicU64::new(0),
            waiting: AtomicU64::new(0),
            has_failed: AtomicBool::new(false),
            waiters: Mutex::default(),
            moved: Condvar::new(),
        }
    }

    #[inline]
    pub(crate) fn position(&self) -> Position {
        Position::new(self.position.load(Ordering::Acquire))
    }

    pub(crate) fn era(&self) -> Era {
        Era::new(self.era.load(Ordering::Acquire))
    }

    /// Moves the published position and wakes its waiters. Only the writer moves it this way.
    #[inline]
    pub(super) fn publish(&self, position: Position) -> Woken {
        // Sequentially consistent, so that the waiters are checked after the position has moved.
        let before = self.position.swap(position.get(), Ordering::SeqCst);
        debug_assert!(before <= position.get(), "the published position went back from {before} to {position}");
        if self.waiting.load(Ordering::SeqCst) == 0 {
            return Woken::default();
        }
        self.wake(|waiting| waiting.awaited.position <= position.get())
    }

    /// Moves the published position up to `position`, unless it is there already, and wakes its
    /// waiters.
    pub(super) fn publish_at_least(&self, position: Position) -> Woken {
        if self.position.fetch_max(position.get(), Ordering::SeqCst) >= position.get()
            || self.waiting.load(Ordering::SeqCst) == 0
        {
            return Woken::default();
        }
        self.wake(|waiting| waiting.awaited.position <= position.get())
    }

    /// Begins an era without the records of earlier eras above `kept`, and ends the waiters for
    /// these records.
    pub(super) fn truncate(&self, kept: Position) -> Woken {
        assert!(self.position() <= kept, "a truncation to {kept} would take published records away");
        let mut waiters = self.lock();
        let era = self.era.load(Ordering::Relaxed) + 1;
        assert!(waiters.truncations.len() < era as usize, "each truncation begins an era");
        waiters.note_truncation(TruncationEra { era, kept: kept.get() });
        self.era.store(era, Ordering::SeqCst);
        self.wake_among(waiters, |waiting| waiting.awaited.era.is_some() && waiting.awaited.position > kept.get())
    }

    /// Returns whether the awaited record is published, and nothing was truncated since its era
    /// began. When it returns `false`, [`PublishedMark::outcome`] knows more.
    #[inline]
    pub(crate) fn is_published(&self, awaited: WaitTarget) -> bool {
        // The position is loaded before the era: see the field.
        self.position() >= awaited.position() && awaited.era.is_none_or(|era| era == self.era.load(Ordering::Acquire))
    }

    /// Returns the outcome of a wait, if there is one. Either the awaited record is published, or a
    /// truncation removed it.
    #[inline]
    pub(crate) fn outcome(&self, awaited: WaitTarget) -> Option<Result<()>> {
        // The position is loaded before the era: see the field.
        let is_reached = self.position() >= awaited.position();
        if awaited.era.is_none_or(|era| era == self.era.load(Ordering::Acquire)) {
            return is_reached.then_some(Ok(()));
        }
        self.outcome_in_later_era(awaited, is_reached)
    }

    #[cold]
    fn outcome_in_later_era(&self, awaited: WaitTarget, is_reached: bool) -> Option<Result<()>> {
        Self::outcome_by(&self.lock(), awaited, is_reached)
    }

    fn outcome_by(waiters: &Waiters, awaited: WaitTarget, is_reached: bool) -> Option<Result<()>> {
        if awaited.era.is_some_and(|era| waiters.is_truncated(era, awaited.position)) {
            return Some(Err(awaited.unsettled()));
        }
        is_reached.then_some(Ok(()))
    }

    /// Returns the same as [`PublishedMark::outcome`], under the lock. A failure of the log is an
    /// outcome, too.
    fn outcome_among(&self, waiters: &Waiters, awaited: WaitTarget) -> Option<Result<()>> {
        let outcome = Self::outcome_by(waiters, awaited, self.position() >= awaited.position());
        outcome.or_else(|| waiters.failed.as_ref().map(|message| Err(failed(message))))
    }

    /// Returns whether any waiter depends on another thread to apply the records that other
    /// processes publish.
    pub(crate) fn has_waiters(&self) -> bool {
        !self.waiting.load(Ordering::SeqCst).is_multiple_of(SLEEPER)
    }

    /// Marks publishing as failed: nothing more is published. Every waiter gets the failure.
    pub(crate) fn fail(&self, message: &str) -> Woken {
        self.lock().failed.get_or_insert_with(|| message.into());
        self.has_failed.store(true, Ordering::Release);
        self.wake(|_| true)
    }

    /// Checks that publishing has not failed.
    #[inline]
    pub(crate) fn check(&self) -> Result<()> {
        if self.has_failed.load(Ordering::Acquire) { self.failure() } else { Ok(()) }
    }

    #[cold]
    fn failure(&self) -> Result<()> {
        self.lock().failed.as_ref().map_or(Ok(()), |message| Err(failed(message)))
    }

    /// Waits for an outcome. Calls `waits` when this waiter is counted.
    pub(crate) fn wait(&self, awaited: WaitTarget, waits: impl FnOnce()) -> Result<()> {
        if let Some(outcome) = self.outcome(awaited) {
            return outcome;
        }
        let guard = self.lock();
        self.waiting.fetch_add(WAITER, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        waits();
        let mut outcome = None;
        let guard = self
            .moved
            .wait_while(guard, |waiters| {
                outcome = self.outcome_among(waiters, awaited);
                outcome.is_none()
            })
            .unwrap_or_else(PoisonError::into_inner);
        self.uncount(WAITER);
        drop(guard);
        outcome.expect("the wait ends with an outcome")
    }

    /// Sleeps until the position is published here, `is_behind` shows records of others to apply,
    /// or the deadline `until` passes. Applying these records may publish the position.
    pub(crate) fn sleep(
        &self,
        position: Position,
        until: WaitDeadline,
        is_behind: impl Fn() -> bool,
    ) -> Result<WaitOutcome> {
        if self.position() >= position {
            return Ok(WaitOutcome::Published);
        }
        let _asleep = Asleep::begin(self);
        loop {
            // Read before the checks, so that a change during the checks sets off an alarm that
            // ends the sleep.
            let seen = self.control.alarms();
            fence(Ordering::SeqCst);
            if self.position() >= position {
                return Ok(WaitOutcome::Published);
            }
            self.check()?;
            if is_behind() {
                return Ok(WaitOutcome::Behind);
            }
            let left = until.left();
            if left.is_zero() {
                return Ok(WaitOutcome::TimedOut);
            }
            self.control.await_alarm(seen, left);
        }
    }

    /// Returns the outcome of a wait. While there is none, registers `waker` to be woken when there
    /// is one. `key` is the registration, which the caller gives back to [`PublishedMark::forget`].
    pub(crate) fn poll(&self, awaited: WaitTarget, waker: &Waker, key: &mut Option<u64>) -> Poll<Result<()>> {
        if let Some(outcome) = self.outcome(awaited) {
            return Poll::Ready(outcome);
        }
        let mut waker = waker.clone();
        // Declared after `waker`, so that a replaced waker is dropped after the lock is released.
        let mut waiters = self.lock();
        match key.and_then(|key| waiters.wakers.iter_mut().find(|waiting| waiting.key == key)) {
            Some(waiting) => {
                assert_eq!(waiting.awaited, awaited, "a registration waits for one record");
                std::mem::swap(&mut waiting.waker, &mut waker);
            }
            None => {
                let fresh = waiters.next_key;
                waiters.next_key += 1;
                waiters.wakers.push(AsyncWaiter { key: fresh, awaited, waker: waker.clone() });
                *key = Some(fresh);
                self.waiting.fetch_add(WAITER, Ordering::SeqCst);
            }
        }
        fence(Ordering::SeqCst);
        self.outcome_among(&waiters, awaited).map_or(Poll::Pending, Poll::Ready)
    }

    /// Ends a registration. A woken registration has already ended.
    pub(crate) fn forget(&self, key: u64) {
        let forgotten = {
            let mut waiters = self.lock();
            let index = waiters.wakers.iter().position(|waiting| waiting.key == key);
            index.map(|index| waiters.wakers.swap_remove(index))
        };
        if forgotten.is_some() {
            self.uncount(WAITER);
        }
    }

    /// Lowers [`PublishedMark::waiting`] by waiters or sleepers that were counted.
    fn uncount(&self, waiting: u64) {
        let before = self.waiting.fetch_sub(waiting, Ordering::SeqCst);
        assert!(before % SLEEPER >= waiting % SLEEPER, "each waiter is counted once");
        assert!(before / SLEEPER >= waiting / SLEEPER, "each sleeper is counted once");
    }

    fn wake(&self, whom: impl Fn(&AsyncWaiter) -> bool) -> Woken {
        self.wake_among(self.lock(), whom)
    }

    fn wake_among(&self, mut waiters: MutexGuard<'_, Waiters>, whom: impl Fn(&AsyncWaiter) -> bool) -> Woken {
        let waiting: Vec<AsyncWaiter> = waiters.wakers.extract_if(.., |waiting| whom(waiting)).collect();
        self.uncount(WAITER * waiting.len() as u64);
        self.moved.notify_all();
        if waiters.sleepers > 0 {
            self.control.alarm(self.control.seat());
        }
        Woken { all: (!waiting.is_empty()).then(|| Box::new(WokenWaiters(waiting))) }
    }

    fn lock(&self) -> MutexGuard<'_, Waiters> {
        self.waiters.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A thread that sleeps until its seat's alarm.
struct Asleep<'p>(&'p PublishedMark);

impl<'p> Asleep<'p> {
    fn begin(published: &'p PublishedMark) -> Self {
        let mut waiters = published.lock();
        published.waiting.fetch_add(SLEEPER, Ordering::SeqCst);
        waiters.sleepers += 1;
        published.control.begin_sleep();
        Asleep(published)
    }
}

impl Drop for Asleep<'_> {
    fn drop(&mut self) {
        let mut waiters = self.0.lock();
        self.0.uncount(SLEEPER);
        assert!(waiters.sleepers > 0, "a sleeper is counted until it wakes");
        waiters.sleepers -= 1;
        if waiters.sleepers == 0 {
            self.0.control.end_sleep();
        }
    }
}

fn failed(message: &Arc<str>) -> Error {
    Error::Failed { message: message.to_string() }
}
