//! Finds a field of metadata and compares it, without loss, with the requested value.
//!
//! Parsing into doubles would change numbers of more than 17 digits. JSON therefore stays text, and
//! is parsed only as far as a comparison needs.

use std::collections::BTreeMap;

use serde_json::value::RawValue;

/// Deepest nesting of objects and arrays in metadata. A deeper requested value matches nothing.
const DEPTH_MAX: u32 = 127;

/// A requested value.
pub(super) struct RequestedValue<'a> {
    text: &'a str,
    /// The value as normalized JSON, if it is a number, an object or an array.
    normal: Option<String>,
}

impl<'a> RequestedValue<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        let json = serde_json::from_str::<&RawValue>(text).ok();
        let json = json.filter(|json| is_compared_as_json(json.get()));
        RequestedValue { text, normal: json.and_then(|json| normal(json.get())) }
    }

    /// Returns whether a field has this value. Strings are compared by their text, numbers by their
    /// value, and objects and arrays by their contents.
    pub(super) fn is(&self, found: &RawValue) -> bool {
        let found = found.get();
        if found.starts_with('"') {
            return serde_json::from_str::<String>(found).is_ok_and(|text| text == self.text);
        }
        if is_compared_as_json(found) {
            return self.normal.is_some() && normal(found) == self.normal;
        }
        found == self.text
    }
}

/// Returns whether JSON is a number, an object or an array.
fn is_compared_as_json(json: &str) -> bool {
    json.starts_with(|first: char| "{[-".contains(first) || first.is_ascii_digit())
}

/// Returns the value of a field. The field is a name, or a pointer (RFC 6901) when it begins with
/// `/`.
pub(super) fn find<'j>(metadata: &'j RawValue, field: &str) -> Option<&'j RawValue> {
    let Some(pointer) = field.strip_prefix('/') else { return within(metadata, field) };
    pointer.split('/').try_fold(metadata, |value, step| {
        let step = step.replace("~1", "/").replace("~0", "~");
        match value.get().starts_with('[') {
            true => item(value, &step),
            false => within(value, &step),
        }
    })
}

/// Returns whether a field that begins with `/` is a valid pointer. Only `~0` and `~1` may stand
/// for other characters.
pub(super) fn is_pointer(field: &str) -> bool {
    field.split('~').skip(1).all(|behind| behind.starts_with(['0', '1']))
}

/// Returns the value of a name in an object. For a repeated name, the last value counts.
fn within<'j>(object: &'j RawValue, name: &str) -> Option<&'j RawValue> {
    let mut fields: BTreeMap<String, &RawValue> = serde_json::from_str(object.get()).ok()?;
    fields.remove(name)
}

fn item<'j>(array: &'j RawValue, index: &str) -> Option<&'j RawValue> {
    if index.starts_with('+') || (index.starts_with('0') && index.len() > 1) {
        return None;
    }
    let items: Vec<&RawValue> = serde_json::from_str(array.get()).ok()?;
    items.get(index.parse::<usize>().ok()?).copied()
}

/// Returns the normal form of JSON: equal values have the same form. `None` for invalid JSON and
/// for JSON nested too deep.
fn normal(json: &str) -> Option<String> {
    let mut text = String::with_capacity(json.len());
    write(json, DEPTH_MAX, &mut text)?;
    Some(text)
}

fn write(json: &str, depth: u32, text: &mut String) -> Option<()> {
    match json.as_bytes().first()? {
        b'{' => {
            let fields: BTreeMap<String, &RawValue> = serde_json::from_str(json).ok()?;
            text.push('{');
            for (name, value) in fields {
                text.push_str(&serde_json::to_string(&name).ok()?);
                text.push(':');
                write(value.get(), depth.checked_sub(1)?, text)?;
                text.push(',');
            }
            text.push('}');
        }
        b'[' => {
            text.push('[');
            for item in serde_json::from_str::<Vec<&RawValue>>(json).ok()? {
                write(item.get(), depth.checked_sub(1)?, text)?;
                text.push(',');
            }
            text.push(']');
        }
        b'"' => text.push_str(&serde_json::to_string(&serde_json::from_str::<String>(json).ok()?).ok()?),
        b'-' | b'0'..=b'9' => write_number(json, text),
        _ => text.push_str(json),
    }
    Some(())
}

/// Writes a number as its sign, its digits without zeros around them, and its exponent. For
/// example, `-1.50e3` becomes `-15e2`, and so does `-1500`.
fn write_number(json: &str, text: &mut String) {
    let (sign, number) = json.strip_prefix('-').map_or(("", json), |number| ("-", number));
    let (mantissa, exponent) = number.split_once(['e', 'E']).unwrap_or((number, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{whole}{fraction}");
    let behind = digits.trim_start_matches('0');
    let significant = behind.trim_end_matches('0');
    if significant.is_empty() {
        text.push('0');
        return;
    }
    let moved = (behind.len() - significant.len()) as i128 - fraction.len() as i128;
    let exponent = exponent.parse::<i128>().ok().and_then(|exponent| exponent.checked_add(moved));
    match exponent {
        Some(exponent) => text.push_str(&format!("{sign}{significant}e{exponent}")),
        // An exponent of forty digits: such numbers are equal when their texts are equal.
        None => text.push_str(json),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(left: &str, right: &str, expected: bool) {
        let found: &RawValue = serde_json::from_str(left).expect("JSON");
        assert_eq!(RequestedValue::new(right).is(found), expected, "{left} is {right}");
        let found: &RawValue = serde_json::from_str(right).expect("JSON");
        assert_eq!(RequestedValue::new(left).is(found), expected, "{right} is {left}");
    }

    #[test]
    fn numbers_are_the_same_when_they_are_worth_the_same() {
        for same in [
            &["1e2", "100", "100.0", "1.0E+2", "0.1e3", "10000e-2"][..],
            &["0", "-0", "0.0", "0e9", "0e-99999999999999999999999999999999999999999999"],
            &["-1.50", "-15e-1"],
            &["1e-99999999999999999999", "10e-100000000000000000000"],
        ] {
            for (left, right) in same.iter().flat_map(|left| same.iter().map(move |right| (left, right))) {
                check(left, right, true);
            }
        }
        check("18446744073709551616", "18446744073709551617", false);
        check("0.1", "0.10000000000000000001", false);
        check("1e-400", "0", false);
        check("1", "-1", false);
        check("1", "10", false);
    }

    #[test]
    fn objects_and_arrays_are_the_same_when_all_in_them_is() {
        check(r#"{"a": 1, "b": [2.0, "x"]}"#, r#"{"b":[2,"\u0078"],"a":1.0}"#, true);
        check(r#"{"a": 0, "a": 1}"#, r#"{"a":1}"#, true);
        check("[1, 2]", "[2, 1]", false);
        check("[1]", "[1, 1]", false);
        check("{}", "[]", false);
        check(r#"["1"]"#, "[1]", false);
        let deep = format!("{}{}", "[".repeat(127), "]".repeat(127));
        check(&deep, &deep, true);
    }

    #[test]
    fn the_value_of_a_filter_is_any_text() {
        let found: &RawValue = serde_json::from_str("1").expect("JSON");
        for text in [
            "",
            "1x",
            "{",
            "[1",
            "1 2",
            &"[".repeat(1_000_000),
            &format!("{}{}", "[".repeat(500_000), "]".repeat(500_000)),
        ] {
            assert!(!RequestedValue::new(text).is(found));
        }
    }

    proptest! {
        #[test]
        fn a_number_is_the_same_however_it_is_shifted(digits in "[1-9][0-9]{0,30}", shift in 0usize..40, zeros in 0usize..5) {
            let shifted = format!("{digits}{}.{}e-{shift}", "0".repeat(shift), "0".repeat(zeros));
            let shifted = shifted.replace(".e", ".0e");
            check(&digits, &shifted, true);
            check(&digits, &format!("{digits}1"), false);
        }
    }
}
