//! Having the kernel forget what it has of files, so that a read goes to the disk.

use crate::failure::{Failure, Result};

/// Has the kernel forget what it has of files, of whatever program's; but for what is mapped and was looked at.
///
/// # Errors
/// [`Failure::NotHere`] without the rights of root.
pub(super) fn forget_files() -> Result {
    let path = "/proc/sys/vm/drop_caches";
    let written = std::fs::write(path, "1\n");
    written.map_err(|error| Failure::NotHere(format!("can't write {path}, which takes the rights of root: {error}")))
}
