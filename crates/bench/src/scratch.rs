//! A directory for the databases of one run. The run removes it at its end; the next run removes
//! that of a killed run.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use quire_cli::failure::{CommandError, Result};

/// The prefix of the directory's name. The process id follows.
const PREFIX: &str = "quire-bench-";
/// A file in the directory that is locked during the run. A directory without it belongs to another
/// program.
const RUNNING: &str = "running";

/// A directory of this process.
#[derive(Debug)]
pub(super) struct ScratchDirectory {
    path: PathBuf,
    /// The lock. The system releases it at the end of the process, however that ends.
    _running: File,
}

impl ScratchDirectory {
    /// Creates a directory below `parent`, or below the system's temporary directory.
    ///
    /// # Errors
    /// When it can't be created.
    pub(super) fn create(below: Option<&Path>) -> Result<Self> {
        let below = below.map_or_else(std::env::temp_dir, Path::to_owned);
        remove_left(&below);
        let path = below.join(format!("{PREFIX}{}", std::process::id()));
        let running = fs::create_dir_all(&path).and_then(|()| File::create(path.join(RUNNING)));
        let running = running.and_then(|running| running.lock().map(|()| running));
        let running = running.map_err(|error| CommandError::at(format_args!("make {}", path.display()), error))?;
        Ok(ScratchDirectory { path, _running: running })
    }

    /// The path.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

/// Removes the directories of runs that were killed.
fn remove_left(below: &Path) {
    for entry in fs::read_dir(below).into_iter().flatten().flatten() {
        let is_named_so = entry.file_name().to_str().is_some_and(|name| name.starts_with(PREFIX));
        if is_named_so && File::open(entry.path().join(RUNNING)).is_ok_and(|running| running.try_lock().is_ok()) {
            // It belongs to another user.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

impl Drop for ScratchDirectory {
    fn drop(&mut self) {
        // A directory that can't be removed stays. The measurements are not affected.
        let _ = fs::remove_dir_all(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_leftovers_of_a_killed_run_are_removed_and_nothing_else() {
        let place = tempfile::tempdir().expect("a folder");
        let [left, going_on, other] =
            ["quire-bench-1", "quire-bench-2", "quire-bench-3"].map(|name| place.path().join(name));
        [&left, &going_on, &other].into_iter().for_each(|path| fs::create_dir(path).expect("made"));
        File::create(left.join(RUNNING)).expect("made");
        let running = File::create(going_on.join(RUNNING)).expect("made");
        running.lock().expect("locked");
        let scratch = ScratchDirectory::create(Some(place.path())).expect("made");
        assert_eq!([&left, &going_on, &other].map(|path| path.exists()), [false, true, true]);
        let own = scratch.path().to_owned();
        drop(scratch);
        assert!(!own.exists());
    }
}
