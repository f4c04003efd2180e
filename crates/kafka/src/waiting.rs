//! Waiting fetches: a commit wakes only the fetches that wait for its records.
//!
//! ```text
//! publication ──▶ one task: the records since the last ──▶ the first tag of each entry ──▶ the fetches that wait for it
//! ```
//!
//! An entry without a sequence adds no records to its tag, but changes it: records or events were
//! deleted, or the topic was. It wakes every fetch that waits for that topic, whatever its minimum
//! size.
//!
//! A waiting fetch states the position up to which it has read. On registering it receives the
//! sizes of the later entries that were already scanned. So it need not read again just because it
//! began to wait.
//!
//! So a commit wakes one task and the fetches that wait for its tags, however many others wait.
//! While no fetch waits, the task sleeps. It reads the log, so commits of every process count.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use quire::{Database, Entry, ModelId, Position};
use tokio::sync::Notify;

/// How many records are scanned before other tasks run.
const RECORDS_AT_ONCE: u64 = 256;

/// An upper bound of the bytes that an entry adds to a response besides its bytes in the log: an
/// event becomes a record with headers. An entry of a queue is one event for each of its sequences.
const ENTRY_BYTES: u64 = 512;

/// More than any fetch waits for: the fetch must read again in any case.
const ENOUGH: u64 = u32::MAX as u64;

/// The waiting fetches and their tags.
#[derive(Debug, Default)]
pub(crate) struct WaitingFetches {
    registry: Mutex<Registry>,
    /// Signals the first waiting fetch.
    somebody: Notify,
    /// The database has failed; no further records will arrive.
    is_failed: AtomicBool,
}

#[derive(Debug, Default)]
struct Registry {
    /// Every record up to here was scanned, or all waiting fetches have read up to it.
    scanned: Position,
    /// By tag, then by the number of the waiting fetch.
    by_tag: HashMap<Box<[u8]>, HashMap<u64, Arc<ArrivedBytes>>>,
    /// How many fetches wait, and the number of the next.
    count: usize,
    next: u64,
}

/// The bytes that arrived for one fetch.
#[derive(Debug, Default)]
struct ArrivedBytes {
    /// Possibly too many, by a bounded amount, but never too few: a woken fetch reads for itself.
    bytes: AtomicU64,
    /// The fetch sleeps until this many bytes have arrived.
    wanted: AtomicU64,
    woken: Notify,
}

/// A registration of a waiting fetch; dropping it removes it.
#[derive(Debug)]
pub(crate) struct WaitingFetch<'w> {
    waiting: &'w WaitingFetches,
    number: u64,
    tags: Vec<Box<[u8]>>,
    arrived: Arc<ArrivedBytes>,
}

impl WaitingFetches {
    /// Registers a fetch for these tags after a position, at which their partitions were read.
    pub(crate) fn join(&self, database: &Database, tags: Vec<Box<[u8]>>, seen: Position) -> WaitingFetch<'_> {
        let arrived = Arc::<ArrivedBytes>::default();
        let mut registry = self.lock();
        if registry.count == 0 {
            registry.scanned = seen;
            self.somebody.notify_one();
        }
        let scanned = registry.scanned;
        let number = registry.next;
        registry.next += 1;
        registry.count += 1;
        for tag in &tags {
            registry.by_tag.entry(tag.clone()).or_default().insert(number, Arc::clone(&arrived));
        }
        drop(registry);
        let waiter = WaitingFetch { waiting: self, number, tags, arrived };
        waiter.catch_up(database, seen, scanned);
        waiter
    }

    /// Wakes waiting fetches, for as long as the database is open.
    pub(crate) async fn watch(&self, database: &Database) {
        loop {
            let scanned = {
                let registry = self.lock();
                (registry.count > 0).then_some(registry.scanned)
            };
            let Some(scanned) = scanned else {
                self.somebody.notified().await;
                continue;
            };
            if database.publication_after(scanned).await.is_err() {
                self.is_failed.store(true, Ordering::SeqCst);
                self.wake_all();
                return;
            }
            let published = database.published();
            while self.look(database, published) {
                tokio::task::yield_now().await;
            }
        }
    }

    /// Scans the next records up to a position; returns whether there are more.
    fn look(&self, database: &Database, published: Position) -> bool {
        let from = {
            let registry = self.lock();
            if registry.count == 0 {
                return false;
            }
            registry.scanned.get()
        };
        let to = published.get().min(from + RECORDS_AT_ONCE);
        let history = database.history();
        for position in from + 1..=to {
            match history.record(Position::new(position)) {
                Ok(Some(entries)) => {
                    let registry = self.lock();
                    for (tag, bytes) in entries.filter_map(|entry| told(&entry)) {
                        for arrived in registry.by_tag.get(tag).into_iter().flat_map(HashMap::values) {
                            arrived.add(bytes);
                        }
                    }
                }
                Ok(None) => {}
                // The fetch that reads the entry finds the damage.
                Err(_) => self.wake_all(),
            }
        }
        let mut registry = self.lock();
        registry.scanned = registry.scanned.max(Position::new(to));
        to < published.get()
    }

    fn wake_all(&self) {
        for arrived in self.lock().by_tag.values().flat_map(HashMap::values) {
            arrived.add(ENOUGH);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Registry> {
        self.registry.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The tag that an entry wakes, and its size in bytes.
fn told<'e>(entry: &Entry<'e>) -> Option<(&'e [u8], u64)> {
    let is_of_jobs = entry.kind.model == ModelId::JOBS;
    let bytes = match entry.sequence {
        Some(_) => entry.body.len() as u64 + ENTRY_BYTES * if is_of_jobs { u64::from(entry.count) } else { 1 },
        // Nothing of a queue is deleted.
        None if is_of_jobs => return None,
        None => ENOUGH,
    };
    Some((entry.tags.first()?.as_bytes(), bytes))
}

impl ArrivedBytes {
    fn add(&self, bytes: u64) {
        let bytes = self.bytes.fetch_add(bytes, Ordering::SeqCst) + bytes;
        if bytes >= self.wanted.load(Ordering::SeqCst) {
            self.woken.notify_one();
        }
    }
}

impl WaitingFetch<'_> {
    /// Adds the entries that were published after `seen` and scanned, up to `scanned`, before this
    /// fetch was registered.
    fn catch_up(&self, database: &Database, seen: Position, scanned: Position) {
        if scanned.get() > seen.get() + RECORDS_AT_ONCE {
            return self.arrived.add(ENOUGH);
        }
        let history = database.history();
        for position in seen.get() + 1..=scanned.get() {
            match history.record(Position::new(position)) {
                Ok(Some(entries)) => {
                    let registry = self.waiting.lock();
                    for (tag, bytes) in entries.filter_map(|entry| told(&entry)) {
                        if registry.by_tag.get(tag).is_some_and(|waiters| waiters.contains_key(&self.number)) {
                            self.arrived.add(bytes);
                        }
                    }
                }
                Ok(None) => {}
                Err(_) => self.arrived.add(ENOUGH),
            }
        }
    }

    /// A fetch's registration.
    pub(crate) fn tags(&self) -> &[Box<[u8]>] {
        &self.tags
    }

    /// The bytes that arrived so far. Read it before reading the partitions, so that no record is
    /// counted that was not read.
    pub(crate) fn bytes(&self) -> u64 {
        self.arrived.bytes.load(Ordering::SeqCst)
    }

    /// Waits until `bytes` bytes have arrived since the registration; `false` when the database has
    /// failed.
    pub(crate) async fn until(&self, bytes: u64) -> bool {
        self.arrived.wanted.store(bytes, Ordering::SeqCst);
        while self.bytes() < bytes {
            if self.waiting.is_failed.load(Ordering::SeqCst) {
                return false;
            }
            self.arrived.woken.notified().await;
        }
        !self.waiting.is_failed.load(Ordering::SeqCst)
    }
}

impl Drop for WaitingFetch<'_> {
    fn drop(&mut self) {
        let mut registry = self.waiting.lock();
        registry.count -= 1;
        for tag in &self.tags {
            if let Some(waiters) = registry.by_tag.get_mut(tag) {
                waiters.remove(&self.number);
                if waiters.is_empty() {
                    registry.by_tag.remove(tag);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use quire::Message;

    use super::*;

    #[test]
    fn a_new_waiter_learns_of_changes_since_its_last_read() {
        let directory = tempfile::tempdir().expect("a directory");
        let database = Database::open(directory.path()).expect("a database");
        let tags = |topic: &str| {
            let found = database.read_published(|view| {
                let id = view.streams.topic_named(topic).expect("a topic").id;
                view.streams.partition(id, 0).expect("a partition").tag().tag().as_bytes().into()
            });
            vec![found.expect("no error")]
        };
        for topic in ["t", "u"] {
            database.topic(topic).create(1).expect("created");
        }
        let waiting = WaitingFetches::default();
        let other = waiting.join(&database, tags("u"), database.published());
        let seen = database.published();
        database.topic("t").produce(Message::new("value")).expect("produced");
        assert!(!waiting.look(&database, database.published()), "all is gone through");
        let waits =
            [waiting.join(&database, tags("t"), seen), waiting.join(&database, tags("t"), database.published())];
        assert!(waits[0].bytes() >= 5);
        assert_eq!((waits[1].bytes(), other.bytes()), (0, 0));
        for _ in 0..RECORDS_AT_ONCE {
            database.topic("u").produce(Message::new("value")).expect("produced");
        }
        while waiting.look(&database, database.published()) {}
        let late = waiting.join(&database, tags("t"), seen);
        assert_eq!(late.bytes(), ENOUGH, "what is too much to go through is to be looked at");
    }
}
