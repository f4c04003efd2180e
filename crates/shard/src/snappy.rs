//! Decompression of the beginning of a Snappy block. A block may expand to very many bytes, and the
//! library's decoder writes all of them.
//!
//! ```text
//! length, a varint │ elements: tag, whose low 2 bits say the kind
//!   0: literal bytes; their count less 1 is in the tag, or, from 60, in the next 1 to 4 bytes
//!   1, 2, 3: a copy of earlier output; its distance is in the next 1 (with 3 bits of the tag),
//!            2 or 4 bytes
//! ```
//!
//! The format: <https://github.com/google/snappy/blob/main/format_description.txt>.

use std::io;

/// Decompresses the first `bytes_max` bytes of a block.
///
/// # Errors
/// When the block is cut off or is no block. The bytes after the beginning are not read.
pub(crate) fn beginning(block: &[u8], bytes_max: usize) -> io::Result<Vec<u8>> {
    let whole_bytes = snap::raw::decompress_len(block)?;
    if whole_bytes <= bytes_max {
        return Ok(snap::raw::Decoder::new().decompress_vec(block)?);
    }
    let varint_bytes = block.iter().position(|byte| byte & 0x80 == 0).map_or(block.len(), |last| last + 1);
    let mut elements = SnappyElements { rest: &block[varint_bytes..], out: Vec::new() };
    while elements.out.len() < bytes_max {
        elements.next(bytes_max).ok_or_else(|| io::Error::other("a block of Snappy is cut off"))?;
    }
    Ok(elements.out)
}

struct SnappyElements<'b> {
    rest: &'b [u8],
    out: Vec<u8>,
}

impl SnappyElements<'_> {
    /// Appends the output of the next element, up to `bytes_max` bytes in all.
    fn next(&mut self, bytes_max: usize) -> Option<()> {
        let tag = self.number(1)?;
        let (count, back) = match tag & 3 {
            0 => {
                let count = match tag >> 2 {
                    short @ ..60 => short,
                    long => self.number(long - 59)?,
                };
                let (literal, rest) = self.rest.split_at_checked(count.checked_add(1)?)?;
                self.out.extend_from_slice(&literal[..literal.len().min(bytes_max - self.out.len())]);
                self.rest = rest;
                return Some(());
            }
            1 => (4 + (tag >> 2 & 7), self.number(1)? | tag >> 5 << 8),
            2 => (1 + (tag >> 2), self.number(2)?),
            _ => (1 + (tag >> 2), self.number(4)?),
        };
        let from = self.out.len().checked_sub(back).filter(|_| back > 0)?;
        // The source of a copy may overlap its output.
        for at in from..from + count.min(bytes_max - self.out.len()) {
            self.out.push(self.out[at]);
        }
        Some(())
    }

    /// Reads a number of `bytes` bytes, the least significant first.
    fn number(&mut self, bytes: usize) -> Option<usize> {
        let (number, rest) = self.rest.split_at_checked(bytes)?;
        self.rest = rest;
        Some(number.iter().rev().fold(0, |number, byte| number << 8 | usize::from(*byte)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Random bytes with repetitions, near and far.
    fn some(random: &mut fastrand::Rng) -> Vec<u8> {
        let mut bytes = Vec::new();
        while bytes.len() < random.usize(1..200_000) {
            match random.usize(0..3) {
                0 => bytes.extend((0..random.usize(1..400)).map(|_| random.u8(..))),
                1 => bytes.extend(std::iter::repeat_n(random.u8(..), random.usize(1..2000))),
                _ => bytes.extend_from_within(random.usize(0..=bytes.len())..),
            }
        }
        bytes
    }

    #[test]
    fn the_beginning_equals_that_of_the_whole_block_and_garbage_is_an_error() {
        let mut random = fastrand::Rng::with_seed(1);
        for _ in 0..200 {
            let whole = some(&mut random);
            let mut block = snap::raw::Encoder::new().compress_vec(&whole).expect("memory");
            for _ in 0..10 {
                let bytes_max = random.usize(0..whole.len() + 10);
                let expected = &whole[..bytes_max.min(whole.len())];
                assert!(beginning(&block, bytes_max).expect("a block") == expected, "{bytes_max} of {}", whole.len());
            }
            let at = random.usize(0..block.len());
            block[at] ^= 1 << random.u8(0..8);
            block.truncate(random.usize(0..=block.len()));
            for bytes_max in [0, 1, whole.len() / 2, whole.len()] {
                assert!(beginning(&block, bytes_max).map_or(0, |out| out.len()) <= bytes_max);
            }
        }
    }
}
