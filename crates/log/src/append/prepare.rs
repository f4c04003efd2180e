//! The next segment, made ready before it is needed.
//!
//! Filling a file with zeros and syncing it takes milliseconds; a thread of its own does it while the segment before is
//! being written. A full disk shows here, as a clear error of the append that needed the segment, and the next append
//! tries again.
//!
//! A log without threads makes it when it is needed, or when [`Preparer::step`] is called.
//!
//! In an `os` log its pages are made ready to be written to as well, so that no append waits for the kernel.
//!
//! In a `sync` log it is written a little at a time, for commits wait behind what the disk has to write ([`PIECE_BYTES`]), and over a while:
//! faster where the segment in use fills faster, and at once when somebody waits for it.
//!
//! There is one spare at a time. It is made under a name that must be free, so that a file which somebody has mapped is never
//! truncated.

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
use crate::storage::directory::{Directory, Fill, GoOn, SegmentFile};
use crate::storage::{PIECE_BYTES, StoredFile};
use crate::time::deadline::Deadline;

/// For so long a spare is written, where that is soon enough.
const PACED_TIME: Duration = Duration::from_secs(1);

/// It is soon enough while of the spare there is this many times what of the segment in use is full. How full that is, is looked at so often.
const LEAD: u64 = 2;
const LOOK_INTERVAL: Duration = Duration::from_millis(5);

/// From so many bytes a second on, an `os` log is filled in pieces of huge pages: what a background sync writes is then at
/// most about twice what was appended since the one before, at the interval it has unless it is set.
const HUGE_BYTES_PER_S: u64 = 16 << 20;

/// Why nothing more is made ready.
const CLOSING: &str = "the log is being closed";

/// The name under which a segment of this seat waits for its records.
pub(crate) fn spare_name(seat: u32) -> String {
    format!("spare-{seat:02}")
}

/// The seat whose spare has this name.
fn seat_of(name: &str) -> Option<u32> {
    name.strip_prefix("spare-")?.parse().ok()
}

/// Removes the spares of those who died, but for `own`, whose seat is one's own: they take the room of a segment each. One that can't be
/// removed is left, for it is no part of the log.
pub(crate) fn remove_left(directory: &Directory, own: &str) -> Result<()> {
    for name in directory.names()?.iter().filter(|name| *name != own) {
        // While the seat is held here nobody else takes it, whose spare this would be.
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
pub(crate) struct Prepared {
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
    /// They count what is appended, by anyone.
    counters: Arc<Counters>,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    wanted: bool,
    /// When the segment before was begun.
    begun: Option<Timestamp>,
    /// Whether the last one was filled fast enough for huge pages.
    huge: bool,
    /// How many bytes had been appended when the segment before was begun.
    appended: u64,
    ready: Option<Result<Prepared>>,
    /// Whether somebody waits for it.
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
        Preparer { name, bytes, durability, background, counters, state: Mutex::default(), changed: Condvar::new() }
    }

    /// The next segment; waits when it is not ready yet. The one after it may be begun once this one has a name of its own.
    ///
    /// # Errors
    /// [`Error::NoSpace`] and [`Error::Io`] of making it.
    pub(crate) fn take(&self, directory: &Directory) -> Result<Prepared> {
        let mut state = self.made(directory)?;
        // What was wanted is there. Another is not begun before `begin`: it would take the name of this one.
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

    /// Waits until the next segment is ready, and leaves it so.
    fn made(&self, directory: &Directory) -> Result<MutexGuard<'_, State>> {
        let mut state = self.lock();
        // What went wrong while nobody waited may have passed: it is tried again, and that outcome counts.
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

    /// Has the segment made that follows one which begins now, without waiting for it.
    pub(crate) fn begin(&self, now: Timestamp) {
        let mut state = self.lock();
        if let Some(begun) = state.begun.replace(now) {
            let micros = now.as_micros().saturating_sub(begun.as_micros());
            state.huge = self.bytes.saturating_mul(1_000_000) >= micros.saturating_mul(HUGE_BYTES_PER_S);
        }
        state.appended = self.counters.bytes();
        self.want(&mut state);
    }

    /// Makes the first segment of a log, before there is a thread that would.
    pub(crate) fn make_first(&self, directory: &Directory) -> Result<()> {
        let fill = self.fill(&self.lock());
        let first = prepare(directory, &self.name, self.bytes, fill, &mut |_, _| Ok(()))?;
        self.lock().ready = Some(Ok(first));
        Ok(())
    }

    fn fill(&self, state: &State) -> Fill {
        match self.durability {
            Durability::Sync => Fill::Written,
            Durability::Os if state.huge => Fill::Huge,
            Durability::Os => Fill::Small,
        }
    }

    fn want(&self, state: &mut State) {
        state.wanted = true;
        self.changed.notify_all();
    }

    /// The background thread.
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

    /// Makes a segment if one is called for; says whether it was.
    pub(crate) fn step(&self, directory: &Directory) -> bool {
        let mut state = self.lock();
        if !state.is_called_for() {
            return false;
        }
        state.wanted = false;
        let fill = self.fill(&state);
        drop(state);
        // What others left behind may be the room that this one needs.
        let _ = remove_left(directory, &self.name);
        let until = Deadline::after(PACED_TIME);
        let mut out = 0;
        let mut go_on = |file: &dyn StoredFile, written: u64| {
            if self.lock().stopping {
                return Err(io::Error::other(CLOSING));
            }
            if self.durability == Durability::Sync && written - out >= PIECE_BYTES {
                file.write_out(out, written - out)?;
                out = written;
                self.keep_pace(until, written);
            }
            Ok(())
        };
        let made = prepare(directory, &self.name, self.bytes, fill, &mut go_on);
        let mut state = self.lock();
        state.ready = Some(made);
        state.awaited = false;
        self.changed.notify_all();
        true
    }

    /// Waits until more than so many bytes of the spare are to be written, of which all are when `until` is over.
    fn keep_pace(&self, until: Deadline, written: u64) {
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

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn is_called_for(&self) -> bool {
        self.wanted && self.ready.is_none()
    }
}

/// Makes a segment ready.
fn prepare(directory: &Directory, name: &str, bytes: u64, fill: Fill, go_on: &mut GoOn<'_>) -> Result<Prepared> {
    let file = directory.create_segment(name, bytes, fill, go_on)?;
    let appender = file.map(bytes, 0)?;
    if fill != Fill::Written {
        appender.view().populate(0..appender.len());
    }
    Ok(Prepared { file, appender, bytes, name: name.to_owned(), fill })
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

    /// Runs the background thread for as long as `test` does.
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

    /// Waits until the spare that was begun is there, or could not be made.
    fn await_ready(preparer: &Preparer) {
        drop(preparer.changed.wait_while(preparer.lock(), |state| state.ready.is_none()).unwrap());
    }

    #[test]
    fn a_spare_keeps_its_name_to_itself_until_the_next_is_begun() {
        check(|preparer, directory| {
            for round in 0..3 {
                preparer.begin(Timestamp::ZERO);
                await_ready(preparer);
                // As when somebody waits while it is being made.
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
            // What is in the way can't be removed as a file is.
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
        // Nor is one finished that was begun.
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
        let for_long = || preparer.keep_pace(Deadline::after(Duration::MAX), 1000);
        // Not while of the segment in use half as much is full.
        preparer.begin(Timestamp::ZERO);
        preparer.counters.append(1, 501, None);
        for_long();
        preparer.begin(Timestamp::ZERO);
        std::thread::scope(|scope| {
            let pausing = scope.spawn(for_long);
            preparer.counters.append(1, 501, None);
            pausing.join().unwrap();
        });
        // Nor while somebody waits.
        preparer.begin(Timestamp::ZERO);
        std::thread::scope(|scope| {
            let pausing = scope.spawn(for_long);
            let waiting = scope.spawn(|| preparer.take(&directory).map(drop));
            pausing.join().unwrap();
            assert!(preparer.step(&directory));
            waiting.join().unwrap().unwrap();
        });
        // Nobody waits any more.
        assert!(!preparer.lock().awaited);
        std::thread::scope(|scope| {
            scope.spawn(for_long);
            preparer.stop();
        });
    }
}
