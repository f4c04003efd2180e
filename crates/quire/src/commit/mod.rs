//! A commit: a list of parts that are applied together.
//!
//! Each part owns its data or borrows it from the caller; nothing borrowed is copied before it
//! reaches the log. Building a commit checks nothing: the models check it when the database
//! decides.

mod handle;
mod message;
mod new_graph;
mod new_job;
mod part;
mod words;

use std::borrow::Cow;

use quire_model::CowBytes;

pub use handle::{EnqueueResult, PartHandle, TypedReply};
pub use message::Message;
pub use new_graph::{BlockKey, NewBlock, NewEdge};
pub use new_job::{NewJob, UniqueKey};
pub use part::Part;
pub(crate) use part::PartModel;
pub(crate) use words::TextList;

use crate::events::{Condition, NewEvent};
use crate::jobs::{JobId, LeaseToken};
use crate::time::{DueTime, RetryTime};
use crate::{Fingerprint, Sequence, Timestamp};

/// Parts that are applied together, or not at all. See the [crate's example](crate).
///
/// A part borrows or owns its data. A commit that borrows nothing is a `Commit<'static>`, which a
/// handler can return and a task can own:
///
/// ```
/// use quire::events::NewEvent;
/// use quire::{Commit, Message, NewJob};
///
/// fn order_placed(order: u32) -> Commit<'static> {
///     Commit::new()
///         .append("orders", [NewEvent::new("OrderPlaced").tag(format!("order:{order}"))])
///         .enqueue("mails", NewJob::new(format!("confirm order {order}")))
///         .produce("orders", Message::new(order.to_be_bytes()).key(format!("order:{order}")))
/// }
/// assert_eq!(order_placed(17).len(), 3);
/// ```
#[derive(Debug, Clone, Default)]
#[must_use = "a commit does nothing until it is given to a database"]
pub struct Commit<'c> {
    parts: Vec<Part<'c>>,
    idempotency_key: Option<Cow<'c, str>>,
    /// Default: that of the parts.
    fingerprint: Option<Fingerprint>,
}

impl<'c> Commit<'c> {
    /// Returns a commit without parts.
    pub fn new() -> Self {
        Commit::default()
    }

    /// Adds a part, such as a command of a model.
    ///
    /// ```
    /// use quire::{Commit, jobs};
    ///
    /// # let directory = tempfile::tempdir()?;
    /// # let db = quire::Database::builder(directory.path()).durability(quire::Durability::Os).open()?;
    /// let customer = "ann";
    /// let queue = format!("mails/{customer}");
    /// let commit = Commit::new().part(jobs::Command::SetQueue {
    ///     queue: &queue,
    ///     change: jobs::QueueChange::Paused(true),
    /// });
    /// db.commit(&commit)?.committed()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn part(mut self, part: impl Into<Part<'c>>) -> Self {
        self.parts.push(part.into());
        self
    }

    /// Sets the idempotency key: a second copy of the commit with the same key gets the first
    /// answer, and changes nothing. So a client that got no answer can send the commit again.
    ///
    /// * The key is text of 1 to 255 bytes without control characters, such as a random UUID. All
    ///   clients of a database share the keys.
    /// * The first answer stays the same through restarts, and for every process that has the
    ///   database open. [`AcceptedCommit::is_replay`](crate::AcceptedCommit::is_replay) tells it
    ///   from a new one.
    /// * Another commit with the same key is refused. Delays are compared as delays, so build the
    ///   copy as you built the commit.
    /// * A refused commit keeps no key, and is decided again. So is a commit whose only parts are
    ///   fetches that found no job.
    /// * A key is kept for 24 hours, and among the newest 1,000,000 keys: see
    ///   [`Settings::idempotency_retention_ms`](crate::Settings::idempotency_retention_ms).
    ///
    /// ```
    /// use quire::{Commit, Message};
    ///
    /// # let directory = tempfile::tempdir()?;
    /// # let db = quire::Database::builder(directory.path()).durability(quire::Durability::Os).open()?;
    /// let commit = Commit::new().produce("orders", Message::new("order 17")).idempotency_key("order-17-placed");
    /// let first = db.commit(&commit)?.committed()?;
    /// let again = db.commit(&commit)?.committed()?;
    /// assert!(again.is_replay && again.replies == first.replies && again.at == first.at);
    /// assert_eq!(db.topic("orders").offsets(0)?.next.get(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn idempotency_key(mut self, key: impl Into<Cow<'c, str>>) -> Self {
        self.idempotency_key = Some(key.into());
        self
    }

    /// Sets the fingerprint by which another commit with the same idempotency key is recognised.
    /// Default: that of this commit. A front end that turns delays into times sets the fingerprint
    /// of the commit with times from zero: see
    /// [`Database::fingerprint`](crate::Database::fingerprint).
    pub fn fingerprint(mut self, fingerprint: Fingerprint) -> Self {
        self.fingerprint = Some(fingerprint);
        self
    }

    /// Returns the number of parts.
    pub fn len(&self) -> usize {
        self.parts.len()
    }

    /// Returns whether the commit has no parts.
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Appends events to an event store.
    ///
    /// ```
    /// use quire::Commit;
    /// use quire::events::NewEvent;
    ///
    /// # let directory = tempfile::tempdir()?;
    /// # let db = quire::Database::builder(directory.path()).durability(quire::Durability::Os).open()?;
    /// let (order, customer) = (17, "ann");
    /// let placed = NewEvent::new("OrderPlaced")
    ///     .tag(format!("order:{order}"))
    ///     .tag(format!("customer:{customer}"))
    ///     .data(format!(r#"{{"order":{order}}}"#));
    /// db.commit(&Commit::new().append("orders", [placed]))?.committed()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn append(self, store: impl Into<Cow<'c, str>>, events: impl IntoIterator<Item = NewEvent<'c>>) -> Self {
        self.append_if(store, events, [])
    }

    /// Appends events if every condition holds. Without events, the conditions guard the rest of
    /// the commit.
    ///
    /// ```
    /// use quire::Commit;
    /// use quire::events::{Condition, NewEvent, QueryItem};
    ///
    /// # let directory = tempfile::tempdir()?;
    /// # let db = quire::Database::builder(directory.path()).durability(quire::Durability::Os).open()?;
    /// let order = 17;
    /// let tag = format!("order:{order}");
    /// let shipped = QueryItem::new().event_type("OrderShipped").tag(tag.clone());
    /// let cancel = Commit::new().append_if(
    ///     "orders",
    ///     [NewEvent::new("OrderCancelled").tag(tag)],
    ///     [Condition::fail_if_matches(shipped)],
    /// );
    /// assert!(db.commit(&cancel)?.refused().is_none());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn append_if(
        self,
        store: impl Into<Cow<'c, str>>,
        events: impl IntoIterator<Item = NewEvent<'c>>,
        conditions: impl IntoIterator<Item = Condition<'c>>,
    ) -> Self {
        let (events, conditions) = (events.into_iter().collect(), conditions.into_iter().collect());
        self.part(Part::Append { store: store.into(), events, conditions })
    }

    /// Records how far an event store has read a source. The position only grows: see
    /// [`Upstream`](crate::events::Upstream).
    ///
    /// ```
    /// use quire::Commit;
    /// use quire::events::NewEvent;
    ///
    /// # let directory = tempfile::tempdir()?;
    /// # let db = quire::Database::builder(directory.path()).durability(quire::Durability::Os).open()?;
    /// let (partition, offset) = (3, 41);
    /// let source = format!("kafka/orders/{partition}");
    /// let commit = Commit::new()
    ///     .append("orders", [NewEvent::new("OrderImported").tag(format!("offset:{offset}"))])
    ///     .upstream("orders", source.as_str(), offset);
    /// db.commit(&commit)?.committed()?;
    /// assert_eq!(db.events("orders").upstream(&source)?, Some(offset));
    /// assert!(db.commit(&commit)?.refused().is_some(), "the record was imported before");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn upstream(self, store: impl Into<Cow<'c, str>>, source: impl Into<Cow<'c, str>>, position: u64) -> Self {
        self.part(Part::Upstream { store: store.into(), source: source.into(), position })
    }

    /// Produces a message to a topic. A missing topic is created with one partition.
    ///
    /// ```
    /// use quire::{Commit, Message};
    ///
    /// # let directory = tempfile::tempdir()?;
    /// # let db = quire::Database::builder(directory.path()).durability(quire::Durability::Os).open()?;
    /// let (order, customer) = (17, "ann");
    /// let message = Message::new(format!("order {order}")).key(format!("customer:{customer}"));
    /// db.commit(&Commit::new().produce("orders", message))?.committed()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn produce(self, topic: impl Into<Cow<'c, str>>, message: Message<'c>) -> Self {
        self.part(Part::Produce { topic: topic.into(), message })
    }

    /// Commits the offset of the next record that a consumer group reads from a partition.
    ///
    /// ```
    /// use quire::{Commit, Message, Sequence};
    ///
    /// # let directory = tempfile::tempdir()?;
    /// # let db = quire::Database::builder(directory.path()).durability(quire::Durability::Os).open()?;
    /// let topic = db.topic("orders");
    /// let produced = topic.produce(Message::new("order 17"))?;
    /// let next = Sequence::new(produced.last_offset.get() + 1);
    /// let commit = Commit::new()
    ///     .produce("invoices", Message::new(format!("invoice {}", produced.base_offset)))
    ///     .commit_offset("billing", topic.name(), 0, next);
    /// db.commit(&commit)?.committed()?;
    /// assert_eq!(topic.committed_offset("billing", 0)?, Some(next));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn commit_offset(
        self,
        group: impl Into<Cow<'c, str>>,
        topic: impl Into<Cow<'c, str>>,
        partition: u32,
        offset: Sequence,
    ) -> Self {
        self.part(Part::CommitOffset { group: group.into(), topic: topic.into(), partition, offset })
    }

    /// Enqueues a job. A missing queue is created.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use quire::{Commit, NewJob};
    ///
    /// # let directory = tempfile::tempdir()?;
    /// # let db = quire::Database::builder(directory.path()).durability(quire::Durability::Os).open()?;
    /// let order = 17;
    /// let mail = NewJob::new(format!("confirm order {order}"))
    ///     .unique(format!("confirm:{order}"))
    ///     .timeout(Duration::from_secs(30));
    /// db.commit(&Commit::new().enqueue("mails", mail))?.committed()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn enqueue(self, queue: impl Into<Cow<'c, str>>, job: impl Into<NewJob<'c>>) -> Self {
        self.part(Part::Enqueue { queue: queue.into(), job: job.into() })
    }

    /// Completes a job with a result, which may be empty. A stale lease refuses the commit.
    ///
    /// ```
    /// use quire::events::NewEvent;
    /// use quire::{Commit, NewJob};
    ///
    /// # let directory = tempfile::tempdir()?;
    /// # let db = quire::Database::builder(directory.path()).durability(quire::Durability::Os).open()?;
    /// db.queue("charges").enqueue(NewJob::new("order 17"))?;
    /// let job = db.queue("charges").fetch("worker-1", 1)?.remove(0);
    /// let charged = NewEvent::new("OrderCharged").tag(format!("job:{}", job.job));
    /// let commit = Commit::new()
    ///     .append("orders", [charged])
    ///     .ack(job.job, job.token, format!("charged at attempt {}", job.attempt));
    /// db.commit(&commit)?.committed()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn ack(self, job: JobId, token: LeaseToken, result: impl Into<CowBytes<'c>>) -> Self {
        self.part(Part::Ack { job, token, result: result.into().into_cow() })
    }

    /// Ends an attempt at a job with an error. `retry` is a [`Retry`](crate::jobs::Retry), a point
    /// in time, or a duration from the commit. A stale lease refuses the commit.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use quire::{Commit, Message, NewJob};
    ///
    /// # let directory = tempfile::tempdir()?;
    /// # let db = quire::Database::builder(directory.path()).durability(quire::Durability::Os).open()?;
    /// db.queue("charges").enqueue(NewJob::new("order 17"))?;
    /// let job = db.queue("charges").fetch("worker-1", 1)?.remove(0);
    /// let error = format!("the card was declined at attempt {}", job.attempt);
    /// let commit = Commit::new()
    ///     .produce("alerts", Message::new(error.clone()))
    ///     .fail(job.job, job.token, error, Duration::from_secs(3600)); // tried again in an hour
    /// db.commit(&commit)?.committed()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn fail(
        self,
        job: JobId,
        token: LeaseToken,
        error: impl Into<Cow<'c, str>>,
        retry: impl Into<RetryTime>,
    ) -> Self {
        self.part(Part::Fail { job, token, error: error.into(), retry: retry.into() })
    }

    /// Returns a job to its queue until a point in time, or for a duration from the commit. The
    /// attempt does not count. A stale lease refuses the commit.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use quire::{Commit, NewJob};
    ///
    /// # let directory = tempfile::tempdir()?;
    /// # let db = quire::Database::builder(directory.path()).durability(quire::Durability::Os).open()?;
    /// db.queue("charges").enqueue(NewJob::new("order 17"))?;
    /// let job = db.queue("charges").fetch("worker-1", 1)?.remove(0);
    /// let commit = Commit::new().snooze(job.job, job.token, Duration::from_secs(60));
    /// db.commit(&commit)?.committed()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn snooze(self, job: JobId, token: LeaseToken, until: impl Into<DueTime>) -> Self {
        self.part(Part::Snooze { job, token, until: until.into() })
    }

    /// Puts a block into a graph. A missing graph is created.
    ///
    /// ```
    /// use quire::{Commit, NewBlock};
    ///
    /// # let directory = tempfile::tempdir()?;
    /// # let db = quire::Database::builder(directory.path()).durability(quire::Durability::Os).open()?;
    /// let (code, city) = ("EWR", "Newark");
    /// let airport = NewBlock::new(format!("airport:{code}"), "airport").metadata(format!(r#"{{"city":"{city}"}}"#));
    /// db.commit(&Commit::new().put_block("air/routes", airport))?.committed()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn put_block(self, graph: impl Into<Cow<'c, str>>, block: impl Into<NewBlock<'c>>) -> Self {
        self.part(Part::PutBlock { graph: graph.into(), block: block.into() })
    }

    /// Deletes a block and its edges.
    ///
    /// ```
    /// use quire::{Commit, NewBlock};
    ///
    /// # let directory = tempfile::tempdir()?;
    /// # let db = quire::Database::builder(directory.path()).durability(quire::Durability::Os).open()?;
    /// let code = "EWR";
    /// let name = format!("airport:{code}");
    /// let put = Commit::new().put_block("air/routes", NewBlock::new(name.as_str(), "airport"));
    /// db.commit(&put)?.committed()?;
    /// db.commit(&Commit::new().delete_block("air/routes", name))?.committed()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn delete_block(self, graph: impl Into<Cow<'c, str>>, block: impl Into<BlockKey<'c>>) -> Self {
        self.part(Part::DeleteBlock { graph: graph.into(), block: block.into() })
    }

    /// Puts an edge into a graph. A missing graph is created.
    ///
    /// ```
    /// use quire::{Commit, NewBlock, NewEdge};
    ///
    /// # let directory = tempfile::tempdir()?;
    /// # let db = quire::Database::builder(directory.path()).durability(quire::Durability::Os).open()?;
    /// let [from, to] = ["EWR", "IAH"].map(|code| format!("airport:{code}"));
    /// let commit = Commit::new()
    ///     .put_block("air/routes", NewBlock::new(from.as_str(), "airport"))
    ///     .put_block("air/routes", NewBlock::new(to.as_str(), "airport"))
    ///     .put_edge("air/routes", NewEdge::new(from.as_str(), "flies_to", to.as_str()));
    /// db.commit(&commit)?.committed()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn put_edge(self, graph: impl Into<Cow<'c, str>>, edge: impl Into<NewEdge<'c>>) -> Self {
        self.part(Part::PutEdge { graph: graph.into(), edge: edge.into() })
    }

    /// Deletes an edge.
    ///
    /// ```
    /// use quire::{Commit, NewBlock, NewEdge};
    ///
    /// # let directory = tempfile::tempdir()?;
    /// # let db = quire::Database::builder(directory.path()).durability(quire::Durability::Os).open()?;
    /// let [from, to] = ["EWR", "IAH"].map(|code| format!("airport:{code}"));
    /// let put = Commit::new()
    ///     .put_block("air/routes", NewBlock::new(from.as_str(), "airport"))
    ///     .put_block("air/routes", NewBlock::new(to.as_str(), "airport"))
    ///     .put_edge("air/routes", NewEdge::new(from.as_str(), "flies_to", to.as_str()));
    /// db.commit(&put)?.committed()?;
    /// db.commit(&Commit::new().delete_edge("air/routes", from, "flies_to", to))?.committed()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn delete_edge(
        self,
        graph: impl Into<Cow<'c, str>>,
        source: impl Into<BlockKey<'c>>,
        edge_type: impl Into<Cow<'c, str>>,
        target: impl Into<BlockKey<'c>>,
    ) -> Self {
        self.part(Part::DeleteEdge {
            graph: graph.into(),
            source: source.into(),
            edge_type: edge_type.into(),
            target: target.into(),
        })
    }

    pub(crate) fn parts(&self) -> &[Part<'c>] {
        &self.parts
    }

    pub(crate) fn key(&self) -> Option<&str> {
        self.idempotency_key.as_deref()
    }

    pub(crate) fn given_fingerprint(&self) -> Option<Fingerprint> {
        self.fingerprint
    }
}

/// Returns a time as record batches have it: milliseconds since 1970.
pub(crate) fn batch_time_ms(time: Timestamp) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}
