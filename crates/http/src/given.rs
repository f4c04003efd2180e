//! A JSON object of a body, completed by the names in the path of its request.
//!
//! So a route that names a queue, a topic or a block reads the same type as the part of a commit,
//! which has the name as a field.

use std::fmt;
use std::iter::once;
use std::slice::Iter;

use serde::de::value::{BorrowedStrDeserializer, MapDeserializer};
use serde::de::{DeserializeSeed, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, forward_to_deserialize_any};

/// A field that the path gives.
#[derive(Debug, Clone, Copy)]
pub(crate) enum GivenField<'r> {
    /// A name.
    Name(&'static str, &'r str),
    /// A block by its id: `{"id": "..."}`.
    Id(&'static str, &'r str),
}

impl GivenField<'_> {
    fn key(self) -> &'static str {
        let (GivenField::Name(key, _) | GivenField::Id(key, _)) = self;
        key
    }
}

/// Deserializes a value from an object and the given fields.
///
/// # Errors
/// Those of the deserializer, and when the object has a given field, too.
pub(crate) fn with_fields<'r, D: Deserializer<'r>, T: Deserialize<'r>>(
    object: D,
    fields: &[GivenField<'r>],
) -> Result<T, D::Error> {
    T::deserialize(CompletedObject { object, fields })
}

/// Deserializes the object of a body.
struct CompletedObject<'f, 'r, D> {
    object: D,
    fields: &'f [GivenField<'r>],
}

impl<'r, D: Deserializer<'r>> Deserializer<'r> for CompletedObject<'_, 'r, D> {
    type Error = D::Error;

    fn deserialize_any<V: Visitor<'r>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.object.deserialize_map(CompletedVisitor { visitor, fields: self.fields })
    }

    forward_to_deserialize_any! {
        <V: Visitor<'r>>
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

/// Visits the object of a body.
struct CompletedVisitor<'f, 'r, V> {
    visitor: V,
    fields: &'f [GivenField<'r>],
}

impl<'r, V: Visitor<'r>> Visitor<'r> for CompletedVisitor<'_, 'r, V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.visitor.expecting(f)
    }

    fn visit_map<A: MapAccess<'r>>(self, object: A) -> Result<V::Value, A::Error> {
        self.visitor.visit_map(CompletedMap { fields: self.fields.iter(), value: None, object })
    }
}

/// The given fields, and then those of the object.
struct CompletedMap<'f, 'r, A> {
    fields: Iter<'f, GivenField<'r>>,
    /// The given field whose key was read.
    value: Option<GivenField<'r>>,
    object: A,
}

impl<'r, A: MapAccess<'r>> MapAccess<'r> for CompletedMap<'_, 'r, A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'r>>(&mut self, seed: K) -> Result<Option<K::Value>, A::Error> {
        match self.fields.next() {
            Some(field) => {
                self.value = Some(*field);
                seed.deserialize(BorrowedStrDeserializer::new(field.key())).map(Some)
            }
            None => self.object.next_key_seed(seed),
        }
    }

    fn next_value_seed<S: DeserializeSeed<'r>>(&mut self, seed: S) -> Result<S::Value, A::Error> {
        match self.value.take() {
            Some(GivenField::Name(_, name)) => seed.deserialize(BorrowedStrDeserializer::new(name)),
            Some(GivenField::Id(_, id)) => seed.deserialize(MapDeserializer::new(once(("id", id)))),
            None => self.object.next_value_seed(seed),
        }
    }
}
