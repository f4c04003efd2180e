//! A temporary directory that only the user of this process can open.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// Its permissions.
const MODE: u32 = 0o700;

/// How many names are tried. Directories of killed processes have the first ones.
const NAMES_MAX: u32 = 1_000;

/// A directory below that of the system for temporary files. It is removed when it is dropped.
#[derive(Debug)]
pub(crate) struct PrivateDirectory {
    path: PathBuf,
}

impl PrivateDirectory {
    /// Creates a new one. A directory that exists is never used: another user may own it.
    ///
    /// # Errors
    /// When it can't be created; the message names it.
    pub(crate) fn create() -> io::Result<Self> {
        let below = std::env::temp_dir();
        let mut result = Err(io::ErrorKind::AlreadyExists.into());
        for number in 0..NAMES_MAX {
            let path = below.join(format!("quire-{}-{number}", std::process::id()));
            result = match DirBuilder::new().mode(MODE).create(&path) {
                Ok(()) => return Ok(PrivateDirectory { path }),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(error),
                Err(error) => {
                    return Err(io::Error::new(
                        error.kind(),
                        format!(
                            "can't create {}: {error}: set TMPDIR to a directory that you can write to",
                            path.display()
                        ),
                    ));
                }
            };
        }
        result
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for PrivateDirectory {
    fn drop(&mut self) {
        // What stays is empty or the socket of a server that could not end.
        let _ = fs::remove_dir_all(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn only_its_user_can_open_it_and_it_is_removed() {
        let (first, second) =
            (PrivateDirectory::create().expect("created"), PrivateDirectory::create().expect("created"));
        assert_ne!(first.path(), second.path());
        let mode = fs::metadata(first.path()).expect("it exists").permissions().mode();
        assert_eq!(mode & 0o777, MODE);
        let path = first.path().to_owned();
        drop(first);
        assert!(!path.exists() && second.path().exists());
    }
}
