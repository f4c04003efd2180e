//! Publication: visibility of records, and wake-ups of waiters.

use std::pin::pin;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

use quire_log::{Components, Durability, Error, Log, Publication, Settings, WaitDeadline, WaitOutcome};
use quire_model::{History, Place, Position, Sequence, Tag};

use crate::shard::{
    BOTH, IDENTITY, Item, Shard, append, assert_samples, contents, extend, filled, sample, settings, try_append,
};
use crate::storage::DyingDisk;

const MINUTE: Duration = Duration::from_secs(60);

/// Counts its calls and wakes the thread that created it.
struct CountingWaker {
    calls: AtomicUsize,
    thread: Thread,
}

impl CountingWaker {
    fn new() -> Arc<Self> {
        Arc::new(CountingWaker { calls: AtomicUsize::new(0), thread: thread::current() })
    }

    fn calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }
}

impl Wake for CountingWaker {
    fn wake(self: Arc<Self>) {
        self.calls.fetch_add(1, Ordering::SeqCst);
        self.thread.unpark();
    }
}

fn poll(publication: &mut Publication, waker: &Arc<CountingWaker>) -> Poll<Result<(), Error>> {
    let waker = Waker::from(Arc::clone(waker));
    pin!(publication).poll(&mut Context::from_waker(&waker))
}

/// Runs a future on this thread.
fn block_on(mut publication: Publication) -> Result<(), Error> {
    let waker = CountingWaker::new();
    loop {
        match poll(&mut publication, &waker) {
            Poll::Ready(outcome) => return outcome,
            Poll::Pending => thread::park_timeout(MINUTE),
        }
    }
}

#[test]
fn threads_that_commit_and_wait_share_syncs_and_lose_nothing() {
    const THREADS: u64 = 8;
    const COMMITS: u64 = 60;
    for durability in BOTH {
        let shard = Shard::new(settings(durability));
        let quire_log::OpenedLog { log, writer, .. } = shard.open();
        let writer = Mutex::new(writer);
        thread::scope(|scope| {
            for thread in 0..THREADS {
                let (log, writer) = (&log, &writer);
                scope.spawn(move || {
                    for commit in 0..COMMITS {
                        let item = Item::numbered(&thread.to_string(), 1, format!("{thread} {commit}"));
                        let (position, basis) = {
                            let mut writer = writer.lock().unwrap();
                            (append(&mut writer, &[item]), writer.basis())
                        };
                        if commit % 2 == 0 {
                            log.wait(basis).unwrap();
                        } else {
                            block_on(log.publication(basis)).unwrap();
                        }
                        assert!(log.published() >= position);
                        assert!(log.reader().record(position).unwrap().is_some());
                    }
                });
            }
        });
        let statistics = log.statistics();
        assert_eq!(statistics.records, THREADS * COMMITS);
        assert!(durability == Durability::Os || statistics.syncs > 0);
        assert!(statistics.syncs <= statistics.records, "{} syncs", statistics.syncs);
        let crashed = shard.snapshot().shard();
        let found = contents(&crashed.open().log.reader());
        assert_eq!(found.len() as u64, THREADS * COMMITS);
        for thread in 0..THREADS {
            let tag = thread.to_string().into_bytes();
            let own: Vec<_> = found.iter().filter(|read| read.tags[0] == tag).collect();
            for (commit, read) in own.iter().enumerate() {
                assert_eq!(read.body, format!("{thread} {commit}").into_bytes());
                assert_eq!(read.sequence, Some(Sequence::new(commit as u64 + 1)));
            }
        }
    }
}

#[test]
fn readers_see_whole_records_in_order_while_the_writer_appends() {
    const RECORDS: u64 = 2000;
    for durability in BOTH {
        let shard = Shard::new(settings(durability));
        let quire_log::OpenedLog { log, mut writer, .. } = shard.open();
        thread::scope(|scope| {
            for _ in 0..3 {
                let log = log.clone();
                scope.spawn(move || {
                    let mut seen = 0;
                    while seen < RECORDS {
                        log.reach(Position::new(seen + 1)).unwrap();
                        let reader = log.reader();
                        let limit = reader.limit().get();
                        assert!(limit > seen);
                        for number in seen + 1..=limit {
                            let entry =
                                reader.seek(Tag::new(b"n"), Sequence::new(number)).unwrap().expect("it is there");
                            assert_eq!(entry.place, Place::new(Position::new(number), 0));
                            let body = number.to_le_bytes().repeat(1 + number as usize % 200);
                            assert_eq!(entry.body, body);
                        }
                        assert!(reader.next(&[], Place::new(Position::new(limit + 1), 0)).unwrap().is_none());
                        let last = reader.previous(&[], Place::END).unwrap().expect("there are some");
                        assert_eq!(last.place, Place::new(Position::new(limit), 0));
                        seen = limit;
                    }
                });
            }
            for number in 1..=RECORDS {
                let body = number.to_le_bytes().repeat(1 + number as usize % 200);
                append(&mut writer, &[Item::numbered("n", 1, body)]);
                if number % 50 == 0 || number == RECORDS {
                    log.reach(Position::new(number)).unwrap();
                }
            }
        });
    }
}

#[test]
fn a_record_is_durable_after_waiting_for_it() {
    let (shard, opened) = filled(Durability::Sync, 30);
    let crashed = shard.snapshot().without_indexes();
    let records = crashed.records();
    for (name, bytes) in &records[..29] {
        let damaged = crashed.with(name, |file| file[bytes.start + 50] ^= 1);
        assert!(matches!(damaged.shard().try_open(), Err(Error::Damaged { .. })));
    }
    drop(opened);
}

#[test]
fn a_reader_sees_the_records_published_at_its_creation() {
    for durability in BOTH {
        let (_shard, mut opened) = filled(durability, 3);
        let before = opened.log.reader();
        append(&mut opened.writer, &sample(4));
        let published = if durability == Durability::Os { 4 } else { 3 };
        assert_eq!(opened.log.published(), Position::new(published));
        assert_samples(&before, 3);
        assert_samples(&opened.log.reader(), published);
        assert_samples(opened.writer.begin().unwrap().0, 4);
        assert_samples(&opened.writer.reader(), 4);
        opened.log.reach(Position::new(4)).unwrap();
        assert_samples(&before, 3);
        assert_samples(&opened.log.reader(), 4);
    }
}

#[test]
fn a_publication_is_ready_when_its_record_is_published_and_not_before() {
    let (_shard, mut opened) = filled(Durability::Sync, 3);
    assert!(block_on(opened.log.publication(opened.writer.basis())).is_ok());
    let position = append(&mut opened.writer, &sample(4));
    assert!(opened.log.published() < position);
    block_on(opened.log.publication(opened.writer.basis())).unwrap();
    assert_eq!(opened.log.published(), position);
}

#[test]
fn an_arrival_is_woken_by_the_append_it_waits_for_and_by_no_other() {
    let (_shard, mut opened) = filled(Durability::Os, 3);
    let (next, later) = (CountingWaker::new(), CountingWaker::new());
    let mut awaited = opened.log.publication_at(Position::new(4));
    let mut awaited_later = opened.log.publication_at(Position::new(6));
    assert!(poll(&mut awaited, &next).is_pending() && poll(&mut awaited, &next).is_pending());
    assert!(poll(&mut awaited_later, &later).is_pending());
    append(&mut opened.writer, &sample(4));
    assert_eq!((next.calls(), later.calls()), (1, 0));
    assert!(poll(&mut awaited, &next).is_ready() && poll(&mut awaited_later, &later).is_pending());
    append(&mut opened.writer, &sample(5));
    assert_eq!((next.calls(), later.calls()), (1, 0));
    append(&mut opened.writer, &sample(6));
    assert_eq!((next.calls(), later.calls()), (1, 1));
}

#[test]
fn an_arrival_in_a_sync_log_is_woken_by_the_sync_that_publishes() {
    let (_shard, mut opened) = filled(Durability::Sync, 3);
    let waker = CountingWaker::new();
    let mut awaited = opened.log.publication_at(Position::new(4));
    assert!(poll(&mut awaited, &waker).is_pending());
    let position = append(&mut opened.writer, &sample(4));
    assert_eq!(waker.calls(), 0);
    assert!(poll(&mut awaited, &waker).is_pending());
    opened.log.reach(position).unwrap();
    assert_eq!(waker.calls(), 1);
    assert!(poll(&mut awaited, &waker).is_ready());
}

#[test]
fn a_dropped_publication_leaves_no_registration() {
    let (_shard, mut opened) = filled(Durability::Os, 3);
    let waker = CountingWaker::new();
    let mut awaited = opened.log.publication_at(Position::new(4));
    assert!(poll(&mut awaited, &waker).is_pending());
    assert!(Arc::strong_count(&waker) > 1);
    drop(awaited);
    assert_eq!(Arc::strong_count(&waker), 1);
    append(&mut opened.writer, &sample(4));
    assert_eq!(waker.calls(), 0);
    // Only the waker of the last poll is woken.
    let other = CountingWaker::new();
    let mut awaited = opened.log.publication_at(Position::new(5));
    assert!(poll(&mut awaited, &waker).is_pending() && poll(&mut awaited, &other).is_pending());
    append(&mut opened.writer, &sample(5));
    assert_eq!((waker.calls(), other.calls()), (0, 1));
}

#[test]
fn waiting_for_a_record_that_is_never_appended_ends_at_the_deadline() {
    for durability in BOTH {
        let (_shard, opened) = filled(durability, 3);
        assert_eq!(
            opened.log.sleep(Position::new(3), WaitDeadline::after(Duration::ZERO)).unwrap(),
            WaitOutcome::Published
        );
        assert_eq!(
            opened.log.sleep(Position::new(4), WaitDeadline::after(Duration::from_millis(1))).unwrap(),
            WaitOutcome::TimedOut
        );
    }
}

#[test]
fn waiting_for_a_record_before_it_is_appended_ends_when_it_is_published() {
    for durability in BOTH {
        let (_shard, mut opened) = filled(durability, 3);
        let syncs = opened.log.statistics().syncs;
        thread::scope(|scope| {
            let log = opened.log.clone();
            let waiting = scope.spawn(move || log.reach(Position::new(4)));
            let asked = opened.log.publication_at(Position::new(5));
            let polled = scope.spawn(move || block_on(asked));
            assert_eq!(
                opened.log.sleep(Position::new(4), WaitDeadline::after(Duration::from_millis(30))).unwrap(),
                WaitOutcome::TimedOut
            );
            extend(&mut opened, 6);
            waiting.join().unwrap().unwrap();
            polled.join().unwrap().unwrap();
        });
        assert!(opened.log.statistics().syncs - syncs <= 6, "nobody syncs in circles");
    }
}

/// A task that is cancelled on its wake-up: the last references to the log are dropped on the
/// waking thread.
struct Cancelled(Mutex<Option<Publication>>);

impl Wake for Cancelled {
    fn wake(self: Arc<Self>) {
        self.0.lock().unwrap().take();
    }
}

#[test]
fn a_woken_task_may_close_the_log() {
    for durability in BOTH {
        for _ in 0..20 {
            let (shard, opened) = filled(durability, 3);
            let quire_log::OpenedLog { log, mut writer, .. } = opened;
            let position = append(&mut writer, &sample(4));
            let task = Arc::new(Cancelled(Mutex::new(Some(log.publication(writer.basis())))));
            drop((log, writer));
            let waker = Waker::from(Arc::clone(&task));
            if let Some(publication) = &mut *task.0.lock().unwrap() {
                let _ = pin!(publication).poll(&mut Context::from_waker(&waker));
            }
            if durability == Durability::Os {
                task.0.lock().unwrap().take();
            }
            drop((task, waker));
            // The log closes on its own thread.
            let reopened = shard.open();
            reopened.log.reach(position).unwrap();
            assert_samples(&reopened.log.reader(), 4);
        }
    }
}

#[test]
fn an_os_log_syncs_at_its_interval() {
    let often = Shard::new(Settings { sync_interval_ms: 1, ..settings(Durability::Os) });
    let mut opened = often.open();
    let never = Shard::new(settings(Durability::Os));
    let mut idle = never.open();
    let (before, idle_before) = (opened.log.statistics().syncs, idle.log.statistics().syncs);
    extend(&mut opened, 3);
    extend(&mut idle, 3);
    let mut rounds = 0;
    while opened.log.statistics().syncs == before {
        rounds += 1;
        assert!(rounds < 60_000, "a minute has gone by without a sync");
        assert_eq!(
            opened.log.sleep(Position::new(99), WaitDeadline::after(Duration::from_millis(1))).unwrap(),
            WaitOutcome::TimedOut
        );
    }
    assert!(idle.log.statistics().syncs <= idle_before + 1);
    let syncs = opened.log.statistics().syncs;
    assert_eq!(
        opened.log.sleep(Position::new(99), WaitDeadline::after(Duration::from_millis(20))).unwrap(),
        WaitOutcome::TimedOut
    );
    assert!(opened.log.statistics().syncs <= syncs + 1, "nothing new needs no sync");
}

#[test]
fn a_failed_log_reports_its_failure() {
    let left = Arc::new(AtomicI64::new(i64::MAX));
    let shard = Shard::new(settings(Durability::Sync));
    let components = Components { storage: Arc::new(DyingDisk::after(Arc::clone(&left))), ..Components::default() };
    let mut opened = Log::open_with(shard.path(), IDENTITY, shard.settings.clone(), components).unwrap();
    extend(&mut opened, 3);
    opened.log.check().unwrap();
    left.store(0, Ordering::SeqCst);
    let kept = try_append(&mut opened.writer, &sample(4)).and_then(|position| opened.log.reach(position));
    assert!(kept.is_err());
    assert!(matches!(opened.log.check(), Err(Error::Failed { .. })));
}
