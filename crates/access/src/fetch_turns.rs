//! Which of the waiting fetches is woken when jobs arrive: as many as there are jobs.
//!
//! ```text
//! publication ─▶ one waiting fetch, the watcher, looks at every queue that has waiting fetches
//!                  └─▶ a turn for each job that may be fetched, oldest fetch first ─▶ fetch ─▶ turn ends
//! ```
//!
//! The watcher is a waiting fetch itself. When it leaves, the next one takes over and looks again,
//! so no task outlives the fetches. A turn that ends without a fetch makes the watcher look again:
//! a client that leaves takes no job from the others.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::future::pending;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use quire::{Database, Result};
use tokio::sync::{Mutex as AsyncMutex, Notify, oneshot};
use tokio::time::{Instant, sleep_until};

/// How many queues the watcher looks at while writers wait.
const LOOKED_AT: usize = 64;

/// The longest time between two looks. A changed system clock is noticed after this time.
const REST_MAX: Duration = Duration::from_secs(1);

/// The turns of the waiting fetches of a front end. Cloning is cheap.
#[derive(Debug, Clone)]
pub struct FetchTurns {
    shared: Arc<TurnsShared>,
}

#[derive(Debug)]
struct TurnsShared {
    waiting: Mutex<QueuedFetches>,
    /// Held by the watcher.
    watcher: AsyncMutex<()>,
    /// Makes the watcher look again.
    changed: Notify,
}

#[derive(Debug, Default)]
struct QueuedFetches {
    last: u64,
    fetches: BTreeMap<u64, QueuedFetch>,
    queues: HashMap<Arc<str>, QueueTurns>,
    /// The fetch that watches. It gets a turn when no other fetch waits for the queue.
    watcher: Option<u64>,
    /// When time may bring a job to a queue of the waiting fetches.
    due: Option<Instant>,
}

#[derive(Debug)]
struct QueuedFetch {
    queues: Vec<Arc<str>>,
    turn: oneshot::Sender<FetchTurn>,
}

#[derive(Debug, Default)]
struct QueueTurns {
    /// The waiting fetches, by age.
    fetches: BTreeSet<u64>,
    /// Turns that have not ended.
    open: usize,
}

/// The turn of a fetch. It ends when it is dropped, which is after the fetch.
#[derive(Debug)]
pub struct FetchTurn {
    /// `None` when the fetch did not wait.
    of: Option<(Arc<TurnsShared>, Arc<str>)>,
}

/// The place of a fetch among the waiting ones.
struct WaitingPlace<'s> {
    shared: &'s TurnsShared,
    number: u64,
}

impl Default for FetchTurns {
    fn default() -> Self {
        let (waiting, watcher, changed) = (Mutex::default(), AsyncMutex::new(()), Notify::new());
        FetchTurns { shared: Arc::new(TurnsShared { waiting, watcher, changed }) }
    }
}

impl FetchTurns {
    /// Waits until a fetch from these queues may return a job and it is this fetch's turn. The
    /// fetch may still find none, for example because another front end was faster.
    ///
    /// # Errors
    /// [`ErrorKind::Failed`](quire::ErrorKind::Failed).
    pub async fn wait(&self, database: &Database, queues: &[&str]) -> Result<FetchTurn> {
        let shared = &*self.shared;
        let (place, turn) = shared.enter(queues);
        // A job that arrived before the fetch waits is seen here, and one that arrives later by the
        // watcher.
        let Some(rest) = database.fetch_rest(queues)? else { return Ok(FetchTurn { of: None }) };
        if shared.waiting().end_rest_after(rest.at_most) {
            shared.changed.notify_waiters();
        }
        let watch = async {
            let _watcher = shared.watcher.lock().await;
            shared.waiting().watcher = Some(place.number);
            self.watch(database).await
        };
        tokio::select! {
            biased;
            turn = turn => Ok(turn.expect("a waiting fetch keeps its sender")),
            failed = watch => failed,
        }
    }

    /// Gives out turns. Returns only with an error.
    async fn watch<T>(&self, database: &Database) -> Result<T> {
        loop {
            // Registered before the look, so that no change is missed.
            let changed = self.shared.changed.notified();
            let seen = database.published();
            let due = self.give_turns(database).await?;
            let sleep = async {
                match due {
                    Some(due) => sleep_until(due).await,
                    None => pending().await,
                }
            };
            tokio::select! {
                arrived = database.publication_after(seen) => arrived?,
                () = changed => {}
                () = sleep => {}
            }
        }
    }

    /// Gives each queue's oldest fetches a turn for each job that has none. Returns when to look
    /// again.
    async fn give_turns(&self, database: &Database) -> Result<Option<Instant>> {
        let queues: Vec<(Arc<str>, usize)> = {
            let mut waiting = self.shared.waiting();
            waiting.due = None;
            let waits = |(queue, turns): (&Arc<str>, &QueueTurns)| {
                let wanted = turns.fetches.len() + turns.open;
                (!turns.fetches.is_empty()).then(|| (Arc::clone(queue), wanted))
            };
            waiting.queues.iter().filter_map(waits).collect()
        };
        let mut rest = REST_MAX;
        for queues in queues.chunks(LOOKED_AT) {
            let now = database.now();
            let found: Vec<(usize, Option<Duration>)> = database.read_published(|view| {
                let look = |(queue, wanted): &(Arc<str>, usize)| {
                    let at = view.jobs.fetchable_at(&[queue], now);
                    let after = at.map(|at| Duration::from_micros(at.as_micros() - now.as_micros()));
                    (view.jobs.fetchable_count(queue, now, *wanted), after.filter(|after| !after.is_zero()))
                };
                queues.iter().map(look).collect()
            })?;
            for ((queue, _), (jobs, after)) in queues.iter().zip(found) {
                self.give_turns_of(queue, jobs);
                rest = after.map_or(rest, |after| rest.min(after));
            }
            // Other clients of this thread are served between the looks at many queues.
            tokio::task::yield_now().await;
        }
        let mut waiting = self.shared.waiting();
        waiting.end_rest_after(rest);
        Ok(waiting.due)
    }

    /// Gives turns for this number of jobs of a queue.
    fn give_turns_of(&self, queue: &Arc<str>, jobs: usize) {
        loop {
            let (fetch, turn) = {
                let mut waiting = self.shared.waiting();
                let Some(fetch) = waiting.next_of(queue, jobs) else { return };
                let turn = FetchTurn { of: Some((Arc::clone(&self.shared), Arc::clone(queue))) };
                waiting.queues.get_mut(queue).expect("a fetch waits for it").open += 1;
                (waiting.remove(fetch).expect("it waits"), turn)
            };
            // A turn whose fetch has left ends here, outside the lock.
            let _ = fetch.turn.send(turn);
        }
    }
}

impl TurnsShared {
    fn waiting(&self) -> MutexGuard<'_, QueuedFetches> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a fetch to the waiting ones.
    fn enter(&self, queues: &[&str]) -> (WaitingPlace<'_>, oneshot::Receiver<FetchTurn>) {
        let (turn, given) = oneshot::channel();
        let mut waiting = self.waiting();
        waiting.last += 1;
        let number = waiting.last;
        let mut names = Vec::with_capacity(queues.len());
        for queue in queues {
            let name =
                waiting.queues.get_key_value(*queue).map_or_else(|| Arc::from(*queue), |(name, _)| Arc::clone(name));
            waiting.queues.entry(Arc::clone(&name)).or_default().fetches.insert(number);
            names.push(name);
        }
        waiting.fetches.insert(number, QueuedFetch { queues: names, turn });
        (WaitingPlace { shared: self, number }, given)
    }
}

impl QueuedFetches {
    /// Ends the watcher's rest after this time; returns whether that is earlier than before.
    fn end_rest_after(&mut self, rest: Duration) -> bool {
        let due = Instant::now() + rest;
        let is_earlier = self.due.is_none_or(|before| due < before);
        if is_earlier {
            self.due = Some(due);
        }
        is_earlier
    }

    /// The oldest fetch that waits for a queue, if the queue has more jobs than open turns.
    fn next_of(&self, queue: &Arc<str>, jobs: usize) -> Option<u64> {
        let turns = self.queues.get(queue)?;
        if turns.open >= jobs {
            return None;
        }
        let is_watcher = |number: &&u64| Some(**number) == self.watcher;
        turns.fetches.iter().find(|number| !is_watcher(number)).or_else(|| turns.fetches.first()).copied()
    }

    fn remove(&mut self, number: u64) -> Option<QueuedFetch> {
        let fetch = self.fetches.remove(&number)?;
        for queue in &fetch.queues {
            if let Some(turns) = self.queues.get_mut(queue) {
                turns.fetches.remove(&number);
                self.forget_idle(queue);
            }
        }
        Some(fetch)
    }

    /// Forgets a queue without waiting fetches and open turns.
    fn forget_idle(&mut self, queue: &Arc<str>) {
        if self.queues.get(queue).is_some_and(|turns| turns.fetches.is_empty() && turns.open == 0) {
            self.queues.remove(queue);
        }
    }
}

impl Drop for WaitingPlace<'_> {
    fn drop(&mut self) {
        let mut waiting = self.shared.waiting();
        waiting.remove(self.number);
        if waiting.watcher == Some(self.number) {
            waiting.watcher = None;
        }
    }
}

impl Drop for FetchTurn {
    fn drop(&mut self) {
        let Some((shared, queue)) = self.of.take() else { return };
        let is_waited_for = {
            let mut waiting = shared.waiting();
            let turns = waiting.queues.get_mut(&queue).expect("an open turn keeps its queue");
            turns.open -= 1;
            let is_waited_for = !turns.fetches.is_empty();
            waiting.forget_idle(&queue);
            is_waited_for
        };
        if is_waited_for {
            shared.changed.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use quire::Durability;
    use quire::jobs::JobSpec;
    use tempfile::TempDir;
    use tokio::task::JoinSet;

    use super::*;

    const QUEUES: &[&str] = &["mail"];

    fn database() -> (TempDir, Database) {
        let directory = tempfile::tempdir().expect("a directory");
        let database = Database::builder(directory.path()).durability(Durability::Os).open().expect("a database");
        (directory, database)
    }

    fn enqueue(database: &Database) {
        database.queue("mail").enqueue(JobSpec::new(b"{}")).expect("enqueued");
    }

    fn fetch(database: &Database) -> usize {
        database.queue("mail").fetch("w", 1).expect("fetched").len()
    }

    /// Returns when this number of fetches wait.
    async fn until_waiting(turns: &FetchTurns, fetches: usize) {
        while turns.shared.waiting().fetches.len() != fetches {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn one_waiting_fetch_is_woken_for_one_job() {
        const FETCHES: usize = 20;
        let (_directory, database) = database();
        let (turns, woken) = (FetchTurns::default(), Arc::new(AtomicUsize::new(0)));
        let mut fetches = JoinSet::new();
        for _ in 0..FETCHES {
            let (database, turns, woken) = (database.clone(), turns.clone(), Arc::clone(&woken));
            fetches.spawn(async move {
                loop {
                    let _turn = turns.wait(&database, QUEUES).await.expect("a turn");
                    woken.fetch_add(1, Ordering::Relaxed);
                    if fetch(&database) == 1 {
                        return;
                    }
                }
            });
        }
        until_waiting(&turns, FETCHES).await;
        for taken in 1..=FETCHES {
            enqueue(&database);
            fetches.join_next().await.expect("a fetch waits").expect("it got the job");
            assert_eq!(woken.load(Ordering::Relaxed), taken);
        }
        assert!(turns.shared.waiting().queues.is_empty());
    }

    #[tokio::test]
    async fn a_turn_that_ends_without_a_fetch_passes_to_the_next_waiter() {
        let (_directory, database) = database();
        let turns = FetchTurns::default();
        let mut fetches = JoinSet::new();
        for _ in 0..3 {
            let (database, turns) = (database.clone(), turns.clone());
            fetches.spawn(async move { drop(turns.wait(&database, QUEUES).await.expect("a turn")) });
        }
        until_waiting(&turns, 3).await;
        enqueue(&database);
        while let Some(fetch) = fetches.join_next().await {
            fetch.expect("a turn");
        }
        assert!(turns.shared.waiting().queues.is_empty());
    }

    #[tokio::test]
    async fn the_next_fetch_watches_when_the_watcher_leaves() {
        let (_directory, database) = database();
        let turns = FetchTurns::default();
        let wait = || {
            let (database, turns) = (database.clone(), turns.clone());
            tokio::spawn(async move { turns.wait(&database, QUEUES).await.map(drop) })
        };
        let (first, second) = (wait(), wait());
        until_waiting(&turns, 2).await;
        first.abort();
        assert!(first.await.is_err_and(|error| error.is_cancelled()));
        enqueue(&database);
        second.await.expect("it waits").expect("a turn");
    }

    #[tokio::test]
    async fn a_fetch_of_several_queues_is_woken_by_each_and_by_time() {
        let (_directory, database) = database();
        let turns = FetchTurns::default();
        for queue in ["mail", "print"] {
            let (waited, turns) = (database.clone(), turns.clone());
            let fetch = tokio::spawn(async move { turns.wait(&waited, &["mail", "print"]).await.map(drop) });
            let run_at = Some(database.now().plus_micros(20_000));
            let job = JobSpec { run_at, ..JobSpec::new(b"{}") };
            database.queue(queue).enqueue(job).expect("enqueued");
            fetch.await.expect("it waits").expect("a turn");
            assert_eq!(database.queue(queue).fetch("w", 1).expect("fetched").len(), 1);
        }
    }
}
