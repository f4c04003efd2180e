//! Opening a database: its settings, and the components that act.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use quire_log::{Background, Clock, Components, Durability, Identity, Publisher, Recovery, Snapshot, Storage};
use quire_shard::Shard;
use quire_shard::graph_memory::{self, GraphMemory};

use crate::database::Database;
use crate::member_file::MemberFile;
use crate::meta::{Meta, SHARD};
use crate::profile::Profile;
use crate::settings::Settings;
use crate::{Error, ErrorKind, Result};

/// Most attempts to open a database read-only while other processes change it.
const ATTEMPTS_MAX: u32 = 5;

/// Opens a database with settings. See [`Database::builder`].
///
/// ```
/// use std::time::Duration;
///
/// use quire::{Database, Durability};
///
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("data");
/// let db = Database::builder(&path)
///     .durability(Durability::Os)
///     .sync_interval(Duration::from_millis(20))
///     .segment_bytes(16 << 20)
///     .open()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
#[must_use = "a builder does nothing until it is opened"]
pub struct Builder {
    path: PathBuf,
    settings: Settings,
    id: Option<u128>,
    is_member: bool,
    components: Components,
}

/// An opened database, and the report of its recovery.
#[derive(Debug)]
pub struct OpenedDatabase {
    /// The database.
    pub database: Database,
    /// The report of recovery: its size, and the torn tail that was removed.
    pub recovery: Recovery,
    /// The number of records that opening applied again, after the newest checkpoint. 0 after the
    /// last process closed the database in good order.
    pub replayed: u64,
}

impl Database {
    /// Opens the database in a directory with default settings, and creates it when there is none.
    ///
    /// # Errors
    /// As [`Builder::open`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Database::builder(path).open()
    }

    /// Returns a builder, which sets how to open a database.
    pub fn builder(path: impl AsRef<Path>) -> Builder {
        Builder::new(path.as_ref())
    }
}

impl Builder {
    pub(crate) fn new(path: &Path) -> Self {
        Builder {
            path: path.to_owned(),
            settings: Settings::default(),
            id: None,
            is_member: false,
            components: Components::default(),
        }
    }

    /// Replaces all settings, such as by those of a configuration file.
    pub fn settings(mut self, settings: Settings) -> Self {
        self.settings = settings;
        self
    }

    /// Sets the fields of a profile. Call other methods after this one to change single fields.
    pub fn profile(mut self, profile: Profile) -> Self {
        profile.apply(&mut self.settings);
        self
    }

    /// Sets when a commit is acknowledged: see [`Settings::durability`].
    pub fn durability(mut self, durability: Durability) -> Self {
        self.settings.durability = Some(durability);
        self
    }

    /// Sets whether a missing database is created. Default: true.
    pub fn create(mut self, create: bool) -> Self {
        self.settings.create = create;
        self
    }

    /// Sets the length of a segment file, in bytes: see [`Settings::segment_bytes`].
    pub fn segment_bytes(mut self, bytes: u64) -> Self {
        self.settings.segment_bytes = bytes;
        self
    }

    /// Sets the largest commit, in bytes of log: see [`Settings::commit_bytes_max`].
    pub fn commit_bytes_max(mut self, bytes: u64) -> Self {
        self.settings.commit_bytes_max = Some(bytes);
        self
    }

    /// Sets whether no other process may open the database: see [`Settings::exclusive`].
    pub fn exclusive(mut self, exclusive: bool) -> Self {
        self.settings.exclusive = exclusive;
        self
    }

    /// Sets whether the database is opened read-only, as it is now. Default: false.
    ///
    /// * No file is changed, locked or created, so read-only media work, and writers in other
    ///   processes continue.
    /// * Later commits are not visible. A read of records that a later compaction removed fails;
    ///   open the database again.
    /// * With [`Durability::Sync`], commits may be visible that are not acknowledged yet. A torn
    ///   tail is skipped.
    /// * Segments that take records are copied to memory. Nothing runs in the background.
    /// * A commit fails with [`ErrorKind::ReadOnly`].
    ///
    /// ```
    /// use quire::{Database, Durability, ErrorKind, Message};
    ///
    /// # let directory = tempfile::tempdir()?;
    /// # let path = directory.path().join("data");
    /// let writer = Database::builder(&path).durability(Durability::Os).open()?;
    /// writer.topic("orders").produce(Message::new("one apple"))?;
    ///
    /// let reader = Database::builder(&path).read_only(true).open()?;
    /// writer.topic("orders").produce(Message::new("one pear"))?;
    /// assert_eq!(reader.topic("orders").offsets(0)?.next.get(), 1);
    /// let refused = reader.topic("orders").produce(Message::new("one plum")).unwrap_err();
    /// assert_eq!(refused.kind(), ErrorKind::ReadOnly);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn read_only(mut self, read_only: bool) -> Self {
        self.settings.read_only = read_only;
        self
    }

    /// Sets the interval of background syncs with [`Durability::Os`]: see
    /// [`Settings::sync_interval_ms`].
    pub fn sync_interval(mut self, interval: Duration) -> Self {
        self.settings.sync_interval_ms = milliseconds(interval);
        self
    }

    /// Sets the bytes of log between two checkpoints: see [`Settings::checkpoint_bytes`].
    pub fn checkpoint_bytes(mut self, bytes: u64) -> Self {
        self.settings.checkpoint_bytes = bytes;
        self
    }

    /// Sets the largest state that is saved while commits wait, in bytes: see
    /// [`Settings::checkpoint_pause_bytes`].
    pub fn checkpoint_pause_bytes(mut self, bytes: u64) -> Self {
        self.settings.checkpoint_pause_bytes = bytes;
        self
    }

    /// Sets how long superseded history is kept: see [`Settings::history_ms`].
    pub fn history(mut self, history: Duration) -> Self {
        self.settings.history_ms = milliseconds(history);
        self
    }

    /// Sets the interval of background compactions: see [`Settings::compact_interval_ms`].
    pub fn compact_interval(mut self, interval: Duration) -> Self {
        self.settings.compact_interval_ms = milliseconds(interval);
        self
    }

    /// Sets the unused share, in percent, from which a segment is rewritten: see
    /// [`Settings::compact_percent_min`].
    pub fn compact_percent_min(mut self, percent: u8) -> Self {
        self.settings.compact_percent_min = percent;
        self
    }

    /// Sets the largest log, in bytes. Beyond it, topics trim their oldest records, whatever else
    /// they retain, except records that a group protects and has not read. Default: unbounded.
    ///
    /// * The limit is checked each minute, and whenever the log has grown by a sixteenth of it.
    /// * It is kept by whole segments, which are compacted after the second checkpoint that follows
    ///   them.
    /// * Events, jobs, graphs and compacted topics count and stay. If they exceed the limit alone,
    ///   topics keep only the records of the last segment.
    pub fn log_bytes_max(mut self, bytes: u64) -> Self {
        self.settings.log_bytes_max = Some(bytes);
        self
    }

    /// Sets the most keys that a compaction of topics holds in memory: see
    /// [`Settings::compact_keys_max`].
    pub fn compact_keys_max(mut self, keys: usize) -> Self {
        self.settings.compact_keys_max = keys;
        self
    }

    /// Sets the smallest batch, in bytes of records, that this process compresses when the topic
    /// has a codec. Default: 4 KiB; 0 compresses every batch that shrinks. A batch that arrives
    /// compressed is stored as it is.
    ///
    /// A single message of a few hundred bytes hardly shrinks. Where many are written one by one,
    /// [`pack_segments`](Self::pack_segments) compresses them together later.
    ///
    /// ```
    /// use quire::streams::{TopicSettings, wire::Codec};
    /// use quire::{Database, Message};
    ///
    /// # let directory = tempfile::tempdir()?;
    /// # let path = directory.path().join("data");
    /// let db = Database::builder(&path).compress_bytes_min(512).open()?;
    /// let topic = db.topic("pages");
    /// topic.create_with(1, TopicSettings { compression: Codec::Zstd, ..TopicSettings::default() })?;
    /// topic.produce(Message::new("<p>hello</p>".repeat(100)))?;
    /// assert!(topic.statistics().expect("it was created").partitions[0].bytes < 200);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn compress_bytes_min(mut self, bytes: usize) -> Self {
        self.settings.compress_bytes_min = bytes;
        self
    }

    /// Sets the most bytes of blocks and edges on the heap, for all graphs together. Default:
    /// unbounded; a block takes about 62 bytes, an edge 38.
    ///
    /// * Beyond the limit, blocks and edges are in mapped files without a name. A graph larger than
    ///   memory works, slower.
    /// * Without a limit, or from 256 MiB on, large arrays are mapped in slabs that use large
    ///   pages. They count as heap.
    /// * A checkpoint of a large state shares the limit.
    /// * Names, kinds, edge types, free slots and the memory of walks do not count.
    pub fn graph_memory_bytes(mut self, bytes: u64) -> Self {
        self.settings.graph_memory_bytes = Some(bytes);
        self
    }

    /// Sets the directory of the mapped files beyond
    /// [`graph_memory_bytes`](Self::graph_memory_bytes). Default: the directory of the database;
    /// memory, when the database is read-only.
    pub fn graph_memory_directory(mut self, directory: impl Into<PathBuf>) -> Self {
        self.settings.graph_memory_directory = Some(directory.into());
        self
    }

    /// Sets the most sealed segments that stay mapped without a reader: see
    /// [`Settings::segments_open_max`].
    pub fn segments_open_max(mut self, segments: usize) -> Self {
        self.settings.segments_open_max = segments;
        self
    }

    /// Sets whether a compaction compresses the segments that it rewrites, with Zstandard, in
    /// frames of about 16 KiB. Default: false.
    ///
    /// * Segments that shrink are rewritten once for this alone, after two checkpoints.
    /// * Packed segments are readable whatever this setting is, in every process, and stay packed.
    /// * JSON shrinks to about a quarter. Reading a frame that is not in memory takes about 30
    ///   microseconds.
    /// * A packed segment counts as compacted, so the database needs one of its checkpoints to be
    ///   opened.
    pub fn pack_segments(mut self, pack: bool) -> Self {
        self.settings.pack_segments = pack;
        self
    }

    /// Sets the most bytes of unpacked segments that stay in memory without a reader: see
    /// [`Settings::unpacked_bytes_max`].
    pub fn unpacked_bytes_max(mut self, bytes: u64) -> Self {
        self.settings.unpacked_bytes_max = bytes;
        self
    }

    /// Sets the rate of background verification, in bytes per second: see
    /// [`Settings::scrub_bytes_per_second`].
    pub fn scrub_bytes_per_second(mut self, bytes: u64) -> Self {
        self.settings.scrub_bytes_per_second = bytes;
        self
    }

    /// Sets the most partitions of all topics together: see [`Settings::partitions_max`].
    pub fn partitions_max(mut self, partitions: u64) -> Self {
        self.settings.partitions_max = partitions;
        self
    }

    /// Sets the most consumer groups: see [`Settings::groups_max`].
    pub fn groups_max(mut self, groups: u64) -> Self {
        self.settings.groups_max = groups;
        self
    }

    /// Sets the most bytes of committed offsets: see [`Settings::offset_bytes_max`].
    pub fn offset_bytes_max(mut self, bytes: u64) -> Self {
        self.settings.offset_bytes_max = bytes;
        self
    }

    /// Sets the most event stores: see [`Settings::stores_max`].
    pub fn stores_max(mut self, stores: u64) -> Self {
        self.settings.stores_max = stores;
        self
    }

    /// Sets the most queues: see [`Settings::queues_max`].
    pub fn queues_max(mut self, queues: u64) -> Self {
        self.settings.queues_max = queues;
        self
    }

    /// Sets the most graphs: see [`Settings::graphs_max`].
    pub fn graphs_max(mut self, graphs: u64) -> Self {
        self.settings.graphs_max = graphs;
        self
    }

    /// Sets the most bytes of jobs in memory: see [`Settings::job_bytes_max`].
    pub fn job_bytes_max(mut self, bytes: u64) -> Self {
        self.settings.job_bytes_max = bytes;
        self
    }

    /// Sets the most bytes of names in event stores: see [`Settings::store_bytes_max`].
    pub fn store_bytes_max(mut self, bytes: u64) -> Self {
        self.settings.store_bytes_max = bytes;
        self
    }

    /// Sets how long idempotency keys are kept: see [`Settings::idempotency_retention_ms`].
    pub fn idempotency_retention(mut self, retention: Duration) -> Self {
        self.settings.idempotency_retention_ms = milliseconds(retention);
        self
    }

    /// Sets the most idempotency keys that are kept: see [`Settings::idempotency_keys_max`].
    pub fn idempotency_keys_max(mut self, keys: u32) -> Self {
        self.settings.idempotency_keys_max = keys;
        self
    }

    /// Sets the most steps of one request to a server of this process: see
    /// [`Settings::request_steps_max`].
    pub fn request_steps_max(mut self, steps: u64) -> Self {
        self.settings.request_steps_max = steps;
        self
    }

    /// Sets the id of the database, if it is created. Default: random. The id seeds the hashes of
    /// tags, so it must be unique and hard to guess.
    pub fn id(mut self, id: u128) -> Self {
        self.id = Some(id);
        self
    }

    /// Sets whether the database is a node of a cluster: another component publishes its records,
    /// and decides whether it may commit. See `quire_cluster`. Default: false.
    #[doc(hidden)]
    pub fn member(mut self, is_member: bool) -> Self {
        self.is_member = is_member;
        self
    }

    /// The directory, and the storage of its files.
    pub(crate) fn place(&self) -> (&Path, &Arc<dyn Storage>) {
        (&self.path, &self.components.storage)
    }

    /// Sets the clock. Default: [`SystemClock`](crate::SystemClock).
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.components.clock = clock;
        self
    }

    /// Sets the storage of the files. Default: [`Disk`](crate::Disk).
    pub fn storage(mut self, storage: Arc<dyn Storage>) -> Self {
        self.components.storage = storage;
        self
    }

    /// Sets where background duties run. Default: [`Background::Threads`]. With
    /// [`Background::Caller`], they run only in [`Database::carry_out`].
    pub fn background(mut self, background: Background) -> Self {
        self.components.background = background;
        self
    }

    /// Opens the database.
    ///
    /// # Errors
    /// [`ErrorKind::NotADatabase`], [`ErrorKind::InUse`], [`ErrorKind::NewerFormat`],
    /// [`ErrorKind::Damaged`], [`ErrorKind::Invalid`] for settings, [`ErrorKind::NoSpace`] and
    /// [`ErrorKind::Io`].
    pub fn open(self) -> Result<Database> {
        Ok(self.open_and_report()?.database)
    }

    /// Opens the database, and returns the report of its recovery.
    ///
    /// ```
    /// use quire::Database;
    ///
    /// # let directory = tempfile::tempdir()?;
    /// let tenant = 17;
    /// let path = directory.path().join(format!("tenant-{tenant}"));
    /// let opened = Database::builder(&path).open_and_report()?;
    /// assert!(opened.recovery.damage.is_empty());
    /// assert_eq!(opened.database.published().get(), 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Builder::open`].
    pub fn open_and_report(mut self) -> Result<OpenedDatabase> {
        if !self.settings.read_only {
            return self.open_now();
        }
        self.components.background = Background::Caller;
        let below = Arc::clone(&self.components.storage);
        let mut before = None;
        for _ in 1..ATTEMPTS_MAX {
            match self.clone().open_snapshot(&below) {
                // Another process may have removed files since they were listed. Real damage is
                // there at the next attempt, too.
                Err(error) if is_missing_file(&error) || error.kind() == ErrorKind::Damaged => {
                    let message = Some(error.to_string());
                    if message == before {
                        return Err(error);
                    }
                    before = message;
                }
                opened => return opened,
            }
        }
        self.open_snapshot(&below)
    }

    /// Opens a snapshot of the files. A record that is being appended is no torn tail: only known
    /// records can be lost.
    fn open_snapshot(self, below: &Arc<dyn Storage>) -> Result<OpenedDatabase> {
        let mut opening = self.storage(Arc::new(Snapshot::of(Arc::clone(below)))).open_now()?;
        opening.recovery.cut.take_if(|cut| cut.records.is_none() && !cut.synced);
        Ok(opening)
    }

    fn open_now(self) -> Result<OpenedDatabase> {
        let problems = self.settings.problems();
        if !problems.is_empty() {
            return Err(quire_log::Error::Settings { problems }.into());
        }
        let Builder { path, settings, id, is_member, components } = self;
        if is_member {
            crate::tools::finish_receiving(&path)?;
        }
        let meta = match settings.read_only {
            true => Meta::read(&*components.storage, &path)?,
            false => Meta::open_or_create(&*components.storage, &path, settings.create, || {
                id.unwrap_or_else(|| uuid::Uuid::new_v4().as_u128())
            })?,
        };
        let node = MemberFile::read(&*components.storage, &path)?;
        if let Some(file) = node.filter(|_| !is_member && !settings.read_only) {
            let message = format!(
                "{} is node {} of a cluster: serve it with `quire serve --cluster-listen`, or open it read-only",
                path.display(),
                file.node
            );
            return Err(Error::new(ErrorKind::InUse, message));
        }
        let identity = Identity { database: meta.database, shard: 0 };
        let (storage, background) = (Arc::clone(&components.storage), components.background);
        let graph_memory = || match (settings.graph_memory_bytes, &settings.graph_memory_directory) {
            (Some(heap_bytes_max), Some(directory)) => {
                graph_memory::bounded_elsewhere(&GraphMemory { heap_bytes_max, folder: directory.clone() })
            }
            (Some(bytes), None) => graph_memory::bounded(storage, &path, bytes),
            (None, _) => graph_memory::unbounded(),
        };
        let mut shard_settings = settings.shard();
        if is_member {
            check_member(&settings)?;
            shard_settings.log.publisher = Publisher::Owner;
            shard_settings.log.exclusive = true;
        }
        let (shard, mut recovery) = Shard::open(&path.join(SHARD), identity, shard_settings, components, graph_memory)?;
        let replayed = shard.replayed();
        let database = Database::start(shard, background, settings.request_steps_max)?;
        if settings.read_only {
            // Nothing is cut from the file: the torn tail is skipped and stays.
            recovery.cut.iter_mut().for_each(|cut| cut.kept = None);
        }
        Ok(OpenedDatabase { database, recovery, replayed })
    }
}

/// Checks that a database with these settings can be a node of a cluster.
fn check_member(settings: &Settings) -> Result<()> {
    let problem = match settings {
        Settings { read_only: true, .. } => "a read-only database can't be a node of a cluster",
        Settings { durability: Some(Durability::Os), .. } => {
            "a node of a cluster has the durability `sync`, not `os`: a majority acknowledges what is on its disks"
        }
        _ => return Ok(()),
    };
    Err(Error::new(ErrorKind::Invalid, problem))
}

/// Returns whole milliseconds, rounded up.
fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros().div_ceil(1_000)).unwrap_or(u64::MAX)
}

fn is_missing_file(error: &Error) -> bool {
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        if error.downcast_ref::<std::io::Error>().is_some_and(|error| error.kind() == std::io::ErrorKind::NotFound) {
            return true;
        }
        cause = error.source();
    }
    false
}
