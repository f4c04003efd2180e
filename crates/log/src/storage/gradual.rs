//! Files that are written while others commit.

use std::fmt;
use std::io;
use std::ops::Range;

use super::StoredFile;

/// What is written in the background is written out each time that it is so many bytes. The sync of a commit waits for all that the disk was
/// given before it: for 64 MiB at once 16 to 37 ms, for such pieces 0.4 to 0.9 (Linux 6.18, ext4, a virtual disk of 1.2 GB a second).
pub(crate) const PIECE_BYTES: u64 = 256 << 10;

/// A file that is written little by little, so that nobody who syncs another waits long. In the end it is to be synced, as any other.
pub struct Gradual<'f> {
    file: &'f dyn StoredFile,
    /// Bytes that were written, and not written out.
    behind: Range<u64>,
    piece_bytes: u64,
}

impl<'f> Gradual<'f> {
    /// A new file.
    pub fn of(file: &'f dyn StoredFile) -> Self {
        Gradual { file, behind: 0..0, piece_bytes: PIECE_BYTES }
    }

    /// The same of a file that is left to the sync at its end: where nobody waits for syncs, pieces would wait for the disk one by one.
    pub(crate) fn at_once(file: &'f dyn StoredFile) -> Self {
        Gradual { piece_bytes: u64::MAX, ..Gradual::of(file) }
    }

    /// Writes all bytes, at an offset: behind those that were written before, or anywhere, if they are few and the last ones.
    ///
    /// # Errors
    /// As of the system: what becomes of the file is then unknown, and no later sync of it changes that.
    pub fn write_at(&mut self, bytes: &[u8], mut offset: u64) -> io::Result<()> {
        for piece in bytes.chunks(PIECE_BYTES as usize) {
            self.file.write_at(piece, offset)?;
            offset += piece.len() as u64;
            self.behind.end = self.behind.end.max(offset);
            let bytes = self.behind.end - self.behind.start;
            if bytes >= self.piece_bytes {
                self.file.write_out(self.behind.start, bytes)?;
                self.behind.start = self.behind.end;
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Gradual<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gradual").field("behind", &self.behind).finish_non_exhaustive()
    }
}
