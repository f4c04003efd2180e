//! Named subscriptions: the events to deliver, the queue to deliver to, and the position delivered
//! up to now.
//!
//! The model keeps the query and the position, durably and under a name. A client that delivers
//! reads after the position. It moves the position in the same commit that stores the results, so
//! each match is delivered once, even with several clients.

use alloc::borrow::Cow;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use quire_model::codec::{CodecError, Decoder, Encoder};
use quire_model::{Creator, micros_of};

use crate::memory::subscription_memory;
use crate::{EventPosition, Query, QueryItem, StoreNumber};

/// The attempts of a delivery. The model keeps this for the clients that deliver.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Attempts<'c> {
    /// The most attempts for an event; at least 1. When the last fails, it is a dead letter.
    pub attempts_max: u16,
    /// The wait after the first failed attempt, in microseconds. The wait doubles after each
    /// further one.
    pub backoff_micros: u64,
    /// The longest wait. It never exceeds 366 days.
    pub backoff_max_micros: u64,
    /// The start of a tag, such as `student:`. An event belongs to the group that its first such
    /// tag names; groups take turns. Empty for none.
    pub group_by: Cow<'c, str>,
}

impl Default for Attempts<'_> {
    /// Five attempts, from 5 seconds up to 1 hour apart, no groups.
    fn default() -> Self {
        Attempts { attempts_max: 5, backoff_micros: 5_000_000, backoff_max_micros: 3_600_000_000, group_by: "".into() }
    }
}

impl<'c> Attempts<'c> {
    /// Sets the number of attempts, at least 1.
    #[must_use]
    pub fn attempts_max(mut self, attempts: u16) -> Self {
        self.attempts_max = attempts;
        self
    }

    /// Sets the wait after the first failed attempt, and the longest wait. The wait doubles with
    /// each further attempt.
    #[must_use]
    pub fn backoff(mut self, first: Duration, longest: Duration) -> Self {
        (self.backoff_micros, self.backoff_max_micros) = (micros_of(first), micros_of(longest));
        self
    }

    /// Sets the start of the tag that names an event's group.
    #[must_use]
    pub fn group_by(mut self, prefix: impl Into<Cow<'c, str>>) -> Self {
        self.group_by = prefix.into();
        self
    }
}

/// Creates a subscription, or changes one.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PutSubscription<'c> {
    /// The store; created when it is not there.
    pub store: &'c str,
    /// The name, one among those of all stores: like a store's.
    pub name: &'c str,
    /// The events to deliver. For an item with `only_last_event` every match is delivered, because
    /// no match is the last one.
    pub query: Query<'c>,
    /// Events after this position are delivered; moving it back delivers events again. `None`: a
    /// new subscription begins with the first event, an existing one continues.
    pub after: Option<EventPosition>,
    /// The attempts of each delivery.
    pub attempts: Attempts<'c>,
}

/// Moves a subscription past the delivered events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct MoveSubscription<'c> {
    /// Its name.
    pub name: &'c str,
    /// The expected position of the subscription. If it is elsewhere, another client has moved it.
    pub from: EventPosition,
    /// The new position; at most the last event of the store.
    pub to: EventPosition,
}

/// A named subscription.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subscription {
    /// The number of its store.
    pub store: StoreNumber,
    /// The events to deliver.
    pub query: Query<'static>,
    /// Matches up to here were delivered.
    pub position: EventPosition,
    /// The attempts of each delivery.
    pub attempts: Attempts<'static>,
    /// The client that put it last, by whose rights it delivers. `None`: it is not checked.
    pub creator: Option<Creator>,
}

const ONLY_LAST: u8 = 1;

/// ```text
/// | position | attempts max | backoff | backoff max | group by | n, n × (flags 1, types: m, m × text, tags: m, m × bytes) |
/// ```
///
/// Numbers are varints; flag 1 is `only_last_event`. In an entry, the creator follows, if any.
pub(crate) fn encode(position: EventPosition, query: &Query<'_>, attempts: &Attempts<'_>, out: &mut Encoder) {
    out.varint(position.get()).varint(u64::from(attempts.attempts_max));
    out.varint(attempts.backoff_micros).varint(attempts.backoff_max_micros).str(&attempts.group_by);
    out.varint(query.items.len() as u64);
    for item in &query.items {
        out.u8(if item.only_last_event { ONLY_LAST } else { 0 }).varint(item.types.len() as u64);
        for event_type in &item.types {
            out.str(event_type);
        }
        out.varint(item.tags.len() as u64);
        for tag in &item.tags {
            out.bytes(tag);
        }
    }
}

/// Reads what [`encode`] wrote. The subscription has no creator yet.
pub(crate) fn decode(store: StoreNumber, from: &mut Decoder<'_>) -> Result<Subscription, CodecError> {
    let position = EventPosition::new(from.varint()?);
    let attempts_max = u16::try_from(from.varint()?);
    let attempts_max = attempts_max.map_err(|_| CodecError { expected: "a number of attempts", bytes_left: 0 })?;
    let (backoff_micros, backoff_max_micros) = (from.varint()?, from.varint()?);
    let group_by = Cow::Owned(from.string()?);
    let mut query = Query::default();
    for _ in 0..from.varint()? {
        let mut item = QueryItem { only_last_event: from.u8()? & ONLY_LAST != 0, ..QueryItem::default() };
        for _ in 0..from.varint()? {
            item.types.push(Cow::Owned(from.string()?));
        }
        for _ in 0..from.varint()? {
            item.tags.push(Cow::Owned(Vec::from(from.bytes()?)));
        }
        query.items.push(item);
    }
    let attempts = Attempts { attempts_max, backoff_micros, backoff_max_micros, group_by };
    Ok(Subscription { store, query, position, attempts, creator: None })
}

/// Reads the body of an entry.
pub(crate) fn decode_entry(store: StoreNumber, body: &[u8]) -> Result<Subscription, CodecError> {
    let from = &mut Decoder::new(body);
    let subscription = decode(store, from)?;
    Ok(Subscription { creator: Creator::decode_rest(from)?, ..subscription })
}

impl Subscription {
    /// Returns the memory of the subscription under its name, in bytes.
    pub fn memory(&self, name: &str) -> u64 {
        subscription_memory(name, &self.query, &self.attempts, self.creator.as_ref())
    }

    /// The group of an event with these tags: what follows, with it, the start that the
    /// subscription names.
    pub fn group_of<'t>(&self, mut tags: impl Iterator<Item = &'t [u8]>) -> &'t str {
        let start = &*self.attempts.group_by;
        if start.is_empty() {
            return "";
        }
        let found = tags.find(|tag| tag.starts_with(start.as_bytes()));
        found.and_then(|tag| core::str::from_utf8(tag).ok()).unwrap_or_default()
    }
}

/// The subscriptions of all stores, in a checkpoint: `n, n × (name, store 4, encoded, 1 and the
/// creator or 0)`.
pub(crate) fn save(subscriptions: &alloc::collections::BTreeMap<String, Subscription>, out: &mut Encoder) {
    out.varint(subscriptions.len() as u64);
    for (name, subscription) in subscriptions {
        out.str(name).u32(subscription.store.get());
        encode(subscription.position, &subscription.query, &subscription.attempts, out);
        out.u8(u8::from(subscription.creator.is_some()));
        subscription.creator.iter().for_each(|creator| creator.encode(out));
    }
}

/// Reads a subscription of a checkpoint.
pub(crate) fn load(store: StoreNumber, from: &mut Decoder<'_>) -> Result<Subscription, CodecError> {
    let subscription = decode(store, from)?;
    let creator = if from.u8()? == 0 { None } else { Some(Creator::decode(from)?) };
    Ok(Subscription { creator, ..subscription })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subscription() -> Subscription {
        let query = Query::from(QueryItem::new().event_type("A").event_type("B").tag(b"x:\xff").into_owned())
            .or(QueryItem::new().only_last_event());
        let attempts = Attempts { attempts_max: 7, group_by: "x:".into(), ..Attempts::default() };
        let store = StoreNumber::new(3);
        Subscription { store, query, position: EventPosition::new(900), attempts, creator: None }
    }

    #[test]
    fn a_subscription_reads_back_as_it_was_written_and_cut_anywhere_is_an_error() {
        let subscription = subscription();
        let mut out = Encoder::new();
        encode(subscription.position, &subscription.query, &subscription.attempts, &mut out);
        let bytes = out.into_bytes();
        assert_eq!(decode(subscription.store, &mut Decoder::new(&bytes)), Ok(subscription.clone()));
        for length in 0..bytes.len() {
            assert!(decode(subscription.store, &mut Decoder::new(&bytes[..length])).is_err(), "{length} bytes");
        }
    }

    #[test]
    fn a_group_is_the_first_tag_with_the_start_and_text() {
        let subscription = subscription();
        assert_eq!(subscription.group_of([&b"y:1"[..], b"x:1", b"x:2"].into_iter()), "x:1");
        assert_eq!(subscription.group_of([&b"x:\xff"[..]].into_iter()), "");
        assert_eq!(subscription.group_of([&b"y"[..]].into_iter()), "");
    }
}
