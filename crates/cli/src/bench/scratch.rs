//! A folder for the databases of one run, removed when the run ends; that of a run that was killed by the next one.

use std::fs;
use std::path::{Path, PathBuf};

use crate::failure::{Failure, Result};

/// What the name begins with; the number of the process follows.
const PREFIX: &str = "quire-bench-";

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
        remove_left(&below);
        let path = below.join(format!("{PREFIX}{}", std::process::id()));
        fs::create_dir_all(&path).map_err(|error| Failure::at(format_args!("make {}", path.display()), error))?;
        Ok(Scratch { path })
    }

    /// Where it is.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

/// Removes what runs have left that were killed.
fn remove_left(below: &Path) {
    for entry in fs::read_dir(below).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let process: Option<u32> = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.parse().ok());
        if process
            .is_some_and(|process| Path::new("/proc/self").exists() && !Path::new(&format!("/proc/{process}")).exists())
        {
            // Somebody else's stays.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What can't be removed is left to the system: the measurements are right all the same.
        let _ = fs::remove_dir_all(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_run_left_that_was_killed_goes_and_nothing_else() {
        let place = tempfile::tempdir().expect("a folder");
        // No process has so high a number on Linux.
        let [left, alive, other] =
            ["quire-bench-4194305", "quire-bench-1", "quire-bench-x"].map(|name| place.path().join(name));
        [&left, &alive, &other].into_iter().for_each(|path| fs::create_dir(path).expect("made"));
        let scratch = Scratch::create(Some(place.path())).expect("made");
        assert_eq!([&left, &alive, &other].map(|path| path.exists()), [false, true, true]);
        let own = scratch.path().to_owned();
        drop(scratch);
        assert!(!own.exists());
    }
}
