//! The body of an index file, verified block by block when it is first looked at.
//!
//! A block is verified once for as long as the file is mapped: what was read from the disk is in memory then. So opening an
//! index costs its header, and a lookup the few blocks that it touches.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use quire_mapped::View;

use crate::checksum::crc32c;

/// The bytes that have a checksum of their own.
pub(super) const BLOCK_BYTES: usize = 4096;

/// A body that is not as it was written: the first byte, within the file, of what does not verify, and what was met.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BadBlock {
    pub(super) offset: usize,
    pub(super) message: String,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Blocks {
    file: View,
    /// Where the body begins in the file, and how many bytes it has.
    at: usize,
    bytes: usize,
    checksums: Vec<u32>,
    /// A bit for each block: set once it was found as written.
    verified: Vec<AtomicU64>,
}

/// The checksums of a body's blocks.
pub(super) fn checksums(body: &[u8]) -> impl Iterator<Item = u32> {
    body.chunks(BLOCK_BYTES).map(crc32c)
}

impl Blocks {
    /// The body of `bytes` bytes that begins at byte `at` of a file.
    pub(super) fn new(file: View, at: usize, bytes: usize, checksums: Vec<u32>) -> Self {
        let verified = (0..checksums.len().div_ceil(64)).map(|_| AtomicU64::new(0)).collect();
        Blocks { file, at, bytes, checksums, verified }
    }

    /// Verifies every block, whether or not it was before.
    pub(super) fn verify_all(&self) -> Result<(), BadBlock> {
        self.verified.iter().for_each(|word| word.store(0, Ordering::Relaxed));
        (0..self.checksums.len()).try_for_each(|block| self.verify(block))
    }

    /// Bytes of the body, as they were written.
    pub(super) fn bytes(&self, range: Range<usize>) -> Result<&[u8], BadBlock> {
        if range.start > range.end || range.end > self.bytes {
            return Err(self.bad(0, &format!("it refers to bytes {range:?} of a body of {} bytes", self.bytes)));
        }
        if !range.is_empty() {
            for block in range.start / BLOCK_BYTES..=(range.end - 1) / BLOCK_BYTES {
                self.verify(block)?;
            }
        }
        Ok(self.settled(range))
    }

    /// What is wrong at a byte of the body, though the checksum is right.
    pub(super) fn bad(&self, at: usize, message: &str) -> BadBlock {
        BadBlock { offset: self.at + at, message: message.to_owned() }
    }

    /// A little-endian number of the body.
    pub(super) fn u32(&self, at: usize) -> Result<u32, BadBlock> {
        Ok(u32::from_le_bytes(self.bytes(at..at + 4)?.try_into().expect("four bytes")))
    }

    /// A little-endian number of the body.
    pub(super) fn u64(&self, at: usize) -> Result<u64, BadBlock> {
        Ok(u64::from_le_bytes(self.bytes(at..at + 8)?.try_into().expect("eight bytes")))
    }

    /// Has the processor fetch a byte of the body, wherever that is; what it gives means nothing.
    #[inline]
    pub(super) fn touch(&self, at: usize) -> u8 {
        self.file.bytes(self.at..self.at + self.bytes).and_then(|body| body.get(at).copied()).unwrap_or_default()
    }

    fn verify(&self, block: usize) -> Result<(), BadBlock> {
        let (word, bit) = (&self.verified[block / 64], 1_u64 << (block % 64));
        if word.load(Ordering::Relaxed) & bit != 0 {
            return Ok(());
        }
        let begin = block * BLOCK_BYTES;
        let computed = crc32c(self.settled(begin..self.bytes.min(begin + BLOCK_BYTES)));
        let stored = self.checksums[block];
        if computed != stored {
            let message = format!("the checksum is {computed:08x} where {stored:08x} is stored");
            return Err(BadBlock { offset: self.at + begin, message });
        }
        word.fetch_or(bit, Ordering::Relaxed);
        Ok(())
    }

    fn settled(&self, range: Range<usize>) -> &[u8] {
        self.file.bytes(self.at + range.start..self.at + range.end).expect("the file was measured when it was opened")
    }
}
