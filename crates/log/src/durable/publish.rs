//! The published tail, and who waits for it to move.
//!
//! A publish that nobody waits for costs an exchange and a load. Waiting is exact: whoever waits for a position is
//! woken by the publish that reaches it, and not by a timer.
//!
//! No waker is woken or dropped under a lock: it may do anything, even come back here or close the log.

use std::sync::{Arc, PoisonError};
use std::task::{Poll, Waker};

use quire_model::Position;
use quire_threads::{AtomicBool, AtomicU64, Condvar, Mutex, MutexGuard, Ordering, fence};

use crate::error::{Error, Result};
use crate::processes::control::Control;
use crate::time::deadline::Deadline;

/// See the module.
#[derive(Debug)]
pub(crate) struct Published {
    position: AtomicU64,
    /// How many wait, on the condition or with a waker, and in the upper half how many sleep until their seat's alarm. Raised before
    /// the position is looked at again, so that either the publisher sees the waiter or the waiter sees the position.
    waiting: AtomicU64,
    /// Whether `Waiters::failed` is set, to look at without the lock.
    has_failed: AtomicBool,
    waiters: Mutex<Waiters>,
    moved: Condvar,
    control: Arc<Control>,
}

/// What one who sleeps and one who waits count in [`Published::waiting`].
const SLEEPER: u64 = 1 << 32;
const WAITER: u64 = 1;

/// How a sleep ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Slept {
    /// What it was for is published.
    Published,
    /// Others have published what is not taken in here: [`Writer::follow`](crate::Writer::follow) does that, and then it may be.
    Behind,
    /// The time is over.
    TimedOut,
}

#[derive(Debug, Default)]
struct Waiters {
    sleepers: usize,
    wakers: Vec<Waiting>,
    next_key: u64,
    failed: Option<Arc<str>>,
}

#[derive(Debug)]
struct Waiting {
    key: u64,
    position: u64,
    waker: Waker,
}

/// Those with a waker for whom a publish was meant. They are woken when this is dropped, which is for after the publisher
/// has let go of its locks.
#[derive(Debug, Default)]
#[must_use = "whoever waited is woken when this is dropped"]
pub struct Woken {
    /// `None` of most: every append hands this on, and it takes no more than a word.
    all: Option<Box<All>>,
}

#[derive(Debug)]
struct All(Vec<Waiting>);

impl Woken {
    /// Takes on those that another is to wake.
    #[inline]
    pub fn join(&mut self, mut other: Woken) {
        if let Some(others) = other.all.take() {
            self.take_on(others);
        }
    }

    #[cold]
    fn take_on(&mut self, mut others: Box<All>) {
        match &mut self.all {
            Some(all) => all.0.append(&mut others.0),
            None => self.all = Some(others),
        }
    }
}

#[cold]
fn wake(all: All) {
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

impl Published {
    pub(crate) fn new(position: Position, control: Arc<Control>) -> Self {
        Published {
            control,
            position: AtomicU64::new(position.get()),
            waiting: AtomicU64::new(0),
            has_failed: AtomicBool::new(false),
            waiters: Mutex::default(),
            moved: Condvar::new(),
        }
    }

    pub(crate) fn position(&self) -> Position {
        Position::new(self.position.load(Ordering::Acquire))
    }

    /// Moves the published tail and wakes who waited for it. Only the commit path and the syncer call this.
    #[inline]
    pub(crate) fn publish(&self, position: Position) -> Woken {
        // Sequentially consistent, so that the waiters are looked at after the position has moved.
        self.position.swap(position.get(), Ordering::SeqCst);
        if self.waiting.load(Ordering::SeqCst) == 0 {
            return Woken::default();
        }
        self.wake(|waiting| waiting.position <= position.get())
    }

    /// Moves the published tail up to a position, unless it is beyond it already, and wakes who waited.
    pub(crate) fn publish_at_least(&self, position: Position) -> Woken {
        if self.position.fetch_max(position.get(), Ordering::SeqCst) >= position.get()
            || self.waiting.load(Ordering::SeqCst) == 0
        {
            return Woken::default();
        }
        self.wake(|waiting| waiting.position <= position.get())
    }

    /// Whether anybody waits that does not take in by itself what others publish.
    pub(crate) fn has_waiters(&self) -> bool {
        !self.waiting.load(Ordering::SeqCst).is_multiple_of(SLEEPER)
    }

    /// From now on nothing more is published: everyone who waits is told.
    pub(crate) fn fail(&self, message: &str) -> Woken {
        self.lock().failed.get_or_insert_with(|| message.into());
        self.has_failed.store(true, Ordering::Release);
        self.wake(|_| true)
    }

    /// That publishing has not failed.
    #[inline]
    pub(crate) fn check(&self) -> Result<()> {
        if self.has_failed.load(Ordering::Acquire) { self.failure() } else { Ok(()) }
    }

    #[cold]
    fn failure(&self) -> Result<()> {
        self.lock().failed.as_ref().map_or(Ok(()), |message| Err(failed(message)))
    }

    /// Waits until a position is published. `waits` is called when this one counts among those who wait.
    pub(crate) fn wait(&self, position: Position, waits: impl FnOnce()) -> Result<()> {
        if self.position() >= position {
            return Ok(());
        }
        let guard = self.lock();
        self.waiting.fetch_add(WAITER, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        waits();
        let guard = self
            .moved
            .wait_while(guard, |waiters| self.position() < position && waiters.failed.is_none())
            .unwrap_or_else(PoisonError::into_inner);
        self.waiting.fetch_sub(WAITER, Ordering::SeqCst);
        match &guard.failed {
            Some(message) if self.position() < position => Err(failed(message)),
            _ => Ok(()),
        }
    }

    /// Sleeps until a position is published here, or there is something of others to take in, which it may be, or the time is over.
    pub(crate) fn sleep(&self, position: Position, until: Deadline, is_behind: impl Fn() -> bool) -> Result<Slept> {
        if self.position() >= position {
            return Ok(Slept::Published);
        }
        let _asleep = Asleep::begin(self);
        loop {
            // Taken before the look, so that what comes during it sets off an alarm that is not slept through.
            let seen = self.control.alarms();
            fence(Ordering::SeqCst);
            if self.position() >= position {
                return Ok(Slept::Published);
            }
            self.check()?;
            if is_behind() {
                return Ok(Slept::Behind);
            }
            let left = until.left();
            if left.is_zero() {
                return Ok(Slept::TimedOut);
            }
            self.control.await_alarm(seen, left);
        }
    }

    /// Whether a position is published; if not, wakes `waker` when it is. `key` is the registration of this waiter, to be
    /// given back to [`Published::forget`].
    pub(crate) fn poll(&self, position: Position, waker: &Waker, key: &mut Option<u64>) -> Poll<Result<()>> {
        if self.position() >= position {
            return Poll::Ready(Ok(()));
        }
        let mut waker = waker.clone();
        // Declared after `waker`, so that one that is replaced is dropped behind the lock.
        let mut waiters = self.lock();
        match key.and_then(|key| waiters.wakers.iter_mut().find(|waiting| waiting.key == key)) {
            Some(waiting) => std::mem::swap(&mut waiting.waker, &mut waker),
            None => {
                let fresh = waiters.next_key;
                waiters.next_key += 1;
                waiters.wakers.push(Waiting { key: fresh, position: position.get(), waker: waker.clone() });
                *key = Some(fresh);
                self.waiting.fetch_add(WAITER, Ordering::SeqCst);
            }
        }
        fence(Ordering::SeqCst);
        if self.position() >= position {
            return Poll::Ready(Ok(()));
        }
        match &waiters.failed {
            Some(message) => Poll::Ready(Err(failed(message))),
            None => Poll::Pending,
        }
    }

    /// Ends a registration; one that was woken is gone already.
    pub(crate) fn forget(&self, key: u64) {
        let forgotten = {
            let mut waiters = self.lock();
            let index = waiters.wakers.iter().position(|waiting| waiting.key == key);
            index.map(|index| waiters.wakers.swap_remove(index))
        };
        if forgotten.is_some() {
            self.waiting.fetch_sub(WAITER, Ordering::SeqCst);
        }
    }

    fn wake(&self, whom: impl Fn(&Waiting) -> bool) -> Woken {
        let mut waiters = self.lock();
        let waiting: Vec<Waiting> = waiters.wakers.extract_if(.., |waiting| whom(waiting)).collect();
        self.waiting.fetch_sub(WAITER * waiting.len() as u64, Ordering::SeqCst);
        self.moved.notify_all();
        if waiters.sleepers > 0 {
            self.control.alarm(self.control.seat());
        }
        Woken { all: (!waiting.is_empty()).then(|| Box::new(All(waiting))) }
    }

    fn lock(&self) -> MutexGuard<'_, Waiters> {
        self.waiters.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A thread that sleeps until its seat's alarm.
struct Asleep<'p>(&'p Published);

impl<'p> Asleep<'p> {
    fn begin(published: &'p Published) -> Self {
        let mut waiters = published.lock();
        published.waiting.fetch_add(SLEEPER, Ordering::SeqCst);
        waiters.sleepers += 1;
        published.control.falls_asleep();
        Asleep(published)
    }
}

impl Drop for Asleep<'_> {
    fn drop(&mut self) {
        let mut waiters = self.0.lock();
        self.0.waiting.fetch_sub(SLEEPER, Ordering::SeqCst);
        waiters.sleepers -= 1;
        if waiters.sleepers == 0 {
            self.0.control.wakes_up();
        }
    }
}

fn failed(message: &Arc<str>) -> Error {
    Error::Failed { message: message.to_string() }
}
