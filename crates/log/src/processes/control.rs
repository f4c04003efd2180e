//! The control file: a mapping shared by all openings of the log. It holds the end of the log, the
//! turn to append, the openings, and their listening threads.
//!
//! Important numbers are sealed: 48 bits of number and 16 bits of checksum in one word. One atomic
//! store changes both, and a damaged word is detected. The layout is drawn in
//! `docs/file-format.md`.

use std::sync::Arc;
use std::time::Duration;

use quire_mapped::SharedWords;
use quire_model::Position;
use quire_threads::{AtomicU64, Ordering};

use crate::error::{Error, Result};
use crate::identity::Identity;
use crate::processes::seat::{SEATS, Seat};
use crate::processes::{turn, wakeups};
use crate::settings::{Durability, Publisher, Settings};
use crate::storage::StoredFile;
use crate::storage::directory::{Directory, LockedFile};

const WORDS: usize = 512;
/// The file's name.
pub(crate) const NAME: &str = "control";
/// The lock file held while the log is opened.
const OPENING: &str = "opening";
const MAGIC: u64 = u64::from_le_bytes(*b"QUIRECTL");
const VERSION: u64 = 3;

const DATABASE: usize = 2;
const SHARD: usize = 4;
const DURABILITY: usize = 5;
// Words that change often are on separate cache lines.
const TAIL: usize = 8;
const DURABLE: usize = 16;
pub(crate) const TURN: usize = 24;
const ACTIVE: usize = 25;
const FAILED: usize = 26;
const OPENINGS: usize = 27;
/// See `compaction/round.rs`: the number of the round, followed by the requested range.
pub(crate) const COMPACTION_ROUND: usize = 28;
pub(crate) const COMPACTION_FIRST: usize = 29;
const ATTACHED: usize = 48;
/// The last record that the owner of the log published. The word is 0, which is no sealed number,
/// when the log publishes by itself.
const PUBLISHED: usize = 56;
pub(crate) const PROCESSES: usize = 64;
/// For each seat, the last round of a compaction for which it holds the segments.
pub(crate) const HELD: usize = 128;
// The layout: frequently changed words on separate cache lines of 8 words, and a word per seat.
const _: () = {
    assert!(DURABILITY < TAIL && TAIL / 8 < DURABLE / 8 && DURABLE / 8 < TURN / 8);
    assert!(COMPACTION_ROUND < COMPACTION_FIRST && COMPACTION_FIRST + 1 < wakeups::LISTENING);
    assert!(wakeups::LISTENING / 8 < wakeups::PUBLICATIONS / 8 && wakeups::ASLEEP / 8 < wakeups::PUBLICATIONS / 8);
    assert!(wakeups::PUBLICATIONS / 8 < ATTACHED / 8 && ATTACHED / 8 < PUBLISHED / 8 && PUBLISHED < PROCESSES);
    assert!(PROCESSES + SEATS as usize <= HELD && HELD + SEATS as usize <= wakeups::ALARMS);
    assert!(wakeups::ALARMS + SEATS as usize <= WORDS);
};

/// The mapped control file, and the seat of this opening.
#[derive(Debug)]
pub(crate) struct Control {
    words: SharedWords,
    file: Arc<dyn StoredFile>,
    seat: Seat,
    /// The number of this opening, counted from the last opening by a process alone.
    opening: u64,
    /// How often in a row waiters lost the turn to this opening; see [`turn`].
    lost_turns: AtomicU64,
    /// The lock that shows other processes that the log is open, independent of the files in the
    /// directory.
    _open: LockedFile,
}

/// The content of the control file when the log was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct ControlValues {
    /// The last appended record, when known.
    pub(crate) tail: Option<Position>,
    /// The last synced record, when known.
    pub(crate) durable: Option<Position>,
    /// The last record that the owner of the log published; `None` when the log published by
    /// itself.
    pub(crate) published: Option<Position>,
}

impl ControlValues {
    /// Returns the known positions, limited to the record that the owner had published.
    pub(crate) fn up_to_published(self) -> Self {
        let Some(published) = self.published else { return self };
        let up_to = |position: Option<Position>| position.map(|position| position.min(published));
        ControlValues { tail: up_to(self.tail), durable: up_to(self.durable), ..self }
    }

    /// Returns the number of records that the last run appended from this position on, when known
    /// and not zero.
    pub(crate) fn appended_from(self, position: Position) -> Option<u64> {
        let tail = self.tail.filter(|tail| *tail >= position)?;
        Some(tail.get() - position.get() + 1)
    }
}

/// The lock held while the log is opened. Only one opening has it at a time.
#[derive(Debug)]
pub(crate) struct OpeningLock {
    _locked: LockedFile,
}

/// An opened control file, while the opening lock is held.
#[derive(Debug)]
pub(crate) struct OpenedControl {
    pub(crate) control: Control,
    pub(crate) known: ControlValues,
    /// The durability of the settings, or of the other openings.
    pub(crate) durability: Durability,
    /// Whether no other opening exists. The log must then be recovered.
    pub(crate) alone: bool,
    /// Dropped when the log is open.
    pub(crate) opening_lock: OpeningLock,
}

impl Control {
    /// Opens the control file and takes a seat. Returns the known positions and whether this is the
    /// only opening.
    ///
    /// # Errors
    /// [`Error::InUse`] when every seat is taken, or when the control file of other openings is
    /// missing. [`Error::Settings`] when other openings have another durability.
    /// [`Error::NewerFormat`].
    pub(crate) fn open(directory: &Directory, identity: Identity, settings: &Settings) -> Result<OpenedControl> {
        let opening_lock = OpeningLock { _locked: directory.lock_file_in_turn(OPENING)? };
        let in_use = |process| Error::InUse { directory: directory.path().to_owned(), process };
        let mut locked = directory.lock_open(settings.exclusive)?;
        if !locked.as_ref().is_some_and(|(_, alone)| *alone) && is_unrecovered(directory) {
            // The recovering process has released the opening lock, so it has died. Only its lock
            // on the directory remains for a moment. No process may join an unrecovered log.
            drop(locked.take());
            locked = Some((directory.lock_open_in_turn(settings.exclusive)?, true));
        }
        let Some((open, alone)) = locked else {
            return Err(in_use(process_of(directory)));
        };
        if !alone && !directory.names()?.iter().any(|name| name == NAME) {
            return Err(in_use(None));
        }
        let (file, words) = directory.words(NAME, WORDS, WORDS)?;
        let seat = Seat::take(directory)?;
        let mut control = Control { words, file, seat, opening: 0, lost_turns: AtomicU64::new(0), _open: open };
        let word = |index: usize| control.words.word(index).load(Ordering::Acquire);
        if let (MAGIC, Some(version)) = (word(0), unseal(word(1)).filter(|version| *version > VERSION)) {
            let version = u32::try_from(version).unwrap_or(u32::MAX);
            return Err(Error::NewerFormat { path: directory.path_of(NAME), version, supported: VERSION as u32 });
        }
        let expected =
            [MAGIC, seal(VERSION), identity.database as u64, (identity.database >> 64) as u64, identity.shard.into()];
        debug_assert_eq!((DATABASE, SHARD), (2, expected.len() - 1));
        let own = (0..expected.len()).all(|index| word(index) == expected[index]);
        let mut durability = settings.durability;
        let mut known = ControlValues::default();
        if own {
            known = ControlValues {
                tail: unseal(word(TAIL)).map(Position::new),
                durable: unseal(word(DURABLE)).map(Position::new),
                published: unseal(word(PUBLISHED)).map(Position::new),
            };
        }
        if alone {
            for index in (DURABILITY..TAIL).chain(TURN..PUBLISHED).chain(PUBLISHED + 1..WORDS) {
                control.word(index).store(0, Ordering::Relaxed);
            }
            let published = match settings.publisher {
                Publisher::Log => 0,
                // Until the opening is complete, readers of the files see the earlier published
                // position.
                Publisher::Owner => seal(known.published.unwrap_or_default().get()),
            };
            control.word(PUBLISHED).store(published, Ordering::Release);
            for (index, value) in expected.into_iter().enumerate() {
                control.word(index).store(value, Ordering::Release);
            }
        } else if !own || known.tail.is_none() {
            return Err(in_use(None));
        } else if settings.adopts_durability {
            durability = if word(DURABILITY) == mode(Durability::Os) { Durability::Os } else { Durability::Sync };
        } else if word(DURABILITY) != mode(durability) {
            let own = settings.durability;
            let theirs = if own == Durability::Os { Durability::Sync } else { Durability::Os };
            let problem = match process_of(directory) {
                Some(process) => format!(
                    "durability {own} conflicts with durability {theirs} of process {process}, which has the log open; use {theirs}, or stop that process first"
                ),
                None => format!(
                    "durability {own} conflicts with durability {theirs} of the processes that have the log open; use {theirs}"
                ),
            };
            return Err(Error::Settings { problems: vec![problem] });
        }
        control.use_seat(directory);
        Ok(OpenedControl { control, known, durability, alone, opening_lock })
    }

    /// Allows other processes to join, after recovery. The caller is the only opening and holds the
    /// opening lock.
    pub(crate) fn allow_joining(&self, durability: Durability) {
        self.word(DURABILITY).store(mode(durability), Ordering::Release);
    }

    /// Begins to use the seat.
    fn use_seat(&mut self, directory: &Directory) {
        self.opening = self.word(OPENINGS).fetch_add(1, Ordering::AcqRel) + 1;
        turn::disown(self);
        // A dead process may have left these words of the seat.
        self.end_wakeups();
        self.word(HELD + self.seat() as usize).store(0, Ordering::Release);
        self.word(PROCESSES + self.seat() as usize).store(directory.process_id().into(), Ordering::Release);
        self.count_attached(directory);
        // A process that was alone notices the new opening.
        self.wake_listeners();
    }

    /// Takes the opening lock, which blocks other openings. Dead processes are no longer counted
    /// from here on.
    pub(crate) fn lock_opening(&self, directory: &Directory) -> Result<OpeningLock> {
        let opening_lock = OpeningLock { _locked: directory.lock_file_in_turn(OPENING)? };
        self.count_attached(directory);
        Ok(opening_lock)
    }

    /// Returns the seats of the other openings, as far as known.
    pub(crate) fn others(&self) -> impl Iterator<Item = u32> {
        let attached = self.word(ATTACHED).load(Ordering::SeqCst) & !self.bit();
        (0..SEATS).filter(move |seat| attached & (1 << seat) != 0)
    }

    /// Returns the seat number of this opening.
    pub(crate) fn seat(&self) -> u32 {
        self.seat.number()
    }

    /// Returns the number of this opening. Successive openings have different numbers.
    pub(crate) fn opening(&self) -> u64 {
        self.opening
    }

    /// How often in a row waiters lost the turn to this opening. Changed by the holder of the turn.
    #[inline]
    pub(crate) fn lost_turns(&self) -> &AtomicU64 {
        &self.lost_turns
    }

    /// Returns the last record appended by any process. Its bytes, and those of all earlier
    /// records, are in place.
    pub(crate) fn tail(&self) -> Position {
        // The writer sealed the word. A word damaged while the log is open cannot be restored.
        Position::new(
            unseal(self.word(TAIL).load(Ordering::Acquire)).expect("the tail in the control file has a valid checksum"),
        )
    }

    /// Whether `position` is the last record appended by any process.
    #[inline]
    pub(crate) fn tail_is(&self, position: Position) -> bool {
        // The caller verifies the tail when it differs.
        number(self.word(TAIL).load(Ordering::Acquire)) == position.get()
    }

    /// Stores the last appended record.
    #[inline]
    pub(crate) fn set_tail(&self, position: Position) {
        self.word(TAIL).store(seal(position.get()), Ordering::Release);
    }

    /// Returns the last record synced by any process, when known.
    pub(crate) fn durable(&self) -> Option<Position> {
        unseal(self.word(DURABLE).load(Ordering::Acquire)).map(Position::new)
    }

    /// Stores the last synced record, unless a later one is stored.
    pub(crate) fn raise_durable(&self, position: Position) {
        let word = self.word(DURABLE);
        let _ = word.fetch_update(Ordering::AcqRel, Ordering::Acquire, |seen| {
            let known = unseal(seen).is_some_and(|known| known >= position.get());
            (!known).then(|| seal(position.get()))
        });
    }

    /// Stores the last synced record unconditionally.
    pub(crate) fn set_durable(&self, position: Position) {
        self.word(DURABLE).store(seal(position.get()), Ordering::Release);
    }

    /// Stores the last record that the owner published. Only one thread at a time may call this.
    pub(crate) fn set_published(&self, position: Position) {
        self.word(PUBLISHED).store(seal(position.get()), Ordering::Release);
    }

    /// Lowers the last appended and the last synced record to `kept`, and makes the change durable.
    /// An opening then accepts a log that ends there.
    pub(crate) fn truncate(&self, kept: Position) -> std::io::Result<()> {
        let lower = |word: usize| {
            let _ = self.word(word).fetch_update(Ordering::AcqRel, Ordering::Acquire, |seen| {
                unseal(seen).is_none_or(|known| known > kept.get()).then(|| seal(kept.get()))
            });
        };
        // The durable mark first: it is never above the tail.
        lower(DURABLE);
        lower(TAIL);
        self.sync()
    }

    /// Whether the active segment begins at this position. The caller holds the turn.
    #[inline]
    pub(crate) fn active_is(&self, first: Position) -> bool {
        number(self.word(ACTIVE).load(Ordering::Relaxed)) == first.get()
    }

    pub(crate) fn set_active(&self, first: Position) {
        self.word(ACTIVE).store(seal(first.get()), Ordering::Relaxed);
    }

    /// Whether any process had a failure that ends all appends.
    pub(crate) fn has_failed(&self) -> bool {
        self.word(FAILED).load(Ordering::Acquire) != 0
    }

    /// Checks that no process had such a failure.
    #[inline]
    pub(crate) fn check(&self) -> Result<()> {
        if self.has_failed() { Err(failed_elsewhere()) } else { Ok(()) }
    }

    pub(crate) fn set_failed(&self) {
        self.word(FAILED).store(1, Ordering::Release);
    }

    /// Whether other processes may have the log open. A dead process is counted until the next
    /// opening.
    pub(crate) fn has_other_processes(&self) -> bool {
        self.word(ATTACHED).load(Ordering::SeqCst) & !self.bit() != 0
    }

    /// Makes the stored words durable. Only the distinction between damage and a torn tail depends
    /// on it.
    pub(crate) fn sync(&self) -> std::io::Result<()> {
        self.file.sync_data()
    }

    pub(crate) fn word(&self, index: usize) -> &AtomicU64 {
        debug_assert!(index < WORDS, "word {index} of {WORDS}");
        self.words.word(index)
    }

    /// Sleeps on a word until a wake-up, for at most `at_most`, unless the word already differs
    /// from `seen`.
    pub(crate) fn sleep_on(&self, index: usize, seen: u64, at_most: Duration) {
        self.words.wait(index, seen as u32, Some(at_most));
    }

    pub(crate) fn wake(&self, index: usize, count: u32) {
        self.words.wake(index, count);
    }

    pub(crate) fn bit(&self) -> u64 {
        debug_assert!(self.seat() < SEATS, "seat {} of {SEATS}", self.seat());
        1 << self.seat()
    }

    /// Stores which seats are taken. The caller holds the opening lock.
    fn count_attached(&self, directory: &Directory) {
        let others =
            (0..SEATS).filter(|seat| *seat != self.seat() && crate::processes::seat::is_taken(directory, *seat));
        let attached = others.fold(self.bit(), |bits, seat| bits | 1 << seat);
        assert_ne!(attached & self.bit(), 0, "this opening counts itself");
        self.word(ATTACHED).store(attached, Ordering::SeqCst);
        self.keep_wakeups_of(attached);
    }
}

#[cfg(all(test, loom))]
impl Control {
    /// Creates a control file whose words a model checker explores.
    pub(crate) fn explored(words: SharedWords, directory: &Directory) -> Self {
        let (open, _) = directory.lock_open(false).unwrap().unwrap();
        let (file, seat) = (directory.handle(), Seat::take(directory).unwrap());
        let mut control = Control { words, file, seat, opening: 0, lost_turns: AtomicU64::new(0), _open: open };
        control.use_seat(directory);
        control
    }

    /// Returns the words used by `seats` seats.
    pub(crate) fn explored_words(seats: usize) -> impl Iterator<Item = usize> {
        let of_seats = [PROCESSES, HELD, wakeups::ALARMS].into_iter().flat_map(move |at| at..at + seats);
        let wakeups = [wakeups::LISTENING, wakeups::ASLEEP, wakeups::PUBLICATIONS];
        let own = [TAIL, DURABLE, TURN, ACTIVE, FAILED, OPENINGS, ATTACHED, PUBLISHED];
        let compaction = [COMPACTION_ROUND, COMPACTION_FIRST, COMPACTION_FIRST + 1];
        own.into_iter().chain(wakeups).chain(compaction).chain(of_seats)
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        self.word(PROCESSES + self.seat() as usize).store(0, Ordering::Release);
        self.word(ATTACHED).fetch_and(!self.bit(), Ordering::SeqCst);
        self.end_wakeups();
    }
}

#[cold]
fn failed_elsewhere() -> Error {
    Error::Failed { message: "another process could not write or sync; see the error of that process".to_owned() }
}

/// Encodes a durability for the control file.
fn mode(durability: Durability) -> u64 {
    match durability {
        Durability::Os => seal(0),
        Durability::Sync => seal(1),
    }
}

/// Whether a recovery of the log was interrupted. The caller holds the opening lock.
fn is_unrecovered(directory: &Directory) -> bool {
    let head = directory.read_head(NAME, (DURABILITY + 1) * 8).unwrap_or_default();
    let word = |index: usize| head.as_chunks::<8>().0.get(index).map(|word| u64::from_le_bytes(*word));
    (word(0), word(DURABILITY)) == (Some(MAGIC), Some(0))
}

/// Returns the id of a process that has the log open, when known.
fn process_of(directory: &Directory) -> Option<u64> {
    let bytes = directory.read_head(NAME, WORDS * 8).ok()?;
    let processes = bytes.get(PROCESSES * 8..)?.as_chunks::<8>().0.iter().take(SEATS as usize);
    processes.map(|word| u64::from_le_bytes(*word)).find(|process| *process != 0)
}

/// Reads the control file of a log without opening, locking or changing it. Returns `None` when the
/// log has no valid control file.
pub(crate) fn peek(directory: &Directory, identity: Identity) -> Option<ControlValues> {
    let bytes = directory.read_head(NAME, (PUBLISHED + 1) * 8).ok()?;
    let word = |index: usize| bytes.get(index * 8..)?.first_chunk::<8>().map(|word| u64::from_le_bytes(*word));
    let expected = [identity.database as u64, (identity.database >> 64) as u64, identity.shard.into()];
    // Opening rebuilds a control file of an older or invalid version, but not of a newer version.
    let own = word(0)? == MAGIC
        && unseal(word(1)?).is_some_and(|version| version >= VERSION)
        && (DATABASE..=SHARD).zip(expected).all(|(index, value)| word(index) == Some(value));
    let number = |index: usize| word(index).and_then(unseal).map(Position::new);
    own.then(|| ControlValues { tail: number(TAIL), durable: number(DURABLE), published: number(PUBLISHED) })
}

/// The finalizer of MurmurHash3 (fmix64, by Austin Appleby), whose lowest 16 bits are the checksum.
/// It takes a nanosecond, and every append seals a number.
fn check(number: u64) -> u64 {
    // Salted, so that a zero word of a new file is not a sealed number.
    let mut hash = number ^ u64::from_le_bytes(*b"QUIRECTL");
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    (hash ^ (hash >> 33)) << 48
}

fn seal(number: u64) -> u64 {
    assert!(number < 1 << 48, "a sealed number has 48 bits");
    number | check(number)
}

fn unseal(word: u64) -> Option<u64> {
    let number = number(word);
    (word == number | check(number)).then_some(number)
}

/// Returns the number in a sealed word without verification.
fn number(word: u64) -> u64 {
    word & ((1 << 48) - 1)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;
    use std::{fs, thread};

    use super::*;
    use crate::storage::Disk;

    #[test]
    fn an_opening_after_an_interrupted_recovery_waits_for_the_locks_and_recovers() {
        let place = tempfile::tempdir().unwrap();
        let directory = || Directory::open(Arc::new(Disk), place.path()).unwrap();
        let open = |exclusive| {
            let identity = Identity { database: 7, shard: 0 };
            Control::open(&directory(), identity, &Settings { exclusive, ..Settings::default() }).unwrap()
        };
        let inode = format!(":{} ", fs::metadata(place.path()).unwrap().ino());
        let somebody_waits = || {
            let locks = fs::read_to_string("/proc/locks").unwrap();
            locks.lines().any(|line| line.contains("-> FLOCK") && line.contains(&inode))
        };
        for exclusive in [false, true] {
            let OpenedControl { control, alone, opening_lock, .. } = open(false);
            assert!(alone);
            // The process dies: the kernel releases its locks in any order.
            drop(opening_lock);
            thread::scope(|scope| {
                let next = scope.spawn(|| open(exclusive));
                while !next.is_finished() && !somebody_waits() {
                    thread::yield_now();
                }
                assert!(!next.is_finished(), "it joined an unrecovered log");
                drop(control);
                assert!(next.join().unwrap().alone);
            });
        }
        let OpenedControl { control, alone, opening_lock, .. } = open(false);
        assert!(alone);
        control.set_tail(Position::ZERO);
        control.allow_joining(Durability::default());
        drop(opening_lock);
        assert!(!open(false).alone, "a recovered log is joined");
    }

    #[test]
    fn a_sealed_word_with_a_flipped_bit_is_invalid() {
        for number in [0, 1, 77, 48_213, (1 << 48) - 1] {
            let sealed = seal(number);
            assert_eq!(unseal(sealed), Some(number));
            for bit in 0..64 {
                assert_eq!(unseal(sealed ^ (1 << bit)), None, "bit {bit} of {number}");
            }
        }
    }
}
