//! The database: the log, the models behind one lock, and the background thread.
//!
//! Writers take the lock to decide; readers share it for as long as it takes to look something up. What they learn is
//! handed out as a [`Ticket`], so that nobody is told of what a crash could still take back.

use std::path::Path;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::task::{Context, Poll};
use std::thread::JoinHandle;
use std::time::Duration;

use quire_log::{Clock, Durability, Log, Publication, Reader};
use quire_model::{Position, Timestamp};
use quire_streams::TopicRef;
use quire_streams::wire::{Batch, BatchBuilder};

use crate::builder::Builder;
use crate::checkpoint::Taken;
use crate::commit::{Commit, Part};
use crate::decide::{Commands, Decided, Replies, State};
use crate::duties::{Duties, Duty};
use crate::error::{Error, ErrorKind, Result};
use crate::handles::{EventStore, Graph, Queue, Topic};
use crate::outcome::{Committed, Outcome, Reply};
use crate::ticket::Ticket;
use crate::{events, graph, jobs, streams};

/// A database, opened by this process. Cheap to clone; closed when the last clone is gone.
///
/// See the [crate's example](crate).
#[derive(Debug, Clone)]
pub struct Database {
    shared: Arc<Shared>,
    /// Ends the background thread with the last handle; the thread itself holds `shared` only.
    _thread: Arc<Thread>,
}

/// Counts since the database was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Statistics {
    /// Commits that took a position.
    pub commits: u64,
    /// Commits that were refused.
    pub refusals: u64,
    /// Checkpoints saved.
    pub checkpoints: u64,
    /// Entries appended.
    pub entries: u64,
    /// Bytes appended to the log.
    pub bytes: u64,
    /// Syncs carried out.
    pub syncs: u64,
    /// Segments there are.
    pub segments: u64,
    /// The position of the last published record.
    pub published: Position,
}

/// What a read may look at.
#[derive(Debug)]
pub struct View<'v> {
    /// Topics and consumer groups.
    pub streams: &'v streams::Streams,
    /// Event stores.
    pub events: &'v events::Events,
    /// Queues.
    pub jobs: &'v jobs::Jobs,
    /// Graphs.
    pub graphs: &'v graph::Graphs,
    /// The log, for the reads of the models.
    pub history: &'v Reader,
}

impl Database {
    /// Opens the database in a directory with default settings, and creates it when there is none.
    ///
    /// # Errors
    /// As [`Builder::open`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Database::builder(path).open()
    }

    /// Begins to say how a database is to be opened.
    pub fn builder(path: impl AsRef<Path>) -> Builder {
        Builder::new(path.as_ref())
    }

    pub(crate) fn start(id: u128, log: Log, state: State, checkpoint_bytes: u64) -> Self {
        let due = state.models.jobs.next_due();
        let shared = Arc::new(Shared {
            id,
            log,
            state: RwLock::new(state),
            duties: Duties::default(),
            checkpoint_bytes,
            checkpointed_bytes: AtomicU64::new(0),
            refusals: AtomicU64::new(0),
            checkpoints: AtomicU64::new(0),
        });
        shared.duties.next_due(due);
        let theirs = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("quire-duties".to_owned())
            .spawn(move || theirs.carry_out_duties())
            .expect("a thread can be started");
        Database { shared: Arc::clone(&shared), _thread: Arc::new(Thread { shared, handle: Mutex::new(Some(thread)) }) }
    }

    /// The topic of this name; it need not be there yet.
    pub fn topic<'a>(&'a self, name: &'a str) -> Topic<'a> {
        Topic::new(self, name)
    }

    /// The event store of this name; it need not be there yet.
    pub fn events<'a>(&'a self, name: &'a str) -> EventStore<'a> {
        EventStore::new(self, name)
    }

    /// The queue of this name; it need not be there yet.
    pub fn queue<'a>(&'a self, name: &'a str) -> Queue<'a> {
        Queue::new(self, name)
    }

    /// The graph of this name; it need not be there yet.
    pub fn graph<'a>(&'a self, name: &'a str) -> Graph<'a> {
        Graph::new(self, name)
    }

    /// Commits all parts or none, and waits until it is durable.
    ///
    /// # Errors
    /// [`ErrorKind::TooLarge`], [`ErrorKind::NoSpace`], [`ErrorKind::Invalid`] (a message that can't be encoded): nothing
    /// was done. [`ErrorKind::Damaged`] when history that the decision needs can't be read. [`ErrorKind::Failed`].
    pub fn commit(&self, commit: &Commit<'_>) -> Result<Outcome> {
        self.submit(commit)?.wait()
    }

    /// Commits all parts or none, without waiting until it is durable: that is the ticket's to say.
    ///
    /// # Errors
    /// As [`Database::commit`].
    pub fn submit(&self, commit: &Commit<'_>) -> Result<Ticket<Outcome>> {
        let mut messages = Messages::encode(self, commit.parts())?;
        let mut encoded = messages.batches.iter_mut();
        let (mut streams, mut events, mut jobs, mut graph) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for part in commit.parts() {
            match part {
                Part::Produce { topic, .. } => {
                    let (partition, builder) = encoded.next().expect("every message was encoded");
                    let batch = builder.finish().expect("a batch of one message");
                    streams.push(produce_command(TopicRef::Name(topic), *partition, batch));
                }
                Part::Streams(command) => streams.push(*command),
                Part::Events(command) => events.push(command.clone()),
                Part::Jobs(command) => jobs.push(*command),
                Part::Graph(command) => graph.push(*command),
            }
        }
        let commands = Commands { streams: &streams, events: &events, jobs: &jobs, graph: &graph };
        let ticket = self.decide(commands)?;
        Ok(ticket.map(|verdict| match verdict {
            Ok((at, replies)) => Outcome::Committed(Committed { at, replies: in_order(commit.parts(), replies) }),
            Err(mut refused) => {
                refused.part = part_of(commit.parts(), &refused);
                Outcome::Refused(refused)
            }
        }))
    }

    /// Looks something up in the state after the last commit. The answer is told once all it may rest on is durable.
    ///
    /// `look` runs while writers wait: it should look, copy what it found and return.
    ///
    /// # Errors
    /// [`ErrorKind::Failed`].
    pub fn read<T>(&self, look: impl FnOnce(&View<'_>) -> T) -> Result<Ticket<T>> {
        let state = self.shared.state()?;
        let rests_on = state.writer.mark().position;
        let answer = look(&view(&state, &state.writer.reader()));
        Ok(Ticket::new(self.shared.log.clone(), rests_on, answer))
    }

    /// Looks something up in the log as it is published, with nothing to wait for.
    ///
    /// This is the read of topics and event stores, which are all log. The state of queues, graphs and consumer groups that
    /// the view shows may be ahead of it by commits that are not durable yet: use [`Database::read`] for those. `look` runs
    /// while writers wait.
    ///
    /// # Errors
    /// [`ErrorKind::Failed`].
    pub fn read_published<T>(&self, look: impl FnOnce(&View<'_>) -> T) -> Result<T> {
        let state = self.shared.state()?;
        Ok(look(&view(&state, &self.shared.log.reader())))
    }

    /// The published log, to be read with what [`Database::read_published`] resolved, while writers go on.
    pub fn history(&self) -> Reader {
        self.shared.log.reader()
    }

    /// The position of the last published record.
    pub fn published(&self) -> Position {
        self.shared.log.published()
    }

    /// A future that is ready when anything is published after `seen`: what a long poll waits for.
    pub fn arrival_after(&self, seen: Position) -> Arrival {
        Arrival { publication: self.shared.log.arrival(seen.next()) }
    }

    /// Waits, at most so long, until anything is published after `seen`; says whether it was.
    ///
    /// # Errors
    /// [`ErrorKind::Failed`].
    pub fn wait_after(&self, seen: Position, at_most: Duration) -> Result<bool> {
        Ok(self.shared.log.wait_at_most(seen.next(), at_most)?)
    }

    /// Makes everything committed so far survive power loss, whatever the durability.
    ///
    /// # Errors
    /// [`ErrorKind::Failed`].
    pub fn sync(&self) -> Result<()> {
        Ok(self.shared.log.sync()?)
    }

    /// Saves the models' state, so that the next opening replays only what comes later.
    ///
    /// # Errors
    /// [`ErrorKind::NoSpace`], [`ErrorKind::Io`], [`ErrorKind::Failed`]; the database goes on without it.
    pub fn checkpoint(&self) -> Result<()> {
        self.shared.checkpoint()
    }

    /// The number drawn at random when the database was created: no two have the same.
    pub fn id(&self) -> u128 {
        self.shared.id
    }

    /// When a commit counts as kept.
    pub fn durability(&self) -> Durability {
        self.shared.log.settings().durability
    }

    /// The most bytes that one commit may take in the log.
    pub fn commit_bytes_max(&self) -> u64 {
        self.shared.log.settings().record_bytes_max
    }

    /// The time, by the database's clock.
    pub fn now(&self) -> Timestamp {
        self.clock().now()
    }

    /// The clock.
    pub fn clock(&self) -> &Arc<dyn Clock> {
        self.shared.log.clock()
    }

    /// Counts since the database was opened.
    pub fn statistics(&self) -> Statistics {
        let log = self.shared.log.statistics();
        Statistics {
            commits: log.records,
            refusals: self.shared.refusals.load(Ordering::Relaxed),
            checkpoints: self.shared.checkpoints.load(Ordering::Relaxed),
            entries: log.entries,
            bytes: log.bytes,
            syncs: log.syncs,
            segments: log.segments,
            published: self.published(),
        }
    }

    pub(crate) fn decide(
        &self,
        commands: Commands<'_, '_>,
    ) -> Result<Ticket<Result<(quire_model::At, Replies), crate::Refused>>> {
        let decided = self.shared.commit(self.now(), commands)?;
        Ok(Ticket::new(self.shared.log.clone(), decided.rests_on, decided.verdict))
    }
}

impl Database {
    /// Commits at a time that was read a moment ago, and waits until it is durable: a ticket that is waited for at once.
    pub(crate) fn commit_and_wait(
        &self,
        now: Timestamp,
        commands: Commands<'_, '_>,
    ) -> Result<Result<(quire_model::At, Replies), crate::Refused>> {
        let decided = self.shared.commit(now, commands)?;
        self.shared.log.wait(decided.rests_on)?;
        Ok(decided.verdict)
    }
}

/// A future that is ready when something was published. See [`Database::arrival_after`].
#[derive(Debug)]
pub struct Arrival {
    publication: Publication,
}

impl Future for Arrival {
    type Output = Result<()>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.publication).poll(context).map_err(Error::from)
    }
}

/// The messages of a commit, each encoded as a batch of its own before anything is locked for writing.
struct Messages {
    batches: Vec<(u32, BatchBuilder)>,
}

impl Messages {
    fn encode(database: &Database, parts: &[Part<'_>]) -> Result<Self> {
        let mut batches = Vec::new();
        if parts.iter().any(|part| matches!(part, Part::Produce { .. })) {
            let now = database.now();
            let state = database.shared.state()?;
            for part in parts {
                let Part::Produce { topic, message } = part else { continue };
                let mut builder = BatchBuilder::new();
                message.add_to(&mut builder, now)?;
                batches.push((message.partition_in(topic, &state.models.streams), builder));
            }
        }
        Ok(Messages { batches })
    }
}

/// The command that produces a batch, and creates the topic with one partition when it is not there.
pub(crate) fn produce_command<'c>(topic: TopicRef<'c>, partition: u32, batch: Batch<'c>) -> streams::Command<'c> {
    streams::Command::Produce { topic, partition, batch, create_partitions: Some(1) }
}

fn view<'v>(state: &'v State, history: &'v Reader) -> View<'v> {
    View {
        streams: &state.models.streams,
        events: &state.models.events,
        jobs: &state.models.jobs,
        graphs: &state.models.graphs,
        history,
    }
}

/// The replies, in the order of the parts.
fn in_order(parts: &[Part<'_>], replies: Replies) -> Vec<Reply> {
    let mut streams = replies.streams.into_iter().map(Reply::Streams);
    let mut events = replies.events.into_iter().map(Reply::Events);
    let mut jobs = replies.jobs.into_iter().map(Reply::Jobs);
    let mut graph = replies.graph.into_iter().map(Reply::Graph);
    let reply = |part: &Part<'_>| match part {
        Part::Produce { .. } | Part::Streams(_) => streams.next(),
        Part::Events(_) => events.next(),
        Part::Jobs(_) => jobs.next(),
        Part::Graph(_) => graph.next(),
    };
    parts.iter().map(reply).collect::<Option<_>>().expect("every part was answered")
}

/// The part that the refused command of a model was.
fn part_of(parts: &[Part<'_>], refused: &crate::Refused) -> usize {
    use crate::Reason;
    let same_model = |part: &Part<'_>| match refused.reason {
        Reason::Streams(_) => matches!(part, Part::Produce { .. } | Part::Streams(_)),
        Reason::Events(_) => matches!(part, Part::Events(_)),
        Reason::Jobs(_) => matches!(part, Part::Jobs(_)),
        Reason::Graph(_) => matches!(part, Part::Graph(_)),
    };
    let mut of_model = parts.iter().enumerate().filter(|(_, part)| same_model(part));
    of_model.nth(refused.part).expect("a refused command is a part").0
}

/// What the handles and the background thread share.
#[derive(Debug)]
struct Shared {
    id: u128,
    log: Log,
    /// The state after the last appended record, and the only way to append.
    state: RwLock<State>,
    duties: Duties,
    checkpoint_bytes: u64,
    /// How much had been appended when the last checkpoint was asked for.
    checkpointed_bytes: AtomicU64,
    refusals: AtomicU64,
    checkpoints: AtomicU64,
}

impl Shared {
    fn state(&self) -> Result<RwLockReadGuard<'_, State>> {
        self.state.read().map_err(|_| broken())
    }

    fn state_mut(&self) -> Result<RwLockWriteGuard<'_, State>> {
        self.state.write().map_err(|_| broken())
    }

    fn commit(&self, now: Timestamp, commands: Commands<'_, '_>) -> Result<Decided> {
        let (decided, due) = {
            let mut state = self.state_mut()?;
            let decided = state.commit(now, commands)?;
            let due = if commands.jobs.is_empty() { None } else { Some(state.models.jobs.next_due()) };
            (decided, due)
        };
        if decided.verdict.is_err() {
            self.refusals.fetch_add(1, Ordering::Relaxed);
        }
        if let Some(due) = due {
            self.duties.next_due(due);
        }
        let bytes = self.log.appended_bytes();
        let last = self.checkpointed_bytes.load(Ordering::Relaxed);
        if bytes - last.min(bytes) >= self.checkpoint_bytes
            && self.checkpointed_bytes.compare_exchange(last, bytes, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        {
            self.duties.ask_for_checkpoint();
        }
        Ok(decided)
    }

    fn checkpoint(&self) -> Result<()> {
        let taken = Taken::of(&*self.state()?);
        taken.save(&self.log)?;
        self.checkpoints.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn carry_out_duties(&self) {
        loop {
            // A duty that fails now is due again later; who commits meanwhile is told of what is wrong by the commit.
            let done = match self.duties.next(|| self.log.clock().now()) {
                Duty::Stop => return,
                Duty::Checkpoint => self.checkpoint(),
                Duty::Tick => self.tick(),
            };
            if done.is_err_and(|error| error.kind() == ErrorKind::Failed) {
                return;
            }
        }
    }

    /// Takes in what time has brought to the queues, a bounded number of jobs at a time.
    fn tick(&self) -> Result<()> {
        let commands = Commands { jobs: &[jobs::Command::Tick], ..Commands::default() };
        self.commit(self.log.clock().now(), commands).map(|_| ())
    }
}

fn broken() -> Error {
    let message = "a commit panicked, and the state in memory may be wrong; open the database anew";
    Error::new(ErrorKind::Failed, message)
}

/// The background thread. With the last handle it ends, and the database is closed: synced and checkpointed.
#[derive(Debug)]
struct Thread {
    shared: Arc<Shared>,
    handle: Mutex<Option<JoinHandle<()>>>,
}

impl Drop for Thread {
    fn drop(&mut self) {
        self.shared.duties.stop();
        if let Some(handle) = self.handle.get_mut().unwrap_or_else(PoisonError::into_inner).take() {
            // A thread that panicked has said so already.
            let _ = handle.join();
        }
        // Only the length of the next opening depends on it.
        if self.shared.log.statistics().records > 0 {
            let _ = self.shared.checkpoint();
        }
    }
}
