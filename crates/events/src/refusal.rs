//! Why something is refused: answers, with the facts that were met.
//!
//! Indexes count from 0, in the order of what the caller gave.

use core::fmt;

use quire_model::Stop;

use crate::{
    CONDITIONS_MAX, EVENTS_MAX, EventId, EventPosition, FORGOTTEN_MAX, NAME_BYTES_MAX, PROJECTIONS_MAX,
    QUERY_WALKS_MAX, SOURCES_MAX, SUBSCRIPTIONS_MAX, TAGS_MAX,
};

/// Why an append, and with it its commit, is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// A condition does not hold: read again, decide again.
    ConditionFailed {
        /// Which condition of the append.
        condition: usize,
        /// What it met: of [`Condition::FailIfMatches`](crate::Condition::FailIfMatches) the first match behind
        /// `after`; of [`Condition::LastIs`](crate::Condition::LastIs) the last match, or `None` when nothing matches.
        position: Option<EventPosition>,
    },
    /// A condition's `after` lies behind the last event: it comes from another store, or from events that were lost
    /// with a crash. It would hold whatever is appended next, so it is refused.
    AfterAhead {
        /// Which condition of the append.
        condition: usize,
        /// What it says.
        after: EventPosition,
        /// The last event of the store.
        head: EventPosition,
    },
    /// An event with this id is in the store, and not as part of the same append, or another type, tags or data.
    DuplicateEvent {
        /// Which event of the append.
        event: usize,
        /// Its id.
        id: EventId,
        /// Where the other event with that id stands.
        position: EventPosition,
    },
    /// Two events of the append have the same id.
    RepeatedId(EventId),
    /// The append has neither events nor conditions.
    NothingAsked,
    /// More than [`EVENTS_MAX`] events.
    TooManyEvents {
        /// So many.
        events: usize,
    },
    /// More than [`CONDITIONS_MAX`] conditions.
    TooManyConditions {
        /// So many.
        conditions: usize,
    },
    /// The name can't be a store's.
    InvalidName(NameProblem),
    /// An event can't be stored.
    InvalidEvent {
        /// Which event of the append.
        event: usize,
        /// Why.
        problem: EventProblem,
    },
    /// A condition's query can't be asked.
    InvalidQuery {
        /// Which condition of the append.
        condition: usize,
        /// Why.
        problem: QueryProblem,
    },
    /// The source was read up to there, or further, before: what was made of it is there already.
    UpstreamBehind {
        /// What the command says.
        position: u64,
        /// How far the source was read.
        known: u64,
    },
    /// The name can't be a source's.
    InvalidSource(LabelProblem),
    /// The store reads from [`SOURCES_MAX`] sources already.
    TooManySources,
    /// The name can't be a subscription's.
    InvalidSubscriptionName(NameProblem),
    /// The subscription's query can't be asked.
    InvalidSubscriptionQuery(QueryProblem),
    /// The start of a tag can't be one.
    InvalidGroupBy(LabelProblem),
    /// A subscription's events get no attempt.
    NoAttempts,
    /// There are [`SUBSCRIPTIONS_MAX`] named subscriptions already.
    TooManySubscriptions,
    /// There is no store of this name to let anything go of.
    UnknownStore,
    /// There is no subscription of this name.
    UnknownSubscription,
    /// A subscription of another store has the name.
    SubscriptionOfAnotherStore,
    /// The subscription is elsewhere: somebody else has delivered.
    SubscriptionMoved {
        /// Where it is.
        position: EventPosition,
    },
    /// A subscription or a projection can't be ahead of its store.
    AheadOfStore {
        /// Where it would be.
        position: EventPosition,
        /// The last event of the store.
        head: EventPosition,
    },
    /// The tag can't be an event's.
    InvalidTag(LabelProblem),
    /// The store has forgotten [`FORGOTTEN_MAX`] tags already.
    TooManyForgotten,
    /// The name can't be a projection's.
    InvalidProjectionName(LabelProblem),
    /// The store keeps [`PROJECTIONS_MAX`] projections already.
    TooManyProjections,
    /// There is no saved projection of this name.
    UnknownProjection,
    /// Somebody else has saved the projection since the state that this one was folded from.
    ProjectionMoved {
        /// Up to where.
        position: EventPosition,
    },
}

/// Why a read is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SelectRefusal {
    /// The name can't be a store's.
    InvalidName(NameProblem),
    /// The query can't be asked.
    InvalidQuery(QueryProblem),
}

/// What is wrong with a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameProblem {
    /// It has no bytes.
    Empty,
    /// More than [`NAME_BYTES_MAX`] bytes.
    TooLong {
        /// So many.
        bytes: usize,
    },
    /// A character other than `A-Z a-z 0-9 . _ - /`.
    Character {
        /// At this byte.
        at: usize,
    },
    /// A slash at the start, at the end, or behind another.
    EmptySegment,
    /// It is `.` or `..`.
    Dots,
}

/// What is wrong with a type or a tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LabelProblem {
    /// It has no bytes.
    Empty,
    /// It has too many.
    TooLong {
        /// So many.
        bytes: usize,
        /// As many as are allowed.
        bytes_max: usize,
    },
    /// A tag has a NUL byte.
    Nul {
        /// At this byte.
        at: usize,
    },
}

/// What is wrong with an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventProblem {
    /// Its type.
    Type(LabelProblem),
    /// More than [`TAGS_MAX`] tags.
    TooManyTags {
        /// So many.
        tags: usize,
    },
    /// One of its tags.
    Tag {
        /// Which.
        tag: usize,
        /// What is wrong with it.
        problem: LabelProblem,
    },
}

/// What is wrong with a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueryProblem {
    /// It has no items. Every event is [`Query::all`](crate::Query::all).
    NoItems,
    /// More than [`QUERY_WALKS_MAX`] walks.
    TooManyWalks {
        /// So many.
        walks: usize,
    },
    /// More than [`TAGS_MAX`] tags in an item.
    TooManyTags {
        /// In which.
        item: usize,
        /// So many.
        tags: usize,
    },
    /// A type of an item.
    Type {
        /// Of which.
        item: usize,
        /// Which of its types.
        index: usize,
        /// What is wrong with it.
        problem: LabelProblem,
    },
    /// A tag of an item.
    Tag {
        /// Of which.
        item: usize,
        /// Which of its tags.
        index: usize,
        /// What is wrong with it.
        problem: LabelProblem,
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
            Refusal::ConditionFailed { condition, position: Some(position) } => {
                write!(f, "condition {condition} does not hold: it met event {position}")
            }
            Refusal::ConditionFailed { condition, position: None } => {
                write!(f, "condition {condition} does not hold: no event matches its query")
            }
            Refusal::AfterAhead { condition, after, head } => {
                write!(f, "condition {condition} says after event {after}, but the last event of the store is {head}")
            }
            Refusal::DuplicateEvent { event, id, position } => {
                write!(
                    f,
                    "event {event} has the id {id} of event {position}, which another append wrote, or says something else"
                )
            }
            Refusal::RepeatedId(id) => write!(f, "two events of the append have the id {id}"),
            Refusal::NothingAsked => f.write_str("an append needs an event or a condition"),
            Refusal::TooManyEvents { events } => write!(f, "{events} events in an append: at most {EVENTS_MAX}"),
            Refusal::TooManyConditions { conditions } => {
                write!(f, "{conditions} conditions on an append: at most {CONDITIONS_MAX}")
            }
            Refusal::InvalidName(problem) => problem.fmt(f),
            Refusal::InvalidEvent { event, problem } => write!(f, "event {event}: {problem}"),
            Refusal::InvalidQuery { condition, problem } => write!(f, "condition {condition}: {problem}"),
            Refusal::UpstreamBehind { position, known } => {
                write!(f, "the source was read up to {known} before, and position {position} is not behind that")
            }
            Refusal::InvalidSource(problem) => write!(f, "the name of the source {problem}"),
            Refusal::TooManySources => {
                write!(f, "the store reads from {SOURCES_MAX} sources already, and keeps no more")
            }
            Refusal::InvalidSubscriptionName(problem) => {
                write!(f, "for a subscription's name the same holds: {problem}")
            }
            Refusal::InvalidSubscriptionQuery(problem) => problem.fmt(f),
            Refusal::InvalidGroupBy(problem) => write!(f, "the start of the tags that name groups {problem}"),
            Refusal::NoAttempts => f.write_str("an event that is delivered gets at least one attempt"),
            Refusal::TooManySubscriptions => {
                write!(f, "there are {SUBSCRIPTIONS_MAX} named subscriptions already, and no more are kept")
            }
            Refusal::UnknownStore => f.write_str("there is no event store of this name"),
            Refusal::UnknownSubscription => f.write_str("there is no subscription of this name"),
            Refusal::SubscriptionOfAnotherStore => f.write_str("a subscription of another store has this name"),
            Refusal::SubscriptionMoved { position } => {
                write!(f, "the subscription is at event {position} by now: somebody else has delivered")
            }
            Refusal::AheadOfStore { position, head } => {
                write!(f, "event {position} is not there: the last event of the store is {head}")
            }
            Refusal::InvalidTag(problem) => write!(f, "the tag {problem}"),
            Refusal::TooManyForgotten => {
                write!(f, "the store has forgotten {FORGOTTEN_MAX} tags already, and no more fit")
            }
            Refusal::InvalidProjectionName(problem) => write!(f, "the name of the projection {problem}"),
            Refusal::TooManyProjections => {
                write!(f, "the store keeps {PROJECTIONS_MAX} projections already, and no more")
            }
            Refusal::UnknownProjection => f.write_str("there is no saved projection of this name"),
            Refusal::ProjectionMoved { position } => {
                write!(f, "the projection was saved up to event {position} by somebody else: go on from there")
            }
        }
    }
}

impl fmt::Display for SelectRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SelectRefusal::InvalidName(problem) => problem.fmt(f),
            SelectRefusal::InvalidQuery(problem) => problem.fmt(f),
        }
    }
}

impl fmt::Display for NameProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NameProblem::Empty => f.write_str("a store's name is empty"),
            NameProblem::TooLong { bytes } => {
                write!(f, "a store's name has {bytes} bytes: at most {NAME_BYTES_MAX}")
            }
            NameProblem::Character { at } => {
                write!(f, "a store's name is made of A-Z a-z 0-9 . _ - and /, unlike its byte {at}")
            }
            NameProblem::EmptySegment => {
                f.write_str("a store's name has no slash at its start or end, and no two in a row")
            }
            NameProblem::Dots => f.write_str("a store's name is neither . nor .."),
        }
    }
}

impl fmt::Display for LabelProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LabelProblem::Empty => f.write_str("is empty"),
            LabelProblem::TooLong { bytes, bytes_max } => write!(f, "has {bytes} bytes: at most {bytes_max}"),
            LabelProblem::Nul { at } => write!(f, "has a NUL at byte {at}"),
        }
    }
}

impl fmt::Display for EventProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EventProblem::Type(problem) => write!(f, "its type {problem}"),
            EventProblem::TooManyTags { tags } => write!(f, "it has {tags} tags: at most {TAGS_MAX}"),
            EventProblem::Tag { tag, problem } => write!(f, "its tag {tag} {problem}"),
        }
    }
}

impl fmt::Display for QueryProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            QueryProblem::NoItems => f.write_str("the query has no items; one empty item means every event"),
            QueryProblem::TooManyWalks { walks } => {
                write!(f, "the query names {walks} types over its items: at most {QUERY_WALKS_MAX}")
            }
            QueryProblem::TooManyTags { item, tags } => {
                write!(f, "item {item} of the query has {tags} tags: at most {TAGS_MAX}")
            }
            QueryProblem::Type { item, index, problem } => {
                write!(f, "item {item} of the query: type {index} {problem}")
            }
            QueryProblem::Tag { item, index, problem } => write!(f, "item {item} of the query: tag {index} {problem}"),
        }
    }
}

impl core::error::Error for Refusal {}
impl core::error::Error for SelectRefusal {}
impl core::error::Error for NameProblem {}
impl core::error::Error for QueryProblem {}
