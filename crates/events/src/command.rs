//! The commands of the model, and its replies.
//!
//! An append may have no conditions. It may also have no events if it has a condition: it then
//! guards the rest of its commit and writes nothing.

use alloc::vec::Vec;

use crate::{EventPosition, MoveSubscription, NewEvent, PutSubscription, Query, SaveProjection};

/// A command to the event stores of a shard.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Command<'c> {
    /// Append events under conditions.
    Append(Append<'c>),
    /// Note how far a source has been read. It is answered as an append without events, as are the
    /// following.
    Upstream(Upstream<'c>),
    /// Deletes all events up to a position. No later read returns them, and no later condition
    /// matches them.
    Trim {
        /// The store.
        store: &'c str,
        /// The last event to delete; at most the last of the store. Events deleted before stay
        /// deleted.
        up_to: EventPosition,
    },
    /// Deletes all events that carry a tag and were appended before this commit, as if they had
    /// never been appended.
    Forget {
        /// The store.
        store: &'c str,
        /// The tag.
        tag: &'c [u8],
    },
    /// Set how long events are kept.
    SetRetention {
        /// The store; created when it is not there.
        store: &'c str,
        /// In milliseconds, by the times of the events; `None` for ever.
        retention_ms: Option<u64>,
    },
    /// Create or change a named subscription.
    PutSubscription(PutSubscription<'c>),
    /// Moves a named subscription past the events that were delivered.
    MoveSubscription(MoveSubscription<'c>),
    /// Remove a named subscription.
    DropSubscription {
        /// Its name.
        name: &'c str,
    },
    /// Save the state of a projection.
    SaveProjection(SaveProjection<'c>),
    /// Remove the saved state of a projection, so that it is built again.
    DropProjection {
        /// The store.
        store: &'c str,
        /// The name of the projection.
        name: &'c str,
    },
}

impl Command<'_> {
    /// The subscription that the command names without its store.
    pub(crate) fn subscription(&self) -> Option<&str> {
        match self {
            Command::MoveSubscription(MoveSubscription { name, .. }) | Command::DropSubscription { name } => Some(name),
            Command::Append(_)
            | Command::Upstream(_)
            | Command::Trim { .. }
            | Command::Forget { .. }
            | Command::SetRetention { .. }
            | Command::PutSubscription(_)
            | Command::SaveProjection(_)
            | Command::DropProjection { .. } => None,
        }
    }

    /// The store whose events or settings the command changes. A condition and a subscription only
    /// read.
    pub fn changed_store(&self) -> Option<&str> {
        match self {
            Command::Append(Append { events, conditions, .. }) if events.is_empty() && !conditions.is_empty() => None,
            Command::Append(Append { store, .. })
            | Command::Upstream(Upstream { store, .. })
            | Command::Trim { store, .. }
            | Command::Forget { store, .. }
            | Command::SetRetention { store, .. }
            | Command::SaveProjection(SaveProjection { store, .. })
            | Command::DropProjection { store, .. } => Some(store),
            Command::PutSubscription(_) | Command::MoveSubscription(_) | Command::DropSubscription { .. } => None,
        }
    }

    /// Whether the command only removes data. A full disk keeps some space for such commands.
    pub fn frees_space(&self) -> bool {
        match self {
            Command::Trim { .. }
            | Command::Forget { .. }
            | Command::SetRetention { .. }
            | Command::DropSubscription { .. }
            | Command::DropProjection { .. } => true,
            Command::Append(_)
            | Command::Upstream(_)
            | Command::PutSubscription(_)
            | Command::MoveSubscription(_)
            | Command::SaveProjection(_) => false,
        }
    }
}

/// The progress of a store in reading another source: a topic, another store, a table. Commit it
/// together with the results, and they are stored exactly once. A repeated commit is refused with
/// [`Refusal::UpstreamBehind`](crate::Refusal::UpstreamBehind). After a restart,
/// [`Events::upstream`](crate::Events::upstream) returns where to continue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Upstream<'c> {
    /// The store that reads the source; created when it does not exist.
    pub store: &'c str,
    /// The name of the source, in the store: any text of at most
    /// [`SOURCE_BYTES_MAX`](crate::SOURCE_BYTES_MAX) bytes. A store keeps at most
    /// [`SOURCES_MAX`](crate::SOURCES_MAX).
    pub source: &'c str,
    /// The position in the source; greater than the one before.
    pub position: u64,
}

/// Append `events`, in order, if every condition holds.
///
/// It is idempotent by the ids of its events. When the store already has them as the same run, the
/// answer gives their positions, nothing is appended and no condition is checked. The same run
/// means consecutive positions that one commit wrote, in the same order, with ids where this append
/// has ids, and the same event where it has none.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Append<'c> {
    /// The store's name; the first append with events creates the store.
    pub store: &'c str,
    /// At most [`EVENTS_MAX`](crate::EVENTS_MAX). May be empty if there is a condition.
    pub events: Vec<NewEvent<'c>>,
    /// At most [`CONDITIONS_MAX`](crate::CONDITIONS_MAX); all must hold.
    pub conditions: Vec<Condition<'c>>,
}

/// A condition on a store under which an append is accepted.
///
/// It is checked against every event before the commit, and against those that earlier commands of
/// the commit append.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Condition<'c> {
    /// No event after `after` matches the query.
    FailIfMatches {
        /// The events that conflict with the append.
        query: Query<'c>,
        /// Events up to and including this position do not conflict. Pass the last position that
        /// the decision has seen, best the head that the read returned. With
        /// [`EventPosition::ZERO`], every match conflicts.
        after: EventPosition,
    },
    /// The last event that matches the query is exactly this one.
    LastIs {
        /// The events of which the last is compared.
        query: Query<'c>,
        /// Its position. [`EventPosition::ZERO`]: no event matches.
        position: EventPosition,
    },
}

impl<'c> Condition<'c> {
    /// No event of the store matches.
    pub fn fail_if_matches(query: impl Into<Query<'c>>) -> Self {
        Condition::FailIfMatches { query: query.into(), after: EventPosition::ZERO }
    }

    /// No event after `after` matches.
    pub fn fail_if_matches_after(query: impl Into<Query<'c>>, after: EventPosition) -> Self {
        Condition::FailIfMatches { query: query.into(), after }
    }

    /// The last match has exactly this position.
    pub fn last_is(query: impl Into<Query<'c>>, position: EventPosition) -> Self {
        Condition::LastIs { query: query.into(), position }
    }

    /// Returns the same condition, borrowing from this one.
    pub fn as_borrowed(&self) -> Condition<'_> {
        match self {
            Condition::FailIfMatches { query, after } => {
                Condition::FailIfMatches { query: query.as_borrowed(), after: *after }
            }
            Condition::LastIs { query, position } => {
                Condition::LastIs { query: query.as_borrowed(), position: *position }
            }
        }
    }

    /// Returns the same condition, owning its text and bytes.
    pub fn into_owned(self) -> Condition<'static> {
        match self {
            Condition::FailIfMatches { query, after } => Condition::FailIfMatches { query: query.into_owned(), after },
            Condition::LastIs { query, position } => Condition::LastIs { query: query.into_owned(), position },
        }
    }

    /// The query of any condition.
    pub const fn query(&self) -> &Query<'c> {
        match self {
            Condition::FailIfMatches { query, .. } | Condition::LastIs { query, .. } => query,
        }
    }
}

/// The answer to an [`Append`]; to another command, that of an append without events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AppendResult {
    /// The position of the first event; `None` when the append had no events.
    pub first: Option<EventPosition>,
    /// The position of the last event; `None` when the append had no events.
    pub last: Option<EventPosition>,
    /// Whether the events were there already, so that nothing was appended now.
    pub duplicate: bool,
}

impl AppendResult {
    /// The answer without events.
    pub const NOTHING: AppendResult = AppendResult { first: None, last: None, duplicate: false };
}
