//! Drops the kernel's caches of files, so that a read goes to the disk.

use quire_cli::failure::{CommandError, Result};

/// Drops the kernel's caches of all files, except mapped pages that are in use.
///
/// # Errors
/// [`CommandError::NotHere`] without the rights of root.
pub(super) fn forget_files() -> Result {
    let path = "/proc/sys/vm/drop_caches";
    let written = std::fs::write(path, "1\n");
    written.map_err(|error| CommandError::NotHere(format!("can't write {path}, which needs root: {error}")))
}
