//! The table of frames of a packed segment: the place of each frame in the image and in the file,
//! and its checksum.
//!
//! The table follows the segment's header, which holds the table's checksum. All lengths are
//! verified before memory is allocated, so that damage cannot cause an allocation beyond the
//! frames.

use std::ops::Range;

use super::EXPANSION_MAX;
use crate::checksum::crc32c;
use crate::segment::{COMPACTED_HEADER_BYTES, PackedImage};

/// Bytes of the table before the entries of the frames.
const FIXED_BYTES: usize = 16;

/// Bytes of the table for each frame.
const FRAME_ENTRY_BYTES: usize = 12;

const _: () = assert!(FIXED_BYTES.is_multiple_of(4) && FRAME_ENTRY_BYTES.is_multiple_of(4));

/// A damaged table: the offset in the file, and the reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BadTable {
    pub(crate) offset: usize,
    pub(crate) message: &'static str,
}

/// See the module.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FrameTable<'f> {
    file: &'f [u8],
    frames: usize,
}

/// A frame of a packed segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PackedFrame {
    /// The range of the image that the frame holds.
    pub(crate) image: Range<usize>,
    /// The range of the file that stores the frame.
    pub(crate) stored: Range<usize>,
    /// The checksum of the stored bytes.
    pub(crate) crc: u32,
}

impl PackedFrame {
    /// Whether the frame is stored uncompressed.
    pub(crate) fn is_plain(&self) -> bool {
        self.image.len() == self.stored.len()
    }
}

impl<'f> FrameTable<'f> {
    /// Verifies the table of a file against `image` from the file's header.
    ///
    /// # Errors
    /// The first damage found in the table or the dictionary.
    pub(crate) fn verify(file: &'f [u8], image: PackedImage) -> Result<Self, BadTable> {
        let bad = |offset: usize, message| Err(BadTable { offset, message });
        let at = COMPACTED_HEADER_BYTES;
        let Some(table) = Self::framed(file) else { return bad(at, "the table of frames exceeds the file") };
        if crc32c(&file[at..table.dictionary_at()]) != image.table {
            return bad(at, "checksum mismatch of the table of frames");
        }
        let Some(dictionary) = table.dictionary() else { return bad(at + 4, "the dictionary exceeds the file") };
        if crc32c(dictionary) != table.u32(at + 8) {
            return bad(table.dictionary_at(), "checksum mismatch of the dictionary");
        }
        for number in 0..table.frames {
            let PackedFrame { image, stored, .. } = table.frame(number);
            let expands_too_much = image.len() as u64 > stored.len() as u64 * EXPANSION_MAX;
            if image.is_empty() || stored.is_empty() || stored.len() > image.len() || expands_too_much {
                return bad(table.entry_at(number), "the table of frames has invalid lengths for a frame");
            }
        }
        let (ends, file_ends) = table.ends(table.frames);
        if ends != image.bytes as usize || file_ends != file.len() {
            return bad(at, "the frames do not end with the file and its image");
        }
        Ok(table)
    }

    /// The table of a file that was verified before. If the file has changed since, the table may
    /// have any content, and reads of bytes return `None`.
    pub(crate) fn verified_before(file: &'f [u8]) -> Self {
        Self::framed(file).unwrap_or(FrameTable { file: &[], frames: 0 })
    }

    /// Reads the table, with only its length verified.
    fn framed(file: &'f [u8]) -> Option<Self> {
        let frames = file.get(COMPACTED_HEADER_BYTES..)?.first_chunk::<FIXED_BYTES>()?;
        let frames = u32::from_le_bytes(frames[..4].try_into().expect("four bytes")) as usize;
        let table = FrameTable { file, frames };
        (table.dictionary_at() <= file.len()).then_some(table)
    }

    /// The image that the table of a file describes. For a file whose header is damaged: only the
    /// checksums of the frames verify it.
    pub(crate) fn image_of(file: &'f [u8]) -> Option<PackedImage> {
        let table = Self::framed(file)?;
        let (bytes, _) = table.ends(table.frames);
        let stored = &file[COMPACTED_HEADER_BYTES..table.dictionary_at()];
        Some(PackedImage { bytes: u32::try_from(bytes).ok()?, table: crc32c(stored) })
    }

    /// The count of frames.
    pub(crate) fn frames(self) -> usize {
        self.frames
    }

    /// The dictionary of the frames; empty when they have none.
    pub(crate) fn dictionary(self) -> Option<&'f [u8]> {
        let bytes = if self.file.is_empty() { 0 } else { self.u32(COMPACTED_HEADER_BYTES + 4) as usize };
        self.file.get(self.dictionary_at()..)?.get(..bytes)
    }

    /// The frame with this number.
    pub(crate) fn frame(self, number: usize) -> PackedFrame {
        debug_assert!(number < self.frames, "frame {number} of {}", self.frames);
        let ((image, stored), (image_end, stored_end)) = (self.ends(number), self.ends(number + 1));
        PackedFrame { image: image..image_end, stored: stored..stored_end, crc: self.u32(self.entry_at(number) + 8) }
    }

    /// The number of the frame that holds byte `offset` of the image; `None` outside all frames.
    /// Most frames have a similar length. The search begins at the frame expected for equal
    /// lengths, and widens from there.
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
        // The result is the first frame in low..=high that ends after `offset`.
        while low < high {
            let middle = low + (high - low) / 2;
            if ends_behind(middle) { high = middle } else { low = middle + 1 }
        }
        (low < self.frames).then_some(low)
    }

    /// The stored bytes of a frame; `None` when they exceed the file.
    pub(crate) fn stored(self, frame: &PackedFrame) -> Option<&'f [u8]> {
        self.file.get(frame.stored.clone())
    }

    /// The end of the first `frames` frames, in the image and in the file.
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

/// Encodes the table of frames. Each frame is given by its length in the image, its stored length
/// and its checksum.
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
        assert!(stored <= image, "a frame of {image} bytes stored in {stored}");
        (image_end, stored_end) = (image_end + image, stored_end + stored);
        out.extend_from_slice(&narrow(image_end));
        out.extend_from_slice(&narrow(stored_end));
        out.extend_from_slice(&crc.to_le_bytes());
    }
    assert_eq!(out.len(), table_bytes, "the table has its fixed part and one entry for each frame");
    out
}
