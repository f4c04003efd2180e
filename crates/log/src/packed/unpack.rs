//! Unpacks a frame: verifies its checksum, then decompresses it to exactly the length in the table.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use zstd::zstd_safe::{DCtx, DDict, get_frame_content_size};

use super::table::{FrameTable, PackedFrame};
use crate::checksum::crc32c;
use crate::record::RecordFault;

/// Approximate memory of a decompressor's state.
const CONTEXT_BYTES: usize = 160 << 10;

/// A reader may always keep this part of `bytes_max`, at most [`OWN_BYTES`].
const OWN_PART: u64 = 16;
const OWN_BYTES: u64 = 256 << 10;

/// A segment stays open for later readers up to this many times a reader's own part.
const OPEN_TIMES: u64 = 4;

/// The state that all readers of packed segments share: decompressors, and a count of unpacked
/// bytes.
pub(crate) struct Unpacker {
    /// Most unpacked bytes that stay in memory without a reader.
    bytes_max: u64,
    /// The memory of the open packed segments, in bytes.
    bytes: AtomicU64,
    /// Idle decompressors: as many as ever ran at once.
    spare: Mutex<Vec<DCtx<'static>>>,
}

impl Unpacker {
    pub(crate) fn new(bytes_max: u64) -> Arc<Self> {
        Arc::new(Unpacker { bytes_max, bytes: AtomicU64::new(0), spare: Mutex::default() })
    }

    pub(crate) fn bytes_max(&self) -> u64 {
        self.bytes_max
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Whether more bytes are in memory than may stay without a reader.
    pub(crate) fn is_over(&self) -> bool {
        self.bytes() > self.bytes_max
    }

    /// Bytes that a reader may always keep, whatever other readers keep. Without this part, many
    /// readers would each unpack a frame again for every entry in it.
    pub(crate) fn own_bytes_least(&self) -> u64 {
        let bytes = (self.bytes_max / OWN_PART).min(OWN_BYTES);
        debug_assert!(bytes <= self.bytes_max, "a reader's own part is within the limit");
        bytes
    }

    /// Most bytes of a segment that its readers share when memory is short.
    pub(crate) fn open_bytes_most(&self) -> u64 {
        OPEN_TIMES * self.own_bytes_least()
    }

    pub(crate) fn add(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn subtract(&self, bytes: u64) {
        let before = self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        assert!(before >= bytes, "{bytes} bytes subtracted from {before}");
    }

    fn spare(&self) -> MutexGuard<'_, Vec<DCtx<'static>>> {
        self.spare.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Unpacker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Unpacker").field("bytes_max", &self.bytes_max).field("bytes", &self.bytes).finish()
    }
}

/// Prepares the dictionary of a segment; `None` when the segment has none.
///
/// # Errors
/// [`RecordFault::Memory`]. The bytes of the dictionary were verified before.
pub(crate) fn dictionary(table: FrameTable<'_>) -> Result<Option<DDict<'static>>, RecordFault> {
    let Some(bytes) = table.dictionary().filter(|bytes| !bytes.is_empty()) else { return Ok(None) };
    DDict::try_create(bytes).map(Some).ok_or(RecordFault::Memory(bytes.len()))
}

/// Returns the bytes of the image that a compressed frame holds.
///
/// # Errors
/// [`RecordFault::Frame`], [`RecordFault::Unpack`] and [`RecordFault::Memory`].
pub(crate) fn unpack(
    table: FrameTable<'_>,
    frame: &PackedFrame,
    dictionary: Option<&DDict<'static>>,
    unpacker: &Unpacker,
) -> Result<Box<[u8]>, RecordFault> {
    let stored = table.stored(frame).ok_or(RecordFault::Unpack)?;
    let computed = crc32c(stored);
    if computed != frame.crc {
        return Err(RecordFault::Frame { stored: frame.crc, computed });
    }
    let length = frame.image.len();
    // The frame's own length must match the table before memory is allocated.
    if !matches!(get_frame_content_size(stored), Ok(Some(size)) if size == length as u64) {
        return Err(RecordFault::Unpack);
    }
    let mut image = Vec::new();
    image.try_reserve_exact(length).map_err(|_| RecordFault::Memory(length))?;
    let spare = unpacker.spare().pop();
    let mut context = spare.or_else(DCtx::try_create).ok_or(RecordFault::Memory(CONTEXT_BYTES))?;
    let unpacked = match dictionary {
        Some(dictionary) => context.decompress_using_ddict(&mut image, stored, dictionary),
        None => context.decompress(&mut image, stored),
    };
    unpacker.spare().push(context);
    match unpacked {
        Ok(bytes) if bytes == length => Ok(image.into_boxed_slice()),
        _ => Err(RecordFault::Unpack),
    }
}
