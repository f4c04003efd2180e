//! The encoding that entry bodies and checkpoints are made of.
//!
//! Fixed numbers are little-endian; `varint` is LEB128 (seven bits a byte, least significant first,
//! at most ten bytes); byte strings are a varint length and the bytes. Nothing is self-describing:
//! each model's `codec.rs` defines the order of the values, and `docs/file-format.md` shows it.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

/// The length of the longest varint, in bytes.
const VARINT_BYTES_MAX: usize = 10;

/// Bytes that do not decode to the expected value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CodecError {
    /// The expected value.
    pub expected: &'static str,
    /// The number of bytes that remained.
    pub bytes_left: usize,
}

impl fmt::Display for CodecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "expected {} where {} bytes are left", self.expected, self.bytes_left)
    }
}

impl core::error::Error for CodecError {}

/// Appends values to a buffer.
#[derive(Debug, Default, Clone)]
pub struct Encoder {
    bytes: Vec<u8>,
}

impl Encoder {
    /// An empty one.
    pub fn new() -> Self {
        Encoder::default()
    }

    /// An empty encoder with space for this many bytes.
    pub fn with_capacity(bytes: usize) -> Self {
        Encoder { bytes: Vec::with_capacity(bytes) }
    }

    /// Reserves space for this many more bytes.
    #[inline]
    pub fn reserve(&mut self, bytes: usize) {
        self.bytes.reserve(bytes);
    }

    /// One byte.
    #[inline]
    pub fn u8(&mut self, value: u8) -> &mut Self {
        self.bytes.push(value);
        self
    }

    /// Two bytes.
    pub fn u16(&mut self, value: u16) -> &mut Self {
        self.bytes.extend_from_slice(&value.to_le_bytes());
        self
    }

    /// Four bytes.
    #[inline]
    pub fn u32(&mut self, value: u32) -> &mut Self {
        self.bytes.extend_from_slice(&value.to_le_bytes());
        self
    }

    /// Eight bytes.
    #[inline]
    pub fn u64(&mut self, value: u64) -> &mut Self {
        self.bytes.extend_from_slice(&value.to_le_bytes());
        self
    }

    /// One to ten bytes.
    #[inline]
    pub fn varint(&mut self, value: u64) -> &mut Self {
        if value < 0x80 {
            self.bytes.push(value as u8);
            return self;
        }
        self.long_varint(value)
    }

    fn long_varint(&mut self, mut value: u64) -> &mut Self {
        let mut bytes = [0; VARINT_BYTES_MAX];
        let mut count = 0;
        while value >= 0x80 {
            bytes[count] = (value as u8) | 0x80;
            value >>= 7;
            count += 1;
        }
        bytes[count] = value as u8;
        // Copies the whole array and truncates: a copy of known length checks the capacity once.
        let length = self.bytes.len() + count + 1;
        self.bytes.extend_from_slice(&bytes);
        self.bytes.truncate(length);
        self
    }

    /// A length and the bytes.
    #[inline]
    pub fn bytes(&mut self, value: &[u8]) -> &mut Self {
        self.varint(value.len() as u64);
        self.raw(value)
    }

    /// A length and the text.
    #[inline]
    pub fn str(&mut self, value: &str) -> &mut Self {
        self.bytes(value.as_bytes())
    }

    /// The bytes alone; the reader knows how many, or takes the rest.
    #[inline]
    pub fn raw(&mut self, value: &[u8]) -> &mut Self {
        self.bytes.extend_from_slice(value);
        self
    }

    /// Returns the number of bytes that fit without an allocation.
    pub fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    /// Clears the buffer and keeps its memory for the next values.
    pub fn clear(&mut self) {
        self.bytes.clear();
    }

    /// The bytes.
    pub fn as_slice(&self) -> &[u8] {
        &self.bytes
    }

    /// The bytes.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}

/// Reads values in the order in which they were written.
#[derive(Debug, Clone)]
pub struct Decoder<'a> {
    rest: &'a [u8],
}

impl<'a> Decoder<'a> {
    /// Reads from these bytes.
    pub const fn new(bytes: &'a [u8]) -> Self {
        Decoder { rest: bytes }
    }

    const fn missing(&self, expected: &'static str) -> CodecError {
        CodecError { expected, bytes_left: self.rest.len() }
    }

    #[inline]
    fn chunk<const N: usize>(&mut self, expected: &'static str) -> Result<[u8; N], CodecError> {
        let (chunk, rest) = self.rest.split_first_chunk::<N>().ok_or(self.missing(expected))?;
        self.rest = rest;
        Ok(*chunk)
    }

    /// One byte.
    ///
    /// # Errors
    /// At the end of the bytes, as in all of these.
    #[inline]
    pub fn u8(&mut self) -> Result<u8, CodecError> {
        Ok(self.chunk::<1>("one byte")?[0])
    }

    /// Two bytes.
    ///
    /// # Errors
    /// At the end of the bytes.
    pub fn u16(&mut self) -> Result<u16, CodecError> {
        Ok(u16::from_le_bytes(self.chunk("two bytes")?))
    }

    /// Four bytes.
    ///
    /// # Errors
    /// At the end of the bytes.
    #[inline]
    pub fn u32(&mut self) -> Result<u32, CodecError> {
        Ok(u32::from_le_bytes(self.chunk("four bytes")?))
    }

    /// Eight bytes.
    ///
    /// # Errors
    /// At the end of the bytes.
    #[inline]
    pub fn u64(&mut self) -> Result<u64, CodecError> {
        Ok(u64::from_le_bytes(self.chunk("eight bytes")?))
    }

    /// One to ten bytes.
    ///
    /// # Errors
    /// At the end of the bytes, or when the number does not fit 64 bits.
    #[inline]
    pub fn varint(&mut self) -> Result<u64, CodecError> {
        // Most are small.
        match self.rest {
            [byte, rest @ ..] if *byte < 0x80 => {
                self.rest = rest;
                Ok(u64::from(*byte))
            }
            _ => self.long_varint(),
        }
    }

    fn long_varint(&mut self) -> Result<u64, CodecError> {
        let mut value = 0u64;
        for (index, byte) in self.rest.iter().take(VARINT_BYTES_MAX).enumerate() {
            let bits = u64::from(byte & 0x7f);
            if index == VARINT_BYTES_MAX - 1 && bits > 1 {
                break;
            }
            value |= bits << (7 * index);
            if byte & 0x80 == 0 {
                self.rest = &self.rest[index + 1..];
                return Ok(value);
            }
        }
        Err(self.missing("a varint of at most 64 bits"))
    }

    /// A varint that fits 32 bits.
    ///
    /// # Errors
    /// At the end of the bytes, or when the number does not fit 32 bits.
    #[inline]
    pub fn varint_u32(&mut self) -> Result<u32, CodecError> {
        let value = self.varint()?;
        u32::try_from(value).map_err(|_| self.missing("a varint of at most 32 bits"))
    }

    /// A length and the bytes.
    ///
    /// # Errors
    /// When the length exceeds the bytes that remain.
    #[inline]
    pub fn bytes(&mut self) -> Result<&'a [u8], CodecError> {
        let length = self.varint()?;
        let length = usize::try_from(length).map_err(|_| self.missing("a length"))?;
        self.raw(length)
    }

    /// A length and the bytes of UTF-8 text.
    ///
    /// # Errors
    /// When the length exceeds the bytes that remain, or the bytes are not UTF-8.
    #[inline]
    pub fn str(&mut self) -> Result<&'a str, CodecError> {
        let bytes = self.bytes()?;
        core::str::from_utf8(bytes).map_err(|_| self.missing("UTF-8 text"))
    }

    /// [`Decoder::str`], owned.
    ///
    /// # Errors
    /// Reads as [`Decoder::str`] does.
    pub fn string(&mut self) -> Result<String, CodecError> {
        Ok(String::from(self.str()?))
    }

    /// Reads `length` bytes.
    ///
    /// # Errors
    /// When fewer bytes remain.
    #[inline]
    pub fn raw(&mut self, length: usize) -> Result<&'a [u8], CodecError> {
        let (bytes, rest) = self.rest.split_at_checked(length).ok_or(self.missing("all bytes of a value"))?;
        self.rest = rest;
        Ok(bytes)
    }

    /// Returns all bytes that remain.
    #[inline]
    pub fn rest(&mut self) -> &'a [u8] {
        core::mem::take(&mut self.rest)
    }

    /// Whether every byte was read.
    pub const fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Checks that every byte was read.
    ///
    /// # Errors
    /// When something is.
    pub fn end(&self) -> Result<(), CodecError> {
        if self.rest.is_empty() { Ok(()) } else { Err(self.missing("the end")) }
    }
}
