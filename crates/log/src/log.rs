//! The shared side of a log: what readers, waiters and background threads hold.
//!
//! It wires the components together and decides nothing.

use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::task::{Context, Poll};
use std::thread::JoinHandle;
use std::time::Duration;

use quire_model::{Position, Timestamp};

use crate::checkpoint::{self, Checkpoint, Mark};
use crate::clock::{Clock, SystemClock};
use crate::control::Control;
use crate::directory::Directory;
use crate::error::{Error, Result};
use crate::prepare::{Prepared, Preparer, SPARE, prepare};
use crate::publish::{Published, Woken};
use crate::reader::Reader;
use crate::recovery::{self, Recovery};
use crate::segment::Segment;
use crate::settings::{Durability, Settings};
use crate::statistics::Counters;
use crate::storage::{Disk, Storage};
use crate::sync::Syncer;
use crate::writer::{Active, Writer};

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
    pub(crate) fn chain(self) -> u32 {
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
        let directory = Directory::open(storage, path)?;
        let (control, known) = Control::open(&directory, identity)?;
        directory.remove(SPARE)?;
        directory.remove_unfinished()?;
        let found = recovery::recover(&directory, identity, known)?;
        let counters = Arc::new(Counters::open(&directory, identity, Arc::clone(&clock))?);
        let synced = known.durable.unwrap_or_default();
        // Pages that a failed sync of an earlier run gave up are in memory still, and taken for written: they are written again,
        // so that a sync has them to write.
        found.segments.iter().try_for_each(|segment| segment.write_again(synced.next()))?;
        let unsynced: Vec<_> =
            found.segments.iter().filter(|segment| segment.index().end() > synced.next()).cloned().collect();
        let shared = Arc::new(Shared {
            identity,
            preparer: Preparer::new(settings.segment_bytes, background),
            syncer: Syncer::new(settings.durability, Position::ZERO, Arc::clone(&counters)),
            published: Published::new(Position::ZERO),
            segments: RwLock::new(Arc::new(found.segments)),
            counters,
            directory,
            control,
            settings,
            clock,
        });
        let active = match found.active {
            Some(active) => {
                let sealed = unsynced.into_iter().filter(|segment| !Arc::ptr_eq(segment, &active.segment));
                sealed.for_each(|segment| shared.syncer.begin_segment(segment));
                shared.syncer.begin_segment(Arc::clone(&active.segment));
                shared.preparer.begin();
                active
            }
            None => {
                let first = prepare(&shared.directory, shared.settings.segment_bytes)?;
                shared.preparer.put(first);
                shared.begin_segment(found.mark, shared.clock.now())?
            }
        };
        // Everything that was recovered is made durable before anyone can build on it.
        shared.syncer.appended(found.mark.position);
        shared.control.set_tail(found.mark.position);
        shared.sync_to(found.mark.position)?;
        shared.control.set_durable(found.mark.position);
        // Whenever the power goes from here on, it is known that no later record had to be there.
        shared.control.sync().map_err(|error| Error::io("sync", shared.directory.path(), error))?;
        shared.directory.sync()?;
        drop(shared.published.publish(found.mark.position));
        let checkpoint = checkpoint::newest(&shared.directory, |mark| shared.holds(mark))?;
        let log = Log { threads: Arc::new(Threads::start(shared, background)) };
        let writer = Writer::new(log.clone(), active, found.sequences, found.mark, found.time);
        Ok(Opened { log, writer, recovery: found.report, checkpoint })
    }

    /// A view of the log up to the published tail as it is now.
    pub fn reader(&self) -> Reader {
        let shared = self.shared();
        // The limit first: a segment that comes later holds nothing below it.
        let limit = shared.published.position();
        Reader::new(shared.segments(), limit, shared.seed())
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
            _ => shared.published.wait(position, Duration::MAX).map(|_| ()),
        }
    }

    /// Waits, at most so long, until a record is published by somebody; says whether it is.
    ///
    /// # Errors
    /// [`Error::Failed`] when that will never be.
    pub fn wait_at_most(&self, position: Position, at_most: Duration) -> Result<bool> {
        self.shared().published.wait(position, at_most)
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
        let begun = shared.counters.now_ns();
        checkpoint::save(&shared.directory, mark, payload).inspect_err(|_| shared.counters.error())?;
        shared.counters.checkpoint(mark.position, begun);
        Ok(())
    }

    /// Does now what there is to do of a duty; says whether there was anything. It is for who opened the log with
    /// [`Background::Caller`], and harmless for others.
    ///
    /// # Errors
    /// [`Error::Failed`] of a sync. A segment that could not be made is an error of the append that needs it.
    pub fn carry_out(&self, duty: Duty) -> Result<bool> {
        let shared = self.shared();
        match duty {
            Duty::Sync => shared.syncer.step(&shared.directory, &shared.control, &shared.published),
            Duty::Prepare => Ok(shared.preparer.step(&shared.directory)),
        }
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
        Statistics {
            records: counts.appends,
            entries: counts.entries,
            bytes: counts.bytes,
            syncs: shared.syncer.syncs(),
            segments: shared.segments().len() as u64,
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
    directory: Directory,
    control: Control,
    /// Replaced as a whole when a segment is begun; whoever holds an older list reads on in it.
    segments: RwLock<Arc<Vec<Arc<Segment>>>>,
    published: Published,
    syncer: Syncer,
    preparer: Preparer,
    counters: Arc<Counters>,
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

    pub(crate) fn published(&self) -> &Published {
        &self.published
    }

    pub(crate) fn segments(&self) -> Arc<Vec<Arc<Segment>>> {
        Arc::clone(&self.segments.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn take_prepared(&self) -> Result<Prepared> {
        self.preparer.take(&self.directory)
    }

    /// Begins the segment that follows `mark` and lets everyone know of it.
    pub(crate) fn begin_segment(&self, mark: Mark, time: Timestamp) -> Result<Active> {
        let active = Active::begin(self, mark, time)?;
        self.counters.roll();
        self.syncer.begin_segment(Arc::clone(&active.segment));
        let mut segments = self.segments.write().unwrap_or_else(PoisonError::into_inner);
        let mut list = Vec::clone(&segments);
        list.push(Arc::clone(&active.segment));
        *segments = Arc::new(list);
        drop(segments);
        self.preparer.begin();
        Ok(active)
    }

    /// A record was appended: tells the control file and the syncer, and in an `os` log everyone.
    pub(crate) fn note_append(&self, position: Position, entries: u32, bytes: usize, begun: Option<u64>) -> Woken {
        self.counters.append(entries, bytes, begun);
        self.control.set_tail(position);
        self.syncer.appended(position);
        match self.settings.durability {
            Durability::Os => self.published.publish(position),
            Durability::Sync => Woken::default(),
        }
    }

    fn sync_to(&self, position: Position) -> Result<()> {
        self.syncer.sync_to(position, &self.directory, &self.control, &self.published)
    }

    /// Whether the log holds this record, or it is the beginning of this log.
    fn holds(&self, mark: Mark) -> bool {
        if mark.position == Position::ZERO {
            return mark.chain == self.identity.chain();
        }
        let segments = self.segments();
        let segment = segments.iter().rev().find(|segment| segment.first <= mark.position);
        let header = segment.and_then(|segment| segment.record_header(mark.position));
        header.is_some_and(|header| header.crc == mark.chain)
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
        let spawn = |name: &str, run: Box<dyn FnOnce() + Send>| {
            std::thread::Builder::new().name(name.to_owned()).spawn(run).expect("a thread can be started")
        };
        let interval = Duration::from_millis(shared.settings.sync_interval_ms);
        let sync = move || syncing.syncer.run(interval, &syncing.directory, &syncing.control, &syncing.published);
        let prepare = move || preparing.preparer.run(&preparing.directory);
        let running = vec![spawn("quire-sync", Box::new(sync)), spawn("quire-prepare", Box::new(prepare))];
        Threads { shared, running: Mutex::new(running) }
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.shared.syncer.stop();
        self.shared.preparer.stop();
        let own = std::thread::current().id();
        for thread in self.running.get_mut().unwrap_or_else(PoisonError::into_inner).drain(..) {
            // Whoever it woke may have dropped the log on the thread itself, which ends by itself then. A thread that
            // panicked has said so already.
            if thread.thread().id() != own {
                let _ = thread.join();
            }
        }
        // What fails here was not promised to anyone who did not wait for it.
        let _ = self.shared.sync_to(self.shared.syncer.last_appended());
        let _ = self.shared.directory.remove(SPARE);
    }
}
