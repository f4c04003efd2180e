//! Unpacking a frame: its checksum first, then into as many bytes as the table says that it comes to, and not one more.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use zstd::zstd_safe::{DCtx, DDict, get_frame_content_size};

use super::table::{Frame, Table};
use crate::checksum::crc32c;
use crate::record::Fault;

/// About how much memory Zstandard takes for the state of a decompressor.
const CONTEXT_BYTES: usize = 160 << 10;

/// What a reader may keep whatever others do: this part of what may stay, and no more than so many bytes.
const OWN_PART: u64 = 16;
const OWN_BYTES: u64 = 256 << 10;

/// How many times as much of a segment stays mapped for who comes next.
const OPEN_TIMES: u64 = 4;

/// What all who unpack frames share: what it takes to do so, and how many bytes it came to.
pub(crate) struct Unpacking {
    /// How much of what is unpacked stays in memory though nobody reads it, at most.
    bytes_max: u64,
    /// How many bytes of memory packed segments take that are open, whoever reads them.
    bytes: AtomicU64,
    /// The state of decompressors that nobody is using just now: as many as ever worked at once.
    spare: Mutex<Vec<DCtx<'static>>>,
}

impl Unpacking {
    pub(crate) fn new(bytes_max: u64) -> Arc<Self> {
        Arc::new(Unpacking { bytes_max, bytes: AtomicU64::new(0), spare: Mutex::default() })
    }

    pub(crate) fn bytes_max(&self) -> u64 {
        self.bytes_max
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Whether more is in memory than would stay if nobody read it.
    pub(crate) fn is_over(&self) -> bool {
        self.bytes() > self.bytes_max
    }

    /// How much a reader keeps at least before it is to let go of it, whatever others keep: else each of many readers would unpack a
    /// frame anew for each entry in it.
    pub(crate) fn own_bytes_least(&self) -> u64 {
        (self.bytes_max / OWN_PART).min(OWN_BYTES)
    }

    /// How much of a segment those who read it at a time share at most, where there is too much.
    pub(crate) fn open_bytes_most(&self) -> u64 {
        OPEN_TIMES * self.own_bytes_least()
    }

    pub(crate) fn add(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn subtract(&self, bytes: u64) {
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    fn spare(&self) -> MutexGuard<'_, Vec<DCtx<'static>>> {
        self.spare.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Unpacking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Unpacking").field("bytes_max", &self.bytes_max).field("bytes", &self.bytes).finish()
    }
}

/// The dictionary of a segment, made ready; `None` when it has none.
///
/// # Errors
/// [`Fault::Memory`]. Its bytes were verified, so nothing else is in the way.
pub(crate) fn dictionary(table: Table<'_>) -> Result<Option<DDict<'static>>, Fault> {
    let Some(bytes) = table.dictionary().filter(|bytes| !bytes.is_empty()) else { return Ok(None) };
    DDict::try_create(bytes).map(Some).ok_or(Fault::Memory(bytes.len()))
}

/// The bytes of the image that a frame stands for, which is compressed.
///
/// # Errors
/// [`Fault::Frame`], [`Fault::Unpack`] and [`Fault::Memory`].
pub(crate) fn unpack(
    table: Table<'_>,
    frame: &Frame,
    dictionary: Option<&DDict<'static>>,
    unpacking: &Unpacking,
) -> Result<Box<[u8]>, Fault> {
    let stored = table.stored(frame).ok_or(Fault::Unpack)?;
    let computed = crc32c(stored);
    if computed != frame.crc {
        return Err(Fault::Frame { stored: frame.crc, computed });
    }
    let length = frame.image.len();
    // What the frame says of itself has to be what the table says, before memory is taken for it.
    if !matches!(get_frame_content_size(stored), Ok(Some(size)) if size == length as u64) {
        return Err(Fault::Unpack);
    }
    let mut image = Vec::new();
    image.try_reserve_exact(length).map_err(|_| Fault::Memory(length))?;
    let spare = unpacking.spare().pop();
    let mut context = spare.or_else(DCtx::try_create).ok_or(Fault::Memory(CONTEXT_BYTES))?;
    let unpacked = match dictionary {
        Some(dictionary) => context.decompress_using_ddict(&mut image, stored, dictionary),
        None => context.decompress(&mut image, stored),
    };
    unpacking.spare().push(context);
    match unpacked {
        Ok(bytes) if bytes == length => Ok(image.into_boxed_slice()),
        _ => Err(Fault::Unpack),
    }
}
