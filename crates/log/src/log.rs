//! The shared side of a log: what readers, waiters and background threads hold.
//!
//! It wires the components together and decides nothing.

use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};
use std::task::{Context, Poll};
use std::thread::JoinHandle;
use std::time::Duration;

use quire_model::{Position, Timestamp};

use crate::checkpoint::{self, Checkpoint, Mark};
use crate::clock::{Clock, SystemClock};
use crate::compaction::{Compaction, Run, Share, Survives};
use crate::control::{Control, Door};
use crate::directory::{Directory, LockedFile};
use crate::error::{Damage, Error, Result};
use crate::prepare::{Prepared, Preparer, is_spare_name, spare_name};
use crate::publish::{Published, Woken};
use crate::reader::{Reader, Store};
use crate::recovery::{self, Recovery};
use crate::scrub::{Scrub, scrub_all};
use crate::sealed::Archive;
use crate::sealer::Sealer;
use crate::segment::SegmentHeader;
use crate::segments::Segments;
use crate::settings::{Durability, Settings};
use crate::spans::Spans;
use crate::statistics::Counters;
use crate::storage::{Disk, Storage};
use crate::sync::Syncer;
use crate::writer::{Active, Writer, segment_name};

/// Locked by whoever saves a checkpoint.
const CHECKPOINTING: &str = "checkpointing";

/// Locked by whoever seals a segment.
pub(crate) const SEALING: &str = "sealing";

/// Locked by whoever carries out the duties for all who have the log open.
const DUTIES: &str = "duties";

/// Which log a file belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    /// The database, by the random number it was created with.
    pub database: u128,
    /// The shard within it, from 0.
    pub shard: u32,
}

impl Identity {
    /// What tag hashes are seeded with, so that nobody can choose tags that collide.
    pub(crate) fn seed(self) -> u64 {
        (self.database >> 64) as u64
    }

    /// What the first record chains to.
    pub fn chain(self) -> u32 {
        self.database as u32
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "database {:032x} shard {}", self.database, self.shard)
    }
}

/// The parts of a log that act, to be passed in.
#[derive(Debug, Clone)]
pub struct Components {
    /// Where its files are. Default: [`Disk`].
    pub storage: Arc<dyn Storage>,
    /// Where it gets the time from. Default: [`SystemClock`].
    pub clock: Arc<dyn Clock>,
    /// Who carries out its duties. Default: [`Background::Threads`].
    pub background: Background,
}

impl Default for Components {
    fn default() -> Self {
        Components { storage: Arc::new(Disk), clock: Arc::new(SystemClock), background: Background::default() }
    }
}

/// Who carries out what is done in the background.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Background {
    /// Threads of its own.
    #[default]
    Threads,
    /// Whoever calls [`Log::carry_out`], and nobody else: so that a simulation says what happens when. Nothing waits for
    /// what nobody does: a segment that is needed is made on the spot.
    Caller,
}

/// What a log does in the background.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Duty {
    /// Sync what was requested, and in an `os` log what was appended.
    Sync,
    /// Make the next segment ready.
    Prepare,
    /// Make the index of a segment that is full and synced, in a file.
    Seal,
}

/// A log that was opened.
#[derive(Debug)]
pub struct Opened {
    /// The shared side.
    pub log: Log,
    /// The one writer.
    pub writer: Writer,
    /// What opening found.
    pub recovery: Recovery,
    /// The newest checkpoint that belongs to this log; what follows [`Mark::position`] is to be replayed.
    pub checkpoint: Option<Checkpoint>,
}

/// What [`Log::listen`] heard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Heard {
    /// Others have published what somebody here waits for: it is to be followed.
    Published,
    /// Others have opened the log, or the last of them has closed it.
    Company,
    /// [`Log::stop_listening`] was called.
    Stop,
}

/// Counts since the log was opened here, over every process that has it open. [`Page`](crate::Page) tells more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Statistics {
    /// Records appended.
    pub records: u64,
    /// Entries appended.
    pub entries: u64,
    /// Bytes appended, headers and padding included.
    pub bytes: u64,
    /// Syncs carried out.
    pub syncs: u64,
    /// Segments there are.
    pub segments: u64,
    /// Those among them that are sealed: their index is in a file.
    pub sealed: u64,
    /// Sealed segments that are mapped though nobody may be reading them; see [`Settings::segments_open_max`].
    pub open: u64,
    /// Bytes that the scrub verified in the background.
    pub scrubbed_bytes: u64,
    /// Bytes of memory that sealed segments take while they are not mapped.
    pub sealed_bytes: u64,
}

/// The shared side of a log; cheap to clone. The log is closed when the last clone and the writer are gone.
#[derive(Debug, Clone)]
pub struct Log {
    threads: Arc<Threads>,
}

impl Log {
    /// Opens the log in a directory that is there, and makes its files when it holds none.
    ///
    /// # Errors
    /// [`Error::InUse`], [`Error::Damaged`], [`Error::NewerFormat`], [`Error::Settings`], [`Error::NoSpace`] and [`Error::Io`].
    pub fn open(path: &Path, identity: Identity, settings: Settings, clock: Arc<dyn Clock>) -> Result<Opened> {
        Log::open_with(path, identity, settings, Components { clock, ..Components::default() })
    }

    /// As [`Log::open`], with components of the caller's.
    ///
    /// # Errors
    /// As [`Log::open`].
    pub fn open_with(path: &Path, identity: Identity, settings: Settings, components: Components) -> Result<Opened> {
        let Components { storage, clock, background } = components;
        let problems = settings.problems();
        if !problems.is_empty() {
            return Err(Error::Settings { problems });
        }
        let directory = Arc::new(Directory::open(storage, path)?);
        let entered = Control::open(&directory, identity, &settings)?;
        let settings = Settings { durability: entered.durability, ..settings };
        let spare = spare_name(entered.control.seat());
        directory.remove(&spare)?;
        if entered.alone {
            for name in directory.names()?.iter().filter(|name| is_spare_name(name)) {
                directory.remove(name)?;
            }
            directory.remove_unfinished()?;
        }
        let store = Arc::new(Store {
            archive: Archive::new(Arc::clone(&directory), identity, settings.segments_open_max),
            spans: Spans::new(identity.seed()),
        });
        let found = match entered.alone {
            true => recovery::recover(&directory, identity, entered.known, &store)?,
            false => recovery::join(&directory, identity, || entered.control.tail(), &store)?,
        };
        let counters = Arc::new(Counters::open(&directory, identity, Arc::clone(&clock))?);
        let synced = entered.known.durable.unwrap_or_default();
        if entered.alone {
            // Pages that a failed sync of an earlier run gave up are in memory still, and taken for written: they are written
            // again, so that a sync has them to write.
            found.segments.live.iter().try_for_each(|segment| segment.write_again(synced.next()))?;
        }
        let unsynced: Vec<_> =
            found.segments.live.iter().filter(|segment| segment.index().end() > synced.next()).cloned().collect();
        let sealer = Arc::new(Sealer::default());
        let shared = Arc::new(Shared {
            identity,
            preparer: Preparer::new(spare, settings.segment_bytes, settings.durability, background),
            syncer: Syncer::new(settings.durability, Position::ZERO, Arc::clone(&counters), Arc::clone(&sealer)),
            published: Published::new(Position::ZERO),
            generation: AtomicU64::new(found.segments.generation),
            segments: RwLock::new(Arc::new(found.segments)),
            counters,
            sealing: Mutex::default(),
            sealer,
            scrub: Scrub::default(),
            store,
            listening: AtomicBool::new(true),
            duties: OnceLock::new(),
            directory,
            control: entered.control,
            settings,
            clock,
        });
        let active = match found.active {
            Some(active) => {
                let sealed = unsynced.into_iter().filter(|segment| !Arc::ptr_eq(segment, &active.segment));
                sealed.for_each(|segment| shared.syncer.begin_segment(segment));
                shared.syncer.begin_segment(Arc::clone(&active.segment));
                if entered.alone {
                    shared.prepare_next(shared.clock.now());
                }
                active
            }
            None => {
                shared.preparer.make_first(&shared.directory)?;
                shared.begin_segment(found.mark, shared.clock.now())?
            }
        };
        shared.syncer.appended(found.mark.position);
        if entered.alone {
            shared.begin_alone(entered.known.durable, found.mark.position, &active)?;
        } else {
            drop(shared.publish_followed(found.mark.position));
        }
        shared.sealer.begin();
        let log = Log { threads: Arc::new(Threads::start(Arc::clone(&shared), background)) };
        let mut writer = Writer::new(log.clone(), active, found.sequences, found.mark, found.time);
        // What came meanwhile, so that a checkpoint that another has just taken is not ahead.
        while writer.follow()?.is_some() {}
        drop(writer.publish_followed());
        let checkpoint = checkpoint::newest(&shared.directory, entered.alone, |mark| shared.holds(mark))?;
        // From here on somebody else may open the log, too.
        drop(entered.door);
        Ok(Opened { log, writer, recovery: found.report, checkpoint })
    }

    /// A view of the log up to the published tail as it is now.
    pub fn reader(&self) -> Reader {
        let shared = self.shared();
        // The limit first: a segment that comes later holds nothing below it.
        let limit = shared.published.position();
        Reader::new(shared, limit)
    }

    /// The position of the last published record.
    pub fn published(&self) -> Position {
        self.shared().published.position()
    }

    /// The settings it was opened with.
    pub fn settings(&self) -> &Settings {
        &self.shared().settings
    }

    /// The clock it was opened with.
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.shared().clock
    }

    /// Waits until a record is published. In a `sync` log it syncs, for itself and everyone else who waits.
    ///
    /// # Errors
    /// [`Error::Failed`] when that will never be.
    pub fn wait(&self, position: Position) -> Result<()> {
        let shared = self.shared();
        if shared.published.position() >= position {
            return Ok(());
        }
        match shared.settings.durability {
            Durability::Sync if position <= shared.syncer.last_appended() => shared.sync_to(position),
            _ => shared.published.wait(position, Duration::MAX, || shared.listen()).map(|_| ()),
        }
    }

    /// Waits, at most so long, until a record is published by somebody; says whether it is.
    ///
    /// # Errors
    /// [`Error::Failed`] when that will never be.
    pub fn wait_at_most(&self, position: Position, at_most: Duration) -> Result<bool> {
        let shared = self.shared();
        shared.published.wait(position, at_most, || shared.listen())
    }

    /// Whether others have published what is not taken in here: [`Writer::follow`] does that.
    pub fn is_behind(&self) -> bool {
        self.shared().is_behind()
    }

    /// Blocks until there is something to do about what others did. `company` is what the caller knows of
    /// [`Log::has_company`]. For a thread that does nothing else.
    pub fn listen(&self, company: bool) -> Heard {
        let shared = self.shared();
        let mut seen = shared.control.arrivals();
        loop {
            if !shared.listening.load(Ordering::SeqCst) {
                return Heard::Stop;
            }
            if shared.control.has_company() != company {
                return Heard::Company;
            }
            if shared.published.has_waiters() {
                shared.control.listen();
                if shared.is_behind() {
                    shared.control.heard();
                    return Heard::Published;
                }
            } else {
                shared.control.heard();
            }
            shared.control.await_arrival(seen);
            seen = shared.control.arrivals();
        }
    }

    /// Ends [`Log::listen`].
    pub fn stop_listening(&self) {
        let shared = self.shared();
        shared.listening.store(false, Ordering::SeqCst);
        shared.control.arrive();
    }

    /// Whether others may have the log open.
    pub fn has_company(&self) -> bool {
        self.shared().control.has_company()
    }

    /// Takes on the duties that one of those who have the log open carries out for all, such as checkpoints, unless another has
    /// them. They are kept until the log is closed, or the process dies.
    pub fn takes_duties(&self) -> bool {
        self.shared().takes_duties()
    }

    /// A future of a position's publication, for a record that was appended. Needs no runtime; a thread of the log syncs.
    pub fn publication(&self, position: Position) -> Publication {
        Publication { log: self.clone(), position, requested: false, appended: true, key: None }
    }

    /// A future of a position's publication, for a record that somebody may append some day.
    pub fn arrival(&self, position: Position) -> Publication {
        Publication { log: self.clone(), position, requested: false, appended: false, key: None }
    }

    /// Has a record published without waiting for it: in a `sync` log, a thread of the log syncs.
    pub fn request(&self, position: Position) {
        let shared = self.shared();
        if shared.settings.durability == Durability::Sync && shared.published.position() < position {
            shared.syncer.request(position);
        }
    }

    /// Syncs every record appended so far, whatever the durability.
    ///
    /// # Errors
    /// [`Error::Failed`].
    pub fn sync(&self) -> Result<()> {
        let shared = self.shared();
        shared.sync_to(shared.syncer.last_appended())
    }

    /// Keeps the models' state after a record. The log is synced up to there first.
    ///
    /// # Errors
    /// [`Error::NoSpace`] and [`Error::Io`]: the checkpoints that were there still count. [`Error::Failed`].
    pub fn save_checkpoint(&self, mark: Mark, payload: &[u8]) -> Result<()> {
        let shared = self.shared();
        shared.sync_to(mark.position)?;
        // Two processes would remove each other's.
        let _one_at_a_time = shared.directory.lock_file_in_turn(CHECKPOINTING)?;
        let begun = shared.counters.now_ns();
        checkpoint::save(&shared.directory, mark, payload).inspect_err(|_| shared.counters.error())?;
        shared.counters.checkpoint(mark.position, begun);
        Ok(())
    }

    /// Does now what there is to do of a duty; says whether there was anything. It is for who opened the log with
    /// [`Background::Caller`], and harmless for others.
    ///
    /// # Errors
    /// [`Error::Failed`] of a sync. A segment that could not be made is an error of the append that needs it. Of sealing also
    /// [`Error::NoSpace`] and [`Error::Io`], after which it may be tried again, and [`Error::Damaged`].
    pub fn carry_out(&self, duty: Duty) -> Result<bool> {
        let shared = self.shared();
        match duty {
            Duty::Sync => shared.syncer.step(&shared.directory, &shared.control, &shared.published),
            Duty::Prepare => Ok(shared.preparer.step(&shared.directory)),
            Duty::Seal => shared.seal_oldest(),
        }
    }

    /// What is known of the sealed segments that may be compacted, by asking about at most `samples_max` entries of each: what a
    /// [`CompactionPlan`](crate::CompactionPlan) is made of. They end before the oldest checkpoint that is kept.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn shares(&self, samples_max: u32, survives: &mut Survives<'_>) -> Result<Vec<Share>> {
        self.shared().shares(samples_max, survives)
    }

    /// Rewrites a run of sealed segments into one without the entries that don't survive. All others keep their places, and
    /// every tag its numbers. A run that is not, or no longer, one of whole segments that may be compacted is left alone.
    ///
    /// Nothing is done while other processes have the log open, and none opens it meanwhile.
    /// What the answers of `survives` rest on is synced first. Once this returns, the bytes of what was dropped are in no file any
    /// more; readers that were there before have them until they are dropped.
    ///
    /// # Errors
    /// [`Error::Unreadable`] when a record is not as it was written: the run stays as it is. [`Error::NoSpace`], [`Error::Io`] and
    /// [`Error::Failed`].
    pub fn compact(&self, run: Run, survives: &mut Survives<'_>) -> Result<Compaction> {
        self.shared().compact(run, survives)
    }

    /// The position behind the last record of which entries may be gone. A replay must begin behind a checkpoint that was taken
    /// there or later.
    pub fn compacted_end(&self) -> Position {
        self.shared().compacted_end()
    }

    /// Verifies every byte of the sealed segments and of their indexes, now, and gives back all that is known to be damaged. An
    /// index that is damaged is made anew. In the background the same is done at
    /// [`Settings::scrub_bytes_per_second`].
    pub fn scrub(&self) -> Vec<Damage> {
        scrub_all(self.shared());
        self.damage()
    }

    /// What reads and the scrub found not to be as it was written, since the log was opened. Those reads failed; all else is read as before.
    pub fn damage(&self) -> Vec<Damage> {
        self.shared().store.archive.damage()
    }

    /// How many bytes were appended since the log was opened.
    pub fn appended_bytes(&self) -> u64 {
        self.shared().counters.since_opening().bytes
    }

    /// Notes on the statistics page that a commit was refused.
    pub fn note_refusal(&self) {
        self.shared().counters.refusal();
    }

    /// Counts since the log was opened.
    pub fn statistics(&self) -> Statistics {
        let shared = self.shared();
        let counts = shared.counters.since_opening();
        let segments = shared.segments();
        Statistics {
            records: counts.appends,
            entries: counts.entries,
            bytes: counts.bytes,
            syncs: shared.syncer.syncs(),
            segments: segments.len() as u64,
            sealed: segments.sealed.len() as u64,
            open: shared.store.archive.open_count() as u64,
            scrubbed_bytes: shared.scrub.scrubbed_bytes(),
            sealed_bytes: segments.sealed.iter().map(|sealed| sealed.memory_bytes() as u64).sum(),
        }
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.threads.shared
    }
}

/// A future that is ready when a record is published. See [`Log::publication`].
#[derive(Debug)]
pub struct Publication {
    log: Log,
    position: Position,
    /// Whether the record is there already, so that a sync publishes it.
    appended: bool,
    requested: bool,
    key: Option<u64>,
}

impl Future for Publication {
    type Output = Result<()>;

    fn poll(mut self: std::pin::Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        let this = &mut *self;
        let shared = this.log.shared();
        let poll = shared.published.poll(this.position, context.waker(), &mut this.key);
        if poll.is_pending() && !this.appended {
            shared.listen();
        }
        if poll.is_pending() && this.appended && !this.requested && shared.settings.durability == Durability::Sync {
            this.requested = true;
            shared.syncer.request(this.position);
        }
        poll
    }
}

impl Drop for Publication {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            self.log.shared().published.forget(key);
        }
    }
}

/// What the writer, the readers and the threads share.
#[derive(Debug)]
pub(crate) struct Shared {
    identity: Identity,
    settings: Settings,
    clock: Arc<dyn Clock>,
    directory: Arc<Directory>,
    control: Control,
    segments: RwLock<Arc<Segments>>,
    /// That of the newest list of segments; to be looked at without the lock.
    generation: AtomicU64,
    /// Sealed segments, and what it takes to read them.
    store: Arc<Store>,
    /// Held while a segment is sealed.
    sealing: Mutex<()>,
    sealer: Arc<Sealer>,
    scrub: Scrub,
    published: Published,
    syncer: Syncer,
    preparer: Preparer,
    counters: Arc<Counters>,
    /// Whether [`Log::listen`] is to go on.
    listening: AtomicBool,
    /// The lock on [`DUTIES`], once it was had.
    duties: OnceLock<LockedFile>,
}

impl Shared {
    pub(crate) fn identity(&self) -> Identity {
        self.identity
    }

    pub(crate) fn seed(&self) -> u64 {
        self.identity.seed()
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    pub(crate) fn clock(&self) -> &dyn Clock {
        &*self.clock
    }

    pub(crate) fn directory(&self) -> &Directory {
        &self.directory
    }

    pub(crate) fn counters(&self) -> &Counters {
        &self.counters
    }

    pub(crate) fn segments(&self) -> Arc<Segments> {
        Arc::clone(&self.segments.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The generation of the newest list of segments.
    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// To be locked while segments are sealed or compacted.
    pub(crate) fn sealing(&self) -> &Mutex<()> {
        &self.sealing
    }

    pub(crate) fn scrub(&self) -> &Scrub {
        &self.scrub
    }

    /// Syncs every record appended so far.
    pub(crate) fn sync_all(&self) -> Result<()> {
        self.sync_to(self.syncer.last_appended())
    }

    pub(crate) fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// Puts another list in the place of the newest.
    pub(crate) fn change_segments(&self, change: impl FnOnce(&Segments) -> Segments) {
        let mut segments = self.segments.write().unwrap_or_else(PoisonError::into_inner);
        *segments = Arc::new(change(&segments));
        self.generation.store(segments.generation, Ordering::Release);
    }

    /// Seals the oldest segment that is full and synced; says whether there was one.
    ///
    /// # Errors
    /// [`Error::NoSpace`] and [`Error::Io`] of writing the index, and [`Error::Damaged`].
    pub(crate) fn seal_oldest(&self) -> Result<bool> {
        let _alone = self.sealing.lock().unwrap_or_else(PoisonError::into_inner);
        let segments = self.segments();
        let [oldest, next, ..] = &segments.live[..] else { return Ok(false) };
        let last = Position::new(next.first.get() - 1);
        if self.syncer.durable() < last {
            return Ok(false);
        }
        let path = self.directory.path_of(&segment_name(oldest.first));
        let header = SegmentHeader::decode(oldest.bytes(), &path, self.identity)?;
        // Two processes would write the same file.
        let _one_at_a_time = self.directory.lock_file_in_turn(SEALING)?;
        let crc = SegmentHeader::crc_of(oldest.bytes());
        let sealed = match self.store.archive.find(&header, crc)? {
            // Another process has sealed it.
            Some(sealed) => sealed,
            // Commit point: from here on the segment is read through the file.
            None => self.store.archive.seal(oldest.bytes(), &header)?,
        };
        self.store.take_in(&sealed)?;
        self.change_segments(|segments| segments.with_sealed(sealed));
        Ok(true)
    }

    pub(crate) fn take_prepared(&self) -> Result<Prepared> {
        self.preparer.take(&self.directory)
    }

    pub(crate) fn control(&self) -> &Control {
        &self.control
    }

    /// That nobody has met a failure after which nothing more is appended.
    pub(crate) fn check(&self) -> Result<()> {
        self.published.check()?;
        self.control.check()
    }

    /// From now on nothing more is appended or acknowledged, by anyone.
    pub(crate) fn fail(&self, message: &str) -> Woken {
        self.control.set_failed();
        self.published.fail(message)
    }

    /// Begins the segment that follows `mark` and lets everyone here know of it.
    pub(crate) fn begin_segment(&self, mark: Mark, time: Timestamp) -> Result<Active> {
        let active = Active::begin(self, mark, time)?;
        self.counters.roll();
        self.add_segment(&active);
        self.preparer.begin(time);
        Ok(active)
    }

    /// Lets everyone here know of a segment that is the last one now.
    pub(crate) fn add_segment(&self, active: &Active) {
        self.syncer.begin_segment(Arc::clone(&active.segment));
        self.change_segments(|segments| segments.with_active(Arc::clone(&active.segment)));
    }

    /// Has the next segment made ready.
    pub(crate) fn prepare_next(&self, now: Timestamp) {
        self.preparer.begin(now);
    }

    /// What was recovered becomes what everyone builds on: durable first, and then in the control file.
    fn begin_alone(&self, synced: Option<Position>, position: Position, active: &Active) -> Result<()> {
        self.control.set_tail(position);
        self.control.set_active(active.segment.first);
        self.control.set_durable(synced.unwrap_or_default().min(position));
        self.sync_to(position)?;
        self.control.set_durable(position);
        // Whenever the power goes from here on, it is known that no later record had to be there.
        self.control.sync().map_err(|error| Error::io("sync", self.directory.path(), error))?;
        self.directory.sync()?;
        drop(self.published.publish(position));
        Ok(())
    }

    /// A record was appended: tells the syncer and the control file, and in an `os` log everyone.
    pub(crate) fn note_append(&self, position: Position, entries: u32, bytes: usize, begun: Option<u64>) -> Woken {
        self.counters.append(entries, bytes, begun);
        self.syncer.appended(position);
        self.control.set_tail(position);
        match self.settings.durability {
            Durability::Os => {
                let woken = self.published.publish(position);
                self.control.tell_listeners();
                woken
            }
            Durability::Sync => Woken::default(),
        }
    }

    /// A record that another appended was taken in.
    pub(crate) fn note_followed(&self, position: Position) {
        self.syncer.appended(position);
    }

    /// Publishes what was followed up to here, as far as it is published by those who appended it.
    pub(crate) fn publish_followed(&self, position: Position) -> Woken {
        match self.settings.durability {
            Durability::Os => self.published.publish(position),
            Durability::Sync => self.syncer.adopt(&self.control, &self.published),
        }
    }

    /// Whether others have published what is not taken in here.
    fn is_behind(&self) -> bool {
        match self.settings.durability {
            Durability::Os => self.control.tail() > self.syncer.last_appended(),
            Durability::Sync => self.control.durable().is_some_and(|durable| durable > self.published.position()),
        }
    }

    /// Somebody here waits for what others may publish. It counts among those who wait already.
    fn listen(&self) {
        if self.control.has_company() {
            self.control.listen();
            if self.is_behind() {
                self.control.arrive();
            }
        }
    }

    /// Keeps others from opening the log for as long as the door is held; `None` when somebody has it open.
    pub(crate) fn alone(&self) -> Result<Option<Door>> {
        self.control.alone(&self.directory)
    }

    fn takes_duties(&self) -> bool {
        if self.duties.get().is_none()
            && let Ok(Some(lock)) = self.directory.lock_file(DUTIES)
        {
            let _ = self.duties.set(lock);
        }
        self.duties.get().is_some()
    }

    fn sync_to(&self, position: Position) -> Result<()> {
        self.syncer.sync_to(position, &self.directory, &self.control, &self.published)
    }

    /// Whether the log holds this record, or it is the beginning of this log.
    fn holds(&self, mark: Mark) -> bool {
        if mark.position == Position::ZERO {
            return mark.chain == self.identity.chain();
        }
        let reader = Reader::new(self, Position::MAX);
        // A checkpoint after a record that can't be read is passed over, as one of another past is.
        reader.chain(mark.position).is_ok_and(|chain| chain == Some(mark.chain))
    }
}

/// The background threads of a log. They end, after a last sync, when this is dropped.
#[derive(Debug)]
struct Threads {
    shared: Arc<Shared>,
    running: Mutex<Vec<JoinHandle<()>>>,
}

impl Threads {
    fn start(shared: Arc<Shared>, background: Background) -> Self {
        if background == Background::Caller {
            return Threads { shared, running: Mutex::default() };
        }
        let syncing = Arc::clone(&shared);
        let preparing = Arc::clone(&shared);
        let sealing = Arc::clone(&shared);
        let spawn = |name: &str, run: Box<dyn FnOnce() + Send>| {
            std::thread::Builder::new().name(name.to_owned()).spawn(run).expect("a thread can be started")
        };
        let interval = Duration::from_millis(shared.settings.sync_interval_ms);
        let sync = move || syncing.syncer.run(interval, &syncing.directory, &syncing.control, &syncing.published);
        let prepare = move || preparing.preparer.run(&preparing.directory);
        let seal = move || sealing.sealer.run(&sealing);
        let running = vec![
            spawn("quire-sync", Box::new(sync)),
            spawn("quire-prepare", Box::new(prepare)),
            spawn("quire-seal", Box::new(seal)),
        ];
        Threads { shared, running: Mutex::new(running) }
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.shared.syncer.stop();
        self.shared.preparer.stop();
        // What fails here was not promised to anyone who did not wait for it.
        let _ = self.shared.sync_to(self.shared.syncer.last_appended());
        self.shared.sealer.stop();
        let own = std::thread::current().id();
        for thread in self.running.get_mut().unwrap_or_else(PoisonError::into_inner).drain(..) {
            // Whoever it woke may have dropped the log on the thread itself, which ends by itself then. A thread that
            // panicked has said so already.
            if thread.thread().id() != own {
                let _ = thread.join();
            }
        }
        let _ = self.shared.directory.remove(&spare_name(self.shared.control.seat()));
    }
}
