//! The bytes of a sealed segment's header and records, wherever they are: mapped as they stand in the file, or unpacked from it.
//!
//! A frame is unpacked when it is first looked at, and stays for as long as the image lives: entries are borrowed from it. What that
//! takes is counted with all who unpack, and the archive lets go of images by it.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use quire_mapped::View;
use zstd::zstd_safe::DDict;

use super::build::Records;
use crate::packed::{BadTable, Table, Unpacking, dictionary, unpack};
use crate::record::Fault;
use crate::segment::{PackedImage, SegmentHeader};

/// See the module.
#[derive(Debug)]
pub(crate) struct Image {
    /// Where its records end.
    end: usize,
    bytes: Bytes,
}

#[derive(Debug)]
enum Bytes {
    Plain(View),
    Packed(Packed),
}

/// A packed segment's file, mapped, and what of it is unpacked.
struct Packed {
    file: View,
    image: PackedImage,
    /// It is in memory of its own: the mapping need not be aligned for it.
    dictionary: OnceLock<Option<Arc<DDict<'static>>>>,
    frames: Box<[OnceLock<Box<[u8]>>]>,
    unpacking: Arc<Unpacking>,
    /// How many bytes of memory this takes.
    bytes: AtomicU64,
}

impl Image {
    /// Settled bytes as they are.
    pub(crate) fn plain(bytes: View) -> Self {
        Image { end: bytes.settled(), bytes: Bytes::Plain(bytes) }
    }

    /// The image in a segment's file, mapped as a whole, whose header is this.
    ///
    /// # Errors
    /// What of the table of a packed one is not as it was written.
    pub(crate) fn of(file: View, header: &SegmentHeader, unpacking: &Arc<Unpacking>) -> Result<Self, BadTable> {
        let Some(image) = header.compacted.and_then(|compacted| compacted.packed) else {
            return Ok(Image::plain(file));
        };
        let table = Table::verify(bytes_of(&file), image)?;
        let frames = table.frames();
        let packed = Packed::new(file, image, OnceLock::new(), frames, unpacking);
        Ok(Image { end: image.bytes as usize, bytes: Bytes::Packed(packed) })
    }

    /// The same, up to where the records end.
    pub(super) fn up_to(self, records_end: usize) -> Self {
        Image { end: records_end, ..self }
    }

    /// The same bytes for one who goes through them once: what is unpacked for that goes with it.
    pub(super) fn apart(&self) -> Self {
        let bytes = match &self.bytes {
            Bytes::Plain(view) => Bytes::Plain(view.clone()),
            Bytes::Packed(packed) => {
                let (dictionary, frames) = (packed.dictionary.clone(), packed.frames.len());
                Bytes::Packed(Packed::new(packed.file.clone(), packed.image, dictionary, frames, &packed.unpacking))
            }
        };
        Image { end: self.end, bytes }
    }

    pub(super) fn is_packed(&self) -> bool {
        matches!(self.bytes, Bytes::Packed(_))
    }

    /// How many bytes the file has, or would have if it were not packed.
    pub(super) fn bytes(&self) -> usize {
        match &self.bytes {
            Bytes::Plain(view) => view.len(),
            Bytes::Packed(packed) => packed.image.bytes as usize,
        }
    }

    /// How many bytes of memory it takes that the kernel can't take back.
    pub(super) fn unpacked_bytes(&self) -> u64 {
        match &self.bytes {
            Bytes::Plain(_) => 0,
            Bytes::Packed(packed) => packed.bytes.load(Ordering::Relaxed),
        }
    }

    /// All of it, where it is not packed.
    pub(super) fn as_plain(&self) -> Option<&[u8]> {
        match &self.bytes {
            Bytes::Plain(view) => view.bytes(0..self.end),
            Bytes::Packed(_) => None,
        }
    }

    /// Verifies the table of frames again, and the dictionary.
    pub(super) fn verify_table(&self) -> Result<(), BadTable> {
        match &self.bytes {
            Bytes::Plain(_) => Ok(()),
            Bytes::Packed(packed) => Table::verify(bytes_of(&packed.file), packed.image).map(|_| ()),
        }
    }
}

impl Records for Image {
    fn end(&self) -> usize {
        self.end
    }

    #[inline]
    fn bytes_from(&self, offset: usize) -> Result<&[u8], Fault> {
        match &self.bytes {
            Bytes::Plain(view) => view.bytes(offset..self.end).ok_or(Fault::End),
            Bytes::Packed(packed) => packed.bytes_from(offset),
        }
    }

    fn byte_of(&self, offset: usize) -> usize {
        match &self.bytes {
            Bytes::Plain(_) => offset,
            Bytes::Packed(packed) => {
                let table = packed.table();
                let frame = table.frame_at(offset).map(|number| table.frame(number));
                frame.map_or(0, |frame| frame.stored.start)
            }
        }
    }
}

impl Packed {
    fn new(
        file: View,
        image: PackedImage,
        dictionary: OnceLock<Option<Arc<DDict<'static>>>>,
        frames: usize,
        unpacking: &Arc<Unpacking>,
    ) -> Self {
        let frames: Box<[_]> = (0..frames).map(|_| OnceLock::new()).collect();
        let known = dictionary.get().and_then(Option::as_ref);
        let bytes = size_of_val(&*frames) + known.map_or(0, |dictionary| dictionary.sizeof());
        unpacking.add(bytes as u64);
        let unpacking = Arc::clone(unpacking);
        Packed { file, image, dictionary, frames, unpacking, bytes: AtomicU64::new(bytes as u64) }
    }

    fn table(&self) -> Table<'_> {
        Table::verified_before(bytes_of(&self.file))
    }

    /// The dictionary, made ready when it is first needed; when there is no memory for it, the next time is another.
    fn dictionary(&self, table: Table<'_>) -> Result<Option<&DDict<'static>>, Fault> {
        if self.dictionary.get().is_none() {
            let made = dictionary(table)?.map(Arc::new);
            let bytes = made.as_ref().map_or(0, |dictionary| dictionary.sizeof() as u64);
            if self.dictionary.set(made).is_ok() {
                self.count(bytes);
            }
        }
        Ok(self.dictionary.get().and_then(Option::as_deref))
    }

    /// So many bytes of memory are taken that the kernel can't take back.
    fn count(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.unpacking.add(bytes);
    }

    /// The bytes from one of the image on, to the end of the frame that holds it.
    fn bytes_from(&self, offset: usize) -> Result<&[u8], Fault> {
        let table = self.table();
        let number = table.frame_at(offset).ok_or(Fault::End)?;
        let frame = table.frame(number);
        let unpacked = match self.frames.get(number).ok_or(Fault::Unpack)? {
            // Every byte of it is one of a record, which has a checksum.
            _ if frame.is_plain() => table.stored(&frame).ok_or(Fault::Unpack)?,
            slot => match slot.get() {
                Some(unpacked) => unpacked,
                None => {
                    let unpacked = unpack(table, &frame, self.dictionary(table)?, &self.unpacking)?;
                    let bytes = unpacked.len() as u64;
                    // Another may have been faster: then this one goes again.
                    if slot.set(unpacked).is_ok() {
                        self.count(bytes);
                    }
                    slot.get().expect("it is set")
                }
            },
        };
        let within = offset.checked_sub(frame.image.start);
        within.and_then(|within| unpacked.get(within..)).ok_or(Fault::Unpack)
    }
}

impl Drop for Packed {
    fn drop(&mut self) {
        self.unpacking.subtract(*self.bytes.get_mut());
    }
}

impl fmt::Debug for Packed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Packed").field("frames", &self.frames.len()).field("bytes", &self.bytes).finish()
    }
}

/// A file that is mapped as a whole.
fn bytes_of(file: &View) -> &[u8] {
    file.bytes(0..file.len()).expect("it never changes, so all of it is settled")
}
