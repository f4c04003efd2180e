//! Whether bytes are JSON (RFC 8259): what metadata and properties have to be.
//!
//! One pass, without recursion and without an allocation. Invariant: every parser that supports
//! [`DEPTH_MAX`] levels and numbers of double precision can read accepted JSON, so a filter on
//! metadata never skips a block as unreadable. A key may appear twice.

use core::fmt;

/// The deepest nesting of arrays and objects, as in common parsers (`serde_json`).
const DEPTH_MAX: u32 = 127;

/// A number of this many bytes, without an exponent, fits into a double.
const DIGITS_MAX: usize = 308;

/// Why bytes are not JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotJson {
    /// Invalid JSON at this byte, counted from 0. It may be the byte after the end.
    At(usize),
    /// The number at this byte is larger than one of double precision can be.
    TooLarge(usize),
    /// Arrays and objects are nested more than 127 levels deep.
    TooDeep,
}

impl fmt::Display for NotJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotJson::At(byte) => write!(f, "not JSON at byte {byte}"),
            NotJson::TooLarge(byte) => write!(f, "the number at byte {byte} exceeds the range of a double"),
            NotJson::TooDeep => write!(f, "nesting exceeds {DEPTH_MAX} levels"),
        }
    }
}

/// Checks that these bytes are one JSON value, with nothing but spaces around it.
pub(crate) fn check(bytes: &[u8]) -> Result<(), NotJson> {
    let text = str::from_utf8(bytes).map_err(|error| NotJson::At(error.valid_up_to()))?;
    Scan { bytes: text.as_bytes(), at: 0, depth: 0, objects: 0 }.whole()
}

struct Scan<'b> {
    bytes: &'b [u8],
    at: usize,
    /// The number of open arrays and objects.
    depth: u32,
    /// The objects among them: a bit each, the innermost the lowest.
    objects: u128,
}

impl Scan<'_> {
    fn whole(mut self) -> Result<(), NotJson> {
        loop {
            self.value()?;
            // After a value, every array and object that ends here is closed.
            loop {
                let next = self.next_token();
                match (next, self.depth, self.is_in_object()) {
                    (None, 0, _) => return Ok(()),
                    (Some(b','), 1.., true) => {
                        self.at += 1;
                        self.key()?;
                        break;
                    }
                    (Some(b','), 1.., false) => {
                        self.at += 1;
                        break;
                    }
                    (Some(b'}'), 1.., true) | (Some(b']'), 1.., false) => self.close(),
                    _ => return Err(NotJson::At(self.at)),
                }
            }
        }
    }

    /// Reads up to the end of a string, a number, a literal, or an empty array or object. Opens the
    /// arrays and objects around it on the way.
    fn value(&mut self) -> Result<(), NotJson> {
        loop {
            match self.next_token() {
                Some(b'{') => {
                    self.open(true)?;
                    if self.next_token() == Some(b'}') {
                        self.close();
                        return Ok(());
                    }
                    self.key()?;
                }
                Some(b'[') => {
                    self.open(false)?;
                    if self.next_token() == Some(b']') {
                        self.close();
                        return Ok(());
                    }
                }
                Some(b'"') => return self.string(),
                Some(b'-' | b'0'..=b'9') => return self.number(),
                Some(b't') => return self.word(b"true"),
                Some(b'f') => return self.word(b"false"),
                Some(b'n') => return self.word(b"null"),
                _ => return Err(NotJson::At(self.at)),
            }
        }
    }

    fn is_in_object(&self) -> bool {
        self.objects & 1 == 1
    }

    fn open(&mut self, is_object: bool) -> Result<(), NotJson> {
        if self.depth == DEPTH_MAX {
            return Err(NotJson::TooDeep);
        }
        self.at += 1;
        self.depth += 1;
        self.objects = self.objects << 1 | u128::from(is_object);
        Ok(())
    }

    fn close(&mut self) {
        self.at += 1;
        self.depth -= 1;
        self.objects >>= 1;
    }

    fn byte(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    /// The next byte that is no space.
    fn next_token(&mut self) -> Option<u8> {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.byte() {
            self.at += 1;
        }
        self.byte()
    }

    /// A key and its colon.
    fn key(&mut self) -> Result<(), NotJson> {
        if self.next_token() != Some(b'"') {
            return Err(NotJson::At(self.at));
        }
        self.string()?;
        if self.next_token() != Some(b':') {
            return Err(NotJson::At(self.at));
        }
        self.at += 1;
        Ok(())
    }

    fn string(&mut self) -> Result<(), NotJson> {
        self.at += 1;
        loop {
            match self.byte() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(());
                }
                Some(b'\\') => {
                    self.at += 1;
                    match self.byte() {
                        Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => self.at += 1,
                        Some(b'u') => {
                            self.at += 1;
                            self.unit()?;
                        }
                        _ => return Err(NotJson::At(self.at)),
                    }
                }
                Some(b' '..) => self.at += 1,
                _ => return Err(NotJson::At(self.at)),
            }
        }
    }

    /// Reads the four digits of an escape, and a second escape if both form one character. Refuses
    /// half a pair.
    fn unit(&mut self) -> Result<(), NotJson> {
        let begin = self.at;
        match self.four_digits()? {
            0xd800..0xdc00 => {
                for expected in b"\\u" {
                    if self.byte() != Some(*expected) {
                        return Err(NotJson::At(begin));
                    }
                    self.at += 1;
                }
                match self.four_digits()? {
                    0xdc00..0xe000 => Ok(()),
                    _ => Err(NotJson::At(begin)),
                }
            }
            0xdc00..0xe000 => Err(NotJson::At(begin)),
            _ => Ok(()),
        }
    }

    fn four_digits(&mut self) -> Result<u32, NotJson> {
        let mut unit = 0;
        for _ in 0..4 {
            let digit = self.byte().and_then(|byte| char::from(byte).to_digit(16)).ok_or(NotJson::At(self.at))?;
            unit = unit << 4 | digit;
            self.at += 1;
        }
        Ok(unit)
    }

    fn number(&mut self) -> Result<(), NotJson> {
        let begin = self.at;
        if self.byte() == Some(b'-') {
            self.at += 1;
        }
        if self.byte() == Some(b'0') {
            self.at += 1
        } else {
            self.digits()?
        }
        if self.byte() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        let mut may_be_large = self.at - begin > DIGITS_MAX;
        if let Some(b'e' | b'E') = self.byte() {
            may_be_large = true;
            self.at += 1;
            if let Some(b'+' | b'-') = self.byte() {
                self.at += 1;
            }
            self.digits()?;
        }
        let number = || str::from_utf8(&self.bytes[begin..self.at]).ok()?.parse::<f64>().ok();
        if may_be_large && !number().is_some_and(f64::is_finite) {
            return Err(NotJson::TooLarge(begin));
        }
        Ok(())
    }

    /// One digit or more.
    fn digits(&mut self) -> Result<(), NotJson> {
        let begin = self.at;
        while let Some(b'0'..=b'9') = self.byte() {
            self.at += 1;
        }
        if self.at > begin { Ok(()) } else { Err(NotJson::At(self.at)) }
    }

    fn word(&mut self, word: &[u8]) -> Result<(), NotJson> {
        for expected in word {
            if self.byte() != Some(*expected) {
                return Err(NotJson::At(self.at));
            }
            self.at += 1;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use alloc::format;
    use alloc::string::String;
    use alloc::vec::Vec;

    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    /// Checks that [`check`] and a parser agree.
    #[track_caller]
    fn agrees(bytes: &[u8]) {
        let parsed = serde_json::from_slice::<Value>(bytes);
        assert_eq!(check(bytes).is_ok(), parsed.is_ok(), "{:?}: {:?}", String::from_utf8_lossy(bytes), check(bytes));
    }

    #[test]
    fn invalid_json_is_reported_with_its_byte() {
        for (text, expected) in [
            ("{bad", NotJson::At(1)),
            ("", NotJson::At(0)),
            ("{\"a\":1,}", NotJson::At(7)),
            ("[1 2]", NotJson::At(3)),
            ("[1]]", NotJson::At(3)),
            ("[1}", NotJson::At(2)),
            ("01", NotJson::At(1)),
            ("1.", NotJson::At(2)),
            ("\"a\nb\"", NotJson::At(2)),
            ("nul", NotJson::At(3)),
            ("\"\\ud800\"", NotJson::At(3)),
            ("\u{feff}{}", NotJson::At(0)),
            ("[1e308, 1e309]", NotJson::TooLarge(8)),
        ] {
            assert_eq!(check(text.as_bytes()), Err(expected), "{text:?}");
            agrees(text.as_bytes());
        }
        assert_eq!(check(b"[\"\xff\"]"), Err(NotJson::At(2)));
    }

    #[test]
    fn json_is_as_deep_as_parsers_take_it_and_no_deeper() {
        for depth in [1, 127, 128, 100_000] {
            for [open, close] in [["[", "]"], ["{\"a\":", "}"]] {
                let nested = format!("{}1{}", open.repeat(depth), close.repeat(depth));
                let expected = if depth <= 127 { Ok(()) } else { Err(NotJson::TooDeep) };
                assert_eq!(check(nested.as_bytes()), expected, "{depth}");
                agrees(nested.as_bytes());
            }
        }
    }

    /// Pieces of JSON, in any order.
    fn pieces() -> impl Strategy<Value = Vec<u8>> {
        let piece = prop::sample::select(&[
            "{",
            "}",
            "[",
            "]",
            ",",
            ":",
            " ",
            "\n",
            "\"a\"",
            "\"\\u0041\"",
            "\"\\ud834\\udd1e\"",
            "\"\\udd1e\"",
            "\"",
            "\\",
            "-",
            "0",
            "17",
            ".5",
            "e9",
            "E-3",
            "e999",
            "+",
            "true",
            "false",
            "null",
            "\"ü\"",
            "\u{1}",
            "\u{7f}",
        ]);
        prop::collection::vec(piece, 0..9).prop_map(|pieces| pieces.concat().into_bytes())
    }

    fn values() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            ".{0,5}".prop_map(Value::from)
        ];
        leaf.prop_recursive(4, 20, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::vec((".{0,3}", inner), 0..4)
                    .prop_map(|fields| Value::Object(fields.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn it_is_what_a_parser_takes_for_json(bytes in pieces()) {
            agrees(&bytes);
        }

        #[test]
        fn any_value_is_json_and_a_changed_byte_has_the_verdict_of_a_parser(value in values(), at in any::<prop::sample::Index>(), byte: u8) {
            let mut text = format!("{value}").into_bytes();
            assert_eq!(check(&text), Ok(()));
            let at = at.index(text.len());
            text[at] = byte;
            agrees(&text);
        }
    }
}
