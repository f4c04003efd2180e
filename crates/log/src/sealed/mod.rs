//! Sealed segments: none of their bytes ever changes, and each has an index in a file of its own.
//!
//! ```text
//! a full segment ─▶ build: its records, verified ─▶ <first>.idx, written whole
//!        ─▶ SealedSegment in the list
//!               │ first read
//!               ▼
//!          Archive: both files mapped ─▶ OpenSegment ─▶ Pins of a reader
//! ```
//!
//! Memory holds a header for each segment, and the filters of segments that were searched for a
//! tag. All other content is mapped or unpacked while it is read. The archive limits the mapped
//! segments and the unpacked bytes. A lost or damaged index is rebuilt from its segment.

mod archive;
mod blocks;
mod build;
mod file;
mod filter;
mod header;
mod image;
mod index;
mod lists;
mod open;
mod pins;
pub(crate) mod scrub;
pub(crate) mod sealer;
mod varint;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use quire_model::Position;

pub(crate) use archive::Archive;
pub(crate) use build::{BuiltIndex, Numbers, build, numbers_encoded};
pub use file::{IndexFile, NumberedTag};
pub(crate) use header::{IndexHeader, is_index_of_another};
pub(crate) use image::SegmentImage;
pub(crate) use index::TagNumbers;
pub(crate) use open::{Flaw, OpenSegment};
pub(crate) use pins::Pins;

use crate::segment::TagHash;
use filter::TagFilter;

/// The part of a sealed segment that is always in memory.
#[derive(Debug)]
pub(crate) struct SealedSegment {
    pub(crate) header: IndexHeader,
    filter: OnceLock<TagFilter>,
    open: Mutex<MappedFiles>,
    /// The estimated bytes that packing saves; [`u64::MAX`] before the estimate.
    saved: AtomicU64,
}

#[derive(Debug, Default)]
struct MappedFiles {
    /// The mapped files, shared by all readers.
    files: Weak<OpenSegment>,
    /// Files that cannot be mapped again: they are removed, or the index could not be written.
    held: Option<Arc<OpenSegment>>,
}

impl SealedSegment {
    fn new(header: IndexHeader) -> Self {
        SealedSegment { header, filter: OnceLock::new(), open: Mutex::default(), saved: AtomicU64::new(u64::MAX) }
    }

    /// The bytes that packing saves, estimated once, because a sealed segment never changes.
    pub(crate) fn saved_by_packing(&self, estimate: impl FnOnce() -> Option<u64>) -> u64 {
        match self.saved.load(Ordering::Relaxed) {
            u64::MAX => {
                let Some(saved) = estimate() else { return 0 };
                debug_assert_ne!(saved, u64::MAX, "this value means that no estimate exists");
                self.saved.store(saved, Ordering::Relaxed);
                saved
            }
            saved => saved,
        }
    }

    /// Notes that packing was tried and saves too little.
    pub(crate) fn is_not_worth_packing(&self) {
        self.saved.store(0, Ordering::Relaxed);
    }

    pub(crate) fn first(&self) -> Position {
        self.header.first
    }

    /// Whether an entry with a tag of this hash may be here; `None` before the filter is loaded.
    #[inline]
    pub(crate) fn may_hold(&self, tag: TagHash) -> Option<bool> {
        self.filter.get().map(|filter| filter.may_hold(tag))
    }

    /// Prefetches the memory that [`SealedSegment::may_hold`] reads. The result has no meaning.
    #[inline]
    pub(crate) fn touch(&self, tag: TagHash) -> u32 {
        self.filter.get().map_or(0, |filter| filter.touch(tag))
    }

    /// The bytes of memory that the segment takes while it is closed.
    pub(crate) fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.filter.get().map_or(0, TagFilter::bytes)
    }

    fn mapped(&self) -> Option<Arc<OpenSegment>> {
        let mapped = self.lock();
        mapped.held.clone().or_else(|| mapped.files.upgrade())
    }

    fn lock(&self) -> MutexGuard<'_, MappedFiles> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The name of the index of the segment whose first record has this position.
pub(crate) fn index_name(first: Position) -> String {
    format!("{first:020}.idx")
}

/// Whether `name` is the name of an index.
pub(crate) fn is_index_name(name: &str) -> bool {
    name.strip_suffix(".idx").is_some_and(|first| first.len() == 20 && first.bytes().all(|byte| byte.is_ascii_digit()))
}
