//! Bytes in responses, in the form that the request asks for.

use std::borrow::Cow;

use quire_api::reply::{ShownBytes, ValueNames};

use crate::presentation::Presentation;

/// A value; empty bytes are shown as `null`.
pub(crate) fn value<'a, N: ValueNames>(bytes: impl Into<Cow<'a, [u8]>>) -> ShownBytes<'a, N> {
    ShownBytes::value(bytes, Presentation::current().values)
}

/// A value that may be absent, shown as `null`, or empty.
pub(crate) fn optional<'a, N: ValueNames>(bytes: Option<impl Into<Cow<'a, [u8]>>>) -> ShownBytes<'a, N> {
    ShownBytes::optional(bytes, Presentation::current().values)
}

/// A name or a key: a string when it is text. It may be absent.
pub(crate) fn key<'a, N: ValueNames>(bytes: Option<impl Into<Cow<'a, [u8]>>>) -> ShownBytes<'a, N> {
    ShownBytes::key(bytes, Presentation::current().values)
}

#[cfg(test)]
mod tests {
    use quire_api::reply::{TagReply, ValueForm, names};
    use quire_api::request::{Base64, JSON_DEPTH_MAX, TagRequest, Text, given, is_shallow};
    use serde::{Deserialize, Serialize};
    use serde_json::value::RawValue;

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
        data: ShownBytes<'a, names::Data>,
    }

    /// Checks the bytes that a request stores, and the form in which they are shown.
    #[track_caller]
    fn check(request: &str, stored: &[u8], shown: &str) {
        let In { data, data_text, data_base64 } = serde_json::from_str(request).expect(request);
        let bytes = given("data", data, data_text.as_ref(), data_base64.as_ref()).expect(request).unwrap_or_default();
        assert_eq!(bytes, stored, "{request}");
        let out = serde_json::to_string(&Out { data: value(bytes) }).expect("it can be shown");
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
            let out = Out { data: value(bytes).on_a_line() };
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
            let out = || serde_json::to_string(&Out { data: value(bytes).on_a_line() });
            Presentation { values: form, encoding: None, is_aside: false }.aside(out).expect("it can be shown")
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
            let shown = serde_json::to_string(&TagReply(tag.into())).expect("it can be shown");
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
