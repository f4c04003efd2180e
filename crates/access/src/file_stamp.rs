//! Whether a file has changed.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// A file at one moment. Another stamp means that the file has changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FileStamp(Option<(u64, u64, i64, i64, u64)>);

impl FileStamp {
    pub(crate) fn of(path: &Path) -> Self {
        let stamp = |file: fs::Metadata| (file.dev(), file.ino(), file.mtime(), file.mtime_nsec(), file.len());
        FileStamp(fs::metadata(path).ok().map(stamp))
    }
}
