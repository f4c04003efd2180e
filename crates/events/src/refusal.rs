//! Reasons to refuse a request, with the facts that conflict.
//!
//! Indexes count from 0, in the order of the request.

use alloc::string::String;
use core::fmt;

use quire_model::{ClaimRefusal, Stop};

use crate::{
    CONDITIONS_MAX, EVENTS_MAX, EventId, EventPosition, FORGOTTEN_MAX, NAME_BYTES_MAX, PROJECTIONS_MAX,
    QUERY_WALKS_MAX, SOURCES_MAX, SUBSCRIPTIONS_MAX, TAGS_MAX,
};

/// Why an append, and with it its commit, is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// A condition does not hold: read again, decide again.
    ConditionFailed {
        /// The index of the condition in the append.
        condition: usize,
        /// The conflicting event. Of [`Condition::FailIfMatches`](crate::Condition::FailIfMatches)
        /// the first match after `after`; of [`Condition::LastIs`](crate::Condition::LastIs) the
        /// last match, or `None` when no event matches.
        position: Option<EventPosition>,
    },
    /// A condition's `after` lies after the last event. The position comes from another store, or
    /// from events that were lost in a crash. Such a condition would hold whatever is appended
    /// next, so it is refused.
    AfterAhead {
        /// The index of the condition in the append.
        condition: usize,
        /// The `after` of the condition.
        after: EventPosition,
        /// The last event of the store.
        head: EventPosition,
    },
    /// Deciding the condition takes more steps than the request may take.
    TooCostly {
        /// The index of the condition in the append.
        condition: usize,
        /// The steps of the request's budget, for all of its conditions together.
        steps_max: u64,
    },
    /// An event with this id is in the store, and not as part of the same append, or another type,
    /// tags or data.
    DuplicateEvent {
        /// The index of the event in the append.
        event: usize,
        /// Its id.
        id: EventId,
        /// The position of the other event with this id.
        position: EventPosition,
    },
    /// Two events of the append have the same id.
    RepeatedId(EventId),
    /// The append has neither events nor conditions.
    NothingAsked,
    /// More than [`EVENTS_MAX`] events.
    TooManyEvents {
        /// The number of events.
        events: usize,
    },
    /// More than [`CONDITIONS_MAX`] conditions.
    TooManyConditions {
        /// The number of conditions.
        conditions: usize,
    },
    /// The store's name is invalid.
    InvalidName(NameProblem),
    /// The event is invalid.
    InvalidEvent {
        /// The index of the event in the append.
        event: usize,
        /// Why.
        problem: EventProblem,
    },
    /// The query of a condition is invalid.
    InvalidQuery {
        /// The index of the condition in the append.
        condition: usize,
        /// Why.
        problem: QueryProblem,
    },
    /// The source was already read up to this position or further, so its results are already
    /// stored.
    UpstreamBehind {
        /// The position in the command.
        position: u64,
        /// The position up to which the source was read.
        known: u64,
    },
    /// The source's name is invalid.
    InvalidSource(LabelProblem),
    /// The store reads from [`SOURCES_MAX`] sources already.
    TooManySources,
    /// The subscription's name is invalid.
    InvalidSubscriptionName(NameProblem),
    /// The subscription's query is invalid.
    InvalidSubscriptionQuery(QueryProblem),
    /// The tag prefix of `group_by` is invalid.
    InvalidGroupBy(LabelProblem),
    /// A subscription's events get no attempt.
    NoAttempts,
    /// [`SUBSCRIPTIONS_MAX`] named subscriptions already exist.
    TooManySubscriptions,
    /// No store has this name, so it has no events to trim or forget.
    UnknownStore,
    /// No subscription has this name.
    UnknownSubscription,
    /// A subscription of another store has the name.
    SubscriptionOfAnotherStore,
    /// The subscription is at another position: another client has delivered.
    SubscriptionMoved {
        /// The current position.
        position: EventPosition,
    },
    /// The position lies after the last event of the store.
    AheadOfStore {
        /// The requested position.
        position: EventPosition,
        /// The last event of the store.
        head: EventPosition,
    },
    /// The tag is invalid.
    InvalidTag(LabelProblem),
    /// The store has forgotten [`FORGOTTEN_MAX`] tags already.
    TooManyForgotten,
    /// The projection's name is invalid.
    InvalidProjectionName(LabelProblem),
    /// The store keeps [`PROJECTIONS_MAX`] projections already.
    TooManyProjections,
    /// No saved projection has this name.
    UnknownProjection,
    /// Another client has saved the projection after the state that this one was built from.
    ProjectionMoved {
        /// The position of the saved state.
        position: EventPosition,
    },
    /// Only the database itself changes this store.
    ReservedStore {
        /// Its name.
        store: String,
    },
    /// Another object has the topic name of the store or of the subscription's queue, or the
    /// database has as many stores as it may.
    Claim(ClaimRefusal),
}

impl From<ClaimRefusal> for Refusal {
    fn from(refusal: ClaimRefusal) -> Self {
        Refusal::Claim(refusal)
    }
}

/// Why a read is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SelectRefusal {
    /// The store's name is invalid.
    InvalidName(NameProblem),
    /// The query is invalid.
    InvalidQuery(QueryProblem),
}

/// Why a name is invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameProblem {
    /// It has no bytes.
    Empty,
    /// More than [`NAME_BYTES_MAX`] bytes.
    TooLong {
        /// The length, in bytes.
        bytes: usize,
    },
    /// A character other than `A-Z a-z 0-9 . _ - /`.
    Character {
        /// At this byte.
        at: usize,
    },
    /// A slash at the start, at the end, or after another slash.
    EmptySegment,
    /// It is `.` or `..`.
    Dots,
}

/// Why a type or a tag is invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LabelProblem {
    /// It has no bytes.
    Empty,
    /// It has too many.
    TooLong {
        /// The length, in bytes.
        bytes: usize,
        /// The longest allowed length, in bytes.
        bytes_max: usize,
    },
    /// A tag has a NUL byte.
    Nul {
        /// At this byte.
        at: usize,
    },
    /// It has a control character.
    Control {
        /// At this byte.
        at: usize,
    },
}

/// Why an event is invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventProblem {
    /// Its type.
    Type(LabelProblem),
    /// More than [`TAGS_MAX`] tags.
    TooManyTags {
        /// The number of tags.
        tags: usize,
    },
    /// One of its tags.
    Tag {
        /// Which.
        tag: usize,
        /// Why the tag is invalid.
        problem: LabelProblem,
    },
    /// Its id is [`EventId::NIL`].
    NilId,
}

/// Why a query is invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueryProblem {
    /// It has no items. Every event is [`Query::all`](crate::Query::all).
    NoItems,
    /// More than [`QUERY_WALKS_MAX`] walks.
    TooManyWalks {
        /// The number of walks.
        walks: usize,
    },
    /// More than [`TAGS_MAX`] tags in an item.
    TooManyTags {
        /// In which.
        item: usize,
        /// The number of tags.
        tags: usize,
    },
    /// A type of an item.
    Type {
        /// The index of the item.
        item: usize,
        /// The index of the type in the item.
        index: usize,
        /// Why the type is invalid.
        problem: LabelProblem,
    },
    /// A tag of an item.
    Tag {
        /// The index of the item.
        item: usize,
        /// The index of the tag in the item.
        index: usize,
        /// Why the tag is invalid.
        problem: LabelProblem,
    },
    /// An item of a condition has `only_last_event`. A condition asks only whether there is a
    /// match.
    OnlyLastEvent {
        /// Which.
        item: usize,
    },
}

impl From<Refusal> for Stop<Refusal> {
    fn from(refusal: Refusal) -> Self {
        Stop::Refused(refusal)
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::ReservedStore { store } => {
                write!(f, "the event store {store} is reserved: only the database itself appends to it")
            }
            Refusal::ConditionFailed { condition, position: Some(position) } => {
                write!(f, "condition {condition} failed: it conflicts with event {position}")
            }
            Refusal::ConditionFailed { condition, position: None } => {
                write!(f, "condition {condition} failed: no event matches its query")
            }
            Refusal::AfterAhead { condition, after, head } => {
                write!(
                    f,
                    "condition {condition} is invalid: `after` is event {after}, but the last event of the store is {head}"
                )
            }
            Refusal::TooCostly { condition, steps_max } => {
                write!(
                    f,
                    "condition {condition} is too costly: the conditions need more than {steps_max} steps; use fewer tags per item, or a later `after`"
                )
            }
            Refusal::DuplicateEvent { event, id, position } => {
                write!(
                    f,
                    "the id {id} of event {event} already exists: event {position} has it, with other content or from another append"
                )
            }
            Refusal::RepeatedId(id) => write!(f, "invalid append: two events have the id {id}"),
            Refusal::NothingAsked => f.write_str("invalid append: it has no event and no condition"),
            Refusal::TooManyEvents { events } => {
                write!(f, "too many events: an append may have {EVENTS_MAX}, got {events}")
            }
            Refusal::TooManyConditions { conditions } => {
                write!(f, "too many conditions: an append may have {CONDITIONS_MAX}, got {conditions}")
            }
            Refusal::InvalidName(problem) => write!(f, "invalid store name: it {problem}"),
            Refusal::InvalidEvent { event, problem } => write!(f, "invalid event {event}: {problem}"),
            Refusal::InvalidQuery { condition, problem } => write!(f, "invalid condition {condition}: {problem}"),
            Refusal::UpstreamBehind { position, known } => {
                write!(f, "position {position} is stale: the source was already read up to {known}")
            }
            Refusal::InvalidSource(problem) => write!(f, "invalid source name: it {problem}"),
            Refusal::TooManySources => {
                write!(f, "the limit of {SOURCES_MAX} sources per store is exceeded")
            }
            Refusal::InvalidSubscriptionName(problem) => {
                write!(f, "invalid subscription name: it {problem}")
            }
            Refusal::InvalidSubscriptionQuery(problem) => problem.fmt(f),
            Refusal::InvalidGroupBy(problem) => write!(f, "invalid group_by: it {problem}"),
            Refusal::NoAttempts => f.write_str("attempts_max must be at least 1, got 0"),
            Refusal::TooManySubscriptions => {
                write!(f, "the limit of {SUBSCRIPTIONS_MAX} subscriptions is exceeded")
            }
            Refusal::UnknownStore => f.write_str("unknown event store: nothing was appended to it yet"),
            Refusal::UnknownSubscription => f.write_str("unknown subscription"),
            Refusal::SubscriptionOfAnotherStore => {
                f.write_str("the subscription name already exists: a subscription of another store has it")
            }
            Refusal::SubscriptionMoved { position } => {
                write!(
                    f,
                    "the subscription is fenced: another reader moved it to event {position}; continue from there"
                )
            }
            Refusal::AheadOfStore { position, head } => {
                write!(f, "event {position} not found: the last event of the store is {head}")
            }
            Refusal::InvalidTag(problem) => write!(f, "invalid tag: it {problem}"),
            Refusal::TooManyForgotten => {
                write!(f, "the limit of {FORGOTTEN_MAX} forgotten tags per store is exceeded")
            }
            Refusal::InvalidProjectionName(problem) => write!(f, "invalid projection name: it {problem}"),
            Refusal::TooManyProjections => {
                write!(f, "the limit of {PROJECTIONS_MAX} projections per store is exceeded")
            }
            Refusal::UnknownProjection => f.write_str("unknown projection: no state is saved under this name"),
            Refusal::ProjectionMoved { position } => {
                write!(
                    f,
                    "the saved state is stale: another client saved it up to event {position}; continue from there"
                )
            }
            Refusal::Claim(refusal) => refusal.fmt(f),
        }
    }
}

impl fmt::Display for SelectRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SelectRefusal::InvalidName(problem) => write!(f, "invalid store name: it {problem}"),
            SelectRefusal::InvalidQuery(problem) => problem.fmt(f),
        }
    }
}

impl fmt::Display for NameProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NameProblem::Empty => f.write_str("is empty"),
            NameProblem::TooLong { bytes } => {
                write!(f, "has {bytes} bytes, at most {NAME_BYTES_MAX} are allowed")
            }
            NameProblem::Character { at } => {
                write!(f, "may only contain A-Z a-z 0-9 . _ - and /, unlike its byte {at}")
            }
            NameProblem::EmptySegment => f.write_str("may not begin or end with a slash, or have two in a row"),
            NameProblem::Dots => f.write_str("may not be . or .."),
        }
    }
}

impl fmt::Display for LabelProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LabelProblem::Empty => f.write_str("is empty"),
            LabelProblem::TooLong { bytes, bytes_max } => {
                write!(f, "has {bytes} bytes, at most {bytes_max} are allowed")
            }
            LabelProblem::Nul { at } => write!(f, "has a NUL byte at {at}"),
            LabelProblem::Control { at } => write!(f, "has a control character at byte {at}"),
        }
    }
}

impl fmt::Display for EventProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EventProblem::Type(problem) => write!(f, "the type {problem}"),
            EventProblem::TooManyTags { tags } => write!(f, "it has {tags} tags, at most {TAGS_MAX} are allowed"),
            EventProblem::Tag { tag, problem } => write!(f, "tag {tag} {problem}"),
            EventProblem::NilId => {
                write!(f, "its id is the nil UUID {}; leave out the id of an event without one", EventId::NIL)
            }
        }
    }
}

impl fmt::Display for QueryProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            QueryProblem::NoItems => f.write_str("the query has no items; use one empty item to match every event"),
            QueryProblem::TooManyWalks { walks } => {
                write!(f, "the query has {walks} types in total over its items, at most {QUERY_WALKS_MAX} are allowed")
            }
            QueryProblem::TooManyTags { item, tags } => {
                write!(f, "item {item} of the query has {tags} tags, at most {TAGS_MAX} are allowed")
            }
            QueryProblem::Type { item, index, problem } => {
                write!(f, "item {item} of the query: type {index} {problem}")
            }
            QueryProblem::Tag { item, index, problem } => write!(f, "item {item} of the query: tag {index} {problem}"),
            QueryProblem::OnlyLastEvent { item } => {
                write!(
                    f,
                    "item {item} of the query has only_last_event, which is for reads; a condition compares every match"
                )
            }
        }
    }
}

impl core::error::Error for Refusal {}
impl core::error::Error for SelectRefusal {}
impl core::error::Error for NameProblem {}
impl core::error::Error for QueryProblem {}
