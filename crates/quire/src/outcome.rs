//! The outcome of a commit. A committed one has a reply for each part. A refused one names the
//! refused part and the reason.

use quire_model::At;
use quire_shard::{CommitRefusal, Error};

use crate::{events, graph, jobs, streams, system};

/// The outcome of a commit. A refusal is a result, not an error.
///
/// ```
/// use quire::jobs::Change;
/// use quire::{Commit, NewJob, Outcome};
///
/// # let directory = tempfile::tempdir()?;
/// # let db = quire::Database::builder(directory.path()).durability(quire::Durability::Os).open()?;
/// let job = db.queue("mails").enqueue(NewJob::new("order 17"))?;
/// let leased = db.queue("mails").fetch("worker-1", 1)?.remove(0);
/// db.queue("mails").change(job, Change::Cancel { reason: "the order was withdrawn" })?;
/// match db.commit(&Commit::new().ack(leased.job, leased.token, ""))? {
///     Outcome::Committed(done) => println!("done at {}", done.at.position),
///     Outcome::Refused(refusal) => println!("part {} is refused: {}", refusal.part, refusal.reason),
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
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
    /// Whether this is the answer to an earlier copy of the commit, by its idempotency key. This
    /// copy changed nothing. See [`Commit::idempotency_key`](crate::Commit::idempotency_key).
    pub is_replay: bool,
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
    /// The reply to a change of users, keys, roles or rules.
    System(system::Reply),
}
