//! A JSON object with exactly one field, which selects a variant.
//!
//! It is serde's derived form of an enum. Only an object without a field, or with several, gets a
//! better message.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeSeed, Error, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::PartRequest;
use super::queues::{ChangeRequest, RateRequest, SettingRequest};

/// An enum that derives its form with `remote = "Self"`, which puts it next to the trait.
trait ExactlyOne<'de>: Sized {
    const EXPECTED: &'static str;

    /// The derived implementation.
    fn derived<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error>;
}

macro_rules! one {
    ($one:ident $(<$life:lifetime>)?, $expected:literal) => {
        impl<'de $(: $life, $life)?> ExactlyOne<'de> for $one $(<$life>)? {
            const EXPECTED: &'static str = $expected;

            fn derived<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                $one::deserialize(deserializer)
            }
        }

        impl<'de $(: $life, $life)?> Deserialize<'de> for $one $(<$life>)? {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_map(OneField(PhantomData))
            }
        }

        impl $(<$life>)? Serialize for $one $(<$life>)? {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                // The derived function, which is not the trait's.
                $one::serialize(self, serializer)
            }
        }
    };
}

one!(
    PartRequest<'r>,
    "a part must have exactly one of append, upstream, trim_events, forget_tag, retain_events, put_subscription, drop_subscription, save_projection, \
    drop_projection, produce, create_topic, delete_topic, alter_topic, \
    delete_records, commit_offset, delete_offset, delete_group, enqueue, fetch, ack, fail, snooze, heartbeat, change, \
    set_queue, clear, destroy, bulk, each, tick, put_block, delete_block, put_edge, delete_edge, \
    delete_edges, retain_graph, trim_graph"
);
one!(
    ChangeRequest<'r>,
    "a change must have exactly one of cancel, hold, release, reschedule, retry, delete, move, priority, \
    attempts_max, payload"
);
one!(
    SettingRequest,
    "a setting must be exactly one of paused, draining, jobs_max, active_max, group_active_max, rate, group_rate, retention_ms"
);
one!(RateRequest, "a rate must be exactly one of token_bucket, sliding_window");

struct OneField<T>(PhantomData<T>);

impl<'de, T: ExactlyOne<'de>> Visitor<'de> for OneField<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object: ")?;
        f.write_str(T::EXPECTED)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<T, A::Error> {
        let one = T::derived(MapAccessDeserializer::new(NotEmpty { fields: &mut fields, expected: T::EXPECTED }))?;
        match fields.next_key::<IgnoredAny>()? {
            None => Ok(one),
            Some(_) => Err(A::Error::custom(T::EXPECTED)),
        }
    }
}

/// The fields, of which exactly one is required.
struct NotEmpty<'a, A> {
    fields: &'a mut A,
    expected: &'static str,
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for NotEmpty<'_, A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, A::Error> {
        self.fields.next_key_seed(seed)?.map_or_else(|| Err(A::Error::custom(self.expected)), |key| Ok(Some(key)))
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, A::Error> {
        self.fields.next_value_seed(seed)
    }
}
