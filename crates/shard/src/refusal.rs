//! The refusal of a commit: the refused command, and the reason.

use std::fmt;

use quire_model::{ModelId, PermissionRefusal};

use crate::idempotency::IdempotencyRefusal;
use crate::{events, graph, jobs, streams, system};

/// A commit that was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommitRefusal {
    /// The index of the part that was refused, in the order of the parts. 0 for a refused
    /// idempotency key.
    pub part: usize,
    /// The reason.
    pub reason: Reason,
}

impl CommitRefusal {
    /// Whether the idempotency key is refused, and no part.
    pub fn is_of_key(&self) -> bool {
        matches!(self.reason, Reason::Idempotency(_))
    }

    /// The command whose record keys must be read before it can be decided. Its topic became
    /// compacted after the producer looked the topic up, or becomes compacted in this commit.
    #[doc(hidden)]
    pub fn asks_for_keys(&self) -> Option<usize> {
        matches!(self.reason, Reason::Streams(streams::Refusal::UnreadKeys)).then_some(self.part)
    }
}

/// The reason of a refusal, by model.
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
    /// By the users, keys, roles and rules.
    System(system::Refusal),
    /// By the idempotency key: no part is to blame.
    Idempotency(IdempotencyRefusal),
    /// By the permissions of the client.
    NotPermitted(NotPermitted),
}

/// A command that was refused for a missing permission.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotPermitted {
    /// The model of the command.
    pub model: ModelId,
    /// The missing permission.
    pub refusal: PermissionRefusal,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::Streams(refusal) => refusal.fmt(f),
            Reason::Events(refusal) => refusal.fmt(f),
            Reason::Jobs(refusal) => refusal.fmt(f),
            Reason::Graph(refusal) => refusal.fmt(f),
            Reason::System(refusal) => refusal.fmt(f),
            Reason::Idempotency(refusal) => refusal.fmt(f),
            Reason::NotPermitted(refused) => refused.refusal.fmt(f),
        }
    }
}

impl fmt::Display for CommitRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.reason {
            Reason::Idempotency(refusal) => write!(f, "the commit is refused: {refusal}"),
            reason => write!(f, "part {} of the commit is refused: {reason}", self.part),
        }
    }
}
