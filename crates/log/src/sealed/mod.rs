//! Sealed segments: no byte of them changes, and each has an index in a file of its own.
//!
//! ```text
//! a full segment ─▶ build: its records, verified ─▶ <first>.idx, written whole ─▶ Sealed in the log's list
//!                                                                                      │ first read
//!                                                         Pins of a reader ◀─ Open ◀─ Archive: both files mapped
//! ```
//!
//! In memory stand a header for each segment, and the filter of those that were asked for a tag. All else is mapped while
//! it is read, or unpacked, and the archive bounds how many are, and how much. An index that is lost or damaged is made anew from its segment.

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
pub(crate) use build::{Built, Numbers, build, numbers_encoded};
pub use file::{IndexFile, NumberedTag};
pub(crate) use header::{IndexHeader, is_index_of_another};
pub(crate) use image::Image;
pub(crate) use index::Numbered;
pub(crate) use open::{Flaw, Open};
pub(crate) use pins::Pins;

use crate::segment::TagHash;
use filter::Filter;

/// A sealed segment: what of it is always in memory.
#[derive(Debug)]
pub(crate) struct Sealed {
    pub(crate) header: IndexHeader,
    filter: OnceLock<Filter>,
    open: Mutex<Mapped>,
    /// How many bytes packing it would save, [`u64::MAX`] until that was estimated.
    saved: AtomicU64,
}

#[derive(Debug, Default)]
struct Mapped {
    /// The files while they are mapped, so that they are mapped once for everyone.
    files: Weak<Open>,
    /// What can't be mapped again: an index that could not be written, or files that are gone.
    held: Option<Arc<Open>>,
}

impl Sealed {
    fn new(header: IndexHeader) -> Self {
        Sealed { header, filter: OnceLock::new(), open: Mutex::default(), saved: AtomicU64::new(u64::MAX) }
    }

    /// How many bytes packing it would save, estimated by this if it was not before: no byte of it changes.
    pub(crate) fn saved_by_packing(&self, estimate: impl FnOnce() -> Option<u64>) -> u64 {
        match self.saved.load(Ordering::Relaxed) {
            u64::MAX => {
                let Some(saved) = estimate() else { return 0 };
                self.saved.store(saved, Ordering::Relaxed);
                saved
            }
            saved => saved,
        }
    }

    /// It was tried, and is not worth it.
    pub(crate) fn is_not_worth_packing(&self) {
        self.saved.store(0, Ordering::Relaxed);
    }

    pub(crate) fn first(&self) -> Position {
        self.header.first
    }

    /// Whether an entry with a tag of this hash may be here; by the filter, once it is loaded.
    #[inline]
    pub(crate) fn may_hold(&self, tag: TagHash) -> Option<bool> {
        self.filter.get().map(|filter| filter.may_hold(tag))
    }

    /// Has the processor fetch what [`Sealed::may_hold`] looks at; what it gives means nothing.
    #[inline]
    pub(crate) fn touch(&self, tag: TagHash) -> u32 {
        self.filter.get().map_or(0, |filter| filter.touch(tag))
    }

    /// The bytes of memory that it takes while it is closed.
    pub(crate) fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.filter.get().map_or(0, Filter::bytes)
    }

    fn mapped(&self) -> Option<Arc<Open>> {
        let mapped = self.lock();
        mapped.held.clone().or_else(|| mapped.files.upgrade())
    }

    fn lock(&self) -> MutexGuard<'_, Mapped> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The name of the index of the segment whose first record has this position.
pub(crate) fn index_name(first: Position) -> String {
    format!("{first:020}.idx")
}

/// Whether a file of this name is the index of a segment.
pub(crate) fn is_index_name(name: &str) -> bool {
    name.strip_suffix(".idx").is_some_and(|first| first.len() == 20 && first.bytes().all(|byte| byte.is_ascii_digit()))
}
