//! Packed segments: compacted segments, compressed in frames that are unpacked one by one.
//!
//! ```text
//! the image: header, records ─▶ frames of whole records
//!        ─▶ each compressed, maybe with a dictionary
//!        ─▶ one file: header · table of the frames · dictionary · frames
//! ```
//!
//! The *image* is the content of the compacted segment before packing. Every offset in its index is
//! an offset in the image. Only this module, and code that reads bytes with it, depends on packing.
//! A frame that does not get smaller is stored uncompressed. Its length alone shows that: the bytes
//! of a record can have any content.

mod estimate;
mod pack;
mod table;
mod unpack;

pub(crate) use estimate::{estimate, is_worth};
pub(crate) use pack::pack;
pub(crate) use table::{BadTable, FrameTable, PackedFrame};
pub(crate) use unpack::{Unpacker, dictionary, unpack};

/// Most bytes of the image in a frame, except that one record may have more. Reading one entry
/// unpacks one frame, in about 30 µs. Larger frames save little more (docs/decisions/0020).
const FRAME_BYTES: usize = 16 << 10;

/// The compression level of Zstandard, measured in docs/decisions/0020. Unpacker takes the same
/// time at every level.
const LEVEL: i32 = 3;

/// The least saving, in percent, that is worth the cost of unpacking.
const SAVED_PERCENT_MIN: u64 = 10;

const _: () = assert!(SAVED_PERCENT_MIN <= 100);

/// Most bytes of the image for each stored byte: a block of 128 KiB takes at least 4 bytes.
const EXPANSION_MAX: u64 = 32 << 10;

const _: () = assert!(EXPANSION_MAX == (128 << 10) / 4);
