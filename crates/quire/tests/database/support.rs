//! Shared by the tests: a directory to open again and again, the driver [`check`], and
//! [`everything`] readable.

use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::future::Future;
use std::io;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

use quire::graph::{BlockId, Direction};
use quire::jobs::{Filter, JobState, States};
use quire::{Access, Builder, CommitRefusal, Database, Disk, Durability, Outcome, Position, Storage, StoredFile};

/// Names of blocks that [`everything`] reads, because a graph does not list its blocks.
pub(crate) const BLOCKS: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

/// A directory for a database, removed at the end of the test.
pub(crate) struct Place {
    directory: tempfile::TempDir,
}

impl Place {
    pub(crate) fn new() -> Self {
        Place { directory: tempfile::tempdir().expect("a temporary directory") }
    }

    /// The path of the database.
    pub(crate) fn path(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    /// The path of the shard's files.
    pub(crate) fn shard(&self) -> PathBuf {
        self.path().join("shard-0000")
    }

    /// A builder with segments so small that tests fill several.
    pub(crate) fn builder(&self, durability: Durability) -> Builder {
        Database::builder(self.path()).durability(durability).segment_bytes(64 << 10)
    }

    pub(crate) fn open(&self, durability: Durability) -> Database {
        self.builder(durability).open().expect("the database opens")
    }

    /// Removed files of the database that this process still has mapped.
    pub(crate) fn mapped_and_gone(&self) -> usize {
        let maps = fs::read_to_string("/proc/self/maps").expect("Linux tells what is mapped");
        let path = self.path();
        let path = path.to_str().expect("text");
        maps.lines().filter(|line| line.contains(path) && line.ends_with("(deleted)")).count()
    }

    pub(crate) fn checkpoints(&self) -> Vec<PathBuf> {
        files(&self.shard(), ".checkpoint")
    }

    pub(crate) fn remove_checkpoints(&self) {
        self.checkpoints().iter().for_each(|path| fs::remove_file(path).expect("a checkpoint is removed"));
    }
}

/// The files of a directory whose names have this ending, in order.
pub(crate) fn files(directory: &Path, suffix: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).expect("the directory is there");
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.retain(|path| path.to_string_lossy().ends_with(suffix));
    paths.sort();
    paths
}

/// Plays a scenario in an `os` and in a `sync` database, and checks the readable data. It checks at
/// once, after a restart from a checkpoint, and after a restart without a checkpoint.
pub(crate) fn check(scenario: impl Fn(&Database), expect: impl Fn(&Database)) {
    for durability in [Durability::Os, Durability::Sync] {
        let place = Place::new();
        let database = place.open(durability);
        scenario(&database);
        expect(&database);
        let live = everything(&database);
        drop(database);
        for restart in ["a restart", "a restart without a checkpoint"] {
            if restart.contains("without") {
                place.remove_checkpoints();
            }
            let database = place.open(durability);
            expect(&database);
            assert_eq!(live, everything(&database), "{durability}, after {restart}");
        }
    }
}

/// Everything readable in a database, one line for each fact.
pub(crate) fn everything(database: &Database) -> Vec<String> {
    let read = database.read(|view| {
        let mut lines = Vec::new();
        let mut position = Position::new(1);
        while let Some(record) = view.history.record(position).unwrap() {
            lines.extend(record.map(|entry| {
                let tags: Vec<_> = entry.tags.iter().collect();
                let (kind, body) = (entry.kind.kind, entry.body.escape_ascii());
                let model = entry.kind.model.get();
                format!(
                    "{} {} {model}.{kind} {:?} {} {tags:?} {body}",
                    entry.place, entry.time, entry.sequence, entry.count
                )
            }));
            position = position.next();
        }
        for topic in view.streams.topics() {
            let offsets = |partition| view.streams.offsets(view.history, topic.id, partition).expect("readable");
            let offsets: Vec<_> = (0..topic.partitions).map(offsets).collect();
            lines.push(format!("{topic:?} {offsets:?}"));
        }
        for group in view.streams.groups() {
            for topic in view.streams.shared_topics(group.name) {
                let members = view.streams.members(group.name, topic);
                let shares = members.map(|it| (it, view.streams.share(group.name, topic, it.id).map(Vec::from_iter)));
                lines.push(format!("{topic} {:?}", shares.collect::<Vec<_>>()));
            }
            lines.push(format!("{group:?} {:?}", view.streams.committed_by(group.name).collect::<Vec<_>>()));
        }
        for (queue, stats) in view.jobs.queues() {
            lines.push(format!("queue {queue} {stats:?}"));
            for state in JobState::ALL {
                let filter = Filter { queue: Some(queue), states: States::of([state]), ..Filter::default() };
                let page = view.jobs.search(view.history, &filter, None, 10_000).expect("readable");
                let views = page.jobs.iter().map(|id| view.jobs.job(view.history, *id).expect("readable"));
                lines.extend(views.map(|job| format!("{state} {job:?}")));
            }
        }
        for (name, graph) in view.graphs.iter() {
            lines.push(format!("graph {name}: {} blocks, {} edges", graph.block_count(), graph.edge_count()));
            for id in BLOCKS.map(BlockId::of_name) {
                let block = graph.block(view.history, id).expect("readable");
                let content = block.map(|block| block.content.escape_ascii().to_string());
                let neighbours: Vec<_> = graph.neighbours(id, Direction::Both, &[], None).collect();
                lines.push(format!("{block:?} {content:?} {neighbours:?}"));
            }
        }
        lines
    });
    read.expect("readable").wait().expect("durable")
}

/// The refusal of a commit that must be refused.
pub(crate) fn refusal(outcome: Outcome) -> CommitRefusal {
    outcome.refused().expect("a refusal")
}

/// Polls a future to its end on this thread: all the runtime that a ticket needs.
pub(crate) fn block_on<T>(future: impl IntoFuture<Output = T>) -> T {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut future = pin!(future.into_future());
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(answer) => return answer,
            Poll::Pending => std::thread::park(),
        }
    }
}

/// The machine's disk with a hook that runs before a file is opened, and may refuse it.
pub(crate) struct Before<F>(pub(crate) F);

impl<F> fmt::Debug for Before<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Before")
    }
}

impl<F: Fn(&Path, Access) -> io::Result<()> + Send + Sync> Storage for Before<F> {
    fn list(&self, directory: &Path) -> io::Result<Vec<OsString>> {
        Disk.list(directory)
    }

    fn create_directories(&self, path: &Path) -> io::Result<Vec<PathBuf>> {
        Disk.create_directories(path)
    }

    fn remove_directory(&self, path: &Path) -> io::Result<()> {
        Disk.remove_directory(path)
    }

    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn StoredFile>> {
        (self.0)(path, access)?;
        Disk.open(path, access)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        Disk.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        Disk.remove(path)
    }
}

/// A disk that reports each reader of a checkpoint, and lets it continue on request.
#[derive(Debug, Default)]
pub(crate) struct Telling {
    /// A thread begins to read a checkpoint; it waits for the answer.
    reads: Mutex<Option<(Sender<PathBuf>, Receiver<()>)>>,
}

impl Telling {
    /// Pauses later readers of checkpoints. Each one is reported, and continues on request.
    pub(crate) fn hold(&self) -> (Receiver<PathBuf>, Sender<()>) {
        let ((tell, told), (go_on, waits)) = (channel(), channel());
        *self.reads.lock().expect("no panic") = Some((tell, waits));
        (told, go_on)
    }

    /// Stops no readers from now on.
    pub(crate) fn let_go(&self) {
        *self.reads.lock().expect("no panic") = None;
    }
}

impl Telling {
    /// The disk that stops readers.
    pub(crate) fn storage(self: &Arc<Self>) -> Arc<dyn Storage> {
        let telling = Arc::clone(self);
        Arc::new(Before(move |path: &Path, access| {
            let is_checkpoint = path.extension().is_some_and(|extension| extension == "checkpoint");
            // No other thread waits for the test: waiting for a new segment would block it.
            if access == Access::Read && is_checkpoint {
                let reads = telling.reads.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some((tell, go_on)) = reads.as_ref() {
                    let told = tell.send(path.to_owned()).is_ok() && go_on.recv().is_ok();
                    assert!(told, "the test listens");
                }
            }
            Ok(())
        }))
    }
}
