//! What a reader keeps open: each sealed segment that it has touched, for as long as it lives.
//!
//! Entries are borrowed from the reader, so what they stand in must not be closed under them. A reader that has touched
//! nothing has allocated nothing.

use std::sync::{Arc, OnceLock};

use super::open::Open;

const PAGE: usize = 64;

/// A segment as this reader sees it.
#[derive(Debug, Default)]
struct Slot {
    open: OnceLock<Arc<Open>>,
    /// Set when the index turned out to be damaged and was made anew.
    rebuilt: OnceLock<Arc<Open>>,
}

type Page = OnceLock<Box<[Slot]>>;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Pins {
    pages: OnceLock<Box<[Page]>>,
}

impl Pins {
    /// The segment with this number of `count`, opened by `open` if need be.
    pub(crate) fn get<E>(
        &self,
        number: usize,
        count: usize,
        open: impl FnOnce() -> Result<Arc<Open>, E>,
    ) -> Result<&Arc<Open>, E> {
        let slot = self.slot(number, count);
        match slot.rebuilt.get().or_else(|| slot.open.get()) {
            Some(open) => Ok(open),
            None => {
                let opened = open()?;
                Ok(slot.open.get_or_init(|| opened))
            }
        }
    }

    /// The segment again, with an index that was made anew by `rebuild`.
    pub(crate) fn rebuilt<E>(
        &self,
        number: usize,
        count: usize,
        rebuild: impl FnOnce() -> Result<Arc<Open>, E>,
    ) -> Result<&Arc<Open>, E> {
        let slot = self.slot(number, count);
        if let Some(rebuilt) = slot.rebuilt.get() {
            return Ok(rebuilt);
        }
        let opened = rebuild()?;
        Ok(slot.rebuilt.get_or_init(|| opened))
    }

    /// Whether any segment was touched.
    pub(crate) fn are_any(&self) -> bool {
        self.pages.get().is_some()
    }

    /// How much of packed segments is in memory as long as they are open here.
    pub(crate) fn unpacked_bytes(&self) -> u64 {
        let pages = self.pages.get().into_iter().flatten().filter_map(Page::get);
        let open = pages.flatten().flat_map(|slot| [slot.open.get(), slot.rebuilt.get()]).flatten();
        open.map(|open| open.image.unpacked_bytes()).sum()
    }

    fn slot(&self, number: usize, count: usize) -> &Slot {
        let pages = self.pages.get_or_init(|| (0..count.div_ceil(PAGE)).map(|_| OnceLock::new()).collect());
        let page = pages[number / PAGE].get_or_init(|| (0..PAGE).map(|_| Slot::default()).collect());
        &page[number % PAGE]
    }
}
