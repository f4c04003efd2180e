//! The message and the fields of an event, as values that can be printed.
//!
//! Invariant: a text has at most [`TEXT_BYTES_MAX`] bytes, whatever a client chose as a name.

use std::fmt::{self, Write as _};
use std::hash::{Hash, Hasher};

use tracing::Event;
use tracing::field::{Field, Visit};

/// Most bytes of a text. The rest is replaced by an ellipsis.
const TEXT_BYTES_MAX: usize = 1_024;

/// The value of a field.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    Text(String),
    Count(u64),
    Number(i64),
    Fraction(f64),
    Flag(bool),
}

/// The message and the fields of an event, in their order.
#[derive(Debug, Default)]
pub(super) struct LineFields {
    message: String,
    named: Vec<(&'static str, Value)>,
}

impl LineFields {
    pub(super) fn of(event: &Event<'_>) -> Self {
        let mut fields = LineFields::default();
        event.record(&mut fields);
        fields
    }

    pub(super) fn message(&self) -> &str {
        &self.message
    }

    pub(super) fn named(&self) -> &[(&'static str, Value)] {
        &self.named
    }

    fn push(&mut self, field: &Field, value: Value) {
        match (field.name(), value) {
            ("message", Value::Text(text)) => self.message = text,
            (name, value) => self.named.push((name, value)),
        }
    }
}

/// Two events of one place are repeated when their message and fields are equal.
impl Hash for LineFields {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.message.hash(state);
        for (name, value) in &self.named {
            name.hash(state);
            match value {
                Value::Text(text) => text.hash(state),
                Value::Count(count) => count.hash(state),
                Value::Number(number) => number.hash(state),
                Value::Fraction(fraction) => fraction.to_bits().hash(state),
                Value::Flag(flag) => flag.hash(state),
            }
        }
    }
}

impl Visit for LineFields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let mut text = BoundedText::default();
        // A full text ends the formatting early.
        let _ = write!(text, "{value:?}");
        self.push(field, Value::Text(text.into_string()));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        let mut text = BoundedText::default();
        let _ = text.write_str(value);
        self.push(field, Value::Text(text.into_string()));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.push(field, Value::Count(value));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.push(field, Value::Number(value));
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.push(field, Value::Fraction(value));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.push(field, Value::Flag(value));
    }
}

/// A text that takes no more than [`TEXT_BYTES_MAX`] bytes.
#[derive(Default)]
struct BoundedText {
    text: String,
    is_cut: bool,
}

impl BoundedText {
    fn into_string(self) -> String {
        if self.is_cut { self.text + "…" } else { self.text }
    }
}

impl fmt::Write for BoundedText {
    fn write_str(&mut self, more: &str) -> fmt::Result {
        let kept = more.floor_char_boundary(TEXT_BYTES_MAX - self.text.len());
        self.text.push_str(&more[..kept]);
        self.is_cut |= kept < more.len();
        if self.is_cut { Err(fmt::Error) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_is_cut_at_a_character() {
        for (given, expected) in [("ä".repeat(512), "ä".repeat(512)), ("ä".repeat(900), "ä".repeat(512) + "…")] {
            let mut text = BoundedText::default();
            let _ = text.write_str("");
            let _ = write!(text, "{given}");
            assert_eq!(text.into_string(), expected);
        }
    }
}
