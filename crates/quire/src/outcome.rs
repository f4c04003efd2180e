//! The outcome of a commit. A committed one has a reply for each part. A refused one names the
//! refused part and the reason.

use quire_model::At;
use quire_shard::{CommitRefusal, Error};

use crate::{events, graph, jobs, streams};

/// The outcome of a commit. A refusal is a result, not an error.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "a commit may be refused"]
pub enum Outcome {
    /// All parts happened.
    Committed(AcceptedCommit),
    /// No part happened.
    Refused(CommitRefusal),
}

impl Outcome {
    /// Returns the commit if it was accepted.
    ///
    /// # Errors
    /// [`ErrorKind::Refused`](crate::ErrorKind::Refused), with the refusal as its message.
    pub fn committed(self) -> Result<AcceptedCommit, Error> {
        match self {
            Outcome::Committed(committed) => Ok(committed),
            Outcome::Refused(refused) => Err(refused.into()),
        }
    }

    /// Returns the refusal if the commit was refused.
    pub fn refused(self) -> Option<CommitRefusal> {
        match self {
            Outcome::Committed(_) => None,
            Outcome::Refused(refused) => Some(refused),
        }
    }
}

/// An accepted commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AcceptedCommit {
    /// The position and time of the commit's record. A commit that changed nothing takes no
    /// position, such as a fetch without a job or a condition without events. In that case this is
    /// the position of the last record before it, or 0 without any record. A read at this position
    /// always sees the result of the commit.
    pub at: At,
    /// The replies, one for each part, in the order of the parts.
    pub replies: Vec<Reply>,
}

/// The reply to a part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// The reply of a topic.
    Streams(streams::Reply),
    /// The reply of an event store.
    Events(events::AppendResult),
    /// The reply of a queue.
    Jobs(jobs::Reply),
    /// The reply of a graph.
    Graph(graph::Reply),
}
