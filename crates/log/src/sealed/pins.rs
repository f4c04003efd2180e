//! The segments that a reader keeps open: every sealed segment that it has read from, until it is
//! dropped.
//!
//! Entries borrow from the reader, so their segments must stay mapped. A reader that has read
//! nothing has allocated nothing.

use std::sync::{Arc, OnceLock};

use super::open::OpenSegment;

const PAGE: usize = 64;

const _: () = assert!(PAGE.is_power_of_two());

/// A segment in the view of one reader.
#[derive(Debug, Default)]
struct PinSlot {
    open: OnceLock<Arc<OpenSegment>>,
    /// Set after the segment's index was found damaged and was rebuilt.
    rebuilt: OnceLock<Arc<OpenSegment>>,
}

type PinPage = OnceLock<Box<[PinSlot]>>;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Pins {
    pages: OnceLock<Box<[PinPage]>>,
}

impl Pins {
    /// Segment `number` of `count`. The first call opens the segment with `open`.
    pub(crate) fn get<E>(
        &self,
        number: usize,
        count: usize,
        open: impl FnOnce() -> Result<Arc<OpenSegment>, E>,
    ) -> Result<&Arc<OpenSegment>, E> {
        let slot = self.slot(number, count);
        match slot.rebuilt.get().or_else(|| slot.open.get()) {
            Some(open) => Ok(open),
            None => {
                let opened = open()?;
                Ok(slot.open.get_or_init(|| opened))
            }
        }
    }

    /// The same segment with an index that `rebuild` has rebuilt.
    pub(crate) fn rebuilt<E>(
        &self,
        number: usize,
        count: usize,
        rebuild: impl FnOnce() -> Result<Arc<OpenSegment>, E>,
    ) -> Result<&Arc<OpenSegment>, E> {
        let slot = self.slot(number, count);
        if let Some(rebuilt) = slot.rebuilt.get() {
            return Ok(rebuilt);
        }
        let opened = rebuild()?;
        Ok(slot.rebuilt.get_or_init(|| opened))
    }

    /// Whether the reader has read from any segment.
    pub(crate) fn are_any(&self) -> bool {
        self.pages.get().is_some()
    }

    /// The unpacked bytes that stay in memory while this reader keeps segments open.
    pub(crate) fn unpacked_bytes(&self) -> u64 {
        let pages = self.pages.get().into_iter().flatten().filter_map(PinPage::get);
        let open = pages.flatten().flat_map(|slot| [slot.open.get(), slot.rebuilt.get()]).flatten();
        open.map(|open| open.image.unpacked_bytes()).sum()
    }

    fn slot(&self, number: usize, count: usize) -> &PinSlot {
        debug_assert!(number < count, "segment {number} of {count}");
        let pages = self.pages.get_or_init(|| (0..count.div_ceil(PAGE)).map(|_| OnceLock::new()).collect());
        debug_assert_eq!(pages.len(), count.div_ceil(PAGE), "the list of a reader never changes");
        let page = pages[number / PAGE].get_or_init(|| (0..PAGE).map(|_| PinSlot::default()).collect());
        &page[number % PAGE]
    }
}
