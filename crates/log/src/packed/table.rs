//! The table of a packed segment's frames: where each stands in the image and in the file, and what its checksum is.
//!
//! It stands behind the segment's header, which holds its checksum. What it says of lengths is verified before anything is made of
//! it, so that no damage has memory taken that the frames do not come to.

use std::ops::Range;

use super::EXPANSION_MAX;
use crate::checksum::crc32c;
use crate::segment::{COMPACTED_HEADER_BYTES, PackedImage};

/// Bytes of the table in front of what it says of each frame.
const FIXED_BYTES: usize = 16;

/// Bytes that it takes for each frame.
const FRAME_ENTRY_BYTES: usize = 12;

/// A table that is not as it was written: the byte of the file, and what was met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BadTable {
    pub(crate) offset: usize,
    pub(crate) message: &'static str,
}

/// See the module.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Table<'f> {
    file: &'f [u8],
    frames: usize,
}

/// A frame of a packed segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Frame {
    /// The bytes of the image that it stands for.
    pub(crate) image: Range<usize>,
    /// Its bytes in the file.
    pub(crate) stored: Range<usize>,
    /// The checksum of these.
    pub(crate) crc: u32,
}

impl Frame {
    /// Whether it is not compressed.
    pub(crate) fn is_plain(&self) -> bool {
        self.image.len() == self.stored.len()
    }
}

impl<'f> Table<'f> {
    /// The table of a file, whose header says what it comes to.
    ///
    /// # Errors
    /// What is not as it was written, of the table and of the dictionary.
    pub(crate) fn verify(file: &'f [u8], image: PackedImage) -> Result<Self, BadTable> {
        let bad = |offset: usize, message| Err(BadTable { offset, message });
        let at = COMPACTED_HEADER_BYTES;
        let Some(table) = Self::framed(file) else { return bad(at, "the table of its frames does not fit into it") };
        if crc32c(&file[at..table.dictionary_at()]) != image.table {
            return bad(at, "the checksum of the table of its frames is not the one in its header");
        }
        let Some(dictionary) = table.dictionary() else { return bad(at + 4, "the dictionary does not fit into it") };
        if crc32c(dictionary) != table.u32(at + 8) {
            return bad(table.dictionary_at(), "the checksum of the dictionary is not the one in the table");
        }
        for number in 0..table.frames {
            let Frame { image, stored, .. } = table.frame(number);
            let comes_to_more = image.len() as u64 > stored.len() as u64 * EXPANSION_MAX;
            if image.is_empty() || stored.is_empty() || stored.len() > image.len() || comes_to_more {
                return bad(table.entry_at(number), "a frame of it can't have the lengths that the table says");
            }
        }
        let (ends, file_ends) = table.ends(table.frames);
        if ends != image.bytes as usize || file_ends != file.len() {
            return bad(at, "the frames do not end where it does");
        }
        Ok(table)
    }

    /// The table of a file that was verified before. Should it have changed since then, what it says may be anything, and who asks
    /// for bytes of it gets none.
    pub(crate) fn verified_before(file: &'f [u8]) -> Self {
        Self::framed(file).unwrap_or(Table { file: &[], frames: 0 })
    }

    /// As far as its length says.
    fn framed(file: &'f [u8]) -> Option<Self> {
        let frames = file.get(COMPACTED_HEADER_BYTES..)?.first_chunk::<FIXED_BYTES>()?;
        let frames = u32::from_le_bytes(frames[..4].try_into().expect("four bytes")) as usize;
        let table = Table { file, frames };
        (table.dictionary_at() <= file.len()).then_some(table)
    }

    /// How many frames there are.
    pub(crate) fn frames(self) -> usize {
        self.frames
    }

    /// The dictionary that the frames are compressed with; empty when there is none.
    pub(crate) fn dictionary(self) -> Option<&'f [u8]> {
        let bytes = if self.file.is_empty() { 0 } else { self.u32(COMPACTED_HEADER_BYTES + 4) as usize };
        self.file.get(self.dictionary_at()..)?.get(..bytes)
    }

    /// The frame with this number.
    pub(crate) fn frame(self, number: usize) -> Frame {
        let ((image, stored), (image_end, stored_end)) = (self.ends(number), self.ends(number + 1));
        Frame { image: image..image_end, stored: stored..stored_end, crc: self.u32(self.entry_at(number) + 8) }
    }

    /// The number of the frame that holds a byte of the image; `None` when none does. Most frames are about as long as each other, so the
    /// search begins where it would be if all were, and widens from there.
    pub(crate) fn frame_at(self, offset: usize) -> Option<usize> {
        let (image_end, _) = self.ends(self.frames);
        if !(COMPACTED_HEADER_BYTES..image_end).contains(&offset) {
            return None;
        }
        let ends_behind = |number: usize| self.ends(number + 1).0 > offset;
        let expected = offset * self.frames / image_end;
        let (mut low, mut high, mut step) = (0, self.frames, 1);
        if ends_behind(expected) {
            high = expected;
            while let Some(at) = high.checked_sub(step) {
                if !ends_behind(at) {
                    low = at + 1;
                    break;
                }
                (high, step) = (at, step * 2);
            }
        } else {
            low = expected + 1;
            while let Some(at) = Some(low + step - 1).filter(|at| *at < self.frames) {
                if ends_behind(at) {
                    high = at;
                    break;
                }
                (low, step) = (at + 1, step * 2);
            }
        }
        // The first of low..=high that ends behind it: high does, if it is one.
        while low < high {
            let middle = low + (high - low) / 2;
            if ends_behind(middle) { high = middle } else { low = middle + 1 }
        }
        (low < self.frames).then_some(low)
    }

    /// The bytes of a frame as they are in the file, if they are there.
    pub(crate) fn stored(self, frame: &Frame) -> Option<&'f [u8]> {
        self.file.get(frame.stored.clone())
    }

    /// Where so many frames end, in the image and in the file.
    fn ends(self, frames: usize) -> (usize, usize) {
        match frames.checked_sub(1) {
            None => (COMPACTED_HEADER_BYTES, self.dictionary_at() + self.dictionary().map_or(0, <[u8]>::len)),
            Some(last) => {
                let at = self.entry_at(last);
                (self.u32(at) as usize, self.u32(at + 4) as usize)
            }
        }
    }

    fn entry_at(self, number: usize) -> usize {
        COMPACTED_HEADER_BYTES + FIXED_BYTES + number * FRAME_ENTRY_BYTES
    }

    fn dictionary_at(self) -> usize {
        self.entry_at(self.frames)
    }

    fn u32(self, at: usize) -> u32 {
        u32::from_le_bytes(self.file[at..at + 4].try_into().expect("four bytes"))
    }
}

/// The table of frames of these lengths, in the image and stored, and with these checksums, in front of so long a dictionary.
pub(super) fn encode(frames: &[(usize, usize, u32)], dictionary: &[u8]) -> Vec<u8> {
    let narrow = |number: usize| u32::try_from(number).expect("a segment is shorter than 4 GiB").to_le_bytes();
    let table_bytes = FIXED_BYTES + frames.len() * FRAME_ENTRY_BYTES;
    let mut out = Vec::with_capacity(table_bytes);
    out.extend_from_slice(&narrow(frames.len()));
    out.extend_from_slice(&narrow(dictionary.len()));
    out.extend_from_slice(&crc32c(dictionary).to_le_bytes());
    out.extend_from_slice(&[0; 4]);
    let mut image_end = COMPACTED_HEADER_BYTES;
    let mut stored_end = COMPACTED_HEADER_BYTES + table_bytes + dictionary.len();
    for (image, stored, crc) in frames {
        (image_end, stored_end) = (image_end + image, stored_end + stored);
        out.extend_from_slice(&narrow(image_end));
        out.extend_from_slice(&narrow(stored_end));
        out.extend_from_slice(&crc.to_le_bytes());
    }
    out
}
