//! A small file seen as atomic 64-bit words, the same for every process that maps it.
//!
//! Each word is read and written whole; nothing is promised of two words together.

use std::fs::File;
use std::io;
use std::sync::atomic::AtomicU64;

use memmap2::{MmapOptions, MmapRaw};

/// So many words of a mapped file.
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
        let length = file.metadata()?.len();
        if length < bytes as u64 {
            let message = format!("the file has {length} bytes where {bytes} are to be mapped");
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, message));
        }
        let raw = MmapOptions::new().len(bytes).map_raw(file)?;
        Ok(SharedWords { raw, count })
    }

    /// The words.
    pub fn words(&self) -> &[AtomicU64] {
        // SAFETY: The mapping begins at a page boundary, so it is aligned for 8 bytes, and holds `count` words (Bounds,
        // Length). Every access goes through an atomic, so other threads and processes may write at the same time.
        unsafe { std::slice::from_raw_parts(self.raw.as_mut_ptr().cast::<AtomicU64>(), self.count) }
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
        one.words()[7].store(42, Ordering::Release);
        assert_eq!(other.words()[7].load(Ordering::Acquire), 42);
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
