//! Opening a database: settings, and the components that act.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use quire_log::{Background, Clock, Components, Durability, Identity, Recovery, Settings, Snapshot, Storage};
use quire_shard::graph_memory::{self, GraphMemory};
use quire_shard::{COMPRESS_BYTES_MIN, CheckpointSettings, KEYS_MAX, Retention, Shard, ShardSettings};

use crate::database::Database;
use crate::meta::{Meta, SHARD};
use crate::profile::Profile;
use crate::{Error, ErrorKind, Result};

const COMMIT_BYTES_LEAST: u64 = 64;
const WEEK_MS: u64 = 7 * 24 * 60 * 60 * 1000;

/// How a database is to be opened. See [`Database::builder`].
#[derive(Debug, Clone)]
#[must_use = "a builder does nothing until it is opened"]
pub struct Builder {
    path: PathBuf,
    create: bool,
    log: Settings,
    commit_bytes_max: Option<u64>,
    checkpoints: CheckpointSettings,
    retention: Retention,
    compress_bytes_min: usize,
    graph_memory_bytes: Option<u64>,
    graph_memory_folder: Option<PathBuf>,
    id: Option<u128>,
    read_only: bool,
    components: Components,
}

/// How often a database is looked at again that others have changed while it was opened to be read.
const LOOKS_MAX: u32 = 5;

/// A database that was opened, and what was found.
#[derive(Debug)]
pub struct Opening {
    /// The database.
    pub database: Database,
    /// What the log went through: how much there is, and what was cut off a torn tail.
    pub recovery: Recovery,
}

impl Builder {
    pub(crate) fn new(path: &Path) -> Self {
        Builder {
            path: path.to_owned(),
            create: true,
            log: Settings { adopts_durability: true, ..Settings::default() },
            commit_bytes_max: None,
            checkpoints: CheckpointSettings { interval_bytes: 64 << 20, pause_bytes: 1 << 20 },
            retention: Retention {
                history_ms: WEEK_MS,
                compact_interval_ms: 60_000,
                compact_percent_min: 50,
                compact_keys_max: KEYS_MAX,
                log_bytes_max: None,
            },
            compress_bytes_min: COMPRESS_BYTES_MIN,
            graph_memory_bytes: None,
            graph_memory_folder: None,
            id: None,
            read_only: false,
            components: Components::default(),
        }
    }

    /// When a commit counts as kept, the same for all who have the database open at a time: opening fails when others have it open
    /// with the other one. Default: theirs, or else [`Durability::Sync`].
    pub fn durability(mut self, durability: Durability) -> Self {
        self.log.durability = durability;
        self.log.adopts_durability = false;
        self
    }

    /// Whether a directory without a database becomes one. Default: yes.
    pub fn create(mut self, create: bool) -> Self {
        self.create = create;
        self
    }

    /// Sets what goes together for what the database is to be good at. Single settings can be changed after it.
    pub fn profile(self, profile: Profile) -> Self {
        profile.apply(self)
    }

    /// The length of a segment file in bytes. Default: 64 MiB; 4 KiB to 4 GiB - 1.
    pub fn segment_bytes(mut self, bytes: u64) -> Self {
        self.log.segment_bytes = bytes;
        self
    }

    /// The most bytes that one commit may take in the log: 64 to `segment_bytes` less 128. Default: 16 MiB, or what a smaller
    /// segment holds.
    pub fn commit_bytes_max(mut self, bytes: u64) -> Self {
        self.commit_bytes_max = Some(bytes);
        self
    }

    /// Whether others are kept out while the database is open, in this process and in others; opening fails when somebody has
    /// it open. Default: no; several processes share a database.
    pub fn exclusive(mut self, exclusive: bool) -> Self {
        self.log.exclusive = exclusive;
        self
    }

    /// Whether the database is opened as it is now, to be read only. Default: no.
    ///
    /// No file of it is changed, locked or made, so it may lie where this process must not write, and whoever has it open goes on.
    /// What they commit from now on is not seen. What a compaction takes away from now on is an error of the read that wants
    /// it: open the database again. Of a [`Durability::Sync`] database, commits may be seen that are not acknowledged yet. A torn tail is left
    /// out, and stays. Segments that take records are copied to memory, and nothing is done in the background. A commit is refused
    /// with [`ErrorKind::ReadOnly`].
    ///
    /// ```
    /// use quire::{Database, Durability, ErrorKind, Message};
    ///
    /// # let directory = tempfile::tempdir()?;
    /// # let path = directory.path().join("data");
    /// let writer = Database::builder(&path).durability(Durability::Os).open()?;
    /// writer.topic("orders").produce(&Message::new("one apple"))?;
    ///
    /// let reader = Database::builder(&path).read_only(true).open()?;
    /// writer.topic("orders").produce(&Message::new("one pear"))?;
    /// assert_eq!(reader.topic("orders").offsets(0)?.next.get(), 1);
    /// let refused = reader.topic("orders").produce(&Message::new("one plum")).unwrap_err();
    /// assert_eq!(refused.kind(), ErrorKind::ReadOnly);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn read_only(mut self, read_only: bool) -> Self {
        self.read_only = read_only;
        self
    }

    /// How often a database with [`Durability::Os`] syncs in the background, in milliseconds. Default: 100.
    pub fn sync_interval_ms(mut self, interval_ms: u64) -> Self {
        self.log.sync_interval_ms = interval_ms;
        self
    }

    /// After how many bytes of log the models' state is saved, so that a restart has about so much to replay; a state that takes
    /// more itself is saved after so many bytes as it takes. Default: 64 MiB; at least 4 KiB.
    pub fn checkpoint_bytes(mut self, bytes: u64) -> Self {
        self.checkpoints.interval_bytes = bytes;
        self
    }

    /// The largest state, in bytes, that is saved while commits wait: about a millisecond a MiB. Default: 1 MiB. A larger one is made
    /// once more beside it, from the checkpoint before and the log behind that; commits then wait for nothing, and the state takes
    /// its memory twice until it is saved. 0 never has commits wait, `u64::MAX` never takes memory twice.
    pub fn checkpoint_pause_bytes(mut self, bytes: u64) -> Self {
        self.checkpoints.pause_bytes = bytes;
        self
    }

    /// How long what only tells how things came to be is kept, in milliseconds: the entries of finished jobs, and offsets that a
    /// group has moved on from. Default: 7 days. What is older goes with the next compaction. Events, graphs with all their
    /// versions, and the messages that a topic's settings retain, are kept whatever their age.
    pub fn history_ms(mut self, history_ms: u64) -> Self {
        self.retention.history_ms = history_ms;
        self
    }

    /// How often it is looked at what no longer counts, in milliseconds. Default: 60,000; at least 1.
    pub fn compact_interval_ms(mut self, interval_ms: u64) -> Self {
        self.retention.compact_interval_ms = interval_ms;
        self
    }

    /// How much of a segment has to be of no use before it is rewritten without it, in percent of its bytes. Default: 50; 1 to
    /// 100. A lower one gives back disk space earlier, and rewrites more. What an event store was told to forget is rewritten however
    /// little it is.
    pub fn compact_percent_min(mut self, percent: u8) -> Self {
        self.retention.compact_percent_min = percent;
        self
    }

    /// How many bytes of the disk the log takes, at most, as far as topics can let go of theirs: when it takes more, the oldest records
    /// of all topics go that do not only compact, whatever else those topics retain, but for what a group protects and has not read.
    /// Default: no bound.
    ///
    /// It is looked at whenever the process that carries out such duties commits and a sixteenth of it was appended, and each minute, and kept by whole segments, which are compacted once two
    /// checkpoints are behind them. Events, jobs, graphs and compacted topics count, and stay: when they alone take
    /// more, topics keep what the last segment holds. Records that are gone are told to a consumer as all those that retention took.
    pub fn log_bytes_max(mut self, bytes: u64) -> Self {
        self.retention.log_bytes_max = Some(bytes);
        self
    }

    /// How many keys of topics with [`Cleanup::Compact`](crate::streams::Cleanup::Compact) a compaction knows at a time, of all their
    /// partitions together; each takes about 28 bytes while it runs. Default: 1,835,008, which are 52 MiB; at least 1.
    ///
    /// Of a partition with more keys, a look lets go of the older records of a share of them, and the next one of another
    /// share's; [`Database::compact`](crate::Database::compact) looks as often as there are shares. Records that tell that their keys are gone then stay where they stand in one batch with those of another share.
    pub fn compact_keys_max(mut self, keys: usize) -> Self {
        self.retention.compact_keys_max = keys;
        self
    }

    /// From how many bytes of records on a batch is compressed that is produced here to a topic that says a codec; a shorter one is
    /// stored as it is. Default: 4 KiB; 0 compresses whatever gets smaller by it. What comes compressed is stored as it came.
    ///
    /// A message of a few hundred bytes hardly gets smaller alone, and Zstandard takes some ten microseconds for it. Where many are
    /// written one by one, [`pack_segments`](Self::pack_segments) compresses them together once they are old.
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
    /// topic.produce(&Message::new(&"<p>hello</p>".repeat(100)))?;
    /// assert!(topic.statistics().expect("it was created").partitions[0].bytes < 200);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn compress_bytes_min(mut self, bytes: usize) -> Self {
        self.compress_bytes_min = bytes;
        self
    }

    /// How many bytes of blocks and edges graphs keep on the heap, all of them together. What is beyond is kept in mapped files
    /// without a name in the database's folder, of which the kernel keeps in memory what it has room for: a graph larger than
    /// memory works, slower. Default: no bound, and everything is in memory; a block takes about 62 bytes, an edge 38.
    ///
    /// Without a bound, or from 256 MiB on, large arrays are mapped in slabs for which large pages are asked of the system, and count as if
    /// they were on the heap; what of a slab was not used yet takes no memory.
    ///
    /// A checkpoint of a large state is made beside it and shares the bound. What does not count: the names of graphs, kinds and
    /// edge types, slots that are free, and what a walk remembers, which its own bounds limit.
    pub fn graph_memory_bytes(mut self, bytes: u64) -> Self {
        self.graph_memory_bytes = Some(bytes);
        self
    }

    /// Where what is beyond [`graph_memory_bytes`](Self::graph_memory_bytes) is kept: a folder of the machine's file system. Default: the
    /// database's folder; opened to be read only, memory, of which the system can take back only what it can swap.
    pub fn graph_memory_folder(mut self, folder: impl Into<PathBuf>) -> Self {
        self.graph_memory_folder = Some(folder.into());
        self
    }

    /// How many sealed segments stay mapped though nobody reads them, at most. Default: 1,024; at least 1.
    pub fn segments_open_max(mut self, segments: usize) -> Self {
        self.log.segments_open_max = segments;
        self
    }

    /// Whether segments are packed when they are compacted: what is left is compressed with Zstandard, in pieces of about 16 KiB, of which
    /// the one is unpacked that is read. Segments that get smaller by it are rewritten for that alone, once, after the state was saved
    /// twice behind them. Default: no. What is packed is read whatever is set here, also by others that have the database open, and stays packed
    /// when it is rewritten.
    ///
    /// JSON takes about a quarter; batches that their producers compressed stay as they are. Reading a piece that is not in memory takes
    /// some 30 µs. A packed segment counts as compacted, so the database needs one of its checkpoints to be opened.
    pub fn pack_segments(mut self, pack: bool) -> Self {
        self.log.pack_segments = pack;
        self
    }

    /// How many bytes of what is unpacked of packed segments stay in memory though nobody reads them, at most. Default: 64 MiB.
    /// Whoever reads keeps what it has unpacked until it is done.
    pub fn unpacked_bytes_max(mut self, bytes: u64) -> Self {
        self.log.unpacked_bytes_max = bytes;
        self
    }

    /// How many bytes of sealed segments are verified a second, in the background. Default: 4 MiB; 0 for none.
    pub fn scrub_bytes_per_second(mut self, bytes: u64) -> Self {
        self.log.scrub_bytes_per_second = bytes;
        self
    }

    /// The number that the database is known by if it is created. Default: drawn at random, so that no two have the same;
    /// who chooses it sees to that, and to its not being guessed: hashes of tags are seeded with it.
    pub fn id(mut self, id: u128) -> Self {
        self.id = Some(id);
        self
    }

    /// Where the time comes from. Default: [`SystemClock`](crate::SystemClock).
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.components.clock = clock;
        self
    }

    /// Where the files are. Default: [`Disk`](crate::Disk).
    pub fn storage(mut self, storage: Arc<dyn Storage>) -> Self {
        self.components.storage = storage;
        self
    }

    /// Who carries out what is done in the background. Default: [`Background::Threads`]. With [`Background::Caller`], it is
    /// whoever calls [`Database::carry_out`], and nobody else.
    pub fn background(mut self, background: Background) -> Self {
        self.components.background = background;
        self
    }

    /// Opens the database.
    ///
    /// # Errors
    /// [`ErrorKind::NotADatabase`], [`ErrorKind::InUse`], [`ErrorKind::NewerFormat`], [`ErrorKind::Damaged`],
    /// [`ErrorKind::Invalid`] for settings, [`ErrorKind::NoSpace`] and [`ErrorKind::Io`].
    pub fn open(self) -> Result<Database> {
        Ok(self.open_and_report()?.database)
    }

    /// Opens the database and says what was found.
    ///
    /// # Errors
    /// As [`Builder::open`].
    pub fn open_and_report(mut self) -> Result<Opening> {
        if !self.read_only {
            return self.open_now();
        }
        self.components.background = Background::Caller;
        let below = Arc::clone(&self.components.storage);
        let mut before = None;
        for _ in 1..LOOKS_MAX {
            match self.clone().look(&below) {
                // Others may have taken away files since the names were listed, or saved and compacted what others rest on: what is
                // damaged is so at the next look, too.
                Err(error) if is_missing_file(&error) || error.kind() == ErrorKind::Damaged => {
                    let told = Some(error.to_string());
                    if told == before {
                        return Err(error);
                    }
                    before = told;
                }
                opened => return opened,
            }
        }
        self.look(&below)
    }

    /// Opens what is on `below` now. A record that others are just appending, or that came after the copy had passed its place,
    /// is no torn tail: what is lost is what was known to be there.
    fn look(self, below: &Arc<dyn Storage>) -> Result<Opening> {
        let mut builder = self.storage(Arc::new(Snapshot::of(Arc::clone(below))));
        // A record that its owner has not published may be truncated.
        builder.log.only_published = true;
        let mut opening = builder.open_now()?;
        opening.recovery.cut.take_if(|cut| cut.records.is_none() && !cut.synced);
        Ok(opening)
    }

    fn open_now(mut self) -> Result<Opening> {
        self.log.record_bytes_max = self.log.record_bytes_max.min(self.commit_bytes_most()).max(COMMIT_BYTES_LEAST);
        let problems = self.problems();
        if !problems.is_empty() {
            return Err(quire_log::Error::Settings { problems }.into());
        }
        if let Some(bytes) = self.commit_bytes_max {
            self.log.record_bytes_max = bytes;
        }
        let meta = match self.read_only {
            true => Meta::read(&*self.components.storage, &self.path)?,
            false => Meta::open_or_create(&*self.components.storage, &self.path, self.create, || {
                self.id.unwrap_or_else(|| uuid::Uuid::new_v4().as_u128())
            })?,
        };
        let identity = Identity { database: meta.database, shard: 0 };
        let (storage, background) = (Arc::clone(&self.components.storage), self.components.background);
        let settings = ShardSettings {
            log: self.log,
            checkpoints: self.checkpoints,
            retention: self.retention,
            compress_bytes_min: self.compress_bytes_min,
            read_only: self.read_only,
        };
        let graph_memory = || match (self.graph_memory_bytes, self.graph_memory_folder) {
            (Some(heap_bytes_max), Some(folder)) => {
                graph_memory::bounded_elsewhere(&GraphMemory { heap_bytes_max, folder })
            }
            (Some(bytes), None) => graph_memory::bounded(storage, &self.path, bytes),
            (None, _) => graph_memory::unbounded(),
        };
        let (shard, mut recovery) =
            Shard::open(&self.path.join(SHARD), identity, settings, self.components, graph_memory)?;
        let database = Database::start(shard, background)?;
        if self.read_only {
            // Of a torn tail nothing is cut here: it is left out, and stays as it is.
            recovery.cut.iter_mut().for_each(|cut| cut.kept = None);
        }
        Ok(Opening { database, recovery })
    }

    /// What a segment holds, with a little to spare.
    fn commit_bytes_most(&self) -> u64 {
        self.log.segment_bytes.saturating_sub(128)
    }

    /// Every problem with the settings, one sentence each.
    fn problems(&self) -> Vec<String> {
        let mut problems = self.log.problems();
        // This follows from the segments' length, of which there is a sentence already.
        problems.retain(|problem| !problem.starts_with("record_bytes_max"));
        let commit_bytes = COMMIT_BYTES_LEAST..=self.commit_bytes_most();
        if let Some(bytes) = self.commit_bytes_max.filter(|bytes| !commit_bytes.contains(bytes)) {
            let most = commit_bytes.end();
            problems.push(format!("commit_bytes_max is {bytes}, and must lie in {COMMIT_BYTES_LEAST}..={most}"));
        }
        if self.retention.compact_interval_ms == 0 {
            problems.push("compact_interval_ms is 0, and must be at least 1".to_owned());
        }
        if !(1..=100).contains(&self.retention.compact_percent_min) {
            let percent = self.retention.compact_percent_min;
            problems.push(format!("compact_percent_min is {percent}, and must lie in 1..=100"));
        }
        if self.retention.compact_keys_max == 0 {
            problems.push("compact_keys_max is 0, and must be at least 1".to_owned());
        }
        let checkpoint_bytes = self.checkpoints.interval_bytes;
        if checkpoint_bytes < 4096 {
            problems.push(format!("checkpoint_bytes is {checkpoint_bytes}, and must be at least 4096"));
        }
        problems
    }
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
