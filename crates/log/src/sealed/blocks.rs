//! The body of an index file, verified block by block when it is first read.
//!
//! A block is verified once while the file is mapped: it is in memory from then on. Opening an
//! index therefore reads its header only, and a lookup verifies the few blocks that it reads.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use quire_mapped::View;

use crate::checksum::crc32c;

/// The bytes that one checksum covers.
pub(super) const BLOCK_BYTES: usize = 4096;

/// Damage in a body: the offset in the file, and the reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BadBlock {
    pub(super) offset: usize,
    pub(super) message: String,
}

/// See the module.
#[derive(Debug)]
pub(super) struct IndexBlocks {
    file: View,
    /// The offset of the body in the file, and its length.
    at: usize,
    bytes: usize,
    checksums: Vec<u32>,
    /// A bit for each block, set once the block was verified.
    verified: Vec<AtomicU64>,
}

/// The checksums of a body's blocks.
pub(super) fn checksums(body: &[u8]) -> impl Iterator<Item = u32> {
    body.chunks(BLOCK_BYTES).map(crc32c)
}

impl IndexBlocks {
    /// The body of `bytes` bytes that begins at byte `at` of a file.
    pub(super) fn new(file: View, at: usize, bytes: usize, checksums: Vec<u32>) -> Self {
        assert_eq!(checksums.len(), bytes.div_ceil(BLOCK_BYTES), "each block has a checksum");
        let verified = (0..checksums.len().div_ceil(64)).map(|_| AtomicU64::new(0)).collect();
        IndexBlocks { file, at, bytes, checksums, verified }
    }

    /// Verifies every block, including blocks verified before.
    pub(super) fn verify_all(&self) -> Result<(), BadBlock> {
        self.verified.iter().for_each(|word| word.store(0, Ordering::Relaxed));
        (0..self.checksums.len()).try_for_each(|block| self.verify(block))
    }

    /// Verified bytes of the body.
    pub(super) fn bytes(&self, range: Range<usize>) -> Result<&[u8], BadBlock> {
        if range.start > range.end || range.end > self.bytes {
            let message = format!("invalid reference to bytes {range:?} of a body of {} bytes", self.bytes);
            return Err(self.bad(0, &message));
        }
        if !range.is_empty() {
            for block in range.start / BLOCK_BYTES..=(range.end - 1) / BLOCK_BYTES {
                self.verify(block)?;
            }
        }
        Ok(self.settled(range))
    }

    /// Damage at a byte of the body whose checksum matches.
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

    /// Prefetches a byte of the body. The result has no meaning.
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
        debug_assert!(begin < self.bytes, "block {block} lies outside {} bytes", self.bytes);
        let computed = crc32c(self.settled(begin..self.bytes.min(begin + BLOCK_BYTES)));
        let stored = self.checksums[block];
        if computed != stored {
            let message = format!("checksum mismatch: stored {stored:08x}, computed {computed:08x}");
            return Err(BadBlock { offset: self.at + begin, message });
        }
        word.fetch_or(bit, Ordering::Relaxed);
        Ok(())
    }

    fn settled(&self, range: Range<usize>) -> &[u8] {
        self.file
            .bytes(self.at + range.start..self.at + range.end)
            .expect("the length was checked when the file was mapped")
    }
}
