//! Packed segments: what a compaction left, compressed in frames that are unpacked one by one.
//!
//! ```text
//! the image: header, records ─▶ frames of whole records ─▶ each compressed, perhaps with a dictionary of the segment's own
//!        ─▶ one file: header · table of the frames · dictionary · frames
//! ```
//!
//! The *image* is the compacted segment as it would be if it were not packed. Every offset in its index is one in the image, so that
//! nothing but this module, and who reads bytes through it, knows that a segment is packed. A frame that does not get smaller is
//! stored as it is, and is one by its length alone: what the bytes of a record look like means nothing.

mod estimate;
mod pack;
mod table;
mod unpack;

pub(crate) use estimate::{estimate, is_worth};
pub(crate) use pack::pack;
pub(crate) use table::{BadTable, Frame, Table};
pub(crate) use unpack::{Unpacking, dictionary, unpack};

/// How many bytes of the image a frame has at most, unless one record has more: a read of one entry unpacks as much (about 30 µs),
/// and larger ones hardly get smaller (docs/decisions/0020).
const FRAME_BYTES: usize = 16 << 10;

/// How hard Zstandard tries: a level that is measured, and stands in docs/decisions/0020. Unpacking takes the same time whatever it is.
const LEVEL: i32 = 3;

/// How much smaller packing has to make a segment, in percent, to be worth that reads of it unpack.
const SAVED_PERCENT_MIN: u64 = 10;

/// How many times its length a frame can come to at most: a block of 128 KiB takes 4 bytes at least.
const EXPANSION_MAX: u64 = 32 << 10;
