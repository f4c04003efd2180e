//! Bytes in JSON, as a response shows them.
//!
//! Invariant: a shown value can be sent back unchanged. A value named `data` is shown in the first
//! of three forms that can represent its bytes: `"data"` (JSON), `"data_text"` (text) or
//! `"data_base64"`. With the parameter `as`, it is `"data"` in one form.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::marker::PhantomData;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::{DeserializeOwned, Error, IgnoredAny};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use crate::request::{Base64, TagRequest, is_shallow};

/// How values are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueForm {
    /// Under a key that says the form.
    Tagged,
    /// JSON, and any other text as a string.
    Json,
    /// A string of the text.
    Text,
    /// A string of the bytes in base64.
    Base64,
}

/// The names that a value may have, of which it has one.
pub trait ValueNames {
    /// The names.
    const NAMES: &'static [&'static str];
}

/// Bytes as a field of a response, flattened into an object.
pub struct ShownBytes<'a, N> {
    name: &'static str,
    bytes: Option<Cow<'a, [u8]>>,
    form: BytesForm,
    shown: ValueForm,
    names: PhantomData<fn() -> N>,
}

/// The forms that a field may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BytesForm {
    /// JSON as such, any other text as `…_text`.
    Value,
    /// The same on one line: JSON with line breaks becomes text.
    Line,
    /// Text, under the name itself.
    Key,
}

impl<'a, N: ValueNames> ShownBytes<'a, N> {
    /// A value; empty bytes are shown as `null`.
    pub fn value(bytes: impl Into<Cow<'a, [u8]>>, shown: ValueForm) -> Self {
        ShownBytes::optional(Some(bytes.into()).filter(|bytes| !bytes.is_empty()), shown)
    }

    /// A value that may be absent, shown as `null`, or empty.
    pub fn optional(bytes: Option<impl Into<Cow<'a, [u8]>>>, shown: ValueForm) -> Self {
        let (name, form) = (N::NAMES[0], BytesForm::Value);
        ShownBytes { name, bytes: bytes.map(Into::into), form, shown, names: PhantomData }
    }

    /// A name or a key: a string when it is text. It may be absent.
    pub fn key(bytes: Option<impl Into<Cow<'a, [u8]>>>, shown: ValueForm) -> Self {
        ShownBytes { form: BytesForm::Key, ..ShownBytes::optional(bytes, shown) }
    }

    /// The same under another of its names.
    #[must_use]
    pub fn named(self, name: &'static str) -> Self {
        debug_assert!(N::NAMES.contains(&name));
        ShownBytes { name, ..self }
    }

    /// The same in a response made of lines: every form of a value fits on one line.
    #[must_use]
    pub fn on_a_line(self) -> Self {
        let form = if self.form == BytesForm::Value { BytesForm::Line } else { self.form };
        ShownBytes { form, ..self }
    }

    /// The name of the value.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The bytes; none for a value that is absent or empty.
    pub fn bytes(&self) -> &[u8] {
        self.bytes.as_deref().unwrap_or_default()
    }

    /// Whether the value is absent, or `null`.
    pub fn is_null(&self) -> bool {
        self.bytes.is_none()
    }

    /// The bytes as text.
    ///
    /// # Errors
    /// When they are not UTF-8.
    pub fn text(&self) -> Result<&str, std::str::Utf8Error> {
        str::from_utf8(self.bytes())
    }

    /// The bytes, read as JSON.
    ///
    /// # Errors
    /// When they are not JSON of this type.
    pub fn json<T: DeserializeOwned>(&self) -> serde_json::Result<T> {
        serde_json::from_slice(self.bytes())
    }
}

impl<N> Clone for ShownBytes<'_, N> {
    fn clone(&self) -> Self {
        ShownBytes { bytes: self.bytes.clone(), ..*self }
    }
}

impl<N> std::fmt::Debug for ShownBytes<'_, N> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let bytes = self.bytes.as_deref().map(String::from_utf8_lossy);
        f.debug_tuple("ShownBytes").field(&self.name).field(&bytes).finish()
    }
}

impl<N> Serialize for ShownBytes<'_, N> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let ShownBytes { name, bytes, form, shown, names: _ } = self;
        let is_json = |bytes: &[u8]| match form {
            BytesForm::Value => true,
            BytesForm::Line => !bytes.iter().any(|byte| matches!(byte, b'\n' | b'\r')),
            BytesForm::Key => false,
        };
        let mut object = serializer.serialize_map(Some(1))?;
        match bytes.as_deref() {
            None => object.serialize_entry(name, &())?,
            Some(bytes) if *shown == ValueForm::Base64 => object.serialize_entry(name, &STANDARD.encode(bytes))?,
            Some(bytes) if *shown != ValueForm::Tagged => {
                let json = as_json(bytes).filter(|_| *shown == ValueForm::Json && *form != BytesForm::Key);
                match json {
                    Some(value) if is_json(bytes) => object.serialize_entry(name, value)?,
                    Some(value) => object.serialize_entry(name, &on_one_line(value))?,
                    None => object.serialize_entry(name, &String::from_utf8_lossy(bytes))?,
                }
            }
            Some(bytes) => match (as_json(bytes).filter(|_| is_json(bytes)), str::from_utf8(bytes)) {
                (Some(value), _) => object.serialize_entry(name, value)?,
                (None, Ok(text)) if *form != BytesForm::Key => object.serialize_entry(&format!("{name}_text"), text)?,
                (None, Ok(text)) => object.serialize_entry(name, text)?,
                (None, Err(_)) => object.serialize_entry(&format!("{name}_base64"), &STANDARD.encode(bytes))?,
            },
        }
        object.end()
    }
}

impl<'de, N: ValueNames> Deserialize<'de> for ShownBytes<'_, N> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        /// A field of the object: the value, or another one.
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Field {
            Bytes(Option<Base64>),
            Other(IgnoredAny),
        }
        let mut fields = BTreeMap::<String, Field>::deserialize(deserializer)?;
        let known = N::NAMES.iter().find_map(|name| Some((*name, fields.remove(*name)?)));
        match known {
            Some((name, Field::Bytes(bytes))) => {
                let bytes = bytes.map(|bytes| Cow::Owned(bytes.into_bytes()));
                let (form, shown) = (BytesForm::Value, ValueForm::Base64);
                Ok(ShownBytes { name, bytes, form, shown, names: PhantomData })
            }
            Some((name, Field::Other(_))) => Err(D::Error::custom(format_args!("{name} is not in base64"))),
            None => Err(D::Error::missing_field(N::NAMES[0])),
        }
    }
}

/// Parses the bytes as JSON, if they are nothing else. `null` does not count: it represents no
/// bytes.
fn as_json(bytes: &[u8]) -> Option<&RawValue> {
    // Most text ends here, without a scan.
    bytes.first().filter(|first| matches!(first, b'{' | b'[' | b'"' | b'-' | b'0'..=b'9' | b't' | b'f'))?;
    let value: &RawValue = serde_json::from_slice(bytes).ok()?;
    (value.get().len() == bytes.len() && is_shallow(bytes)).then_some(value)
}

/// The same JSON without line breaks, which are spaces outside of its strings.
fn on_one_line(value: &RawValue) -> Box<RawValue> {
    let line = value.get().replace(['\n', '\r'], " ");
    RawValue::from_string(line).expect("JSON stays JSON")
}

/// A tag: a string, or an object with its bytes when it is not text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TagReply<'a>(pub Cow<'a, [u8]>);

impl Serialize for TagReply<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match str::from_utf8(&self.0) {
            Ok(text) => serializer.serialize_str(text),
            Err(_) => {
                let mut object = serializer.serialize_map(Some(1))?;
                object.serialize_entry("base64", &STANDARD.encode(&self.0))?;
                object.end()
            }
        }
    }
}

impl<'de> Deserialize<'de> for TagReply<'_> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let tag = TagRequest::deserialize(deserializer)?;
        Ok(TagReply(Cow::Owned(tag.as_bytes().to_vec())))
    }
}

/// The description of a tag is that of a tag in a request.
impl JsonSchema for TagReply<'_> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Tag".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        TagRequest::json_schema(generator)
    }
}

/// The names of values in responses, with their descriptions. A value is in one of its fields.
pub mod names {
    use std::borrow::Cow;

    use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
    use serde_json::{Map, json};

    use super::ValueNames;

    macro_rules! names {
        ($($type:ident $($name:literal)+,)+) => {$(
            #[derive(Debug)]
            #[doc = concat!("The names", $(" `", $name, "`",)+ ".")]
            pub enum $type {}

            impl ValueNames for $type {
                const NAMES: &'static [&'static str] = &[$($name),+];
            }

            impl JsonSchema for $type {
                fn inline_schema() -> bool {
                    true
                }

                fn schema_name() -> Cow<'static, str> {
                    stringify!($type).into()
                }

                fn json_schema(_: &mut SchemaGenerator) -> Schema {
                    fields(Self::NAMES)
                }
            }
        )+};
    }

    fn fields(names: &[&str]) -> Schema {
        let mut fields = Map::new();
        for name in names {
            fields.insert((*name).to_owned(), json!(true));
            fields.insert(format!("{name}_text"), json!({"type": "string"}));
            fields.insert(format!("{name}_base64"), json!({"type": "string", "contentEncoding": "base64"}));
        }
        json_schema!({"type": "object", "properties": fields})
    }

    names! {
        Payload "payload",
        Checkpoint "checkpoint",
        Metadata "metadata",
        Content "content",
        Properties "properties",
        Data "data",
        Key "key",
        ValueBytes "value",
        UniqueKey "unique_key",
        Progress "progress",
        ResultBytes "result",
        StateBytes "state",
        NotedBytes "payload" "progress" "result",
    }
}
