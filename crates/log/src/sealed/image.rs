//! The bytes of a sealed segment's header and records, mapped from the file or unpacked from it.
//!
//! A frame is unpacked when it is first read, and stays as long as the image, because entries
//! borrow from it. The shared [`Unpacker`] counts this memory, and the archive closes images to
//! limit it.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use quire_mapped::View;
use zstd::zstd_safe::DDict;

use super::build::RecordSource;
use crate::packed::{BadTable, FrameTable, Unpacker, dictionary, unpack};
use crate::record::RecordFault;
use crate::segment::{PackedImage, SegmentHeader};

/// See the module.
#[derive(Debug)]
pub(crate) struct SegmentImage {
    /// The end of the records.
    end: usize,
    bytes: ImageBytes,
}

#[derive(Debug)]
enum ImageBytes {
    Plain(View),
    Packed(PackedFile),
}

/// A packed segment's mapped file, and its unpacked frames.
struct PackedFile {
    file: View,
    image: PackedImage,
    /// The prepared dictionary. It has memory of its own, because the mapping may not be aligned
    /// for it.
    dictionary: OnceLock<Option<Arc<DDict<'static>>>>,
    frames: Box<[OnceLock<Box<[u8]>>]>,
    unpacker: Arc<Unpacker>,
    /// The bytes of memory that this value takes.
    bytes: AtomicU64,
}

impl SegmentImage {
    /// An image of settled bytes that are not packed.
    pub(crate) fn plain(bytes: View) -> Self {
        SegmentImage { end: bytes.settled(), bytes: ImageBytes::Plain(bytes) }
    }

    /// The image of a segment with this header, whose file is mapped as a whole.
    ///
    /// # Errors
    /// The damage in the table of frames.
    pub(crate) fn of(file: View, header: &SegmentHeader, unpacker: &Arc<Unpacker>) -> Result<Self, BadTable> {
        let Some(image) = header.compacted.and_then(|compacted| compacted.packed) else {
            return Ok(SegmentImage::plain(file));
        };
        let table = FrameTable::verify(bytes_of(&file), image)?;
        let frames = table.frames();
        let packed = PackedFile::new(file, image, OnceLock::new(), frames, unpacker);
        Ok(SegmentImage { end: image.bytes as usize, bytes: ImageBytes::Packed(packed) })
    }

    /// The same image, up to the end of the records.
    pub(super) fn up_to(self, records_end: usize) -> Self {
        SegmentImage { end: records_end, ..self }
    }

    /// The same bytes for one scan. Its unpacked frames are released with it.
    pub(super) fn detached(&self) -> Self {
        let bytes = match &self.bytes {
            ImageBytes::Plain(view) => ImageBytes::Plain(view.clone()),
            ImageBytes::Packed(packed) => {
                let (dictionary, frames) = (packed.dictionary.clone(), packed.frames.len());
                ImageBytes::Packed(PackedFile::new(
                    packed.file.clone(),
                    packed.image,
                    dictionary,
                    frames,
                    &packed.unpacker,
                ))
            }
        };
        SegmentImage { end: self.end, bytes }
    }

    pub(super) fn is_packed(&self) -> bool {
        matches!(self.bytes, ImageBytes::Packed(_))
    }

    /// The length of the file, or of its image if it is packed.
    pub(super) fn bytes(&self) -> usize {
        match &self.bytes {
            ImageBytes::Plain(view) => view.len(),
            ImageBytes::Packed(packed) => packed.image.bytes as usize,
        }
    }

    /// The bytes of memory that the kernel cannot reclaim.
    pub(super) fn unpacked_bytes(&self) -> u64 {
        match &self.bytes {
            ImageBytes::Plain(_) => 0,
            ImageBytes::Packed(packed) => packed.bytes.load(Ordering::Relaxed),
        }
    }

    /// All bytes up to the end of the records; `None` when the segment is packed.
    pub(super) fn as_plain(&self) -> Option<&[u8]> {
        match &self.bytes {
            ImageBytes::Plain(view) => view.bytes(0..self.end),
            ImageBytes::Packed(_) => None,
        }
    }

    /// Verifies the table of frames and the dictionary again.
    pub(super) fn verify_table(&self) -> Result<(), BadTable> {
        match &self.bytes {
            ImageBytes::Plain(_) => Ok(()),
            ImageBytes::Packed(packed) => FrameTable::verify(bytes_of(&packed.file), packed.image).map(|_| ()),
        }
    }
}

impl RecordSource for SegmentImage {
    fn end(&self) -> usize {
        self.end
    }

    #[inline]
    fn bytes_from(&self, offset: usize) -> Result<&[u8], RecordFault> {
        match &self.bytes {
            ImageBytes::Plain(view) => view.bytes(offset..self.end).ok_or(RecordFault::End),
            ImageBytes::Packed(packed) => packed.bytes_from(offset),
        }
    }

    fn byte_of(&self, offset: usize) -> usize {
        match &self.bytes {
            ImageBytes::Plain(_) => offset,
            ImageBytes::Packed(packed) => {
                let table = packed.table();
                let frame = table.frame_at(offset).map(|number| table.frame(number));
                frame.map_or(0, |frame| frame.stored.start)
            }
        }
    }
}

impl PackedFile {
    fn new(
        file: View,
        image: PackedImage,
        dictionary: OnceLock<Option<Arc<DDict<'static>>>>,
        frames: usize,
        unpacker: &Arc<Unpacker>,
    ) -> Self {
        let frames: Box<[_]> = (0..frames).map(|_| OnceLock::new()).collect();
        let known = dictionary.get().and_then(Option::as_ref);
        let bytes = size_of_val(&*frames) + known.map_or(0, |dictionary| dictionary.sizeof());
        unpacker.add(bytes as u64);
        let unpacker = Arc::clone(unpacker);
        PackedFile { file, image, dictionary, frames, unpacker, bytes: AtomicU64::new(bytes as u64) }
    }

    fn table(&self) -> FrameTable<'_> {
        FrameTable::verified_before(bytes_of(&self.file))
    }

    /// The dictionary, prepared when it is first needed. Without memory for it, a later call tries
    /// again.
    fn dictionary(&self, table: FrameTable<'_>) -> Result<Option<&DDict<'static>>, RecordFault> {
        if self.dictionary.get().is_none() {
            let made = dictionary(table)?.map(Arc::new);
            let bytes = made.as_ref().map_or(0, |dictionary| dictionary.sizeof() as u64);
            if self.dictionary.set(made).is_ok() {
                self.count(bytes);
            }
        }
        Ok(self.dictionary.get().and_then(Option::as_deref))
    }

    /// Counts `bytes` of memory that the kernel cannot reclaim.
    fn count(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.unpacker.add(bytes);
    }

    /// The bytes of the image from `offset` to the end of its frame.
    fn bytes_from(&self, offset: usize) -> Result<&[u8], RecordFault> {
        let table = self.table();
        let number = table.frame_at(offset).ok_or(RecordFault::End)?;
        let frame = table.frame(number);
        let unpacked = match self.frames.get(number).ok_or(RecordFault::Unpack)? {
            // Each of these bytes belongs to a record, which has a checksum.
            _ if frame.is_plain() => table.stored(&frame).ok_or(RecordFault::Unpack)?,
            slot => match slot.get() {
                Some(unpacked) => unpacked,
                None => {
                    let unpacked = unpack(table, &frame, self.dictionary(table)?, &self.unpacker)?;
                    let bytes = unpacked.len() as u64;
                    // Another thread may have been faster. Its frame is then used.
                    if slot.set(unpacked).is_ok() {
                        self.count(bytes);
                    }
                    slot.get().expect("it is set")
                }
            },
        };
        let within = offset.checked_sub(frame.image.start);
        within.and_then(|within| unpacked.get(within..)).ok_or(RecordFault::Unpack)
    }
}

impl Drop for PackedFile {
    fn drop(&mut self) {
        let bytes = *self.bytes.get_mut();
        debug_assert!(bytes >= size_of_val(&*self.frames) as u64, "the memory of the frames is counted");
        self.unpacker.subtract(bytes);
    }
}

impl fmt::Debug for PackedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PackedFile").field("frames", &self.frames.len()).field("bytes", &self.bytes).finish()
    }
}

/// The bytes of a file that is mapped as a whole.
fn bytes_of(file: &View) -> &[u8] {
    file.bytes(0..file.len()).expect("a sealed file never changes, so all of it is settled")
}
