//! Parses the JSON of requests, and names the field of an error.
//!
//! The path of a field is tracked only after an error: then the JSON is parsed again.

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Deserializer;

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

/// Parses the JSON.
///
/// # Errors
/// When it is not JSON, or has the wrong form.
pub(crate) fn read<'r, T: Deserialize<'r>>(json: &'r [u8]) -> Result<T, Misread> {
    serde_json::from_slice(json).map_err(|error| misread::<T>(json, &error))
}

fn misread<'r, T: Deserialize<'r>>(json: &'r [u8], error: &serde_json::Error) -> Misread {
    let (line, column) = (error.line(), error.column());
    let message = error.to_string();
    let message = message.strip_suffix(&format!(" at line {line} column {column}")).unwrap_or(&message).to_owned();
    // serde_json reports some wrong forms as syntax errors, such as a number instead of an object
    // with one field.
    let is_malformed = !error.is_data() && serde_json::from_slice::<IgnoredAny>(json).is_err();
    if is_malformed {
        return Misread { is_malformed, field: None, message, line, column };
    }
    let again = serde_path_to_error::deserialize::<_, T>(&mut Deserializer::from_slice(json));
    let field = again.err().map(|error| error.path().to_string()).filter(|path| path != ".");
    let message = match message.as_str() {
        "expected value" => "expected a name, or an object with one field".to_owned(),
        _ => message,
    };
    Misread { is_malformed, field, message, line, column }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytes::Base64;

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
    fn what_is_as_it_should_be_is_read() {
        let read = read::<All>(br#"{"list": [{"bytes": {"size": 1}}]}"#).expect("as it should be");
        assert_eq!(read, All { list: vec![ExactlyOne::Bytes { data_base64: None, size: Some(1) }] });
    }

    #[test]
    fn what_can_not_be_is_told_with_its_field_and_is_malformed_only_when_it_is_not_json() {
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
