//! JSON that keeps user data byte for byte: `1.10` does not become 1.1, and names are not sorted.
//!
//! Fields of a response with such values (`data`, `payload`, ...) are not parsed. Each one is an
//! object with one field, which holds the original text. [`text`] writes that text unchanged.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use serde_json::{Value, json};

/// The fields whose values are user data.
const KEPT: [&str; 8] = ["data", "metadata", "value", "payload", "result", "content", "properties", "checkpoint"];

/// The fields of a page, whose `data` is a list of the server's own objects.
const PAGE: [&str; 3] = [PAGE_DATA, "next_cursor", "has_more"];
const PAGE_DATA: &str = "data";

/// The field of an object that stands for a text.
const TEXT: &str = "\u{0}text";

/// Largest depth of nested objects and arrays. It is the server's limit.
const DEPTH_MAX: u32 = 127;

/// The fields of an object. No name occurs twice.
struct Fields<'j>(BTreeMap<String, &'j RawValue>);

impl<'de> Deserialize<'de> for Fields<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(FieldsVisitor)
    }
}

struct FieldsVisitor;

impl<'de> Visitor<'de> for FieldsVisitor {
    type Value = Fields<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields<'de>, A::Error> {
        let mut fields = BTreeMap::new();
        while let Some((name, value)) = map.next_entry::<String, &RawValue>()? {
            if fields.insert(name.clone(), value).is_some() {
                return Err(A::Error::custom(format_args!("the field {name:?} is there twice")));
            }
        }
        Ok(Fields(fields))
    }
}

/// Parses JSON.
///
/// # Errors
/// When the text is not JSON, or is nested deeper than the server's limit.
pub(super) fn parse(json: &str) -> serde_json::Result<Value> {
    serde_json::from_str::<&RawValue>(json).and_then(|value| read(value.get(), DEPTH_MAX))
}

/// Parses a value at depth `levels`. Deeper values would overflow the stack.
fn read(json: &str, depth: u32) -> serde_json::Result<Value> {
    let within = || depth.checked_sub(1).ok_or_else(|| serde_json::Error::custom("it is nested too deep"));
    match json.as_bytes().first() {
        Some(b'{') => {
            let within = within()?;
            let Fields(fields) = serde_json::from_str(json)?;
            let is_page = PAGE.iter().all(|name| fields.contains_key(*name));
            let read = fields.into_iter().map(|(name, value)| {
                let is_list = is_page && name == PAGE_DATA;
                let is_kept = KEPT.contains(&name.as_str()) && !is_list && value.get() != "null";
                let value = if is_kept { json!({ TEXT: value.get() }) } else { read(value.get(), within)? };
                Ok((name, value))
            });
            read.collect::<serde_json::Result<_>>().map(Value::Object)
        }
        Some(b'[') => {
            let within = within()?;
            let items: Vec<&RawValue> = serde_json::from_str(json)?;
            items.into_iter().map(|item| read(item.get(), within)).collect::<serde_json::Result<_>>().map(Value::Array)
        }
        _ => serde_json::from_str(json),
    }
}

/// Writes JSON that [`read`] returned, or any other.
pub(super) fn text(value: &Value) -> String {
    written(value, &|name, value| (name.to_owned(), text(value)))
}

/// As [`text`], on one line. A value with line breaks becomes a string, under the name that the
/// server uses for strings (`data_text`).
pub(super) fn line(value: &Value) -> String {
    written(value, &|name, value| match kept(value).filter(|text| text.contains(['\n', '\r'])) {
        Some(text) => (format!("{name}_text"), Value::from(text).to_string()),
        None => (name.to_owned(), line(value)),
    })
}

/// Writes a value, each field of an object as `field` writes it.
fn written(value: &Value, field: &dyn Fn(&str, &Value) -> (String, String)) -> String {
    match (kept(value), value) {
        (Some(text), _) => text.to_owned(),
        (None, Value::Object(fields)) => {
            let fields = fields.iter().map(|(name, value)| {
                let (name, text) = field(name, value);
                format!("{}:{text}", Value::from(name))
            });
            format!("{{{}}}", fields.collect::<Vec<_>>().join(","))
        }
        (None, Value::Array(items)) => {
            let items = items.iter().map(|item| written(item, field));
            format!("[{}]", items.collect::<Vec<_>>().join(","))
        }
        (None, value) => value.to_string(),
    }
}

/// The original text of a kept value.
pub(super) fn kept(value: &Value) -> Option<&str> {
    value.as_object().filter(|fields| fields.len() == 1)?.get(TEXT)?.as_str()
}

/// The contents of a kept value: a string without its quotes, other values as their text.
pub(super) fn said(value: &Value) -> String {
    let text = text(value);
    serde_json::from_str::<String>(&text).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_data_is_kept_byte_for_byte() {
        let event = r#"{"data":{"z":1, "a":1.10,"big":12345678901234567890123,"dup":1,"dup":2},"metadata":null,"position":7,"tags":["b","a"]}"#;
        let read = parse(event).expect("JSON");
        assert_eq!(text(&read), event);
        assert_eq!((&read["position"], said(&read["data"]).len()), (&json!(7), 63));
        assert_eq!(text(&json!({ "events": [read] })), format!("{{\"events\":[{event}]}}"));
    }

    #[test]
    fn the_list_of_a_page_is_read_and_the_data_of_its_events_is_kept() {
        let page = r#"{"data":[{"data":{"z":1,"a":1.10},"position":7}],"has_more":false,"next_cursor":null}"#;
        let read = parse(page).expect("JSON");
        assert_eq!((text(&read), &read["data"][0]["position"]), (page.to_owned(), &json!(7)));
        assert_eq!(kept(&read["data"][0]["data"]), Some(r#"{"z":1,"a":1.10}"#));
    }

    #[test]
    fn a_value_with_line_breaks_becomes_text_on_one_line() {
        let event = "{\"data\":{\"a\":\n\"b\\n\"},\"metadata\":[1, 2],\"of\":[{\"result\":[\r1]}]}";
        let read = parse(event).expect("JSON");
        assert_eq!(text(&read), event);
        let on_a_line = r#"{"data_text":"{\"a\":\n\"b\\n\"}","metadata":[1, 2],"of":[{"result_text":"[\r1]"}]}"#;
        assert_eq!(line(&read), on_a_line);
    }

    #[test]
    fn a_string_is_printed_without_its_quotes() {
        assert_eq!(said(&parse(r#"{"value":"a\nb"}"#).expect("JSON")["value"]), "a\nb");
        assert_eq!(said(&parse(r#"{"value":1.0}"#).expect("JSON")["value"]), "1.0");
    }

    #[test]
    fn text_that_is_not_json_is_an_error() {
        for broken in ["", "{", "{\"data\":}", "[1,]", "{\"a\":1}}", r#"{"a":1,"a":2}"#] {
            assert!(parse(broken).is_err(), "{broken}");
        }
    }
}
