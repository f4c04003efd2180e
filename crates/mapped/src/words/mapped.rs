//! A small file as atomic 64-bit words, the same for every process that maps it.
//!
//! Each word is read and written whole; two words together have no such guarantee. A thread can
//! sleep until another, of any process, changes a word and wakes it.

use std::fs::File;
use std::io;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use memmap2::{MmapOptions, MmapRaw};
use quire_threads::AtomicU64;
use rustix::thread::futex::{self, Flags, Timespec};

use crate::region::check_length;

/// The words of a mapped file.
#[derive(Debug)]
pub struct SharedWords {
    raw: MmapRaw,
    count: usize,
}

impl SharedWords {
    /// Maps the first `count` words of a file.
    ///
    /// # Errors
    /// When the file is shorter than that, or the kernel refuses the mapping.
    pub fn of_file(file: &File, count: usize) -> io::Result<Self> {
        let bytes = count * size_of::<AtomicU64>();
        check_length(file, bytes)?;
        let raw = MmapOptions::new().len(bytes).map_raw(file)?;
        Ok(SharedWords { raw, count })
    }

    /// Returns a word.
    ///
    /// # Panics
    /// When `index` is out of range.
    #[inline]
    pub fn word(&self, index: usize) -> &AtomicU64 {
        &self.words()[index]
    }

    #[inline]
    fn words(&self) -> &[AtomicU64] {
        // SAFETY: The mapping begins at a page boundary, so it is aligned for 8 bytes, and holds
        // `count` words (Bounds, Length). Every access is atomic, so other threads and processes
        // may write at the same time.
        unsafe { std::slice::from_raw_parts(self.raw.as_mut_ptr().cast::<AtomicU64>(), self.count) }
    }

    /// Sleeps until the word is woken, for at most `timeout`; does not sleep when its lower 32 bits
    /// are no longer `expected`. It may also return spuriously, so the caller reads the word again.
    ///
    /// # Panics
    /// When `index` is out of range.
    pub fn wait(&self, index: usize, expected: u32, timeout: Option<Duration>) {
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        // Shared between processes, so without the flag PRIVATE. Whatever the result, the caller
        // reads the word again.
        let _ = futex::wait(self.lower_half(index), Flags::empty(), expected, timeout.as_ref());
    }

    /// Wakes at most `count` threads, of any process, that sleep on a word.
    ///
    /// # Panics
    /// When `index` is out of range.
    pub fn wake(&self, index: usize, count: u32) {
        // The kernel reads the count as a signed number, and a negative one as 1.
        let count = count.min(i32::MAX as u32);
        let _ = futex::wake(self.lower_half(index), Flags::empty(), count);
    }

    /// The half of the word that the kernel compares.
    #[cfg(target_endian = "little")]
    fn lower_half(&self, index: usize) -> &AtomicU32 {
        let word: *const AtomicU64 = self.word(index);
        // SAFETY: The word exists and is aligned, and its lower half comes first. No thread loads
        // or stores through this reference: it only passes an address to the kernel, so every
        // access of the word is one of 64 bits.
        unsafe { &*word.cast::<AtomicU32>() }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::*;

    #[test]
    fn two_mappings_of_a_file_share_their_words() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("words");
        let file = File::options().read(true).write(true).create_new(true).open(&path).unwrap();
        file.set_len(4096).unwrap();
        let one = SharedWords::of_file(&file, 512).unwrap();
        let other = SharedWords::of_file(&file, 512).unwrap();
        one.word(7).store(42, Ordering::Release);
        assert_eq!(other.word(7).load(Ordering::Acquire), 42);
    }

    #[test]
    fn a_thread_sleeps_on_a_word_until_another_mapping_changes_and_wakes_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("words");
        let file = File::options().read(true).write(true).create_new(true).open(&path).unwrap();
        file.set_len(4096).unwrap();
        let one = SharedWords::of_file(&file, 512).unwrap();
        let other = SharedWords::of_file(&file, 512).unwrap();
        one.wait(3, 1, None);
        std::thread::scope(|scope| {
            let sleep = || {
                while one.word(3).load(Ordering::Acquire) == 0 {
                    one.wait(3, 0, None);
                }
            };
            let sleepers = [scope.spawn(sleep), scope.spawn(sleep), scope.spawn(sleep)];
            other.word(3).store(1, Ordering::Release);
            other.wake(3, u32::MAX);
            sleepers.into_iter().for_each(|sleeper| sleeper.join().unwrap());
        });
    }

    #[test]
    fn a_file_too_short_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("words");
        let file = File::options().read(true).write(true).create_new(true).open(&path).unwrap();
        file.set_len(100).unwrap();
        assert_eq!(SharedWords::of_file(&file, 512).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }
}
