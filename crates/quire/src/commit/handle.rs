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
    pub fn add_message(&mut self, topic: impl Into<Cow<'c, str>>, message: Message<'c>) -> PartHandle<ProduceResult> {
        self.add(Part::Produce { topic: topic.into(), message })
    }

    /// Adds a block as [`Commit::put_block`] does, and returns the handle of its reply.
    pub fn add_block(
        &mut self,
        graph: impl Into<Cow<'c, str>>,
        block: impl Into<NewBlock<'c>>,
    ) -> PartHandle<graph::Reply> {
        self.add(Part::PutBlock { graph: graph.into(), block: block.into() })
    }

    /// Adds an edge as [`Commit::put_edge`] does, and returns the handle of its reply.
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
