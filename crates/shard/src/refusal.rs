//! The refusal of a commit: the command that was refused, and why.

use std::fmt;

use crate::{events, graph, jobs, streams};

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
    #[doc(hidden)]
    pub fn asks_for_keys(&self) -> Option<usize> {
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
