//! A part as JSON: an object with exactly one field, the command.

use std::fmt;

use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeSeed, Error, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::PartRequest;

const EXPECTED: &str = "a part names exactly one of append, produce, create_topic, commit_offset, enqueue, fetch, ack, fail, \
    snooze, heartbeat, change, set_queue, clear, destroy, bulk, each, tick, put_block, delete_block, put_edge, delete_edge";

impl<'de: 'r, 'r> Deserialize<'de> for PartRequest<'r> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(OneCommand)
    }
}

struct OneCommand;

impl<'de> Visitor<'de> for OneCommand {
    type Value = PartRequest<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object: ")?;
        f.write_str(EXPECTED)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Self::Value, A::Error> {
        // The derived reading of an enum, which `remote` puts beside the trait.
        let part = PartRequest::deserialize(MapAccessDeserializer::new(NotEmpty(&mut fields)))?;
        match fields.next_key::<IgnoredAny>()? {
            None => Ok(part),
            Some(_) => Err(A::Error::custom(EXPECTED)),
        }
    }
}

/// Fields of which there has to be one.
struct NotEmpty<'a, A>(&'a mut A);

impl<'de, A: MapAccess<'de>> MapAccess<'de> for NotEmpty<'_, A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, A::Error> {
        self.0.next_key_seed(seed)?.map_or_else(|| Err(A::Error::custom(EXPECTED)), |key| Ok(Some(key)))
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, A::Error> {
        self.0.next_value_seed(seed)
    }
}
