//! Output of responses: JSON as received, one object per line, or text.

use std::io::Write;

use clap::Args;
use serde_json::Value;

use super::exact;
use crate::calendar;
use crate::failure::Result;
use crate::text::{on_one_line, without_controls};

/// The output format.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct OutputForm {
    /// Print one JSON object per line
    #[arg(long)]
    json: bool,
}

impl OutputForm {
    /// Whether the format is JSON.
    pub(super) fn is_json(self) -> bool {
        self.json
    }

    /// Prints each thing as JSON, or as the line that `line` makes.
    pub(super) fn print(self, out: &mut dyn Write, things: &[Value], line: impl Fn(&Value) -> String) -> Result {
        for thing in things {
            if self.json {
                writeln!(out, "{}", exact::line(thing))?;
            } else {
                writeln!(out, "{}", without_controls(&line(thing)))?;
            }
        }
        Ok(())
    }
}

/// The things in a list of a response.
pub(super) fn list<'a>(answer: &'a Value, name: &str) -> &'a [Value] {
    answer[name].as_array().map_or(&[], Vec::as_slice)
}

/// A field as text on one line: a string without its quotes, other values as JSON, and `-` when the
/// field is missing. Characters that could pass for another line or column are escaped.
pub(super) fn word(thing: &Value, name: &str) -> String {
    on_one_line(&text(thing, name)).into_owned()
}

/// A field as [`word`] has it, unchanged: for programs.
pub(super) fn text(thing: &Value, name: &str) -> String {
    match &thing[name] {
        Value::Null => "-".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// A field of bytes, which the server sends as JSON, as `…_text` or as `…_base64`.
pub(super) fn bytes(thing: &Value, name: &str) -> String {
    let as_text = text(thing, &format!("{name}_text"));
    let as_base64 = text(thing, &format!("{name}_base64"));
    let shown = match (&thing[name], as_text.as_str(), as_base64.as_str()) {
        (Value::Null, "-", "-") => "-".to_owned(),
        (Value::Null, "-", base64) => format!("base64:{base64}"),
        (Value::Null, text, _) => text.to_owned(),
        (value, ..) => exact::said(value),
    };
    on_one_line(&shown).into_owned()
}

/// A list of words, separated by spaces.
pub(super) fn words(thing: &Value, name: &str) -> String {
    let words: Vec<String> =
        list(thing, name).iter().map(|word| word.as_str().map_or_else(|| word.to_string(), str::to_owned)).collect();
    on_one_line(&words.join(" ")).into_owned()
}

/// A time in milliseconds.
pub(super) fn time(thing: &Value, name: &str) -> String {
    thing[name].as_i64().map_or_else(|| "-".to_owned(), calendar::rfc3339)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn bytes_are_printed_from_each_encoding() {
        let shown = |thing: Value| bytes(&thing, "data");
        assert_eq!(shown(json!({ "data": { "a": 1 } })), r#"{"a":1}"#);
        assert_eq!(shown(json!({ "data": "text" })), "text");
        assert_eq!(shown(json!({ "data_text": "not JSON" })), "not JSON");
        assert_eq!(shown(json!({ "data_base64": "/wA=" })), "base64:/wA=");
        assert_eq!(shown(json!({ "data": null })), "-");
    }

    #[test]
    fn a_name_forges_no_line() {
        let thing = json!({ "name": "a\nb\u{202e}", "names": ["c\r", "d"], "data": "e\nf" });
        assert_eq!(word(&thing, "name"), "a\\nb\\u{202e}");
        assert_eq!(words(&thing, "names"), "c\\r d");
        assert_eq!(bytes(&thing, "data"), "e\\nf");
        assert_eq!(text(&thing, "name"), "a\nb\u{202e}");
    }
}
