//! The control file: a mapping that everyone who has the log open shares. It says how far the log reaches, whose turn it is to
//! append, who has the log open, and who listens.
//!
//! Numbers that count are sealed: 48 bits of number and 16 bits of checksum in one word, so that a single atomic store
//! changes both and a damaged word is noticed. The layout is drawn in `docs/file-format.md`.

use std::sync::Arc;
use std::time::Duration;

use quire_mapped::SharedWords;
use quire_model::Position;
use quire_threads::{AtomicU64, Ordering};

use crate::error::{Error, Result};
use crate::identity::Identity;
use crate::processes::seat::{SEATS, Seat};
use crate::processes::turn;
use crate::settings::{Durability, Publisher, Settings};
use crate::storage::StoredFile;
use crate::storage::directory::{Directory, LockedFile};

const WORDS: usize = 512;
/// The file's name.
pub(crate) const NAME: &str = "control";
/// Locked by whoever opens the log, for as long as that takes.
const DOOR: &str = "opening";
const MAGIC: u64 = u64::from_le_bytes(*b"QUIRECTL");
const VERSION: u64 = 3;

const DATABASE: usize = 2;
const SHARD: usize = 4;
const DURABILITY: usize = 5;
// What changes often stands on a cache line of its own.
const TAIL: usize = 8;
const DURABLE: usize = 16;
pub(crate) const TURN: usize = 24;
const ACTIVE: usize = 25;
const FAILED: usize = 26;
const OPENINGS: usize = 27;
/// See `compaction/round.rs`: the number of the round, and behind it the range that is asked for.
pub(crate) const COMPACTION_ROUND: usize = 28;
pub(crate) const COMPACTION_FIRST: usize = 29;
const ATTACHED: usize = 48;
/// The last record that the owner of the log published; 0, which is no sealed number, where the log publishes by itself.
const PUBLISHED: usize = 56;
pub(crate) const PROCESSES: usize = 64;
/// For each seat, the last round of a compaction for which it holds what was asked for.
pub(crate) const HELD: usize = 128;

/// The mapped control file, and the seat of this opening.
#[derive(Debug)]
pub(crate) struct Control {
    words: SharedWords,
    file: Arc<dyn StoredFile>,
    seat: Seat,
    /// Which opening of the log this is, counted from the last one that was alone.
    opening: u64,
    /// Tells whoever opens the log that it is open, whatever becomes of the files in the directory.
    _open: LockedFile,
}

/// What the control file said when the log was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Known {
    /// The last record that was appended, when it is known.
    pub(crate) tail: Option<Position>,
    /// The last record that was synced, when it is known.
    pub(crate) durable: Option<Position>,
    /// The last record that the owner of the log published; `None` where the log published by itself.
    pub(crate) published: Option<Position>,
}

impl Known {
    /// What is known of the log up to the record that its owner had published.
    pub(crate) fn up_to_published(self) -> Self {
        let Some(published) = self.published else { return self };
        let up_to = |position: Option<Position>| position.map(|position| position.min(published));
        Known { tail: up_to(self.tail), durable: up_to(self.durable), ..self }
    }

    /// How many records the last run had appended from this position on, when it is known that there were some.
    pub(crate) fn appended_from(self, position: Position) -> Option<u64> {
        let tail = self.tail.filter(|tail| *tail >= position)?;
        Some(tail.get() - position.get() + 1)
    }
}

/// The door to a log: whoever stands in it is the only one who opens the log at that time.
#[derive(Debug)]
pub(crate) struct Door {
    _locked: LockedFile,
}

/// A control file that was opened, while the door is held.
#[derive(Debug)]
pub(crate) struct Entered {
    pub(crate) control: Control,
    pub(crate) known: Known,
    /// That of the settings, or of those who have the log open.
    pub(crate) durability: Durability,
    /// Whether nobody else has the log open: then it is to be recovered.
    pub(crate) alone: bool,
    /// To be dropped when the log is open.
    pub(crate) door: Door,
}

impl Control {
    /// Opens the control file, takes a seat, and says what was known of the log and whether others have it open.
    ///
    /// # Errors
    /// [`Error::InUse`] when every seat is taken, or when others have the log open whose control file is not there any more.
    /// [`Error::Settings`] when others have it open with another durability. [`Error::NewerFormat`].
    pub(crate) fn open(directory: &Directory, identity: Identity, settings: &Settings) -> Result<Entered> {
        let door = Door { _locked: directory.lock_file_in_turn(DOOR)? };
        let in_use = |process| Error::InUse { directory: directory.path().to_owned(), process };
        let mut locked = directory.lock_open(settings.exclusive)?;
        if !locked.as_ref().is_some_and(|(_, alone)| *alone) && is_unrecovered(directory) {
            // Whoever was recovering it has left the door, and so has died: only the lock on the directory is still to go. What it
            // left is not what anyone can join.
            drop(locked.take());
            locked = Some((directory.lock_open_in_turn(settings.exclusive)?, true));
        }
        let Some((open, alone)) = locked else {
            return Err(in_use(somebody(directory)));
        };
        if !alone && !directory.names()?.iter().any(|name| name == NAME) {
            return Err(in_use(None));
        }
        let (file, words) = directory.words(NAME, WORDS, WORDS)?;
        let seat = Seat::take(directory)?;
        let mut control = Control { words, file, seat, opening: 0, _open: open };
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
        let mut known = Known::default();
        if own {
            known = Known {
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
                // Until the opening is complete, a reader of the files sees what it saw before.
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
            let problem = match somebody(directory) {
                Some(process) => format!(
                    "durability is {own}, and process {process} has it open with {theirs}; open it with {theirs}, or when that process has ended"
                ),
                None => format!("durability is {own}, and others have it open with {theirs}; open it with {theirs}"),
            };
            return Err(Error::Settings { problems: vec![problem] });
        }
        control.sit_down(directory);
        Ok(Entered { control, known, durability, alone, door })
    }

    /// The log can be joined from now on: it is recovered. To be called by who is alone, in the door.
    pub(crate) fn say_recovered(&self, durability: Durability) {
        self.word(DURABILITY).store(mode(durability), Ordering::Release);
    }

    /// Uses the seat from now on.
    fn sit_down(&mut self, directory: &Directory) {
        self.opening = self.word(OPENINGS).fetch_add(1, Ordering::AcqRel) + 1;
        turn::disown(self);
        // What somebody left who had the seat before, and died.
        self.hears_no_more();
        self.word(HELD + self.seat() as usize).store(0, Ordering::Release);
        self.word(PROCESSES + self.seat() as usize).store(directory.process_id().into(), Ordering::Release);
        self.count_attached(directory);
        // Whoever was alone so far learns that it is not.
        self.arrive();
    }

    /// Keeps others from opening the log for as long as the door is held. Who died is not counted any more from here on.
    pub(crate) fn door(&self, directory: &Directory) -> Result<Door> {
        let door = Door { _locked: directory.lock_file_in_turn(DOOR)? };
        self.count_attached(directory);
        Ok(door)
    }

    /// The seats of the others that have the log open, as far as is known.
    pub(crate) fn others(&self) -> impl Iterator<Item = u32> {
        let attached = self.word(ATTACHED).load(Ordering::SeqCst) & !self.bit();
        (0..SEATS).filter(move |seat| attached & (1 << seat) != 0)
    }

    /// The number of this opening's seat.
    pub(crate) fn seat(&self) -> u32 {
        self.seat.number()
    }

    /// The number of this opening; no two that follow each other closely have the same.
    pub(crate) fn opening(&self) -> u64 {
        self.opening
    }

    /// The last record appended by anyone. Its bytes, and those of all before it, are in place.
    pub(crate) fn tail(&self) -> Position {
        // It was sealed by whoever appended; a word that is damaged while the log is open can't be told what it was.
        Position::new(unseal(self.word(TAIL).load(Ordering::Acquire)).expect("the tail in the control file is whole"))
    }

    /// Whether this is the last record appended by anyone.
    #[inline]
    pub(crate) fn tail_is(&self, position: Position) -> bool {
        // Whoever finds another number verifies it.
        number(self.word(TAIL).load(Ordering::Acquire)) == position.get()
    }

    /// Notes the last record appended.
    #[inline]
    pub(crate) fn set_tail(&self, position: Position) {
        self.word(TAIL).store(seal(position.get()), Ordering::Release);
    }

    /// The last record synced by anyone, when it is known.
    pub(crate) fn durable(&self) -> Option<Position> {
        unseal(self.word(DURABLE).load(Ordering::Acquire)).map(Position::new)
    }

    /// Notes the last record synced, unless somebody has synced a later one.
    pub(crate) fn raise_durable(&self, position: Position) {
        let word = self.word(DURABLE);
        let _ = word.fetch_update(Ordering::AcqRel, Ordering::Acquire, |seen| {
            let known = unseal(seen).is_some_and(|known| known >= position.get());
            (!known).then(|| seal(position.get()))
        });
    }

    /// Notes the last record synced, whatever stood there.
    pub(crate) fn set_durable(&self, position: Position) {
        self.word(DURABLE).store(seal(position.get()), Ordering::Release);
    }

    /// Notes the last record that the owner of the log published. One thread at a time.
    pub(crate) fn set_published(&self, position: Position) {
        self.word(PUBLISHED).store(seal(position.get()), Ordering::Release);
    }

    /// Lowers the last record appended and the last record synced to `kept`, and makes that durable: an opening then refuses no log
    /// that ends there.
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

    /// Whether the segment that takes records begins at this position; to be asked and set by whoever has the turn.
    #[inline]
    pub(crate) fn active_is(&self, first: Position) -> bool {
        number(self.word(ACTIVE).load(Ordering::Relaxed)) == first.get()
    }

    pub(crate) fn set_active(&self, first: Position) {
        self.word(ACTIVE).store(seal(first.get()), Ordering::Relaxed);
    }

    /// Whether somebody met a failure after which nothing more is appended by anyone.
    pub(crate) fn has_failed(&self) -> bool {
        self.word(FAILED).load(Ordering::Acquire) != 0
    }

    /// That nobody has met such a failure.
    #[inline]
    pub(crate) fn check(&self) -> Result<()> {
        if self.has_failed() { Err(failed_elsewhere()) } else { Ok(()) }
    }

    pub(crate) fn set_failed(&self) {
        self.word(FAILED).store(1, Ordering::Release);
    }

    /// Whether others may have the log open. Somebody who died is counted until the next opening.
    pub(crate) fn has_company(&self) -> bool {
        self.word(ATTACHED).load(Ordering::SeqCst) & !self.bit() != 0
    }

    /// Makes what was noted so far durable. Nothing depends on it but how sharply damage is told from a torn tail.
    pub(crate) fn sync(&self) -> std::io::Result<()> {
        self.file.sync_data()
    }

    pub(crate) fn word(&self, index: usize) -> &AtomicU64 {
        self.words.word(index)
    }

    /// Sleeps on a word until it is woken, at most so long, unless it changed already.
    pub(crate) fn sleep_on(&self, index: usize, seen: u64, at_most: Duration) {
        self.words.wait(index, seen as u32, Some(at_most));
    }

    pub(crate) fn wake(&self, index: usize, count: u32) {
        self.words.wake(index, count);
    }

    pub(crate) fn bit(&self) -> u64 {
        1 << self.seat()
    }

    /// Notes who has the log open. Only whoever stands in the door does this.
    fn count_attached(&self, directory: &Directory) {
        let others =
            (0..SEATS).filter(|seat| *seat != self.seat() && crate::processes::seat::is_taken(directory, *seat));
        let attached = others.fold(self.bit(), |bits, seat| bits | 1 << seat);
        self.word(ATTACHED).store(attached, Ordering::SeqCst);
        self.tell_only(attached);
    }
}

#[cfg(all(test, loom))]
impl Control {
    /// That of an opening whose words a model checker explores.
    pub(crate) fn explored(words: SharedWords, directory: &Directory) -> Self {
        let (open, _) = directory.lock_open(false).unwrap().unwrap();
        let (file, seat) = (directory.handle(), Seat::take(directory).unwrap());
        let mut control = Control { words, file, seat, opening: 0, _open: open };
        control.sit_down(directory);
        control
    }

    /// The words that any of it touches for seats below `seats`.
    pub(crate) fn explored_words(seats: usize) -> impl Iterator<Item = usize> {
        let of_seats =
            [PROCESSES, HELD, crate::processes::hearing::ALARMS].into_iter().flat_map(move |at| at..at + seats);
        let hearing = [
            crate::processes::hearing::LISTENING,
            crate::processes::hearing::ASLEEP,
            crate::processes::hearing::ARRIVALS,
        ];
        let own = [TAIL, DURABLE, TURN, ACTIVE, FAILED, OPENINGS, ATTACHED, PUBLISHED];
        let compaction = [COMPACTION_ROUND, COMPACTION_FIRST, COMPACTION_FIRST + 1];
        own.into_iter().chain(hearing).chain(compaction).chain(of_seats)
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        self.word(PROCESSES + self.seat() as usize).store(0, Ordering::Release);
        self.word(ATTACHED).fetch_and(!self.bit(), Ordering::SeqCst);
        self.hears_no_more();
    }
}

#[cold]
fn failed_elsewhere() -> Error {
    Error::Failed { message: "another process could not write or sync; see what it said".to_owned() }
}

/// How a durability stands in the control file.
fn mode(durability: Durability) -> u64 {
    match durability {
        Durability::Os => seal(0),
        Durability::Sync => seal(1),
    }
}

/// Whether somebody began to recover the log, and did not come to the end of it. To be asked in the door.
fn is_unrecovered(directory: &Directory) -> bool {
    let head = directory.read_head(NAME, (DURABILITY + 1) * 8).unwrap_or_default();
    let word = |index: usize| head.as_chunks::<8>().0.get(index).map(|word| u64::from_le_bytes(*word));
    (word(0), word(DURABILITY)) == (Some(MAGIC), Some(0))
}

/// A process that has the log open, when it said so.
fn somebody(directory: &Directory) -> Option<u64> {
    let bytes = directory.read_head(NAME, WORDS * 8).ok()?;
    let processes = bytes.get(PROCESSES * 8..)?.as_chunks::<8>().0.iter().take(SEATS as usize);
    processes.map(|word| u64::from_le_bytes(*word)).find(|process| *process != 0)
}

/// What the control file of a log says, looked at from outside: nothing is locked, mapped or changed. `None` when there is
/// none of this log.
pub(crate) fn peek(directory: &Directory, identity: Identity) -> Option<Known> {
    let bytes = directory.read_head(NAME, (PUBLISHED + 1) * 8).ok()?;
    let word = |index: usize| bytes.get(index * 8..)?.first_chunk::<8>().map(|word| u64::from_le_bytes(*word));
    let expected = [identity.database as u64, (identity.database >> 64) as u64, identity.shard.into()];
    // One of an older version, or whose version does not verify, is made anew by opening; one of a newer version is not.
    let own = word(0)? == MAGIC
        && unseal(word(1)?).is_some_and(|version| version >= VERSION)
        && (DATABASE..=SHARD).zip(expected).all(|(index, value)| word(index) == Some(value));
    let number = |index: usize| word(index).and_then(unseal).map(Position::new);
    own.then(|| Known { tail: number(TAIL), durable: number(DURABLE), published: number(PUBLISHED) })
}

/// The finalizer of MurmurHash3 (fmix64, by Austin Appleby), of which the lowest 16 bits are the check: every append seals a
/// number, and this takes a nanosecond.
fn check(number: u64) -> u64 {
    // Salted, so that the zeros of a file made anew are not a number.
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

/// The number that a sealed word would hold, were it whole.
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
    fn who_finds_a_recovery_cut_off_waits_until_the_dead_are_gone_and_recovers() {
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
            let Entered { control, alone, door, .. } = open(false);
            assert!(alone);
            // It dies: the kernel gives back what it had locked in an order of its own.
            drop(door);
            thread::scope(|scope| {
                let next = scope.spawn(|| open(exclusive));
                while !next.is_finished() && !somebody_waits() {
                    thread::yield_now();
                }
                assert!(!next.is_finished(), "it joined what nobody has recovered");
                drop(control);
                assert!(next.join().unwrap().alone);
            });
        }
        let Entered { control, alone, door, .. } = open(false);
        assert!(alone);
        control.set_tail(Position::ZERO);
        control.say_recovered(Durability::default());
        drop(door);
        assert!(!open(false).alone, "what is recovered is joined");
    }

    #[test]
    fn a_sealed_word_comes_back_and_no_flipped_bit_is_taken_for_one() {
        for number in [0, 1, 77, 48_213, (1 << 48) - 1] {
            let sealed = seal(number);
            assert_eq!(unseal(sealed), Some(number));
            for bit in 0..64 {
                assert_eq!(unseal(sealed ^ (1 << bit)), None, "bit {bit} of {number}");
            }
        }
    }
}
