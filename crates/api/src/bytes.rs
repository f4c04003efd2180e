//! Bytes in JSON, as a request gives them.
//!
//! Invariant: bytes are stored exactly as given. A value named `data` has one of three forms:
//! * `"data"`: any JSON, stored as its text, exactly as written;
//! * `"data_text"`: the UTF-8 of a string;
//! * `"data_base64"`: any bytes.
//!
//! The depth of JSON is limited in both directions. Parsers have limits of their own, and one deep
//! value must not make a page unreadable.

use std::borrow::Cow;
use std::fmt::{self, Display};
use std::marker::PhantomData;
use std::ops::Deref;
use std::str::FromStr;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use schemars::JsonSchema;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use crate::Failure;
use crate::schema::inline_schema;

/// Maximum depth of a JSON value. It is half of the usual limit of parsers (serde_json: 128),
/// because a response nests the value in its own objects.
pub const JSON_DEPTH_MAX: usize = 64;

/// A string of a request, borrowed from its body unless it has escapes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Text<'r>(#[serde(borrow)] Cow<'r, str>);

impl Text<'_> {
    /// Copies the string out of the body.
    pub fn into_owned(self) -> Text<'static> {
        Text(Cow::Owned(self.0.into_owned()))
    }
}

impl Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl<'r> From<&'r str> for Text<'r> {
    fn from(text: &'r str) -> Self {
        Text(Cow::Borrowed(text))
    }
}

impl From<String> for Text<'_> {
    fn from(text: String) -> Self {
        Text(Cow::Owned(text))
    }
}

/// Deserializes a string, and converts it while the parser stands at its end: so an error of the
/// conversion has the place of the string.
///
/// # Errors
/// When it is no string, and the message of `convert`.
pub fn from_text<'de, D: Deserializer<'de>, T>(
    deserializer: D,
    convert: impl FnOnce(&str) -> Result<T, String>,
) -> Result<T, D::Error> {
    struct TextVisitor<F>(F);

    impl<T, F: FnOnce(&str) -> Result<T, String>> Visitor<'_> for TextVisitor<F> {
        type Value = T;

        fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
            formatter.write_str("a string")
        }

        fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
            (self.0)(text).map_err(E::custom)
        }
    }

    deserializer.deserialize_str(TextVisitor(convert))
}

/// A string of a request that encodes another value: an id, a token.
#[derive(Debug, Clone, Copy)]
pub struct ParsedText<T>(pub T);

impl<'de, T: FromStr<Err: Display>> Deserialize<'de> for ParsedText<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        from_text(deserializer, |text| text.parse().map(ParsedText).map_err(|error| format!("{text:?}: {error}")))
    }
}

impl<T: Display> Serialize for ParsedText<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

inline_schema!(all T: ParsedText<T>, "ParsedText", {"type": "string"});

/// Bytes that a request gives in base64 (RFC 4648, with padding).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Base64(Vec<u8>);

impl Base64 {
    /// The bytes.
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.0
    }
}

impl<'de> Deserialize<'de> for Base64 {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        from_text(deserializer, |text| STANDARD.decode(text).map(Base64).map_err(|error| format!("base64: {error}")))
    }
}

impl Serialize for Base64 {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&STANDARD.encode(&self.0))
    }
}

inline_schema!(Base64, "Base64", {"type": "string", "contentEncoding": "base64"});

/// A tag of a request: a string, or an object with its bytes in base64. A response shows
/// a tag that is not text in this form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TagRequest<'r> {
    /// A string.
    Text(Text<'r>),
    /// Bytes.
    Bytes(Vec<u8>),
}

impl TagRequest<'_> {
    /// The bytes of the tag.
    pub fn as_bytes(&self) -> &[u8] {
        match self {
            TagRequest::Text(text) => text.as_bytes(),
            TagRequest::Bytes(bytes) => bytes,
        }
    }
}

impl<'de: 'r, 'r> Deserialize<'de> for TagRequest<'r> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TagVisitor(PhantomData))
    }
}

impl Serialize for TagRequest<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            TagRequest::Text(text) => text.serialize(serializer),
            TagRequest::Bytes(bytes) => {
                let mut object = serializer.serialize_map(Some(1))?;
                object.serialize_entry("base64", &STANDARD.encode(bytes))?;
                object.end()
            }
        }
    }
}

impl TagRequest<'_> {
    /// A tag of bytes, as a string when they are text.
    pub fn of(bytes: impl AsRef<[u8]>) -> Self {
        match text_or_base64(bytes) {
            (Some(text), _) => TagRequest::Text(text),
            (None, base64) => TagRequest::Bytes(base64.map(Base64::into_bytes).unwrap_or_default()),
        }
    }
}

inline_schema!(TagRequest<'_>, "Tag", {
    "anyOf": [
        {"type": "string"},
        {
            "type": "object",
            "properties": {"base64": {"type": "string", "contentEncoding": "base64"}},
            "required": ["base64"],
            "additionalProperties": false
        }
    ]
});

struct TagVisitor<'r>(PhantomData<&'r ()>);

impl<'de: 'r, 'r> Visitor<'de> for TagVisitor<'r> {
    type Value = TagRequest<'r>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(r#"a tag: a string, or {"base64": "..."}"#)
    }

    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(TagRequest::Text(Text(Cow::Borrowed(text))))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        Ok(TagRequest::Text(Text(Cow::Owned(text.to_owned()))))
    }

    fn visit_map<A: MapAccess<'de>>(self, fields: A) -> Result<Self::Value, A::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Bytes {
            base64: Base64,
        }
        Bytes::deserialize(MapAccessDeserializer::new(fields)).map(|bytes| TagRequest::Bytes(bytes.base64.0))
    }
}

/// The two fields of a request for a value: its text, or the base64 of bytes that are not text.
/// Either way, the database stores exactly these bytes.
pub(crate) fn text_or_base64<'r>(bytes: impl AsRef<[u8]>) -> (Option<Text<'r>>, Option<Base64>) {
    match str::from_utf8(bytes.as_ref()) {
        Ok(text) => (Some(Text::from(text.to_owned())), None),
        Err(_) => (None, Some(Base64(bytes.as_ref().to_vec()))),
    }
}

/// The bytes of the value `name`, given in one of three forms or absent.
///
/// # Errors
/// When it is given in more than one form, or as JSON that is nested too deeply.
pub fn given<'r>(
    name: &str,
    json: Option<&'r RawValue>,
    text: Option<&'r Text<'_>>,
    base64: Option<&'r Base64>,
) -> Result<Option<&'r [u8]>, Failure> {
    if json.is_some_and(|json| !is_shallow(json.get().as_bytes())) {
        let message = format!("{name} exceeds {JSON_DEPTH_MAX} levels of nesting: give it as {name}_text");
        return Err(Failure::invalid(message));
    }
    let json = json.map(|json| json.get().as_bytes());
    let text = text.map(|text| text.as_bytes());
    let base64 = base64.map(|base64| base64.0.as_slice());
    let mut ways = [json, text, base64].into_iter().flatten();
    match (ways.next(), ways.next()) {
        (bytes, None) => Ok(bytes),
        _ => Err(Failure::invalid(format!("give only one of {name}, {name}_text and {name}_base64"))),
    }
}

/// Whether valid JSON is nested at most [`JSON_DEPTH_MAX`] levels deep. It counts the brackets
/// outside strings.
pub fn is_shallow(json: &[u8]) -> bool {
    let (mut depth, mut in_string) = (0_usize, false);
    let mut bytes = json.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => in_string = !in_string,
            // An escaped quote does not end a string.
            b'\\' if in_string => drop(bytes.next()),
            b'[' | b'{' if !in_string => {
                depth += 1;
                if depth > JSON_DEPTH_MAX {
                    return false;
                }
            }
            b']' | b'}' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    true
}
