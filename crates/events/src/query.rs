//! Queries: which events are meant.
//!
//! Items are joined by OR and never merged, so a further item can only widen the result. A query
//! without items is refused everywhere: it means neither "all" nor "no condition".

use alloc::borrow::Cow;
use alloc::vec;
use alloc::vec::Vec;

use quire_model::CowBytes;

use crate::{EventView, NewEvent};

/// Events that match at least one of its items.
///
/// ```
/// use quire_events::{Query, QueryItem};
///
/// let course = QueryItem::new().event_type("CourseDefined").tag("course:c1");
/// let seats = QueryItem::new().event_type("StudentSubscribed").event_type("StudentLeft").tag("course:c1");
/// let query = Query::from(course).or(seats);
/// assert_eq!(query.items.len(), 2);
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Query<'q> {
    /// Joined by OR; at least one.
    pub items: Vec<QueryItem<'q>>,
}

/// Events of one of its types that carry all of its tags. With neither types nor tags, every event.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueryItem<'q> {
    /// Joined by OR; none means any type.
    pub types: Vec<Cow<'q, str>>,
    /// Joined by AND; none means any tags.
    pub tags: Vec<Cow<'q, [u8]>>,
    /// Reads only the last of the events that match the item. A condition with such an item is
    /// refused, because a condition asks only whether there is a match.
    pub only_last_event: bool,
}

impl<'q> Query<'q> {
    /// Every event.
    pub fn all() -> Self {
        Query::from(QueryItem::new())
    }

    /// Returns the query without [`QueryItem::only_last_event`], for a condition on the events that
    /// a read with this query returned.
    #[must_use]
    pub fn every_match(mut self) -> Self {
        self.items.iter_mut().for_each(|item| item.only_last_event = false);
        self
    }

    /// Also the events that match this item.
    #[must_use]
    pub fn or(mut self, item: QueryItem<'q>) -> Self {
        self.items.push(item);
        self
    }

    /// Returns a copy of the query that owns its text, for a long-lived reader.
    pub fn into_owned(self) -> Query<'static> {
        Query { items: self.items.into_iter().map(QueryItem::into_owned).collect() }
    }

    /// Returns the same query, borrowing from this one.
    pub fn as_borrowed(&self) -> Query<'_> {
        Query { items: self.items.iter().map(QueryItem::as_borrowed).collect() }
    }

    /// Whether an event matches.
    pub fn matches(&self, event: &EventView<'_>) -> bool {
        self.items.iter().any(|item| item.matches(event.event_type, |tag| event.tags().any(|own| own == tag)))
    }

    /// Whether an event that is still being appended matches.
    pub(crate) fn matches_new(&self, event: &NewEvent<'_>) -> bool {
        self.items.iter().any(|item| item.matches(&event.event_type, |tag| event.tags.iter().any(|own| **own == *tag)))
    }
}

impl<'q> From<QueryItem<'q>> for Query<'q> {
    fn from(item: QueryItem<'q>) -> Self {
        Query { items: vec![item] }
    }
}

impl<'q> QueryItem<'q> {
    /// An item that every event matches.
    pub fn new() -> Self {
        QueryItem::default()
    }

    /// Adds a type. An event matches when it has one of the item's types.
    #[must_use]
    pub fn event_type(mut self, event_type: impl Into<Cow<'q, str>>) -> Self {
        self.types.push(event_type.into());
        self
    }

    /// Carrying this tag too.
    #[must_use]
    pub fn tag(mut self, tag: impl Into<CowBytes<'q>>) -> Self {
        self.tags.push(tag.into().into_cow());
        self
    }

    /// Only the last event that matches the item.
    #[must_use]
    pub fn only_last_event(mut self) -> Self {
        self.only_last_event = true;
        self
    }

    /// The same item, owning its text.
    pub fn into_owned(self) -> QueryItem<'static> {
        QueryItem {
            types: self.types.into_iter().map(|event_type| Cow::Owned(event_type.into_owned())).collect(),
            tags: self.tags.into_iter().map(|tag| Cow::Owned(tag.into_owned())).collect(),
            only_last_event: self.only_last_event,
        }
    }

    fn as_borrowed(&self) -> QueryItem<'_> {
        QueryItem {
            types: self.types.iter().map(|event_type| Cow::Borrowed(&**event_type)).collect(),
            tags: self.tags.iter().map(|tag| Cow::Borrowed(&**tag)).collect(),
            only_last_event: self.only_last_event,
        }
    }

    pub(crate) fn is_match_all(&self) -> bool {
        self.types.is_empty() && self.tags.is_empty()
    }

    /// Returns the number of walks over the log that answer this item.
    pub(crate) fn walk_count(&self) -> usize {
        self.types.len().max(1)
    }

    fn matches(&self, event_type: &str, has_tag: impl Fn(&[u8]) -> bool) -> bool {
        (self.types.is_empty() || self.types.iter().any(|own| own == event_type))
            && self.tags.iter().all(|tag| has_tag(tag))
    }
}
