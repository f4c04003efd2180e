//! The entries of the model: kinds, tags and bodies.
//!
//! The body does not repeat the tags (store, type, user's tags). Numbers are as in
//! [`quire_model::codec`].
//!
//! ```text
//! kind 1  store created   tags: name      body: | name … |
//! kind 2  event appended  tags: store (sequenced from 1), type, user's tags …, id if given
//!                         body: | flags 1 | id 16, if flags & 1 | metadata length (varint) | metadata …, if flags & 2 | data … |
//! kind 3  upstream read   tags: source    body: | position 8 |
//! kind 4  subscription put      tags: subscription   body: as in the subscription's module
//! kind 5  subscription moved    tags: subscription   body: | position 8 |
//! kind 6  subscription dropped  tags: subscription   body: -
//! kind 7  projection saved      tags: projection     body: | version 4 | position 8 | state … |
//! kind 8  projection dropped    tags: projection     body: -
//! kind 9  trimmed               tags: name           body: | position 8 |
//! kind 10 forgotten             tags: name           body: | position 8 | tag … |
//! kind 11 retention set         tags: name           body: | milliseconds 8, all ones for ever |
//!
//! tag     | model 1 | role 1 | store's number (varint) | name, store: -   type, source, subscription, projection: text   user's: bytes   id: 16 |
//! role    name 'n'   store 's'   type 'e'   user's 't'   id 'i'   source 'u'   subscription 'b'   projection 'p'
//! ```

use alloc::boxed::Box;
use alloc::vec::Vec;

use quire_model::codec::{CodecError, Decoder, Encoder};
use quire_model::{EntryKind, ModelId, Tag, Tags};

use crate::{EventId, StoreNumber};

/// A store got its name and number.
pub(crate) const STORE_CREATED: EntryKind = EntryKind { model: ModelId::EVENTS, kind: 1 };
/// An event.
pub(crate) const EVENT_APPENDED: EntryKind = EntryKind { model: ModelId::EVENTS, kind: 2 };

/// The position up to which a source was read.
pub(crate) const UPSTREAM_READ: EntryKind = EntryKind { model: ModelId::EVENTS, kind: 3 };

/// A subscription was created or changed.
pub(crate) const SUBSCRIPTION_PUT: EntryKind = EntryKind { model: ModelId::EVENTS, kind: 4 };
/// A subscription has delivered all events up to a position.
pub(crate) const SUBSCRIPTION_MOVED: EntryKind = EntryKind { model: ModelId::EVENTS, kind: 5 };
/// A subscription was deleted.
pub(crate) const SUBSCRIPTION_DROPPED: EntryKind = EntryKind { model: ModelId::EVENTS, kind: 6 };
/// The state of a projection.
pub(crate) const PROJECTION_SAVED: EntryKind = EntryKind { model: ModelId::EVENTS, kind: 7 };
/// A projection's state was deleted.
pub(crate) const PROJECTION_DROPPED: EntryKind = EntryKind { model: ModelId::EVENTS, kind: 8 };

const HAS_ID: u8 = 1;
const HAS_METADATA: u8 = 2;

/// Events up to a position were deleted.
pub(crate) const TRIMMED: EntryKind = EntryKind { model: ModelId::EVENTS, kind: 9 };
/// Events with a tag were forgotten.
pub(crate) const FORGOTTEN: EntryKind = EntryKind { model: ModelId::EVENTS, kind: 10 };
/// The time that events are kept.
pub(crate) const RETENTION_SET: EntryKind = EntryKind { model: ModelId::EVENTS, kind: 11 };

/// The kind of object that a tag of this model names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Role {
    /// The creation of a store.
    Name = b'n',
    /// All events of a store: the tag that gives them their positions.
    Store = b's',
    /// The events of one type in a store.
    Type = b'e',
    /// The events in a store that a user's tag was put on.
    Tag = b't',
    /// The event in a store that has a client's id.
    Id = b'i',
    /// The position up to which a store has read a source.
    Source = b'u',
    /// A named subscription.
    Subscription = b'b',
    /// A saved projection.
    Projection = b'p',
}

/// The most bytes of a tag before the name that it carries.
const LABEL_AT_MAX: usize = 7;

/// The largest number of bytes that state the length of a tag in a list.
const LENGTH_BYTES: usize = 2;

/// Several tags in one buffer, in their stored form.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct TagList {
    encoded: Vec<u8>,
}

impl TagList {
    /// An empty list, with space for `tags` tags whose labels have `label_bytes` bytes in all.
    pub(crate) fn with_room(tags: usize, label_bytes: usize) -> Self {
        TagList { encoded: Vec::with_capacity(tags * (LENGTH_BYTES + LABEL_AT_MAX) + label_bytes) }
    }

    /// Only this tag.
    pub(crate) fn of(role: Role, store: StoreNumber, label: &[u8]) -> Self {
        let mut list = TagList::with_room(1, label.len());
        list.push(role, store, label);
        list
    }

    /// Adds a tag, unless the list has it already.
    pub(crate) fn push(&mut self, role: Role, store: StoreNumber, label: &[u8]) {
        let mut number = store.get();
        // The bytes before the label, with space for its length in front.
        let mut head = [0; LENGTH_BYTES + LABEL_AT_MAX];
        head[LENGTH_BYTES..LENGTH_BYTES + 2].copy_from_slice(&[ModelId::EVENTS.get(), role as u8]);
        let mut head_end = LENGTH_BYTES + 2;
        while number >= 0x80 {
            head[head_end] = number as u8 | 0x80;
            number >>= 7;
            head_end += 1;
        }
        head[head_end] = number as u8;
        head_end += 1;
        let head_begin = match Tags::length(head_end - LENGTH_BYTES + label.len()) {
            [length, 0] => {
                head[LENGTH_BYTES - 1] = length;
                LENGTH_BYTES - 1
            }
            length => {
                head[..LENGTH_BYTES].copy_from_slice(&length);
                0
            }
        };
        let from = self.encoded.len();
        self.encoded.extend_from_slice(&head[head_begin..head_end]);
        let own = from + LENGTH_BYTES - head_begin;
        self.encoded.extend_from_slice(label);
        // Of each other role there is at most one.
        if role == Role::Tag && Tags::from_encoded(&self.encoded[..from]).contains(Tag::new(&self.encoded[own..])) {
            self.encoded.truncate(from);
        }
    }

    /// Removes all tags, and keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.encoded.clear();
    }

    /// The tags, in the order of the pushes, none twice.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Tag<'_>> {
        Tags::from_encoded(&self.encoded).iter()
    }

    /// Passes the tags to `make` as a slice, without an allocation while they are few.
    pub(crate) fn with_slice<R>(&self, make: impl FnOnce(&[Tag<'_>]) -> R) -> R {
        let mut few = [self.first(); 8];
        let mut count = 0;
        for tag in self.iter() {
            match few.get_mut(count) {
                Some(slot) => *slot = tag,
                None => return make(&self.iter().collect::<Vec<_>>()),
            }
            count += 1;
        }
        make(&few[..count])
    }

    /// The first tag.
    pub(crate) fn first(&self) -> Tag<'_> {
        self.iter().next().expect("a list of tags is not empty")
    }
}

impl StoreNumber {
    /// The bytes of the tag of the store's creation, deletions and retention settings: wait on it
    /// for such changes.
    pub fn changes_tag(self) -> Box<[u8]> {
        TagList::of(Role::Name, self, b"").first().as_bytes().into()
    }
}

/// The store that a tag of this model belongs to.
pub(crate) fn store_of(tag: Tag<'_>) -> Option<StoreNumber> {
    Some(split(tag)?.0)
}

/// The store's number in a tag, and the rest of the tag.
fn split(tag: Tag<'_>) -> Option<(StoreNumber, &[u8])> {
    let bytes = tag.as_bytes().get(2..)?;
    // Nearly every database has fewer stores than that.
    if let [number @ ..0x80, label @ ..] = bytes {
        return Some((StoreNumber::new(u32::from(*number)), label));
    }
    let mut from = Decoder::new(bytes);
    let number = from.varint_u32().ok()?;
    Some((StoreNumber::new(number), from.rest()))
}

/// Returns the name that a tag of this role gives in its store.
pub(crate) fn label_of(tag: Tag<'_>, role: Role) -> Option<&[u8]> {
    (tag.as_bytes().get(1) == Some(&(role as u8))).then(|| split(tag).map(|(_, label)| label)).flatten()
}

/// The body of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EventBody<'a> {
    pub(crate) id: Option<EventId>,
    pub(crate) metadata: &'a [u8],
    pub(crate) data: &'a [u8],
}

/// The part of an event's body before its metadata and data, which only the log copies.
pub(crate) fn encode_event_head(id: Option<EventId>, metadata: &[u8]) -> Encoder {
    // Flags, an id, and the length of most metadata.
    let mut out = Encoder::with_capacity(1 + 16 + 3);
    let flags = if id.is_some() { HAS_ID } else { 0 } | if metadata.is_empty() { 0 } else { HAS_METADATA };
    out.u8(flags);
    if let Some(id) = id {
        out.raw(id.as_bytes());
    }
    if !metadata.is_empty() {
        out.varint(metadata.len() as u64);
    }
    out
}

/// Reads an event's body.
pub(crate) fn decode_event(body: &[u8]) -> Result<EventBody<'_>, CodecError> {
    let mut from = Decoder::new(body);
    let unknown = CodecError { expected: "the flags of an event", bytes_left: body.len() };
    let flags = from.u8()?;
    if flags & !(HAS_ID | HAS_METADATA) != 0 {
        return Err(unknown);
    }
    let mut id = None;
    if flags & HAS_ID != 0 {
        id = Some(EventId::from_bytes(from.raw(16)?.try_into().expect("the decoder returned 16 bytes")));
    }
    let metadata = if flags & HAS_METADATA == 0 { &[] } else { from.bytes()? };
    Ok(EventBody { id, metadata, data: from.rest() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_body_reads_back_as_it_was_written(
            id in any::<Option<[u8; 16]>>(),
            metadata in any::<Vec<u8>>(),
            data in any::<Vec<u8>>(),
        ) {
            let id = id.map(EventId::from_bytes);
            let mut body = encode_event_head(id, &metadata).into_bytes();
            body.extend_from_slice(&metadata);
            body.extend_from_slice(&data);
            let expected = EventBody { id, metadata: &metadata, data: &data };
            prop_assert_eq!(decode_event(&body), Ok(expected));
        }

        #[test]
        fn a_body_cut_before_its_data_is_an_error(id in any::<Option<[u8; 16]>>(), metadata in any::<Vec<u8>>()) {
            let mut body = encode_event_head(id.map(EventId::from_bytes), &metadata).into_bytes();
            body.extend_from_slice(&metadata);
            for length in 0..body.len() {
                prop_assert!(decode_event(&body[..length]).is_err(), "{} of {} bytes", length, body.len());
            }
        }

        #[test]
        fn random_bytes_are_an_error_or_a_body_but_never_a_panic(body in any::<Vec<u8>>()) {
            let _ = decode_event(&body);
        }

        #[test]
        fn tags_read_back_once_each_in_their_order(
            store in any::<u32>(),
            labels in proptest::collection::vec(proptest::collection::vec(1u8..4, 1..3), 0..8),
        ) {
            let store = StoreNumber::new(store);
            let mut list = TagList::of(Role::Store, store, b"");
            let mut expected: Vec<&[u8]> = Vec::new();
            for label in &labels {
                list.push(Role::Tag, store, label);
                if !expected.contains(&label.as_slice()) {
                    expected.push(label);
                }
            }
            let found: Vec<&[u8]> = list.iter().filter_map(|tag| label_of(tag, Role::Tag)).collect();
            prop_assert_eq!(found, expected);
            prop_assert!(list.iter().all(|tag| store_of(tag) == Some(store)));
            prop_assert_eq!(label_of(list.first(), Role::Store), Some(&b""[..]));
        }
    }

    #[test]
    fn unknown_flags_are_an_error() {
        assert!(decode_event(&[4, 0]).is_err());
    }
}
