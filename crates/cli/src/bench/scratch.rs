//! A folder for the databases of one run, removed when the run ends, however it ends.

use std::fs;
use std::path::{Path, PathBuf};

use crate::failure::{Failure, Result};

/// A folder of this process's own.
#[derive(Debug)]
pub(super) struct Scratch {
    path: PathBuf,
}

impl Scratch {
    /// Makes one below this folder, or below the system's folder for temporary files.
    ///
    /// # Errors
    /// When it can't be made.
    pub(super) fn create(below: Option<&Path>) -> Result<Self> {
        let below = below.map_or_else(std::env::temp_dir, Path::to_owned);
        let path = below.join(format!("quire-bench-{}", std::process::id()));
        fs::create_dir_all(&path).map_err(|error| Failure::at(format_args!("make {}", path.display()), error))?;
        Ok(Scratch { path })
    }

    /// Where it is.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What can't be removed is left to the system: the measurements are right all the same.
        let _ = fs::remove_dir_all(&self.path);
    }
}
