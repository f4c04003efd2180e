//! Threads for calls that wait for a server.
//!
//! A call runs to its end, which the client's `timeout` bounds. Its caller may leave before.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use crate::held::forks_so_far;

/// Calls that a server answers at once.
pub(crate) static CALLS: Pool = Pool::new(16);

/// Calls that a server answers after a second without news.
pub(crate) static WAITS: Pool = Pool::new(64);

/// How long a thread without work lives.
const IDLE_MAX: Duration = Duration::from_secs(10);

type Task = Box<dyn FnOnce() + Send>;

/// Threads, which begin when there is work for them.
pub(crate) struct Pool {
    threads_max: usize,
    work: Mutex<PoolWork>,
    is_given: Condvar,
}

struct PoolWork {
    tasks: VecDeque<Task>,
    threads: usize,
    idle: usize,
    /// The child of a fork has no threads.
    forks: u32,
}

impl Pool {
    const fn new(threads_max: usize) -> Self {
        let work = PoolWork { tasks: VecDeque::new(), threads: 0, idle: 0, forks: 0 };
        Pool { threads_max, work: Mutex::new(work), is_given: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, PoolWork> {
        self.work.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a call in a thread of the pool.
    pub(crate) fn run<T: Send + 'static>(&'static self, call: impl FnOnce() -> T + Send + 'static) -> Answer<T> {
        let slot =
            Arc::new(AnswerSlot { state: Mutex::new(SlotState { value: None, waker: None }), is_set: Condvar::new() });
        let answer = Answer(Arc::clone(&slot));
        let mut work = self.lock();
        if work.forks != forks_so_far() {
            *work = PoolWork { tasks: VecDeque::new(), threads: 0, idle: 0, forks: forks_so_far() };
        }
        work.tasks.push_back(Box::new(move || slot.set(call())));
        if work.tasks.len() > work.idle && work.threads < self.threads_max {
            work.threads += 1;
            let thread = std::thread::Builder::new().name("quire-client".to_owned());
            thread.spawn(|| self.work()).expect("the system starts a thread");
        }
        drop(work);
        self.is_given.notify_one();
        answer
    }

    fn work(&self) {
        let mut work = self.lock();
        loop {
            if let Some(task) = work.tasks.pop_front() {
                drop(work);
                task();
                work = self.lock();
                continue;
            }
            work.idle += 1;
            let (woken, waited) = self.is_given.wait_timeout(work, IDLE_MAX).unwrap_or_else(PoisonError::into_inner);
            work = woken;
            work.idle -= 1;
            if waited.timed_out() && work.tasks.is_empty() {
                work.threads -= 1;
                return;
            }
        }
    }
}

/// What a call returns, once it has returned: to be awaited, or waited for.
pub(crate) struct Answer<T>(Arc<AnswerSlot<T>>);

struct AnswerSlot<T> {
    state: Mutex<SlotState<T>>,
    is_set: Condvar,
}

struct SlotState<T> {
    value: Option<T>,
    waker: Option<Waker>,
}

impl<T> AnswerSlot<T> {
    fn lock(&self) -> MutexGuard<'_, SlotState<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, value: T) {
        let mut state = self.lock();
        state.value = Some(value);
        let waker = state.waker.take();
        drop(state);
        self.is_set.notify_all();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl<T> Answer<T> {
    /// Waits up to `at_most` for the answer.
    pub(crate) fn wait(&self, at_most: Duration) -> Option<T> {
        let state = self.0.is_set.wait_timeout_while(self.0.lock(), at_most, |state| state.value.is_none());
        let (mut state, _) = state.unwrap_or_else(PoisonError::into_inner);
        state.value.take()
    }
}

impl<T> Future for Answer<T> {
    type Output = T;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        let mut state = self.0.lock();
        match state.value.take() {
            Some(value) => Poll::Ready(value),
            None => {
                state.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}
