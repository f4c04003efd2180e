//! The size of a database on the disk.

use std::path::Path;

use quire_cli::failure::{CommandError, Result};

/// Counts the bytes of every file in a directory, up to its last byte that is not zero. Segments
/// are allocated before they are used.
pub(super) fn bytes_of(folder: &Path) -> Result<u64> {
    let failed = |error| CommandError::at(format_args!("read {}", folder.display()), error);
    let mut bytes = 0;
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        bytes += match path.is_dir() {
            true => bytes_of(&path)?,
            false => {
                let bytes = std::fs::read(&path).map_err(failed)?;
                bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last as u64 + 1)
            }
        };
    }
    Ok(bytes)
}
