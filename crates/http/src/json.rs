//! Parses the JSON of requests, and names the field of an error.
//!
//! An error tells line and column. The path of the field is found by a scan of the text up to
//! there, so that no type needs a second parser that tracks paths.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Error, IgnoredAny, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::given::{GivenField, with_fields};

/// A JSON error.
#[derive(Debug)]
pub(crate) struct Misread {
    /// Whether the text is not JSON at all; otherwise the JSON has the wrong form.
    pub(crate) is_malformed: bool,
    /// The invalid field, as `parts[0].append.store`; absent when the whole value is wrong, or is
    /// not JSON.
    pub(crate) field: Option<String>,
    /// The error's message.
    pub(crate) message: String,
    pub(crate) line: usize,
    pub(crate) column: usize,
}

/// A list of at most `MAX` elements. The parser refuses the first element beyond them, before it
/// takes memory for it.
#[derive(Debug)]
pub(crate) struct BoundedList<T, const MAX: usize>(pub(crate) Vec<T>);

impl<T, const MAX: usize> Default for BoundedList<T, MAX> {
    fn default() -> Self {
        BoundedList(Vec::new())
    }
}

impl<T: JsonSchema, const MAX: usize> JsonSchema for BoundedList<T, MAX> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "BoundedList".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "array", "items": generator.subschema_for::<T>(), "maxItems": MAX})
    }
}

impl<'de, T: Deserialize<'de>, const MAX: usize> Deserialize<'de> for BoundedList<T, MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(BoundedVisitor::<T, MAX>(PhantomData))
    }
}

/// Collects the elements of a [`BoundedList`].
struct BoundedVisitor<T, const MAX: usize>(PhantomData<T>);

impl<'de, T: Deserialize<'de>, const MAX: usize> Visitor<'de> for BoundedVisitor<T, MAX> {
    type Value = BoundedList<T, MAX>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let mut elements = Vec::new();
        while elements.len() < MAX {
            match list.next_element()? {
                Some(element) => elements.push(element),
                None => return Ok(BoundedList(elements)),
            }
        }
        match list.next_element::<IgnoredAny>()? {
            Some(_) => Err(A::Error::custom(format_args!("the list exceeds the limit of {MAX} elements"))),
            None => Ok(BoundedList(elements)),
        }
    }
}

/// Parses the JSON.
///
/// # Errors
/// When it is not JSON, or has the wrong form.
pub(crate) fn read<'r, T: Deserialize<'r>>(json: &'r [u8]) -> Result<T, Misread> {
    serde_json::from_slice(json).map_err(|error| misread(json, &error))
}

/// Parses an object of JSON, completed by these fields.
///
/// # Errors
/// When it is not JSON, has the wrong form, or has one of the fields, too.
pub(crate) fn read_with<'r, T: Deserialize<'r>>(json: &'r [u8], fields: &[GivenField<'r>]) -> Result<T, Misread> {
    let mut object = serde_json::Deserializer::from_slice(json);
    let read = with_fields(&mut object, fields);
    read.and_then(|value| object.end().map(|()| value)).map_err(|error| misread(json, &error))
}

fn misread(json: &[u8], error: &serde_json::Error) -> Misread {
    let (line, column) = (error.line(), error.column());
    let message = error.to_string();
    let message = message.strip_suffix(&format!(" at line {line} column {column}")).unwrap_or(&message).to_owned();
    // serde_json reports some wrong forms as syntax errors, such as a number instead of an object
    // with one field.
    let is_malformed = !error.is_data() && serde_json::from_slice::<IgnoredAny>(json).is_err();
    if is_malformed {
        return Misread { is_malformed, field: None, message, line, column };
    }
    let field = path_at(json, offset(json, line, column), !error.is_data());
    let message = match message.as_str() {
        "expected value" => "expected a name, or an object with one field".to_owned(),
        _ => message,
    };
    Misread { is_malformed, field, message, line, column }
}

/// The byte after which the error was met.
fn offset(json: &[u8], line: usize, column: usize) -> usize {
    let lines_before = json.split_inclusive(|byte| *byte == b'\n').take(line.saturating_sub(1));
    (lines_before.map(<[u8]>::len).sum::<usize>() + column).min(json.len())
}

/// Where the scan is in an open object or array.
enum PathStep {
    /// In an object; after the key, its text.
    Key(Option<String>),
    /// In the element of an array with this index.
    Index(usize),
}

/// The path of the value at this offset, as `parts[0].append.store`, or of the key that ends there.
/// Nothing for the whole text.
///
/// The text up to the offset must be the beginning of valid JSON. With `is_more_refused`, a comma
/// after an object is the error: what holds the object should end there.
fn path_at(json: &[u8], offset: usize, is_more_refused: bool) -> Option<String> {
    let mut path = Vec::new();
    let mut at = 0;
    while at < offset {
        match json[at] {
            b'{' => path.push(PathStep::Key(None)),
            b'[' => path.push(PathStep::Index(0)),
            b'}' | b']' => drop(path.pop()),
            b',' => match path.last_mut() {
                Some(PathStep::Index(index)) => *index += 1,
                Some(PathStep::Key(key)) => *key = None,
                None => {}
            },
            b'"' => {
                let end = string_end(json, at);
                if let Some(PathStep::Key(key @ None)) = path.last_mut()
                    && end <= offset
                {
                    *key = serde_json::from_slice(&json[at..end]).ok();
                }
                at = end - 1;
            }
            _ => {}
        }
        at += 1;
    }
    if is_more_refused && json[..offset].ends_with(b"}") && json[offset..].starts_with(b",") {
        path.pop();
    }
    let mut text = String::new();
    for step in path {
        match step {
            PathStep::Key(Some(key)) if text.is_empty() => text = key,
            PathStep::Key(Some(key)) => text.extend([".", &key]),
            PathStep::Key(None) => {}
            PathStep::Index(index) => text.push_str(&format!("[{index}]")),
        }
    }
    (!text.is_empty()).then_some(text)
}

/// The offset after the closing quote of the string that begins at this offset.
fn string_end(json: &[u8], begin: usize) -> usize {
    let mut at = begin + 1;
    while at < json.len() {
        match json[at] {
            b'"' => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    json.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use quire_api::request::Base64;

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(rename_all = "snake_case")]
    enum ExactlyOne {
        Bytes { data_base64: Option<Base64>, size: Option<u8> },
    }

    #[derive(Debug, PartialEq, Deserialize)]
    struct All {
        list: Vec<ExactlyOne>,
    }

    #[track_caller]
    fn check(json: &str, is_malformed: bool, field: Option<&str>, message: &str) {
        let misread = read::<All>(json.as_bytes()).expect_err(json);
        assert_eq!((misread.is_malformed, misread.field.as_deref()), (is_malformed, field), "{misread:?}");
        assert!(misread.message.contains(message), "{misread:?}");
        assert_eq!(misread.line, 1);
    }

    #[test]
    fn a_list_is_refused_at_the_first_element_beyond_its_limit() {
        #[derive(Debug, Deserialize)]
        struct Lists {
            list: BoundedList<u8, 2>,
        }
        for (json, expect) in [("[]", &[][..]), ("[1]", &[1]), ("[1, 2]", &[1, 2])] {
            let json = format!(r#"{{"list": {json}}}"#);
            assert_eq!(read::<Lists>(json.as_bytes()).expect("few").list.0, expect);
        }
        // What follows the element is not read: it is not even JSON.
        for more in ["3]}", "3, 4]}", "3, ?"] {
            let json = format!(r#"{{"list": [1, 2, {more}"#);
            let misread = read::<Lists>(json.as_bytes()).expect_err("many");
            assert!(!misread.is_malformed && misread.field.is_some_and(|field| field.starts_with("list")));
            assert_eq!(misread.message, "the list exceeds the limit of 2 elements");
        }
    }

    #[test]
    fn a_valid_request_is_read() {
        let read = read::<All>(br#"{"list": [{"bytes": {"size": 1}}]}"#).expect("as it should be");
        assert_eq!(read, All { list: vec![ExactlyOne::Bytes { data_base64: None, size: Some(1) }] });
    }

    #[test]
    fn a_body_is_malformed_only_when_it_is_not_json_and_other_errors_name_the_field() {
        check(
            r#"{"list": [{"bytes": {}}, {"bytes": {"data_base64": "?"}}]}"#,
            false,
            Some("list[1].bytes.data_base64"),
            "base64: ",
        );
        check(r#"{"list": [{"bytes": {"size": 256}}]}"#, false, Some("list[0].bytes.size"), "expected u8");
        check(r#"{"list": [{"bytes": {"size": 1e999}}]}"#, false, Some("list[0].bytes.size"), "number out of range");
        check(r#"{"list": [7]}"#, false, Some("list[0]"), "expected a name, or an object with one field");
        check(r#"{"list": [{"bytes": {}, "more": {}}]}"#, false, Some("list[0]"), "an object with one field");
        check(r#"{"list": 7}"#, false, Some("list"), "expected a sequence");
        check("7", false, None, "expected struct All");
        check(r#"{"list": [{"bytes": }]}"#, true, None, "expected value");
        check(r#"{"list": []} x"#, true, None, "trailing characters");
    }
}
