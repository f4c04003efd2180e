//! The database: the log, the models behind one lock, and the background thread.
//!
//! Writers take the lock to decide; readers share it for as long as it takes to look something up.
//! Their results are handed out as a [`Ticket`], so readers never see data that a crash could still
//! undo.

use std::path::Path;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use quire_log::{Background, Clock, Compaction, Damage, Durability, Publication, Reader};
use quire_model::{At, Position, Timestamp};
use quire_shard::{Commands, Decided, Duty, Failing, OPENED_BYTES_MAX, Refused, Replies, Shard, View, opened_within};

use crate::builder::Builder;
use crate::commit::Commit;
use crate::handles::{EventStore, Graph, Group, Queue, Topic};
use crate::outcome::{Committed, Outcome};
use crate::parts::{Encoded, Sorted, Tags, in_order, part_of};
use crate::shards::Shards;
use crate::streams::wire::Codec;
use crate::ticket::Ticket;
use crate::{Error, ErrorKind, Result};
use crate::{scratch, streams};

/// What a commit takes beside a record batch, at most: its header, and the entry's with its tag.
const BESIDE_A_BATCH_BYTES: u64 = 256;

/// The most history entries that a brief commit reads, which takes about a third of a millisecond.
const BRIEF_STEPS: u64 = 4_096;

/// A database, opened by this process. Cheap to clone, and closed when the last clone is gone: what
/// was committed is then synced and the models' state saved. Tickets and futures that are still
/// held keep the directory locked until they are gone.
///
/// See the [crate's example](crate).
#[derive(Debug, Clone)]
pub struct Database {
    pub(crate) shards: Shards,
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
    /// Bytes of memory that what is unpacked of packed segments takes; see
    /// [`Builder::pack_segments`].
    pub unpacked_bytes: u64,
    /// The position of the last published record.
    pub published: Position,
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

    pub(crate) fn start(shard: Shard, background: Background) -> Result<Self> {
        Ok(Database { shards: Shards::start(shard, background)? })
    }

    /// Returns the codec that embedded producers of a topic use.
    pub(crate) fn codec_of(&self, topic: &str) -> Result<Codec> {
        if !self.shards.only().any_topic_compresses() {
            return Ok(Codec::None);
        }
        self.read_published(|view| {
            view.streams.topic_named(topic).map_or(Codec::None, |topic| topic.settings.compression)
        })
    }

    /// Has the keys of a command's records known where its topic compacts: a model does not
    /// decompress. `bytes_left` is how much may still be decompressed for one commit.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) when the records can't be read: compaction
    /// could never let go of any.
    #[inline]
    pub(crate) fn note_keys(&self, command: &mut streams::Command<'_>, bytes_left: &mut usize) -> Result<()> {
        if self.shards.only().any_topic_compacts() { self.note_keys_of(command, bytes_left) } else { Ok(()) }
    }

    #[cold]
    fn note_keys_of(&self, command: &mut streams::Command<'_>, bytes_left: &mut usize) -> Result<()> {
        if let streams::Command::Produce { topic, batch, .. } | streams::Command::ProduceByKey { topic, batch, .. } =
            command
            && batch.codec() != Codec::None
            && self
                .read_published(|view| view.streams.settings_of(*topic).is_some_and(|found| found.cleanup.compacts()))?
        {
            read_keys(command, bytes_left)?;
        }
        Ok(())
    }

    /// The consumer group of this name; it need not be there yet.
    pub fn group(&self, name: &str) -> Group {
        Group::new(self, name)
    }

    /// The topic of this name; it need not be there yet.
    pub fn topic(&self, name: &str) -> Topic {
        Topic::new(self, name)
    }

    /// The event store of this name; it need not be there yet.
    pub fn events(&self, name: &str) -> EventStore {
        EventStore::new(self, name)
    }

    /// The queue of this name; it need not be there yet.
    pub fn queue(&self, name: &str) -> Queue {
        Queue::new(self, name)
    }

    /// The graph of this name; it need not be there yet.
    pub fn graph(&self, name: &str) -> Graph {
        Graph::new(self, name)
    }

    /// Commits all parts or none, and waits until it is durable.
    ///
    /// # Errors
    /// [`ErrorKind::TooLarge`](crate::ErrorKind::TooLarge),
    /// [`ErrorKind::NoSpace`](crate::ErrorKind::NoSpace),
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) (a message that can't be encoded): nothing
    /// was done. [`ErrorKind::Damaged`](crate::ErrorKind::Damaged) and
    /// [`ErrorKind::Io`](crate::ErrorKind::Io) when history that the decision needs can't be read.
    /// [`ErrorKind::Failed`](crate::ErrorKind::Failed).
    pub fn commit(&self, commit: &Commit<'_>) -> Result<Outcome> {
        self.submit(commit)?.wait()
    }

    /// Commits all parts or none, without waiting until it is durable: that is the ticket's to say.
    ///
    /// # Errors
    /// As [`Database::commit`].
    pub fn submit(&self, commit: &Commit<'_>) -> Result<Ticket<Outcome>> {
        let now = self.now();
        let mut encoded =
            Encoded::messages(commit.parts(), now, self.shards.only().compressor(), |topic| self.codec_of(topic))?;
        let mut bytes_left = OPENED_BYTES_MAX;
        let note = |command: &mut streams::Command<'_>| self.note_keys(command, &mut bytes_left);
        let tags = Tags::of(commit.parts());
        let mut sorted = Sorted::by_model(commit.parts(), &mut encoded, &tags, note)?;
        let ticket = loop {
            let ticket = self.decide_within(u64::MAX, now, sorted.commands(), |verdict| told(commit, verdict))?;
            let ticket = ticket.expect("nothing takes more steps");
            match ticket.untold().as_ref().err().and_then(Refused::asks_for_keys) {
                Some(command) => read_keys(sorted.streams_mut(command), &mut bytes_left)?,
                None => break ticket,
            }
        };
        Ok(ticket.map(|verdict| outcome(commit, verdict)))
    }

    /// As [`Database::submit`], unless it may take long: then `None`, and nothing was done. For who
    /// has threads of its own for what takes so long.
    ///
    /// It may when a compressed batch would have to be unpacked, as it is in a topic that compacts,
    /// for the keys of its records, and when a condition would have to be looked up among more than
    /// a few thousand events.
    ///
    /// # Errors
    /// As [`Database::commit`].
    pub fn submit_briefly(&self, commit: &Commit<'_>) -> Result<Option<Ticket<Outcome>>> {
        let now = self.now();
        let mut encoded =
            Encoded::messages(commit.parts(), now, self.shards.only().compressor(), |topic| self.codec_of(topic))?;
        let tags = Tags::of(commit.parts());
        let sorted = Sorted::by_model(commit.parts(), &mut encoded, &tags, |_| Ok(()))?;
        let ticket = self.decide_within(BRIEF_STEPS, now, sorted.commands(), |verdict| told(commit, verdict))?;
        let Some(ticket) = ticket else { return Ok(None) };
        let asks_for_keys = ticket.untold().as_ref().err().and_then(Refused::asks_for_keys).is_some();
        Ok((!asks_for_keys).then(|| ticket.map(|verdict| outcome(commit, verdict))))
    }

    /// Looks something up in the state after the last commit. The result is available once the
    /// commits that it depends on are durable.
    ///
    /// `look` runs while writers wait: it should look, copy what it found and return, and not call
    /// the database.
    ///
    /// # Errors
    /// [`ErrorKind::Failed`](crate::ErrorKind::Failed).
    pub fn read<T>(&self, look: impl FnOnce(&View<'_>) -> T) -> Result<Ticket<T>> {
        let (rests_on, answer) = self.shards.only().read(look)?;
        Ok(Ticket::new(self.shards.only().log().clone(), rests_on, answer))
    }

    /// Looks something up in the log as it is published, with nothing to wait for.
    ///
    /// This is the read of topics and event stores, which are all log. The state of queues, graphs
    /// and consumer groups that the view shows may be ahead of it by commits that are not durable
    /// yet: use [`Database::read`] for those. `look` runs while writers wait.
    ///
    /// What an event store or a graph has let go of is state, too, and no read may leave out what
    /// might come back: in a `sync` database it waits, once, until the commit is durable that let
    /// any go.
    ///
    /// # Errors
    /// [`ErrorKind::Failed`](crate::ErrorKind::Failed).
    pub fn read_published<T>(&self, look: impl FnOnce(&View<'_>) -> T) -> Result<T> {
        self.shards.only().read_published(look)
    }

    /// The published log, to be read with what [`Database::read_published`] resolved, while writers
    /// continue.
    pub fn history(&self) -> Reader {
        self.catch_up();
        self.shards.only().log().reader()
    }

    /// Truncates the log after the record at `kept`, for the simulation: what a cluster does with the
    /// unpublished records of a deposed leader.
    #[doc(hidden)]
    pub fn truncate_after(&self, kept: Position) -> Result<()> {
        let shard = self.shards.only();
        let Some(mark) = shard.log().mark_at(kept)? else {
            return Err(Error::new(ErrorKind::Invalid, format!("unknown record {kept}")));
        };
        shard.truncate_after(mark)
    }

    /// The position of the last published record.
    pub fn published(&self) -> Position {
        self.catch_up();
        self.shards.only().log().published()
    }

    /// A future that is ready when anything is published after `seen`: what a long poll waits for.
    pub fn arrival_after(&self, seen: Position) -> Arrival {
        Arrival { publication: self.shards.only().log().arrival(behind(seen)) }
    }

    /// Waits up to `at_most` for a publication after `seen`; returns whether there was one.
    ///
    /// # Errors
    /// [`ErrorKind::Failed`](crate::ErrorKind::Failed).
    pub fn wait_after(&self, seen: Position, at_most: Duration) -> Result<bool> {
        self.shards.only().wait(behind(seen), at_most)
    }

    /// Makes everything committed so far survive power loss, whatever the durability.
    ///
    /// # Errors
    /// [`ErrorKind::Failed`](crate::ErrorKind::Failed).
    pub fn sync(&self) -> Result<()> {
        Ok(self.shards.only().log().sync()?)
    }

    /// Saves the models' state, so that the next opening replays only what comes later.
    ///
    /// # Errors
    /// [`ErrorKind::NoSpace`](crate::ErrorKind::NoSpace), [`ErrorKind::Io`](crate::ErrorKind::Io),
    /// [`ErrorKind::Failed`](crate::ErrorKind::Failed); the database works on without it.
    pub fn checkpoint(&self) -> Result<()> {
        self.shards.only().checkpoint()
    }

    /// Does now what there is to do of a duty; says whether there was anything. It is for who
    /// opened the database with [`Background::Caller`], and harmless for others.
    ///
    /// # Errors
    /// As [`Database::checkpoint`]; what could not be done then is done when it is due again.
    pub fn carry_out(&self, duty: Duty) -> Result<bool> {
        self.shards.only().carry_out(duty)
    }

    /// Rewrites the sealed segments that hold anything that no longer counts, without it, so that
    /// its disk space comes back. In the background the same is done to segments of which enough is
    /// of no use: see [`Builder::compact_percent_min`](crate::Builder::compact_percent_min).
    ///
    /// Segments are rewritten up to the older of the two checkpoints that are kept; one is saved
    /// first. When several processes have the database open, one of them compacts for all, and
    /// nothing is done by the others. Segments that a process has open which doesn't answer within
    /// two seconds, since it is stopped, stay until the next time; in the background,
    /// [`Database::failing`] says which process that is.
    ///
    /// # Errors
    /// [`ErrorKind::Damaged`](crate::ErrorKind::Damaged) when a record is not as it was written:
    /// its segment stays as it is. [`ErrorKind::NoSpace`](crate::ErrorKind::NoSpace),
    /// [`ErrorKind::Io`](crate::ErrorKind::Io), [`ErrorKind::Failed`](crate::ErrorKind::Failed);
    /// the database keeps working.
    pub fn compact(&self) -> Result<Compaction> {
        self.shards.only().checkpoint()?;
        self.shards.only().compact_whole()
    }

    /// What reads found not to be as it was written, since the database was opened. Those reads
    /// failed; all else is read.
    pub fn damage(&self) -> Vec<Damage> {
        self.shards.only().log().damage()
    }

    /// Returns the background duties whose last attempt failed. They are tried again.
    pub fn failing(&self) -> Vec<Failing> {
        self.shards.only().failing()
    }

    /// That commits are still taken: nothing failed after which none is, here or in another process
    /// that has the database open, and its folder was not moved.
    ///
    /// # Errors
    /// [`ErrorKind::Failed`](crate::ErrorKind::Failed), with what it was as far as it is known
    /// here; [`ErrorKind::Io`](crate::ErrorKind::Io) when the folder was moved or removed.
    pub fn check(&self) -> Result<()> {
        Ok(self.shards.only().log().check()?)
    }

    /// The number drawn at random when the database was created: no two have the same.
    pub fn id(&self) -> u128 {
        self.shards.only().id()
    }

    /// When a commit counts as kept.
    pub fn durability(&self) -> Durability {
        self.shards.only().log().settings().durability
    }

    /// Returns the largest commit, in bytes of log.
    pub fn commit_bytes_max(&self) -> u64 {
        self.shards.only().log().settings().record_bytes_max
    }

    /// The most bytes that a record batch can have whatever its topic allows: it is in one commit.
    /// A commit may take up to 256 more, as it is by its records how much it needs beside them;
    /// this is what clients are told and held to.
    pub fn batch_bytes_max(&self) -> u32 {
        u32::try_from(self.commit_bytes_max().saturating_sub(BESIDE_A_BATCH_BYTES)).unwrap_or(u32::MAX)
    }

    /// The time, by the database's clock.
    pub fn now(&self) -> Timestamp {
        self.clock().now()
    }

    /// The clock that it was opened with, as the database follows it: it never runs backwards.
    pub fn clock(&self) -> &dyn Clock {
        self.shards.only().log().clock()
    }

    /// Counts since the database was opened.
    pub fn statistics(&self) -> Statistics {
        let log = self.shards.only().log().statistics();
        let (refusals, checkpoints) = self.shards.only().counts();
        Statistics {
            commits: log.records,
            refusals,
            checkpoints,
            entries: log.entries,
            bytes: log.bytes,
            syncs: log.syncs,
            segments: log.segments,
            unpacked_bytes: log.unpacked_bytes,
            published: self.published(),
        }
    }

    /// For who can't be told of a failure: it sees the log as far as it was taken in, and the next
    /// commit or read tells.
    fn catch_up(&self) {
        let _ = self.shards.only().catch_up();
    }

    pub(crate) fn decide(&self, commands: Commands<'_, '_>) -> Result<Ticket<Verdict>> {
        let taken =
            |verdict: Result<(At, &mut Replies), Refused>| verdict.map(|(at, replies)| (at, std::mem::take(replies)));
        let ticket = self.decide_within(u64::MAX, self.now(), commands, taken)?;
        Ok(ticket.expect("nothing takes more steps"))
    }

    /// Commits at a time that was read a moment ago. `answer` converts the verdict.
    fn decide_within<T>(
        &self,
        steps_max: u64,
        now: Timestamp,
        commands: Commands<'_, '_>,
        answer: impl FnOnce(Result<(At, &mut Replies), Refused>) -> T,
    ) -> Result<Option<Ticket<T>>> {
        scratch::with_replies(|replies| {
            let decided = self.shards.only().commit_if_brief(steps_max, now, &commands, replies)?;
            Ok(decided.map(|Decided { rests_on, verdict }| {
                let answer = answer(verdict.map(|at| (at, replies)).map_err(|refused| *refused));
                Ticket::new(self.shards.only().log().clone(), rests_on, answer)
            }))
        })
    }

    /// Commits at a time that was read a moment ago, and waits until it is durable: a ticket that
    /// is waited for at once. The answers are in `replies`.
    #[inline]
    pub(crate) fn commit_and_wait(
        &self,
        now: Timestamp,
        commands: &Commands<'_, '_>,
        replies: &mut Replies,
    ) -> Result<Result<At, Box<Refused>>> {
        let decided = self.shards.only().commit(now, commands, replies)?;
        self.shards.only().log().wait(decided.rests_on)?;
        Ok(decided.verdict)
    }
}

/// When and with which answers a commit was accepted, or why it was not.
type Verdict = Result<(At, Replies), Refused>;

/// Returns the replies of a verdict in the order of the parts. A refusal counts the commands of its
/// model still.
fn told(commit: &Commit<'_>, verdict: Result<(At, &mut Replies), Refused>) -> Result<Committed, Refused> {
    verdict.map(|(at, replies)| Committed { at, replies: in_order(commit.parts(), replies) })
}

fn outcome(commit: &Commit<'_>, verdict: Result<Committed, Refused>) -> Outcome {
    match verdict {
        Ok(committed) => Outcome::Committed(committed),
        Err(mut refused) => {
            refused.part = part_of(commit.parts(), &refused);
            Outcome::Refused(refused)
        }
    }
}

/// Reads the keys of a command's records. `bytes_left` is how much may still be decompressed for
/// one commit.
///
/// # Errors
/// [`ErrorKind::Invalid`] when the records can't be read.
#[cold]
pub(crate) fn read_keys(command: &mut streams::Command<'_>, bytes_left: &mut usize) -> Result<()> {
    let (streams::Command::Produce { batch, .. } | streams::Command::ProduceByKey { batch, .. }) = command else {
        unreachable!("only who produces is asked for keys, not {command:?}")
    };
    let opened = opened_within(batch, *bytes_left)?;
    *bytes_left -= opened.len();
    if let Some(error) = batch.records_from(&opened).find_map(std::result::Result::err) {
        return Err(Error::new(ErrorKind::Invalid, format!("in a topic that compacts, {error}")));
    }
    *batch = batch.noting_keys(&opened);
    Ok(())
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

/// The position behind one that a caller gave; behind the last there is none, and nothing ever
/// comes.
fn behind(seen: Position) -> Position {
    Position::new(seen.get().saturating_add(1))
}
