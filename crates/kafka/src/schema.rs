//! The shapes of requests, to check them before they are decoded.
//!
//! The decoder allocates as many elements as an array claims before it reads the first. A claim of
//! two billion in a frame of forty bytes would end the process. So a walk over every request comes
//! first, without allocating. A request that passes has every element that it claims, and at most
//! [`ITEMS_MAX`] of them.
//!
//! The walk reads lengths exactly as the decoder does, including known tagged fields. Like Kafka,
//! it allows bytes after the request: librdkafka 2.16 sends three of them when it requests the
//! metadata of all topics.

/// The maximum number of array elements and tagged fields in a request.
pub(crate) const ITEMS_MAX: usize = 250_000;

/// The memory of a decoded item in bytes, with its result: of a struct or a text, of a number, and
/// of an unknown tagged field.
const ITEM_BYTES: usize = 192;
const NUMBER_BYTES: usize = 64;
const TAG_BYTES: usize = 512;

/// The shape of an API's requests.
#[derive(Debug)]
pub(crate) struct Schema {
    /// The first version with compact lengths, and with tagged fields after structs and in the
    /// header.
    pub(crate) flexible_from: i16,
    pub(crate) body: Struct,
}

#[derive(Debug)]
pub(crate) struct Struct {
    pub(crate) fields: &'static [Field],
    /// The tagged fields that the decoder knows.
    pub(crate) tagged: &'static [TaggedField],
}

/// A field, and the versions that have it.
#[derive(Debug)]
pub(crate) struct Field(pub(crate) i16, pub(crate) i16, pub(crate) Shape);

#[derive(Debug)]
pub(crate) enum Shape {
    /// A fixed number of bytes.
    Fixed(usize),
    /// Bytes after a length of two bytes, or a compact one; nullable or not.
    Text,
    /// Bytes after a length of four bytes, or a compact one; nullable or not.
    Bytes,
    /// A single struct.
    Struct(&'static Struct),
    /// A single struct after a byte, which is negative for null.
    NullableStruct(&'static Struct),
    /// Structs after a count of four bytes, or a compact one.
    Structs(&'static Struct),
    /// Numbers of a fixed size after such a count.
    Numbers(usize),
    /// Texts after such a count.
    Texts,
}

/// A tagged field: its number, its first version, and its content.
#[derive(Debug)]
pub(crate) struct TaggedField(pub(crate) u32, pub(crate) i16, pub(crate) Struct);

/// Represents the latest version.
pub(crate) const LAST: i16 = i16::MAX;

/// A struct without known tagged fields.
pub(crate) const fn fields(fields: &'static [Field]) -> Struct {
    Struct { fields, tagged: &[] }
}

/// The bytes do not have the shape.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ShapeError;

impl Schema {
    pub(crate) fn is_flexible(&self, version: i16) -> bool {
        version >= self.flexible_from
    }

    /// Checks that `bytes` begin with the body of a request. Returns the memory of its items when
    /// they are decoded, in bytes.
    pub(crate) fn check(&self, version: i16, bytes: &[u8]) -> Result<usize, ShapeError> {
        let flexible = self.is_flexible(version);
        let mut walk = ShapeWalk { rest: bytes, flexible, items_left: ITEMS_MAX, decoded_bytes: 0 };
        walk.structure(&self.body, version)?;
        Ok(walk.decoded_bytes)
    }
}

/// The position of a walk over a request.
#[derive(Debug)]
pub(crate) struct ShapeWalk<'a> {
    pub(crate) rest: &'a [u8],
    flexible: bool,
    items_left: usize,
    decoded_bytes: usize,
}

impl<'a> ShapeWalk<'a> {
    /// A walk over a header. Its client id is never compact.
    pub(crate) fn header(bytes: &'a [u8]) -> Self {
        ShapeWalk { rest: bytes, flexible: false, items_left: ITEMS_MAX, decoded_bytes: 0 }
    }

    fn structure(&mut self, of: &Struct, version: i16) -> Result<(), ShapeError> {
        self.body(of, version)?;
        if self.flexible { self.tags(of.tagged, version) } else { Ok(()) }
    }

    fn body(&mut self, of: &Struct, version: i16) -> Result<(), ShapeError> {
        for Field(from, up_to, shape) in of.fields {
            if (*from..=*up_to).contains(&version) {
                self.field(shape, version)?;
            }
        }
        Ok(())
    }

    fn field(&mut self, shape: &Shape, version: i16) -> Result<(), ShapeError> {
        match shape {
            Shape::Fixed(bytes) => self.skip(*bytes),
            Shape::Text if !self.flexible => self.text(),
            Shape::Text | Shape::Bytes => {
                let length = self.length()?;
                self.skip(length)
            }
            Shape::Struct(of) => self.structure(of, version),
            Shape::NullableStruct(of) => match i8::from_be_bytes(self.chunk()?) {
                ..0 => Ok(()),
                0.. => self.structure(of, version),
            },
            Shape::Structs(of) => {
                for _ in 0..self.count(ITEM_BYTES)? {
                    self.structure(of, version)?;
                }
                Ok(())
            }
            Shape::Texts => {
                for _ in 0..self.count(ITEM_BYTES)? {
                    self.field(&Shape::Text, version)?;
                }
                Ok(())
            }
            Shape::Numbers(bytes) => {
                let count = self.count(NUMBER_BYTES)?;
                self.skip(count * bytes)
            }
        }
    }

    /// A text with a length of two bytes.
    pub(crate) fn text(&mut self) -> Result<(), ShapeError> {
        match i16::from_be_bytes(self.chunk()?) {
            -1 => Ok(()),
            length => self.skip(usize::try_from(length).map_err(|_| ShapeError)?),
        }
    }

    /// Tagged fields. A known one must have exactly the length that it states, because the
    /// decoder assumes so.
    pub(crate) fn tags(&mut self, known: &[TaggedField], version: i16) -> Result<(), ShapeError> {
        let count = self.varint()? as usize;
        self.take_items(count, TAG_BYTES)?;
        for _ in 0..count {
            let number = self.varint()?;
            let length = self.varint()? as usize;
            let behind = self.rest.len().checked_sub(length).ok_or(ShapeError)?;
            match known.iter().find(|tagged| tagged.0 == number && version >= tagged.1) {
                None => self.skip(length)?,
                Some(TaggedField(_, _, of)) => self.body(of, version)?,
            }
            if self.rest.len() != behind {
                return Err(ShapeError);
            }
        }
        Ok(())
    }

    /// Reads the count of items that take `bytes` of memory each.
    fn count(&mut self, bytes: usize) -> Result<usize, ShapeError> {
        let count = self.length()?;
        self.take_items(count, bytes)?;
        Ok(count)
    }

    fn take_items(&mut self, count: usize, bytes: usize) -> Result<(), ShapeError> {
        self.items_left = self.items_left.checked_sub(count).ok_or(ShapeError)?;
        self.decoded_bytes += count * bytes;
        Ok(())
    }

    /// A length or count; null counts as zero.
    fn length(&mut self) -> Result<usize, ShapeError> {
        if self.flexible {
            return Ok(self.varint()?.saturating_sub(1) as usize);
        }
        match i32::from_be_bytes(self.chunk()?) {
            -1 => Ok(0),
            length => usize::try_from(length).map_err(|_| ShapeError),
        }
    }

    /// A number of at most five bytes. The decoder ignores excess bits in the fifth byte; here they
    /// are an error.
    fn varint(&mut self) -> Result<u32, ShapeError> {
        let mut value = 0u64;
        for shift in (0..35).step_by(7) {
            let [byte] = self.chunk()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return u32::try_from(value).map_err(|_| ShapeError);
            }
        }
        Err(ShapeError)
    }

    fn chunk<const N: usize>(&mut self) -> Result<[u8; N], ShapeError> {
        let (chunk, rest) = self.rest.split_first_chunk::<N>().ok_or(ShapeError)?;
        self.rest = rest;
        Ok(*chunk)
    }

    fn skip(&mut self, bytes: usize) -> Result<(), ShapeError> {
        self.rest = self.rest.get(bytes..).ok_or(ShapeError)?;
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
            tagged: &[TaggedField(0, 3, fields(&[Field(0, LAST, Shape::Text)]))],
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
    fn bytes_after_a_request_are_ignored() {
        check(2, b"\x01\x01\0behind", true);
    }

    #[test]
    fn a_tagged_field_that_is_known_has_the_length_that_it_states() {
        check(3, b"\x01\x01\x01\0\x03\x03ab", true);
        check(3, b"\x01\x01\x01\0\x02\x03ab", false);
        check(3, b"\x01\x01\x01\0\x04\x03abc", false);
        // Before version 3 it has no special meaning.
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
    fn a_number_of_more_than_32_bits_is_refused_as_a_length() {
        check(2, b"\x81\x80\x80\x80\x10\x01\0", false);
        check(2, b"\x81\x80\x80\x80\x80\x01\x01\0", false);
    }
}
