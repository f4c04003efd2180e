//! Formats numbers and user-chosen texts for people.

use std::borrow::Cow;

/// A count with its thousands separated: `12,345`.
pub fn grouped(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// An amount: whole from ten on, with thousandths below.
pub fn amount(value: f64) -> String {
    match value {
        _ if value >= 10.0 || value.fract() == 0.0 => grouped(value as u64),
        _ => format!("{value:.3}"),
    }
}

/// A time in nanoseconds, in the unit that suits it: `312 ns`, `4.1 µs`, `2.0 ms`, `1.5 s`.
pub fn nanos(nanos: u64) -> String {
    let value = nanos as f64;
    match nanos {
        0..1_000 => format!("{nanos} ns"),
        1_000..1_000_000 => format!("{:.1} µs", value / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} ms", value / 1e6),
        _ => format!("{:.1} s", value / 1e9),
    }
}

/// A size in bytes, in the unit that suits it: `512 B`, `4.0 KiB`, `1.5 GiB`.
pub fn bytes(bytes: u64) -> String {
    let value = bytes as f64;
    match bytes.checked_ilog2().unwrap_or(0) {
        0..10 => format!("{bytes} B"),
        10..20 => format!("{:.1} KiB", value / 1024.0),
        20..30 => format!("{:.1} MiB", value / 1024.0_f64.powi(2)),
        30..40 => format!("{:.1} GiB", value / 1024.0_f64.powi(3)),
        _ => format!("{:.1} TiB", value / 1024.0_f64.powi(4)),
    }
}

/// Parses a size in bytes, with or without a unit: `65536`, `64KiB`, `512 MiB`, `1GiB`.
///
/// # Errors
/// When it is no such size.
pub(crate) fn parse_bytes(text: &str) -> Result<u64, String> {
    let digits = text.find(|character: char| !character.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let shift = match unit.trim_start().to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "kib" => 10,
        "mib" => 20,
        "gib" => 30,
        "tib" => 40,
        _ => return Err(format!("unknown unit {:?}: expected KiB, MiB, GiB or TiB", unit.trim())),
    };
    let number: u64 = number.parse().map_err(|_| "expected a number of bytes, like 512MiB".to_owned())?;
    number.checked_mul(1 << shift).ok_or_else(|| "the size exceeds 64 bits".to_owned())
}

/// A count of things: `1 job`, `2 jobs`.
pub fn counted(count: u64, thing: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{} {thing}{plural}", grouped(count))
}

/// Escapes control characters other than line ends and tabs, and characters that change the
/// direction of the text. User data must not send commands to the reader's terminal.
pub fn without_controls(text: &str) -> Cow<'_, str> {
    escape(text, |character| is_unsafe(character) && !matches!(character, '\n' | '\t'))
}

/// Escapes what [`without_controls`] does, and line ends and tabs. User data in a list must not
/// begin a line or a column.
pub fn on_one_line(text: &str) -> Cow<'_, str> {
    escape(text, is_unsafe)
}

/// Whether a terminal does something with the character besides showing it.
fn is_unsafe(character: char) -> bool {
    // Line and paragraph separators, and the marks, embeddings, overrides and isolates of
    // bidirectional text (Unicode Standard Annex 9).
    const SEPARATORS_AND_DIRECTIONS: [std::ops::RangeInclusive<char>; 4] =
        ['\u{61c}'..='\u{61c}', '\u{200e}'..='\u{200f}', '\u{2028}'..='\u{202e}', '\u{2066}'..='\u{2069}'];
    character.is_control() || SEPARATORS_AND_DIRECTIONS.iter().any(|range| range.contains(&character))
}

fn escape(text: &str, is_escaped: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(&is_escaped) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        if is_escaped(character) {
            escaped.extend(character.escape_default());
        } else {
            escaped.push(character);
        }
    }
    Cow::Owned(escaped)
}

/// A word, quoted for a POSIX shell.
pub(crate) fn quoted(word: &str) -> String {
    let is_plain = |character: char| character.is_ascii_alphanumeric() || "/._-+=:,@".contains(character);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_separated() {
        assert_eq!([0, 999, 1_000, 12_345, 1_234_567].map(grouped), ["0", "999", "1,000", "12,345", "1,234,567"]);
    }

    #[test]
    fn a_time_has_a_fitting_unit() {
        assert_eq!(
            [7, 999, 1_000, 131_250, 2_000_000, 61_500_000_000].map(nanos),
            ["7 ns", "999 ns", "1.0 µs", "131.2 µs", "2.0 ms", "61.5 s"]
        );
    }

    #[test]
    fn a_size_has_a_fitting_unit() {
        assert_eq!(
            [0, 1_023, 1_024, 1_572_864, 3 << 30, 5 << 40].map(bytes),
            ["0 B", "1023 B", "1.0 KiB", "1.5 MiB", "3.0 GiB", "5.0 TiB"]
        );
    }

    #[test]
    fn a_size_is_read_with_and_without_a_unit() {
        let read = ["0", "17b", "64KiB", "512 mib", "1GiB", "2TiB"].map(|text| parse_bytes(text).expect(text));
        assert_eq!(read, [0, 17, 64 << 10, 512 << 20, 1 << 30, 2 << 40]);
        for text in ["", "MiB", "-1", "1.5GiB", "1MB", "1 G", "99999999999TiB", "18446744073709551616"] {
            assert!(parse_bytes(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn one_thing_has_no_plural() {
        assert_eq!([counted(1, "job"), counted(1_200, "job")], ["1 job", "1,200 jobs"]);
    }

    #[test]
    fn control_characters_are_escaped() {
        assert_eq!(without_controls("a\u{1b}[31mb\u{9b}\r\n\tç"), "a\\u{1b}[31mb\\u{9b}\\r\n\tç");
        assert_eq!(without_controls("ä b"), "ä b");
    }

    #[test]
    fn a_text_on_one_line_begins_no_line_and_keeps_its_direction() {
        assert_eq!(on_one_line("a\tb\nc\u{2028}"), "a\\tb\\nc\\u{2028}");
        for mark in ['\u{61c}', '\u{200f}', '\u{202e}', '\u{2066}'] {
            let escaped = format!("a\\u{{{:x}}}b", u32::from(mark));
            assert_eq!(on_one_line(&format!("a{mark}b")), escaped);
            assert_eq!(without_controls(&format!("a{mark}b")), escaped);
        }
        assert_eq!(on_one_line("שלום ä b"), "שלום ä b", "text of any direction is shown as it is");
    }
}
