//! Handles of parts: which reply of a commit belongs to which part.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use super::{Commit, Message, NewBlock, NewEdge, NewJob, Part};
use crate::events::{AppendResult, Condition, NewEvent};
use crate::jobs::{JobId, JobState};
use crate::outcome::{AcceptedCommit, Reply};
use crate::streams::ProduceResult;
use crate::{graph, jobs, streams};

/// Refers to one part of a commit. [`AcceptedCommit::reply`] returns the reply to the part.
pub struct PartHandle<R> {
    part: usize,
    reply: PhantomData<fn() -> R>,
}

/// The reply to an enqueued job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EnqueueResult {
    /// The id of the job. For a duplicate, the id of the job that holds the key.
    pub job: JobId,
    /// The state of that job.
    pub state: JobState,
    /// Whether another job holds the key, so this job was not enqueued.
    pub duplicate: bool,
}

/// The type of the reply to a part.
pub trait TypedReply: Sized {
    /// Returns the reply as this type; `None` when it is the reply to another kind of part.
    fn from_reply(reply: &Reply) -> Option<Self>;
}

impl TypedReply for EnqueueResult {
    fn from_reply(reply: &Reply) -> Option<Self> {
        match reply {
            Reply::Jobs(jobs::Reply::Enqueued { job, state, duplicate }) => {
                Some(EnqueueResult { job: *job, state: *state, duplicate: *duplicate })
            }
            _ => None,
        }
    }
}

impl TypedReply for AppendResult {
    fn from_reply(reply: &Reply) -> Option<Self> {
        match reply {
            Reply::Events(appended) => Some(*appended),
            _ => None,
        }
    }
}

impl TypedReply for ProduceResult {
    fn from_reply(reply: &Reply) -> Option<Self> {
        match reply {
            Reply::Streams(streams::Reply::Produced(produced)) => Some(*produced),
            _ => None,
        }
    }
}

impl TypedReply for graph::Reply {
    fn from_reply(reply: &Reply) -> Option<Self> {
        match reply {
            Reply::Graph(reply) => Some(*reply),
            _ => None,
        }
    }
}

impl<'c> Commit<'c> {
    /// Adds a job as [`Commit::enqueue`] does, and returns the handle of its reply.
    ///
    /// ```
    /// use quire::events::NewEvent;
    /// use quire::{Commit, Database, Durability, NewJob};
    ///
    /// # let directory = tempfile::tempdir()?;
    /// let db = Database::builder(directory.path()).durability(Durability::Os).open()?;
    /// let mut commit = Commit::new().append("orders", [NewEvent::new("OrderPlaced")]);
    /// let mail = commit.add_job("mails", NewJob::new("order 17"));
    /// let committed = db.commit(&commit)?.committed()?;
    /// let job = committed.reply(mail).job;
    /// assert_eq!(db.queue("mails").fetch("worker-1", 1)?[0].job, job);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn add_job(&mut self, queue: impl Into<Cow<'c, str>>, job: impl Into<NewJob<'c>>) -> PartHandle<EnqueueResult> {
        self.add(Part::Enqueue { queue: queue.into(), job: job.into() })
    }

    /// Adds events as [`Commit::append_if`] does, and returns the handle of their reply.
    ///
    /// ```
    /// use quire::Commit;
    /// use quire::events::NewEvent;
    ///
    /// # let directory = tempfile::tempdir()?;
    /// # let db = quire::Database::builder(directory.path()).durability(quire::Durability::Os).open()?;
    /// let events = (1..=3).map(|seat| NewEvent::new("SeatBooked").tag(format!("seat:{seat}")));
    /// let mut commit = Commit::new();
    /// let booked = commit.add_events("flights", events, []);
    /// let result = db.commit(&commit)?.committed()?.reply(booked);
    /// assert_eq!(result.last.map(|last| last.get()), Some(3));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn add_events(
        &mut self,
        store: impl Into<Cow<'c, str>>,
        events: impl IntoIterator<Item = NewEvent<'c>>,
        conditions: impl IntoIterator<Item = Condition<'c>>,
    ) -> PartHandle<AppendResult> {
        let (events, conditions) = (events.into_iter().collect(), conditions.into_iter().collect());
        self.add(Part::Append { store: store.into(), events, conditions })
    }

    /// Adds a message as [`Commit::produce`] does, and returns the handle of its reply.
    ///
    /// ```
    /// use quire::{Commit, Message};
    ///
    /// # let directory = tempfile::tempdir()?;
    /// # let db = quire::Database::builder(directory.path()).durability(quire::Durability::Os).open()?;
    /// let order = 17;
    /// let mut commit = Commit::new();
    /// let message = commit.add_message("orders", Message::new(format!("order {order}")));
    /// let produced = db.commit(&commit)?.committed()?.reply(message);
    /// assert_eq!((produced.partition, produced.base_offset.get()), (0, 0));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn add_message(&mut self, topic: impl Into<Cow<'c, str>>, message: Message<'c>) -> PartHandle<ProduceResult> {
        self.add(Part::Produce { topic: topic.into(), message })
    }

    /// Adds a block as [`Commit::put_block`] does, and returns the handle of its reply.
    ///
    /// ```
    /// use quire::graph::Reply;
    /// use quire::{Commit, NewBlock};
    ///
    /// # let directory = tempfile::tempdir()?;
    /// # let db = quire::Database::builder(directory.path()).durability(quire::Durability::Os).open()?;
    /// let code = "EWR";
    /// let mut commit = Commit::new();
    /// let block = commit.add_block("air/routes", NewBlock::new(format!("airport:{code}"), "airport"));
    /// assert!(matches!(db.commit(&commit)?.committed()?.reply(block), Reply::BlockPut { created: true, .. }));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn add_block(
        &mut self,
        graph: impl Into<Cow<'c, str>>,
        block: impl Into<NewBlock<'c>>,
    ) -> PartHandle<graph::Reply> {
        self.add(Part::PutBlock { graph: graph.into(), block: block.into() })
    }

    /// Adds an edge as [`Commit::put_edge`] does, and returns the handle of its reply.
    ///
    /// ```
    /// use quire::graph::Reply;
    /// use quire::{Commit, NewBlock, NewEdge};
    ///
    /// # let directory = tempfile::tempdir()?;
    /// # let db = quire::Database::builder(directory.path()).durability(quire::Durability::Os).open()?;
    /// let [from, to] = ["EWR", "IAH"].map(|code| format!("airport:{code}"));
    /// let mut commit = Commit::new()
    ///     .put_block("air/routes", NewBlock::new(from.as_str(), "airport"))
    ///     .put_block("air/routes", NewBlock::new(to.as_str(), "airport"));
    /// let edge = commit.add_edge("air/routes", NewEdge::new(from.as_str(), "flies_to", to.as_str()));
    /// assert_eq!(db.commit(&commit)?.committed()?.reply(edge), Reply::EdgePut { created: true });
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn add_edge(
        &mut self,
        graph: impl Into<Cow<'c, str>>,
        edge: impl Into<NewEdge<'c>>,
    ) -> PartHandle<graph::Reply> {
        self.add(Part::PutEdge { graph: graph.into(), edge: edge.into() })
    }

    fn add<R>(&mut self, part: Part<'c>) -> PartHandle<R> {
        self.parts.push(part);
        PartHandle { part: self.parts.len() - 1, reply: PhantomData }
    }
}

impl AcceptedCommit {
    /// Returns the reply to a part. See [`Commit::add_job`].
    ///
    /// # Panics
    /// When the handle belongs to another commit that has no such part.
    pub fn reply<R: TypedReply>(&self, handle: PartHandle<R>) -> R {
        let reply = self.replies.get(handle.part).and_then(R::from_reply);
        reply.expect("the handle of a part is used with the outcome of its own commit")
    }
}

impl<R> Clone for PartHandle<R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<R> Copy for PartHandle<R> {}

impl<R> fmt::Debug for PartHandle<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PartHandle").field(&self.part).finish()
    }
}
