//! Bytes in JSON, as a response shows them.
//!
//! Invariant: a shown value can be sent back unchanged. A value named `data` is shown in the first
//! of three forms that can represent its bytes: `"data"` (JSON), `"data_text"` (text) or
//! `"data_base64"`. With the parameter `as`, it is `"data"` in one form.

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use quire_api::request::{TagRequest, is_shallow};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

use crate::presentation::{Presentation, ValueForm};

/// Bytes as a field of a response, flattened into an object.
#[derive(Debug, Clone)]
pub(crate) struct ShownBytes<'a> {
    name: &'static str,
    bytes: Option<Cow<'a, [u8]>>,
    form: BytesForm,
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

impl<'a> ShownBytes<'a> {
    /// A value; empty bytes are shown as `null`.
    pub(crate) fn value(name: &'static str, bytes: impl Into<Cow<'a, [u8]>>) -> Self {
        ShownBytes { name, bytes: Some(bytes.into()).filter(|bytes| !bytes.is_empty()), form: BytesForm::Value }
    }

    /// A value of which every form fits on one line; empty bytes are shown as `null`.
    pub(crate) fn line(name: &'static str, bytes: impl Into<Cow<'a, [u8]>>) -> Self {
        ShownBytes { form: BytesForm::Line, ..ShownBytes::value(name, bytes) }
    }

    /// A value that may be absent, shown as `null`, or empty.
    pub(crate) fn optional(name: &'static str, bytes: Option<impl Into<Cow<'a, [u8]>>>) -> Self {
        ShownBytes { name, bytes: bytes.map(Into::into), form: BytesForm::Value }
    }

    /// A name or a key: a string when it is text. It may be absent.
    pub(crate) fn key(name: &'static str, bytes: Option<impl Into<Cow<'a, [u8]>>>) -> Self {
        ShownBytes { name, bytes: bytes.map(Into::into), form: BytesForm::Key }
    }

    /// The same in a response made of lines.
    pub(crate) fn on_a_line(self) -> Self {
        let form = if self.form == BytesForm::Value { BytesForm::Line } else { self.form };
        ShownBytes { form, ..self }
    }
}

impl Serialize for ShownBytes<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let ShownBytes { name, bytes, form } = self;
        let is_json = |bytes: &[u8]| match form {
            BytesForm::Value => true,
            BytesForm::Line => !bytes.iter().any(|byte| matches!(byte, b'\n' | b'\r')),
            BytesForm::Key => false,
        };
        let mut object = serializer.serialize_map(Some(1))?;
        let shown = Presentation::current().values;
        match bytes.as_deref() {
            None => object.serialize_entry(name, &())?,
            Some(bytes) if shown == ValueForm::Base64 => object.serialize_entry(name, &STANDARD.encode(bytes))?,
            Some(bytes) if shown != ValueForm::Tagged => {
                let json = as_json(bytes).filter(|_| shown == ValueForm::Json && *form != BytesForm::Key);
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
#[derive(Debug, Clone)]
pub(crate) struct TagReply<'a>(pub(crate) &'a [u8]);

impl Serialize for TagReply<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match str::from_utf8(self.0) {
            Ok(text) => serializer.serialize_str(text),
            Err(_) => {
                let mut object = serializer.serialize_map(Some(1))?;
                object.serialize_entry("base64", &STANDARD.encode(self.0))?;
                object.end()
            }
        }
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

/// Descriptions of values in responses. A value is in one of its fields.
pub(crate) mod shown {
    use std::borrow::Cow;

    use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
    use serde_json::{Map, json};

    macro_rules! shown {
        ($($type:ident $($name:literal)+,)+) => {$(
            #[derive(Debug)]
            pub(crate) enum $type {}

            impl JsonSchema for $type {
                fn inline_schema() -> bool {
                    true
                }

                fn schema_name() -> Cow<'static, str> {
                    stringify!($type).into()
                }

                fn json_schema(_: &mut SchemaGenerator) -> Schema {
                    fields(&[$($name),+])
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

    shown! {
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

#[cfg(test)]
mod tests {
    use quire_api::request::{Base64, JSON_DEPTH_MAX, Text, given};
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct In<'r> {
        #[serde(borrow)]
        data: Option<&'r RawValue>,
        data_text: Option<Text<'r>>,
        data_base64: Option<Base64>,
    }

    #[derive(Debug, Serialize)]
    struct Out<'a> {
        #[serde(flatten)]
        data: ShownBytes<'a>,
    }

    /// Checks the bytes that a request stores, and the form in which they are shown.
    #[track_caller]
    fn check(request: &str, stored: &[u8], shown: &str) {
        let In { data, data_text, data_base64 } = serde_json::from_str(request).expect(request);
        let bytes = given("data", data, data_text.as_ref(), data_base64.as_ref()).expect(request).unwrap_or_default();
        assert_eq!(bytes, stored, "{request}");
        let out = serde_json::to_string(&Out { data: ShownBytes::value("data", bytes) }).expect("it can be shown");
        assert_eq!(out, shown, "{request}");
    }

    #[test]
    fn json_is_stored_as_it_was_written() {
        check(
            r#"{"data": {"b":1.10, "a" : [ 1e3,null]}}"#,
            br#"{"b":1.10, "a" : [ 1e3,null]}"#,
            r#"{"data":{"b":1.10, "a" : [ 1e3,null]}}"#,
        );
        check(r#"{"data":"\u0041"}"#, br#""\u0041""#, r#"{"data":"\u0041"}"#);
        check(
            r#"{"data":123456789012345678901234567890}"#,
            b"123456789012345678901234567890",
            r#"{"data":123456789012345678901234567890}"#,
        );
    }

    #[test]
    fn text_and_bytes_come_back_as_such() {
        check(r#"{"data_text":"UA1545 \u00fc"}"#, "UA1545 ü".as_bytes(), r#"{"data_text":"UA1545 ü"}"#);
        check(r#"{"data_base64":"/wA="}"#, &[0xff, 0], r#"{"data_base64":"/wA="}"#);
        check(r#"{"data_text":"[1] "}"#, b"[1] ", r#"{"data_text":"[1] "}"#);
    }

    #[test]
    fn json_on_several_lines_is_shown_as_text_where_an_answer_is_made_of_lines() {
        let shown = |bytes: &'static [u8]| {
            let out = Out { data: ShownBytes::value("data", bytes).on_a_line() };
            serde_json::to_string(&out).expect("it can be shown")
        };
        assert_eq!(shown(b"{\"a\":\n 1}"), r#"{"data_text":"{\"a\":\n 1}"}"#);
        assert_eq!(shown(b"[1,\r2]"), r#"{"data_text":"[1,\r2]"}"#);
        assert_eq!(shown(br#"["\n"]"#), r#"{"data":["\n"]}"#);
        check("{\"data\": {\"a\":\n 1}}", b"{\"a\":\n 1}", "{\"data\":{\"a\":\n 1}}");
    }

    #[test]
    fn with_a_form_the_key_does_not_depend_on_the_content() {
        let shown = |form: ValueForm, bytes: &'static [u8]| {
            let value = ShownBytes::line("data", bytes);
            Presentation { values: form, encoding: None, is_aside: false }
                .aside(|| serde_json::to_string(&Out { data: value }).expect("it can be shown"))
        };
        let contents: [&[u8]; 6] = [b"", b"42", b"1e400", b"[1,\n 2]", "ü".as_bytes(), &[0xff, b'a']];
        let as_json = ["null", "42", "1e400", "[1,  2]", "\"ü\"", "\"\u{fffd}a\""];
        let as_text = ["null", "\"42\"", "\"1e400\"", "\"[1,\\n 2]\"", "\"ü\"", "\"\u{fffd}a\""];
        let as_base64 = ["null", "\"NDI=\"", "\"MWU0MDA=\"", "\"WzEsCiAyXQ==\"", "\"w7w=\"", "\"/2E=\""];
        for (form, expect) in [(ValueForm::Json, as_json), (ValueForm::Text, as_text), (ValueForm::Base64, as_base64)] {
            for (bytes, expect) in contents.into_iter().zip(expect) {
                assert_eq!(shown(form, bytes), format!("{{\"data\":{expect}}}"), "{form:?}");
            }
        }
    }

    #[test]
    fn a_tag_is_given_as_it_is_shown() {
        for tag in [&b"course:c1"[..], b"\"\n", "ü".as_bytes(), &[0xff, 1]] {
            let shown = serde_json::to_string(&TagReply(tag)).expect("it can be shown");
            assert_eq!(serde_json::from_str::<TagRequest<'_>>(&shown).expect("as shown").as_bytes(), tag, "{shown}");
        }
        for wrong in ["7", "{}", r#"{"base64": "?"}"#, r#"{"base64": "/w==", "text": "a"}"#, "null"] {
            assert!(serde_json::from_str::<TagRequest<'_>>(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn null_means_no_bytes_and_the_text_null_does_not() {
        check(r#"{"data":null}"#, b"", r#"{"data":null}"#);
        check("{}", b"", r#"{"data":null}"#);
        check(r#"{"data_text":"null"}"#, b"null", r#"{"data_text":"null"}"#);
    }

    #[test]
    fn depth_counts_the_brackets_that_are_open_outside_of_strings() {
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert!(is_shallow(nested(JSON_DEPTH_MAX).as_bytes()));
        assert!(!is_shallow(nested(JSON_DEPTH_MAX + 1).as_bytes()));
        assert!(is_shallow(format!("[{}1]", "[],".repeat(200)).as_bytes()), "side by side");
        assert!(is_shallow(format!(r#"["\"{}"]"#, "[".repeat(200)).as_bytes()), "in a string");
        assert!(!is_shallow(format!(r#"["\\",{}]"#, nested(JSON_DEPTH_MAX)).as_bytes()), "behind a string");
    }

    #[test]
    fn a_value_given_twice_is_refused() {
        let text = Text::from("a");
        let base64: Base64 = serde_json::from_str(r#""AQ==""#).expect("base64");
        let problem = given("data", None, Some(&text), Some(&base64)).expect_err("two ways");
        assert!(format!("{problem:?}").contains("data_base64"));
    }
}
