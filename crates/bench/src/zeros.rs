//! Memory that the host of a virtual machine has not given yet.
//!
//! Some hosts take back unused memory, and return it page by page at the next write. A case that
//! fills gigabytes would measure that. It therefore writes as many zeros to a file first, removes
//! the file, and reports the time.

use std::fs::{self, File};
use std::hint::black_box;
use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

use quire_cli::failure::{CommandError, Result};
use quire_cli::stopwatch::Stopwatch;

/// The bytes of one write.
const PIECE_BYTES: usize = 2 << 20;

/// Writes at least `bytes` zeros to a file, and removes the file. Returns the time of the writes.
///
/// # Errors
/// The errors of the system.
pub(super) fn write_zeros(path: &Path, bytes: u64) -> Result<Duration> {
    let write = || -> io::Result<Duration> {
        let mut file = File::create_new(path)?;
        // Written before it is read. Otherwise the system would have to map each page meanwhile.
        let mut zeros = vec![1; PIECE_BYTES];
        black_box(&mut zeros).fill(0);
        let watch = Stopwatch::start();
        (0..bytes.div_ceil(PIECE_BYTES as u64)).try_for_each(|_| file.write_all(&zeros))?;
        let took = watch.elapsed();
        fs::remove_file(path)?;
        Ok(took)
    };
    write().map_err(|error| CommandError::at("write zeros during a case", error))
}
