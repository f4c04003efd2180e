//! What a commit asks for, and what it gets: the commands and the replies, by model.

use quire_model::EntryKind;

use crate::audit::AuditAuthor;
use crate::idempotency::IdempotencyKey;
use crate::{events, graph, jobs, streams, system};

/// The commands of a commit, by model. Within a model they keep the order of the parts.
#[derive(Debug, Default, Clone, Copy)]
pub struct Commands<'p, 'c> {
    /// Of topics and consumer groups.
    pub streams: &'p [streams::Command<'c>],
    /// Of event stores.
    pub events: &'p [events::Command<'c>],
    /// Of queues.
    pub jobs: &'p [jobs::Command<'c>],
    /// Of graphs.
    pub graph: &'p [graph::Command<'c>],
    /// Of users, keys, roles and rules. Their audit events are part of the commit. Such a commit
    /// takes no idempotency key.
    pub system: &'p [system::Command<'c>],
    /// The author of these changes. Default: [`AuditAuthor::OWNER`].
    pub author: Option<AuditAuthor<'p>>,
    /// Further events of the audit store, which only the owner commits. Such a commit takes no
    /// idempotency key.
    pub audit: &'p [events::NewEvent<'c>],
    /// The key by which a second copy of the commit is recognised. `None` decides each copy.
    pub idempotency_key: Option<IdempotencyKey<'p>>,
    /// Whether the commit is only decided. Nothing is appended, and no state changes.
    pub is_dry_run: bool,
}

impl Commands<'_, '_> {
    /// Whether every command only frees space, such as a deletion. Changes of access count as such:
    /// a key must be revocable on a full disk.
    #[inline]
    pub(crate) fn free_space(&self) -> bool {
        self.streams.iter().all(streams::Command::frees_space)
            && self.events.iter().all(events::Command::frees_space)
            && self.jobs.iter().all(jobs::Command::frees_space)
            && self.graph.iter().all(graph::Command::frees_space)
            // A client could use up the reserve with refused requests.
            && self.audit.is_empty()
    }
}

/// The replies, by model. Within a model they keep the order of the commands. Keep one for many
/// commits, for its capacity.
#[derive(Debug, Default)]
pub struct Replies {
    /// Of topics and consumer groups.
    pub streams: Vec<streams::Reply>,
    /// Of event stores.
    pub events: Vec<events::AppendResult>,
    /// Of queues.
    pub jobs: Vec<jobs::Reply>,
    /// Of graphs.
    pub graph: Vec<graph::Reply>,
    /// Of users, keys, roles and rules.
    pub system: Vec<system::Reply>,
    /// The entries that a commit would append, after an accepted dry run. Empty otherwise.
    pub drafted: Vec<DraftedEntry>,
}

/// An entry that a commit would append.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DraftedEntry {
    /// The model of the entry, and what it means there.
    pub kind: EntryKind,
    /// The size of its body in bytes.
    pub bytes: usize,
}

impl Replies {
    /// No replies, and no memory for any.
    pub const fn new() -> Self {
        Replies {
            streams: Vec::new(),
            events: Vec::new(),
            jobs: Vec::new(),
            graph: Vec::new(),
            system: Vec::new(),
            drafted: Vec::new(),
        }
    }

    /// Largest number of replies, of one model, that fit the memory held.
    pub fn capacity(&self) -> usize {
        let of_log = self.streams.capacity().max(self.events.capacity());
        let of_models = of_log.max(self.jobs.capacity()).max(self.graph.capacity()).max(self.system.capacity());
        of_models.max(self.drafted.capacity())
    }

    /// Whether they are those of fetches that found no job. A copy of such a commit fetches again.
    pub(crate) fn are_empty_fetches(&self) -> bool {
        let is_empty = |reply: &jobs::Reply| matches!(reply, jobs::Reply::Fetched(jobs) if jobs.is_empty());
        self.streams.is_empty() && self.events.is_empty() && self.graph.is_empty() && self.jobs.iter().all(is_empty)
    }

    #[inline]
    pub(crate) fn clear(&mut self) {
        self.streams.clear();
        self.events.clear();
        self.jobs.clear();
        self.graph.clear();
        self.system.clear();
        self.drafted.clear();
    }
}
