//! Memory that the host of a virtual machine has yet to give.
//!
//! Some hosts take back what memory a machine does not use, and give it again page by page to whoever writes there. A case that fills gigabytes
//! would measure that: so it writes as many zeros to a file first, and removes it, and tells what they took.

use std::fs::{self, File};
use std::hint::black_box;
use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

use crate::failure::{Failure, Result};
use crate::stopwatch::Stopwatch;

/// What is written at a time.
const PIECE_BYTES: usize = 2 << 20;

/// Writes so many zeros, at least, to a file that is then removed; says how long the writing took.
///
/// # Errors
/// As of the system.
pub(super) fn write_zeros(path: &Path, bytes: u64) -> Result<Duration> {
    let write = || -> io::Result<Duration> {
        let mut file = File::create_new(path)?;
        // Written to before it is read: otherwise the system would have to find each page of it meanwhile.
        let mut zeros = vec![1; PIECE_BYTES];
        black_box(&mut zeros).fill(0);
        let watch = Stopwatch::start();
        (0..bytes.div_ceil(PIECE_BYTES as u64)).try_for_each(|_| file.write_all(&zeros))?;
        let took = watch.elapsed();
        fs::remove_file(path)?;
        Ok(took)
    };
    write().map_err(|error| Failure::at("write zeros beside a case", error))
}
