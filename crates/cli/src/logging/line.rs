//! One line of the log, as text or as JSON.
//!
//! Invariant: a line has no control character, and no character that changes the direction or the
//! end of a line. Only the writer ends a line.

use std::fmt::Write as _;

use serde_json::{Value as Json, json};
use tracing::Level;

use super::LogFormat;
use super::fields::Value;
use super::filter::short;
use crate::calendar;

/// A line.
#[derive(Debug)]
pub(super) struct LogLine<'l> {
    pub(super) time_ms: u64,
    pub(super) level: Level,
    pub(super) target: &'l str,
    pub(super) message: &'l str,
    pub(super) fields: &'l [(&'static str, Value)],
    pub(super) summary: Option<Summary>,
}

/// The lines of one place that were counted and not printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Summary {
    pub(super) lines: u64,
    pub(super) seconds: u64,
}

impl LogLine<'_> {
    pub(super) fn in_format(&self, format: LogFormat) -> String {
        match format {
            LogFormat::Text => self.text(),
            LogFormat::Json => self.json(),
        }
    }

    fn time(&self) -> String {
        i64::try_from(self.time_ms).map_or_else(|_| "-".to_owned(), calendar::rfc3339)
    }

    fn text(&self) -> String {
        let mut text = format!("{} {:>5} {}: ", self.time(), self.level, short(self.target));
        push_escaped(&mut text, self.message);
        for (name, value) in self.fields {
            write!(text, " {name}=").expect(INFALLIBLE);
            match value {
                Value::Text(value) if is_plain(value) => text.push_str(value),
                Value::Text(value) => {
                    text.push('"');
                    push_quoted(&mut text, value);
                    text.push('"');
                }
                Value::Count(count) => write!(text, "{count}").expect(INFALLIBLE),
                Value::Number(number) => write!(text, "{number}").expect(INFALLIBLE),
                Value::Fraction(fraction) => write!(text, "{fraction}").expect(INFALLIBLE),
                Value::Flag(flag) => write!(text, "{flag}").expect(INFALLIBLE),
            }
        }
        if let Some(Summary { lines, seconds }) = self.summary {
            write!(text, " … {lines} more in {seconds} s").expect(INFALLIBLE);
        }
        text
    }

    fn json(&self) -> String {
        let level = self.level.as_str().to_ascii_lowercase();
        let head = [("time", self.time()), ("level", level), ("target", short(self.target).to_owned())];
        let mut members: Vec<(&str, Json)> = head.into_iter().map(|(name, text)| (name, json!(text))).collect();
        members.push(("message", json!(self.message)));
        members.extend(self.fields.iter().map(|(name, value)| {
            let value = match value {
                Value::Text(text) => json!(text),
                Value::Count(count) => json!(count),
                Value::Number(number) => json!(number),
                Value::Fraction(fraction) => json!(fraction),
                Value::Flag(flag) => json!(flag),
            };
            (*name, value)
        }));
        if let Some(Summary { lines, seconds }) = self.summary {
            members.extend([("repeated", json!(lines)), ("within_s", json!(seconds))]);
        }
        let members: Vec<_> = members.into_iter().map(|(name, value)| format!("\"{name}\":{value}")).collect();
        let mut escaped = String::new();
        // JSON itself escapes only ASCII control characters. The others stand in texts only.
        for character in format!("{{{}}}", members.join(",")).chars() {
            match is_hidden(character) {
                true => write!(escaped, "\\u{:04x}", u32::from(character)).expect(INFALLIBLE),
                false => escaped.push(character),
            }
        }
        escaped
    }
}

/// Whether a value needs no quotes.
fn is_plain(value: &str) -> bool {
    let is_plain = |character: char| character.is_ascii_alphanumeric() || "-_./:+@%,*[]".contains(character);
    !value.is_empty() && value.chars().all(is_plain)
}

/// Control characters, and those that end a line or change its direction in a terminal. All of them
/// are below U+10000, so four hexadecimal digits name each.
fn is_hidden(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{2028}' | '\u{2029}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn push_escaped(text: &mut String, value: &str) {
    for character in value.chars() {
        match is_hidden(character) {
            true => text.extend(character.escape_default()),
            false => text.push(character),
        }
    }
}

fn push_quoted(text: &mut String, value: &str) {
    for character in value.chars() {
        match character {
            '"' | '\\' => text.extend(['\\', character]),
            hidden if is_hidden(hidden) => text.extend(hidden.escape_default()),
            other => text.push(other),
        }
    }
}

const INFALLIBLE: &str = "writing to a string can't fail";

#[cfg(test)]
mod tests {
    use super::*;

    const HOSTILE: &str = "a\n2026-01-01T00:00:00.000Z ERROR server: forged\r\u{1b}[2J\u{85}\u{2028}\u{202e}\"x\" \\";

    fn line<'l>(message: &'l str, fields: &'l [(&'static str, Value)]) -> LogLine<'l> {
        LogLine { time_ms: 0, level: Level::WARN, target: "quire::admin", message, fields, summary: None }
    }

    #[test]
    fn a_line_has_time_level_target_message_and_fields() {
        let fields = [("topic", Value::Text("air/t".to_owned())), ("count", Value::Count(3))];
        let line = line("deleted a topic", &fields);
        assert_eq!(line.text(), "1970-01-01T00:00:00.000Z  WARN admin: deleted a topic topic=air/t count=3");
        let json: serde_json::Value = serde_json::from_str(&line.json()).expect("JSON");
        let expected = json!({"time": "1970-01-01T00:00:00.000Z", "level": "warn", "target": "admin",
            "message": "deleted a topic", "topic": "air/t", "count": 3});
        assert_eq!(json, expected);
    }

    #[test]
    fn a_summary_counts_the_lines_that_were_not_printed() {
        let line = LogLine { summary: Some(Summary { lines: 86, seconds: 60 }), ..line("again", &[]) };
        assert!(line.text().ends_with("admin: again … 86 more in 60 s"), "{}", line.text());
        assert!(line.json().ends_with(r#""message":"again","repeated":86,"within_s":60}"#), "{}", line.json());
    }

    #[test]
    fn a_hostile_name_is_escaped_in_messages_and_fields() {
        let fields = [("topic", Value::Text(HOSTILE.to_owned()))];
        for shown in [line(HOSTILE, &[]).text(), line("m", &fields).text(), line(HOSTILE, &fields).json()] {
            assert!(!shown.contains(is_hidden), "{shown:?}");
        }
        let shown = line("m", &fields).text();
        assert!(shown.ends_with(r#"\u{202e}\"x\" \\""#), "{shown}");
        let json: serde_json::Value = serde_json::from_str(&line(HOSTILE, &fields).json()).expect("JSON");
        assert_eq!((json["message"].as_str(), json["topic"].as_str()), (Some(HOSTILE), Some(HOSTILE)));
    }

    #[test]
    fn an_empty_value_is_quoted() {
        assert!(line("m", &[("name", Value::Text(String::new()))]).text().ends_with(r#"m name="""#));
    }
}
