//! The unpacked content of a packed segment. A damaged frame becomes zeros of the same length, so
//! later frames keep their offsets.

use quire_model::Position;

use crate::packed::{BadTable, FrameTable, PackedFrame, Unpacker, dictionary, unpack};
use crate::record::{RecordFault, RecordView};
use crate::segment::{COMPACTED_HEADER_BYTES, PackedImage};

/// See the module.
#[derive(Debug)]
pub(crate) struct UnpackedSegment {
    pub(crate) image: Vec<u8>,
    frames: Vec<(PackedFrame, Option<RecordFault>)>,
}

/// The reason why a segment cannot be unpacked.
#[derive(Debug)]
pub(crate) enum UnpackError {
    /// The table of frames or the dictionary is damaged.
    Table(BadTable),
    /// There is not enough memory. The file may be intact.
    Memory(RecordFault),
}

impl UnpackedSegment {
    /// Unpacks a file whose header describes `image`.
    ///
    /// # Errors
    /// [`UnpackError`].
    pub(crate) fn of(file: &[u8], image: PackedImage) -> Result<Self, UnpackError> {
        let table = FrameTable::verify(file, image).map_err(UnpackError::Table)?;
        let (dictionary, unpacker) = (dictionary(table).map_err(UnpackError::Memory)?, Unpacker::new(0));
        let mut unpacked = UnpackedSegment { image: Vec::new(), frames: Vec::new() };
        let bytes = image.bytes as usize;
        unpacked.image.try_reserve_exact(bytes).map_err(|_| UnpackError::Memory(RecordFault::Memory(bytes)))?;
        unpacked.image.extend_from_slice(&file[..COMPACTED_HEADER_BYTES]);
        for number in 0..table.frames() {
            let frame = table.frame(number);
            let bytes = match frame.is_plain() {
                true => Ok(table.stored(&frame).unwrap_or_default().into()),
                false => unpack(table, &frame, dictionary.as_ref(), &unpacker),
            };
            if let Err(fault @ RecordFault::Memory(_)) = bytes {
                return Err(UnpackError::Memory(fault));
            }
            unpacked.image.extend_from_slice(bytes.as_deref().unwrap_or_default());
            unpacked.image.resize(frame.image.end, 0);
            unpacked.frames.push((frame, bytes.err()));
        }
        Ok(unpacked)
    }

    /// Returns the fault of the frame that holds this byte of the image, if it could not be
    /// unpacked.
    pub(crate) fn damaged(&self, offset: usize) -> Option<RecordFault> {
        self.frames.get(self.number_of(offset))?.1
    }

    /// Returns the file offset of the frame that holds a byte of the image.
    pub(crate) fn byte_of(&self, offset: usize) -> usize {
        self.frames.get(self.number_of(offset)).map_or(0, |(frame, _)| frame.stored.start)
    }

    /// Returns the first frame after a byte of the image that begins with a valid record: its
    /// offset, and the position of the record.
    pub(crate) fn next_frame(&self, offset: usize) -> Option<(usize, Position)> {
        self.frames.iter().skip(self.number_of(offset) + 1).find_map(|(frame, _)| {
            let record = RecordView::verify(&self.image[frame.image.start..]).ok()?;
            Some((frame.image.start, record.header.position))
        })
    }

    fn number_of(&self, offset: usize) -> usize {
        self.frames.partition_point(|(frame, _)| frame.image.end <= offset)
    }
}
