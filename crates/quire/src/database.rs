//! The database: the log, the models behind one lock, and the background thread.
//!
//! Writers take the lock to decide. Readers share the lock for the time of one lookup. Both return
//! a [`Ticket`], so readers never see data that a crash could still undo.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use quire_log::{Background, Clock, Compaction, Durability, Publication, Reader};
use quire_model::{At, Operation, Position, Resource, StepBudget, Timestamp, steps_of_bytes};
use quire_shard::{
    Commands, CommitLimits, CommitRefusal, DecidedCommit, Duty, Fingerprint, Guard, IdempotencyKey, OPENED_BYTES_MAX,
    PermittedCommands, Replies, Shard, opened_within,
};

use crate::administration::{self, Acts};
use crate::commit::{Commit, Part};
use crate::confirmation::Confirmation;
use crate::decided::{DecidedReplies, outcome, told};
use crate::outcome::Outcome;
use crate::parts::{CommandsByModel, EncodedMessages, TagSlices};
use crate::read_source::ReadSource;
use crate::shards::Shards;
use crate::streams::TopicId;
use crate::streams::wire::Codec;
use crate::ticket::Ticket;
use crate::{Error, ErrorKind, Result};
use crate::{scratch, streams};

/// Largest size of a commit without its record batch, in bytes: its header, and the entry's header
/// and tag.
const BESIDE_A_BATCH_BYTES: u64 = 256;

/// The most history entries that a brief commit reads, which takes about a third of a millisecond.
const BRIEF_STEPS: u64 = 4_096;

/// A database, opened by this process. Cheap to clone. When the last clone is dropped, the database
/// syncs all commits, saves the models' state and closes. Tickets and futures that are still held
/// keep the directory locked until they are dropped.
///
/// See the [crate's example](crate).
///
/// ```
/// use quire::events::NewEvent;
/// use quire::{Commit, Database, Message, NewJob};
///
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("data");
/// let db = Database::open(&path)?;
/// let order = 17;
/// let commit = Commit::new()
///     .append("orders", [NewEvent::new("OrderPlaced").tag(format!("order:{order}"))])
///     .produce("placed", Message::new(format!("order {order} was placed")))
///     .enqueue("mails", NewJob::new(format!("confirm order {order}")));
/// db.commit(&commit)?.committed()?;
///
/// assert_eq!(db.events("orders").head()?.get(), 1);
/// assert_eq!(db.topic("placed").offsets(0)?.next.get(), 1);
/// assert_eq!(db.queue("mails").stats()?.expect("a commit made it").pending, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Database {
    pub(crate) shards: Shards,
    /// The steps that calls of this value may take; `None` without a bound.
    pub(crate) budget: Option<StepBudget>,
    /// The guard of the client for which this value is used; `None` for the owner.
    pub(crate) guard: Option<Arc<Guard>>,
    /// Which node of a cluster answers the reads of this value.
    pub(crate) reads: ReadSource,
    pub(crate) request_steps_max: u64,
}

impl Database {
    pub(crate) fn start(shard: Shard, background: Background, request_steps_max: u64) -> Result<Self> {
        let shards = Shards::start(shard, background)?;
        Ok(Database { shards, budget: None, guard: None, reads: ReadSource::Leader, request_steps_max })
    }

    /// Returns the same database for one request: conditions, reads, searches and walks of the
    /// returned value and of its handles claim their steps from `budget`. A call that exceeds the
    /// budget fails with [`ErrorKind::TooCostly`](crate::ErrorKind::TooCostly). Without a budget,
    /// no call is bounded.
    ///
    /// [`StepBudget::cancel`] ends the request from another thread: its calls then fail with
    /// [`ErrorKind::Cancelled`](crate::ErrorKind::Cancelled) within some hundred steps.
    ///
    /// ```
    /// use quire::events::{NewEvent, Query, QueryItem, ReadOptions};
    /// use quire::{Database, Durability, ErrorKind, StepBudget};
    ///
    /// # let directory = tempfile::tempdir()?;
    /// let db = Database::builder(directory.path()).durability(Durability::Os).open()?;
    /// for number in 0..100 {
    ///     let tag = if number % 2 == 0 { "even" } else { "odd" };
    ///     db.events("numbers").append([NewEvent::new("Counted").tag(tag)])?;
    /// }
    /// // No event has both tags: the read compares every event.
    /// let both = Query::from(QueryItem::new().tag("even").tag("odd"));
    /// let all = db.within(StepBudget::new(1_000)).events("numbers").read(&both, ReadOptions::default())?;
    /// assert_eq!(all.events, []);
    /// let few = db.within(StepBudget::new(50)).events("numbers").read(&both, ReadOptions::default());
    /// assert_eq!(few.unwrap_err().kind(), ErrorKind::TooCostly);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn within(&self, budget: StepBudget) -> Database {
        Database { budget: Some(budget), ..self.clone() }
    }

    /// Permits commands by the guard, or by the owner.
    #[inline]
    pub(crate) fn permit<'p, 'c>(&self, commands: Commands<'p, 'c>) -> Result<PermittedCommands<'_, 'p, 'c>> {
        match &self.guard {
            Some(guard) => {
                guard.refresh()?;
                Ok(guard.permit(commands))
            }
            None => Ok(PermittedCommands::by_owner(commands)),
        }
    }

    /// Returns the most steps of one request to a server of this process: see
    /// [`Settings::request_steps_max`](crate::Settings::request_steps_max).
    pub fn request_steps_max(&self) -> u64 {
        self.request_steps_max
    }

    /// Returns the same database with at most `steps` of its steps, for work during which writers
    /// wait.
    pub(crate) fn within_slice(&self, steps: u64) -> Database {
        self.within(StepBudget::part_of(self.budget(), steps))
    }

    /// Returns the budget of [`Database::within`].
    pub fn budget(&self) -> Option<&StepBudget> {
        self.budget.as_ref()
    }

    /// Returns the name of a topic, unless the topic is unknown or the read fails.
    fn name_of(&self, topic: TopicId) -> Option<String> {
        self.look_published(|view| view.streams.topic(topic).map(|topic| topic.name.to_owned())).ok().flatten()
    }

    /// Returns the codec that embedded producers of a topic use.
    pub(crate) fn codec_of(&self, topic: &str) -> Result<Codec> {
        if !self.shards.only().any_topic_compresses() {
            return Ok(Codec::None);
        }
        self.look_published(|view| {
            view.streams.topic_named(topic).map_or(Codec::None, |topic| topic.settings.compression)
        })
    }

    /// Notes the keys of a command's records when its topic compacts, because a model does not
    /// decompress. At most `bytes_left` bytes may still be decompressed for this commit.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) when the records are unreadable:
    /// compaction could never delete any of them.
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
                .look_published(|view| view.streams.settings_of(*topic).is_some_and(|found| found.cleanup.compacts()))?
        {
            read_keys(self.budget(), command, bytes_left)?;
        }
        Ok(())
    }

    /// Commits all parts or none, and waits until the commit is durable.
    ///
    /// ```
    /// use quire::events::{Condition, NewEvent, QueryItem};
    /// use quire::{Commit, Outcome};
    ///
    /// # let directory = tempfile::tempdir()?;
    /// # let db = quire::Database::builder(directory.path()).durability(quire::Durability::Os).open()?;
    /// let name = "ada";
    /// let tag = format!("username:{name}");
    /// let taken = QueryItem::new().event_type("Registered").tag(tag.clone());
    /// let commit = Commit::new().append_if(
    ///     "accounts",
    ///     [NewEvent::new("Registered").tag(tag)],
    ///     [Condition::fail_if_matches(taken)],
    /// );
    /// assert!(matches!(db.commit(&commit)?, Outcome::Committed(_)));
    /// let Outcome::Refused(refusal) = db.commit(&commit)? else { panic!("the name is taken") };
    /// assert_eq!(refusal.part, 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::TooLarge`](crate::ErrorKind::TooLarge),
    /// [`ErrorKind::NoSpace`](crate::ErrorKind::NoSpace), and
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) for a message that can't be encoded:
    /// nothing was done. [`ErrorKind::Damaged`](crate::ErrorKind::Damaged) and
    /// [`ErrorKind::Io`](crate::ErrorKind::Io) when history that the decision needs is unreadable.
    /// [`ErrorKind::Failed`](crate::ErrorKind::Failed).
    pub fn commit(&self, commit: &Commit<'_>) -> Result<Outcome> {
        self.submit(commit)?.wait()
    }

    /// Commits all parts or none, without waiting for durability. The ticket waits for durability.
    ///
    /// ```
    /// use quire::{Commit, NewJob};
    ///
    /// # let directory = tempfile::tempdir()?;
    /// # let db = quire::Database::builder(directory.path()).durability(quire::Durability::Os).open()?;
    /// let mut tickets = Vec::new();
    /// for order in 1..=3 {
    ///     tickets.push(db.submit(&Commit::new().enqueue("mails", NewJob::new(format!("order {order}"))))?);
    /// }
    /// for ticket in tickets {
    ///     ticket.wait()?.committed()?; // the first wait syncs for all three
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Database::commit`].
    pub fn submit(&self, commit: &Commit<'_>) -> Result<Ticket<Outcome>> {
        let ticket = self.submit_as(commit, false, |verdict| told(commit, verdict))?;
        Ok(ticket.map(|verdict| outcome(commit, verdict)))
    }

    /// Passes a commit to the shard. `answer` converts the verdict.
    pub(crate) fn submit_as<T>(
        &self,
        commit: &Commit<'_>,
        is_dry_run: bool,
        answer: impl Fn(Result<DecidedReplies<'_>, CommitRefusal>) -> Result<T, CommitRefusal>,
    ) -> Result<Ticket<Result<T, CommitRefusal>>> {
        let now = self.now();
        let mut encoded = EncodedMessages::messages(commit.parts(), now, self.shards.only().compressor(), |topic| {
            self.codec_of(topic)
        })?;
        let mut bytes_left = OPENED_BYTES_MAX;
        let note = |command: &mut streams::Command<'_>| self.note_keys(command, &mut bytes_left);
        let tags = TagSlices::of(commit.parts());
        let mut sorted = CommandsByModel::by_model(commit.parts(), now, &mut encoded, &tags, note)?;
        let idempotency_key = self.key_of(commit)?;
        loop {
            let commands = Commands { idempotency_key, is_dry_run, ..sorted.commands() };
            let ticket = self.decide_within(u64::MAX, now, commands, Some(commit.parts()), &answer)?;
            let ticket = ticket.expect("no request takes more steps");
            match ticket.untold().as_ref().err().and_then(CommitRefusal::asks_for_keys) {
                Some(command) => read_keys(self.budget(), sorted.streams_mut(command), &mut bytes_left)?,
                None => return Ok(ticket),
            }
        }
    }

    /// Submits a commit like [`Database::submit`], unless the commit may take long. Returns `None`
    /// in that case, and nothing was done. Use this method when your program has separate threads
    /// for long work.
    ///
    /// A commit may take long in three cases:
    ///
    /// * A compressed batch would have to be unpacked. A topic that compacts needs the keys of the
    ///   batch's records.
    /// * A condition would have to be checked against more than a few thousand events.
    /// * Events would have to be erased from [text indexes](Database::text_indexes).
    ///
    /// # Errors
    /// As [`Database::commit`].
    pub fn submit_briefly(&self, commit: &Commit<'_>) -> Result<Option<Ticket<Outcome>>> {
        let now = self.now();
        let mut encoded = EncodedMessages::messages(commit.parts(), now, self.shards.only().compressor(), |topic| {
            self.codec_of(topic)
        })?;
        let tags = TagSlices::of(commit.parts());
        let sorted = CommandsByModel::by_model(commit.parts(), now, &mut encoded, &tags, |_| Ok(()))?;
        let commands = Commands { idempotency_key: self.key_of(commit)?, ..sorted.commands() };
        if self.is_derived_from(&commands) {
            return Ok(None);
        }
        let parts = Some(commit.parts());
        let ticket = self.decide_within(BRIEF_STEPS, now, commands, parts, |verdict| told(commit, verdict))?;
        let Some(ticket) = ticket else { return Ok(None) };
        let asks_for_keys = ticket.untold().as_ref().err().and_then(CommitRefusal::asks_for_keys).is_some();
        Ok((!asks_for_keys).then(|| ticket.map(|verdict| outcome(commit, verdict))))
    }

    /// Returns the fingerprint of a commit: equal commits have equal ones. Delays count from time
    /// zero, and a message without a time has the time zero. See [`Commit::fingerprint`].
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) for a message that can't be encoded, and
    /// for a commit with a change of access, which takes no idempotency key.
    pub fn fingerprint(&self, commit: &Commit<'_>) -> Result<Fingerprint> {
        check_takes_key(commit)?;
        let start = Timestamp::ZERO;
        let compressor = self.shards.only().compressor();
        let mut encoded = EncodedMessages::messages(commit.parts(), start, compressor, |_| Ok(Codec::None))?;
        let tags = TagSlices::of(commit.parts());
        let sorted = CommandsByModel::by_model(commit.parts(), start, &mut encoded, &tags, |_| Ok(()))?;
        Ok(sorted.commands().fingerprint())
    }

    /// The idempotency key of a commit, with the fingerprint.
    #[inline]
    fn key_of<'c>(&'c self, commit: &'c Commit<'_>) -> Result<Option<IdempotencyKey<'c>>> {
        let Some(key) = commit.key() else { return Ok(None) };
        check_takes_key(commit)?;
        let fingerprint = commit.given_fingerprint().map_or_else(|| self.fingerprint(commit), Ok)?;
        let principal = self.guard.as_deref().and_then(Guard::principal).unwrap_or_default();
        Ok(Some(IdempotencyKey { principal, key, fingerprint }))
    }

    /// Returns a reader of the published log. It reads the positions that
    /// [`Database::read_published`] returned, while writers continue.
    pub fn history(&self) -> Reader {
        self.catch_up();
        self.shards.only().log().reader().within(self.budget.clone())
    }

    /// Truncates the log after the record at `kept`, for the simulation. A cluster does the same
    /// with the unpublished records of a deposed leader.
    #[doc(hidden)]
    pub fn truncate_after(&self, kept: Position) -> Result<()> {
        let shard = self.shards.only();
        let Some(mark) = shard.mark_at(kept)? else {
            return Err(Error::new(ErrorKind::Invalid, format!("unknown record {kept}")));
        };
        shard.truncate_after(mark)
    }

    /// The shard, for the node of a cluster that replicates it.
    #[doc(hidden)]
    pub fn replicated(&self) -> Arc<Shard> {
        self.shards.shared()
    }

    /// Returns the position of the last published record.
    pub fn published(&self) -> Position {
        self.catch_up();
        self.shards.only().log().published()
    }

    /// Returns a future that is ready when anything is published after `seen`. A long poll waits
    /// for this future.
    pub fn publication_after(&self, seen: Position) -> NextPublication {
        NextPublication { publication: self.shards.only().log().publication_at(behind(seen)) }
    }

    /// Waits up to `at_most` for a publication after `seen`; returns whether there was one.
    ///
    /// # Errors
    /// [`ErrorKind::Failed`](crate::ErrorKind::Failed).
    pub fn wait_after(&self, seen: Position, at_most: Duration) -> Result<bool> {
        self.shards.only().wait(behind(seen), at_most)
    }

    /// Makes all commits so far survive power loss, whatever the durability.
    ///
    /// # Errors
    /// [`ErrorKind::Failed`](crate::ErrorKind::Failed).
    pub fn sync(&self) -> Result<()> {
        Ok(self.shards.only().log().sync()?)
    }

    /// Saves the models' state, so that the next opening replays only later records.
    ///
    /// [`ErrorKind::NoSpace`](crate::ErrorKind::NoSpace), [`ErrorKind::Io`](crate::ErrorKind::Io),
    /// [`ErrorKind::Failed`](crate::ErrorKind::Failed). The database keeps working without the
    /// checkpoint.
    pub fn checkpoint(&self) -> Result<()> {
        self.check_permission(Resource::DATABASE, Operation::Alter)?;
        self.shards.only().checkpoint()
    }

    /// Runs a background duty now, as far as any work is due. Returns whether there was work. A
    /// database opened with [`Background::Caller`] needs these calls; they do no harm in any other
    /// database.
    ///
    /// # Errors
    /// As [`Database::checkpoint`]. Failed work is tried again when it is next due.
    pub fn carry_out(&self, duty: Duty) -> Result<bool> {
        self.check_permission(Resource::DATABASE, Operation::Alter)?;
        self.shards.only().carry_out(duty)
    }

    /// Rewrites the sealed segments that hold obsolete records, without those records, to free
    /// their disk space. The background thread does the same with segments of which a large enough
    /// part is obsolete: see [`Builder::compact_percent_min`](crate::Builder::compact_percent_min).
    ///
    /// Compaction first saves a checkpoint. It rewrites segments up to the older of the two
    /// checkpoints that are kept. When several processes have the database open, one process
    /// compacts for all, and the other processes do nothing.
    ///
    /// A stopped process may not answer within two seconds. The segments that it has open stay
    /// until the next compaction. In the background, [`Database::failing`] names that process.
    ///
    /// # Errors
    /// [`ErrorKind::Damaged`](crate::ErrorKind::Damaged) when a record differs from what was
    /// written: its segment stays unchanged. [`ErrorKind::NoSpace`](crate::ErrorKind::NoSpace),
    /// [`ErrorKind::Io`](crate::ErrorKind::Io), [`ErrorKind::Failed`](crate::ErrorKind::Failed);
    /// the database keeps working.
    pub fn compact(&self) -> Result<Compaction> {
        self.check_permission(Resource::DATABASE, Operation::Alter)?;
        self.shards.only().checkpoint()?;
        self.shards.only().compact_whole().inspect(administration::report_compaction)
    }

    /// Returns the random number drawn when the database was created. No two databases have the
    /// same number.
    pub fn id(&self) -> u128 {
        self.shards.only().id()
    }

    /// Returns the durability of commits.
    pub fn durability(&self) -> Durability {
        self.shards.only().log().settings().durability
    }

    /// Returns whether the database was opened read-only, so that commits are refused.
    pub fn is_read_only(&self) -> bool {
        self.shards.only().is_read_only()
    }

    /// Returns the largest commit, in bytes of log.
    pub fn commit_bytes_max(&self) -> u64 {
        self.shards.only().log().settings().record_bytes_max
    }

    /// Returns the largest record batch, in bytes, whatever its topic allows. A batch must fit in
    /// one commit. The commit needs up to 256 bytes more than its batch, depending on the batch's
    /// records. The database reports this limit to clients and enforces it.
    pub fn batch_bytes_max(&self) -> u32 {
        u32::try_from(self.commit_bytes_max().saturating_sub(BESIDE_A_BATCH_BYTES)).unwrap_or(u32::MAX)
    }

    /// Returns the time, by the database's clock.
    pub fn now(&self) -> Timestamp {
        self.clock().now()
    }

    /// Returns the clock that the database was opened with. As the database follows it, time never
    /// runs backwards.
    pub fn clock(&self) -> &dyn Clock {
        self.shards.only().log().clock()
    }

    /// Applies the log as far as possible, for callers that can't return an error. The next commit
    /// or read reports a failure.
    fn catch_up(&self) {
        let _ = self.shards.only().catch_up();
    }

    pub(crate) fn decide(&self, commands: Commands<'_, '_>) -> Result<Ticket<CommitVerdict>> {
        let taken = |verdict: Result<DecidedReplies<'_>, CommitRefusal>| {
            verdict.map(|decided| (decided.at, std::mem::take(decided.replies)))
        };
        let ticket = self.decide_within(u64::MAX, self.now(), commands, None, taken)?;
        Ok(ticket.expect("no request takes more steps"))
    }

    /// Commits at a time that was read a moment ago. `parts` are the parts of the commit, unless
    /// all commands are of one model. `answer` converts the verdict.
    fn decide_within<T>(
        &self,
        brief_steps_max: u64,
        now: Timestamp,
        commands: Commands<'_, '_>,
        parts: Option<&[Part<'_>]>,
        answer: impl FnOnce(Result<DecidedReplies<'_>, CommitRefusal>) -> T,
    ) -> Result<Option<Ticket<T>>> {
        let acts = Acts::of(&commands, |topic| self.name_of(topic));
        let timed = if commands.is_dry_run { None } else { self.shards.timer().begin(now, self.clock()) };
        scratch::with_replies(|replies| {
            let limits = CommitLimits { brief_steps_max, budget: self.budget() };
            let decided = self.shards.only().commit_within(limits, now, &self.permit(commands)?, replies)?;
            let Some(decided) = decided else { return Ok(None) };
            let confirmation = self.confirmation(&decided);
            let DecidedCommit { rests_on, verdict, is_replay, .. } = decided;
            if let Ok(at) = &verdict
                && !is_replay
                && !commands.is_dry_run
            {
                acts.report(&commands, *at);
            }
            if verdict.is_ok() && !commands.is_dry_run && self.is_derived_from(&commands) {
                self.shards.only().log().wait(rests_on)?;
                self.erase_derived(&commands)?;
            }
            let answer = answer(match verdict {
                Ok(at) => Ok(DecidedReplies { at, is_replay, replies }),
                Err(refused) => {
                    self.note_refusal(now, &commands, parts, &refused);
                    Err(*refused)
                }
            });
            let ticket = Ticket::new(self.shards.only().log().clone(), rests_on, answer);
            Ok(Some(ticket.timed(timed).after(confirmation)))
        })
    }

    /// Commits at a time that was read a moment ago, and waits until the commit is durable. The
    /// replies are in `replies`.
    #[inline]
    pub(crate) fn commit_and_wait(
        &self,
        now: Timestamp,
        commands: &Commands<'_, '_>,
        replies: &mut Replies,
    ) -> Result<Result<At, Box<CommitRefusal>>> {
        let acts = Acts::of(commands, |topic| self.name_of(topic));
        let timed = self.shards.timer().begin(now, self.clock());
        let limits = CommitLimits { budget: self.budget(), ..CommitLimits::NONE };
        let decided = self.shards.only().commit_within(limits, now, &self.permit(*commands)?, replies)?;
        let decided = decided.expect("no request takes more steps");
        match &decided.verdict {
            Ok(at) => acts.report(commands, *at),
            Err(refused) => self.note_refusal(now, commands, None, refused),
        }
        self.shards.only().log().wait(decided.rests_on)?;
        self.confirmation(&decided).map_or(Ok(()), Confirmation::wait)?;
        if decided.verdict.is_ok() {
            self.erase_derived(commands)?;
        }
        if let Some(commit) = timed {
            commit.end(self.clock());
        }
        Ok(decided.verdict)
    }
}

/// The position, time and replies of an accepted commit, or the reason for its refusal.
type CommitVerdict = Result<(At, Replies), CommitRefusal>;

/// Checks that a commit may have an idempotency key. A change of access has none, so that no answer
/// about it is stored beyond the audit event.
///
/// # Errors
/// [`ErrorKind::Invalid`].
fn check_takes_key(commit: &Commit<'_>) -> Result<()> {
    if commit.parts().iter().any(|part| matches!(part, Part::System(_))) {
        return Err(Error::new(ErrorKind::Invalid, "a commit that changes access takes no idempotency key"));
    }
    Ok(())
}

/// Reads the keys of a command's records. At most `bytes_left` bytes may still be decompressed for
/// this commit.
///
/// # Errors
/// [`ErrorKind::Invalid`] when the records are unreadable.
#[cold]
pub(crate) fn read_keys(
    budget: Option<&StepBudget>,
    command: &mut streams::Command<'_>,
    bytes_left: &mut usize,
) -> Result<()> {
    let (streams::Command::Produce { batch, .. } | streams::Command::ProduceByKey { batch, .. }) = command else {
        unreachable!("only a produce command needs the keys of its records, not {command:?}")
    };
    let opened = opened_within(batch, *bytes_left)?;
    *bytes_left -= opened.len();
    budget.map_or(Ok(()), |budget| budget.claim(steps_of_bytes(opened.len())))?;
    if let Some(error) = batch.records_from(&opened).find_map(std::result::Result::err) {
        return Err(Error::new(ErrorKind::Invalid, format!("in a topic that compacts, {error}")));
    }
    *batch = batch.noting_keys(&opened);
    Ok(())
}

/// A future that is ready after a publication. See [`Database::publication_after`].
#[derive(Debug)]
pub struct NextPublication {
    publication: Publication,
}

impl Future for NextPublication {
    type Output = Result<()>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.publication).poll(context).map_err(Error::from)
    }
}

/// Returns the position after `seen`, which a caller gave. No position follows the last one, so a
/// wait after it never ends.
fn behind(seen: Position) -> Position {
    Position::new(seen.get().saturating_add(1))
}
