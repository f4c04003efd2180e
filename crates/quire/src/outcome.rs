//! What became of a commit: committed, with an answer to each part, or refused, with the part that
//! was and why.

use quire_model::At;
use quire_shard::{Error, Refused};

use crate::{events, graph, jobs, streams};

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
    /// The position and time of its record. A commit that changed nothing (a fetch that found no
    /// job, a condition without events) takes no position: this is then that of the last record
    /// before it, or 0 when there is none. Either way a read as of it sees what the commit left.
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
