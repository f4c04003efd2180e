//! A mapping with a settled prefix: one appender writes above the mark, every view reads below it.
//!
//! It does not interpret the bytes, and makes nothing durable: that is up to the owner of the file.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::sync::Arc;

#[cfg(target_os = "linux")]
use memmap2::{Advice, UncheckedAdvice};
use memmap2::{MmapMut, MmapOptions, MmapRaw};
use quire_threads::{AtomicUsize, Ordering};

/// The granularity of unmapping: at least the page size of every machine this runs on.
#[cfg(target_os = "linux")]
const PAGE_BYTES: usize = 64 << 10;

#[derive(Debug)]
struct Region {
    raw: MmapRaw,
    /// Bytes below the mark never change. Only the appender moves it, and only upwards. A reader
    /// that loads it with `Acquire` sees the bytes that were written before the `Release` store.
    settled: AtomicUsize,
    /// Whether a file backs this memory.
    of_file: bool,
    /// [`View::sync_to`] unmapped the bytes below this mark. The next access to them maps them
    /// again.
    let_go: AtomicUsize,
}

impl Region {
    fn check(&self, range: &Range<usize>) {
        let length = self.raw.len();
        assert!(
            range.start <= range.end && range.end <= length,
            "bytes {range:?} are outside the mapping of {length} bytes"
        );
    }
}

/// Checks that a file has at least `bytes` bytes.
pub(crate) fn check_length(file: &File, bytes: usize) -> io::Result<()> {
    let length = file.metadata()?.len();
    if length < bytes as u64 {
        let message = format!("the file is too short to map: {length} bytes, expected at least {bytes}");
        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, message));
    }
    Ok(())
}

/// The one writer of a mapping.
#[derive(Debug)]
pub struct Appender {
    region: Arc<Region>,
}

/// A reader of the settled bytes of a mapping; it keeps the mapping alive.
#[derive(Debug, Clone)]
pub struct View {
    region: Arc<Region>,
}

impl Appender {
    /// Maps the first `bytes` bytes of a file, of which the first `settled` never change.
    ///
    /// # Errors
    /// When the file is shorter than `bytes`, or the kernel refuses the mapping.
    ///
    /// # Panics
    /// When `settled` is greater than `bytes`.
    pub fn of_file(file: &File, bytes: usize, settled: usize) -> io::Result<Self> {
        assert!(settled <= bytes, "the settled mark {settled} exceeds the mapping of {bytes} bytes");
        check_length(file, bytes)?;
        let raw = MmapOptions::new().len(bytes).map_raw(file)?;
        Ok(Self::new(raw, settled, true))
    }

    /// Allocates `bytes` zero bytes that behave like a mapped file, for callers without a file, and
    /// for files that must not be changed.
    ///
    /// # Errors
    /// When the kernel can't provide the memory.
    pub fn in_memory(bytes: usize) -> io::Result<Self> {
        Ok(Self::new(MmapRaw::from(MmapMut::map_anon(bytes)?), 0, false))
    }

    fn new(raw: MmapRaw, settled: usize, of_file: bool) -> Self {
        let region = Region { raw, settled: AtomicUsize::new(settled), of_file, let_go: AtomicUsize::new(0) };
        Appender { region: Arc::new(region) }
    }

    /// The number of mapped bytes.
    pub fn len(&self) -> usize {
        self.region.raw.len()
    }

    /// Whether the mapping is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The end of the settled bytes.
    pub fn settled(&self) -> usize {
        self.region.settled.load(Ordering::Relaxed)
    }

    /// Creates another reader.
    pub fn view(&self) -> View {
        View { region: Arc::clone(&self.region) }
    }

    /// Returns bytes on either side of the mark, to check them before they are settled.
    ///
    /// # Panics
    /// When the range is outside the mapping.
    pub fn bytes(&self, range: Range<usize>) -> &[u8] {
        self.region.check(&range);
        // SAFETY: Bounds was checked. Below the mark, Settled holds. Above it only this appender
        // writes (One appender), and it can't while `self` is borrowed. The memory is initialised:
        // pages of a file, or zeroes.
        unsafe { std::slice::from_raw_parts(self.region.raw.as_ptr().wrapping_add(range.start), range.len()) }
    }

    /// Returns bytes above the mark for writing.
    ///
    /// # Panics
    /// When the range is outside the mapping, or begins below the mark.
    pub fn bytes_mut(&mut self, range: Range<usize>) -> &mut [u8] {
        self.region.check(&range);
        let settled = self.settled();
        assert!(range.start >= settled, "bytes {range:?} begin below the settled mark {settled}");
        // SAFETY: Bounds was checked. The range is above the mark, where no view reads and only
        // this appender writes (One appender). The appender is borrowed for as long as the slice
        // lives.
        unsafe { std::slice::from_raw_parts_mut(self.region.raw.as_mut_ptr().wrapping_add(range.start), range.len()) }
    }

    /// Returns all bytes as words in the machine's byte order, without an incomplete last word.
    pub fn words(&self) -> &[u32] {
        let words = self.len() / size_of::<u32>();
        // SAFETY: Same as in `bytes`, for the whole mapping (Bounds). A mapping begins at a page,
        // which is aligned for words, and any four bytes are a valid word.
        unsafe { std::slice::from_raw_parts(self.region.raw.as_ptr().cast(), words) }
    }

    /// Returns all bytes as words, for writing.
    ///
    /// # Panics
    /// When any byte is settled.
    pub fn words_mut(&mut self) -> &mut [u32] {
        assert_eq!(self.settled(), 0, "settled bytes never change");
        let words = self.len() / size_of::<u32>();
        // SAFETY: Same as in `bytes_mut`, for the whole mapping (Bounds, One appender), in which no
        // byte is settled, so no view reads any. A mapping begins at a page, which is aligned for
        // words, and any four bytes are a valid word.
        unsafe { std::slice::from_raw_parts_mut(self.region.raw.as_mut_ptr().cast(), words) }
    }

    /// Moves the mark up: every view can now read the bytes below it, and they never change again.
    ///
    /// # Panics
    /// When the mark would move down, or beyond the end.
    pub fn settle(&mut self, mark: usize) {
        assert!(
            mark >= self.settled() && mark <= self.len(),
            "the settled mark can't move from {} to {mark} of {}",
            self.settled(),
            self.len()
        );
        self.region.settled.store(mark, Ordering::Release);
    }
}

impl View {
    /// Maps the first `bytes` bytes of a file, which never change, for reading only.
    ///
    /// # Errors
    /// When the file is shorter than that, or the kernel refuses the mapping.
    pub fn of_file(file: &File, bytes: usize) -> io::Result<Self> {
        check_length(file, bytes)?;
        let raw = MmapOptions::new().len(bytes).map_raw_read_only(file)?;
        Ok(Appender::new(raw, bytes, true).view())
    }

    /// Returns settled bytes; `None` when the range is not entirely below the mark.
    pub fn bytes(&self, range: Range<usize>) -> Option<&[u8]> {
        if range.start > range.end || range.end > self.region.settled.load(Ordering::Acquire) {
            return None;
        }
        // SAFETY: The range lies below the mark, which never exceeds the mapping's length (Bounds,
        // Length). Bytes below the mark never change (Settled). The `Acquire` load saw the store
        // that followed the write of the bytes.
        Some(unsafe { std::slice::from_raw_parts(self.region.raw.as_ptr().wrapping_add(range.start), range.len()) })
    }

    /// The end of the settled bytes.
    pub fn settled(&self) -> usize {
        self.region.settled.load(Ordering::Acquire)
    }

    /// The number of mapped bytes.
    pub fn len(&self) -> usize {
        self.region.raw.len()
    }

    /// Whether the mapping is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Makes the first `end` bytes durable, and the rest of their last page. It is an `fdatasync`
    /// of the mapped file that skips the bytes after `end`: `msync` with `MS_SYNC` includes the
    /// file's metadata and the device's cache.
    ///
    /// # Errors
    /// The system's errors. After one, nothing is known about the bytes written since the last sync
    /// of the file.
    ///
    /// # Panics
    /// When the mapping has fewer than `end` bytes.
    pub fn sync_to(&self, end: usize) -> io::Result<()> {
        self.region.check(&(0..end));
        #[cfg(target_os = "linux")]
        self.let_go_of_settled(end);
        self.region.raw.flush_range(0, end)
    }

    /// Unmaps the whole pages of settled bytes below `end`, once each. A sync write-protects each
    /// page that is mapped for writing, and each time interrupts the processors that may write to
    /// it. Unmapping all of them interrupts once.
    #[cfg(target_os = "linux")]
    fn let_go_of_settled(&self, end: usize) {
        let end = end.min(self.settled()) / PAGE_BYTES * PAGE_BYTES;
        let begin = self.region.let_go.fetch_max(end, Ordering::Relaxed);
        if begin < end && self.region.of_file {
            // SAFETY: The mapping is shared with its file. An access to an unmapped page, through a
            // slice from before or after, maps the page again from the file. The bytes are the
            // same: below the mark they never change (Settled).
            let _ = unsafe { self.region.raw.unchecked_advise_range(UncheckedAdvice::DontNeed, begin, end - begin) };
        }
    }

    /// Prepares the pages of a range for writing, as if each had been written to. Later writes then
    /// do not wait for the kernel. Where the system does not support this, the first writes wait as
    /// usual.
    ///
    /// # Panics
    /// When the range is outside the mapping.
    pub fn populate(&self, range: Range<usize>) {
        self.region.check(&range);
        #[cfg(target_os = "linux")]
        let _ = self.region.raw.advise_range(Advice::PopulateWrite, range.start, range.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_view_reads_settled_bytes_only() {
        let mut appender = Appender::in_memory(64).unwrap();
        let view = appender.view();
        appender.bytes_mut(0..5).copy_from_slice(b"quire");
        assert_eq!(view.bytes(0..5), None);
        appender.settle(5);
        assert_eq!(view.bytes(0..5), Some(&b"quire"[..]));
        assert_eq!(view.bytes(0..6), None);
        assert_eq!(appender.bytes(5..7), [0, 0]);
    }

    #[test]
    fn a_file_that_may_not_be_written_is_mapped_to_be_read() {
        let path = tempfile::tempdir().unwrap();
        let path = path.path().join("file");
        std::fs::write(&path, b"quire").unwrap();
        let file = File::open(&path).unwrap();
        let view = View::of_file(&file, 5).unwrap();
        assert_eq!((view.bytes(0..5), view.settled()), (Some(&b"quire"[..]), 5));
        assert_eq!(View::of_file(&file, 6).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        assert!(Appender::of_file(&file, 5, 5).is_err(), "to be written");
    }

    #[test]
    fn words_are_the_bytes_of_the_mapping() {
        let mut appender = Appender::in_memory(4096).unwrap();
        appender.words_mut()[1] = u32::from_le_bytes(*b"quir");
        assert_eq!((appender.words().len(), appender.bytes(4..8)), (1024, &b"quir"[..]));
    }

    #[test]
    #[should_panic(expected = "settled bytes never change")]
    fn words_are_not_handed_out_for_writing_once_any_are_settled() {
        let mut appender = Appender::in_memory(64).unwrap();
        appender.settle(8);
        appender.words_mut();
    }

    #[test]
    fn populated_bytes_that_are_synced_keep_their_content() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(64 << 10).unwrap();
        let mut appender = Appender::of_file(&file, 64 << 10, 0).unwrap();
        let view = appender.view();
        view.populate(4096..64 << 10);
        assert!(appender.bytes(0..64 << 10).iter().all(|byte| *byte == 0));
        appender.bytes_mut(4090..4102).fill(7);
        view.populate(100..5000);
        view.sync_to(4102).unwrap();
        appender.settle(4102);
        assert_eq!(view.bytes(4090..4102), Some(&[7; 12][..]));
    }

    #[test]
    fn unmapped_bytes_read_as_before() {
        const BYTES: usize = 1 << 20;
        let file = tempfile::tempfile().unwrap();
        file.set_len(BYTES as u64).unwrap();
        let mut appender = Appender::of_file(&file, BYTES, 0).unwrap();
        let view = appender.view();
        for (mark, byte) in [(300_000, 1), (700_000, 2), (BYTES, 3)] {
            appender.bytes_mut(view.settled()..mark).fill(byte);
            appender.settle(mark);
            let before = view.bytes(0..mark).unwrap();
            let copy = before.to_vec();
            view.sync_to(mark).unwrap();
            assert_eq!((before, view.bytes(0..mark).unwrap()), (&copy[..], &copy[..]));
        }
        assert_eq!(view.bytes(299_999..300_001), Some(&[1, 2][..]));
    }

    #[test]
    fn memory_without_a_file_is_never_unmapped() {
        const BYTES: usize = 1 << 20;
        let mut appender = Appender::in_memory(BYTES).unwrap();
        appender.bytes_mut(0..BYTES).fill(7);
        appender.settle(BYTES);
        let view = appender.view();
        view.sync_to(BYTES).unwrap();
        assert!(view.bytes(0..BYTES).unwrap().iter().all(|byte| *byte == 7));
    }

    #[test]
    #[should_panic(expected = "below the settled mark")]
    fn settled_bytes_are_not_handed_out_for_writing() {
        let mut appender = Appender::in_memory(64).unwrap();
        appender.settle(8);
        appender.bytes_mut(7..9);
    }

    #[test]
    #[should_panic(expected = "outside the mapping")]
    fn a_range_past_the_end_is_refused() {
        let mut appender = Appender::in_memory(64).unwrap();
        let end = appender.len() + 1;
        appender.bytes_mut(0..end);
    }

    #[test]
    #[should_panic(expected = "can't move")]
    fn the_mark_never_moves_down() {
        let mut appender = Appender::in_memory(64).unwrap();
        appender.settle(8);
        appender.settle(7);
    }
}
