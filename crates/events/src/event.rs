//! An event as it goes in, and as it is read back.
//!
//! What was given comes back to the byte: data, metadata and tags are never parsed. Only a tag that was given twice
//! comes back once.

use alloc::vec::Vec;
use core::fmt;

use quire_model::{Entry, Place, Tags, Timestamp};

use crate::codec::{self, EVENT_APPENDED, Role};
use crate::{EventId, EventPosition, StoreNumber};

/// An event to be appended.
///
/// ```
/// use quire_events::NewEvent;
///
/// let event = NewEvent::new("Departed").tag("plane:N14228").tag("airport:EWR").data(br#"{"delay":2}"#);
/// assert_eq!(event.tags.len(), 2);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewEvent<'c> {
    /// The client's id, which makes the append idempotent; without one the event's id is derived.
    pub id: Option<EventId>,
    /// What happened: 1 to [`TYPE_BYTES_MAX`](crate::TYPE_BYTES_MAX) bytes of text.
    pub event_type: &'c str,
    /// Whom it concerns: at most [`TAGS_MAX`](crate::TAGS_MAX) tags of 1 to
    /// [`TAG_BYTES_MAX`](crate::TAG_BYTES_MAX) bytes, any but NUL. A second copy of a tag is dropped.
    pub tags: Vec<&'c [u8]>,
    /// What else the client knows (user, correlation, causation): opaque bytes, maybe none.
    pub metadata: &'c [u8],
    /// The payload: opaque bytes, maybe none.
    pub data: &'c [u8],
}

impl<'c> NewEvent<'c> {
    /// An event of this type without tags, data, metadata and id.
    pub const fn new(event_type: &'c str) -> Self {
        NewEvent { id: None, event_type, tags: Vec::new(), metadata: &[], data: &[] }
    }

    /// With this id.
    #[must_use]
    pub const fn id(mut self, id: EventId) -> Self {
        self.id = Some(id);
        self
    }

    /// With this tag too.
    #[must_use]
    pub fn tag(mut self, tag: &'c (impl AsRef<[u8]> + ?Sized)) -> Self {
        self.tags.push(tag.as_ref());
        self
    }

    /// With this metadata.
    #[must_use]
    pub fn metadata(mut self, metadata: &'c (impl AsRef<[u8]> + ?Sized)) -> Self {
        self.metadata = metadata.as_ref();
        self
    }

    /// With this payload.
    #[must_use]
    pub fn data(mut self, data: &'c (impl AsRef<[u8]> + ?Sized)) -> Self {
        self.data = data.as_ref();
        self
    }
}

/// An event as the log holds it, borrowed from there.
#[derive(Clone, Copy)]
pub struct EventView<'h> {
    /// The number of its store.
    pub store: StoreNumber,
    /// Where it stands in its store.
    pub position: EventPosition,
    /// Where it stands in the log.
    pub place: Place,
    /// When it was appended. Events of one store never go back in time.
    pub time: Timestamp,
    /// What happened.
    pub event_type: &'h str,
    /// What else the client knew.
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
    /// When an entry of this kind doesn't hold an event: a broken invariant of the log, which verified it.
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
