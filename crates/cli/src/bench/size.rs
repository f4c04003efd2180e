//! How much disk a database takes.

use std::path::Path;

use crate::failure::{Failure, Result};

/// The bytes of every file in a folder, up to the last of each that is not zero: segments are allocated before they are used.
pub(super) fn bytes_of(folder: &Path) -> Result<u64> {
    let failed = |error| Failure::at(format_args!("read {}", folder.display()), error);
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
