//! An event as it is appended, and as it is read.
//!
//! Data, metadata and tags are returned byte for byte: they are never parsed. Only duplicates of a
//! tag are removed.

use alloc::borrow::Cow;
use alloc::vec::Vec;
use core::fmt;

use quire_model::{CowBytes, Entry, Place, Tags, Timestamp};

use crate::codec::{self, EVENT_APPENDED, Role};
use crate::{EventId, EventPosition, StoreNumber};

/// An event to append. Its text and bytes are borrowed or owned.
///
/// ```
/// use quire_events::NewEvent;
///
/// let (plane, delay) = ("N14228", 2);
/// let event = NewEvent::new("Departed")
///     .tag("airport:EWR")
///     .tag(format!("plane:{plane}"))
///     .data(format!("{{\"delay\":{delay}}}"));
/// assert_eq!(event.tags.len(), 2);
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct NewEvent<'c> {
    /// The client's id, which makes the append idempotent. Default: derived from the event's
    /// position.
    pub id: Option<EventId>,
    /// The type, such as `OrderPlaced`: 1 to [`TYPE_BYTES_MAX`](crate::TYPE_BYTES_MAX) bytes of
    /// text.
    pub event_type: Cow<'c, str>,
    /// The objects that the event concerns: at most [`TAGS_MAX`](crate::TAGS_MAX) tags of 1 to
    /// [`TAG_BYTES_MAX`](crate::TAG_BYTES_MAX) bytes without NUL. A second copy of a tag is
    /// dropped.
    pub tags: Vec<Cow<'c, [u8]>>,
    /// Further facts, such as user, correlation and causation: opaque bytes. Default: none.
    pub metadata: Cow<'c, [u8]>,
    /// The payload: opaque bytes. Default: none.
    pub data: Cow<'c, [u8]>,
}

impl<'c> NewEvent<'c> {
    /// Returns an event of this type without tags, data, metadata and id.
    pub fn new(event_type: impl Into<Cow<'c, str>>) -> Self {
        NewEvent { event_type: event_type.into(), ..NewEvent::default() }
    }

    /// Sets the id.
    #[must_use]
    pub const fn id(mut self, id: EventId) -> Self {
        self.id = Some(id);
        self
    }

    /// Adds a tag.
    #[must_use]
    pub fn tag(mut self, tag: impl Into<CowBytes<'c>>) -> Self {
        self.tags.push(tag.into().into_cow());
        self
    }

    /// Sets the metadata.
    #[must_use]
    pub fn metadata(mut self, metadata: impl Into<CowBytes<'c>>) -> Self {
        self.metadata = metadata.into().into_cow();
        self
    }

    /// Sets the payload.
    #[must_use]
    pub fn data(mut self, data: impl Into<CowBytes<'c>>) -> Self {
        self.data = data.into().into_cow();
        self
    }

    /// Returns the same event, borrowing from this one.
    pub fn as_borrowed(&self) -> NewEvent<'_> {
        NewEvent {
            id: self.id,
            event_type: Cow::Borrowed(&self.event_type),
            tags: self.tags.iter().map(|tag| Cow::Borrowed(&**tag)).collect(),
            metadata: Cow::Borrowed(&self.metadata),
            data: Cow::Borrowed(&self.data),
        }
    }

    /// Returns the same event, owning its text and bytes.
    pub fn into_owned(self) -> NewEvent<'static> {
        let owned = |bytes: Cow<'c, [u8]>| Cow::Owned(bytes.into_owned());
        NewEvent {
            id: self.id,
            event_type: Cow::Owned(self.event_type.into_owned()),
            tags: self.tags.into_iter().map(owned).collect(),
            metadata: owned(self.metadata),
            data: owned(self.data),
        }
    }
}

/// An event as the log holds it, borrowed from there.
#[derive(Clone, Copy)]
pub struct EventView<'h> {
    /// The number of its store.
    pub store: StoreNumber,
    /// Its position in its store.
    pub position: EventPosition,
    /// Its place in the log.
    pub place: Place,
    /// When it was appended. Events of one store never go back in time.
    pub time: Timestamp,
    /// The type.
    pub event_type: &'h str,
    /// Further data of the client, such as a trace id.
    pub metadata: &'h [u8],
    /// The payload.
    pub data: &'h [u8],
    /// The id that the client gave, if it gave one; see [`EventView::id`].
    pub given_id: Option<EventId>,
    tags: Tags<'h>,
}

impl<'h> EventView<'h> {
    /// The event in this entry, or `None` when the entry is something else.
    ///
    /// # Panics
    /// When an entry of this kind doesn't hold an event: a broken invariant of the log, which
    /// verified it.
    pub fn of(entry: &Entry<'h>) -> Option<EventView<'h>> {
        if entry.kind != EVENT_APPENDED {
            return None;
        }
        let body = codec::decode_event(entry.body).expect("the log verified the body of an event");
        let mut tags = entry.tags.iter();
        let store = tags.next().and_then(codec::store_of).expect("an event's first tag is its store's");
        let event_type = tags.next().and_then(|tag| codec::label_of(tag, Role::Type)).expect("its second is its type");
        Some(EventView {
            store,
            position: entry.sequence.expect("an event takes a number of its store").into(),
            place: entry.place,
            time: entry.time,
            event_type: core::str::from_utf8(event_type).expect("a type is text"),
            metadata: body.metadata,
            data: body.data,
            given_id: body.id,
            tags: entry.tags,
        })
    }

    /// The client's id, or else the derived one: the same on every read.
    pub fn id(&self) -> EventId {
        self.given_id.unwrap_or_else(|| EventId::derived(self.store, self.position, self.time))
    }

    /// Its tags, in the order in which they were given, none twice.
    pub fn tags(&self) -> impl Iterator<Item = &'h [u8]> + use<'h> {
        self.tags.iter().filter_map(|tag| codec::label_of(tag, Role::Tag))
    }
}

impl fmt::Debug for EventView<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventView")
            .field("position", &self.position)
            .field("id", &self.id())
            .field("event_type", &self.event_type)
            .field("tags", &self.tags().map(|tag| tag.escape_ascii()).collect::<Vec<_>>())
            .field("data_bytes", &self.data.len())
            .finish_non_exhaustive()
    }
}
