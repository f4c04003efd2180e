//! The shape of requests, to be checked before they are decoded.
//!
//! The decoder makes room for as many elements as an array claims to have, before it looks for the first: a claim of two
//! billion in a frame of forty bytes ends the process. So every request is walked first, without taking memory: what
//! passes has every element that it claims, and at most [`ITEMS_MAX`] of them. The walk reads lengths exactly as the
//! decoder does, known tagged fields included. Like Kafka, it does not mind bytes behind the request: librdkafka 2.16
//! leaves three of them when it asks for the metadata of all topics.

/// The most elements of arrays and tagged fields that a request may have, all together.
pub(crate) const ITEMS_MAX: usize = 250_000;

/// The shape of one API's requests.
#[derive(Debug)]
pub(crate) struct Schema {
    /// From which version on lengths are compact, structs end with tagged fields, and the header has them too.
    pub(crate) flexible_from: i16,
    pub(crate) body: Struct,
}

#[derive(Debug)]
pub(crate) struct Struct {
    pub(crate) fields: &'static [Field],
    /// The tagged fields that the decoder knows.
    pub(crate) tagged: &'static [Tagged],
}

/// A field, and the versions that have it.
#[derive(Debug)]
pub(crate) struct Field(pub(crate) i16, pub(crate) i16, pub(crate) Shape);

#[derive(Debug)]
pub(crate) enum Shape {
    /// So many bytes.
    Fixed(usize),
    /// A length of two bytes, or a compact one; nullable or not.
    Text,
    /// A length of four bytes, or a compact one; nullable or not.
    Bytes,
    /// A struct by itself.
    Struct(&'static Struct),
    /// A count of four bytes, or a compact one, and so many structs.
    Structs(&'static Struct),
    /// The same, of numbers of so many bytes.
    Numbers(usize),
    /// The same, of texts.
    Texts,
}

/// A tagged field: its number, the version from which on there is one, and what it holds.
#[derive(Debug)]
pub(crate) struct Tagged(pub(crate) u32, pub(crate) i16, pub(crate) Struct);

/// Stands for the last version there is.
pub(crate) const LAST: i16 = i16::MAX;

/// A struct without tagged fields that are known.
pub(crate) const fn fields(fields: &'static [Field]) -> Struct {
    Struct { fields, tagged: &[] }
}

/// The bytes do not have the shape.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Malformed;

impl Schema {
    pub(crate) fn is_flexible(&self, version: i16) -> bool {
        version >= self.flexible_from
    }

    /// Checks that `bytes` begin with the body of a request.
    pub(crate) fn check(&self, version: i16, bytes: &[u8]) -> Result<(), Malformed> {
        let mut walk = Walk { rest: bytes, flexible: self.is_flexible(version), items_left: ITEMS_MAX };
        walk.structure(&self.body, version)
    }
}

/// How far a walk over a request came.
#[derive(Debug)]
pub(crate) struct Walk<'a> {
    pub(crate) rest: &'a [u8],
    flexible: bool,
    items_left: usize,
}

impl<'a> Walk<'a> {
    /// A walk over a header. Its client id is never compact.
    pub(crate) fn header(bytes: &'a [u8]) -> Self {
        Walk { rest: bytes, flexible: false, items_left: ITEMS_MAX }
    }

    fn structure(&mut self, of: &Struct, version: i16) -> Result<(), Malformed> {
        self.body(of, version)?;
        if self.flexible { self.tags(of.tagged, version) } else { Ok(()) }
    }

    fn body(&mut self, of: &Struct, version: i16) -> Result<(), Malformed> {
        for Field(from, up_to, shape) in of.fields {
            if (*from..=*up_to).contains(&version) {
                self.field(shape, version)?;
            }
        }
        Ok(())
    }

    fn field(&mut self, shape: &Shape, version: i16) -> Result<(), Malformed> {
        match shape {
            Shape::Fixed(bytes) => self.skip(*bytes),
            Shape::Text if !self.flexible => self.text(),
            Shape::Text | Shape::Bytes => {
                let length = self.length()?;
                self.skip(length)
            }
            Shape::Struct(of) => self.structure(of, version),
            Shape::Structs(of) => {
                for _ in 0..self.count()? {
                    self.structure(of, version)?;
                }
                Ok(())
            }
            Shape::Texts => {
                for _ in 0..self.count()? {
                    self.field(&Shape::Text, version)?;
                }
                Ok(())
            }
            Shape::Numbers(bytes) => {
                let count = self.count()?;
                self.skip(count * bytes)
            }
        }
    }

    /// A text with a length of two bytes.
    pub(crate) fn text(&mut self) -> Result<(), Malformed> {
        match i16::from_be_bytes(self.chunk()?) {
            -1 => Ok(()),
            length => self.skip(usize::try_from(length).map_err(|_| Malformed)?),
        }
    }

    /// Tagged fields. One that is known has exactly the length that it states; the decoder reads on as if it had.
    pub(crate) fn tags(&mut self, known: &[Tagged], version: i16) -> Result<(), Malformed> {
        let count = self.varint()? as usize;
        self.take_items(count)?;
        for _ in 0..count {
            let number = self.varint()?;
            let length = self.varint()? as usize;
            let behind = self.rest.len().checked_sub(length).ok_or(Malformed)?;
            match known.iter().find(|tagged| tagged.0 == number && version >= tagged.1) {
                None => self.skip(length)?,
                Some(Tagged(_, _, of)) => self.body(of, version)?,
            }
            if self.rest.len() != behind {
                return Err(Malformed);
            }
        }
        Ok(())
    }

    fn count(&mut self) -> Result<usize, Malformed> {
        let count = self.length()?;
        self.take_items(count)?;
        Ok(count)
    }

    fn take_items(&mut self, count: usize) -> Result<(), Malformed> {
        self.items_left = self.items_left.checked_sub(count).ok_or(Malformed)?;
        Ok(())
    }

    /// A length or count; nothing at all counts as none.
    fn length(&mut self) -> Result<usize, Malformed> {
        if self.flexible {
            return Ok(self.varint()?.saturating_sub(1) as usize);
        }
        match i32::from_be_bytes(self.chunk()?) {
            -1 => Ok(0),
            length => usize::try_from(length).map_err(|_| Malformed),
        }
    }

    /// A number of at most five bytes. The decoder overlooks what a fifth byte has too much; this does not let it pass.
    fn varint(&mut self) -> Result<u32, Malformed> {
        let mut value = 0u64;
        for shift in (0..35).step_by(7) {
            let [byte] = self.chunk()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return u32::try_from(value).map_err(|_| Malformed);
            }
        }
        Err(Malformed)
    }

    fn chunk<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (chunk, rest) = self.rest.split_first_chunk::<N>().ok_or(Malformed)?;
        self.rest = rest;
        Ok(*chunk)
    }

    fn skip(&mut self, bytes: usize) -> Result<(), Malformed> {
        self.rest = self.rest.get(bytes..).ok_or(Malformed)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static NUMBERED: Struct = fields(&[Field(0, LAST, Shape::Fixed(1))]);
    static SCHEMA: Schema = Schema {
        flexible_from: 2,
        body: Struct {
            fields: &[
                Field(0, LAST, Shape::Structs(&NUMBERED)),
                Field(1, LAST, Shape::Text),
                Field(0, 1, Shape::Numbers(4)),
            ],
            tagged: &[Tagged(0, 3, fields(&[Field(0, LAST, Shape::Text)]))],
        },
    };

    #[track_caller]
    fn check(version: i16, bytes: &[u8], passes: bool) {
        assert_eq!(SCHEMA.check(version, bytes).is_ok(), passes);
    }

    #[test]
    fn each_version_has_its_fields() {
        check(0, b"\0\0\0\x02ab\0\0\0\x01four", true);
        check(1, b"\0\0\0\x02ab\0\x03abc\0\0\0\x01four", true);
        check(1, b"\xff\xff\xff\xff\xff\xff\0\0\0\0", true);
        check(2, b"\x02a\0\x04abc\0", true);
        check(0, b"\0\0\0\x02ab\0\0\0\x02four", false);
        check(1, b"\0\0\0\x02ab\0\x03ab", false);
        check(0, b"\xff\xff\xff\xfe\0\0\0\0", false);
    }

    #[test]
    fn bytes_behind_a_request_are_let_be() {
        check(2, b"\x01\x01\0behind", true);
    }

    #[test]
    fn a_tagged_field_that_is_known_has_the_length_that_it_states() {
        check(3, b"\x01\x01\x01\0\x03\x03ab", true);
        check(3, b"\x01\x01\x01\0\x02\x03ab", false);
        check(3, b"\x01\x01\x01\0\x04\x03abc", false);
        // Before version 3 it is like any other.
        check(2, b"\x01\x01\x01\0\x02\x03a", true);
    }

    #[test]
    fn a_request_has_no_more_items_than_allowed() {
        let with_items = |count: usize| {
            let mut bytes = u32::try_from(count).expect("a count").to_be_bytes().to_vec();
            bytes.resize(4 + count, 0);
            bytes.extend_from_slice(&[0; 4]);
            bytes
        };
        check(0, &with_items(ITEMS_MAX), true);
        check(0, &with_items(ITEMS_MAX + 1), false);
    }

    #[test]
    fn a_number_of_more_than_32_bits_is_no_length() {
        check(2, b"\x81\x80\x80\x80\x10\x01\0", false);
        check(2, b"\x81\x80\x80\x80\x80\x01\x01\0", false);
    }
}
