//! The permissions of a database's directory.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::{Error, Result};

/// The bits of a mode that give permissions to users other than the owner.
const OTHERS: u32 = 0o077;

/// Returns the mode of the directory of a database or a backup, if it gives permissions to users
/// other than the owner. Quire creates directories for the owner alone.
///
/// ```
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("data");
/// drop(quire::Database::open(&path)?);
/// assert_eq!(quire::tools::open_to_others(&path)?, None);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`ErrorKind::Io`](crate::ErrorKind::Io) when there is no such directory.
pub fn open_to_others(directory: &Path) -> Result<Option<u32>> {
    let metadata = std::fs::metadata(directory).map_err(|error| Error::io("stat", directory, error))?;
    let mode = metadata.mode() & 0o777;
    Ok((mode & OTHERS != 0).then_some(mode))
}
