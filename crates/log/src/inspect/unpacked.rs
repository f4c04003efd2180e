//! What a packed segment comes to, also where frames of it are damaged: these are zeros, and the next frame begins where it should.

use quire_model::Position;

use crate::packed::{BadTable, Frame, Table, Unpacking, dictionary, unpack};
use crate::record::{Fault, RecordView};
use crate::segment::{COMPACTED_HEADER_BYTES, PackedImage};

/// See the module.
#[derive(Debug)]
pub(super) struct Unpacked {
    pub(super) image: Vec<u8>,
    frames: Vec<(Frame, Option<Fault>)>,
}

/// Why nothing is known of what a segment comes to.
#[derive(Debug)]
pub(super) enum NotUnpacked {
    /// What is not as it was written, of the table of frames and of the dictionary.
    Table(BadTable),
    /// It may all be as it was written: there is no memory for it.
    Memory(Fault),
}

impl Unpacked {
    /// Of a file whose header says what it comes to.
    ///
    /// # Errors
    /// [`NotUnpacked`].
    pub(super) fn of(file: &[u8], image: PackedImage) -> Result<Self, NotUnpacked> {
        let table = Table::verify(file, image).map_err(NotUnpacked::Table)?;
        let (dictionary, unpacking) = (dictionary(table).map_err(NotUnpacked::Memory)?, Unpacking::new(0));
        let mut unpacked = Unpacked { image: Vec::new(), frames: Vec::new() };
        let bytes = image.bytes as usize;
        unpacked.image.try_reserve_exact(bytes).map_err(|_| NotUnpacked::Memory(Fault::Memory(bytes)))?;
        unpacked.image.extend_from_slice(&file[..COMPACTED_HEADER_BYTES]);
        for number in 0..table.frames() {
            let frame = table.frame(number);
            let bytes = match frame.is_plain() {
                true => Ok(table.stored(&frame).unwrap_or_default().into()),
                false => unpack(table, &frame, dictionary.as_ref(), &unpacking),
            };
            if let Err(fault @ Fault::Memory(_)) = bytes {
                return Err(NotUnpacked::Memory(fault));
            }
            unpacked.image.extend_from_slice(bytes.as_deref().unwrap_or_default());
            unpacked.image.resize(frame.image.end, 0);
            unpacked.frames.push((frame, bytes.err()));
        }
        Ok(unpacked)
    }

    /// Why the frame that holds this byte of the image could not be unpacked.
    pub(super) fn damaged(&self, offset: usize) -> Option<Fault> {
        self.frames.get(self.number_of(offset))?.1
    }

    /// Where in the file the frame stands that holds a byte of the image.
    pub(super) fn byte_of(&self, offset: usize) -> usize {
        self.frames.get(self.number_of(offset)).map_or(0, |(frame, _)| frame.stored.start)
    }

    /// The first frame behind a byte of the image that begins with a record that verifies: where, and the record's position.
    pub(super) fn next_frame(&self, offset: usize) -> Option<(usize, Position)> {
        self.frames.iter().skip(self.number_of(offset) + 1).find_map(|(frame, _)| {
            let record = RecordView::verify(&self.image[frame.image.start..]).ok()?;
            Some((frame.image.start, record.header.position))
        })
    }

    fn number_of(&self, offset: usize) -> usize {
        self.frames.partition_point(|(frame, _)| frame.image.end <= offset)
    }
}
