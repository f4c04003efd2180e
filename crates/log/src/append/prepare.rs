//! Prepares the next segment before it is needed.
//!
//! Filling a file with zeros and syncing it takes milliseconds. A thread of its own does this while
//! the writer fills the segment before. A full disk shows here: the append that needed the segment
//! fails with a clear error. The next append tries again.
//!
//! A log without threads makes the segment when it is needed, or when [`Preparer::step`] is called.
//!
//! In an `os` log the preparer also makes the pages ready for writes, so that no append waits for
//! the kernel.
//!
//! In a `sync` log the preparer writes the file in pieces ([`PIECE_BYTES`]), because a large write
//! delays the syncs of commits. It spreads the pieces over time. It writes faster when the segment
//! in use fills faster, and at once when a caller waits.
//!
//! There is one spare at a time. The preparer makes it under a name that must be free, so that a
//! file which another process has mapped is never truncated.

use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use quire_mapped::Appender;
use quire_model::Timestamp;

use crate::components::Background;
use crate::error::{Error, Result};
use crate::processes::seat::Seat;
use crate::settings::Durability;
use crate::statistics::Counters;
use crate::storage::directory::{Directory, Fill, FillCallback, SegmentFile};
use crate::storage::{PIECE_BYTES, StoredFile};
use crate::time::deadline::WaitDeadline;

/// Time over which a spare is written, when that is soon enough.
const PACED_TIME: Duration = Duration::from_secs(1);

/// This pace is soon enough while the spare's written part is at least `LEAD` times the filled part
/// of the segment in use. The preparer compares them every `LOOK_INTERVAL`.
const LEAD: u64 = 2;
const LOOK_INTERVAL: Duration = Duration::from_millis(5);

/// From this many bytes a second on, an `os` log is filled in pieces of huge pages. A background
/// sync then writes at most about twice the bytes appended since the sync before. This holds at the
/// default sync interval.
const HUGE_BYTES_PER_S: u64 = 16 << 20;

/// The reason to prepare no further segments.
const CLOSING: &str = "the log is being closed";

/// Returns the name under which a segment of this seat waits for its records.
pub(crate) fn spare_name(seat: u32) -> String {
    format!("spare-{seat:02}")
}

/// Returns the seat whose spare has this name.
fn seat_of(name: &str) -> Option<u32> {
    name.strip_prefix("spare-")?.parse().ok()
}

/// Removes the spares of dead processes, each of which takes the space of a segment. Keeps `own`,
/// the spare of this process's seat. A spare that can't be removed stays, because it is no part of
/// the log.
pub(crate) fn remove_left(directory: &Directory, own: &str) -> Result<()> {
    for name in directory.names()?.iter().filter(|name| *name != own) {
        // While this process holds the seat, no other process takes it and makes this spare.
        if let Some(seat) = seat_of(name)
            && let Ok(Some(_seat)) = Seat::take_free(directory, seat)
        {
            let _ = directory.remove(name);
        }
    }
    Ok(())
}

/// A file of zeros, mapped.
#[derive(Debug)]
pub(crate) struct PreparedSegment {
    pub(crate) file: SegmentFile,
    pub(crate) appender: Appender,
    pub(crate) bytes: u64,
    pub(crate) name: String,
    pub(crate) fill: Fill,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Preparer {
    name: String,
    bytes: u64,
    durability: Durability,
    background: Background,
    /// Counts the appends of every process.
    counters: Arc<Counters>,
    state: Mutex<PrepareState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct PrepareState {
    wanted: bool,
    /// When the segment before was begun.
    begun: Option<Timestamp>,
    /// Whether the last segment was filled fast enough for huge pages.
    huge: bool,
    /// Number of bytes that had been appended when the segment before was begun.
    appended: u64,
    ready: Option<Result<PreparedSegment>>,
    /// Whether a caller waits for the segment.
    awaited: bool,
    stopping: bool,
}

impl Preparer {
    pub(crate) fn new(
        name: String,
        bytes: u64,
        durability: Durability,
        background: Background,
        counters: Arc<Counters>,
    ) -> Self {
        assert!(bytes > 0, "a segment has a length");
        Preparer { name, bytes, durability, background, counters, state: Mutex::default(), changed: Condvar::new() }
    }

    /// Takes the next segment; waits when it is not ready yet. The preparer may begin another
    /// segment once this one has its final name.
    ///
    /// # Errors
    /// [`Error::NoSpace`] and [`Error::Io`] when the segment can't be made.
    pub(crate) fn take(&self, directory: &Directory) -> Result<PreparedSegment> {
        let mut state = self.made(directory)?;
        // The wanted segment exists. Another is not begun before `begin`, because it would take the
        // name of this one.
        state.wanted = false;
        state.ready.take().expect("it is made")
    }

    /// Waits until the next segment is ready.
    ///
    /// # Errors
    /// As [`Preparer::take`].
    pub(crate) fn ensure(&self, directory: &Directory) -> Result<()> {
        self.made(directory).map(drop)
    }

    /// Waits until the next segment is ready, without taking it.
    fn made(&self, directory: &Directory) -> Result<MutexGuard<'_, PrepareState>> {
        let mut state = self.lock();
        // The cause of an earlier error may have passed while no caller waited. The preparer tries
        // again, and the new outcome counts.
        state.ready.take_if(|ready| ready.is_err());
        loop {
            if state.ready.as_ref().is_some_and(Result::is_ok) {
                return Ok(state);
            }
            if state.stopping {
                return Err(Error::Failed { message: CLOSING.to_owned() });
            }
            if let Some(failed) = state.ready.take() {
                return Err(failed.expect_err("it is one that failed"));
            }
            state.awaited = true;
            self.want(&mut state);
            state = match self.background {
                Background::Threads => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
                Background::Caller => {
                    drop(state);
                    self.step(directory);
                    self.lock()
                }
            };
        }
    }

    /// Requests the segment after the one that begins now, without waiting for it.
    pub(crate) fn begin(&self, now: Timestamp) {
        let mut state = self.lock();
        if let Some(begun) = state.begun.replace(now) {
            let micros = now.as_micros().saturating_sub(begun.as_micros());
            state.huge = self.bytes.saturating_mul(1_000_000) >= micros.saturating_mul(HUGE_BYTES_PER_S);
        }
        state.appended = self.counters.bytes();
        self.want(&mut state);
    }

    /// Makes the first segment of a log, before a thread exists that would.
    pub(crate) fn make_first(&self, directory: &Directory) -> Result<()> {
        let fill = self.fill(&self.lock());
        let first = prepare(directory, &self.name, self.bytes, fill, &mut |_, _| Ok(()))?;
        let before = self.lock().ready.replace(Ok(first));
        assert!(before.is_none(), "the first segment of a log is the first spare");
        Ok(())
    }

    fn fill(&self, state: &PrepareState) -> Fill {
        match self.durability {
            Durability::Sync => Fill::Written,
            Durability::Os if state.huge => Fill::Huge,
            Durability::Os => Fill::Small,
        }
    }

    fn want(&self, state: &mut PrepareState) {
        state.wanted = true;
        self.changed.notify_all();
    }

    /// Runs the background thread.
    pub(crate) fn run(&self, directory: &Directory) {
        loop {
            let state = self
                .changed
                .wait_while(self.lock(), |state| !(state.stopping || state.is_called_for()))
                .unwrap_or_else(PoisonError::into_inner);
            if state.stopping {
                return;
            }
            drop(state);
            self.step(directory);
        }
    }

    /// Makes a segment if one is wanted; returns whether one was.
    pub(crate) fn step(&self, directory: &Directory) -> bool {
        let mut state = self.lock();
        if !state.is_called_for() {
            return false;
        }
        state.wanted = false;
        let fill = self.fill(&state);
        drop(state);
        // The spares of dead processes may take the space that this segment needs.
        let _ = remove_left(directory, &self.name);
        let until = WaitDeadline::after(PACED_TIME);
        let mut out = 0;
        let mut go_on = |file: &dyn StoredFile, written: u64| {
            if self.lock().stopping {
                return Err(io::Error::other(CLOSING));
            }
            assert!(out <= written && written <= self.bytes, "a spare is filled from its beginning to its end");
            if self.durability == Durability::Sync && written - out >= PIECE_BYTES {
                file.write_out(out, written - out)?;
                out = written;
                self.keep_pace(until, written);
            }
            Ok(())
        };
        let made = prepare(directory, &self.name, self.bytes, fill, &mut go_on);
        let mut state = self.lock();
        debug_assert!(state.ready.is_none(), "one spare exists at a time");
        state.ready = Some(made);
        state.awaited = false;
        self.changed.notify_all();
        true
    }

    /// Waits until the schedule asks for more than `written` bytes of the spare. The schedule asks
    /// for all bytes when `until` is over.
    fn keep_pace(&self, until: WaitDeadline, written: u64) {
        assert!(written <= self.bytes, "{written} bytes of a spare of {}", self.bytes);
        let rest = PACED_TIME.mul_f64((self.bytes - written) as f64 / self.bytes as f64);
        let mut state = self.lock();
        while self.background == Background::Threads && !(state.stopping || state.awaited) {
            let early = until.left().saturating_sub(rest);
            let appended = self.counters.bytes().wrapping_sub(state.appended);
            if early.is_zero() || written < appended.saturating_mul(LEAD) {
                return;
            }
            let waited = self.changed.wait_timeout(state, early.min(LOOK_INTERVAL));
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Ends the background thread.
    pub(crate) fn stop(&self) {
        self.lock().stopping = true;
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, PrepareState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PrepareState {
    fn is_called_for(&self) -> bool {
        self.wanted && self.ready.is_none()
    }
}

/// Makes a file of zeros and maps it.
fn prepare(
    directory: &Directory,
    name: &str,
    bytes: u64,
    fill: Fill,
    go_on: &mut FillCallback<'_>,
) -> Result<PreparedSegment> {
    let file = directory.create_segment(name, bytes, fill, go_on)?;
    let appender = file.map(bytes, 0)?;
    assert_eq!(appender.len() as u64, bytes, "the whole file is mapped");
    if fill != Fill::Written {
        appender.view().populate(0..appender.len());
    }
    Ok(PreparedSegment { file, appender, bytes, name: name.to_owned(), fill })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::Arc;

    use super::*;
    use crate::identity::Identity;
    use crate::storage::Disk;
    use crate::time::clock::SystemClock;

    const SPARE: &str = "spare-00";

    /// Ends the background thread however a test ends.
    struct Stopping<'p>(&'p Preparer);

    impl Drop for Stopping<'_> {
        fn drop(&mut self) {
            self.0.stop();
        }
    }

    fn preparer(directory: &Directory, durability: Durability) -> Preparer {
        let identity = Identity { database: 1, shard: 0 };
        let counters = Counters::open(directory, identity, Arc::new(SystemClock)).unwrap();
        Preparer::new(SPARE.to_owned(), 4096, durability, Background::Threads, Arc::new(counters))
    }

    /// Runs the background thread while `test` runs.
    fn check(test: impl FnOnce(&Preparer, &Directory)) {
        let path = tempfile::tempdir().unwrap();
        let directory = Directory::open(Arc::new(Disk), path.path()).unwrap();
        let preparer = preparer(&directory, Durability::Os);
        std::thread::scope(|scope| {
            scope.spawn(|| preparer.run(&directory));
            let _stopping = Stopping(&preparer);
            test(&preparer, &directory);
        });
    }

    /// Waits until the spare that was begun is ready, or has failed.
    fn await_ready(preparer: &Preparer) {
        drop(preparer.changed.wait_while(preparer.lock(), |state| state.ready.is_none()).unwrap());
    }

    #[test]
    fn a_spare_keeps_its_name_to_itself_until_the_next_is_begun() {
        check(|preparer, directory| {
            for round in 0..3 {
                preparer.begin(Timestamp::ZERO);
                await_ready(preparer);
                // A caller that waits while the spare is being made requests it again, too.
                preparer.begin(Timestamp::ZERO);
                let prepared = preparer.take(directory).unwrap();
                assert_eq!(prepared.bytes, 4096);
                let state = preparer.lock();
                assert!(!state.wanted && state.ready.is_none(), "the name is taken in round {round}");
                drop(state);
                directory.rename(SPARE, &round.to_string()).unwrap();
            }
        });
    }

    #[test]
    fn a_spare_that_could_not_be_made_is_an_error_of_that_moment() {
        check(|preparer, directory| {
            // The preparer can't remove a directory as it removes a file.
            fs::create_dir(directory.path_of(SPARE)).unwrap();
            preparer.begin(Timestamp::ZERO);
            await_ready(preparer);
            assert!(preparer.take(directory).is_err());
            assert!(preparer.take(directory).is_err());
            fs::remove_dir(directory.path_of(SPARE)).unwrap();
            assert!(preparer.take(directory).is_ok());
        });
    }

    #[test]
    fn a_log_gets_huge_pages_while_it_is_fast_enough_for_them() {
        check(|preparer, directory| {
            let slowest = Timestamp::from_micros(4096 * 1_000_000 / HUGE_BYTES_PER_S);
            let mut now = Timestamp::ZERO;
            let mut next = |after: Timestamp| {
                now = now.plus_micros(after.as_micros());
                preparer.begin(now);
                let prepared = preparer.take(directory).unwrap();
                directory.remove(SPARE).unwrap();
                prepared.fill
            };
            assert_eq!(next(slowest), Fill::Small, "nothing is known yet");
            assert_eq!(next(slowest), Fill::Huge);
            assert_eq!(next(slowest.plus_micros(1)), Fill::Small);
            assert_eq!(next(Timestamp::ZERO), Fill::Huge);
        });
    }

    #[test]
    fn nobody_waits_for_a_spare_of_a_log_that_closes() {
        let path = tempfile::tempdir().unwrap();
        let directory = Directory::open(Arc::new(Disk), path.path()).unwrap();
        let preparer = preparer(&directory, Durability::Os);
        preparer.stop();
        assert!(matches!(preparer.take(&directory), Err(Error::Failed { .. })));
        // The preparer does not finish a spare that was begun, either.
        preparer.begin(Timestamp::ZERO);
        assert!(preparer.step(&directory));
        assert!(!directory.names().unwrap().contains(&SPARE.to_owned()));
        assert!(matches!(preparer.take(&directory), Err(Error::Failed { .. })));
    }

    #[test]
    fn a_spare_is_not_taken_time_for_that_is_needed_soon_nor_of_a_log_that_closes() {
        let path = tempfile::tempdir().unwrap();
        let directory = Directory::open(Arc::new(Disk), path.path()).unwrap();
        let preparer = preparer(&directory, Durability::Sync);
        let for_long = || preparer.keep_pace(WaitDeadline::after(Duration::MAX), 1000);
        // No wait once the segment in use is more than half as full as the spare.
        preparer.begin(Timestamp::ZERO);
        preparer.counters.append(1, 501, None);
        for_long();
        preparer.begin(Timestamp::ZERO);
        std::thread::scope(|scope| {
            let pausing = scope.spawn(for_long);
            preparer.counters.append(1, 501, None);
            pausing.join().unwrap();
        });
        // No wait while a caller waits.
        preparer.begin(Timestamp::ZERO);
        std::thread::scope(|scope| {
            let pausing = scope.spawn(for_long);
            let waiting = scope.spawn(|| preparer.take(&directory).map(drop));
            pausing.join().unwrap();
            assert!(preparer.step(&directory));
            waiting.join().unwrap().unwrap();
        });
        // No caller waits any longer.
        assert!(!preparer.lock().awaited);
        std::thread::scope(|scope| {
            scope.spawn(for_long);
            preparer.stop();
        });
    }
}
