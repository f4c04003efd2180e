//! What became of a commit: committed, with an answer to each part, or refused, with the part that was and why.

use std::fmt;

use quire_model::At;

use crate::{Error, events, graph, jobs, streams};

/// What became of a commit. A refusal is an answer, not an error.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "a commit may be refused"]
pub enum Outcome {
    /// All of it happened.
    Committed(Committed),
    /// None of it happened.
    Refused(Refused),
}

impl Outcome {
    /// The commit, when it is one.
    ///
    /// # Errors
    /// [`ErrorKind::Refused`](crate::ErrorKind::Refused), with the refusal as its message.
    pub fn committed(self) -> Result<Committed, Error> {
        match self {
            Outcome::Committed(committed) => Ok(committed),
            Outcome::Refused(refused) => Err(refused.into()),
        }
    }

    /// The refusal, when it is one.
    pub fn refused(self) -> Option<Refused> {
        match self {
            Outcome::Committed(_) => None,
            Outcome::Refused(refused) => Some(refused),
        }
    }
}

/// A commit that happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Committed {
    /// The position and time of its record. A commit that changed nothing (a fetch that found no job, a condition without
    /// events) takes no position: this is then that of the last record before it, or 0 when there is none. Either way a read as of it
    /// sees what the commit left.
    pub at: At,
    /// The answers, one a part, in the order of the parts.
    pub replies: Vec<Reply>,
}

/// The answer to a part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// Of a topic.
    Streams(streams::Reply),
    /// Of an event store.
    Events(events::Appended),
    /// Of a queue.
    Jobs(jobs::Reply),
    /// Of a graph.
    Graph(graph::Reply),
}

/// A commit that was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// The index of the part that was refused, in the order of the parts.
    pub part: usize,
    /// Why.
    pub reason: Reason,
}

impl Refused {
    /// The command whose keys are to be read before it can be decided: its topic came to be compacted since that was looked at, or comes to
    /// be in this very commit.
    pub(crate) fn asks_for_keys(&self) -> Option<usize> {
        matches!(self.reason, Reason::Streams(streams::Refusal::UnreadKeys)).then_some(self.part)
    }
}

/// Why a part was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reason {
    /// By a topic.
    Streams(streams::Refusal),
    /// By an event store.
    Events(events::Refusal),
    /// By a queue.
    Jobs(jobs::Refusal),
    /// By a graph.
    Graph(graph::Refusal),
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::Streams(refusal) => refusal.fmt(f),
            Reason::Events(refusal) => refusal.fmt(f),
            Reason::Jobs(refusal) => refusal.fmt(f),
            Reason::Graph(refusal) => refusal.fmt(f),
        }
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "part {} of the commit is refused: {}", self.part, self.reason)
    }
}
